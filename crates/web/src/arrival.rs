//! What is known of a request to this door before its body is read: the id that its client is told in `X-Request-Id`, and
//! the trace that its headers name. An id that a client sends is not used.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_base::RequestId;
use toolcrib_protocol::header;
use toolcrib_protocol::trace::{RequestTrace, TRACEPARENT, TraceContext, Transport};

/// The header that tells a client the id of its request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest name of a bridge that is kept, in bytes: `toolcrib/` and a version.
const BRIDGE_BYTES: usize = 64;
/// How many bytes are taken from memory at a time for the texts of ids: 256 of them.
const BLOCK: usize = 4_096;

thread_local! {
    /// Where the texts of the next ids go, so that a request costs no allocation for its own.
    static TEXTS: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// A request that has just come from a client, with an id of its own and the trace that its headers name.
pub(crate) fn trace(client: IpAddr, headers: &HeaderMap) -> RequestTrace {
    let context = match headers.contains_key(TRACEPARENT) {
        true => TraceContext::of_headers(headers).map(Arc::new),
        false => None,
    };
    RequestTrace {
        id: Some(RequestId::new()),
        transport: Some(Transport::Tcp),
        client: Some(client),
        bridge: bridge(headers),
        context,
        is_recorded: false,
        wire: None,
    }
}

/// What a bridge of ours says of itself: a short word of a version, or nothing.
fn bridge(headers: &HeaderMap) -> Option<Arc<str>> {
    let text = headers.get(header::BRIDGE)?.to_str().ok()?;
    let is_word = (1..=BRIDGE_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_word.then(|| text.into())
}

/// The value of [`REQUEST_ID`].
pub(crate) fn id_header(trace: &RequestTrace) -> Option<HeaderValue> {
    let digits = trace.id?.digits();
    let text = TEXTS.with_borrow_mut(|texts| {
        if texts.capacity() < digits.len() {
            *texts = BytesMut::with_capacity(BLOCK);
        }
        texts.put_slice(&digits);
        texts.split().freeze()
    });
    HeaderValue::from_maybe_shared(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_an_id_of_its_own_whatever_the_client_says() {
        let (client, mut headers) = (IpAddr::from([127, 0, 0, 1]), HeaderMap::new());
        headers.insert(REQUEST_ID, HeaderValue::from_static("forged"));
        headers.insert(TRACEPARENT, HeaderValue::from_static("00-1"));
        let ids: Vec<HeaderValue> = (0..1_000).filter_map(|_| id_header(&trace(client, &headers))).collect();
        let mut different: Vec<&[u8]> = ids.iter().map(HeaderValue::as_bytes).collect();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 1_000);
        assert!(different.iter().all(|id| id.len() == 16 && id.iter().all(u8::is_ascii_hexdigit)));
        assert!(trace(client, &headers).context.is_none(), "a context that is none");
    }
}
