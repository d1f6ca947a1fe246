//! `toolcrib get`: things by name, each as a table of what is known of it; without a name the list.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::{Raw, method};

use super::{describe, list};
use crate::client::{Client, ClientFlags};
use crate::home::Environment;
use crate::kind::{KindParser, KindSelection, Row, Verb, listing};
use crate::output::table::{Column, field, shown};
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kind of object
    #[arg(value_parser = KindParser(Verb::Get))]
    kind: KindSelection,
    /// Names, ids or URIs [default: list all]
    #[arg(add = crate::names::of_kind())]
    names: Vec<String>,
    /// Keep running and print changes; only without a name
    #[arg(short, long, conflicts_with = "names")]
    watch: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// A single thing.
const COLUMNS: &[Column] =
    &[Column::new("PROPERTY", |row| field(row, "property")), Column::new("VALUE", |row| field(row, "value"))];

/// How deep members of members get their own row.
const LEVELS: usize = 3;

// === impl Arguments ===

impl Arguments {
    /// The same as `list` where nothing is named, and for what is in the home.
    pub(crate) fn as_list(&self) -> Option<list::Arguments> {
        let names = self.kind.names(&self.names);
        let kind = KindSelection { row: self.kind.row, name: None };
        (names.is_empty() || !kind.row.has_more_than_listed())
            .then(|| list::Arguments::of(kind, names, self.watch, self.client.clone()))
    }
}

pub(crate) async fn run(
    arguments: &Arguments,
    client: &Client,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    if let Some(all) = arguments.as_list() {
        return list::run(&all, client, environment, output).await;
    }
    let row = arguments.kind.row;
    for (index, name) in arguments.kind.names(&arguments.names).iter().enumerate() {
        if index > 0 && output.format == Format::Yaml {
            crate::output::print("---\n")?;
        }
        let answer = output.busy(&format!("loading {name}"), fetch(row, name, client)).await?;
        show(row, &answer, output)?;
    }
    Ok(())
}

/// One thing, as the gateway answers it.
pub(crate) async fn fetch(row: &Row, name: &str, client: &Client) -> Result<Raw, Problem> {
    if let Some(operation) = row.act(Verb::Get) {
        let answer = client.obtain(operation, &json!({ row.argument: name })).await;
        return answer.map_err(|problem| row.sought(problem));
    }
    let listed = listing::fetch(row, client, &json!({})).await?.to_value();
    let listed = listing::entries(row, &listed);
    let found = listed.iter().find(|entry| row.names.iter().any(|key| entry[*key] == name));
    if row.one == "resource" {
        // What is not listed may be of a template.
        let uri = found.map_or_else(|| name.to_owned(), |entry| field(entry, "uri"));
        let mut whole = found.cloned().unwrap_or_else(|| json!({ "uri": uri }));
        whole["contents"] = if client.wraps().await? {
            json!([{ "text": client.act("get_resource", &json!({ "uri": uri })).await?.text() }])
        } else {
            client.method(method::RESOURCES_READ, &json!({ "uri": uri })).await?.to_value()["contents"].clone()
        };
        return Ok(Raw::from_value(&whole));
    }
    found.map(Raw::from_value).ok_or_else(|| listing::unknown(row, name))
}

/// Prints one thing.
pub(crate) fn show(row: &Row, answer: &Raw, output: Output) -> anyhow::Result<()> {
    let value = answer.to_value();
    match output.format {
        Format::Json => output.answer(answer)?,
        // Definitions come with the text of their file, which has comments.
        Format::Yaml => match value["yaml"].as_str() {
            Some(text) => output.text(text)?,
            None => output.answer(answer)?,
        },
        Format::Name => {
            let name = inner(row, &value);
            output.text(&format!("{}/{}", row.one, field(name, row.names[0])))?;
        }
        Format::Table | Format::Wide => match row.one {
            "tool" => describe::tool(&value, output)?,
            "resource" => resource(&value, output)?,
            _ if !value.is_object() => output.text(&shown(&value))?,
            _ => thing(row, inner(row, &value), output)?,
        },
    }
    Ok(())
}

