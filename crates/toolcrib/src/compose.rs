//! The composition of the gateway from its crates.

use std::path::PathBuf;

use toolcrib_base::{Kind, Problem, ProfileName};

use crate::config::Config;

/// Serves over HTTP until the process is told to end.
pub(crate) async fn serve(config: Config, ready_file: Option<PathBuf>) -> anyhow::Result<()> {
    let _ = (config, ready_file);
    not_composed("serve").await
}

/// Serves one client over stdin and stdout.
pub(crate) async fn stdio(config: Config, profile: ProfileName) -> anyhow::Result<()> {
    let _ = (config, profile);
    not_composed("stdio").await
}

/// Serves the embedded example servers; shows a walk through them first.
pub(crate) async fn demo(config: Config, once: bool) -> anyhow::Result<()> {
    let _ = (config, once);
    not_composed("demo").await
}

async fn not_composed(what: &str) -> anyhow::Result<()> {
    Err(Problem::new(Kind::Internal, format!("`{what}` is not composed yet")).into())
}
