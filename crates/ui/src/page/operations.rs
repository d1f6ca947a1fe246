//! All operations of the gateway.

use askama::Template;

use crate::filters;
use crate::frame::Frame;

/// The operations by what they are about.
#[derive(Debug, Template)]
#[template(path = "page/operations.html")]
pub struct OperationsPage {
    /// What stands around it.
    pub frame: Frame,
    /// What was looked for; empty for all.
    pub query: String,
    /// How many there are that the person may do.
    pub total: usize,
    /// The operations that match, by their headings.
    pub groups: Vec<OperationGroup>,
}

/// Operations under one heading.
#[derive(Debug)]
pub struct OperationGroup {
    /// The heading.
    pub tag: String,
    /// The operations.
    pub rows: Vec<OperationRow>,
}

/// One operation.
#[derive(Debug)]
pub struct OperationRow {
    /// The name of its tool.
    pub tool: String,
    /// What it does, in a few words.
    pub summary: String,
    /// `reads`, `changes`, `destroys` or `calls`.
    pub effect: &'static str,
}
