//! Measures Toolcrib beside yardsticks: backends, a byte forwarder, a proxy on the official SDK, a load generator, and
//! the run that puts them together. One program with many roles, because it starts itself for each.

mod agents;
mod backend;
mod child;
mod client;
mod forwarder;
mod gateway;
mod histogram;
mod identity;
mod idle_streams;
mod load;
mod machine;
mod policies;
mod process;
mod report;
mod run;
#[cfg(feature = "sdk")]
mod sdk_proxy;
mod serve;
mod single;
mod sinks;
mod soak;
mod ui;
mod wire;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

/// Speed and memory of Toolcrib, measured beside yardsticks in the same run
#[derive(Debug, Parser)]
#[command(name = "toolcrib-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure everything and print the tables
    Run(run::Run),
    /// Keep a gateway under load and print a row per minute
    Soak(soak::Soak),
    /// Measure tokens, credentials and the bridge
    Identity(identity::IdentityBench),
    /// Measure decisions by policies
    Policies(policies::PolicyBench),
    /// Measure the sinks of the audit log
    Sinks(sinks::SinkBench),
    /// Measure runs of agents
    Agents(agents::AgentBench),
    /// Measure the pages of the web user interface
    Ui(ui::UiBench),
    /// Load one URL and print what was found
    Load(single::LoadOne),
    /// Load `find_tools` of a running gateway
    Search(single::SearchOne),
    /// Hold idle event streams open at one URL and print their memory
    IdleStreams(single::IdleStreams),
    /// Be an MCP server over Streamable HTTP
    BackendHttp {
        #[command(flatten)]
        listen: serve::Listen,
        #[command(flatten)]
        offer: backend::Offer,
    },
    /// Be an MCP server over standard input and output
    BackendStdio {
        #[command(flatten)]
        offer: backend::Offer,
    },
    /// Forward raw bytes over HTTP: the first yardstick
    Forwarder {
        #[command(flatten)]
        listen: serve::Listen,
        /// URL to forward to
        #[arg(long)]
        backend: String,
    },
    /// Be a proxy on the official SDK: the second yardstick
    #[cfg(feature = "sdk")]
    SdkProxy {
        #[command(flatten)]
        listen: serve::Listen,
        #[command(flatten)]
        proxy: sdk_proxy::SdkProxy,
    },
}

fn main() -> ExitCode {
    process::raise_file_limit();
    match perform(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("toolcrib-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(run) => one_thread()?.block_on(Box::pin(run::run(&run))),
        Command::Soak(soak) => one_thread()?.block_on(Box::pin(soak::run(&soak))),
        Command::Identity(bench) => all_threads()?.block_on(Box::pin(identity::run(&bench))),
        Command::Policies(bench) => policies::run(&bench),
        Command::Sinks(bench) => all_threads()?.block_on(Box::pin(sinks::run(&bench))),
        Command::Agents(bench) => all_threads()?.block_on(Box::pin(agents::run(&bench))),
        Command::Ui(bench) => one_thread()?.block_on(Box::pin(ui::run(&bench))),
        Command::Load(load) => one_thread()?.block_on(Box::pin(single::load(&load))),
        Command::Search(search) => one_thread()?.block_on(Box::pin(single::search(&search))),
        Command::IdleStreams(idle) => one_thread()?.block_on(Box::pin(single::idle_streams(&idle))),
        Command::BackendHttp { listen, offer } => one_thread()?.block_on(Box::pin(backend::http::run(&listen, &offer))),
        Command::BackendStdio { offer } => backend::stdio::run(&offer),
        Command::Forwarder { listen, backend } => all_threads()?.block_on(Box::pin(forwarder::run(&listen, &backend))),
        #[cfg(feature = "sdk")]
        Command::SdkProxy { listen, proxy } => all_threads()?.block_on(Box::pin(sdk_proxy::run(&listen, &proxy))),
    }
}

/// For the load generator and the backend: no hand-over between threads, so they take the least from what is measured.
fn one_thread() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// For the yardsticks: the runtime that the gateway uses too.
fn all_threads() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

/// Prints to standard output; when no one reads it any more there is nothing left to say.
fn say(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_commands_contradict_nothing() {
        Arguments::command().debug_assert();
    }
}
