//! The guard against secrets: what is sent to servers and what they answer is looked at, for every door and every inner
//! call, and what is found is recorded, replaced, or held back. So are values at places that definitions name.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use toolcrib_base::{Kind, Problem, Secret};
use toolcrib_catalog::{Guards, SecretAction};
use toolcrib_protocol::json::Outline;
use toolcrib_protocol::raw::{self, Edit};
use toolcrib_protocol::{Raw, json as wire};
use toolcrib_scan::pointer::{self, Pointer};
use toolcrib_scan::{Encodings, Finding, Hit, Scanner, json};
use toolcrib_view::metrics::Metrics;

/// Longer texts are looked at on a thread for what blocks: some milliseconds would hold up the calls of others.
const LONG: usize = 256 * 1024;
/// What stands where a value was that a pointer names.
const REDACTED: &str = "\"[redacted]\"";

/// What is done where neither a server nor a profile says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretActions {
    /// With secrets in what is sent to servers.
    pub arguments: SecretAction,
    /// With secrets in what servers answer.
    pub results: SecretAction,
}

impl Default for SecretActions {
    /// No innocent call is changed, and everything is on record.
    fn default() -> Self {
        Self { arguments: SecretAction::Record, results: SecretAction::Record }
    }
}

/// What is looked for, and what is done by default.
#[derive(Debug)]
pub struct SecretGuard {
    scanner: ArcSwap<Scanner>,
    default: SecretActions,
    metrics: Arc<Metrics>,
}

/// What definitions say of something: a profile, the server if there is one, and the tool if one is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuardSources<'a> {
    pub(crate) profile: &'a Guards,
    pub(crate) server: Option<&'a Guards>,
    pub(crate) tool: Option<&'a str>,
}

/// What a definition and a profile say together, for one direction.
#[derive(Debug, Clone)]
pub(crate) struct GuardRules {
    pub(crate) action: SecretAction,
    pub(crate) pointers: Vec<Pointer>,
    /// The direction, as records and people name it.
    pub(crate) of: &'static str,
}

/// A text as it goes on, and what is said of it.
#[derive(Debug)]
pub(crate) struct GuardedText {
    /// What goes on.
    pub(crate) passed: Raw,
    /// What may be stored of it.
    pub(crate) stored: Raw,
    /// What was found, for the record.
    pub(crate) note: Option<String>,
    /// Why it does not go on.
    pub(crate) denied: Option<Problem>,
}

// === impl SecretGuard ===

impl SecretGuard {
    /// One that looks for known formats of tokens alone.
    pub fn new(default: SecretActions, metrics: Arc<Metrics>) -> Self {
        Self { scanner: ArcSwap::from_pointee(scanner(&[])), default, metrics }
    }

    /// Also looks for these values from now on, each with the name that is told. Takes a while for thousands.
    pub fn look_for(&self, values: &[(String, Secret)]) {
        self.scanner.store(Arc::new(scanner(values)));
    }

    /// The rules for what is sent to a server.
    pub(crate) fn of_arguments(&self, sources: GuardSources<'_>) -> GuardRules {
        let action = sources.all().filter_map(|guards| guards.arguments).reduce(SecretAction::stricter);
        let pointers = sources.all().flat_map(|guards| guards.redact_arguments.iter().cloned()).collect();
        GuardRules { action: action.unwrap_or(self.default.arguments), pointers, of: "arguments" }
    }

    /// The rules for what a server answers.
    pub(crate) fn of_results(&self, sources: GuardSources<'_>) -> GuardRules {
        let action = sources.all().filter_map(|guards| guards.results).reduce(SecretAction::stricter);
        let pointers = sources.all().flat_map(|guards| guards.redact_results.iter().cloned()).collect();
        GuardRules { action: action.unwrap_or(self.default.results), pointers, of: "result" }
    }

    /// Looks at arguments. Values at pointers go on, and are not stored.
    pub(crate) async fn arguments(&self, rules: &GuardRules, arguments: Raw) -> GuardedText {
        let mut guarded = self.secrets(rules, arguments).await;
        if !rules.pointers.is_empty() {
            let at = pointer::values(guarded.stored.as_str(), &rules.pointers);
            guarded.stored = without(&guarded.stored, &at);
        }
        guarded
    }

    /// Looks at a result. Values at pointers are replaced in its data: the structured content, and texts that are JSON.
    pub(crate) async fn result(&self, rules: &GuardRules, result: Raw) -> GuardedText {
        let (result, count) = match rules.pointers.is_empty() {
            true => (result, 0),
            false => without_data(&result, &rules.pointers),
        };
        let mut guarded = self.secrets(rules, result).await;
        if count > 0 {
            self.metrics.record_guard_hits("pointer", "redacted", count);
            let place = format!("{} pointer {count} redacted", rules.of);
            guarded.note = Some(guarded.note.map_or(place.clone(), |note| format!("{note}; {place}")));
        }
        guarded
    }

