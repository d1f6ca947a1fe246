//! Pins: what of a server was approved, how that is compared with what the server offers now, and how the difference
//! is shown to people. Pure: who approves, and what becomes of the rest, is decided elsewhere.
//!
//! The whole set counts: tools, prompts and resource templates with everything that their definitions say, and the
//! server's instructions. Resources are left out, as they come and go with what they stand for.

mod difference;
mod digest;
mod visible;

use std::collections::BTreeMap;

use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::Entry;

pub use difference::{Difference, Field, Item, ItemChange, ItemRename};
pub use digest::Digest;
pub use visible::visible;

/// What kind of thing is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource template.
    Template,
    /// The server's instructions for the model; there is one, without a name.
    Instructions,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 4] = [Self::Tool, Self::Prompt, Self::Template, Self::Instructions];

    /// The word in records and for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Template => "template",
            Self::Instructions => "instructions",
        }
    }

    /// Reads [`Part::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == word)
    }

    /// The member of a definition that names it.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt | Self::Instructions => "name",
            Self::Template => "uriTemplate",
        }
    }
}

/// A set of definitions that can be pinned, each as its server wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offer {
    items: BTreeMap<Item, Raw>,
}

// === impl Offer ===

impl Offer {
    /// What a server offers.
    pub fn new(tools: &[Entry], prompts: &[Entry], templates: &[Entry], instructions: Option<&str>) -> Self {
        let mut offer = Self::default();
        for (part, entries) in [(Part::Tool, tools), (Part::Prompt, prompts), (Part::Template, templates)] {
            for entry in entries {
                offer.insert(Item::new(part, &entry.key), entry.raw.clone());
            }
        }
        if let Some(instructions) = instructions {
            offer.insert(Item::new(Part::Instructions, ""), Raw::from_value(&instructions));
        }
        offer
    }

    /// Adds a definition in place of an earlier one of the same name.
    pub fn insert(&mut self, item: Item, definition: Raw) {
        self.items.insert(item, definition);
    }

    /// Takes a definition out.
    pub fn remove(&mut self, item: &Item) {
        self.items.remove(item);
    }

    /// One definition.
    pub fn get(&self, item: &Item) -> Option<&Raw> {
        self.items.get(item)
    }

    /// All definitions, by part and name.
    pub fn items(&self) -> impl Iterator<Item = (&Item, &Raw)> {
        self.items.iter()
    }

    /// The same, taken out of it.
    pub fn into_items(self) -> impl Iterator<Item = (Item, Raw)> {
        self.items.into_iter()
    }

    /// How many definitions it has.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Names the whole set: the same definitions have the same digest, in whatever order they were listed.
    pub fn digest(&self) -> Digest {
        Digest::of_all(self.items.iter().map(|(item, definition)| (item, Digest::of(definition))))
    }
}

#[cfg(test)]
mod tests;
