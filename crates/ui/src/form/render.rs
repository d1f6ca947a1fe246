//! A form as HTML. All text of others is escaped; ids are numbered; names are paths.

use std::fmt::Write;

use super::Form;
use super::controls;
use super::field::{Field, Label, State};
use super::notes;
use super::path::{self, Walk};
use crate::text::{Visible, clipped};

/// Characters of a description that are shown.
const MAX_DESCRIPTION: usize = 1_000;
/// Bytes of HTML that all titles, descriptions and facts of a form may have; for what is more stands `…`. And where the
/// form is to be small.
pub(super) const MAX_PROSE: usize = 128 * 1024;
pub(super) const SHORT_PROSE: usize = 4 * 1024;
/// Faults that the summary names.
const MAX_SUMMARY: usize = 20;

/// Writes one form.
#[derive(Debug)]
pub(super) struct Renderer<'a> {
    pub(super) out: String,
    pub(super) walk: Walk,
    prefix: &'a str,
    ids: usize,
    prose: usize,
    /// The path at or below which the first control gets the focus.
    focus: Option<&'a str>,
    /// What is wrong: the id of the control, the name of the field, the message.
    faults: Vec<(String, String, String)>,
}

/// What a control refers to.
#[derive(Debug, Clone, Default)]
pub(super) struct Control {
    pub(super) id: String,
    /// Attributes that tie it to its notes, beginning with a blank.
    pub(super) attributes: String,
    /// Its notes, as HTML.
    notes: String,
}

/// The whole form.
pub(super) fn render(form: &Form) -> String {
    let (root, digest) = (&form.root, &form.digest);
    let mut renderer = Renderer {
        out: String::new(),
        walk: Walk::default(),
        prefix: &form.prefix,
        ids: 0,
        prose: form.prose,
        focus: form.focus.as_deref(),
        faults: Vec::new(),
    };
    renderer.root(root);
    let body = std::mem::take(&mut renderer.out);
    // The first button is what Enter presses.
    let _ = write!(
        renderer.out,
        "<div class=\"fields\"><button class=\"hidden\" tabindex=\"-1\" aria-hidden=\"true\">Send</button><input type=\"hidden\" \
         name=\"schema:\" value=\"{digest}\">"
    );
    renderer.summary();
    renderer.out + &body + "</div>"
}

/// Text of others inside an element, its invisible characters shown.
pub(super) fn shown(text: &str) -> Visible {
    Visible(text.to_owned())
}

/// Text inside an attribute in double quotes.
pub(super) fn escape(text: &str, out: &mut String) {
    escape_each(text, out, &['&', '<', '>', '\r', '"', '\'']);
}

/// Text inside a textarea, where quotes are what they are.
pub(super) fn escape_content(text: &str, out: &mut String) {
    escape_each(text, out, &['&', '<', '>', '\r']);
}

fn escape_each(mut text: &str, out: &mut String, special: &[char]) {
    while let Some(at) = text.find(special) {
        out.push_str(&text[..at]);
        out.push_str(match text.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            _ => "&#13;",
        });
        text = &text[at + 1..];
    }
    out.push_str(text);
}

// === impl Renderer ===

