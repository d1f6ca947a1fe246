//! `toolcrib start workflow`: its input typed as its schema says, its run as a block for people.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_protocol::raw::Edit;

use super::super::call::arguments::ExtraArguments;
use crate::client::{Client, ToolResult};
use crate::kind::rows::RESULT_STEPS;
use crate::output::table::{field, shown};
use crate::output::{Format, Output};

/// The argument with which a workflow is started without waiting for its end.
const DETACHED: &str = "_detach";

/// What is to be run.
pub(crate) struct Run<'a> {
    pub(crate) name: &'a str,
    /// `key=value` words behind the name.
    pub(crate) pairs: &'a [String],
    pub(crate) loose: &'a ExtraArguments,
    pub(crate) detach: bool,
}

pub(crate) async fn run(run: &Run<'_>, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = run.name;
    let tool = format!("workflow_{}", name.strip_prefix("workflow_").unwrap_or(name));
    // One that cannot be seen says why when it is called.
    let schema = client.obtain("core_tool_get", &json!({ "name": tool })).await;
    let schema = schema.map_or(Value::Null, |tool| tool.to_value()["inputSchema"].clone());
    let mut input = run.loose.typed(run.pairs, &schema)?;
    if run.detach {
        input = input.edit(&[(DETACHED, Edit::Set("true"))]);
    }
    let result = output.busy(&format!("running {name}"), client.run(&tool, &input, None)).await;
    let result = result.map_err(|problem| named(name, problem))?;
    if result.is_error() {
        return Err(named(name, failure(name, &result, client)).into());
    }
    let answer = result.value();
    let value = answer.to_value();
    match output.format {
        Format::Json | Format::Yaml => output.answer(&answer)?,
        Format::Name => output.text(&format!("workflow-execution/{}", field(&value, "execution_id")))?,
        Format::Table | Format::Wide if !value.is_object() => output.text(&result.text())?,
        Format::Table | Format::Wide => block(run, &input, &value, output)?,
    }
    Ok(())
}

/// Reports a workflow that is not there by the name that was asked for, not by its tool's.
fn named(name: &str, problem: Problem) -> Problem {
    if !problem.message.starts_with("tool not found") {
        return problem;
    }
    Problem::new(Kind::NotFound, format!("workflow `{name}` not found")).hint("see all with `toolcrib list workflows`")
}

/// What a failed run says, with where to look.
fn failure(name: &str, result: &ToolResult, client: &Client) -> Problem {
    let value = result.value().to_value();
    let id = field(&value, "execution_id");
    let failed = value["steps"].as_array().into_iter().flatten().find(|step| step["status"] == "failed");
    let why = [field(&value, "error"), failed.map(|step| field(step, "error")).unwrap_or_default()];
    let Some(why) = why.into_iter().find(|why| !why.is_empty()) else { return client.refused(result) };
    let at = failed.map(|step| format!(" at step `{}`", field(step, "id")));
    let at = at.filter(|_| !why.contains("step `")).unwrap_or_default();
    let problem = Problem::new(Kind::NotFound, format!("workflow `{name}` failed{at}: {why}"));
    if id.is_empty() { problem } else { problem.hint(format!("see `toolcrib get workflow-execution {id}`")) }
}

/// The run as muster shows it: summary, input, steps, and what else came out.
fn block(run: &Run<'_>, input: &Raw, value: &Value, output: Output) -> anyhow::Result<()> {
    const KNOWN: [&str; 8] =
        ["execution_id", "workflow", "status", "input", "steps", "template_vars", "duration_ms", "started_at"];
    let status = field(value, "status");
    let heading = match status.as_str() {
        "completed" => "Workflow Execution Completed",
        "failed" => "Workflow Execution Failed",
        // The definition says what is answered, and left it out.
        "" if !run.detach => "Workflow Execution Completed",
        _ => "Workflow Execution Started",
    };
    let mut text = format!("{heading}\n\n");
    for (label, said) in [
        ("Workflow:", run.name.to_owned()),
        ("Execution:", field(value, "execution_id")),
        ("Status:", status),
        (
            "Duration:",
            Some(field(value, "duration_ms")).filter(|it| !it.is_empty()).map_or(String::new(), |it| it + " ms"),
        ),
    ] {
        if !said.is_empty() {
            text.push_str(&format!("{label:<11} {}\n", crate::text::line(&said)));
        }
    }
    let given = if value["input"].is_object() { value["input"].clone() } else { input.to_value() };
    push_members(&mut text, "Input Parameters", &given, &[DETACHED]);
    output.text(&text)?;
    let steps = value["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !steps.is_empty() {
        output.text("\nStep Results:")?;
        output.rows("steps", RESULT_STEPS, steps)?;
    }
    let mut rest = String::new();
    push_members(&mut rest, "Result", value, &KNOWN);
    if !rest.is_empty() {
        output.text(&rest)?;
    }
    Ok(())
}

/// The members of an object, a line each, without some.
fn push_members(text: &mut String, heading: &str, value: &Value, without: &[&str]) {
    let members = value.as_object().into_iter().flatten();
    let members: Vec<(&String, &Value)> = members.filter(|(key, _)| !without.contains(&key.as_str())).collect();
    if members.is_empty() {
        return;
    }
    text.push_str(&format!("\n{heading}:\n"));
    for (key, member) in members {
        text.push_str(&format!("  {}: {}\n", crate::text::line(key), crate::text::line(&shown(member))));
    }
}
