//! What was imported from where, so that a server whose definition a person fixed since is not imported once more
//! under another name. Holds no secrets: definitions only refer to them.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use toolcrib_base::ServerName;
use toolcrib_catalog::clients::Draft;

use super::keep;
use crate::home::Home;
use crate::token;

/// Larger files are not ours.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The file's content.
pub(crate) struct ImportRecords {
    path: PathBuf,
    records: Map<String, Value>,
}

// === impl ImportRecords ===

impl ImportRecords {
    /// What is recorded. A file that cannot be read records nothing.
    pub(crate) fn read(home: &Home) -> Self {
        let path = home.state().join("imported.json");
        let mut text = String::new();
        let read = fs::File::open(&path).and_then(|file| file.take(FILE_BYTES).read_to_string(&mut text));
        let records = match read.ok().and_then(|_| serde_json::from_str(&text).ok()) {
            Some(Value::Object(records)) => records,
            _ => Map::new(),
        };
        Self { path, records }
    }

    /// The definition that a client's server became, if the client says the same of it as then.
    pub(crate) fn name_of(&self, draft: &Draft) -> Option<ServerName> {
        let record = self.records.get(&origin(draft))?;
        let is_same = record["text"].as_str() == Some(&text(draft));
        is_same.then(|| record["name"].as_str().and_then(|name| ServerName::new(name).ok()))?
    }

    /// Notes the outcome of a client's server.
    pub(crate) fn note(&mut self, draft: &Draft, name: &ServerName) {
        self.records.insert(origin(draft), json!({ "name": name.as_str(), "text": text(draft) }));
    }

    pub(crate) fn write(&self) -> io::Result<()> {
        let text = Value::Object(self.records.clone());
        token::write_private(&self.path, format!("{text:#}\n").as_bytes())
    }
}

fn origin(draft: &Draft) -> String {
    let origin = &draft.origin;
    json!([origin.client, origin.file.to_string_lossy(), origin.key]).to_string()
}

/// What the client says, whatever name the definition got.
fn text(draft: &Draft) -> String {
    draft.text(&draft.name, &keep::reference)
}
