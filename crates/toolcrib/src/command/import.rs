//! `toolcrib import`: the servers of other clients as definitions of ours.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use toolcrib_auth::KeyPreference;
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_call::servers::wants_login;
use toolcrib_catalog::Transport;
use toolcrib_catalog::clients::{Answer, CLIENTS, Client, Format};

use crate::clients::folders::Copies;
use crate::clients::take::{ImportPlan, PlaceholderAnswers, gather_with};
use crate::clients::{Flags, answer, confirm, named};
use crate::home::{Environment, Home};
use crate::output::print;
use crate::text;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The client, such as `cursor` [default: every client found]
    #[arg(value_parser = named, value_name = "CLIENT")]
    clients: Vec<&'static Client>,
    /// The value of a placeholder of the client: `workspaceFolder=/src`, `input:region=eu`; repeatable
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = answer)]
    answers: Vec<(String, Answer)>,
    /// Keep the key of a new vault in a file even if there is a keyring
    #[arg(long)]
    key_file: bool,
    #[command(flatten)]
    flags: Flags,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    let flags = &arguments.flags;
    let home = Home::find(flags.home.as_deref(), environment)?;
    let mut clients = arguments.clients.clone();
    if clients.is_empty() && flags.file.is_none() {
        clients.extend(CLIENTS);
    }
    let asks = !flags.yes && !flags.preview && std::io::stdin().is_terminal();
    let asking = PlaceholderAnswers { answers: arguments.answers.iter().cloned().collect(), asks };
    let mut gathered = gather_with(&clients, flags.file.as_deref(), &home, environment, asking)?;
    let (problems, warnings) = (std::mem::take(&mut gathered.problems), std::mem::take(&mut gathered.warnings));
    if gathered.files.is_empty() && (gathered.is_empty() || !problems.is_empty()) {
        return Err(no_settings(problems).into());
    }
    if gathered.is_empty() {
        return Err(no_servers(&gathered.files, problems).into());
    }
    let copies = Copies::of(&gathered.objects, &home);
    let preference = if arguments.key_file { KeyPreference::File } else { KeyPreference::Keyring };
    let mut taking = ImportPlan::plan(gathered, &home, environment, preference)?;
    taking.show(flags.preview)?;
    for line in copies.lines() {
        print(&format!("{line}\n"))?;
    }
    let code = if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    for warning in &warnings {
        let _ = writeln!(std::io::stderr().lock(), "{}", text::line(warning));
    }
    for problem in &problems {
        let _ = writeln!(std::io::stderr().lock(), "error: {}", text::block(&problem.message));
    }
    let new = taking.new_names().len() + copies.len();
    if new == 0 {
        print("Nothing new to import.\n")?;
        return Ok(code);
    }
    let definitions = if new == 1 { "definition" } else { "definitions" };
    if flags.preview || !confirm(flags, &format!("Write {new} {definitions}?"))? {
        print("Nothing was written.\n")?;
        return Ok(code);
    }
    if !taking.new_names().is_empty() {
        taking.write()?;
    }
    copies.write(&home)?;
    let folder = if copies.len() == 0 { taking.folder() } else { home.path() };
    print(&format!("Wrote {new} {definitions} to {}\n", text::line(&folder.to_string_lossy())))?;
    for name in needing_login(&taking.new_names(), &home) {
        print(&format!("{name} needs a login: toolcrib login {name}\n"))?;
    }
    Ok(code)
}

/// Those of the new servers that are known to want a login and bring no key along.
fn needing_login<'a>(names: &[&'a ServerName], home: &Home) -> Vec<&'a ServerName> {
    let loaded = toolcrib_catalog::load(home.path());
    let needs_login = |name: &&&ServerName| {
        loaded.servers.get(name.as_str()).is_some_and(|definition| match &definition.transport {
            Transport::Http(remote) | Transport::Sse(remote) => remote.headers.is_empty() && wants_login(definition),
            Transport::Stdio(_) => false,
        })
    };
    names.iter().filter(needs_login).copied().collect()
}

/// What to report when the files that were read hold nothing that could be imported.
fn no_servers(files: &[(&'static Client, PathBuf, usize)], mut problems: Vec<Problem>) -> Problem {
    if !problems.is_empty() {
        let mut first = problems.remove(0);
        first.message.extend(problems.into_iter().map(|problem| format!("\n{}", problem.message)));
        return first;
    }
    let paths: Vec<String> = files.iter().take(5).map(|(_, path, _)| format!("`{}`", path.display())).collect();
    let more =
        if files.len() > paths.len() { format!(" and {} more", files.len() - paths.len()) } else { String::new() };
    let mut sought: Vec<String> = files.iter().flat_map(|(client, ..)| sought_in(client)).collect();
    sought.sort();
    sought.dedup();
    let message = format!("nothing to import in {}{more}", paths.join(", "));
    Problem::new(Kind::NotFound, message).hint(format!("looked for {}", sought.join(", ")))
}

/// What is looked for in a client's settings.
fn sought_in(client: &Client) -> Vec<String> {
    if client.format == Format::YamlFolder {
        return vec!["objects of the kinds `MCPServer`, `Workflow`, `ServiceClass` and `Service`".to_owned()];
    }
    let ways = client.sources.iter().flat_map(|source| source.servers);
    ways.map(|way| format!("servers below `{}`", way.join("."))).collect()
}

/// What to report when no file could be read.
fn no_settings(problems: Vec<Problem>) -> Problem {
    let mut problems = problems.into_iter();
    let Some(mut first) = problems.next() else {
        let names: Vec<&str> = CLIENTS.iter().map(|client| client.title).collect();
        let hint = format!("looked for {}; name a file with `--file PATH`", names.join(", "));
        return Problem::new(Kind::NotFound, "no client settings found").hint(hint);
    };
    first.message.extend(problems.map(|problem| format!("\n{}", problem.message)));
    first
}
