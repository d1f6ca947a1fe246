//! The newest index that was seen of each signer, in `state/update.json`: an older one that someone shows later is known
//! by it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolcrib_base::{Kind, Problem, Timestamp};

use super::index::Release;
use super::key::ReleaseKey;
use crate::home::Home;
use crate::token;

/// A line for each of some keys.
const FILE_BYTES: u64 = 64 * 1024;

/// The file.
#[derive(Debug)]
pub(super) struct NewestIndexes {
    file: PathBuf,
    seen: BTreeMap<String, SeenIndex>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SeenIndex {
    released: Timestamp,
    version: String,
}

// === impl NewestIndexes ===

impl NewestIndexes {
    pub(super) fn load(home: &Home) -> Result<Self, Problem> {
        let file = home.state().join("update.json");
        let seen = match read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error.to_string()),
        };
        match seen {
            Ok(seen) => Ok(Self { file, seen }),
            Err(why) => {
                let message = format!("cannot read which releases were seen, in `{}`: {why}", file.display());
                let hint = "remove the file if you cannot repair it: an older index would then be accepted once";
                Err(Problem::new(Kind::Definition, message).hint(hint))
            }
        }
    }

    /// When the newest index of this signer was made.
    pub(super) fn of(&self, key: &ReleaseKey) -> Option<Timestamp> {
        self.seen.get(key.line()).map(|seen| seen.released)
    }

    /// Remembers an index, unless it is older than the one that is remembered.
    pub(super) fn remember(&mut self, key: &ReleaseKey, release: &Release) -> io::Result<()> {
        if self.of(key).is_some_and(|newest| newest >= release.released) {
            return Ok(());
        }
        let seen = SeenIndex { released: release.released, version: release.version.to_string() };
        self.seen.insert(key.line().to_owned(), seen);
        token::write_private(&self.file, &serde_json::to_vec_pretty(&self.seen)?)
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
