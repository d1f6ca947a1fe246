//! A stream of server-sent events as it arrives, and the place in it where it can be taken up again.

use std::collections::VecDeque;
use std::time::Duration;

use http::header::HeaderValue;
use toolcrib_protocol::sse::{self, Event};

use crate::call::LinkError;
use crate::http::client::ResponseBody;

/// The wait before a stream is taken up again, where the server named none.
const RETRY: Duration = Duration::from_secs(1);
/// What a server may ask for instead.
const RETRY_BOUNDS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// The longest event id that is sent back: servers bound their headers.
const ID_BYTES: usize = 4_096;

/// Events as they arrive.
#[derive(Debug)]
pub struct EventStream {
    body: ResponseBody,
    reader: sse::Reader,
    ready: VecDeque<Event>,
}

impl EventStream {
    pub(crate) fn new(body: ResponseBody, limit: usize) -> Self {
        Self { body, reader: sse::Reader::new(limit), ready: VecDeque::new() }
    }

    /// The next event; `None` at the end of the stream. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Event>, LinkError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(bytes) = self.body.chunk().await? else { return Ok(None) };
            let events = self.reader.push(bytes).map_err(|error| LinkError::NotMcp(error.to_string()))?;
            self.ready.extend(events);
        }
    }
}

/// Whether an event carries a message: others, such as pings of the server's own making, are not for us.
pub fn is_message(event: &Event) -> bool {
    !event.data.is_empty() && event.event.as_deref().is_none_or(|kind| kind == "message")
}

/// How far a stream was read.
#[derive(Debug, Default)]
pub struct Place {
    last: Option<HeaderValue>,
    retry: Option<Duration>,
}

impl Place {
    /// Keeps what an event says about taking up the stream; `true` when it is news.
    pub fn note(&mut self, event: &Event) -> bool {
        if let Some(millis) = event.retry {
            let (least, most) = RETRY_BOUNDS;
            self.retry = Some(Duration::from_millis(millis).clamp(least, most));
        }
        let Some(id) = &event.id else { return is_message(event) };
        // An empty id means that nothing can be taken up from here on.
        let fits = !id.is_empty() && id.len() <= ID_BYTES;
        let last = fits.then(|| HeaderValue::from_bytes(id.as_bytes()).ok()).flatten();
        let moved = last != self.last;
        self.last = last;
        moved || is_message(event)
    }

    /// The id of the last event, where the stream can be taken up after it.
    pub fn last(&self) -> Option<&HeaderValue> {
        self.last.as_ref()
    }

    /// The wait that the server asked for.
    pub fn retry_wait(&self) -> Option<Duration> {
        self.retry
    }

    /// The wait before the attempt that follows `failures` failed ones.
    pub fn wait(&self, failures: u32) -> Duration {
        let wait = self.retry.unwrap_or(RETRY);
        wait.saturating_mul(2_u32.saturating_pow(failures)).min(RETRY_BOUNDS.1)
    }

    /// Starts at the present; `false` when that is so already.
    pub fn forget(&mut self) -> bool {
        self.last.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, data: &'static str, retry: Option<u64>) -> Event {
        Event { event: None, data: data.into(), id: id.map(str::to_owned), retry }
    }

    #[test]
    fn the_place_is_the_last_id_that_fits_a_header() {
        let mut place = Place::default();
        assert!(!place.note(&event(None, "", None)));
        for (id, data, news, last) in [
            (Some("a"), "", true, Some("a")),
            (Some("a"), "", false, Some("a")),
            (None, "{}", true, Some("a")),
            (Some("ü 1"), "{}", true, Some("ü 1")),
            (Some("b\u{7f}"), "", true, None),
            (Some("c"), "", true, Some("c")),
            (Some(""), "", true, None),
        ] {
            assert_eq!(place.note(&event(id, data, None)), news, "{id:?}");
            assert_eq!(place.last().map(HeaderValue::as_bytes), last.map(str::as_bytes), "{id:?}");
        }
        place.note(&event(Some(&"x".repeat(ID_BYTES + 1)), "", None));
        assert!(place.last().is_none() && !place.forget());
    }

    #[test]
    fn waits_are_bounded_and_grow_with_failures() {
        let mut place = Place::default();
        assert_eq!(place.wait(0), Duration::from_secs(1));
        for (retry, wait) in [(0, 100), (500, 500), (u64::MAX, 60_000)] {
            place.note(&event(None, "", Some(retry)));
            assert_eq!(place.wait(0), Duration::from_millis(wait));
            assert!(place.wait(3) >= place.wait(0) && place.wait(u32::MAX) == Duration::from_secs(60));
        }
    }
}
