//! `/ui/profiles/-/edit`: a profile, new, changed or as a copy of another one, and beside it who would see what, before it
//! is written.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_base::Problem;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::PreviewEditorPage;
use toolcrib_ui::page::preview_editor::{EditorControl, EditorField, Outcome};
use toolcrib_ui::part::{Cell, Column, Section, Table};

use super::edit_outcome::{Change, EditedFile, add_change, again, failed, is_write, write_change};
use super::json::{number, rows, text};
use super::{Page, rendered};
use crate::route::ui::request::Fields;
use crate::route::ui::{PageRequest, write};

pub(super) const PATH: &str = "/ui/profiles/-/edit";

pub(super) const PAGE: Page = Page {
    path: PATH,
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&editor(request, None).await?) }),
    live: None,
};

const EXPOSURES: [&str; 5] = ["meta", "direct", "pinned", "dynamic", "auto"];
const CHANGED: [&str; 2] = ["allow", "hold"];
/// The name of a profile that has none yet, for a preview.
const UNNAMED: &str = "new";

/// What is edited.
struct Subject {
    /// The profile of that name, if it is there.
    name: String,
    /// The one that it is a copy of.
    from: Option<String>,
    /// What the file says, as far as it is shown.
    before: Value,
    /// The file as it is now.
    now: Option<EditedFile>,
}

impl Subject {
    async fn of(request: &PageRequest) -> Result<Self, Problem> {
        let (name, from) = (request.value("name"), request.parameter("from").map(str::to_owned));
        let base = from.clone().unwrap_or_else(|| name.clone());
        let (before, now) = match base.is_empty() {
            true => (json!({}), None),
            false => {
                let there = request.operate("core_profile_get", json!({ "name": base })).await?.to_value();
                let definition = if there["definition"].is_object() { there["definition"].clone() } else { json!({}) };
                (definition, EditedFile::of(&there, "yaml"))
            }
        };
        Ok(Self { name, from, before, now })
    }

    /// Whether its file is there already.
    fn is_there(&self) -> bool {
        self.from.is_none() && !self.name.is_empty()
    }

