//! The clients of other makers: where each keeps its settings, how its servers become definitions (`import`), and how
//! we are written into its settings and taken out again without touching anything else (`connect`, `disconnect`).
//!
//! To add a client, add its row to `table::CLIENTS`; if it spells its servers differently, teach `translate` to
//! read that, and write a sample of its file into `clients/tests.rs`.
//!
//! Reading order: `table` (who), `place` (where), `settings` (one file's text: servers in it, edits of it),
//! `jsonc` and `toml` (the edits themselves), `file` (the file on disk), `translate`, `address` and `draft`
//! (from a client's server to a definition), `settle` (names), `preview`.

mod address;
mod draft;
mod file;
mod jsonc;
mod moving;
mod muster;
mod place;
mod preview;
mod settings;
mod settle;
mod splice;
mod table;
mod toml;
mod translate;

pub use draft::{Draft, Origin, SecretReference};
pub use file::{FileError, SettingsFile, WriteAll, digest, file_stamp, write_all_and_sync};
pub use moving::{MovedServer, Undo, move_out, region, restore};
pub use muster::translate_object;
pub use place::{Place, Places, Platform, Root, VariableOf};
pub(crate) use preview::difference;
pub use preview::preview;
pub use settings::{
    ClientServer, ConnectOutcome, EntryUndo, Input, SettingsError, connect, disconnect, entry, find, find_entry,
    inputs, is_connected,
};
pub use settle::{ImportDecision, Outcome, settle};
pub use splice::{Splice, Splices};
pub use table::{CLIENTS, Client, Format, Source, Transports, client};
pub use translate::{Answer, ITSELF, Surroundings, translate, unknown_words};

/// The name of our own entry in a client's settings.
pub const OURS: &str = "toolcrib";

#[cfg(test)]
mod tests;
