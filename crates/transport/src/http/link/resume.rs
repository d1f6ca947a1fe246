//! Taking up the stream of a legacy call that ended before the answer (2025-11-25: servers close streams at will and
//! are asked again, SEP-1699).

use http::header::{HeaderName, HeaderValue};
use toolcrib_protocol::header;

use crate::call::LinkError;
use crate::http::events::{EventStream, Place};

use super::exchange::Exchange;

/// How often in a row a stream is asked for without bringing anything new. With the waits in between a server may be
/// away for about four minutes; the call's own deadline is usually shorter.
const ATTEMPTS: u32 = 10;

/// Whether asking again cannot help.
pub(super) fn is_permanent(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 408 | 429)
}

impl Exchange<'_> {
    /// The rest of the stream after its last event. The call may be running, so nothing that goes wrong here may look
    /// as if it had not run.
    pub(super) async fn taken_up(&self, place: &Place, fruitless: &mut u32) -> Result<EventStream, LinkError> {
        let link = self.link;
        let headers = || {
            let mut headers = link.headers(self.headers);
            if let Some(last) = place.last() {
                headers.insert(HeaderName::from_static(header::LAST_EVENT_ID), HeaderValue::clone(last));
            }
            headers
        };
        let broken = |why: &str| LinkError::Broken(format!("the stream ended without the answer, and {why}"));
        let mut failures = 0;
        loop {
            if *fruitless >= ATTEMPTS {
                return Err(broken(&format!("{ATTEMPTS} attempts to take it up brought nothing new")));
            }
            *fruitless += 1;
            tokio::time::sleep(place.wait(failures)).await;
            match link.client.open_stream(&link.endpoint.uri, headers(), link.limit).await {
                Ok(Some(stream)) => return Ok(stream),
                Ok(None) => return Err(broken("the server offers no way to take it up")),
                Err(LinkError::Status { status: 404, .. }) if link.has_session() => {
                    return Err(broken("the server has forgotten the session"));
                }
                Err(LinkError::Status { status, .. }) if is_permanent(status) => {
                    return Err(broken(&format!("it cannot be taken up: HTTP status {status}")));
                }
                Err(_) => failures += 1,
            }
        }
    }
}