    /// What the form begins with.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        let before = &self.before;
        let or = |value: &Value, default: Value| if value.is_null() { default } else { value.clone() };
        let mut fields = vec![
            ("title", or(&before["title"], "".into())),
            ("servers", or(&before["servers"], json!(["*"]))),
            ("tools.allow", or(&before["tools"]["allow"], json!(["*"]))),
            ("tools.deny", or(&before["tools"]["deny"], json!([]))),
            ("read_only", or(&before["read_only"], false.into())),
            ("exposure", or(&before["exposure"], EXPOSURES[0].into())),
            ("pinned", or(&before["pinned"], json!([]))),
            ("changed_tools", or(&before["changed_tools"], CHANGED[0].into())),
        ];
        if self.is_new() {
            fields.push(("keys", true.into()));
        }
        fields
    }

    fn is_new(&self) -> bool {
        self.from.is_none() && self.name.is_empty()
    }

    /// What writes what the form holds.
    fn change(&self, typed: &ProfileInput, sent: Option<&Fields>) -> Change {
        let patch = self.patch(&typed.values);
        let (tool, arguments) = match &self.from {
            Some(from) => ("core_profile_clone", json!({ "name": from, "as": typed.as_name, "set": patch })),
            None if self.is_new() => ("core_profile_create", json!({ "name": typed.as_name, "definition": patch })),
            None => ("core_profile_change", json!({ "name": self.name, "set": patch })),
        };
        let name = if self.is_there() { &self.name } else { &typed.as_name };
        let next = format!("/ui/profiles/{}", encoded(name));
        // A copy is about a file that is not there yet.
        let now = self.now.clone().filter(|_| self.is_there());
        let opened = match sent {
            Some(sent) => EditedFile::sent(sent).filter(|_| self.is_there()),
            None => now.clone(),
        };
        Change { tool, arguments, next, opened, now }
    }

    /// What differs between the form and the file, as a merge patch.
    fn patch(&self, typed: &[(&'static str, Value)]) -> Map<String, Value> {
        let mut patch = Map::new();
        for ((name, was), (_, now)) in self.fields().into_iter().zip(typed) {
            match name {
                "keys" if *now == Value::Bool(true) => {
                    patch.insert("keys".to_owned(), json!([]));
                }
                _ if was == *now || name == "keys" => {}
                "title" if now == "" => {
                    patch.insert("title".to_owned(), Value::Null);
                }
                _ => match name.split_once('.') {
                    Some((above, name)) => {
                        let members = patch.entry(above).or_insert_with(|| json!({}));
                        members[name] = now.clone();
                    }
                    None => {
                        patch.insert(name.to_owned(), now.clone());
                    }
                },
            }
        }
        patch
    }
}

/// The editor after the form was sent, or changed.
pub(in crate::route::ui) async fn post(request: &PageRequest, fields: &Fields) -> Result<Response<Body>, Problem> {
    if is_write(fields) {
        let subject = Subject::of(request).await?;
        let change = subject.change(&ProfileInput::of(&subject, Some(fields)), Some(fields));
        return match write_change(request, &change, fields).await {
            Ok(response) => Ok(response),
            Err(failed) => Ok(again(request, editor(request, Some(fields)).await?, &failed)),
        };
    }
    let text = rendered(&editor(request, Some(fields)).await?)?;
    Ok(write::html(&request.head.headers, StatusCode::OK, text))
}

/// What the form holds.
struct ProfileInput {
    values: Vec<(&'static str, Value)>,
    /// The name of a new one.
    as_name: String,
}

impl ProfileInput {
    fn of(subject: &Subject, sent: Option<&Fields>) -> Self {
        let begins = subject.fields();
        let values = match sent {
            Some(sent) => begins.iter().map(|(name, was)| (*name, typed(sent, name, was))).collect(),
            None => begins,
        };
        let as_name = sent.and_then(|sent| sent.text("name")).unwrap_or_default().trim().to_owned();
        Self { values, as_name }
    }
}

async fn editor(request: &PageRequest, sent: Option<&Fields>) -> Result<PreviewEditorPage, Problem> {
    let subject = Subject::of(request).await?;
    let typed = ProfileInput::of(&subject, sent);
    let outcome = outcome(request, &subject, &typed, sent).await;
    let ProfileInput { values, as_name } = typed;
    let mut fields = Vec::new();
    if !subject.is_there() {
        fields.push(EditorField {
            name: "name",
            label: "Name",
            note: "It stands in the URL for clients: a-z, 0-9 and `-`.",
            control: EditorControl::Line(as_name),
        });
    }
    fields.extend(values.iter().map(|(name, value)| field(name, value)));
    let shown = |name: &str| ("/ui/profiles/".to_owned() + &encoded(name), name.to_owned());
    let mut above = vec![("/ui/profiles".to_owned(), "Profiles".to_owned())];
    let (title, intro) = match &subject.from {
        Some(from) => {
            above.push(shown(from));
            (format!("Copy {from}"), "Keys are not copied: a copy of a profile with keys opens for none at first.")
        }
        None if subject.is_new() => {
            ("Add a profile".to_owned(), "Clients with its URL see what it shows, and nothing else.")
        }
        None => {
            above.push(shown(&subject.name));
            (
                format!("Edit {}", subject.name),
                "What this form does not show of the file stays as it is: “Whole definition” on the profile's page has \
                 all of it.",
            )
        }
    };
    Ok(PreviewEditorPage {
        frame: request.frame(&title),
        above,
        intro: intro.to_owned(),
        action: request.here(),
        actions: Vec::new(),
        fields,
        outcome,
    })
}

/// What a field of the form holds now.
fn typed(sent: &Fields, name: &str, was: &Value) -> Value {
    let text = sent.text(name).unwrap_or_default();
    match was {
        Value::Bool(_) => (text == "true").into(),
        Value::Array(_) => text.lines().map(str::trim).filter(|line| !line.is_empty()).collect(),
        _ => text.trim().into(),
    }
}

fn field(name: &'static str, value: &Value) -> EditorField {
    let lines = |rows| {
        let lines: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        EditorControl::Lines(rows, lines.join("\n"))
    };
    let line = || value.as_str().unwrap_or_default().to_owned();
    let choice = |options: &[&str]| EditorControl::Choice(options.iter().map(|it| (*it).to_owned()).collect(), line());
    let is_on = || EditorControl::Check(*value == Value::Bool(true));
    let (label, note, control) = match name {
        "title" => ("Title", "For people.", EditorControl::Line(line())),
        "servers" => ("Servers", "Patterns, one a line; `*` is all. Without a line it shows nothing.", lines(3)),
        "tools.allow" => ("Tools that it allows", "Patterns of `server/tool`, one a line.", lines(4)),
        "tools.deny" => ("Tools that it denies", "They win over what is allowed.", lines(3)),
        "read_only" => ("Only tools that say that they only read", "`readOnlyHint: true` of the server.", is_on()),
        "exposure" => (
            "How tools are listed",
            "`meta`: find, describe, call. `direct`: all. `pinned`: some, the rest by `meta`. `dynamic`: loaded ones. \
             `auto`: by their number.",
            choice(&EXPOSURES),
        ),
        "pinned" => {
            ("Tools that are listed where tools are pinned", "Patterns of `server/tool`, one a line.", lines(3))
        }
        "changed_tools" => (
            "Tools that are not as they were approved",
            "`hold` hides them until someone approves them.",
            choice(&CHANGED),
        ),
        _ => ("It opens with a key only", "Without, everyone who reaches this gateway may use it.", is_on()),
    };
    EditorField { name, label, note, control }
}

/// What would come of it: the file, who sees what, and the button that writes it.
async fn outcome(request: &PageRequest, subject: &Subject, typed: &ProfileInput, sent: Option<&Fields>) -> Outcome {
    let patch = subject.patch(&typed.values);
    let is_named = subject.is_there() || !typed.as_name.is_empty();
    let shown_name = if is_named { &*typed.as_name } else { UNNAMED };
    let asked = match &subject.from {
        Some(from) => json!({ "name": shown_name, "from": from, "set": patch }),
        None if subject.is_new() => json!({ "name": shown_name, "definition": patch }),
        None => json!({ "name": subject.name, "set": patch }),
    };
    let change = subject.change(typed, sent);
    let hidden = change.opened.clone().map(EditedFile::hidden).unwrap_or_default();
    let preview = match request.operate("core_profile_preview", asked).await {
        Ok(preview) => preview.to_value(),
        Err(problem) => return Outcome { hidden, ..failed(&problem) },
    };
    let mut outcome = Outcome { summary: summary(&preview), hidden, ..Outcome::default() };
    match sent {
        _ if !is_named => outcome.summary = format!("Give it a name. {}", outcome.summary),
        _ if subject.is_there() && patch.is_empty() && change.opened == change.now => {
            outcome.summary = format!("Nothing is changed. {}", outcome.summary);
        }
        Some(sent) => add_change(request, &mut outcome, &change, sent).await,
        None => {}
    }
    outcome.sections.extend(seen(&preview));
    outcome
}

/// What changes for clients, in a sentence.
fn summary(preview: &Value) -> String {
    let (after, before) = (&preview["after"], &preview["before"]);
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let (comes, goes) = (count(&preview["comesTotal"]), count(&preview["goesTotal"]));
    let was = match before.is_object() {
        true => format!(" (now {})", count(&before["listed"])),
        false => String::new(),
    };
    let tokens = format!(
        "A client loads {} tokens{was}; the definitions of all its tools take {}",
        count(&after["listed"]),
        count(&after["everything"])
    );
    format!("{} tools: {comes} come, {goes} go. {tokens}.", count(&after["tools"]))
}

/// Who would see what, and the tools that come and go.
fn seen(preview: &Value) -> Vec<Section> {
    let who = rows(preview, "who").iter().map(|row| {
        let before = if row["before"].is_null() { Cell::Text("–".to_owned()) } else { number(row, "before") };
        vec![Cell::Text(text(row, "who")), before, number(row, "tools")]
    });
    let columns = vec![Column::text("Who"), Column::number("Tools now"), Column::number("Then")];
    let table = Table { label: "Who sees how many tools".into(), columns, rows: who.collect() };
    let title = match preview["takesKey"] == true {
        true => "Who sees what, of those with a key",
        false => "Who sees what",
    };
    let mut sections = vec![Section::Table { title: title.into(), table, empty: String::new() }];
    for (key, total, title) in [("comes", "comesTotal", "Tools that come"), ("goes", "goesTotal", "Tools that go")] {
        let named = rows(preview, key);
        if named.is_empty() {
            continue;
        }
        let rows =
            named.iter().filter_map(Value::as_str).map(|id| vec![Cell::link(format!("/ui/tools/{}", encoded(id)), id)]);
        let table = Table { label: title.to_owned(), columns: vec![Column::text("Tool")], rows: rows.collect() };
        let all = preview[total].as_u64().unwrap_or_default();
        let title = format!("{title}: {all}");
        sections.push(Section::Table { title, table, empty: String::new() });
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_that_is_sent_as_it_was_changes_nothing_and_else_only_what_was_typed() {
        let subject = Subject {
            name: "team".to_owned(),
            from: None,
            before: json!({ "name": "team", "servers": ["kit"], "tools": { "deny": ["kit/x"] }, "keys": "****" }),
            now: None,
        };
        let begins = subject.fields();
        assert_eq!(subject.patch(&begins), Map::new());
        let fields = Fields(vec![
            ("title".into(), String::new()),
            ("servers".into(), "kit\r\nother\r\n".into()),
            ("tools.allow".into(), "*".into()),
            ("tools.deny".into(), String::new()),
            ("exposure".into(), "meta".into()),
            ("pinned".into(), String::new()),
            ("changed_tools".into(), "allow".into()),
        ]);
        let typed: Vec<_> = begins.iter().map(|(name, was)| (*name, typed(&fields, name, was))).collect();
        let expected = json!({ "servers": ["kit", "other"], "tools": { "deny": [] } });
        assert_eq!(Value::Object(subject.patch(&typed)), expected);
    }
}
