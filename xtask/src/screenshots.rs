//! `cargo xtask test --screenshots`: takes the pictures of the web user interface that the README and its guide show,
//! by the test that takes them anyway, and writes them into `docs/ui/`.

use std::time::Duration;

use anyhow::Result;

use crate::workspace::Workspace;
use crate::{child, need};

/// The flag of `test`.
pub const FLAG: &str = "--screenshots";
/// The test, and the variable that has it write what it takes.
const TEST: &str = "the_pictures_of_the_documents_are_taken_from_the_demo";
const VARIABLE: &str = "TOOLCRIB_SCREENSHOTS";
/// A whole build is part of it.
const DEADLINE: Duration = Duration::from_secs(60 * 60);

pub fn command(workspace: &Workspace) -> Result<bool> {
    anyhow::ensure!(need::browser().is_some(), "no browser: run `cargo xtask test --only need` first");
    let mut command = workspace.cargo();
    command.args(["test", "--package", "toolcrib", "--test", "it", "--", TEST]).env(VARIABLE, "1");
    Ok(child::run(&mut command, DEADLINE)?.success)
}
