//! Settings in JSON with comments and trailing commas: read into a tree of places, changed by pieces of text.

use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

use super::settings::SettingsError;
use super::splice::{Splice, Splices};

/// What is let pass: comments and trailing commas, and nothing else that is not JSON.
const LENIENT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A text that was read.
pub(super) struct Json<'t> {
    text: &'t str,
    /// Nothing when the text is blank or only comments.
    root: Option<Node<'t>>,
}

/// How a text is laid out.
struct Layout {
    newline: &'static str,
    /// One level.
    unit: String,
    /// Everything stands on one line.
    is_flat: bool,
}

/// What follows a place on its line.
struct Rest {
    /// Behind the last comment of the line.
    end: usize,
    /// Whether the line ends there.
    ends_line: bool,
}

// === impl Json ===

impl<'t> Json<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Self, SettingsError> {
        let parsed = parse_to_ast(text, &CollectOptions::default(), &LENIENT).map_err(|error| {
            let message = format!("not valid JSON: {}", lower_case(&error.kind().to_string()));
            SettingsError::at(text, error.range().start, message)
        })?;
        Ok(Self { text, root: parsed.value })
    }

    /// What it says, without places and comments.
    pub(super) fn value(&self) -> Value {
        self.root.clone().map_or(Value::Null, Value::from)
    }

    /// Puts a member into the object of a key at the top; the object is made if it is not there.
    pub(super) fn insert(&self, container: &str, name: &str, entry: &Value) -> Result<Splices, SettingsError> {
        let layout = Layout::of(self.text, self.top()?);
        let Some(top) = self.top()? else {
            return Ok(Splices::new(vec![self.whole(container, name, entry, &layout)]));
        };
        let splices = match self.object_of(top, container)? {
            Some(object) => self.member(object, name, entry, &layout),
            None => self.member(top, container, &serde_json::json!({ name: entry }), &layout),
        };
        Ok(Splices::new(splices))
    }

    /// Takes a member out of the object of a key, and the object as well where nothing is left in it and
    /// `with_container` says so. `None` when there is no such member.
    pub(super) fn remove(
        &self,
        container: &str,
        name: &str,
        with_container: bool,
    ) -> Result<Option<Splices>, SettingsError> {
        let Some(top) = self.top()? else { return Ok(None) };
        let Some(object) = self.object_of(top, container)? else { return Ok(None) };
        let Some(index) = single(object, name, self.text)? else { return Ok(None) };
        if object.properties.len() == 1 && with_container {
            let outer = single(top, container, self.text)?.unwrap_or(0);
            return Ok(Some(Splices::new(self.without(top, outer))));
        }
        Ok(Some(Splices::new(self.without(object, index))))
    }

    fn top(&self) -> Result<Option<&Object<'t>>, SettingsError> {
        match &self.root {
            None => Ok(None),
            Some(Node::Object(object)) => Ok(Some(object)),
            Some(other) => {
                Err(SettingsError::at(self.text, other.start(), "expected an object at the top of the file"))
            }
        }
    }

    fn object_of<'a>(&self, top: &'a Object<'t>, key: &str) -> Result<Option<&'a Object<'t>>, SettingsError> {
        let Some(index) = single(top, key, self.text)? else { return Ok(None) };
        match &top.properties[index].value {
            Node::Object(object) => Ok(Some(object)),
            other => Err(SettingsError::at(self.text, other.start(), format!("expected an object in `{key}`"))),
        }
    }

    /// A whole document where there is none yet, behind whatever comments there are.
    fn whole(&self, container: &str, name: &str, entry: &Value, layout: &Layout) -> Splice {
        let document = serde_json::json!({ container: { name: entry } });
        let before = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { layout.newline };
        let text = format!("{before}{}{}", pretty(&document, layout, ""), layout.newline);
        Splices::insertion(self.text.len(), text)
    }

    /// A new last member of an object.
    fn member(&self, object: &Object<'t>, key: &str, value: &Value, layout: &Layout) -> Vec<Splice> {
        let Some(last) = object.properties.last() else { return vec![self.only_member(object, key, value, layout)] };
        let comma = comma_after(self.text, last.end());
        let anchor = comma.map_or(last.end(), |at| at + 1);
        let trailing = if comma.is_some() { "," } else { "" };
        let mut splices = Vec::new();
        if comma.is_none() {
            splices.push(Splices::insertion(last.end(), ","));
        }
        match indent_of(self.text, last.start()).filter(|_| !layout.is_flat) {
            Some(indent) => {
                let rest = rest_of_line(self.text, anchor);
                let at = if rest.ends_line { rest.end } else { anchor };
                let member = format!("{}: {}", quoted(key), pretty(value, layout, indent));
                splices.push(Splices::insertion(at, format!("{}{indent}{member}{trailing}", layout.newline)));
            }
            None => splices.push(Splices::insertion(anchor, format!(" {}: {}{trailing}", quoted(key), compact(value)))),
        }
        splices
    }

    /// The first member of an object that has none.
    fn only_member(&self, object: &Object<'t>, key: &str, value: &Value, layout: &Layout) -> Splice {
        let (inside, close) = (object.start() + 1, object.end() - 1);
        if layout.is_flat {
            return Splices::insertion(inside, format!("{}: {}", quoted(key), compact(value)));
        }
        let outer = line_indent(self.text, object.start());
        let indent = format!("{outer}{}", layout.unit);
        let at = last_comment_end(self.text, inside, close);
        let rest = &self.text[at..close];
        let behind = if rest.contains('\n') { String::new() } else { format!("{}{outer}", layout.newline) };
        let member = format!("{}: {}", quoted(key), pretty(value, layout, &indent));
        Splices::insertion(at, format!("{}{indent}{member}{behind}", layout.newline))
    }

    /// An object without one of its members. Comments stay, and so does whether the last member has a comma.
    fn without(&self, object: &Object<'t>, index: usize) -> Vec<Splice> {
        let property = &object.properties[index];
        let mut splices = Vec::new();
        let begin = begin_of(self.text, property, object.start() + 1);
        let comma = comma_after(self.text, property.end());
        match comma {
            Some(comma) if self.text[property.end()..comma].trim().is_empty() => {
                splices.push(Splices::removal(self.text, begin..comma + 1));
            }
            Some(comma) => {
                splices.push(Splices::removal(self.text, begin..property.end()));
                splices.push(Splices::removal(self.text, comma..comma + 1));
            }
            None => {
                splices.push(Splices::removal(self.text, begin..property.end()));
                let before = index.checked_sub(1).and_then(|before| object.properties.get(before));
                // The member before becomes the last, which has no comma in this object.
                if let Some(comma) = before.and_then(|before| comma_after(self.text, before.end())) {
                    if comma + 1 == begin {
                        splices.pop();
                        splices.push(Splices::removal(self.text, comma..property.end()));
                    } else {
                        splices.push(Splices::removal(self.text, comma..comma + 1));
                    }
                }
            }
        }
        splices
    }
}

