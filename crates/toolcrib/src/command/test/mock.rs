//! `toolcrib test --mock-mcp-server`: a mock server over stdin and stdout.

use std::path::Path;

use anyhow::{Context, bail};
use toolcrib_scenario::{Mock, serve_stdio};

pub(super) fn run(file: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read `{}`", file.display()))?;
    let mock = match Mock::read(file, &text) {
        Ok(mock) => mock,
        Err(wrong) => bail!("{}", wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    };
    super::super::on_this_thread(async {
        Ok(serve_stdio(mock, Some(file.to_owned()), tokio::io::stdin(), tokio::io::stdout()).await?)
    })
}
