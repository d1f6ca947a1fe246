//! Same calls: those that give the same result again and again, and those whose end is not known.

use std::collections::HashMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::entry::CallId;

/// The third same call with the same result is told to the model …
const TOLD: u32 = 3;
/// … and the fifth ends the run.
const STUCK: u32 = 5;

/// A call by what it does: its tool and its arguments, whatever the order of their keys and their white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallKey([u8; 16]);

impl CallKey {
    pub(crate) fn new(tool: &str, arguments: &Value) -> Self {
        let mut digest = Sha256::new();
        digest.update((tool.len() as u64).to_le_bytes());
        digest.update(tool.as_bytes());
        take_in(&mut digest, arguments);
        Self(short(digest))
    }

    /// Of arguments that are no JSON.
    pub(crate) fn of_text(tool: &str, arguments: &str) -> Self {
        Self::new(tool, &Value::String(arguments.to_owned()))
    }
}

fn short(digest: Sha256) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.finalize()[..16]);
    bytes
}

fn take_in(digest: &mut Sha256, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            digest.update(b"{");
            for (key, value) in members {
                digest.update((key.len() as u64).to_le_bytes());
                digest.update(key.as_bytes());
                take_in(digest, value);
            }
            digest.update(b"}");
        }
        Value::Array(items) => {
            digest.update(b"[");
            items.iter().for_each(|item| take_in(digest, item));
            digest.update(b"]");
        }
        // `1.0` is `1`: who repeats a call may write it either way.
        Value::Number(number) => {
            let whole = number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < 9e15);
            let text = whole.map_or_else(|| number.to_string(), |value| format!("{value:.0}"));
            digest.update(text.as_bytes());
            digest.update(b",");
        }
        // Strings are quoted and escaped, so that none looks like something else.
        other => {
            digest.update(other.to_string().as_bytes());
            digest.update(b",");
        }
    }
}

/// How often each call gave the same result in a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Repeats(HashMap<CallKey, ([u8; 16], u32)>);

/// What a result means after the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// Nothing.
    None,
    /// The model is told that it is the n-th.
    Told(u32),
    /// The run ends after this turn.
    Stuck,
}

impl Repeats {
    pub(crate) fn count(&mut self, key: CallKey, text: &str) -> Repetition {
        let result = short(Sha256::new_with_prefix(text.as_bytes()));
        let entry = self.0.entry(key).or_insert((result, 0));
        *entry = (result, if entry.0 == result { entry.1 + 1 } else { 1 });
        match entry.1 {
            count if count >= STUCK => Repetition::Stuck,
            count if count >= TOLD => Repetition::Told(count),
            _ => Repetition::None,
        }
    }
}

/// Calls of which it is not known whether they happened: the same call is refused until a person settles it.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnsettledCalls(HashMap<CallKey, CallId>);

impl UnsettledCalls {
    pub(crate) fn add(&mut self, key: CallKey, call: CallId) {
        self.0.insert(key, call);
    }

    pub(crate) fn get(&self, key: CallKey) -> Option<CallId> {
        self.0.get(&key).copied()
    }

    /// Whether `call` was unsettled until now.
    pub(crate) fn settle(&mut self, call: CallId) -> bool {
        let before = self.0.len();
        self.0.retain(|_, unsettled| *unsettled != call);
        self.0.len() < before
    }

    pub(crate) fn calls(&self) -> Vec<CallId> {
        let mut calls: Vec<_> = self.0.values().copied().collect();
        calls.sort();
        calls
    }
}
