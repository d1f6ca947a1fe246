//! The messages of one call at both of its hops, with times and without secrets.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;
use toolcrib_base::Secret;
use toolcrib_call::admission::is_secret_name;
use toolcrib_protocol::wire::{WireMessage, WireObserver};
use toolcrib_scan::Scanner;
use toolcrib_ui::json::Json;
use toolcrib_ui::page::call_status::{Hop, WireRow};

/// How many messages of a call are kept: the first ones, with what was asked for, and the last ones, with the answer.
/// Those in between are counted.
const FIRST: usize = 100;
const LAST: usize = 100;
/// The longest message that is kept, in bytes. Of a longer one its length is.
const BYTES: usize = 64 * 1_024;
/// Names that look like those of secrets and hold none.
const PLAIN: [&str; 5] = ["progressToken", "maxTokens", "inputTokens", "outputTokens", "max_tokens"];
/// What is shorter is no secret that could be looked for, in bytes.
const SHORTEST: usize = 4;
/// What stands in place of a secret.
const HIDDEN: &str = "****";

/// Formats of tokens.
static FORMATS: LazyLock<Scanner> = LazyLock::new(|| Scanner::builder().formats().build());

/// The log of one call.
#[derive(Debug)]
pub(in crate::route::ui) struct WireLog {
    begun: Instant,
    /// What the person entered as a secret: masked wherever it stands.
    secrets: Vec<Secret>,
    rows: Mutex<WireRows>,
}

/// What is kept of the messages.
#[derive(Debug, Clone, Default)]
pub(in crate::route::ui) struct WireRows {
    pub(in crate::route::ui) first: Vec<WireRow>,
    /// How many between the first and the last ones are not kept.
    pub(in crate::route::ui) dropped: usize,
    pub(in crate::route::ui) last: VecDeque<WireRow>,
    bytes: usize,
}

// === impl WireLog ===

impl WireLog {
    pub(super) fn new(secrets: Vec<Secret>) -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), secrets, rows: Mutex::default() })
    }

    /// Records a message between the page and the gateway.
    pub(super) fn at_client(&self, is_from_gateway: bool, message: &[u8]) {
        self.record(if is_from_gateway { Hop::ToClient } else { Hop::FromClient }, &String::from_utf8_lossy(message));
    }

    /// What was recorded.
    pub(in crate::route::ui) fn rows(&self) -> WireRows {
        self.lock().clone()
    }

    /// How many bytes of messages are kept.
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn record(&self, hop: Hop, text: &str) {
        let since = self.begun.elapsed();
        // Before the log is locked: to mask a message takes a while.
        let (what, text) = shown(text, &self.secrets);
        self.lock().push(WireRow { since, hop, what, text });
    }

    fn lock(&self) -> MutexGuard<'_, WireRows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl WireRows ===

impl WireRows {
    /// Takes a message. Of two that were recorded at once the later one may come first.
    fn push(&mut self, row: WireRow) {
        self.bytes += row.text.len();
        if self.first.len() < FIRST {
            let at = self.first.partition_point(|known| known.since <= row.since);
            return self.first.insert(at, row);
        }
        let at = self.last.partition_point(|known| known.since <= row.since);
        self.last.insert(at, row);
        if self.last.len() > LAST
            && let Some(oldest) = self.last.pop_front()
        {
            self.bytes -= oldest.text.len();
            self.dropped += 1;
        }
    }
}

impl WireObserver for WireLog {
    fn observe(&self, message: WireMessage<'_>) {
        let server = message.server.to_owned();
        self.record(if message.is_received { Hop::FromServer(server) } else { Hop::ToServer(server) }, message.text);
    }
}

