//! One request on its way: sent again only where it cannot have run, followed to its last answer, answered by ourselves
//! with an error where the gateway does not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;
use toolcrib_base::backoff::Backoff;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Answer, Id, Message, Raw, Request, RpcError, header, meta, method};
use toolcrib_transport::LinkError;
use toolcrib_transport::http::client::{Endpoint, Reply};
use toolcrib_transport::http::events::{EventStream, Place, is_message};
use toolcrib_transport::http::refusal::Refusal;

use super::session::OpenSession;
use super::sink::Sink;
use super::{Bridge, lock, note};
use crate::endpoint_login::Denial;

/// How long a request waits for a gateway that is away.
const AWAY: Duration = Duration::from_secs(60);
/// The waits in between.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long one request may take. The client gives up long before.
const CALL: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a notification or an answer may take to be accepted.
const TELL: Duration = Duration::from_secs(10);
/// How often in a row a stream is taken up without bringing anything new.
const ATTEMPTS: u32 = 10;
/// How often a session is opened again for one request.
const REOPENED: u32 = 2;

/// A request, or a batch of them.
pub(super) struct Call {
    pub(super) line: Bytes,
    pub(super) ids: Vec<Id>,
    /// What a modern request is, and the revision that it names.
    pub(super) modern: Option<(Request, String)>,
    pub(super) is_initialize: bool,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// It could not be sent.
    Away(String),
    /// It could not be sent, because there is no gateway.
    NotStarted(Problem),
    /// The gateway knows nothing of the session, so it did not run.
    Forgotten,
    /// It was sent and may have run.
    Lost(String),
    /// An answer that is none; sending it again does not help.
    Odd(String),
    /// Who comes so may not come in.
    Barred(StatusCode),
    /// Someone has to log in; it did not run.
    NeedsLogin,
    /// It was not sent, because the token of a login cannot be had for now.
    NoToken(Problem),
    /// The login does not permit it; it did not run.
    NeedsScopes(Problem),
    /// The gateway knows no request without a handshake, and the client was told otherwise by us.
    OlderGateway,
}

// === impl Call ===

impl Call {
    pub(super) fn initialize(line: Bytes, id: Id) -> Self {
        Self { line, ids: vec![id], modern: None, is_initialize: true }
    }

    pub(super) fn legacy(line: Bytes, ids: Vec<Id>) -> Self {
        Self { line, ids, modern: None, is_initialize: false }
    }

    pub(super) fn modern(line: Bytes, request: Request, date: String) -> Self {
        Self { line, ids: vec![request.id.clone()], modern: Some((request, date)), is_initialize: false }
    }
}

// === impl ExchangeError ===

impl From<LinkError> for ExchangeError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Unreachable(why) => Self::Away(why),
            LinkError::Broken(why) => Self::Lost(why),
            other => Self::Odd(other.to_string()),
        }
    }
}

impl ExchangeError {
    fn into_problem(self) -> Problem {
        match self {
            Self::Away(why) => {
                Problem::new(Kind::Unavailable, format!("the gateway is unreachable; the request was not sent: {why}"))
                    .hint("start it with `toolcrib serve`")
            }
            Self::NotStarted(problem) | Self::NoToken(problem) | Self::NeedsScopes(problem) => problem,
            Self::NeedsLogin => super::locked::needs_login(),
            Self::Forgotten => Problem::new(Kind::Unavailable, "the gateway lost the session; the request did not run"),
            Self::Lost(why) => {
                let message =
                    format!("the connection to the gateway broke ({why}); the request may have run and is not retried");
                Problem::new(Kind::Unavailable, message)
            }
            Self::Odd(why) => Problem::new(Kind::BadServer, why),
            Self::OlderGateway => Problem::new(Kind::BadServer, "the gateway speaks older revisions only"),
            Self::Barred(StatusCode::FORBIDDEN) => {
                Problem::new(Kind::Forbidden, "the gateway denies access to this client")
            }
            Self::Barred(status) => {
                Problem::new(Kind::Unauthenticated, format!("the gateway requires a token: HTTP {status}"))
                    .hint("pass one with `--token-file FILE`")
            }
        }
    }
}

