//! HTTP+SSE, the transport of 2024-11-05: what the server says comes on one stream of events, each message to it is a
//! POST to the URL that the stream named.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{AUTHORIZATION, HeaderMap};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;
use toolcrib_base::task::{Scope, Stop};
use toolcrib_protocol::json::Rules;

use crate::call::LinkError;
use crate::http::client::{Endpoint, HttpClient, Reply as Body, RequestTemplate};
use crate::http::events::{EventStream, is_message};
use crate::http::link::Bounds;
use crate::http::origin;
use crate::http::refusal::Refusal;

use super::{Outcome, Peer};

/// How long a server may take to name the URL for messages.
const FIRST_EVENT: Duration = Duration::from_secs(30);
/// How long a message may take that no call waits for.
const UNAWAITED: Duration = Duration::from_secs(10);
/// How many of them may be under way at a time.
const MOST_UNAWAITED: usize = 64;
/// How much is read of the body that comes back for a message, in bytes. It says no more than "accepted".
const RECEIPT: usize = 64 * 1024;

/// The way to the server.
pub(super) struct Posts {
    client: HttpClient,
    template: Arc<RequestTemplate>,
    /// What the last call proved for whom it was made. All calls on the stream are for the same, so what no call waits
    /// for proves that too: the credential of the opening may have ended since.
    proof: Mutex<HeaderMap>,
    rules: Rules,
    scope: Scope,
    unawaited: Arc<Semaphore>,
    /// Set to end the stream; its drop ends it too.
    closed: watch::Sender<bool>,
}

/// Opens the stream and waits for the URL that messages go to.
pub(super) async fn open(
    client: HttpClient,
    endpoint: &Endpoint,
    scope: &Scope,
    bounds: Bounds,
) -> Result<(Posts, EventStream), LinkError> {
    let opening = async {
        let stream = client.open_stream(&endpoint.uri, endpoint.get_headers(), bounds.bytes).await?;
        let mut stream = stream.ok_or_else(|| LinkError::NotMcp("no event stream".into()))?;
        while let Some(event) = stream.next().await? {
            if event.event.as_deref() == Some("endpoint") {
                return Ok((event.data, stream));
            }
        }
        Err(LinkError::NotMcp("the stream ended without naming the URL for messages".into()))
    };
    let opened = timeout(FIRST_EVENT, opening).await;
    let (reference, stream) = opened.unwrap_or(Err(LinkError::Timeout(FIRST_EVENT)))?;
    let reference = String::from_utf8_lossy(&reference);
    let Some(uri) = origin::within(&endpoint.uri, &reference) else {
        let start: String = reference.chars().take(200).collect();
        return Err(LinkError::NotMcp(format!("messages should go to `{start}`, which is not at the server's origin")));
    };
    let template = Arc::new(client.template(Method::POST, &uri, endpoint.post_headers()));
    let posts = Posts {
        client,
        template,
        proof: Mutex::default(),
        rules: Rules::foreign(bounds.depth),
        scope: scope.clone(),
        unawaited: Arc::new(Semaphore::new(MOST_UNAWAITED)),
        closed: watch::Sender::new(false),
    };
    Ok((posts, stream))
}

/// Reads the stream until it ends, is closed from here, or no one holds the connection any more.
pub(super) async fn read(peer: Weak<Peer>, mut stream: EventStream, mut closed: watch::Receiver<bool>, mut stop: Stop) {
    loop {
        let event = tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => break,
            () = stop.stopped() => break,
            event = stream.next() => event,
        };
        let Some(peer) = peer.upgrade() else { return };
        match event {
            Ok(Some(event)) if is_message(&event) => peer.message(&event.data),
            Ok(Some(event)) if event.event.as_deref() == Some("endpoint") => {
                peer.inbox.oddity("the URL for messages was named again, which changes nothing");
            }
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => {
                peer.inbox.oddity(&error.to_string());
                break;
            }
        }
    }
    if let Some(peer) = peer.upgrade() {
        peer.end();
    }
}

// === impl Posts ===

impl Posts {
    pub(super) fn closed(&self) -> watch::Receiver<bool> {
        self.closed.subscribe()
    }

    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Posts a message; `Some` when the server refused it.
    async fn post(&self, line: Bytes, headers: &HeaderMap) -> Result<Option<Refusal>, LinkError> {
        let posted = self.client.post_as(&self.template, &[headers], line, RECEIPT).await;
        match posted.map(|posted| posted.reply) {
            Ok(Body::Refused(refusal)) => Ok(Some(refusal)),
            // Any success will do, whatever its body: the answer comes on the stream.
            Ok(_) | Err(LinkError::NotMcp(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn send(&self, line: Bytes) -> Result<(), LinkError> {
        let proof = self.proof();
        match timeout(UNAWAITED, self.post(line, &proof)).await.unwrap_or(Err(LinkError::Timeout(UNAWAITED)))? {
            Some(refusal) => Err(refusal.into_error()),
            None => Ok(()),
        }
    }

    /// Posts a request and waits for its answer on the stream, which may come before the receipt of the POST.
    pub(super) async fn exchange(
        &self,
        id: u64,
        line: Bytes,
        headers: &HeaderMap,
        mut answered: oneshot::Receiver<Result<Outcome, LinkError>>,
    ) -> Result<Outcome, LinkError> {
        if let Some(credential) = headers.get(AUTHORIZATION) {
            let mut proof = self.proof.lock().unwrap_or_else(PoisonError::into_inner);
            if proof.get(AUTHORIZATION) != Some(credential) {
                proof.insert(AUTHORIZATION, credential.clone());
            }
        }
        let mut posting = pin!(self.post(line, headers));
        let refused = tokio::select! {
            biased;
            outcome = &mut answered => return outcome.unwrap_or(Err(LinkError::Closed)),
            posted = &mut posting => posted?,
        };
        match refused {
            Some(refusal) => match refusal.answer(id, self.rules) {
                Some((_, error)) => Ok(Err(error)),
                None => Err(refusal.into_error()),
            },
            None => answered.await.unwrap_or(Err(LinkError::Closed)),
        }
    }

    fn proof(&self) -> HeaderMap {
        self.proof.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Posts what no one waits for.
    pub(super) fn send_or_drop(&self, line: Bytes) {
        let Ok(place) = Arc::clone(&self.unawaited).try_acquire_owned() else { return };
        let (client, template, proof) = (self.client.clone(), Arc::clone(&self.template), self.proof());
        self.scope.spawn(async move {
            let _place = place;
            let _ = timeout(UNAWAITED, client.post_as(&template, &[&proof], line, RECEIPT)).await;
        });
    }
}
