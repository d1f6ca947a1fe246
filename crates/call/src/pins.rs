//! What of each server was approved, kept in memory beside the state, and what of it is held back.
//!
//! A server that was never verified has no pin: a profile that holds changed tools shows nothing of it. A definition with
//! `tools` and `verified_at` pins those tools until the first verification.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use toolcrib_base::{PrincipalId, ServerName, Timestamp, ToolId};
use toolcrib_catalog::ServerDefinition;
use toolcrib_catalog::pin::{Digest, Item, Offer, Part};
use toolcrib_policy::HeldItems;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Raw, json};
use toolcrib_store::{PinChange, PinRecord, StoreError};
use toolcrib_upstream::Inventory;
use toolcrib_view::ServerTable;

use crate::servers::listed_in;

/// Who decided about something, and when.
pub type Decision = (Timestamp, PrincipalId);

/// What was decided about one server.
#[derive(Debug, Default)]
pub struct Pin {
    /// What was approved; `None` where nothing ever was.
    pub approved: Option<Offer>,
    digests: HashMap<Item, Digest>,
    /// What was turned down, as it was then.
    rejected: HashMap<Item, (Digest, Decision)>,
    /// When it was last verified.
    pub verified_at: Option<Timestamp>,
    /// The digest of what it offered then.
    pub verified_digest: Option<String>,
}

/// What was decided about all servers.
#[derive(Debug)]
pub struct Pins {
    store: toolcrib_store::Pins,
    table: ArcSwap<BTreeMap<ServerName, Arc<Pin>>>,
    /// Decisions are written and read again one after the other.
    deciding: Mutex<()>,
}

/// What is held of each server, kept between two builds of views.
#[derive(Debug, Default)]
pub struct Quarantine {
    known: HashMap<ServerName, KnownOffer>,
    all: Arc<HeldItems>,
}

/// What is held of one server, and from what that was found out.
#[derive(Debug)]
struct KnownOffer {
    inventory: Arc<Inventory>,
    definition: Arc<ServerDefinition>,
    pin: Option<Arc<Pin>>,
    tools: Vec<ToolId>,
    prompts: Vec<ToolId>,
    templates: Vec<ToolId>,
}

// === impl Pin ===

impl Pin {
    fn of_record(record: &PinRecord) -> Self {
        let mut approved = Offer::default();
        for it in &record.pinned {
            // What no version of this program wrote is not approved.
            let Some(part) = Part::parse(&it.part) else { continue };
            let Ok(raw) = Raw::parse(it.definition.clone().into(), Rules::relayed(usize::MAX)) else { continue };
            approved.insert(Item::new(part, &it.name), raw);
        }
        let rejected = record.rejected.iter().filter_map(|it| {
            let item = Item::new(Part::parse(&it.part)?, &it.name);
            Some((item, (Digest::parse(&it.digest)?, (it.decided_at, it.decided_by.clone()))))
        });
        Self {
            digests: digests(&approved),
            rejected: rejected.collect(),
            verified_at: record.verified.as_ref().map(|(at, _)| *at),
            verified_digest: record.verified.as_ref().map(|(_, digest)| digest.clone()),
            approved: (!record.pinned.is_empty() || record.verified.is_some()).then_some(approved),
        }
    }

    /// What the definition's own file pins.
    fn of_definition(definition: &ServerDefinition) -> Option<Offer> {
        definition.verified_at.as_ref().filter(|_| !definition.tools.is_empty())?;
        Some(Offer::new(&listed_in(definition), &[], &[], None))
    }

    /// Whether something is as it was approved.
    pub fn approves(&self, item: &Item, definition: &Raw) -> bool {
        self.digests.get(item).is_some_and(|digest| *digest == Digest::of(definition))
    }

    /// Who turned it down as it is now, if someone did.
    pub fn rejection(&self, item: &Item, definition: &Raw) -> Option<&Decision> {
        let (digest, decided) = self.rejected.get(item)?;
        (*digest == Digest::of(definition)).then_some(decided)
    }
}

fn digests(offer: &Offer) -> HashMap<Item, Digest> {
    offer.items().map(|(item, definition)| (item.clone(), Digest::of(definition))).collect()
}

/// What a server offers, as far as it is pinned.
pub fn offer_of(inventory: &Inventory) -> Offer {
    Offer::new(&inventory.tools, &inventory.prompts, &inventory.templates, inventory.instructions.as_deref())
}

// === impl Pins ===

impl Pins {
    /// Reads what was decided. Blocks. Where that cannot be read nothing counts as approved.
    pub fn new(store: toolcrib_store::Pins) -> Self {
        let pins = Self { store, table: ArcSwap::default(), deciding: Mutex::default() };
        if let Err(error) = pins.read() {
            tracing::warn!(%error, "cannot read the approvals; profiles that hold changed tools hold all tools");
        }
        pins
    }