impl Renderer<'_> {
    fn root(&mut self, root: &Field) {
        match &root.state {
            State::Object { fields, rows } => {
                self.fault_only(root);
                if fields.is_empty() && rows.is_empty() {
                    self.out.push_str("<p class=\"quiet\">Takes no named arguments.</p>");
                }
                self.hidden("open", "1");
                self.out.push_str("<div class=\"top\">");
                controls::presence(self, root);
                self.out.push_str("</div>");
                self.members(root);
            }
            _ => self.field(root),
        }
        if !matches!(root.state, State::Json { .. }) {
            self.out.push_str("<p>");
            self.button("switch", "All of it as JSON", None);
            self.out.push_str("</p>");
        }
    }

    /// What is wrong with a field that has no frame.
    fn fault_only(&mut self, field: &Field) {
        if let Some(message) = &field.wrong {
            let id = self.id();
            let _ = write!(self.out, "<p class=\"wrong\" id=\"{id}\">{}</p>", shown(message));
            self.faults.push((id, self.place(), message.clone()));
        }
    }

    fn summary(&mut self) {
        if self.faults.is_empty() {
            return;
        }
        let count = self.faults.len();
        let things = if count == 1 { "1 thing is".to_owned() } else { format!("{count} things are") };
        let _ = write!(
            self.out,
            "<div class=\"notice bad\" role=\"alert\" tabindex=\"-1\" autofocus><p>{things} wrong:</p><ul>"
        );
        for (id, name, message) in self.faults.iter().take(MAX_SUMMARY) {
            let name =
                if name.is_empty() { String::new() } else { format!("<span class=\"id\">{}</span> ", shown(name)) };
            let _ = write!(self.out, "<li><a href=\"#{id}\">{name}{}</a></li>", shown(message));
        }
        if count > MAX_SUMMARY {
            let _ = write!(self.out, "<li>and {} more</li>", count - MAX_SUMMARY);
        }
        self.out.push_str("</ul></div>");
    }

    /// A field with all that belongs to it.
    pub(super) fn field(&mut self, field: &Field) {
        match &field.state {
            State::Object { .. } | State::List(_) | State::Pick { .. } => self.group(field),
            _ => self.leaf(field),
        }
    }

    fn leaf(&mut self, field: &Field) {
        let control = self.control(field);
        self.out.push_str("<div class=\"field\"><div class=\"top\">");
        let has_control = !field.is_fixed() && !matches!(field.state, State::Folded);
        if has_control {
            let _ = write!(self.out, "<label for=\"{}\">", control.id);
            self.name(field);
            self.out.push_str("</label>");
        } else {
            self.out.push_str("<span class=\"label\">");
            self.name(field);
            self.out.push_str("</span>");
        }
        self.marks(field);
        controls::presence(self, field);
        self.out.push_str("</div>");
        self.notes(field, &control);
        controls::leaf(self, field, &control);
        self.out.push_str("</div>");
    }

    fn group(&mut self, field: &Field) {
        let control = self.control(field);
        let _ = write!(self.out, "<fieldset id=\"{}\"{}><legend>", control.id, control.attributes);
        self.name(field);
        self.out.push_str("</legend><div class=\"top\">");
        self.marks(field);
        controls::presence(self, field);
        self.out.push_str("</div>");
        self.notes(field, &control);
        match &field.state {
            State::Pick { chosen, inner } => {
                controls::picker(self, field, *chosen);
                let mark = self.walk.enter(&path::alternative(*chosen), None);
                match &inner.state {
                    State::Object { .. } => {
                        self.fault_only(inner);
                        self.hidden("open", "1");
                        self.out.push_str("<div class=\"top\">");
                        controls::presence(self, inner);
                        self.out.push_str("</div>");
                        self.members(inner);
                    }
                    _ => self.field(inner),
                }
                self.walk.leave(mark);
            }
            State::List(items) => {
                self.hidden("rows", &items.len().to_string());
                for (index, item) in items.iter().enumerate() {
                    let number = index.to_string();
                    let mark = self.walk.enter(&number, Some(&number));
                    self.out.push_str("<div class=\"item\">");
                    self.field(item);
                    if controls::can_remove(field, index, items.len()) {
                        self.button("remove", "Remove", Some(&format!("Remove item {}", index + 1)));
                    }
                    self.out.push_str("</div>");
                    self.walk.leave(mark);
                }
                if controls::can_add(field, items.len()) {
                    self.adding(field, "Add an item");
                }
            }
            _ => {
                self.hidden("open", "1");
                self.members(field);
            }
        }
        self.out.push_str("</fieldset>");
    }

    /// The fields of an object, the rows of its other properties, and the button for one more.
    fn members(&mut self, field: &Field) {
        let State::Object { fields, rows } = &field.state else { return };
        for child in fields {
            let Label::Property(name) = &child.place.label else { continue };
            let mark = self.walk.enter(&path::step(name), Some(name));
            self.field(child);
            self.walk.leave(mark);
        }
        if !rows.is_empty() {
            self.hidden("rows", &rows.len().to_string());
        }
        for (index, row) in rows.iter().enumerate() {
            let mark = self.walk.enter(&path::row(index), Some(&row.key));
            let id = self.id();
            let focus = self.takes_focus();
            let _ = write!(
                self.out,
                "<div class=\"pair\"><div class=\"field\"><label for=\"{id}\">Key</label><input type=\"text\" id=\"{id}\" name=\""
            );
            self.control_name("key");
            self.out.push_str("\" value=\"");
            escape(&row.key, &mut self.out);
            let _ = write!(self.out, "\" autocomplete=\"off\" spellcheck=\"false\"{focus}></div>");
            self.field(&row.field);
            self.button("remove", "Remove", Some(&format!("Remove row {}", index + 1)));
            self.out.push_str("</div>");
            self.walk.leave(mark);
        }
        if controls::can_add(field, rows.len()) {
            self.adding(field, "Add a property");
        }
    }

    fn adding(&mut self, field: &Field, label: &str) {
        let label_of = plain_name(field);
        let full = if label_of.is_empty() { label.to_owned() } else { format!("{label} to {label_of}") };
        self.out.push_str("<p>");
        self.button("add", label, Some(&full));
        self.out.push_str("</p>");
    }

    /// The name of a field, as HTML.
    fn name(&mut self, field: &Field) {
        match &field.place.label {
            Label::Property(name) => {
                let _ = write!(self.out, "<span class=\"id\">{}</span>", shown(&clipped(name, 200)));
                let bare = |text: &str| text.to_lowercase().replace(['_', '-', ' '], "");
                if let Some(title) = field.shape.title.as_deref().filter(|title| bare(title) != bare(name)) {
                    let title = self.prose(title, 120);
                    let _ = write!(self.out, " <span class=\"title\">{title}</span>");
                }
            }
            _ => {
                let _ = write!(self.out, "{}", shown(&plain_name(field)));
            }
        }
    }

    fn marks(&mut self, field: &Field) {
        let is_own = matches!(field.place.label, Label::Property(_));
        if is_own && field.place.is_required {
            self.out.push_str(" <span class=\"tag\">required</span>");
        }
        if field.shape.is_deprecated {
            self.out.push_str(" <span class=\"tag warn\">deprecated</span>");
        }
    }

    /// A control's id, and the ids of the notes that describe it.
    fn control(&mut self, field: &Field) -> Control {
        let id = self.id();
        let mut described = Vec::new();
        let mut notes = String::new();
        let facts = notes::facts(field);
        if let Some(description) = &field.shape.description {
            let text = self.prose(description.trim(), MAX_DESCRIPTION);
            let dot = if facts.is_empty() || text.ends_with(['.', '!', '?', '…', ':']) { "" } else { "." };
            let _ = write!(notes, "<span class=\"prose\">{text}{dot}</span> ");
        }
        for fact in facts {
            let _ = write!(notes, "<span class=\"fact\">{}.</span> ", self.prose(&fact, MAX_DESCRIPTION));
        }
        if !notes.is_empty() {
            described.push(format!("{id}-n"));
        }
        if let Some(message) = &field.wrong {
            described.push(format!("{id}-w"));
            self.faults.push((id.clone(), self.place(), message.clone()));
        }
        let mut attributes = String::new();
        if !described.is_empty() {
            let _ = write!(attributes, " aria-describedby=\"{}\"", described.join(" "));
        }
        let is_group = matches!(field.state, State::Object { .. } | State::List(_) | State::Pick { .. });
        if field.wrong.is_some() && !is_group {
            attributes.push_str(" aria-invalid=\"true\"");
        }
        Control { id, attributes, notes }
    }

    /// Text that describes, of at most `max` characters, while there is room.
    fn prose(&mut self, text: &str, max: usize) -> String {
        let html = shown(&clipped(text, max)).to_string();
        match self.prose.checked_sub(html.len()) {
            Some(rest) => {
                self.prose = rest;
                html
            }
            None => "…".to_owned(),
        }
    }

    fn notes(&mut self, field: &Field, control: &Control) {
        if !control.notes.is_empty() {
            let _ = write!(self.out, "<div class=\"note\" id=\"{}-n\">{}</div>", control.id, control.notes);
        }
        if let Some(message) = &field.wrong {
            let _ = write!(self.out, "<p class=\"wrong\" id=\"{}-w\">{}</p>", control.id, shown(message));
        }
    }

    /// Where the walk is, for people: the JSON pointer without its first slash.
    fn place(&self) -> String {
        clipped(self.walk.pointer.trim_start_matches('/'), 120)
    }

    pub(super) fn id(&mut self) -> String {
        self.ids += 1;
        format!("{}{}", self.prefix, self.ids)
    }

    /// The attribute of the control that gets the focus, once.
    pub(super) fn takes_focus(&mut self) -> &'static str {
        let is_here = self.focus.is_some_and(|focus| {
            self.walk.control.strip_prefix(focus).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if is_here {
            self.focus = None;
            return " autofocus";
        }
        ""
    }

    /// The name of a control of the field that the walk is at.
    pub(super) fn control_name(&mut self, word: &str) {
        let _ = write!(self.out, "{word}:");
        escape(&self.walk.control, &mut self.out);
    }

    pub(super) fn hidden(&mut self, word: &str, value: &str) {
        self.out.push_str("<input type=\"hidden\" name=\"");
        self.control_name(word);
        let _ = write!(self.out, "\" value=\"{value}\">");
    }

    /// A button that changes the form; `full` is its name for those who do not see where it stands.
    pub(super) fn button(&mut self, word: &str, label: &str, full: Option<&str>) {
        let focus = self.takes_focus();
        self.out.push_str("<button class=\"plain\" name=\"");
        self.control_name(word);
        self.out.push_str("\" value=\"1\"");
        if let Some(full) = full {
            self.out.push_str(" aria-label=\"");
            escape(full, &mut self.out);
            self.out.push('"');
        }
        let _ = write!(self.out, "{focus}>{label}</button>");
    }
}

/// The name of a field in words.
pub(super) fn plain_name(field: &Field) -> String {
    match &field.place.label {
        Label::Property(name) => clipped(name, 200),
        Label::Item(index) => format!("Item {}", index + 1),
        Label::Root if matches!(field.state, State::Json { .. }) => "JSON".to_owned(),
        Label::Root | Label::Row | Label::Alternative => "Value".to_owned(),
    }
}
