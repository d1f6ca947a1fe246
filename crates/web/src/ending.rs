//! The end of what an access token opened: a stream of events is cut a moment after its token has expired. Its client
//! comes back with a new one.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use tokio::time::Sleep;
use toolcrib_base::Timestamp;
use toolcrib_protocol::sse::Event;
use toolcrib_transport::http::body::{Body, Feed};

use crate::guard::{Front, KnownToken};

/// How long a stream goes on after its token has expired, in milliseconds: clients renew a token at its last moment, with a clock that is
/// not ours.
const GRACE: i64 = 30_000;
/// The longest a timer is set for; no token is renewed later.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A feed until its time has come.
struct Ending {
    feed: Box<dyn Feed>,
    end: Pin<Box<Sleep>>,
}

/// The answer that ends with the token that it was asked for with.
pub(crate) fn with_token(front: &Front, token: &KnownToken, response: Response<Body>) -> Response<Body> {
    response.map(|body| match body {
        Body::Events { feed, quiet } => {
            let feed = Ending { feed, end: Box::pin(tokio::time::sleep(left(front, token))) };
            Body::Events { feed: Box::new(feed), quiet }
        }
        other => other,
    })
}

/// How long what was opened with an access token goes on.
pub(crate) fn left(front: &Front, token: &KnownToken) -> Duration {
    let end = Timestamp(token.expires.0.saturating_add(GRACE));
    front.until(end).min(LONGEST)
}

// === impl Ending ===

impl Feed for Ending {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        match self.end.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => self.feed.poll_event(cx),
        }
    }
}