    /// Looks at a text without a place where it could wait.
    pub(crate) fn words(&self, rules: &GuardRules, text: Raw) -> GuardedText {
        if rules.action == SecretAction::Off {
            return GuardedText::untouched(text);
        }
        let scanner = self.scanner.load();
        let hits = json::scan(&scanner, text.as_str());
        self.treated(rules, text, &scanner, &hits)
    }

    async fn secrets(&self, rules: &GuardRules, text: Raw) -> GuardedText {
        if rules.action == SecretAction::Off || text.as_str().len() <= LONG {
            return self.words(rules, text);
        }
        let scanner = self.scanner.load_full();
        let (scans, long) = (Arc::clone(&scanner), text.clone());
        match tokio::task::spawn_blocking(move || json::scan(&scans, long.as_str())).await {
            Ok(hits) => self.treated(rules, text, &scanner, &hits),
            // The gateway is ending, or the scanner failed: nothing goes on that was not looked at.
            Err(error) => {
                tracing::error!(%error, "a message could not be scanned for secrets");
                let denied = Problem::new(Kind::Internal, "the message could not be scanned for secrets");
                GuardedText { denied: Some(denied), ..GuardedText::untouched(text) }
            }
        }
    }

    fn treated(&self, rules: &GuardRules, text: Raw, scanner: &Scanner, hits: &[Hit]) -> GuardedText {
        if hits.is_empty() {
            return GuardedText::untouched(text);
        }
        let name = |finding: Finding| scanner.name_of(finding).to_owned();
        let redacted = redacted(&text, hits, name);
        let found = counted(hits, name);
        let done = match rules.action {
            SecretAction::Deny => "denied",
            SecretAction::Redact => "redacted",
            SecretAction::Off | SecretAction::Record => "recorded",
        };
        for hit in hits {
            // Names of values are those of the vault's entries: not for everyone who reads metrics.
            let kind = match hit.what {
                Finding::Format(name) => name,
                Finding::Value(_) => "value",
            };
            self.metrics.record_guard_hits(kind, done, 1);
        }
        let notes = found.iter().map(|(name, count)| format!("{} {name} {count} {done}", rules.of));
        let note = Some(notes.collect::<Vec<_>>().join("; "));
        let denied = (rules.action == SecretAction::Deny).then(|| {
            let names: Vec<String> = found.keys().map(|name| format!("`{name}`")).collect();
            let message = format!("the {} of the call held back: a secret is in it ({})", rules.of, names.join(", "));
            Problem::new(Kind::Forbidden, message)
                .hint("`guards.secrets` of the server or the profile says `deny`; make the call without the secret")
        });
        let passed = if rules.action.changes() { redacted.clone() } else { text };
        GuardedText { passed, stored: redacted, note, denied }
    }
}

// === impl GuardSources ===

impl<'a> GuardSources<'a> {
    fn all(self) -> impl Iterator<Item = &'a Guards> {
        let of_tool = self.server.zip(self.tool).into_iter().flat_map(|(server, tool)| server.of_tool(tool));
        [Some(self.profile), self.server].into_iter().flatten().chain(of_tool)
    }
}

// === impl GuardRules ===

impl GuardRules {
    /// The same for something else that goes in this direction, which has no data for pointers.
    pub(crate) fn of(&self, what: &'static str) -> Self {
        Self { action: self.action, pointers: Vec::new(), of: what }
    }
}

// === impl GuardedText ===

impl GuardedText {
    /// It goes on as it is.
    pub(crate) fn untouched(text: Raw) -> Self {
        Self { stored: text.clone(), passed: text, note: None, denied: None }
    }
}

/// What looks for known formats and for these values.
fn scanner(values: &[(String, Secret)]) -> Scanner {
    let builder = Scanner::builder().formats();
    let all =
        values.iter().fold(builder, |builder, (name, value)| builder.value(name, value.expose(), Encodings::USUAL));
    all.build()
}

/// How often each was found.
fn counted(hits: &[Hit], name: impl Fn(Finding) -> String) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for hit in hits {
        *counts.entry(name(hit.what)).or_default() += 1;
    }
    counts
}

fn redacted(text: &Raw, hits: &[Hit], name: impl Fn(Finding) -> String) -> Raw {
    reread(json::redact(text.as_str(), hits, name))
}

/// A text without the values at these places.
fn without(text: &Raw, places: &[std::ops::Range<usize>]) -> Raw {
    if places.is_empty() {
        return text.clone();
    }
    let (mut out, mut done) = (String::with_capacity(text.as_str().len()), 0);
    for place in places.iter().filter(|place| !place.is_empty()) {
        if place.start < done {
            continue;
        }
        out.push_str(&text.as_str()[done..place.start]);
        out.push_str(REDACTED);
        done = place.end;
    }
    out.push_str(&text.as_str()[done..]);
    reread(out)
}

