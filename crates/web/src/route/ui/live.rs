//! `/ui/live/<page>`: the part of a page that changes, as server-sent events. A task for each open page makes it again
//! when something happened, at most four times a second, and sends it where it is not what the browser has.

use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::Instant;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::live_events;
use toolcrib_protocol::sse::Event;
use toolcrib_transport::http::body::{Body, Feed};

use super::{PageRequest, page, session};
use crate::respond;

/// Below which the live parts are; the path of the page without `/ui/` follows.
pub(super) const ROOT: &str = "/ui/live/";
/// The least time between two frames.
const PACE: Duration = Duration::from_millis(250);
/// How long nothing happens until the page is looked at again: what passes with time alone shows then.
const IDLE: Duration = Duration::from_secs(5);
/// How many frames wait for a browser. It only needs the newest.
const QUEUE: usize = 1;

struct Stream(mpsc::Receiver<Event>);

impl Feed for Stream {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_recv(cx)
    }
}

/// Opens the stream of a page.
pub(super) async fn answer(mut request: PageRequest) -> Response<Body> {
    if request.viewer.is_none() {
        let problem = Problem::new(Kind::Unauthenticated, "no one is signed in").hint("Load the page again.");
        return respond::refusal(&problem);
    }
    let Some(make) = page::live(&request) else {
        return respond::refusal(&Problem::new(Kind::NotFound, "no page has such a live part"));
    };
    // Listened to first: what happens while the part is made is seen afterwards.
    let listened = request.site.gateway.events().listen(live_events::Kind::ALL.to_vec());
    let mut listener = match listened {
        Ok(listener) => listener,
        Err(problem) => return respond::refusal(&problem),
    };
    let mut calls = request.site.calls.watch();
    // The page itself has read it just now, which is on record.
    let session = request.viewer.as_ref().map_or("", |viewer| viewer.session.as_str());
    request.is_again = request.site.opened.take(session, request.here().trim_end_matches('/'));
    let first = match make(&request).await {
        Ok(first) => first,
        Err(problem) => return respond::refusal(&problem),
    };
    request.is_again = true;
    let follows_calls = request.follows_calls();
    let (queue, stream) = mpsc::channel(QUEUE);
    let mut stop = request.site.scope.stop_signal();
    let scope = request.site.scope.clone();
    scope.spawn(async move {
        let mut sent = [0; 32];
        let mut next = Some(first);
        loop {
            if let Some(text) = next.take() {
                let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
                if hash != sent {
                    sent = hash;
                    // A browser that does not read holds up its own task alone.
                    let sending = tokio::select! {
                        sent = queue.send(Event::data(text.into())) => sent.is_ok(),
                        () = stop.stopped() => false,
                    };
                    if !sending {
                        return;
                    }
                }
            }
            let earliest = Instant::now() + PACE;
            tokio::select! {
                next = listener.next() => if next.is_none() { return },
                _ = calls.changed(), if follows_calls => {}
                () = tokio::time::sleep(IDLE) => {}
                () = queue.closed() => return,
                () = stop.stopped() => return,
            }
            tokio::select! {
                () = tokio::time::sleep_until(earliest) => {}
                () = queue.closed() => return,
                () = stop.stopped() => return,
            }
            let viewer = request.viewer.as_ref();
            if !viewer.is_some_and(|viewer| session::lasts(&request.site, &viewer.session)) {
                return;
            }
            match make(&request).await {
                Ok(text) => next = Some(text),
                // Its rights have changed, or what it shows is gone: loading the page says what it is.
                Err(_) => return,
            }
        }
    });
    respond::events(Stream(stream))
}

/// Makes the live part of a page.
pub(super) type MakeLive = for<'a> fn(&'a PageRequest) -> futures_util::future::BoxFuture<'a, Result<String, Problem>>;
