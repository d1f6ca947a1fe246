//! real stub
use crate::steps::{Setting, Verdict};
use crate::workspace::Workspace;
use anyhow::Result;
pub fn command(_: &Workspace, _: &[String]) -> Result<bool> {
    Ok(true)
}
pub fn step(_: &Workspace, _: Setting) -> Result<Verdict> {
    Ok(Verdict::plain(true))
}
