//! How many tools may be loaded in a profile, and what happens to one more: the key `quota`.

use crate::reader::{Cursor, choice};

/// How many tools a set may hold where nothing is said.
const TOOLS: u32 = 200;
/// The largest quota: the loaded tools and the menu fit one page of a list.
const MOST: u32 = 500;

choice! {
    /// What happens when more would be loaded than the quota allows.
    OverQuota {
        /// Whatever was used least recently is unloaded.
        Evict = "evict",
        /// Nothing is loaded.
        Block = "block",
    }
}

/// How much one active set may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// How many tools.
    pub tools: u32,
    /// Of how many servers; `None` for as many as there are tools.
    pub servers: Option<u32>,
    pub policy: OverQuota,
}

impl Default for Quota {
    fn default() -> Self {
        Self { tools: TOOLS, servers: None, policy: OverQuota::Block }
    }
}

pub(super) fn read(cursor: Cursor<'_>) -> Option<Quota> {
    let default = Quota::default();
    let fields = cursor.fields()?;
    let quota = Quota {
        tools: fields.get("tools").and_then(|cursor| cursor.number(1, MOST)).unwrap_or(default.tools),
        servers: fields.get("servers").and_then(|cursor| cursor.number(1, MOST)),
        policy: fields.get("policy").and_then(|cursor| cursor.choice()).unwrap_or(default.policy),
    };
    fields.finish();
    Some(quota)
}