/// What a message is in a word, and its text without secrets.
fn shown(text: &str, secrets: &[Secret]) -> (String, String) {
    if text.len() > BYTES {
        return ("a long message".to_owned(), format!("({} bytes)", text.len()));
    }
    let Ok(message) = Json::parse(text) else {
        return ("no answer".to_owned(), redacted(&without(text, secrets)));
    };
    let method = message.get("method").and_then(Json::as_text);
    let what = match (method, message.get("error")) {
        (Some(method), _) => method.to_owned(),
        (None, Some(_)) => "error".to_owned(),
        (None, None) => "result".to_owned(),
    };
    (what, redacted(&masked(&message, secrets).pretty()))
}

/// Without tokens of known formats.
fn redacted(text: &str) -> String {
    let hits = toolcrib_scan::json::scan(&FORMATS, text);
    toolcrib_scan::json::redact(text, &hits, |finding| FORMATS.name_of(finding).to_owned())
}

/// The text with every secret masked.
fn without(text: &str, secrets: &[Secret]) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.expose(), HIDDEN))
}

/// The same JSON with what has the name of a secret masked, and every given secret. Also within texts that are JSON.
fn masked(value: &Json, secrets: &[Secret]) -> Json {
    match value {
        Json::Object(entries) => {
            let member = |(name, value): &(Arc<str>, Json)| {
                let is_secret = names_secret(name);
                let is_schema = matches!(value, Json::Object(_)) && value.get("type").is_some();
                (Arc::clone(name), if is_secret && !is_schema { Json::text(HIDDEN) } else { masked(value, secrets) })
            };
            Json::Object(entries.iter().map(member).collect())
        }
        Json::List(items) => Json::List(items.iter().map(|item| masked(item, secrets)).collect()),
        Json::Text(text) => match Json::parse(text) {
            Ok(inner @ (Json::Object(_) | Json::List(_))) => Json::text(&masked(&inner, secrets).to_string()),
            _ => Json::text(&without(text, secrets)),
        },
        Json::Number(digits) if secrets.iter().any(|secret| secret.expose() == &**digits) => Json::text(HIDDEN),
        other => other.clone(),
    }
}

/// Whether what has this name is a secret.
pub(in crate::route::ui) fn names_secret(name: &str) -> bool {
    is_secret_name(name) && !PLAIN.contains(&name)
}

/// Arguments as they may be kept, and what was left out of them.
#[derive(Debug)]
pub(in crate::route::ui) struct KeptArguments {
    /// Without what has the name of a secret, or is one by its schema.
    pub(in crate::route::ui) text: String,
    /// Whether nothing was left out.
    pub(in crate::route::ui) is_whole: bool,
    /// What was left out: texts and numbers that are long enough to be looked for.
    pub(in crate::route::ui) secrets: Vec<Secret>,
}

/// What may be kept of arguments.
pub(in crate::route::ui) fn without_secrets(arguments: &str, schema: &Value) -> KeptArguments {
    let mut named = Vec::new();
    secret_properties(schema, &mut named);
    let mut kept = KeptArguments { text: "{}".to_owned(), is_whole: true, secrets: Vec::new() };
    match Json::parse(arguments) {
        Ok(value) => kept.text = stripped(&value, &named, &mut kept).to_string(),
        Err(_) => kept.is_whole = false,
    }
    kept
}

/// Notes what is left out.
fn leave_out(value: &Json, kept: &mut KeptArguments) {
    kept.is_whole = false;
    match value {
        Json::Text(text) | Json::Number(text) if text.len() >= SHORTEST => {
            kept.secrets.push(Secret::new(text.to_string()));
        }
        Json::List(items) => items.iter().for_each(|item| leave_out(item, kept)),
        Json::Object(entries) => entries.iter().for_each(|(_, member)| leave_out(member, kept)),
        _ => {}
    }
}

fn stripped(value: &Json, named: &[String], kept: &mut KeptArguments) -> Json {
    match value {
        Json::Object(entries) => {
            let mut rest = Vec::with_capacity(entries.len());
            for (name, member) in entries.iter() {
                if is_secret_name(name) || named.iter().any(|secret| **secret == **name) {
                    leave_out(member, kept);
                } else {
                    rest.push((Arc::clone(name), stripped(member, named, kept)));
                }
            }
            Json::Object(rest.into())
        }
        Json::List(items) => Json::List(items.iter().map(|item| stripped(item, named, kept)).collect()),
        other => other.clone(),
    }
}

