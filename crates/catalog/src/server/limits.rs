//! How much may be called at a server: the key `limits`.

use toolcrib_base::Glob;

use crate::reader::{Cursor, Fields};
use crate::size::Size;

/// More would each be a connection, or a line that waits, beyond what one server answers at a time.
const MOST: u32 = 4_096;
/// As many calls may wait as the gateway ever lets wait at one server: each holds some 8 KiB.
const MOST_WAITING: u32 = 8_192;
/// Beyond, one may as well have no limit.
const MOST_A_MINUTE: u32 = 1_000_000;
/// So many patterns are looked at for each call.
pub(crate) const PATTERNS: usize = 256;

/// `None` is what the gateway does by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerLimits {
    /// Calls that may run at a time; more wait.
    pub concurrent: Option<u32>,
    /// Those of one tool.
    pub per_tool: Option<u32>,
    /// Calls that may wait.
    pub queue: Option<u32>,
    /// Calls that one user may make in any minute.
    pub per_minute: Option<u32>,
    /// How large the arguments of a call may be.
    pub argument_bytes: Option<Size>,
    /// How much of a result is passed on.
    pub result_bytes: Option<Size>,
    /// What holds for some tools beside that, in the order of their patterns.
    pub tools: Vec<ToolLimits>,
}

/// The limits of each tool that fits a pattern. Where several fit, the least number counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Over the names that the server gives its tools.
    pub pattern: Glob,
    /// Calls that may run at a time; more wait.
    pub concurrent: Option<u32>,
    /// Calls that may wait.
    pub queue: Option<u32>,
    /// Calls that one user may make in any minute.
    pub per_minute: Option<u32>,
    /// How large the arguments of a call may be.
    pub argument_bytes: Option<Size>,
    /// How much of a result is passed on.
    pub result_bytes: Option<Size>,
}

// === impl ServerLimits ===

impl ServerLimits {
    /// Those of a tool beside those of the whole server.
    pub fn of_tool<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a ToolLimits> {
        self.tools.iter().filter(move |limits| limits.pattern.matches(tool))
    }
}

pub(super) fn read(cursor: Cursor<'_>) -> Option<ServerLimits> {
    let fields = cursor.fields()?;
    let limits = ServerLimits {
        concurrent: number(&fields, "concurrent", 1, MOST),
        per_tool: number(&fields, "per_tool", 1, MOST),
        queue: number(&fields, "queue", 0, MOST_WAITING),
        per_minute: number(&fields, "per_minute", 1, MOST_A_MINUTE),
        argument_bytes: size(&fields, "argument_bytes"),
        result_bytes: size(&fields, "result_bytes"),
        tools: fields.get("tools").map(|cursor| tools(&cursor)).unwrap_or_default(),
    };
    fields.finish();
    Some(limits)
}

fn number(fields: &Fields<'_>, key: &'static str, least: u32, most: u32) -> Option<u32> {
    fields.get(key).and_then(|cursor| cursor.number(least, most))
}

pub(crate) fn size(fields: &Fields<'_>, key: &'static str) -> Option<Size> {
    fields.get(key).and_then(|cursor| cursor.parsed())
}

fn tools(cursor: &Cursor<'_>) -> Vec<ToolLimits> {
    let read = cursor.map(tool);
    if read.len() > PATTERNS {
        cursor.expected(format_args!("at most {PATTERNS} patterns"));
    }
    read.into_values().collect()
}

fn tool(pattern: &str, cursor: &Cursor<'_>) -> Option<ToolLimits> {
    let pattern = match Glob::new(pattern) {
        Ok(pattern) => pattern,
        Err(error) => {
            let hint = "write the name that the server gives the tool, with `*` for any characters".to_owned();
            cursor.problem(format!("expected limits of a pattern over names of tools: {error}"), Some(hint));
            return None;
        }
    };
    let fields = cursor.clone().fields()?;
    let limits = ToolLimits {
        pattern,
        concurrent: number(&fields, "concurrent", 1, MOST),
        queue: number(&fields, "queue", 0, MOST_WAITING),
        per_minute: number(&fields, "per_minute", 1, MOST_A_MINUTE),
        argument_bytes: size(&fields, "argument_bytes"),
        result_bytes: size(&fields, "result_bytes"),
    };
    fields.finish();
    Some(limits)
}
