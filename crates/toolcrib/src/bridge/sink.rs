//! What the gateway says, on its way to the client: untouched, but on one line, and noticed where something waits for
//! it.

use bytes::Bytes;
use toolcrib_protocol::json::{self, Outline, Rules};
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::param_header::ParamHeaders;
use toolcrib_protocol::{Answer, Id, Message, Raw};

use super::{Bridge, lock, note};

/// How many tools with mirrored arguments are remembered.
const MIRRORS: usize = 10_000;

/// Takes the messages that belong to one request or batch.
pub(super) struct Sink<'a> {
    bridge: &'a Bridge,
    /// What is not answered yet.
    pub(super) pending: Vec<Id>,
    /// The last result, for who opens a session.
    pub(super) result: Option<Raw>,
    /// Whether the client does not know of the request, so that it must not see the answer.
    is_silent: bool,
    lists_tools: bool,
}

// === impl Sink ===

impl<'a> Sink<'a> {
    pub(super) fn new(bridge: &'a Bridge, pending: Vec<Id>) -> Self {
        Self { bridge, pending, result: None, is_silent: false, lists_tools: false }
    }

    /// For a request of the bridge's own.
    pub(super) fn silent(bridge: &'a Bridge, id: Id) -> Self {
        Self { is_silent: true, ..Self::new(bridge, vec![id]) }
    }

    /// Remembers from the answer which arguments the tools mirror.
    pub(super) fn of_tools(self, lists_tools: bool) -> Self {
        Self { lists_tools, ..self }
    }

    pub(super) fn is_done(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes a body or an event.
    pub(super) async fn take(&mut self, bytes: &Bytes) {
        let rules = Rules::relayed(self.bridge.limits.depth);
        let messages = match Message::parse(bytes, rules) {
            Ok(message) => vec![message],
            Err(BadMessage::Batch) => match Message::parse_batch(bytes, rules) {
                Ok(batch) => batch.into_iter().filter_map(Result::ok).collect(),
                Err(bad) => return note(&format!("the gateway sent something that is not MCP: {bad}")),
            },
            Err(bad) => return note(&format!("the gateway sent something that is not MCP: {bad}")),
        };
        let is_batch = messages.len() != 1;
        let mut is_ours = true;
        for message in messages {
            if let Message::Answer(answer) = message {
                is_ours = self.answered(answer) && !self.is_silent;
            }
        }
        if is_ours || is_batch {
            self.bridge.say(on_one_line(bytes)).await;
        }
    }

    /// Whether someone waits for this answer.
    fn answered(&mut self, answer: Answer) -> bool {
        let Some(at) = self.pending.iter().position(|id| Some(id) == answer.id.as_ref()) else {
            note("the gateway sent a response without a request");
            return false;
        };
        self.pending.swap_remove(at);
        if let Ok(result) = answer.outcome {
            if self.lists_tools {
                self.learn(&result);
            }
            self.result = Some(result);
        }
        true
    }

    fn learn(&self, result: &Raw) {
        let Some(tools) = result.get("tools") else { return };
        let Outline::Array(items) = tools.outline() else { return };
        let mut mirrors = lock(&self.bridge.mirrors);
        for tool in items.into_iter().map(|item| tools.part(item)) {
            let (Some(name), Some(schema)) = (tool.text("name"), tool.get("inputSchema")) else { continue };
            match ParamHeaders::read(&schema) {
                Ok(headers) if !headers.is_empty() && mirrors.len() < MIRRORS => drop(mirrors.insert(name, headers)),
                _ => drop(mirrors.remove(&name)),
            }
        }
    }
}

/// A checked text without line breaks: between values they are blanks, and inside of strings JSON has none.
fn on_one_line(bytes: &Bytes) -> Bytes {
    let is_broken = bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
    match std::str::from_utf8(bytes) {
        Ok(text) if is_broken => json::compact(text).into_owned().into(),
        _ => bytes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_line_breaks_are_taken_out() {
        let check = |text: &'static str, expected: &str| {
            assert_eq!(on_one_line(&Bytes::from_static(text.as_bytes())), expected);
        };
        check(r#"{ "a" : 1.0e2,  "b":"x\ny" }"#, r#"{ "a" : 1.0e2,  "b":"x\ny" }"#);
        check("{\r\n  \"a\": \"b  c\"\n}\n", r#"{"a":"b  c"}"#);
    }
}
