//! `toolcrib describe`: one tool with its parameters.

use serde_json::{Value, json};

use crate::client::{Client, ClientFlags};
use crate::output::table::{Column, field, shown};
use crate::output::{Output, json as layout};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The tool's name or its id `server/tool`
    tool: String,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

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
    let answer = client.ask("describe_tool", &json!({ "name": arguments.tool })).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let tool = answer.to_value();
    output.text(&block(&tool))?;
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
