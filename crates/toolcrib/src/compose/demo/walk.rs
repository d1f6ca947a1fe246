//! The walk: find, describe and call over the wire as any client would, and what it costs a model in tokens.

use std::io;

use anyhow::Context;
use serde_json::{Value, json};
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::Listing;
use toolcrib_search::tokens;

use super::OVER_HTTP;
use super::home::EVERYTHING;
use crate::client::{Client, ClientFlags, ToolResult};
use crate::example;
use crate::home::Environment;
use crate::text;

/// What the walk looks for.
const QUERY: &str = "convert miles to kilometres";
/// What it finds.
const WANTED: &str = "units/convert_length";

/// What a profile lists.
struct Menu {
    names: Vec<String>,
    tokens: usize,
}

/// How many lines of an answer are shown, and how wide.
const LINES: usize = 10;
const WIDTH: usize = 110;

/// Walks, and writes each step as it is done.
pub(super) async fn show(url: &str, write: impl Fn(&str) -> io::Result<()>) -> anyhow::Result<()> {
    let client = open(&format!("{url}/p/{EVERYTHING}")).await?;
    let everything = menu(&client).await;
    client.close().await;
    let everything = everything?;
    write(&heading(&everything))?;
    let client = open(url).await?;
    let walked = walk(&client, &everything, write).await;
    client.close().await;
    walked
}

async fn walk(client: &Client, everything: &Menu, write: impl Fn(&str) -> io::Result<()>) -> anyhow::Result<()> {
    let menu = menu(client).await?;
    write("1. Find a tool in plain words\n")?;
    let find = step(client, "find_tools", &json!({ "query": QUERY }), &write).await?;
    write("2. Describe the best match\n")?;
    let describe = step(client, "describe_tool", &json!({ "name": WANTED }), &write).await?;
    write(&format!("3. Call it: `{OVER_HTTP}` answers over HTTP\n"))?;
    let marathon = json!({ "name": WANTED, "arguments": { "value": 26.2, "from": "mile", "to": "kilometre" } });
    step(client, "call_tool", &marathon, &write).await?;
    write("4. The same endpoint reaches the child processes\n")?;
    let days = json!({ "name": "clock/days_between", "arguments": { "from": "2026-03-01", "to": "2026-12-25" } });
    step(client, "call_tool", &days, &write).await?;
    let note = json!({
        "name": "notes/add_note",
        "arguments": { "title": "Marathon", "text": "26.2 miles are 42.16 km", "tags": ["running"] },
    });
    step(client, "call_tool", &note, &write).await?;
    write(&costs(everything, &menu, find, describe))?;
    Ok(())
}

async fn open(url: &str) -> anyhow::Result<Client> {
    Client::open(&ClientFlags::of_endpoint(url), &Environment::default()).await
}

/// What a model is given of a profile's list: name, description and schema of each tool.
async fn menu(client: &Client) -> anyhow::Result<Menu> {
    let tools = client.list(Listing::Tools).await?;
    let mut menu = Menu { names: Vec::new(), tokens: 0 };
    for tool in tools {
        let name = tool.text("name").context("read the name of a tool")?;
        let tool = tool.to_value();
        let given = json!({ "name": name, "description": tool["description"], "parameters": tool["inputSchema"] });
        menu.tokens += tokens::count(&given.to_string());
        menu.names.push(name);
    }
    Ok(menu)
}

/// Calls a tool of the gateway, writes the call and its answer, and gives the tokens of both.
async fn step(
    client: &Client,
    tool: &str,
    arguments: &Value,
    write: impl Fn(&str) -> io::Result<()>,
) -> anyhow::Result<usize> {
    let asked = format!("{tool} {arguments}");
    write(&format!("   > {}\n", text::line(&asked)))?;
    let result: ToolResult = client.call(tool, &Raw::from_value(arguments), None).await?;
    if result.is_error() {
        return Err(client.refused(&result).into());
    }
    let answer = result.text();
    write(&format!("{}\n", shortened(&answer)))?;
    Ok(tokens::count(&asked) + tokens::count(&answer))
}

/// The beginning of an answer: the model gets it whole, a person wants to see the next step.
fn shortened(answer: &str) -> String {
    let lines: Vec<String> = match serde_json::from_str(answer) {
        // One line for each member, instead of one for each brace.
        Ok(Value::Object(members)) => members.iter().map(|(key, value)| format!("{key}: {value}")).collect(),
        _ => text::block(answer).lines().map(str::to_owned).collect(),
    };
    let mut shown = String::new();
    for line in lines.iter().take(LINES) {
        let line = text::line(line);
        let cut = line.char_indices().nth(WIDTH).map(|(at, _)| format!("{}…", line[..at].trim_end()));
        shown.push_str(&format!("   {}\n", cut.as_deref().unwrap_or(&line)));
    }
    if lines.len() > LINES {
        shown.push_str(&format!("   … and {} more lines\n", lines.len() - LINES));
    }
    shown
}

/// A number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn heading(everything: &Menu) -> String {
    let mut text = format!(
        "Toolcrib: one endpoint in front of {} servers with {} tools\n\n",
        example::IN_DEMO.len(),
        everything.names.len()
    );
    for name in example::IN_DEMO {
        let prefix = format!("{name}_");
        let count = everything.names.iter().filter(|tool| tool.starts_with(&prefix)).count();
        let title = example::named(name).map(|server| server.about().title).unwrap_or_default();
        let way = if name == OVER_HTTP { "over HTTP" } else { "a child process" };
        text.push_str(&format!("   {name:<8}{count:>3} tools   {way:<18}{title}\n"));
    }
    text.push_str("\nThe requests below go over the wire like any client's (long lines are cut here only).\n\n");
    text
}

/// The comparison: what is in a model's context before the call, which costs the same either way.
fn costs(everything: &Menu, menu: &Menu, find: usize, describe: usize) -> String {
    let together = menu.tokens + find + describe;
    let share = together * 100 / everything.tokens.max(1);
    let row = |what: &str, tokens: usize| format!("   {what:<46}{:>7}\n", grouped(tokens));
    let mut text = "What a model reads and writes before the first call, in tokens (estimated)\n".to_owned();
    text.push_str(&row(&format!("all {} tools listed in full", everything.names.len()), everything.tokens));
    text.push_str(&row(&format!("the gateway's {} meta-tools", menu.names.len()), menu.tokens));
    text.push_str(&row("find_tools, question and answer", find));
    text.push_str(&row("describe_tool, question and answer", describe));
    text.push_str(&row("meta-tools, find and describe together", together));
    text.push_str(&format!(
        "   That is {share} % of the list. The list grows with every server, the meta-tools do not.\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_are_cut() {
        assert_eq!(shortened("two\nlines \u{1b}[2J"), "   two\n   lines \\u{1b}[2J\n");
        assert_eq!(shortened(r#"{"id": "a/b", "n": [1, 2]}"#), "   id: \"a/b\"\n   n: [1,2]\n");
        let long = shortened(&format!("{}\n{}", "ä".repeat(200), "x\n".repeat(20)));
        assert_eq!(long.lines().count(), LINES + 1);
        assert!(long.starts_with(&format!("   {}…\n", "ä".repeat(WIDTH))) && long.ends_with("… and 11 more lines\n"));
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
