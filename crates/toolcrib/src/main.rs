//! The binary `toolcrib`: the gateway, and the commands that speak to a running one over the wire like any client.
//!
//! The only crate that knows all others: `compose` puts the gateway together, `command` is the command line.
// The future of a request is nested deeply.
#![recursion_limit = "256"]

mod autostart;
mod bridge;
mod browser;
mod client;
mod clients;
mod command;
mod compose;
mod config;
mod contexts;
mod counterpart;
mod endpoint_login;
mod example;
mod free;
mod home;
mod key_use;
mod kind;
mod lines;
mod loopback;
mod memory;
mod model;
mod names;
mod notify;
mod output;
mod ready;
mod repl;
mod secrets;
mod settings;
mod telemetry;
mod terminal;
mod text;
mod token;

use std::io::Write;
use std::process::ExitCode;

use clap_complete::CompleteEnv;

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
            output::report(&problem.into());
            return ExitCode::from(command::USAGE);
        }
    };
    command::parse_and_run(words, &home::Environment::of_process())
}