// === impl Layout ===

impl Layout {
    fn of(text: &str, top: Option<&Object<'_>>) -> Self {
        let newline = match text.find('\n') {
            Some(at) if text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        };
        let first = top.and_then(|top| top.properties.first());
        let unit = first.and_then(|first| indent_of(text, first.start())).filter(|unit| !unit.is_empty());
        let is_flat = first.is_some() && top.is_some_and(|top| !text[top.start()..top.end()].contains('\n'));
        Self { newline, unit: unit.unwrap_or("  ").to_owned(), is_flat }
    }
}

/// The index of the only member of a name. Twice the same is refused: which of them counts depends on the reader.
fn single(object: &Object<'_>, name: &str, text: &str) -> Result<Option<usize>, SettingsError> {
    let mut found = object.properties.iter().enumerate().filter(|(_, property)| property.name.as_str() == name);
    let first = found.next().map(|(index, _)| index);
    match found.next() {
        Some((_, again)) => Err(SettingsError::at(text, again.start(), format!("`{name}` is there twice"))),
        None => Ok(first),
    }
}

/// The indent of what stands first on its line; `None` for what stands behind something else.
fn indent_of(text: &str, at: usize) -> Option<&str> {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let indent = &text[line..at];
    (line > 0 && indent.bytes().all(|byte| matches!(byte, b' ' | b'\t'))).then_some(indent)
}

/// The blanks that the line of a place begins with.
fn line_indent(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let blanks = text[line..at].bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[line..line + blanks]
}

/// The end of the comment that begins at a place.
fn comment_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    if rest.starts_with("//") {
        let line = rest.find('\n').unwrap_or(rest.len());
        return Some(at + rest[..line].trim_end_matches('\r').len());
    }
    rest.starts_with("/*").then(|| rest[2..].find("*/").map_or(text.len(), |end| at + 2 + end + 2))
}

/// The next place that is neither blank nor comment.
fn skip(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        match comment_end(text, at) {
            Some(end) => at = end,
            None => return at,
        }
    }
}

/// Where the comma behind a value is.
fn comma_after(text: &str, end: usize) -> Option<usize> {
    let at = skip(text, end);
    text[at..].starts_with(',').then_some(at)
}

fn rest_of_line(text: &str, from: usize) -> Rest {
    let (mut at, mut end) = (from, from);
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
        match comment_end(text, at) {
            Some(after) => (at, end) = (after, after),
            None => {
                let rest = &text[at..];
                return Rest { end, ends_line: rest.is_empty() || rest.starts_with(['\n', '\r']) };
            }
        }
    }
}

/// Behind the last comment between two places that have nothing but blanks and comments between them.
fn last_comment_end(text: &str, from: usize, to: usize) -> usize {
    let (mut at, mut end) = (from, from);
    loop {
        let rest = &text[at..to];
        at += rest.len() - rest.trim_start().len();
        match comment_end(text, at).filter(|after| *after <= to) {
            Some(after) => (at, end) = (after, after),
            None => return end,
        }
    }
}

/// Where a member begins, with the blanks before it. The end of a line that ends in a comment stays when something
/// else would follow on that line.
fn begin_of(text: &str, property: &ObjectProp<'_>, inside: usize) -> usize {
    let before = &text[inside..property.start()];
    let begin = inside + before.trim_end().len();
    let line = text[..begin].rfind('\n').map_or(0, |newline| newline + 1);
    let after = comma_after(text, property.end()).map_or(property.end(), |comma| comma + 1);
    if text[line.max(inside)..begin].contains("//") && !rest_of_line(text, after).ends_line {
        let blanks = &text[begin..property.start()];
        return begin + blanks.find('\n').map_or(0, |newline| newline + 1);
    }
    begin
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A value on one line.
fn compact(value: &Value) -> String {
    match value {
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(key, value)| format!("{}: {}", quoted(key), compact(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(compact).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// A value with a line for each member of its objects; lists stay on one line.
fn pretty(value: &Value, layout: &Layout, indent: &str) -> String {
    let Value::Object(members) = value else { return compact(value) };
    let newline = layout.newline;
    let deeper = format!("{indent}{}", layout.unit);
    let members: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("{newline}{deeper}{}: {}", quoted(key), pretty(value, layout, &deeper)))
        .collect();
    if members.is_empty() { "{}".to_owned() } else { format!("{{{}{newline}{indent}}}", members.join(",")) }
}

/// A message of the library as a part of a sentence.
fn lower_case(message: &str) -> String {
    let mut chars = message.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
