//! A response whose status is no success: what is kept of it, and the JSON-RPC error that it may be.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderMap, LOCATION, WWW_AUTHENTICATE};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Answer, Id, Message, RpcError};

use crate::call::LinkError;
use crate::http::client::Response;

/// How much of the body is kept for the error's text, in bytes.
const TEXT_BYTES: usize = 2_000;
/// How much is read of a body that may be a JSON-RPC error with its data, in bytes.
const JSON_BYTES: usize = 1024 * 1024;
/// How long to wait for it.
const WAIT: Duration = Duration::from_secs(2);
/// How much of a challenge is kept, in bytes.
const CHALLENGE_BYTES: usize = 4_000;

/// A status that is no success.
#[derive(Debug)]
pub struct Refusal {
    pub(crate) status: StatusCode,
    body: Bytes,
    challenge: Option<String>,
}

impl Refusal {
    pub(crate) async fn read(response: Response) -> Self {
        let Response { status, headers, mut body, .. } = response;
        if let (true, Some(place)) = (status.is_redirection(), headers.get(LOCATION)) {
            let place: String = String::from_utf8_lossy(place.as_bytes()).chars().take(200).collect();
            let body = format!("it redirects to `{place}`, which is not followed from here");
            return Self { status, body: body.into(), challenge: None };
        }
        let mut text = Vec::new();
        let reading = async {
            while let Ok(Some(data)) = body.chunk().await {
                let is_json = text.first().or(data.first()) == Some(&b'{');
                let most = if is_json { JSON_BYTES } else { TEXT_BYTES };
                text.extend(data.iter().take(most - text.len()));
                if text.len() == most {
                    break;
                }
            }
        };
        // The status is the news; a body that does not end must not turn it into a timeout.
        let _ = tokio::time::timeout(WAIT, reading).await;
        Self { status, body: text.into(), challenge: challenge(&headers) }
    }

    /// The JSON-RPC error that this is to the request `id`, and the id that it names. With 401 and 403 the status says
    /// who may not come in, whatever the body says.
    pub(crate) fn answer(&self, id: u64, rules: Rules) -> Option<(Option<Id>, RpcError)> {
        if matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return None;
        }
        match Message::parse(&self.body, rules) {
            Ok(Message::Answer(Answer { id: named, outcome: Err(error) })) => {
                let is_ours = named.as_ref().is_none_or(|named| named.number() == Some(id));
                is_ours.then_some((named, error))
            }
            _ => None,
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The challenges of its headers (`WWW-Authenticate`), joined by commas.
    pub fn challenge(&self) -> Option<&str> {
        self.challenge.as_deref()
    }

    /// The body, cut where it was too long to keep.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The refusal as the error of a call.
    pub fn into_error(self) -> LinkError {
        let start = &self.body[..self.body.len().min(TEXT_BYTES)];
        let body = String::from_utf8_lossy(start).into_owned();
        LinkError::Status { status: self.status.as_u16(), body, challenge: self.challenge }
    }
}

/// What the server wants to be shown, from all its headers that say so.
fn challenge(headers: &HeaderMap) -> Option<String> {
    let mut all = String::new();
    for value in headers.get_all(WWW_AUTHENTICATE) {
        let value = String::from_utf8_lossy(value.as_bytes());
        if all.len() + value.len() > CHALLENGE_BYTES {
            break;
        }
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(&value);
    }
    (!all.is_empty()).then_some(all)
}
