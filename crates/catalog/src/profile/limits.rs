//! How much one principal may call in a profile: the key `limits`.

use crate::reader::Cursor;

/// The highest limits: beyond, one may as well have none.
const MOST: u32 = 1_000_000;

/// For each principal alone; `None` stands for any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallLimits {
    /// Tool calls that may run at a time.
    pub concurrent: Option<u32>,
    /// Tool calls a minute, which come back one by one: who has called nothing for a minute may call all of them at once.
    pub per_minute: Option<u32>,
}

pub(super) fn read(cursor: Cursor<'_>) -> Option<CallLimits> {
    let fields = cursor.fields()?;
    let limits = CallLimits {
        concurrent: fields.get("concurrent").and_then(|cursor| cursor.number(1, MOST)),
        per_minute: fields.get("per_minute").and_then(|cursor| cursor.number(1, MOST)),
    };
    fields.finish();
    Some(limits)
}
