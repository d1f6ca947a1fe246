//! Bodies: some pieces that are ready, or a stream fed by a queue.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};
use toolcrib_protocol::sse::{self, Event};

/// How often a quiet stream gets a comment. Proxies close connections that are silent for 60 s.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(20);

/// Where the events of a stream come from.
pub trait Feed: Send {
    /// The next event; `None` at the end.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>>;
}

/// Messages from a queue, one JSON text each. Ends when the queue is closed.
impl Feed for mpsc::Receiver<Bytes> {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_recv(cx).map(|message| message.map(Event::data))
    }
}

/// A body that we send.
pub enum Body {
    /// Pieces that are all there; their sum is the content length.
    Pieces(VecDeque<Bytes>),
    /// Server-sent events, with comments while it is quiet. Ends when the feed does.
    Events {
        /// Where they come from.
        feed: Box<dyn Feed>,
        /// When the next comment is due.
        quiet: Pin<Box<Sleep>>,
    },
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Pieces(pieces) => f.debug_tuple("Pieces").field(pieces).finish(),
            Body::Events { .. } => f.write_str("Events"),
        }
    }
}

impl Body {
    /// No body.
    pub fn empty() -> Self {
        Self::Pieces(VecDeque::new())
    }

    /// A body of one piece.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::Pieces(VecDeque::from([bytes.into()]))
    }

    /// A body of several pieces.
    pub fn pieces(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        Self::Pieces(pieces.into_iter().filter(|piece| !piece.is_empty()).collect())
    }

    /// A stream of events.
    pub fn events(feed: impl Feed + 'static) -> Self {
        Self::Events { feed: Box::new(feed), quiet: Box::pin(tokio::time::sleep(KEEP_ALIVE_EVERY)) }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Pieces(pieces) => Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece)))),
            Body::Events { feed, quiet } => {
                if let Poll::Ready(event) = feed.poll_event(cx) {
                    quiet.as_mut().reset(Instant::now() + KEEP_ALIVE_EVERY);
                    let line = |event: Event| Event { data: sse::one_line(event.data), ..event }.to_bytes();
                    return Poll::Ready(event.map(|event| Ok(Frame::data(line(event)))));
                }
                if quiet.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                quiet.as_mut().reset(Instant::now() + KEEP_ALIVE_EVERY);
                // Registers the timer that was just set.
                let _ = quiet.as_mut().poll(cx);
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(sse::KEEP_ALIVE)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Pieces(pieces) if pieces.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Pieces(pieces) => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Body::Events { .. } => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    struct One(Option<Event>);

    impl Feed for One {
        fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<Option<Event>> {
            Poll::Ready(self.0.take())
        }
    }

    #[tokio::test]
    async fn json_in_an_event_has_no_line_ends_that_old_readers_see() {
        let event = Event::data("\"a\u{2028}b\"".into());
        let mut body = Body::events(One(Some(event)));
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "data: \"a\\u2028b\"\n\n");
    }
}
