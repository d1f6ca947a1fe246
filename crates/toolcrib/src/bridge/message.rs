//! What a line of the client is, as far as its way to the gateway depends on it.

use bytes::Bytes;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::{Answer, Id, Message, Request, meta, method};

#[derive(Debug, PartialEq)]
pub(super) enum ClientMessage {
    Initialize(Id),
    Initialized,
    /// The client cancels the request with this raw id.
    Cancelled(String),
    /// Another notification, or an answer.
    Unanswered,
    /// A request of a legacy session, or a batch with these requests.
    Requests(Vec<Id>),
    /// A request that says its revision itself.
    Modern(Request, String),
    /// No message; what to answer.
    Unreadable(Answer),
}

// === impl ClientMessage ===

impl ClientMessage {
    pub(super) fn read(line: &Bytes, depth: usize) -> Self {
        // What is wrong beyond that the gateway finds out, whose client it is.
        let rules = Rules::relayed(depth);
        match Message::parse(line, rules) {
            Ok(Message::Request(request)) => match meta::declared_date(&request.params) {
                Some(date) => Self::Modern(request, date),
                None if request.method == method::INITIALIZE => Self::Initialize(request.id),
                None => Self::Requests(vec![request.id]),
            },
            Ok(Message::Notification(notification)) => match notification.method.as_str() {
                method::INITIALIZED => Self::Initialized,
                method::CANCELLED => {
                    let id = notification.params.get("requestId");
                    id.map_or(Self::Unanswered, |id| Self::Cancelled(id.as_str().to_owned()))
                }
                _ => Self::Unanswered,
            },
            Ok(Message::Answer(_)) => Self::Unanswered,
            Err(BadMessage::Batch) => match Message::parse_batch(line, rules) {
                Ok(messages) => {
                    let ids: Vec<Id> = messages
                        .into_iter()
                        .filter_map(|message| match message {
                            Ok(Message::Request(request)) => Some(request.id),
                            _ => None,
                        })
                        .collect();
                    if ids.is_empty() { Self::Unanswered } else { Self::Requests(ids) }
                }
                Err(bad) => Self::Unreadable(bad.to_answer()),
            },
            Err(bad) => Self::Unreadable(bad.to_answer()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_distinguished() {
        let read = |text: &'static str| ClientMessage::read(&Bytes::from_static(text.as_bytes()), 64);
        let id = Id::from_number(1);
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#), ClientMessage::Initialize(id.clone()));
        assert_eq!(read(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), ClientMessage::Initialized);
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#),
            ClientMessage::Cancelled("\"a\"".into())
        );
        for aside in [
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
        ] {
            assert_eq!(read(aside), ClientMessage::Unanswered, "{aside}");
        }
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), ClientMessage::Requests(vec![id.clone()]));
        assert_eq!(
            read(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]"#),
            ClientMessage::Requests(vec![id])
        );
        let modern = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"d"}}}"#;
        assert!(matches!(read(modern), ClientMessage::Modern(_, date) if date == "d"));
        for bad in ["nonsense", "[]", "1", r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#] {
            assert!(matches!(read(bad), ClientMessage::Unreadable(_)), "{bad}");
        }
    }
}
