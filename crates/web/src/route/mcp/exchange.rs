//! One exchange: a request and its answer, as one JSON body or, once something came before the answer, as a stream.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use toolcrib_base::task::Scope;
use toolcrib_call::ProfileSnapshot;
use toolcrib_protocol::sse::Event;
use toolcrib_protocol::{Answer, Era, Request, method};
use toolcrib_session::{Caller, Channel, Reader, STREAM_QUEUE, Session, Stream};
use toolcrib_transport::http::body::{Body, Feed};

use super::accept::Accept;
use crate::{Site, respond};

/// After how long an answer that is not there yet becomes a stream, for clients that can then take it up again and
/// whose connection would look dead otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a legacy request continues when its connection broke before it could be told where to come back: a call
/// that is almost done still does what it was to do. Then it is cancelled, as no client can get its answer any more.
const UNHEARD: Duration = Duration::from_secs(5);
/// How long it continues for a client that was told: it is asked to come back after a second, and may need a few
/// attempts.
const RETURN: Duration = Duration::from_secs(30);

/// What a request, or a batch of them, ends with. `None` when its client has cancelled it.
pub(super) type ExchangeEnd = Option<FinalMessage>;
/// A request, or a batch, that runs.
pub(super) type RunningRequest = Pin<Box<dyn Future<Output = ExchangeEnd> + Send>>;

/// The last word of an exchange.
#[derive(Debug)]
pub(super) enum FinalMessage {
    /// One answer.
    One(Answer),
    /// The answers of a batch, in its order.
    Batch(Vec<Answer>),
}

/// A session's stream as the body of a response.
#[derive(Debug)]
pub(super) struct SessionBody(pub(super) Reader);

/// What runs while no stream has begun. A modern request ends when its client goes away; a legacy one continues for
/// [`UNHEARD`].
struct PendingStream<'a> {
    running: Option<RunningRequest>,
    session: Option<&'a Arc<Session>>,
    scope: &'a Scope,
}

/// What comes first of a request.
#[derive(Debug)]
enum FirstEvent {
    /// A message before the answer.
    Message(Bytes),
    /// Its end.
    Ended(ExchangeEnd),
    /// Nothing within [`TIMEOUT`].
    Nothing,
}

/// A request, or a batch, that has begun, and what it says before its end.
pub(super) struct StartedRequest {
    pub(super) running: RunningRequest,
    pub(super) messages: mpsc::Receiver<Bytes>,
}

/// Answers one request.
pub(super) async fn one(
    site: &Arc<Site>,
    snapshot: ProfileSnapshot,
    caller: Caller,
    asked: Request,
    accept: Accept,
) -> Response<Body> {
    let streams = accept.takes_events();
    if asked.method == method::LISTEN && !streams {
        return respond::status(StatusCode::NOT_ACCEPTABLE);
    }
    let era = caller.revision.era();
    if !caller.needs_channel(&asked) || !streams && era == Era::Modern {
        // Boxed: the server moves the future of a response, all of it, for each request of any kind.
        return whole(
            Box::pin(site.gateway.request(&snapshot, &caller, asked, None)).await.map(FinalMessage::One),
            era,
        );
    }
    let (channel, messages) = mpsc::channel(STREAM_QUEUE);
    let (gateway, session) = (Arc::clone(&site.gateway), caller.session.clone());
    let running = async move {
        let channel = streams.then(|| Channel::new(channel));
        // Boxed where it begins, so that only what is given to it is moved on the way there.
        Box::pin(gateway.request(&snapshot, &caller, asked, channel)).await.map(FinalMessage::One)
    };
    answer(site, session.as_ref(), accept, StartedRequest { running: Box::pin(running), messages }).await
}

/// Answers with what a request ends with, and with the messages before it.
pub(super) async fn answer(
    site: &Arc<Site>,
    session: Option<&Arc<Session>>,
    accept: Accept,
    started: StartedRequest,
) -> Response<Body> {
    let StartedRequest { running, mut messages } = started;
    let era = session.map_or(Era::Modern, |_| Era::Legacy);
    let in_time = session.is_some() && accept.names_events();
    let mut unheard = PendingStream { running: Some(running), session, scope: &site.scope };
    let first = match unheard.first(&mut messages, in_time).await {
        FirstEvent::Message(message) => Some(message),
        FirstEvent::Nothing => None,
        FirstEvent::Ended(ended) => return whole(ended, era),
    };
    let Some(running) = unheard.running.take() else { return whole(None, era) };
    drop(unheard);
    let (stream, reader) = match session {
        Some(session) => session.begin_stream(),
        None => Stream::passing(),
    };
    if let Some(first) = first {
        stream.push(first);
    }
    site.scope.spawn(stream_to_end(stream, running, messages, session.cloned()));
    respond::events(SessionBody(reader))
}