// === impl Bridge ===

impl Bridge {
    /// Carries a request until it is answered, by the gateway or by us.
    pub(super) async fn carry(self: &Arc<Self>, call: Call) {
        if self.login.is_locked() {
            return self.answer_locked(&call).await;
        }
        let lists_tools = call.modern.as_ref().is_some_and(|(request, _)| request.method == method::TOOLS_LIST);
        let mut sink = Sink::new(self, call.ids.clone()).of_tools(lists_tools);
        let carried = tokio::time::timeout(CALL, self.attempts(&call, &mut sink)).await;
        let failed = match carried {
            Ok(Ok(())) => return,
            Ok(Err(failed)) => failed,
            Err(_) => ExchangeError::Lost("it timed out".into()),
        };
        if matches!(failed, ExchangeError::NeedsLogin) {
            return self.answer_locked(&call).await;
        }
        let pending = std::mem::take(&mut sink.pending);
        if let (ExchangeError::OlderGateway, Some((_, date))) = (&failed, &call.modern) {
            // A client of both eras goes on with `initialize`.
            for id in pending {
                self.say(Answer::error(Some(id), meta::wants_handshake(date)).to_bytes()).await;
            }
            return;
        }
        self.refuse(&pending, &failed.into_problem()).await;
    }

    async fn attempts(self: &Arc<Self>, call: &Call, sink: &mut Sink<'_>) -> Result<(), ExchangeError> {
        let (mut backoff, begun) = (Backoff::new(AGAIN.0, AGAIN.1), Instant::now());
        let (mut reopened, mut has_told) = (0, false);
        loop {
            let is_legacy = call.modern.is_none() && !call.is_initialize;
            if is_legacy && self.session.is_owed() {
                self.open_owed().await?;
            }
            let held = if is_legacy { self.session.held() } else { None };
            let mut failed = match self.attempt(call, held.as_deref(), sink).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            if let (ExchangeError::Forgotten, Some(held)) = (&failed, &held)
                && reopened < REOPENED
            {
                reopened += 1;
                match self.reopen(held).await {
                    Ok(()) => continue,
                    // It is away again, and the call did not run.
                    Err(ExchangeError::Lost(why)) => failed = ExchangeError::Away(why),
                    Err(other) => failed = other,
                }
            }
            match failed {
                ExchangeError::Away(why) if begun.elapsed() < AWAY => {
                    if let Some(problem) = self.gateway.failure() {
                        return Err(ExchangeError::NotStarted(problem));
                    }
                    if !has_told {
                        has_told = true;
                        self.gateway.report_unreachable(&why, AWAY).await;
                    }
                    self.gateway.forget();
                    tokio::time::sleep(backoff.next_wait()).await;
                }
                other => return Err(other),
            }
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        call: &Call,
        held: Option<&OpenSession>,
        sink: &mut Sink<'_>,
    ) -> Result<(), ExchangeError> {
        let headers = match (&call.modern, held) {
            (Some((request, date)), _) => self.modern_headers(request, date),
            (None, Some(held)) => held.headers.clone(),
            (None, None) => HeaderMap::new(),
        };
        let given = self.post(call.line.clone(), &headers, sink).await?;
        if let (true, Some(result)) = (call.is_initialize, sink.result.take()) {
            self.session.keep(&given, &result);
        }
        Ok(())
    }

    /// The headers that mirror the body (2026-07-28).
    fn modern_headers(&self, request: &Request, date: &str) -> HeaderMap {
        let mut headers = header::standard(request, date);
        if request.method == method::TOOLS_CALL
            && let Some(name) = request.params.text("name")
            && let Some(mirrored) = lock(&self.mirrors).get(&name)
        {
            let arguments = request.params.get("arguments").unwrap_or_else(Raw::empty_object);
            headers.extend(mirrored.mirror(&arguments));
        }
        headers
    }

    /// Posts one message and gives what comes back to `sink`, until nothing is pending. Gives the answer's headers. Where
    /// the token of a login was refused and there is another one, it is sent once more: it surely did not run.
    pub(super) async fn post(
        self: &Arc<Self>,
        line: Bytes,
        headers: &HeaderMap,
        sink: &mut Sink<'_>,
    ) -> Result<HeaderMap, ExchangeError> {
        let mut is_second = false;
        loop {
            let endpoint = self.gateway.look().await.map_err(|problem| ExchangeError::Away(problem.to_string()))?;
            let proof = self.proof(&endpoint).await?;
            let own = [headers, &proof];
            let posting = endpoint.client.post_as(&endpoint.post, &own, line.clone(), self.limits.message_bytes);
            let posted = posting.await?;
            match posted.reply {
                Reply::Json(body) => sink.take(&body).await,
                Reply::Stream(stream) => self.follow(*stream, headers, sink).await?,
                Reply::Accepted => {}
                Reply::Refused(refusal) if refusal.status() == StatusCode::UNAUTHORIZED => {
                    if self.denied(&endpoint, &proof, refusal.challenge()).await? && !is_second {
                        is_second = true;
                        continue;
                    }
                    return self.refused(&refusal, headers, sink).await.map(|()| posted.headers);
                }
                Reply::Refused(refusal) => {
                    if refusal.status() == StatusCode::FORBIDDEN {
                        self.step_up(&endpoint.uri, &proof, refusal.challenge()).await?;
                    }
                    self.refused(&refusal, headers, sink).await?;
                }
            }
            return if sink.is_done() {
                Ok(posted.headers)
            } else {
                Err(ExchangeError::Odd("the gateway sent an unexpected response".into()))
            };
        }
    }

    /// The headers of the login at an endpoint. A token that a person gave for it stands for itself.
    async fn proof(&self, endpoint: &Endpoint) -> Result<HeaderMap, ExchangeError> {
        if endpoint.headers.contains_key(AUTHORIZATION) {
            return Ok(HeaderMap::new());
        }
        self.login.headers(&endpoint.uri).await.map_err(ExchangeError::NoToken)
    }

    /// Whether to send what was refused with 401 once more.
    async fn denied(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        proof: &HeaderMap,
        challenge: Option<&str>,
    ) -> Result<bool, ExchangeError> {
        if endpoint.headers.contains_key(AUTHORIZATION) {
            return Ok(false);
        }
        let denial = self.login.denied(&endpoint.uri, proof, challenge).await;
        match denial.map_err(ExchangeError::NoToken)? {
            Denial::Renewed => Ok(true),
            Denial::Final => Ok(false),
            Denial::NeedsLogin { is_new } => {
                if is_new {
                    self.locked().await;
                }
                Err(ExchangeError::NeedsLogin)
            }
        }
    }

    /// Reads a stream up to the last answer. One of a legacy session that ends too early is taken up where it broke.
    async fn follow(
        self: &Arc<Self>,
        mut stream: EventStream,
        headers: &HeaderMap,
        sink: &mut Sink<'_>,
    ) -> Result<(), ExchangeError> {
        let is_legacy = headers.contains_key(header::SESSION_ID);
        let (mut place, mut fruitless) = (Place::default(), 0);
        loop {
            let why = loop {
                let event = match stream.next().await {
                    Ok(Some(event)) => event,
                    Ok(None) if sink.is_done() => return Ok(()),
                    Ok(None) => break "the stream ended without a response".to_owned(),
                    Err(LinkError::Broken(why)) => break why,
                    Err(error) => return Err(ExchangeError::Lost(error.to_string())),
                };
                if place.note(&event) {
                    fruitless = 0;
                }
                if is_message(&event) {
                    sink.take(&event.data).await;
                }
                if sink.is_done() {
                    return Ok(());
                }
            };
            if !is_legacy || place.last().is_none() {
                return Err(ExchangeError::Lost(why));
            }
            stream = self.taken_up(headers, &place, &mut fruitless).await.ok_or(ExchangeError::Lost(why))?;
        }
    }

    /// The rest of a stream; `None` where there is none to be had.
    async fn taken_up(
        self: &Arc<Self>,
        headers: &HeaderMap,
        place: &Place,
        fruitless: &mut u32,
    ) -> Option<EventStream> {
        while *fruitless < ATTEMPTS {
            tokio::time::sleep(place.wait(*fruitless)).await;
            *fruitless += 1;
            match self.open_stream(headers, place).await {
                Ok(stream) => return stream,
                Err(LinkError::Status { status: 400..500, .. }) => return None,
                // It is away; its successor will not know the stream, and says so.
                Err(_) => self.gateway.forget(),
            }
        }
        None
    }

    /// Opens a stream after the last event that was read.
    pub(super) async fn open_stream(
        self: &Arc<Self>,
        headers: &HeaderMap,
        place: &Place,
    ) -> Result<Option<EventStream>, LinkError> {
        let away = |problem: Problem| LinkError::Unreachable(problem.to_string());
        let endpoint = self.gateway.look().await.map_err(away)?;
        let mut all = endpoint.headers.clone();
        all.extend(headers.clone());
        if let Some(last) = place.last() {
            all.insert(HeaderName::from_static(header::LAST_EVENT_ID), HeaderValue::clone(last));
        }
        let proof = self.proof(&endpoint).await.map_err(|failed| away(failed.into_problem()))?;
        all.extend(proof.clone());
        let opened = endpoint.client.open_stream(&endpoint.uri, all, self.limits.message_bytes).await;
        if let Err(LinkError::Status { status: 401, challenge, .. }) = &opened
            && self.denied(&endpoint, &proof, challenge.as_deref()).await.is_ok_and(|renewed| renewed)
        {
            return Err(LinkError::Unreachable("its token was renewed".to_owned()));
        }
        opened
    }

    /// A status that is not a success: an error to the request, a session that is gone, or something else.
    async fn refused(&self, refusal: &Refusal, headers: &HeaderMap, sink: &mut Sink<'_>) -> Result<(), ExchangeError> {
        let (status, has_session) = (refusal.status(), headers.contains_key(header::SESSION_ID));
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            // A gateway that was restarted may have a new token.
            self.gateway.forget();
            return Err(ExchangeError::Barred(status));
        }
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(ExchangeError::Forgotten);
        }
        let is_unknown = matches!(status.as_u16(), 400 | 404..=406);
        let may_be_older =
            is_unknown && headers.contains_key(header::METHOD) && self.spoke_modern.load(Ordering::Relaxed);
        match Message::parse(refusal.body(), Rules::relayed(self.limits.depth)) {
            Ok(Message::Answer(Answer { id: Some(id), .. })) if sink.pending.contains(&id) => {
                sink.take(refusal.body()).await;
                Ok(())
            }
            _ if may_be_older => Err(ExchangeError::OlderGateway),
            Ok(Message::Answer(Answer { id: None, outcome: Err(error) })) => {
                // Servers built on the examples of an SDK say so in place of 404.
                if status == StatusCode::BAD_REQUEST && has_session && is_about_session(&error) {
                    return Err(ExchangeError::Forgotten);
                }
                for id in std::mem::take(&mut sink.pending) {
                    self.say(Answer::error(Some(id), error.clone()).to_bytes()).await;
                }
                Ok(())
            }
            _ => Err(ExchangeError::Odd(format!("the gateway answers with HTTP status {status}"))),
        }
    }

    /// Sends what no one answers. What cannot be sent is lost: it belongs to a session that is gone.
    pub(super) async fn forward(self: &Arc<Self>, line: Bytes) {
        if self.login.is_locked() || self.session.is_owed() {
            return;
        }
        let headers = self.session.held().map(|held| held.headers.clone()).unwrap_or_default();
        let mut sink = Sink::new(self, Vec::new());
        match tokio::time::timeout(TELL, self.post(line, &headers, &mut sink)).await {
            Ok(Ok(_)) => {}
            Ok(Err(ExchangeError::NeedsLogin)) => {}
            Ok(Err(failed)) => note(&format!("a notification or a response was lost: {}", failed.into_problem())),
            Err(_) => note("a notification or a response was not accepted in time"),
        }
    }
}

fn is_about_session(error: &RpcError) -> bool {
    error.message.to_ascii_lowercase().contains("session")
}
