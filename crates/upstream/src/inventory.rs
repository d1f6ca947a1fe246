//! What a server offers: drained from its lists, kept as last known good, written and read as JSON.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use toolcrib_protocol::inventory::{self, Entry, Listing};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::meta::SERVER_INFO;
use toolcrib_protocol::raw::{self, Edit, Writer};
use toolcrib_protocol::{Raw, Revision, RpcError, error};
use toolcrib_transport::LinkError;

use crate::live::LiveConnection;

/// How many pages of one list are read.
const PAGES: usize = 1_000;
/// How many entries of one list are kept.
const ENTRIES: usize = 50_000;
/// After how many warnings the pages of one list are read without further ones.
const WARNINGS: usize = 20;
/// The shortest time after which lists are read again automatically, whatever the server says.
const SHORTEST: Duration = Duration::from_secs(30);
/// The same where the server says nothing; also the longest.
const UNSAID: Duration = Duration::from_secs(5 * 60);
/// How many bytes of pages one list may take; its entries keep them in memory.
const LIST_BYTES: usize = 64 * 1024 * 1024;

/// What a server offers and says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Its tools in its own order.
    pub tools: Vec<Entry>,
    /// Its resources.
    pub resources: Vec<Entry>,
    /// Its resource templates.
    pub templates: Vec<Entry>,
    /// Its prompts.
    pub prompts: Vec<Entry>,
    /// Its capabilities, an object.
    pub capabilities: Option<Raw>,
    /// Its name and version as it claims them.
    pub server_info: Option<Raw>,
    /// Its instructions for the model.
    pub instructions: Option<String>,
    /// What was odd in its lists.
    pub warnings: Vec<String>,
    /// Whether it was listed with a credential, and is therefore for no one but its owner.
    pub is_own: bool,
}

/// Who asks for the pages of a list.
pub(crate) trait Ask: Sync {
    /// Whether the server is asked in the modern era.
    fn is_modern(&self) -> bool;

    /// Asks once.
    fn ask(
        &self,
        method: &str,
        params: &Raw,
        deadline: Duration,
    ) -> impl Future<Output = Result<Result<Raw, RpcError>, LinkError>> + Send;
}

/// The gateway itself, on a connection of its own.
impl Ask for LiveConnection {
    fn is_modern(&self) -> bool {
        Self::is_modern(self)
    }

    async fn ask(&self, method: &str, params: &Raw, deadline: Duration) -> Result<Result<Raw, RpcError>, LinkError> {
        Self::ask(self, method, params, deadline).await
    }
}

/// The inventory as it is written down. Raw, because a tree would change numbers and refuse some of what servers send.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow)]
    resources: Vec<&'a RawValue>,
    #[serde(borrow)]
    templates: Vec<&'a RawValue>,
    #[serde(borrow)]
    prompts: Vec<&'a RawValue>,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    server_info: Option<&'a RawValue>,
    instructions: Option<String>,
    #[serde(default)]
    is_own: bool,
}

impl Inventory {
    /// One of the four lists.
    pub fn list(&self, listing: Listing) -> &[Entry] {
        match listing {
            Listing::Tools => &self.tools,
            Listing::Resources => &self.resources,
            Listing::Templates => &self.templates,
            Listing::Prompts => &self.prompts,
        }
    }

    fn list_mut(&mut self, listing: Listing) -> &mut Vec<Entry> {
        match listing {
            Listing::Tools => &mut self.tools,
            Listing::Resources => &mut self.resources,
            Listing::Templates => &mut self.templates,
            Listing::Prompts => &mut self.prompts,
        }
    }

    /// Whether the server declared the capability `name`.
    pub fn has_capability(&self, name: &str) -> bool {
        self.capabilities.as_ref().is_some_and(|capabilities| capabilities.get(name).is_some())
    }

    /// Whether the server declared `part` of the capability `name`, as in `resources.subscribe`.
    pub fn declares(&self, name: &str, part: &str) -> bool {
        let capability = self.capabilities.as_ref().and_then(|capabilities| capabilities.get(name));
        capability.and_then(|it| it.get(part)).is_some_and(|it| it.as_str() == "true")
    }

    /// The inventory as JSON, entries byte for byte.
    pub fn to_json(&self) -> String {
        let mut out = Writer::object(4_096);
        for listing in Listing::ALL {
            let entries = self.list(listing).iter().map(|entry| entry.raw.as_str());
            let member = if listing == Listing::Templates { "templates" } else { listing.member() };
            out.member(member, raw::array(entries).as_str());
        }
        if let Some(capabilities) = &self.capabilities {
            out.member("capabilities", capabilities.as_str());
        }
        if let Some(info) = &self.server_info {
            out.member("server_info", info.as_str());
        }
        if let Some(instructions) = &self.instructions {
            out.text("instructions", instructions);
        }
        if self.is_own {
            out.member("is_own", "true");
        }
        out.finish().as_str().to_owned()
    }