/// Puts everything on the stream until the request has ended.
async fn stream_to_end(
    stream: Arc<Stream>,
    mut running: RunningRequest,
    mut messages: mpsc::Receiver<Bytes>,
    session: Option<Arc<Session>>,
) {
    let mut detached = None;
    // Until when someone may come back; without an end while someone reads.
    let mut until = None;
    let ended = loop {
        tokio::select! {
            biased;
            // Without room, what may be missed is missed and what may not waits; the call itself continues.
            Some(message) = messages.recv(), if stream.has_room() => stream.push(message),
            ended = &mut running => break ended,
            () = stream.changed() => {
                detached = match &session {
                    _ if stream.is_attached() => None,
                    // A legacy request continues for a while, as many as may.
                    Some(session) => match detached.or_else(|| session.detach()) {
                        Some(place) => Some(place),
                        None => return stream.finish(None),
                    },
                    // Dropping a modern request cancels it.
                    None => return,
                };
                if stream.is_expired() {
                    // No one can hear it any more: what sends messages learns it from the closed channel.
                    messages.close();
                }
                let wait = if stream.is_expired() { UNHEARD } else { RETURN };
                until = detached.is_some().then(|| {
                    let latest = Instant::now() + wait;
                    until.map_or(latest, |until: Instant| until.min(latest))
                });
            }
            // No one came back: dropping the request cancels it.
            () = at(until) => return stream.finish(None),
        }
    };
    // What came just before the answer goes out before it.
    while let Ok(message) = messages.try_recv() {
        stream.push(message);
    }
    stream.finish(ended.map(|said| said.to_bytes()));
}

/// Waits until then; for ever where there is no such time.
async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// An answer in one body. A request that its client has cancelled gets none; the exchange still has to end.
fn whole(ended: ExchangeEnd, era: Era) -> Response<Body> {
    match ended {
        Some(FinalMessage::One(answer)) => respond::answer(&answer, era),
        Some(said) => respond::json(StatusCode::OK, Body::full(said.to_bytes())),
        None => respond::status(StatusCode::ACCEPTED),
    }
}

// === impl FinalMessage ===

impl FinalMessage {
    fn to_bytes(&self) -> Bytes {
        match self {
            FinalMessage::One(answer) => answer.to_bytes(),
            FinalMessage::Batch(answers) => Answer::array(answers),
        }
    }
}

// === impl SessionBody ===

impl Feed for SessionBody {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_event(cx)
    }
}

// === impl PendingStream ===

impl PendingStream<'_> {
    async fn first(&mut self, messages: &mut mpsc::Receiver<Bytes>, in_time: bool) -> FirstEvent {
        let Some(running) = &mut self.running else { return FirstEvent::Ended(None) };
        let first = tokio::select! {
            biased;
            Some(message) = messages.recv() => FirstEvent::Message(message),
            ended = running => FirstEvent::Ended(ended),
            () = tokio::time::sleep(TIMEOUT), if in_time => FirstEvent::Nothing,
        };
        let FirstEvent::Ended(ended) = first else { return first };
        self.running = None;
        // It may have said something after the queue was looked at; that still goes out before the answer.
        match messages.try_recv() {
            Ok(message) => {
                self.running = Some(Box::pin(std::future::ready(ended)));
                FirstEvent::Message(message)
            }
            Err(_) => FirstEvent::Ended(ended),
        }
    }
}

