//! Labels of single tools of a server: the key `tool_labels`.

use std::collections::BTreeMap;

use toolcrib_base::Glob;

use super::limits::PATTERNS;
use crate::reader::Cursor;

/// The labels of each tool that fits a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLabels {
    /// Over the names that the server gives its tools.
    pub pattern: Glob,
    /// What they are labelled with. A key that the server has too has this value for them.
    pub labels: BTreeMap<String, String>,
}

pub(super) fn read(cursor: &Cursor<'_>) -> Vec<ToolLabels> {
    let read = cursor.map(tool);
    if read.len() > PATTERNS {
        cursor.expected(format_args!("at most {PATTERNS} patterns"));
    }
    read.into_values().collect()
}

fn tool(pattern: &str, cursor: &Cursor<'_>) -> Option<ToolLabels> {
    match Glob::new(pattern) {
        Ok(pattern) => Some(ToolLabels { pattern, labels: super::labels(cursor) }),
        Err(error) => {
            let hint = "write the name that the server gives the tool, with `*` for any characters".to_owned();
            cursor.problem(format!("expected labels of a pattern over names of tools: {error}"), Some(hint));
            None
        }
    }
}