/// muster wraps some things in a member of their kind's name.
fn inner<'a>(row: &Row, value: &'a Value) -> &'a Value {
    if value[row.one].is_object() { &value[row.one] } else { value }
}

/// A thing as properties and values, then its parts.
pub(super) fn thing(row: &Row, value: &Value, output: Output) -> anyhow::Result<()> {
    let mut properties = Vec::new();
    let parts: Vec<&str> = row.parts.iter().map(|(_, member, _)| *member).collect();
    for (key, member) in value.as_object().into_iter().flatten() {
        let is_detail = output.format != Format::Wide && row.details.contains(&key.as_str());
        if !parts.contains(&key.as_str()) && key != "yaml" && !is_detail {
            flatten(key, member, LEVELS, &mut properties);
        }
    }
    properties.sort_by(|(a, _), (b, _)| a.cmp(b));
    let rows: Vec<Value> =
        properties.into_iter().map(|(property, value)| json!({ "property": property, "value": value })).collect();
    output.rows("properties", COLUMNS, &rows)?;
    for (heading, member, columns) in row.parts {
        let rows = value[*member].as_array().map(Vec::as_slice).unwrap_or_default();
        if !rows.is_empty() {
            output.text(&format!("\n{heading}:"))?;
            output.rows(member, columns, rows)?;
        }
    }
    Ok(())
}

fn flatten(path: &str, value: &Value, levels: usize, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) if !members.is_empty() && levels > 1 => {
            for (key, member) in members {
                flatten(&format!("{path}.{key}"), member, levels - 1, rows);
            }
        }
        Value::Object(members) if members.is_empty() => {}
        Value::Null => {}
        other => rows.push((path.to_owned(), shown(other))),
    }
}

/// What is said of a resource, and what is in it.
fn resource(value: &Value, output: Output) -> anyhow::Result<()> {
    let labels =
        [("URI:", "uri"), ("Name:", "name"), ("Title:", "title"), ("Type:", "mimeType"), ("About:", "description")];
    let mut text = String::new();
    for (label, key) in labels {
        let said = field(value, key);
        if !said.is_empty() {
            text.push_str(&format!("{label:<10} {}\n", crate::text::line(&said)));
        }
    }
    for part in value["contents"].as_array().into_iter().flatten() {
        text.push('\n');
        match (part["text"].as_str(), part["blob"].as_str()) {
            (Some(content), _) => text.push_str(content),
            (None, Some(blob)) => {
                text.push_str(&format!(
                    "[{}, {} bytes]",
                    field(part, "mimeType"),
                    blob.trim_end_matches('=').len() * 3 / 4
                ));
            }
            (None, None) => text.push_str("[empty]"),
        }
        text.push('\n');
    }
    Ok(output.text(&text)?)
}

/// Tells a name that a verb needs and that was not given.
pub(super) fn nameless(row: &Row, verb: &str) -> Problem {
    Problem::new(Kind::InvalidParams, format!("no {} given", row.singular()))
        .hint(format!("write `toolcrib {verb} {} NAME`; see all with `toolcrib list {}`", row.one, row.many))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_get_rows_of_their_own() {
        let value = json!({ "name": "a", "args": ["x", 1], "definition": { "env": { "K": "****" }, "none": {} },
                            "deep": { "a": { "b": { "c": 1 } } }, "gone": null, "list": [{ "k": 1 }] });
        let mut rows = Vec::new();
        for (key, member) in value.as_object().unwrap() {
            flatten(key, member, LEVELS, &mut rows);
        }
        let rows: Vec<(&str, &str)> = rows.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            rows,
            [
                ("name", "a"),
                ("args", "x,1"),
                ("definition.env.K", "****"),
                ("deep.a.b", r#"{"c":1}"#),
                ("list", r#"{"k":1}"#)
            ]
        );
    }
}