/// The names of properties that are passwords.
fn secret_properties(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                if member["format"] == "password" || member["writeOnly"] == true {
                    found.push(name.clone());
                }
                secret_properties(member, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| secret_properties(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_secret_is_recorded_and_digits_stay() {
        let log = WireLog::new(vec![Secret::new("entered".to_owned())]);
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"arguments":{{"apiKey":"k1","n":12345678901234567890123,
            "deep":[{{"Access-Token":{{"v":"k2"}}}}],"text":"a {token} b","echo":"is entered","json":"{{\"password\":\"k3\"}}"}},
            "_meta":{{"progressToken":7}}}}}}"#
        );
        log.at_client(false, message.as_bytes());
        log.observe(WireMessage { server: "try", is_received: true, text: &"x".repeat(BYTES + 1) });
        let WireRows { first: rows, dropped, .. } = log.rows();
        let text = &rows[0].text;
        assert!(!["k1", "k2", "k3", "entered", &token].iter().any(|secret| text.contains(secret)), "{text}");
        assert!(text.contains("12345678901234567890123") && text.contains("\"progressToken\": 7"), "{text}");
        assert_eq!((rows[0].what.as_str(), &rows[0].hop), ("tools/call", &Hop::FromClient));
        assert!(rows[1].text.len() < 30 && rows[1].hop == Hop::FromServer("try".to_owned()), "{:?}", rows[1]);
        assert_eq!(dropped, 0);
    }

    #[test]
    fn of_many_messages_the_first_and_the_last_are_kept() {
        let log = WireLog::new(Vec::new());
        log.at_client(false, br#"{"method":"tools/call"}"#);
        (0..FIRST + LAST + 50).for_each(|_| log.at_client(true, br#"{"method":"notifications/progress"}"#));
        log.at_client(true, br#"{"result":{"answer":42}}"#);
        let WireRows { first, dropped, last, bytes } = log.rows();
        assert_eq!((first.len(), dropped, last.len()), (FIRST, 52, LAST));
        assert_eq!((first[0].what.as_str(), last[LAST - 1].what.as_str()), ("tools/call", "result"));
        assert!(last[LAST - 1].text.contains("42"), "{last:?}");
        assert_eq!(bytes, first.iter().chain(&last).map(|row| row.text.len()).sum::<usize>());
        assert!(first.iter().chain(&last).is_sorted_by_key(|row| row.since));
    }

    #[test]
    fn messages_that_are_recorded_at_once_stay_in_their_order() {
        let mut rows = WireRows::default();
        for millis in [3, 1, 2] {
            let row = |millis| WireRow {
                since: std::time::Duration::from_millis(millis),
                hop: Hop::ToClient,
                what: String::new(),
                text: String::new(),
            };
            rows.push(row(millis));
        }
        assert!(rows.first.is_sorted_by_key(|row| row.since), "{rows:?}");
    }

    #[test]
    fn kept_arguments_have_no_secrets() {
        let schema = json!({"properties": {"pin": {"type": "string", "format": "password"}, "q": {"type": "string"}}});
        let kept = without_secrets(r#"{"q":"a","pin":"1234","x":{"api_key":"b","n":1.50}}"#, &schema);
        assert_eq!((kept.text.as_str(), kept.is_whole), (r#"{"q":"a","x":{"n":1.50}}"#, false));
        assert_eq!(kept.secrets.iter().map(Secret::expose).collect::<Vec<_>>(), ["1234"]);
        let kept = without_secrets(r#"{"q":"a"}"#, &schema);
        assert_eq!((kept.text.as_str(), kept.is_whole), (r#"{"q":"a"}"#, true));
    }
}
