//! By which words of a server its tools are found beside their own: what its definition says, what the built-in entry
//! of its package says, what the server itself says.

use toolcrib_catalog::{RegistryEntry, ServerDefinition};
use toolcrib_upstream::Inventory;

/// How much of a server's instructions is read, in bytes: they are written for models that use it, and only their
/// beginning says what it is for.
const INSTRUCTIONS: usize = 400;

/// The texts of a server in the order of what they are worth: of long ones the beginning counts.
pub(super) fn description(
    definition: &ServerDefinition,
    known: Option<&RegistryEntry>,
    inventory: &Inventory,
) -> String {
    let own = definition.description.as_deref().unwrap_or_default();
    let entry = known.and_then(|entry| entry.description.as_deref()).filter(|text| *text != own).unwrap_or_default();
    let instructions = inventory.instructions.as_deref().unwrap_or_default();
    let ends = instructions.char_indices().map(|(at, letter)| at + letter.len_utf8());
    let end = ends.take_while(|end| *end <= INSTRUCTIONS).last().unwrap_or(0);
    let instructions = &instructions[..end];
    let texts = [own, entry, instructions].map(str::trim);
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Category, tags and keywords; of a server that is recognised also those of its entry, with the entry's name, since
/// the name that it has here may say nothing.
pub(super) fn labels<'a>(definition: &'a ServerDefinition, known: Option<&'a RegistryEntry>) -> Vec<&'a str> {
    let own = definition.category.iter().chain(&definition.tags).chain(&definition.keywords).map(String::as_str);
    let entry = known.into_iter().flat_map(|entry| {
        let words = entry.category.iter().chain(&entry.tags).chain(&entry.keywords).map(String::as_str);
        std::iter::once(entry.name.as_str()).chain(words)
    });
    let mut labels: Vec<&str> = Vec::new();
    for label in own.chain(entry) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}
