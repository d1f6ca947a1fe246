//! How much one user may call in a profile: the key `limits`.

use crate::reader::Cursor;
use crate::server::limits::size;
use crate::size::Size;

/// The highest limits: beyond, one may as well have none.
const MOST: u32 = 1_000_000;

/// For each user alone; `None` stands for any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallLimits {
    /// Tool calls that may run at a time.
    pub concurrent: Option<u32>,
    /// Tool calls that may be made in any minute.
    pub per_minute: Option<u32>,
    /// How large the arguments of a call may be.
    pub argument_bytes: Option<Size>,
    /// How much of a result is passed on.
    pub result_bytes: Option<Size>,
}

pub(super) fn read(cursor: Cursor<'_>) -> Option<CallLimits> {
    let fields = cursor.fields()?;
    let limits = CallLimits {
        concurrent: fields.get("concurrent").and_then(|cursor| cursor.number(1, MOST)),
        per_minute: fields.get("per_minute").and_then(|cursor| cursor.number(1, MOST)),
        argument_bytes: size(&fields, "argument_bytes"),
        result_bytes: size(&fields, "result_bytes"),
    };
    fields.finish();
    Some(limits)
}