impl Drop for PendingStream<'_> {
    /// The connection broke before anything was said.
    fn drop(&mut self) {
        // What has panicked cannot continue.
        if let (Some(running), Some(session)) = (self.running.take(), self.session)
            && !std::thread::panicking()
            && let Some(place) = session.detach()
        {
            self.scope.spawn(async move {
                let _place = place;
                // Dropping what has not ended cancels it.
                let _ = tokio::time::timeout(UNHEARD, running).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::ManualClock;
    use toolcrib_protocol::{Id, Raw, Revision};
    use toolcrib_session::{Principal, Sessions};

    use super::*;

    fn session() -> Arc<Session> {
        let sessions = Sessions::new(1, TIMEOUT, Arc::new(ManualClock::default()));
        let who = Principal::member("p");
        sessions.open(who, "a".parse().unwrap(), Revision::LATEST_LEGACY).unwrap()
    }

    fn ended_after(seconds: u64) -> RunningRequest {
        Box::pin(async move {
            toolcrib_testkit::pass(Duration::from_secs(seconds)).await;
            Some(FinalMessage::One(Answer::ok(Id::from_number(1), Raw::empty_object())))
        })
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_takes_long_becomes_a_stream_where_that_helps() {
        let (scope, (sender, mut messages)) = (Scope::new(), mpsc::channel(1));
        for (seconds, in_time, is_stream) in [(4, true, false), (6, true, true), (600, false, false)] {
            let mut unheard = PendingStream { running: Some(ended_after(seconds)), session: None, scope: &scope };
            let first = unheard.first(&mut messages, in_time).await;
            assert_eq!(matches!(first, FirstEvent::Nothing), is_stream, "{seconds}: {first:?}");
            assert_eq!(unheard.running.is_some(), is_stream);
        }
        sender.try_send("x".into()).unwrap();
        let mut unheard = PendingStream { running: Some(ended_after(0)), session: None, scope: &scope };
        assert!(
            matches!(unheard.first(&mut messages, true).await, FirstEvent::Message(_)),
            "what came before goes first"
        );
    }

    #[tokio::test]
    async fn what_is_said_together_with_the_answer_is_not_lost() {
        let (scope, (sender, mut messages)) = (Scope::new(), mpsc::channel(2));
        // The queue is empty when it is looked at; then the message and the answer come at once.
        let running: RunningRequest = Box::pin(async move {
            sender.try_send("x".into()).unwrap();
            None
        });
        let mut unheard = PendingStream { running: Some(running), session: None, scope: &scope };
        let first = unheard.first(&mut messages, true).await;
        assert!(matches!(&first, FirstEvent::Message(message) if message == "x"), "{first:?}");
        assert!(matches!(unheard.first(&mut messages, true).await, FirstEvent::Ended(None)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_breaks_ends_a_modern_request_and_not_a_legacy_one() {
        let (scope, legacy) = (Scope::new(), session());
        let breaks = async |session: Option<&Arc<Session>>| {
            let (sender, mut ended) = mpsc::channel::<()>(1);
            let running: RunningRequest = Box::pin(async move {
                toolcrib_testkit::pass(Duration::from_secs(1)).await;
                let _ = sender.send(()).await;
                None
            });
            drop(PendingStream { running: Some(running), session, scope: &scope });
            ended.recv().await.is_some()
        };
        assert!(!breaks(None).await);
        assert!(breaks(Some(&legacy)).await);
        let places: Vec<_> = std::iter::from_fn(|| legacy.detach()).collect();
        assert_eq!(places.len(), 32);
        assert!(!breaks(Some(&legacy)).await, "too many go on");
        drop(places);
        assert!(breaks(Some(&legacy)).await);
    }

    /// A request that ends after so many seconds, and whether it got that far.
    fn noted(seconds: u64) -> (RunningRequest, tokio::sync::oneshot::Receiver<()>) {
        let (sender, ended) = tokio::sync::oneshot::channel();
        let running = async move {
            toolcrib_testkit::pass(Duration::from_secs(seconds)).await;
            let _ = sender.send(());
            Some(FinalMessage::One(Answer::ok(Id::from_number(1), Raw::empty_object())))
        };
        (Box::pin(running), ended)
    }

    #[tokio::test(start_paused = true)]
    async fn a_legacy_request_whose_answer_no_one_can_have_is_taken_back_after_a_while() {
        let (scope, legacy) = (Scope::new(), session());
        for (seconds, ends) in [(4, true), (6, false)] {
            let (running, ended) = noted(seconds);
            drop(PendingStream { running: Some(running), session: Some(&legacy), scope: &scope });
            assert_eq!(ended.await.is_ok(), ends, "a request of {seconds} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_stream_no_one_takes_up_again_is_taken_back_later() {
        let (scope, legacy) = (Scope::new(), session());
        for (seconds, returns, ends) in [(29, false, true), (31, false, false), (90, true, true)] {
            let (running, ended) = noted(seconds);
            let (stream, reader) = legacy.begin_stream();
            let (_sender, messages) = mpsc::channel(1);
            scope.spawn(stream_to_end(stream, running, messages, Some(Arc::clone(&legacy))));
            tokio::task::yield_now().await;
            let mut reader = reader;
            let event = std::future::poll_fn(|cx| reader.poll_event(cx))
                .await
                .expect("the first event says where to come back");
            drop(reader);
            let mut back = None;
            if returns {
                toolcrib_testkit::pass(Duration::from_secs(20)).await;
                back = Some(legacy.resume_stream(&event.id.expect("an id")).unwrap());
            }
            assert_eq!(ended.await.is_ok(), ends, "a request of {seconds} s");
            drop(back);
        }
    }
}
