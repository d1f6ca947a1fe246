//! `toolcrib import`: the servers of other clients as definitions of ours.

use std::io::Write;
use std::process::ExitCode;

use toolcrib_auth::KeyWish;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::clients::{CLIENTS, Client};

use crate::clients::folders::Copies;
use crate::clients::take::{Taking, gather};
use crate::clients::{Flags, confirm, named};
use crate::home::{Environment, Home};
use crate::output::print;
use crate::text;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Whose servers, such as `cursor` [default: of every client that is found]
    #[arg(value_parser = named, value_name = "CLIENT")]
    clients: Vec<&'static Client>,
    /// Keep the key of a new vault in a file, also where there is a keyring
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
    let mut gathered = gather(&clients, flags.file.as_deref(), &home, environment)?;
    let problems = std::mem::take(&mut gathered.problems);
    if gathered.files.is_empty() {
        return Err(nothing_read(problems).into());
    }
    let copies = Copies::beside(&gathered.files, &home);
    let wish = if arguments.key_file { KeyWish::File } else { KeyWish::Keyring };
    let mut taking = Taking::plan(gathered, &home, environment, wish)?;
    taking.show(flags.preview)?;
    for line in copies.lines() {
        print(&format!("{line}\n"))?;
    }
    let code = if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
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
    Ok(code)
}

/// What to tell when no file could be read.
fn nothing_read(problems: Vec<Problem>) -> Problem {
    let mut problems = problems.into_iter();
    let Some(mut first) = problems.next() else {
        let names: Vec<&str> = CLIENTS.iter().map(|client| client.title).collect();
        let hint = format!("looked for {}; name a file with `--file PATH`", names.join(", "));
        return Problem::new(Kind::NotFound, "no settings of a client were found").hint(hint);
    };
    first.message.extend(problems.map(|problem| format!("\n{}", problem.message)));
    first
}
