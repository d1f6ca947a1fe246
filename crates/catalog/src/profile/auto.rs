//! When `exposure: auto` lists every tool: the key `auto`.

use crate::reader::Cursor;

/// So many tools can be chosen from a list as well as by a search, and a search takes a step more.
const TOOLS: u32 = 40;
/// What a list may cost at the start of every conversation.
const TOKENS: u32 = 8_000;
/// Clients that load a tool's definition only when they need it, as they name themselves.
const DEFERRING: [&str; 1] = ["claude-code"];

/// Up to what all tools are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoExposure {
    /// How many tools.
    pub tools: u32,
    /// How many tokens their names, descriptions and parameters are.
    pub tokens: u32,
    /// Names of legacy clients for whom everything is listed however much it is, because they search it themselves.
    pub deferring: Vec<String>,
}

impl Default for AutoExposure {
    fn default() -> Self {
        Self { tools: TOOLS, tokens: TOKENS, deferring: DEFERRING.map(str::to_owned).to_vec() }
    }
}

pub(super) fn read(cursor: Cursor<'_>) -> Option<AutoExposure> {
    let default = AutoExposure::default();
    let fields = cursor.fields()?;
    let read = AutoExposure {
        tools: fields.get("tools").and_then(|cursor| cursor.number(0, 10_000)).unwrap_or(default.tools),
        tokens: fields.get("tokens").and_then(|cursor| cursor.number(0, 10_000_000)).unwrap_or(default.tokens),
        deferring: if fields.has("deferring") { fields.texts("deferring") } else { default.deferring },
    };
    fields.finish();
    Some(read)
}
