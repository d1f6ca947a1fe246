//! The canonical bytes of a row and the hash that chains it to the rows before.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::hash::RowHash;

/// Names this encoding; a later one begins with another text.
const DOMAIN: &[u8] = b"toolcrib audit row 1\n";

/// What stands before the address.
const ADDRESS_MARK: u8 = 1;
/// What stands before what guards found.
const GUARD_MARK: u8 = 2;
/// What stands before the first of [`LATER`]; the mark of each next one is one higher.
const LATER_MARK: u8 = 3;

/// The columns that came later, each optional. The hash covers a text by its place here: append, and change nothing.
pub(super) const LATER: [&str; 14] = [
    "proof",
    "token",
    "issuer",
    "oauth_client",
    "user",
    "actor",
    "client",
    "bridge",
    "role",
    "policies",
    "approval",
    "approver",
    "halt",
    "canary",
];

/// A place in the log: the row with this number has this hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Head {
    /// The row's number; rows are numbered from 1 without gaps, 0 is the empty log.
    pub seq: u64,
    /// The row's hash; zeroes for the empty log.
    pub hash: RowHash,
}

impl Head {
    /// The head of the empty log.
    pub const EMPTY: Self = Self { seq: 0, hash: RowHash::GENESIS };
}

/// The fields of a row as they are in the table, without the columns of the chain itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fields<'a> {
    pub(crate) at: i64,
    pub(crate) principal: &'a str,
    pub(crate) profile: Option<&'a str>,
    pub(crate) door: &'a str,
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) args_hash: Option<&'a [u8]>,
    pub(crate) arguments: Option<&'a str>,
    pub(crate) decision: &'a str,
    pub(crate) outcome: &'a str,
    pub(crate) duration_us: i64,
    pub(crate) request_id: &'a str,
    pub(crate) session: Option<&'a str>,
    pub(crate) credential: Option<&'a str>,
    pub(crate) address: Option<&'a str>,
    pub(crate) guard: Option<&'a str>,
    /// The columns of [`LATER`].
    pub(crate) later: [Option<&'a str>; LATER.len()],
}

/// The hash of row `seq`, which follows `previous`. `scratch` is only there to be used again.
pub(crate) fn row_hash(seq: u64, previous: RowHash, fields: &Fields<'_>, scratch: &mut Vec<u8>) -> RowHash {
    scratch.clear();
    encode(seq, previous, fields, scratch);
    RowHash(Sha256::digest(&scratch).into())
}

/// Fixed-width numbers, texts after their length, options after a byte that tells if they are there: no two
/// different rows have the same bytes.
fn encode(seq: u64, previous: RowHash, fields: &Fields<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(DOMAIN);
    out.extend_from_slice(&seq.to_be_bytes());
    out.extend_from_slice(&previous.0);
    // Taken apart by name, so that a new field cannot be forgotten here.
    let Fields {
        at,
        principal,
        profile,
        door,
        method,
        target,
        args_hash,
        arguments,
        decision,
        outcome,
        duration_us,
        request_id,
        session,
        credential,
        address,
        guard,
        later,
    } = *fields;
    out.extend_from_slice(&at.to_be_bytes());
    push(out, principal.as_bytes());
    push_option(out, profile.map(str::as_bytes));
    push(out, door.as_bytes());
    push(out, method.as_bytes());
    push(out, target.as_bytes());
    push_option(out, args_hash);
    push_option(out, arguments.map(str::as_bytes));
    push(out, decision.as_bytes());
    push(out, outcome.as_bytes());
    out.extend_from_slice(&duration_us.to_be_bytes());
    push(out, request_id.as_bytes());
    push_option(out, session.map(str::as_bytes));
    // Rows were written before there were such fields: without them, nothing follows. The length of a text begins with a
    // zero, so that the mark tells which it is.
    if let Some(credential) = credential {
        push(out, credential.as_bytes());
    }
    if let Some(address) = address {
        out.push(ADDRESS_MARK);
        push(out, address.as_bytes());
    }
    if let Some(guard) = guard {
        out.push(GUARD_MARK);
        push(out, guard.as_bytes());
    }
    for (mark, text) in (LATER_MARK..).zip(later) {
        if let Some(text) = text {
            out.push(mark);
            push(out, text.as_bytes());
        }
    }
}

fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    // `usize` is at most 64 bits wide on every target of Rust.
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn push_option(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.push(0),
        Some(bytes) => {
            out.push(1);
            push(out, bytes);
        }
    }
}

#[cfg(test)]
mod tests;