    /// Reads what [`Inventory::to_json`] wrote; entries that are no longer understood are left out.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let record: Record<'_> = serde_json::from_str(text)?;
        // What is kept shares this one copy.
        let whole = Raw::parse(Bytes::copy_from_slice(text.as_bytes()), Rules::relayed(usize::MAX));
        let Ok(whole) = whole else { return Err(serde::de::Error::custom("a key appears twice")) };
        let inside = |value: &RawValue| {
            let start = value.get().as_ptr().addr() - text.as_ptr().addr();
            whole.part(&whole.as_str()[start..start + value.get().len()])
        };
        let mut inventory = Self {
            capabilities: record.capabilities.map(inside),
            server_info: record.server_info.map(inside),
            instructions: record.instructions,
            is_own: record.is_own,
            ..Self::default()
        };
        let lists = [
            (Listing::Tools, record.tools),
            (Listing::Resources, record.resources),
            (Listing::Templates, record.templates),
            (Listing::Prompts, record.prompts),
        ];
        for (listing, values) in lists {
            let entries = values.into_iter().filter_map(|value| Entry::from_raw(listing, inside(value)).ok());
            inventory.list_mut(listing).extend(entries);
        }
        Ok(inventory)
    }

    /// What the answer to `server/discover` says.
    pub(crate) fn discovered(&mut self, result: &Raw) {
        self.capabilities = result.get("capabilities").filter(Raw::is_object);
        // Of the first revision, servers complete without saying so: there was no such capability yet.
        if revision(result) == Some(Revision::V2024_11_05)
            && let Some(capabilities) = &self.capabilities
            && capabilities.get("completions").is_none()
        {
            self.capabilities = Some(capabilities.edit(&[("completions", Edit::Set("{}"))]));
        }
        self.server_info = result.get("_meta").and_then(|meta| meta.get(SERVER_INFO)).filter(Raw::is_object);
        self.instructions = result.text("instructions");
    }

    /// What the answer to `initialize` says.
    pub(crate) fn opened(&mut self, result: &Raw) {
        self.capabilities = result.get("capabilities").filter(Raw::is_object);
        // Of the first revision, servers complete without saying so: there was no such capability yet.
        if revision(result) == Some(Revision::V2024_11_05)
            && let Some(capabilities) = &self.capabilities
            && capabilities.get("completions").is_none()
        {
            self.capabilities = Some(capabilities.edit(&[("completions", Edit::Set("{}"))]));
        }
        self.server_info = result.get("serverInfo").filter(Raw::is_object);
        self.instructions = result.text("instructions");
    }
}

/// The revision named in the answer to `initialize`.
pub(crate) fn revision(result: &Raw) -> Option<Revision> {
    Revision::parse(&result.text("protocolVersion")?)
}

/// Reads the lists that the server declares. A list that fails keeps what `before` knew and leaves a warning, except
/// for the tools: a server whose tools cannot be listed is not ready.
///
/// Beside it, how long what was read may be taken as it is, where no one will tell when it changes (2026-07-28,
/// caching).
pub(crate) async fn drain(
    asking: &impl Ask,
    mut inventory: Inventory,
    before: &Inventory,
    deadline: Duration,
) -> Result<(Inventory, Option<Duration>), LinkError> {
    let mut fresh: Option<Duration> = None;
    let started = tokio::time::Instant::now();
    for listing in Listing::ALL {
        let capability = match listing {
            Listing::Tools => "tools",
            Listing::Resources | Listing::Templates => "resources",
            Listing::Prompts => "prompts",
        };
        if !inventory.has_capability(capability) {
            continue;
        }
        match drain_one(asking, listing, started + deadline).await {
            // What was left for the last page says nothing to people.
            Err(LinkError::Timeout(_)) if listing == Listing::Tools => return Err(LinkError::Timeout(deadline)),
            Ok((entries, warnings, ttl)) => {
                if asking.is_modern() && !inventory.declares(capability, "listChanged") {
                    fresh = Some(fresh.map_or(ttl, |fresh| fresh.min(ttl)));
                }
                *inventory.list_mut(listing) = entries;
                inventory.warnings.extend(warnings);
            }
            Err(error) if listing == Listing::Tools => return Err(error),
            Err(error) => {
                inventory.warnings.push(format!("`{}` failed: {error}", listing.method()));
                *inventory.list_mut(listing) = before.list(listing).to_vec();
            }
        }
    }
    Ok((inventory, fresh))
}

