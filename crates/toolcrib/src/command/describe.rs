//! `toolcrib describe`: one thing with all that is known of it; a tool with its parameters.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};

use super::get;
use crate::client::{Client, ClientFlags};
use crate::kind::{self, Verb, listing, rows::EVENTS};
use crate::output::table::{Column, field, shown};
use crate::output::{Format, Output, json as layout};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The tool's name or its id `server/tool`; or a kind and a name, such as `service db`
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"], add = crate::names::of_kind())]
    words: Vec<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// How many of its events are shown.
const EVENTS_SHOWN: usize = 10;

/// How deep parameters of parameters are shown.
const LEVELS: usize = 3;

const COLUMNS: &[Column] = &[
    Column::new("NAME", |row| field(row, "name")),
    Column::new("TYPE", |row| field(row, "type")),
    Column::new("REQUIRED", |row| field(row, "required")),
    Column::new("DEFAULT", |row| field(row, "default")),
    Column::new("DESCRIPTION", |row| field(row, "description")),
];

pub(crate) async fn run(arguments: &Arguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let (row, name) = match &arguments.words[..] {
        [kind, name] => match kind::named(kind).filter(|row| row.takes(Verb::Get)) {
            Some(row) => (row, name),
            None => {
                let words: Vec<&str> =
                    kind::TABLE.iter().filter(|row| row.takes(Verb::Get)).map(|row| row.one).collect();
                return Err(Problem::new(Kind::InvalidParams, format!("cannot describe kind `{kind}`"))
                    .hint(format!("known kinds: {}", words.join(", ")))
                    .into());
            }
        },
        words => (&kind::rows::TOOLS, &words[0]),
    };
    let asking = async {
        match row.one {
            // With what the search knows of it, and so the same as models see it.
            "tool" if !client.wraps().await? => {
                let told = client.ask("describe_tool", &json!({ "name": name })).await;
                told.map_err(|problem| row.sought(problem))
            }
            _ => get::fetch(row, name, client).await,
        }
    };
    let answer = output.busy(&format!("loading {name}"), asking).await?;
    get::show(row, &answer, output)?;
    if !output.is_for_programs() && output.format != Format::Name {
        print_events(row, name, client, output).await?;
    }
    Ok(())
}

/// What happened to it last, where the gateway keeps that.
async fn print_events(row: &kind::Row, name: &str, client: &Client, output: Output) -> anyhow::Result<()> {
    let Some(object) = super::events::object_of(row) else { return Ok(()) };
    let asked = json!({ "resourceType": object, "resourceName": name, "limit": EVENTS_SHOWN });
    // A gateway that keeps no events has nothing more.
    let Ok(answer) = listing::fetch(&EVENTS, client, &asked).await else { return Ok(()) };
    let events = listing::entries(&EVENTS, &answer.to_value());
    if !events.is_empty() {
        output.text("\nEvents:")?;
        output.rows("events", EVENTS.columns, &events)?;
    }
    Ok(())
}

/// A tool for people.
pub(super) fn tool(tool: &Value, output: Output) -> anyhow::Result<()> {
    output.text(&block(tool))?;
    let parameters = parameters_of(&tool["inputSchema"]);
    if parameters.is_empty() {
        output.text("\nParameters: none")?;
    } else {
        output.text("\nParameters:")?;
        output.rows("parameters", COLUMNS, &parameters)?;
    }
    let result = parameters_of(&tool["outputSchema"]);
    if !result.is_empty() {
        output.text("\nResult:")?;
        output.rows("members", COLUMNS, &result)?;
    }
    Ok(())
}

/// What is said of the tool itself.
fn block(tool: &Value) -> String {
    let state = match (field(tool, "state"), &tool["active"]) {
        (state, Value::Bool(true)) => format!("{state}, loaded"),
        (state, _) => state,
    };
    let annotations = tool["annotations"].as_object().into_iter().flatten();
    let hints: Vec<String> = annotations.map(|(key, value)| format!("{key}={}", shown(value))).collect();
    let lines = [
        ("Name:", field(tool, "name")),
        ("Id:", field(tool, "id")),
        ("Server:", field(tool, "server")),
        ("Title:", field(tool, "title")),
        ("State:", state),
        ("Category:", field(tool, "category")),
        ("Keywords:", field(tool, "keywords")),
        ("Hints:", hints.join(", ")),
    ];
    let mut text = String::new();
    for (label, value) in lines.into_iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("{label:<10} {}\n", crate::text::line(&value)));
    }
    let description = field(tool, "description");
    if !description.is_empty() {
        text.push_str("\nDescription:\n");
        description.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text
}

/// One row for each property of a schema, and of the objects in it.
fn parameters_of(schema: &Value) -> Vec<Value> {
    let mut rows = Vec::new();
    gather(schema, "", LEVELS, &mut rows);
    rows
}

fn gather(schema: &Value, path: &str, levels: usize, rows: &mut Vec<Value>) {
    let Some(properties) = schema["properties"].as_object().filter(|_| levels > 0) else { return };
    let required = |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
    for (name, property) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let default = property.get("default").map(compact).unwrap_or_default();
        rows.push(json!({
            "name": path,
            "type": type_of(property),
            "required": if required(name) { "yes" } else { "no" },
            "default": default,
            "description": field(property, "description"),
        }));
        gather(property, &path, levels - 1, rows);
        gather(&property["items"], &format!("{path}[]"), levels - 1, rows);
    }
}

/// `string`, `integer|null`, `array of string`, `"a" | "b"`.
fn type_of(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        return choices.iter().map(compact).collect::<Vec<_>>().join(" | ");
    }
    if let Some(only) = schema.get("const") {
        return compact(only);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[key].as_array() {
            return choices.iter().map(plain_type).collect::<Vec<_>>().join(" | ");
        }
    }
    plain_type(schema)
}

fn plain_type(schema: &Value) -> String {
    let name = match &schema["type"] {
        Value::Array(names) => names.iter().map(shown).collect::<Vec<_>>().join("|"),
        Value::String(name) => name.clone(),
        _ => return if schema["enum"].is_array() { "enum".to_owned() } else { "any".to_owned() },
    };
    match schema["items"]["type"].as_str().filter(|_| name == "array") {
        Some(items) => format!("array of {items}"),
        None => name,
    }
}

fn compact(value: &Value) -> String {
    match value {
        Value::String(text) => layout::string(text),
        other => other.to_string(),
    }
}
