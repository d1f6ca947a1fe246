//! Looks at scenarios without running their steps: holds every `core_*` call against the schemas of a running gateway.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolcrib_base::nearest::nearest;
use toolcrib_base::task::Scope;

use crate::drive::Speaker;
use crate::form;
use crate::harness;
use crate::outcome::{Outcome, Verdict};
use crate::run::{Config, World};
use crate::scenario::{Act, Scenario};

/// The tool that lists the gateway's own tools, and how long it may take.
const LIST: &str = "list_core_tools";
const LISTING: Duration = Duration::from_secs(30);
/// How long the end may take.
const GRACE: Duration = Duration::from_millis(200);
/// What the gateway's own tools begin with.
const CORE: &str = "core_";

/// The schemas of the gateway's own tools by their names, its meta-tools by their `core_` names, as a gateway of this
/// binary tells them.
///
/// # Errors
/// When no gateway starts or it does not answer as expected.
pub async fn core_schemas(config: &Config) -> Result<BTreeMap<String, Value>, String> {
    let scope = Scope::new();
    let scenario = Scenario::bare("schemas", Path::new("schemas"));
    let mut world = World::build(&scenario, config, &scope).await?;
    let key = world.key(None, None, Speaker::Legacy)?;
    let session = world.session(&key).await?;
    let told = session.call(LIST, json!({ "include_schema": true }), LISTING).await;
    let menu = session.list().await;
    let mut outcome = Outcome::bare("schemas", Path::new("schemas"), Verdict::Passed, "");
    world.end(&Config { keep_home: false, ..config.clone() }, &mut outcome).await;
    scope.close(GRACE).await;
    let answer = crate::expect::Answer::of_call(told);
    let tools = answer.value["tools"].as_array();
    let tools = tools.ok_or_else(|| format!("`{LIST}` did not answer with a list: {}", answer.text))?;
    let named = |tool: &Value| Some((tool["name"].as_str()?.to_owned(), tool.get("inputSchema")?.clone()));
    let mut schemas: BTreeMap<String, Value> = tools.iter().filter_map(named).collect();
    if schemas.is_empty() {
        return Err(format!("`{LIST}` lists no tool with a schema"));
    }
    // Each meta-tool answers to this name too, and is not listed under it.
    for (name, schema) in menu?.iter().filter_map(named) {
        schemas.entry(format!("{CORE}{name}")).or_insert(schema);
    }
    Ok(schemas)
}

/// The form of scenarios and the schemas of all core tools and of the runner's own, as one document.
pub fn schema_document(schemas: &BTreeMap<String, Value>) -> Value {
    let harness = harness::TOOLS.iter().map(|tool| (tool.name.to_owned(), form::map_schema(tool)));
    let harness: Map<String, Value> = harness.collect();
    json!({ "scenario": form::form_schema(), "tools": schemas, "harness": harness })
}

/// Every scenario with what is wrong with the `core_*` calls that it expects to succeed.
pub fn validate(scenarios: &[Scenario], schemas: &BTreeMap<String, Value>) -> Vec<Outcome> {
    scenarios.iter().map(|scenario| validate_one(scenario, schemas)).collect()
}

fn validate_one(scenario: &Scenario, schemas: &BTreeMap<String, Value>) -> Outcome {
    // Its tools may not be there yet; its form was read anyway.
    if let Some(reason) = &scenario.skip {
        return Outcome::bare(&scenario.name, &scenario.file, Verdict::Skipped, reason.clone());
    }
    let mut faults = Vec::new();
    for step in scenario.all_steps() {
        let Act::Call { tool, args } = &step.act else { continue };
        let expected = &step.expected;
        // Anyone who expects an error may be wrong on purpose.
        let fails = expected.success == Some(false) || !expected.error_contains.is_empty();
        if !tool.starts_with(CORE) || fails {
            continue;
        }
        let place = format!("{}:{}: step `{}`", scenario.file.display(), step.line, step.id);
        match schemas.get(tool) {
            None => {
                let near = nearest(tool, schemas.keys().map(String::as_str));
                let hint = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
                faults.push(format!("{place}: there is no tool `{tool}`{hint}"));
            }
            Some(schema) => faults.extend(against(schema, args).into_iter().map(|fault| format!("{place}: {fault}"))),
        }
    }
    let verdict = if faults.is_empty() { Verdict::Passed } else { Verdict::Failed };
    let reason = (!faults.is_empty()).then(|| faults.join("\n"));
    Outcome { reason, ..Outcome::bare(&scenario.name, &scenario.file, verdict, "") }
}

/// What is wrong with arguments. Where a template stands no one knows yet what it will be.
fn against(schema: &Value, args: &Map<String, Value>) -> Vec<String> {
    let Ok(compiled) = jsonschema::validator_for(schema) else { return vec!["the tool's schema is none".to_owned()] };
    let value = Value::Object(args.clone());
    let is_template = |value: &Value| value.as_str().is_some_and(|text| text.contains("{{"));
    let faults = compiled.iter_errors(&value).filter(|fault| !is_template(fault.instance()));
    faults.map(|fault| format!("`{}`: {fault}", fault.instance_path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_held_against_schemas() {
        let text = "
name: n
steps:
- {id: a, tool: core_service_start, args: {name: x}}
- {id: b, tool: core_service_start, args: {}}
- {id: c, tool: core_service_start, args: {name: 1}}
- {id: d, tool: core_service_stat, args: {name: x}}
- {id: e, tool: core_service_start, args: {nam: x}, expected: {success: false}}
- {id: f, tool: core_service_start, args: {name: x, count: '{{ a.count }}'}}
- {id: g, tool: x_other_tool}
";
        let scenario = crate::scenario::read(Path::new("s.yaml"), text).unwrap();
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["name"],
            "properties": { "name": { "type": "string" }, "count": { "type": "integer" } },
        });
        let schemas = BTreeMap::from([("core_service_start".to_owned(), schema)]);
        let outcome = validate_one(&scenario, &schemas);
        assert_eq!(outcome.verdict, Verdict::Failed);
        let reason = outcome.reason.unwrap();
        let lines: Vec<&str> = reason.lines().collect();
        assert_eq!(lines.len(), 3, "{reason}");
        assert!(lines[0].starts_with("s.yaml:5: step `b`:") && lines[0].contains("name"), "{reason}");
        assert!(lines[1].contains("step `c`: `/name`"), "{reason}");
        let skipped = Scenario { skip: Some("why".to_owned()), ..scenario };
        assert_eq!(validate_one(&skipped, &schemas).verdict, Verdict::Skipped);
        assert!(lines[2].contains("no tool `core_service_stat` (did you mean `core_service_start`?)"), "{reason}");
    }
}