async fn drain_one(
    asking: &impl Ask,
    listing: Listing,
    until: tokio::time::Instant,
) -> Result<(Vec<Entry>, Vec<String>, Duration), LinkError> {
    let (mut entries, mut warnings, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    let mut bytes = 0;
    let mut ttl = UNSAID;
    let mut params = Raw::empty_object();
    for _ in 0..PAGES {
        let left = until.saturating_duration_since(tokio::time::Instant::now());
        let result = match asking.ask(listing.method(), &params, left).await? {
            Ok(result) => result,
            // Many servers declare resources and have no templates.
            Err(error) if error.code == error::METHOD_NOT_FOUND && listing == Listing::Templates => break,
            Err(error) => {
                return Err(LinkError::NotMcp(format!(
                    "`{}` answered error {}: {}",
                    listing.method(),
                    error.code,
                    error.message
                )));
            }
        };
        bytes += result.bytes().len();
        if bytes > LIST_BYTES {
            warnings.push(format!("only the first {LIST_BYTES} bytes of `{}` are read", listing.member()));
            break;
        }
        ttl = ttl.min(fresh_for(&result));
        let page = inventory::page(listing, &result);
        entries.extend(page.entries);
        if warnings.len() < WARNINGS {
            warnings.extend(page.warnings);
        }
        if entries.len() > ENTRIES {
            warnings.push(format!("only the first {ENTRIES} entries of `{}` are kept", listing.member()));
            entries.truncate(ENTRIES);
            break;
        }
        let Some(cursor) = page.next else { break };
        if !seen.insert(cursor.clone()) {
            let cursor: String = cursor.chars().take(80).collect();
            warnings.push(format!(
                "`{}` returned the cursor `{cursor}` twice; the remaining pages are not read",
                listing.method()
            ));
            break;
        }
        params = Raw::from_value(&serde_json::json!({ "cursor": cursor }));
    }
    let entries = inventory::without_duplicates(entries, &mut warnings);
    Ok((entries, warnings, ttl))
}

/// How long a page may be taken as it is. A server that says nothing, or 0, does not know when it will change.
fn fresh_for(page: &Raw) -> Duration {
    let millis = page.get("ttlMs").and_then(|ttl| ttl.as_str().parse::<u64>().ok()).filter(|ttl| *ttl > 0);
    millis.map_or(UNSAID, |ttl| Duration::from_millis(ttl).clamp(SHORTEST, UNSAID))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_inventory_survives_being_written() {
        let entry = |value: &serde_json::Value| Entry::from_raw(Listing::Tools, Raw::from_value(value)).unwrap();
        let inventory = Inventory {
            tools: vec![entry(&json!({"name": "a", "future": [1.0]}))],
            capabilities: Some(Raw::from_value(&json!({"tools": {}}))),
            instructions: Some("do".into()),
            ..Inventory::default()
        };
        assert_eq!(Inventory::from_json(&inventory.to_json()).unwrap(), inventory);
        assert!(inventory.has_capability("tools") && !inventory.has_capability("prompts"));
        assert!(Inventory::from_json("{}").is_err());
        assert!(Inventory::from_json("[]").is_err() && Inventory::from_json("").is_err());
    }

    #[test]
    fn servers_of_the_first_revision_may_complete_without_saying_so() {
        for (revision, completes) in [("2024-11-05", true), ("2025-03-26", false), ("2025-11-25", false)] {
            let mut inventory = Inventory::default();
            let result = json!({"protocolVersion": revision, "capabilities": {"prompts": {}}});
            inventory.opened(&Raw::from_value(&result));
            assert_eq!(inventory.has_capability("completions"), completes, "{revision}");
            assert!(inventory.has_capability("prompts"));
        }
    }

    #[test]
    fn lists_are_fresh_for_a_time_within_bounds() {
        for (ttl, seconds) in [
            (json!(60_000), 60),
            (json!(1), 30),
            (json!(0), 300),
            (json!(-1), 300),
            (json!("x"), 300),
            (json!(u64::MAX), 300),
            (json!(null), 300),
        ] {
            assert_eq!(fresh_for(&Raw::from_value(&json!({ "ttlMs": ttl }))), Duration::from_secs(seconds), "{ttl}");
        }
        assert_eq!(fresh_for(&Raw::empty_object()), UNSAID);
    }

    #[test]
    fn one_tool_that_no_tree_can_hold_does_not_take_the_inventory_with_it() {
        let odd = r#"{"name":"odd","inputSchema":{"type":"object","maximum":1e999,"x":1.10,"a":1,"a":2,"s":"\ud800"}}"#;
        let raw = Raw::parse(Bytes::from_static(odd.as_bytes()), Rules::relayed(16)).unwrap();
        let tools = vec![Entry::from_raw(Listing::Tools, raw).unwrap()];
        let inventory = Inventory { tools, ..Inventory::default() };
        assert_eq!(Inventory::from_json(&inventory.to_json()).unwrap(), inventory);
    }
}
