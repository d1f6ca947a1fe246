//! Settings in TOML: our entry is a table of its own at the end of the file, or a member where the servers are written
//! as an inline table.

use serde_json::{Map, Value};
use toml_edit::{Document, Item, TableLike, Value as Scalar};

use super::settings::SettingsError;
use super::splice::Splices;

/// A text that was read.
pub(super) struct Toml<'t> {
    text: &'t str,
    document: Document<&'t str>,
}

// === impl Toml ===

impl<'t> Toml<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Self, SettingsError> {
        let document = Document::parse(text).map_err(|error| {
            let message = format!("not valid TOML: {}", error.message().lines().next().unwrap_or_default());
            SettingsError::at(text, error.span().map_or(0, |span| span.start), message)
        })?;
        Ok(Self { text, document })
    }

    /// What it says; dates are texts.
    pub(super) fn value(&self) -> Value {
        of_table(self.document.as_table())
    }

    pub(super) fn insert(&self, container: &str, name: &str, entry: &Value) -> Result<Splices, SettingsError> {
        let members = entry.as_object().into_iter().flatten();
        let members: Vec<String> = members.map(|(key, value)| member(key, value)).collect();
        let name = bare_or_quoted(name);
        match self.document.get(container) {
            Some(Item::Value(Scalar::InlineTable(table))) => {
                let Some(span) = table.span() else { return Err(SettingsError::Unsure) };
                let comma = if table.is_empty() { " " } else { "," };
                let text = format!(" {name} = {{ {} }}{comma}", members.join(", "));
                Ok(Splices::new(vec![Splices::insertion(span.start + 1, text)]))
            }
            None | Some(Item::Table(_) | Item::None) => {
                let newline = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
                let end = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { newline };
                let blank = if self.text.trim().is_empty() { "" } else { newline };
                let mut text = format!("{end}{blank}[{container}.{name}]{newline}");
                for member in members {
                    text.push_str(&member);
                    text.push_str(newline);
                }
                Ok(Splices::new(vec![Splices::insertion(self.text.len(), text)]))
            }
            Some(other) => {
                let start = other.span().map_or(0, |span| span.start);
                Err(SettingsError::at(self.text, start, format!("expected a table in `{container}`")))
            }
        }
    }

    pub(super) fn remove(&self, container: &str, name: &str) -> Result<Option<Splices>, SettingsError> {
        let Some(servers) = self.document.get(container).and_then(Item::as_table_like) else { return Ok(None) };
        let Some((key, item)) = servers.get_key_value(name) else { return Ok(None) };
        let splice = match item {
            Item::Table(table) if !table.is_dotted() && !table.is_implicit() => {
                let start = table.span().ok_or(SettingsError::Unsure)?.start;
                let end = end_of(item).ok_or(SettingsError::Unsure)?;
                let line = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
                // The blank line above came with the table.
                let above = self.text[..line].trim_end_matches(['\n', '\r']);
                let blank = &self.text[above.len()..line];
                let keep = blank.find('\n').map_or(0, |first| first + 1);
                Splices::removal(self.text, above.len() + keep..self.line_end(end))
            }
            Item::Value(value) => {
                let start = key.span().ok_or(SettingsError::Unsure)?.start;
                let end = value.span().ok_or(SettingsError::Unsure)?.end;
                let is_inline = self.document.get(container).is_some_and(Item::is_inline_table);
                self.member(start, end, is_inline)
            }
            _ => return Err(SettingsError::Unsure),
        };
        Ok(Some(Splices::new(vec![splice])))
    }

    /// One member: its line, or its part of an inline table.
    fn member(&self, start: usize, end: usize, is_inline: bool) -> super::splice::Splice {
        if !is_inline {
            let line = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
            return Splices::removal(self.text, line..self.line_end(end));
        }
        let begin = self.text[..start].trim_end().len();
        let after = &self.text[end..];
        let blanks = after.len() - after.trim_start().len();
        if after.trim_start().starts_with(',') {
            return Splices::removal(self.text, begin..end + blanks + 1);
        }
        let begin = if self.text[..begin].ends_with(',') { begin - 1 } else { begin };
        Splices::removal(self.text, begin..end)
    }

    /// Behind the line end of a place.
    fn line_end(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline + 1)
    }
}

/// The furthest place that belongs to a value.
fn end_of(item: &Item) -> Option<usize> {
    let own = item.span().map(|span| span.end);
    let inner = item.as_table_like().and_then(|table| table.iter().filter_map(|(_, item)| end_of(item)).max());
    own.max(inner)
}

fn of_table(table: &dyn TableLike) -> Value {
    let members = table.iter().filter_map(|(key, item)| Some((key.to_owned(), of_item(item)?)));
    Value::Object(members.collect::<Map<_, _>>())
}

fn of_item(item: &Item) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(of_scalar(value)),
        Item::Table(table) => Some(of_table(table)),
        Item::ArrayOfTables(tables) => Some(Value::Array(tables.iter().map(|table| of_table(table)).collect())),
    }
}

fn of_scalar(value: &Scalar) -> Value {
    match value {
        Scalar::String(text) => Value::from(text.value().as_str()),
        Scalar::Integer(number) => Value::from(*number.value()),
        Scalar::Float(number) => Value::from(*number.value()),
        Scalar::Boolean(flag) => Value::from(*flag.value()),
        Scalar::Datetime(date) => Value::from(date.value().to_string()),
        Scalar::Array(items) => Value::Array(items.iter().map(of_scalar).collect()),
        Scalar::InlineTable(table) => of_table(table),
    }
}

/// A key as TOML.
fn bare_or_quoted(key: &str) -> String {
    let is_bare =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_bare { key.to_owned() } else { Scalar::from(key).to_string() }
}

/// A value as TOML: a map is an inline table.
/// `key = value` on a line.
pub(super) fn member(key: &str, value: &Value) -> String {
    format!("{} = {}", bare_or_quoted(key), scalar(value))
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(scalar).collect::<Vec<_>>().join(", ")),
        Value::String(text) => Scalar::from(text.as_str()).to_string(),
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(key, value)| format!("{} = {}", bare_or_quoted(key), scalar(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        other => other.to_string(),
    }
}
