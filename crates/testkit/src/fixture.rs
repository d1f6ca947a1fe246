//! A server on the official SDK with everything that the conformance suite asks for, in either era or both. It is an
//! implementation that is not ours: nothing in here writes or reads a message by itself.
//!
//! To add a tool, add its definition to `fixture/catalogue.rs` and its row to `fixture/tools.rs` (`fixture/jobs.rs` for
//! one that becomes a task).

// Roots, sampling and logging are deprecated by 2026-07-28 but valid; a bridge has to carry them.
#![allow(deprecated)]

mod catalogue;
mod jobs;
mod library;
mod options;
mod server;
mod talk;
mod tools;
mod watchers;

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;

use options::{Door, Options, Pin};
use server::{Fixture, FixtureState};

/// Runs the server with these flags: over stdio until its stdin is closed, over HTTP until it is ended.
pub fn run(args: impl Iterator<Item = String>) -> ExitCode {
    let options = match options::parse(args) {
        Ok(Some(options)) => options,
        Ok(None) => {
            let _ = std::io::stdout().write_all(options::HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "conformance-fixture: {message}");
            return ExitCode::from(2);
        }
    };
    let served = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(serve(&options)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "conformance-fixture: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: &Options) -> anyhow::Result<()> {
    let shared = Arc::new(FixtureState::new(options.pin));
    match options.door {
        Door::Stdio => {
            let running = Fixture::new(shared).serve(rmcp::transport::stdio()).await?;
            running.waiting().await?;
            Ok(())
        }
        Door::Http(address) => serve_http(address, options.pin, shared).await,
    }
}

async fn serve_http(address: SocketAddr, pin: Pin, shared: Arc<FixtureState>) -> anyhow::Result<()> {
    let mut config = StreamableHttpServerConfig::default();
    // A server of the modern era alone knows no sessions: GET and DELETE are 405.
    config.legacy_session_mode = pin != Pin::Modern;
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(Fixture::new(Arc::clone(&shared))), sessions, config);
    let listener = tokio::net::TcpListener::bind(address).await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", json!({"url": url}))?;
        out.flush()?;
    }
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
