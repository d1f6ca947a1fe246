//! How many calls a server may have running: the key `limits`.

use crate::reader::Cursor;

/// More would each be a connection, or a line that waits, beyond what one server answers at a time.
const MOST: u32 = 4_096;

/// `None` is what the gateway does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerLimits {
    /// Calls that may run at a time; more wait.
    pub concurrent: Option<u32>,
    /// Those of one tool.
    pub per_tool: Option<u32>,
}

pub(super) fn read(cursor: Cursor<'_>) -> Option<ServerLimits> {
    let fields = cursor.fields()?;
    let limits = ServerLimits {
        concurrent: fields.get("concurrent").and_then(|cursor| cursor.number(1, MOST)),
        per_tool: fields.get("per_tool").and_then(|cursor| cursor.number(1, MOST)),
    };
    fields.finish();
    Some(limits)
}