/// What was changed is JSON as before; if it were not, nothing of it goes on.
fn reread(text: String) -> Raw {
    Raw::parse(text.into(), wire::Rules::relayed(128)).unwrap_or_else(|_| Raw::from_value(&"[redacted]"))
}

/// A result without the values at these places of its data, and how many there were.
fn without_data(result: &Raw, pointers: &[Pointer]) -> (Raw, usize) {
    let mut count = 0;
    let mut cleaned = |data: &Raw| {
        let places = pointer::values(data.as_str(), pointers);
        count += places.len();
        (!places.is_empty()).then(|| without(data, &places))
    };
    let structured = result.get("structuredContent").and_then(|data| cleaned(&data));
    let content = result.get("content").and_then(|content| match content.outline() {
        Outline::Array(blocks) => {
            let mut changed = false;
            let blocks: Vec<Raw> = blocks
                .into_iter()
                .map(|block| {
                    let block = content.part(block);
                    let data = block.text("text").and_then(|text| {
                        Raw::parse(text.into(), wire::Rules::relayed(128)).ok().and_then(|data| cleaned(&data))
                    });
                    let Some(data) = data else { return block };
                    changed = true;
                    let text = Raw::from_value(&data.as_str());
                    block.edit(&[("text", Edit::Set(text.as_str()))])
                })
                .collect();
            changed.then(|| raw::array(blocks.iter().map(Raw::as_str)))
        }
        _ => None,
    });
    let edits = [("structuredContent", structured.as_ref()), ("content", content.as_ref())];
    let edits: Vec<_> = edits.into_iter().filter_map(|(key, raw)| Some((key, Edit::Set(raw?.as_str())))).collect();
    if edits.is_empty() { (result.clone(), 0) } else { (result.edit(&edits), count) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TOKEN: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

    fn rules(action: SecretAction, pointers: &[&str]) -> GuardRules {
        let pointers = pointers.iter().map(|pointer| pointer.parse().unwrap()).collect();
        GuardRules { action, pointers, of: "result" }
    }

    async fn checked(action: SecretAction, pointers: &[&str], value: &Value) -> GuardedText {
        let guard = SecretGuard::new(SecretActions::default(), Arc::default());
        guard.look_for(&[("vault:mail".to_owned(), Secret::new("correct-horse"))]);
        guard.result(&rules(action, pointers), Raw::from_value(value)).await
    }

    #[tokio::test]
    async fn what_is_found_is_recorded_replaced_or_held_back() {
        let value = json!({"content": [{"type": "text", "text": format!("{TOKEN} and correct-horse")}], "x": 1.5});
        let clean = json!({
            "content": [{"type": "text", "text": "[redacted:github-token#1] and [redacted:vault:mail#2]"}], "x": 1.5,
        });
        let recorded = checked(SecretAction::Record, &[], &value).await;
        assert_eq!((recorded.passed.to_value(), recorded.stored.to_value()), (value.clone(), clean.clone()));
        assert_eq!(recorded.note.as_deref(), Some("result github-token 1 recorded; result vault:mail 1 recorded"));
        let redacted = checked(SecretAction::Redact, &[], &value).await;
        assert_eq!(redacted.passed.to_value(), clean);
        let denied = checked(SecretAction::Deny, &[], &value).await;
        let problem = denied.denied.unwrap();
        assert!(
            problem.kind == Kind::Forbidden && problem.message.contains("`github-token`, `vault:mail`"),
            "{problem:?}"
        );
        assert!(!problem.message.contains("horse") && !denied.passed.as_str().contains("horse"));
        let off = checked(SecretAction::Off, &[], &value).await;
        assert_eq!((off.passed.to_value(), off.note), (value, None));
    }

    #[tokio::test]
    async fn values_at_pointers_are_replaced_in_the_data_of_a_result() {
        let data = json!({"items": [{"key": "a", "id": 1}, {"key": {"deep": true}, "id": 2}]});
        let value = json!({
            "content": [{"type": "text", "text": data.to_string()}, {"type": "text", "text": "plain"}],
            "structuredContent": data,
        });
        let guarded = checked(SecretAction::Off, &["/items/*/key"], &value).await;
        let clean = json!({"items": [{"key": "[redacted]", "id": 1}, {"key": "[redacted]", "id": 2}]});
        let passed = guarded.passed.to_value();
        assert_eq!(passed["structuredContent"], clean);
        let text: Value = serde_json::from_str(passed["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((text, &passed["content"][1]["text"]), (clean, &json!("plain")));
        assert_eq!(guarded.note.as_deref(), Some("result pointer 4 redacted"));
    }

    #[tokio::test]
    async fn long_results_are_looked_at_to_their_end() {
        let value = json!({"content": [{"type": "text", "text": format!("{} {TOKEN}", "x".repeat(2 * LONG))}]});
        let guarded = checked(SecretAction::Redact, &[], &value).await;
        assert!(guarded.passed.as_str().ends_with(" [redacted:github-token#1]\"}]}"), "the end");
    }
}
