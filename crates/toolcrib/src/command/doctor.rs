//! `toolcrib doctor`: how servers are, what failed, and what to do.

use std::io::{self, BufRead, IsTerminal, Write};

use http::Method;
use serde_json::Value;
use toolcrib_base::{Kind, Problem};

use crate::client::{ClientFlags, Rest, encoded};
use crate::output::Output;
use crate::output::table::field;
use crate::text::count;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this server
    server: Option<String>,
    /// Remove incomplete installations from package caches and restart the server
    #[arg(long)]
    fix: bool,
    /// With `--fix`: skip the confirmation
    #[arg(short, long, requires = "fix")]
    yes: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let query = arguments.server.as_ref().map(|name| format!("?name={}", encoded(name))).unwrap_or_default();
    let answer = rest.get(&format!("/doctor{query}")).await?;
    let value = answer.to_value();
    if output.is_for_programs() {
        output.answer(&answer)?;
        return if arguments.fix { fix(arguments, &value, rest, output).await } else { verdict(&value) };
    }
    for server in value["servers"].as_array().into_iter().flatten() {
        output.text(text_of(server).trim_end())?;
    }
    for problem in value["problems"].as_array().into_iter().flatten() {
        output.text(&format!("bad definition: {}", crate::text::line(&field(problem, "problem"))))?;
    }
    for warning in value["warnings"].as_array().into_iter().flatten() {
        let line = |key: &str| crate::text::line(&field(warning, key)).into_owned();
        output.text(&format!("warning: {}\n  {:<13} {}", line("warning"), "next step:", line("hint")))?;
    }
    if value["total"] == 0 {
        output.text("no servers")?;
    }
    if arguments.fix { fix(arguments, &value, rest, output).await } else { verdict(&value) }
}

/// Whether something is wrong, for the exit code.
fn verdict(value: &Value) -> anyhow::Result<()> {
    let servers = value["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_ill = |server: &&Value| matches!(server["state"].as_str(), Some("failed" | "needs-login"));
    let ill = servers.iter().filter(is_ill).count();
    let problems = value["problems"].as_array().map_or(0, Vec::len);
    match (ill, problems) {
        (0, 0) => Ok(()),
        (0, problems) => Err(Problem::new(Kind::Definition, format!("problems in definitions: {problems}")).into()),
        (ill, _) => Err(super::not_working(ill, servers.len()).into()),
    }
}

/// Repairs what is half written, each after a yes.
async fn fix(arguments: &Arguments, value: &Value, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let servers = value["servers"].as_array().into_iter().flatten();
    let broken: Vec<(&str, &str)> = servers
        .filter_map(|server| Some((server["name"].as_str()?, server["halfWritten"]["path"].as_str()?)))
        .collect();
    if broken.is_empty() {
        output.note("no incomplete installation found: nothing to fix");
        return verdict(value);
    }
    let mut failed = None;
    for (name, path) in &broken {
        if !arguments.yes && !confirm_removal(path)? {
            output.note(&format!("kept `{}`", crate::text::line(path)));
            continue;
        }
        match rest.ask(Method::POST, &format!("/servers/{}/repair", encoded(name)), None).await {
            Ok(answer) => {
                let answer = answer.to_value();
                let told = match answer["removed"].as_str() {
                    Some(removed) => format!("{name}: removed `{removed}`; installing it again"),
                    None => format!("{name}: {}", field(&answer, "why")),
                };
                let told = crate::text::line(&told).into_owned();
                if output.is_for_programs() { output.note(&told) } else { output.text(&told)? }
            }
            Err(problem) => failed = failed.or(Some(problem)),
        }
    }
    match failed {
        Some(problem) => Err(problem.into()),
        None => {
            output.note("run `toolcrib doctor` in a minute to see the servers");
            Ok(())
        }
    }
}

/// Asks whether a folder is to be removed; without a terminal someone must have said `--yes`.
fn confirm_removal(path: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Problem::new(Kind::InvalidParams, "`--fix` asks for confirmation, which needs a terminal")
            .hint("nothing was removed; add `--yes` to skip the question")
            .into());
    }
    let mut stderr = io::stderr().lock();
    write!(stderr, "Remove `{}`? [y/N] ", crate::text::line(path))?;
    stderr.flush()?;
    let mut answer = String::new();
    io::Read::take(io::stdin().lock(), 100).read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn text_of(server: &Value) -> String {
    let line = |key: &str| crate::text::line(&field(server, key)).into_owned();
    let mut text =
        format!("{}: {} since {}, {}\n", line("name"), line("state"), line("since"), count(&line("tools"), "tool"));
    for (label, key) in [
        ("doing", "note"),
        ("failed", "failed"),
        ("next attempt", "nextRetry"),
        ("changes", "changes"),
        ("verified", "verifiedAt"),
        ("next step", "advice"),
    ] {
        let value = line(key);
        if !value.is_empty() {
            text.push_str(&format!("  {:<13} {value}\n", format!("{label}:")));
        }
    }
    for (tool, number) in server["unanswered"].as_object().into_iter().flatten() {
        let (calls, verb) = (count(&number.to_string(), "call"), if *number == 1 { "was" } else { "were" });
        text.push_str(&format!("  unanswered:   {calls} of `{}` {verb} never answered\n", crate::text::line(tool)));
    }
    for (limit, number) in server["limited"].as_object().into_iter().flatten() {
        let calls = count(&number.to_string(), "call");
        text.push_str(&format!("  limited:      {calls} met `limits.{}`\n", crate::text::line(limit)));
    }
    for line in server["environment"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        text.push_str(&format!("  environment:  {}\n", crate::text::line(line)));
    }
    for line in server["stderr"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        text.push_str(&format!("  stderr:       {}\n", crate::text::line(line)));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failed_server_is_reported_with_its_stderr_and_what_to_do() {
        let text = text_of(&json!({
            "name": "a", "state": "failed", "since": "t", "tools": 3, "failed": "it ended", "advice": "run it",
            "stderr": ["no key"], "verifiedAt": null,
        }));
        assert_eq!(
            text,
            "a: failed since t, 3 tools\n  failed:       it ended\n  next step:    run it\n  stderr:       no key\n"
        );
    }

    #[test]
    fn calls_that_were_never_answered_are_reported_by_tool() {
        let text = text_of(&json!({
            "name": "a", "state": "ready", "since": "t", "tools": 3, "advice": "restart it",
            "unanswered": { "build": 12, "wait": 1 }, "limited": { "queue": 2 },
        }));
        assert_eq!(
            text,
            "a: ready since t, 3 tools\n  next step:    restart it\n  unanswered:   12 calls of `build` were never \
             answered\n  unanswered:   1 call of `wait` was never answered\n  limited:      2 calls met `limits.queue`\n"
        );
    }
}
