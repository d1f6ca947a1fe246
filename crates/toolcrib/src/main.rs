//! The binary `toolcrib`: the gateway, and the commands that speak to a running one over the wire like any client.

mod autostart;
mod bridge;
mod client;
mod clients;
mod command;
mod compose;
mod config;
mod contexts;
mod counterpart;
mod example;
mod free;
mod home;
mod lines;
mod memory;
mod model;
mod names;
mod output;
mod ready;
mod repl;
mod secrets;
mod settings;
mod telemetry;
mod text;
mod token;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap_complete::CompleteEnv;
use toolcrib_base::Problem;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // The guard of a server's process: started thousands of times, so nothing is set up before it.
    if arguments.next().is_some_and(|first| first == "guard") {
        return toolcrib_transport::process::guard::run(arguments);
    }
    memory::return_large_buffers();
    // A shell that asks what may come next is answered, and nothing else is done.
    if std::env::var_os(command::completion::VARIABLE).is_some() {
        CompleteEnv::with_factory(command::definition).var(command::completion::VARIABLE).complete();
    }
    let words = free::rewrite(std::env::args_os().collect(), command::definition);
    let mut note = |note: String| {
        // A remark that cannot be written is not missed.
        let _ = writeln!(std::io::stderr().lock(), "note: {}", text::block(&note));
    };
    let words = match counterpart::rewrite(words, command::definition, &mut note) {
        Ok(words) => words,
        Err(problem) => {
            report(&problem.into());
            return ExitCode::from(command::USAGE);
        }
    };
    let cli = match command::Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is there to be told that the terminal is gone.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(command::USAGE) } else { ExitCode::SUCCESS };
        }
    };
    command::run(cli, &home::Environment::of_process()).unwrap_or_else(|error| report(&error))
}

/// Tells an error and its next step on stderr, and gives its exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<command::Told>() {
        return ExitCode::FAILURE;
    }
    let io_error = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    if io_error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) {
        // The reader of our output has seen enough.
        return ExitCode::SUCCESS;
    }
    let problem = error.chain().find_map(|cause| cause.downcast_ref::<Problem>());
    let mut stderr = std::io::stderr().lock();
    let _ = match problem {
        Some(problem) => {
            let hint = problem.hint.iter().map(|hint| format!("hint: {}\n", text::block(hint)));
            write!(stderr, "error: {}\n{}", text::block(&problem.message), hint.collect::<String>())
        }
        None => writeln!(stderr, "error: {}", text::block(&format!("{error:#}"))),
    };
    ExitCode::from(problem.map_or(1, |problem| problem.kind.row().exit))
}
