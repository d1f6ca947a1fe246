//! `toolcrib profile export` and `import`: a profile with its servers in one file, without secrets. What is imported
//! runs commands, so all of it is shown before anything is written.

mod secrets;

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use http::Method;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_protocol::Raw;

use super::super::server::text_of;
use super::super::{INTERRUPTED, with_rest};
use crate::client::{ClientFlags, Rest};
use crate::home::Environment;
use crate::output::table::field;
use crate::output::{Output, print};
use crate::text;
use secrets::{Answer, Plan};

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Export {
    /// The profile's name
    name: ProfileName,
    /// Write the bundle to this new file [default: stdout]
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Import {
    /// The file; `-` reads stdin
    file: PathBuf,
    /// Show what would be written and run, write nothing
    #[arg(long)]
    preview: bool,
    /// Do not ask before writing
    #[arg(short, long)]
    yes: bool,
    /// Replace existing definitions that differ from the bundle's
    #[arg(long)]
    replace: bool,
    /// A secret that the bundle needs: a reference such as `KEY=env:KEY`, `KEY=-` for a line of stdin, or the value,
    /// which goes into the vault; `server/KEY=…` is for one server only
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<secrets::SecretAssignment>,
    /// Use the bundle's own references to secrets
    #[arg(long)]
    keep_references: bool,
    #[command(flatten)]
    client: ClientFlags,
}

pub(in crate::command) fn export(arguments: &Export, environment: &Environment) -> anyhow::Result<ExitCode> {
    with_rest(&arguments.client, environment, async |rest, output| {
        let answer = rest.get(&format!("/export/profile/{}", arguments.name)).await?;
        if output.is_for_programs() && arguments.file.is_none() {
            return Ok(output.answer(&answer)?);
        }
        let value = answer.to_value();
        let bundle = value["bundle"].as_str().unwrap_or_default();
        match &arguments.file {
            None => print(bundle)?,
            Some(path) => {
                let mut file = OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(path)
                    .map_err(|error| unwritable(path, &error))?;
                file.write_all(bundle.as_bytes()).with_context(|| format!("write `{}`", path.display()))?;
                let servers = value["servers"].as_array().map_or(0, Vec::len);
                output.text(&format!(
                    "profile `{}` with {servers} server(s) is in `{}`",
                    arguments.name,
                    path.display()
                ))?;
            }
        }
        for need in value["needs"].as_array().into_iter().flatten() {
            output.note(&format!("to import it, you need {}", describe_need(need)));
        }
        Ok(())
    })
}

fn unwritable(path: &std::path::Path, error: &io::Error) -> Problem {
    let problem = Problem::new(Kind::Conflict, format!("cannot write `{}`: {error}", path.display()));
    if fs::symlink_metadata(path).is_ok() { problem.hint("choose a new file, or remove this one") } else { problem }
}

pub(in crate::command) fn import(arguments: &Import, environment: &Environment) -> anyhow::Result<ExitCode> {
    let text = text_of(&arguments.file)?;
    let mut code = ExitCode::SUCCESS;
    with_rest(&arguments.client, environment, async |rest, output| {
        let seen = ask(rest, &json!({ "bundle": text, "dry_run": true, "replace": arguments.replace })).await?;
        let value = seen.to_value();
        if arguments.preview && output.is_for_programs() {
            return Ok(output.answer(&seen)?);
        }
        if !output.is_for_programs() || !arguments.yes {
            show(&value, output)?;
        }
        if arguments.preview {
            return Ok(output.text("Nothing was written.")?);
        }
        refuse_conflicts(&value, arguments.replace)?;
        let vault = secrets::VaultLocation::new(&arguments.client, environment, rest);
        let mut plan = Plan::new(&value, &arguments.set, arguments.keep_references)?;
        if !arguments.yes && !confirm(&arguments.file)? {
            return Ok(output.text("Nothing was written.")?);
        }
        match plan.ask_for_the_rest(&arguments.file)? {
            Answer::Interrupted => {
                code = ExitCode::from(INTERRUPTED);
                return Ok(());
            }
            Answer::All => {}
        }
        let kept = vault.keep(&plan, arguments.replace)?;
        let body = json!({ "bundle": text, "replace": arguments.replace, "references": plan.references() });
        let written = match ask(rest, &body).await {
            Ok(written) => written,
            Err(problem) => {
                vault.take_back(&kept);
                return Err(problem.into());
            }
        };
        if output.is_for_programs() {
            return Ok(output.answer(&written)?);
        }
        let name = field(&value, "name");
        let url = if name == "default" { "/mcp".to_owned() } else { format!("/mcp/p/{name}") };
        Ok(output.text(&format!("profile `{name}` is served at {}{url}", rest.origin()))?)
    })
    .map(|done| if code == ExitCode::SUCCESS { done } else { code })
}

async fn ask(rest: &Rest, body: &Value) -> Result<Raw, Problem> {
    rest.ask(Method::POST, "/import/profile", Some(&Raw::from_value(body))).await
}

fn refuse_conflicts(plan: &Value, replace: bool) -> Result<(), Problem> {
    let changes = plan["changes"].as_array().into_iter().flatten();
    let different: Vec<String> =
        changes.filter(|it| it["change"] == "different").map(|it| format!("`{}`", field(it, "file"))).collect();
    if replace || different.is_empty() {
        return Ok(());
    }
    let message = format!("{} already exists with different content; nothing was written", different.join(", "));
    Err(Problem::new(Kind::Conflict, message).hint("rename yours, or replace it with `--replace`"))
}

fn confirm(file: &std::path::Path) -> anyhow::Result<bool> {
    if !can_ask(file) {
        let problem = Problem::new(Kind::InvalidParams, "nothing was written: confirmation needs a terminal");
        return Err(problem.hint("check with `--preview`, then repeat with `--yes`").into());
    }
    let mut stderr = io::stderr().lock();
    write!(stderr, "Write this and run it? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Whether a person sits at stdin.
fn can_ask(file: &std::path::Path) -> bool {
    file.as_os_str() != "-" && io::stdin().is_terminal()
}

/// What would be written, what it starts, where it connects to, and what it is given.
fn show(plan: &Value, output: Output) -> io::Result<()> {
    let mut lines = Vec::new();
    for change in plan["changes"].as_array().into_iter().flatten() {
        let state = match change["change"].as_str() {
            Some("different") => "replaces an existing one",
            Some("same") => "already exists",
            _ => "new",
        };
        lines.push(format!(
            "{} `{}`: {state}, {}",
            field(change, "kind"),
            field(change, "name"),
            field(change, "file")
        ));
        if let Some(hidden) = change["hides"].as_str() {
            lines.push(format!("  overrides: {hidden}"));
        }
        let definition = &change["definition"];
        let runtime = if change["kind"] == "entry" { &definition["runtime"] } else { definition };
        reach(runtime, &mut lines);
        for key in ["servers", "tools", "registry"] {
            if change["kind"] == "profile" && !definition[key].is_null() {
                lines.push(format!("  {key}: {}", definition[key]));
            }
        }
    }
    for need in plan["needs"].as_array().into_iter().flatten() {
        lines.push(format!("needs {}", describe_need(need)));
    }
    let lines: Vec<String> = lines.iter().map(|line| text::line(line).into_owned()).collect();
    output.text(&lines.join("\n"))
}

fn reach(definition: &Value, lines: &mut Vec<String>) {
    if let Some(command) = definition["command"].as_str() {
        let arguments = definition["args"].as_array().into_iter().flatten();
        let words = std::iter::once(quoted(command))
            .chain(arguments.map(|it| it.as_str().map_or_else(|| it.to_string(), quoted)));
        lines.push(format!("  runs: {}", words.collect::<Vec<_>>().join(" ")));
    }
    if let Some(folder) = definition["cwd"].as_str() {
        lines.push(format!("  in the folder: {}", quoted(folder)));
    }
    if let Some(url) = definition["url"].as_str() {
        lines.push(format!("  connects to: {}", quoted(url)));
    }
    for (key, word) in [("env", "variable"), ("headers", "header")] {
        for (name, value) in definition[key].as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), quoted);
            lines.push(format!("  {word}: {name}={value}"));
        }
    }
}

/// A word as it is in a command line, in quotes where it could be read as something else.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { Value::from(word).to_string() }
}

/// A need in one line.
fn describe_need(need: &Value) -> String {
    let of = match need["server"].as_str() {
        Some(server) => format!("server `{server}`"),
        None => "the profile".to_owned(),
    };
    let title = need["title"].as_str().map(|title| format!(" ({title})")).unwrap_or_default();
    let help = need["help_url"].as_str().map(|url| format!(", see {url}")).unwrap_or_default();
    let variable = field(need, "variable");
    format!("`{variable}`{title} of {of}, which the bundle takes from `{}`{help}", field(need, "reference"))
}