    fn read(&self) -> Result<(), StoreError> {
        let records = self.store.all()?;
        let pins = records.into_iter().map(|(server, record)| (server, Arc::new(Pin::of_record(&record))));
        self.table.store(Arc::new(pins.collect()));
        Ok(())
    }

    /// What was decided about a server.
    pub fn of(&self, definition: &ServerDefinition) -> Option<Arc<Pin>> {
        let stored = self.table.load().get(&definition.name).cloned();
        if stored.as_ref().is_some_and(|pin| pin.approved.is_some()) {
            return stored;
        }
        let Some(approved) = Pin::of_definition(definition) else { return stored };
        let rejected = stored.map(|pin| pin.rejected.clone()).unwrap_or_default();
        Some(Arc::new(Pin {
            digests: digests(&approved),
            approved: Some(approved),
            rejected,
            verified_at: None,
            verified_digest: None,
        }))
    }

    /// Writes a decision down and takes it in. What the definition's file pins is written down with the first one. Blocks.
    pub fn decide(
        &self,
        definition: &ServerDefinition,
        mut change: PinChange,
        by: &PrincipalId,
    ) -> Result<(), StoreError> {
        let _deciding = self.deciding.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = self.table.load().get(&definition.name).is_some_and(|pin| pin.approved.is_some());
        if !stored && let Some(file) = Pin::of_definition(definition) {
            let named = |item: &Item| {
                let same = |part: &str, name: &str| part == item.part.as_str() && name == item.name;
                change.approve.iter().any(|(part, name, _)| same(part, name))
                    || change.forget.iter().any(|(part, name)| same(part, name))
            };
            let kept: Vec<_> = file
                .items()
                .filter(|(item, _)| !named(item))
                .map(|(item, definition)| approval(item, definition))
                .collect();
            change.approve.extend(kept);
        }
        self.store.decide(&definition.name, &change, by)?;
        self.read()
    }

    /// Remembers a verification. Blocks.
    pub fn verified(&self, server: &ServerName, digest: Digest) -> Result<(), StoreError> {
        let _deciding = self.deciding.lock().unwrap_or_else(PoisonError::into_inner);
        self.store.verified(server, &digest.to_string())?;
        self.read()
    }
}

/// The record of an approval.
pub fn approval(item: &Item, definition: &Raw) -> (String, String, String) {
    (item.part.as_str().to_owned(), item.name.clone(), json::compact(definition.as_str()).into_owned())
}

// === impl Quarantine ===

impl Quarantine {
    /// Brings it up to date: only servers of which something changed are compared again.
    pub fn update(&mut self, servers: &ServerTable, pins: &Pins) -> Arc<HeldItems> {
        let before = self.known.len();
        self.known.retain(|name, _| servers.contains_key(name));
        let mut changed = self.known.len() != before;
        for (name, running) in servers {
            let (inventory, stored) = (running.server.inventory(), pins.table.load().get(name).cloned());
            let same = |known: &KnownOffer| {
                Arc::ptr_eq(&known.inventory, &inventory)
                    && Arc::ptr_eq(&known.definition, &running.definition)
                    && known.pin.as_ref().map(Arc::as_ptr) == stored.as_ref().map(Arc::as_ptr)
            };
            if self.known.get(name).is_some_and(same) {
                continue;
            }
            let pin = pins.of(&running.definition);
            let approved =
                |part, key: &str, raw: &Raw| pin.as_ref().is_some_and(|pin| pin.approves(&Item::new(part, key), raw));
            let held = |part, entries: &[toolcrib_protocol::inventory::Entry]| -> Vec<ToolId> {
                let held = entries.iter().filter(|entry| !approved(part, &entry.key, &entry.raw));
                held.map(|entry| ToolId::new(name.clone(), &entry.key)).collect()
            };
            let (tools, prompts) = (held(Part::Tool, &inventory.tools), held(Part::Prompt, &inventory.prompts));
            let templates = held(Part::Template, &inventory.templates);
            let definition = Arc::clone(&running.definition);
            let known = KnownOffer { inventory, definition, pin: stored, tools, prompts, templates };
            self.known.insert(name.clone(), known);
            changed = true;
        }
        if changed {
            let known = || self.known.values();
            self.all = Arc::new(HeldItems {
                tools: known().flat_map(|it| it.tools.iter().cloned()).collect(),
                prompts: known().flat_map(|it| it.prompts.iter().cloned()).collect(),
                templates: known().flat_map(|it| it.templates.iter().cloned()).collect(),
            });
        }
        Arc::clone(&self.all)
    }
}
