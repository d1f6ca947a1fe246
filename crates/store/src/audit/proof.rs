//! The proof that one event is in the log: the event, its place in the tree of a checkpoint, and the checkpoint. It needs no
//! log to be checked, and shows no other event.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::chain::{Fields, LATER, row_hash};
use super::checkpoint::{Checkpoint, CheckpointKey};
use super::hash::RowHash;
use super::verify::parts;
use super::writer::{read_head, to_sql};
use super::{checkpoints, tree};
use crate::database::Database;
use crate::error::StoreError;

/// The texts of a row that are always there, in the order of their columns.
const TEXTS: [&str; 7] = ["principal", "door", "method", "target", "decision", "outcome", "request_id"];
/// Those that may be missing, before [`LATER`].
const OPTIONS: [&str; 6] = ["profile", "arguments", "session", "credential", "address", "guard"];

/// The proof that an event is in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventProof {
    /// The event's number.
    pub seq: u64,
    /// When it happened, in milliseconds since 1970.
    pub at: i64,
    /// How long it took, in microseconds.
    pub duration_us: i64,
    /// The texts of the event, by their names; those that are missing in it are missing here.
    pub event: BTreeMap<String, String>,
    /// The keyed hash of its arguments, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<RowHash>,
    /// The hash of the event before.
    pub prev_hash: RowHash,
    /// The hashes beside the way to the root of the checkpoint's tree, from below.
    pub path: Vec<RowHash>,
    /// The checkpoint; `None` for an event that no checkpoint covers yet.
    pub checkpoint: Option<Checkpoint>,
    /// The checkpoints with which keys gave way to others, up to that one: from a key that is older than the checkpoint's.
    pub keys: Vec<Checkpoint>,
}

/// Why a proof proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofFault {
    /// There is no checkpoint in it.
    #[error("no checkpoint covers the event yet")]
    NotSigned,
    /// It has fields that no event has, or lacks one.
    #[error("it is no proof of an event")]
    NoEvent,
    /// The event is not the one that was signed for.
    #[error("the event is not in the tree of the checkpoint")]
    NotInTree,
    /// The signature is not the key's.
    #[error("the checkpoint is not signed with its key")]
    BadSignature,
    /// The key is not known, and no known key names it.
    #[error("the checkpoint is signed with another key, which the given key did not name")]
    OtherKey,
}

pub(super) fn prove(database: &Database, seq: u64) -> Result<Option<EventProof>, StoreError> {
    read(database, seq).map_err(database.error("read the audit log"))
}

fn read(database: &Database, seq: u64) -> rusqlite::Result<Option<EventProof>> {
    let connection = database.reader();
    let checkpoint = checkpoints::covering(&connection, seq)?;
    let mut statement = connection.prepare_cached("SELECT * FROM audit WHERE seq = ?1")?;
    let mut rows = statement.query([to_sql(seq)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let Ok((fields, previous, _)) = parts(row) else { return Ok(None) };
    let hash = |bytes: &[u8]| bytes.try_into().map_or(RowHash::GENESIS, RowHash);
    let mut proof = EventProof {
        seq,
        at: fields.at,
        duration_us: fields.duration_us,
        event: texts_of(&fields),
        args_hash: fields.args_hash.map(hash),
        prev_hash: hash(previous),
        path: Vec::new(),
        checkpoint: None,
        keys: Vec::new(),
    };
    let Some(checkpoint) = checkpoint else { return Ok(Some(proof)) };
    let mut leaves = Vec::new();
    let sql = "SELECT seq, hash FROM audit WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq";
    let mut statement = connection.prepare_cached(sql)?;
    for head in statement.query_map((to_sql(checkpoint.first), to_sql(checkpoint.seq)), read_head)? {
        leaves.push(head?.hash);
    }
    let index = seq.checked_sub(checkpoint.first).and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX);
    proof.path = tree::path(&leaves, index);
    proof.keys = checkpoints::rotations(&connection)?;
    proof.keys.retain(|change| change.number < checkpoint.number);
    proof.checkpoint = Some(checkpoint);
    Ok(Some(proof))
}

fn texts_of(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let Fields { principal, door, method, target, decision, outcome, request_id, .. } = *fields;
    let Fields { profile, arguments, session, credential, address, guard, later, .. } = *fields;
    let texts = [principal, door, method, target, decision, outcome, request_id].map(Some);
    let options = [profile, arguments, session, credential, address, guard];
    let all = TEXTS.into_iter().zip(texts).chain(OPTIONS.into_iter().zip(options)).chain(LATER.into_iter().zip(later));
    all.filter_map(|(name, text)| Some((name.to_owned(), text?.to_owned()))).collect()
}

impl EventProof {
    /// Checks it with a key that is known from elsewhere: the one that signed the checkpoint, or an earlier one.
    ///
    /// # Errors
    /// It proves nothing.
    pub fn check(&self, key: CheckpointKey) -> Result<&Checkpoint, ProofFault> {
        let checkpoint = self.checkpoint.as_ref().ok_or(ProofFault::NotSigned)?;
        let hash = self.hash().ok_or(ProofFault::NoEvent)?;
        let index = self.seq.checked_sub(checkpoint.first).ok_or(ProofFault::NotInTree)?;
        let leaves = (checkpoint.seq + 1).saturating_sub(checkpoint.first);
        if tree::root_of(hash, index, leaves, &self.path) != Some(checkpoint.root) {
            return Err(ProofFault::NotInTree);
        }
        if !checkpoint.is_signed() {
            return Err(ProofFault::BadSignature);
        }
        let named = self.keys.iter().filter(|change| change.is_signed() && change.number < checkpoint.number);
        let reached = named.fold(key, |known, change| if change.key == known { change.next_key() } else { known });
        let is_known = checkpoint.key == key || checkpoint.key == reached;
        is_known.then_some(checkpoint).ok_or(ProofFault::OtherKey)
    }

    /// The hash of the event's row.
    fn hash(&self) -> Option<RowHash> {
        let known = |name: &str| TEXTS.contains(&name) || OPTIONS.contains(&name) || LATER.contains(&name);
        if !self.event.keys().all(|name| known(name)) {
            return None;
        }
        let option = |name: &str| self.event.get(name).map(String::as_str);
        let args_hash = self.args_hash;
        let fields = Fields {
            at: self.at,
            principal: option("principal")?,
            profile: option("profile"),
            door: option("door")?,
            method: option("method")?,
            target: option("target")?,
            args_hash: args_hash.as_ref().map(|hash| &hash.0[..]),
            arguments: option("arguments"),
            decision: option("decision")?,
            outcome: option("outcome")?,
            duration_us: self.duration_us,
            request_id: option("request_id")?,
            session: option("session"),
            credential: option("credential"),
            address: option("address"),
            guard: option("guard"),
            later: LATER.map(option),
        };
        Some(row_hash(self.seq, self.prev_hash, &fields, &mut Vec::new()))
    }
}
