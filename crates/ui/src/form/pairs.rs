//! What a browser sent, by the paths of the fields.

use std::collections::BTreeMap;

use super::field::Presence;

/// Pairs that one submission may have.
const MAX_PAIRS: usize = 20_000;

/// What was sent for one field.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) value: Option<&'a str>,
    pub(super) presence: Presence,
    pub(super) pick: Option<usize>,
    /// The alternative that was shown.
    pub(super) shown: Option<usize>,
    pub(super) rows: usize,
    pub(super) key: &'a str,
    pub(super) is_open: bool,
    pub(super) is_json: bool,
}

/// What a button changes in the form itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Add,
    Remove,
    /// Show the alternative that was picked.
    Use,
    /// Turn fields into JSON, or JSON into fields.
    Switch,
}

/// A submission.
#[derive(Debug, Default)]
pub(super) struct Pairs<'a> {
    entries: BTreeMap<&'a str, Entry<'a>>,
    /// The button that was pressed, and the path in its name.
    pub(super) button: Option<(Action, &'a str)>,
    /// The schema that the form was made for.
    pub(super) digest: Option<&'a str>,
}

// === impl Pairs ===

impl<'a> Pairs<'a> {
    /// Reads pairs; what is no control of a form is left out. Of equal names the first counts.
    pub(super) fn of(pairs: &'a [(String, String)]) -> Self {
        let mut out = Self::default();
        for (name, value) in pairs.iter().take(MAX_PAIRS) {
            let Some((word, path)) = name.split_once(':') else { continue };
            if !(path.is_empty() || path.starts_with('/')) {
                continue;
            }
            let action = match word {
                "add" => Some(Action::Add),
                "remove" => Some(Action::Remove),
                "use" => Some(Action::Use),
                "switch" => Some(Action::Switch),
                "schema" => {
                    out.digest = out.digest.or(Some(value));
                    continue;
                }
                _ => None,
            };
            if let Some(action) = action {
                out.button = out.button.or(Some((action, path)));
                continue;
            }
            let number = || value.parse::<usize>().ok();
            let entry = |out: &mut Self, write: &dyn Fn(&mut Entry<'a>)| write(out.entries.entry(path).or_default());
            match word {
                "v" => entry(&mut out, &|entry| entry.value = entry.value.or(Some(value))),
                "set" => entry(&mut out, &|entry| {
                    entry.presence = match value.as_str() {
                        "empty" => Presence::Empty,
                        "null" => Presence::Null,
                        _ => Presence::AsEntered,
                    };
                }),
                "pick" => entry(&mut out, &|entry| entry.pick = entry.pick.or(number())),
                "shown" => entry(&mut out, &|entry| entry.shown = entry.shown.or(number())),
                "rows" => entry(&mut out, &|entry| entry.rows = number().unwrap_or(0)),
                "key" => entry(&mut out, &|entry| entry.key = value),
                "open" => entry(&mut out, &|entry| entry.is_open = true),
                "json" => entry(&mut out, &|entry| entry.is_json = true),
                _ => {}
            }
        }
        out
    }

    /// Whether anything was sent for the form.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What was sent for a path.
    pub(super) fn get(&self, path: &str) -> Entry<'a> {
        self.entries.get(path).copied().unwrap_or_default()
    }

    /// Whether the fields below a path were shown.
    pub(super) fn is_open(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.get(path).is_open
            || self.entries.range(below.as_str()..).next().is_some_and(|(next, _)| next.starts_with(&below))
    }
}
