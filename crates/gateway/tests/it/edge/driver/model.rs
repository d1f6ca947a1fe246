//! What the gateway should do: which definitions there are, whom they let in and what they show. Written without a look
//! at how the gateway does it.

use serde_json::json;
use toolcrib_catalog::KeyHash;
use toolcrib_protocol::Raw;

/// One that everybody may enter, and one with keys, which may be away.
pub(super) const PROFILES: [&str; 2] = ["default", "locked"];
/// One that is listed from the beginning, and one that is listed late.
pub(super) const SERVERS: [&str; 2] = ["early", "late"];
/// How many tools each server has.
pub(super) const TOOLS: u8 = 2;
/// How many keys there may be, each with a name of its own.
const KEYS: usize = 2;

/// The tools by number: those of the first server, then those of the second; `true` is called by the meta-tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ToolNumber {
    number: u8,
    by_call_tool: bool,
}

/// The key of a name in one of its generations: each rotation makes another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Credential {
    name: usize,
    generation: u8,
}

/// What the files of the profiles say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Definitions {
    /// The tools that each profile hides, a bit for each.
    hidden: [u8; 2],
    /// The generation of each key in force.
    keys: [Option<u8>; KEYS],
    /// The next generation of each key.
    next: [u8; KEYS],
    is_removed: bool,
}

/// What is in force at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) definitions: Definitions,
    /// Whether the tools of the second server are known.
    pub(super) is_listed: bool,
}

// === impl ToolNumber ===

impl ToolNumber {
    pub(super) fn of(byte: u8) -> Self {
        Self { number: byte % (2 * TOOLS), by_call_tool: byte & 8 != 0 }
    }

    /// Whether it is a tool of the server that is listed late.
    pub(super) fn is_late(self) -> bool {
        self.number >= TOOLS
    }

    fn server(self) -> &'static str {
        SERVERS[usize::from(self.is_late())]
    }

    /// The parameters of its call, by which the server knows it again.
    pub(super) fn params(self, call: u64) -> Raw {
        let (name, arguments) = (format!("{}_t{}", self.server(), self.number % TOOLS), json!({"call": call}));
        let direct = json!({"name": name, "arguments": arguments});
        Raw::from_value(&if self.by_call_tool { json!({"name": "call_tool", "arguments": direct}) } else { direct })
    }
}

// === impl Credential ===

impl Credential {
    /// The first generation of a key.
    pub(super) fn first(name: usize) -> Self {
        Self { name, generation: 0 }
    }

    pub(super) fn secret(self) -> String {
        format!("key-{}-{}", self.name, self.generation)
    }
}

// === impl Definitions ===

impl Definitions {
    /// Whoever has the first generation of this key is shown the tool of the same number and no other one.
    pub(super) fn of_one_key(key: usize) -> Self {
        let mut definitions = Self { hidden: [0, !(1 << key)], ..Self::default() };
        definitions.keys[key] = Some(0);
        definitions
    }

    /// These with one change.
    pub(super) fn changed(&self, byte: u8) -> Self {
        let mut next = self.clone();
        let (detail, key) = (byte >> 3, usize::from(byte >> 3 & 1));
        match byte % 8 {
            0 | 1 => next.hidden[usize::from(byte & 1)] ^= 1 << (detail % (2 * TOOLS)),
            2 | 3 => {
                next.keys[key] = Some(next.next[key]);
                next.next[key] += 1;
            }
            4 => next.keys[key] = None,
            5 if detail & 2 == 0 => next.is_removed = !next.is_removed,
            5 => next.keys = [None; KEYS],
            _ => next.hidden = [detail & 15, !detail & 15],
        }
        next
    }

    /// No credential, the key in force or the last one of a name, or the one before it.
    pub(super) fn credential(&self, byte: u8) -> Option<Credential> {
        let name = usize::from(byte & 3).checked_sub(1)? % KEYS;
        let back = if byte & 0b1100 == 0 { 2 } else { 1 };
        Some(Credential { name, generation: self.next[name].wrapping_sub(back) })
    }

    /// The file of a profile; `None` where there is none.
    pub(super) fn text(&self, profile: usize) -> Option<String> {
        if profile == 1 && self.is_removed {
            return None;
        }
        let name = PROFILES[profile];
        let hidden = (0..2 * TOOLS).filter(|number| self.hides(profile, *number));
        let hidden: Vec<_> =
            hidden.map(|number| format!("{}/t{}", SERVERS[usize::from(number >= TOOLS)], number % TOOLS)).collect();
        let mut text = format!("name: {name}\nexposure: direct\ntools: {}\n", json!({"deny": hidden}));
        if profile == 1 {
            let keys = self.keys.iter().enumerate().filter_map(|(name, generation)| {
                let hash = KeyHash::of(&Credential { name, generation: (*generation)? }.secret()).to_string();
                Some(json!({"name": format!("k{name}"), "hash": hash}))
            });
            text += &format!("keys: {}\n", json!(keys.collect::<Vec<_>>()));
        }
        Some(text)
    }

    fn hides(&self, profile: usize, number: u8) -> bool {
        self.hidden[profile] >> number & 1 == 1
    }
}

// === impl Version ===

impl Version {
    /// Whether somebody with this credential may enter a profile.
    pub(super) fn admits(&self, profile: usize, credential: Option<Credential>) -> bool {
        match (profile, credential) {
            (0, credential) => credential.is_none(),
            (_, Some(Credential { name, generation })) => {
                !self.definitions.is_removed && self.definitions.keys[name] == Some(generation)
            }
            (_, None) => false,
        }
    }

    /// Whether a profile shows a tool.
    pub(super) fn shows(&self, profile: usize, tool: ToolNumber) -> bool {
        !self.definitions.hides(profile, tool.number) && (self.is_listed || !tool.is_late())
    }
}
