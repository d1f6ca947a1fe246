//! Workflows: what a step costs beyond the call that it makes, how long a list of many takes, and a whole suite of
//! behaviour scenarios.
//!
//! To add a measurement: a file here with `measure(run, program, sheet)`, and a line in [`measure`].

mod list;
mod scenarios;
mod steps;

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::gateway::Home;
use crate::say;

use super::sheet::Sheet;
use super::{Findings, Run};

/// Measures everything here and gives the text for the document.
pub(super) async fn measure(run: &Run, program: &Path, findings: &mut Findings) -> String {
    let mut sheet = Sheet::new();
    let steps = Box::pin(steps::measure(run, program, &mut sheet)).await;
    findings.note("the steps of a workflow", steps);
    let list = Box::pin(list::measure(run, program, &mut sheet)).await;
    findings.note("the list of workflows", list);
    let scenarios = scenarios::measure(program, &mut sheet);
    findings.note("behaviour scenarios", scenarios);
    let text = sheet.markdown("Aims of workflows and scenarios");
    say(&text);
    text
}

fn define(home: &Home, name: &str, keys: &str) -> anyhow::Result<()> {
    let folder = home.path().join("workflows");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{name}.yaml"));
    fs::write(&file, format!("name: {name}\n{keys}")).with_context(|| format!("write `{}`", file.display()))
}
