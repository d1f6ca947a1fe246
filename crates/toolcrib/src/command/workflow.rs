//! `toolcrib workflow`: the verbs for workflows under one word. Each is the verb of that name with the kind `workflow`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use super::{Cli, USAGE};
use crate::home::Environment;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the workflows, as `toolcrib list workflows` does
    #[command(alias = "ls")]
    List(Rest),
    /// Show a workflow, as `toolcrib get workflow NAME` does
    #[command(alias = "show")]
    Get(Rest),
    /// Run a workflow, as `toolcrib start workflow NAME --KEY VALUE` does
    #[command(alias = "start")]
    Run(Rest),
    /// Check whether a workflow can run, as `toolcrib check workflow NAME` does
    Check(Rest),
    /// Create a workflow, as `toolcrib create workflow --file FILE` does
    Create(Rest),
    /// Update a workflow, as `toolcrib update workflow --file FILE` does
    Update(Rest),
    /// Delete a workflow, as `toolcrib delete workflow NAME` does
    #[command(alias = "rm")]
    Delete(Rest),
    /// List the runs, as `toolcrib list workflow-executions` does
    #[command(alias = "executions")]
    Runs(Rest),
}

/// What the verb takes.
#[derive(Debug, clap::Args)]
struct Rest {
    /// The name and flags of the verb
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

pub(crate) fn run(arguments: Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    let (verb, kind, rest) = match arguments.action {
        Action::List(rest) => ("list", "workflow", rest),
        Action::Get(rest) => ("get", "workflow", rest),
        Action::Run(rest) => ("start", "workflow", rest),
        Action::Check(rest) => ("check", "workflow", rest),
        Action::Create(rest) => ("create", "workflow", rest),
        Action::Update(rest) => ("update", "workflow", rest),
        Action::Delete(rest) => ("delete", "workflow", rest),
        Action::Runs(rest) => ("list", "workflow-execution", rest),
    };
    let words = ["toolcrib", verb, kind].into_iter().map(OsString::from).chain(rest.words).collect();
    match Cli::try_parse_from(crate::free::rewrite(words, super::definition)) {
        Ok(cli) => super::run(cli, environment),
        Err(error) => {
            // The terminal may be gone, and then nothing can be printed.
            let _ = error.print();
            Ok(if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS })
        }
    }
}
