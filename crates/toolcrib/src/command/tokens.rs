//! `toolcrib tokens`: what the tools cost a model, listed and by find, describe and call.

use serde_json::{Value, json};

use crate::client::{ClientFlags, Rest};
use crate::output::Output;
use crate::output::table::{Column, field};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("WHAT", |row| field(row, "what")),
    Column::new("TOOLS", |row| field(row, "tools")),
    Column::new("TOKENS", |row| field(row, "tokens")),
];

pub(crate) async fn run(rest: &Rest, output: Output) -> anyhow::Result<()> {
    let profile = rest.profile().map(|name| format!("?profile={name}")).unwrap_or_default();
    let answer = rest.get(&format!("/tokens{profile}")).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    output.rows("costs", COLUMNS, &rows(&value))?;
    output.note(&saving(&value));
    Ok(())
}

fn rows(value: &Value) -> Vec<Value> {
    let row = |what: &str, tools: &Value, tokens: &Value| json!({ "what": what, "tools": tools, "tokens": tokens });
    let task = &value["task"];
    let (everything, listed) = (&value["everything"], &value["listed"]);
    vec![
        row("all tools listed", &everything["tools"], &everything["tokens"]),
        row("listed by this profile", &listed["tools"], &listed["tokens"]),
        row("a search", &json!(""), &task["find"]),
        row("a description", &json!(""), &task["describe"]),
        row("a call", &json!(""), &task["call"]),
        row("a task, from list to call", &json!(""), &task["total"]),
    ]
}

/// How a task compares with listing everything; shown as it is also where it saves nothing.
fn saving(value: &Value) -> String {
    let tokens = |value: &Value| value.as_u64().unwrap_or_default();
    let (everything, call) = (tokens(&value["everything"]["tokens"]), tokens(&value["task"]["call"]));
    let (direct, task) = (everything + call, tokens(&value["task"]["total"]));
    let exposure = field(value, "exposure");
    match direct.checked_sub(task) {
        Some(saved) if direct > 0 => {
            format!("a task costs {task} tokens instead of {direct}: {} % less", saved * 100 / direct)
        }
        _ => format!(
            "a task costs {task} tokens, with all tools listed {direct}: with so few tools `exposure: direct` is \
             cheaper (this profile has `{exposure}`)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(everything: u64) -> Value {
        json!({
            "exposure": "meta", "everything": {"tools": 90, "tokens": everything}, "listed": {"tools": 3, "tokens": 300},
            "task": {"find": 250, "describe": 200, "call": 50, "total": 800},
        })
    }

    #[test]
    fn gains_and_losses_are_reported() {
        assert_eq!(saving(&costs(9_950)), "a task costs 800 tokens instead of 10000: 92 % less");
        assert!(saving(&costs(100)).starts_with(
            "a task costs 800 tokens, with all tools listed 150: with so few \
                                                 tools"
        ));
        let rows = rows(&costs(9_950));
        assert_eq!((&rows[0]["tools"], &rows[0]["tokens"]), (&json!(90), &json!(9_950)));
        assert_eq!((&rows[5]["tools"], &rows[5]["tokens"]), (&json!(""), &json!(800)));
    }
}
