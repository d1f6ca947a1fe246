//! `toolcrib version`.

use crate::output;

pub(crate) fn run() -> anyhow::Result<()> {
    Ok(output::print(&format!("toolcrib {}\n", env!("CARGO_PKG_VERSION")))?)
}
