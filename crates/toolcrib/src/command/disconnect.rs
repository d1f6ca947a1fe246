//! `toolcrib disconnect`: takes Toolcrib out of the settings of clients again, and puts back what it had taken out.

use std::process::ExitCode;

use toolcrib_base::Problem;
use toolcrib_catalog::clients::{CLIENTS, Client};

use crate::clients::leave::{Place, plan};
use crate::clients::{Flags, confirm, named, record, target};
use crate::home::{Environment, Home};
use crate::{output, text};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The client, such as `cursor` or `claude-code`
    #[arg(value_parser = named, required_unless_present = "all", conflicts_with = "all")]
    client: Option<&'static Client>,
    /// Every connected client
    #[arg(long, conflicts_with = "file")]
    all: bool,
    /// Keep the backups of the file, even when it is restored exactly
    #[arg(long)]
    keep_copies: bool,
    #[command(flatten)]
    flags: Flags,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    let Arguments { client, flags, .. } = arguments;
    let home = Home::find(flags.home.as_deref(), environment)?;
    let Some(client) = client else { return all(arguments, &home, environment) };
    let (source, path) = target(client, flags, environment)?;
    let Some(leaving) = plan(Place { client, source, path, home: &home }, flags.preview)? else {
        output::print(&format!("{} is not connected: nothing to do\n", client.title))?;
        return Ok(ExitCode::SUCCESS);
    };
    output::print(&text::block(&leaving.preview()))?;
    if flags.preview || !confirm(flags, "Write this?")? {
        output::print("Nothing was written.\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&text::block(&leaving.write(&home, arguments.keep_copies)?.text))?;
    Ok(ExitCode::SUCCESS)
}

/// One that cannot be disconnected does not stop the others.
fn all(arguments: &Arguments, home: &Home, environment: &Environment) -> anyhow::Result<ExitCode> {
    let flags = &arguments.flags;
    let mut code = ExitCode::SUCCESS;
    let mut complain = |problem: &Problem| {
        code = ExitCode::FAILURE;
        let hint = problem.hint.iter().map(|hint| format!("hint: {hint}\n")).collect::<String>();
        let _ = std::io::Write::write_all(
            &mut std::io::stderr().lock(),
            text::block(&format!("error: {}\n{hint}", problem.message)).as_bytes(),
        );
    };
    let mut leaving = Vec::new();
    for client in CLIENTS.iter().filter(|client| client.is_written()) {
        let Ok((source, path)) = target(client, flags, environment) else { continue };
        let mut paths = record::files(home, client);
        if !paths.contains(&path) {
            paths.push(path);
        }
        for path in paths {
            match plan(Place { client, source, path, home }, flags.preview) {
                Ok(one) => leaving.extend(one),
                Err(problem) => complain(&problem),
            }
        }
    }
    if leaving.is_empty() {
        output::print("No client is connected: nothing to do\n")?;
        return Ok(code);
    }
    leaving.iter().try_for_each(|one| output::print(&text::block(&one.preview())))?;
    if flags.preview || !confirm(flags, "Write this?")? {
        output::print("Nothing was written.\n")?;
        return Ok(code);
    }
    for one in leaving {
        match one.write(home, arguments.keep_copies) {
            Ok(done) => output::print(&text::block(&done.text))?,
            Err(problem) => complain(&problem),
        }
    }
    Ok(code)
}
