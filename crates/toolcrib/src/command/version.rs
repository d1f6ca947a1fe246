//! `toolcrib version`.

use std::io::Write;

pub(crate) fn run() -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "toolcrib {}", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
