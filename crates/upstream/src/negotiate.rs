//! The opening of a connection: which era the server is of, what we declare, which revision it chose.
//!
//! A server of unknown era is probed with `server/discover`: a `DiscoverResult` or a modern error means modern,
//! anything else continues with `initialize` (2026-07-28, basic/versioning). No single error code decides.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_protocol::error::{CAPABILITY_MISSING, HEADER_MISMATCH, INVALID_PARAMS, REVISION_UNSUPPORTED};
use toolcrib_protocol::{Capabilities, Era, Notification, Raw, Revision, RpcError, method};
use toolcrib_transport::http::link::{HttpLink, ProbeResponse};
use toolcrib_transport::{CallOptions, Link, LinkError};

use crate::eras::Failure;
use crate::inventory::{Inventory, revision};
use crate::live::{CLIENT_INFO, RequestMeta, written};

/// How long a program may be silent after the probe before `initialize` is sent too. Programs that are still starting
/// answer the probe later, and that answer still counts.
const PROBE: Duration = Duration::from_millis(2_500);

/// How long calls wait for the stream on which a legacy server speaks on its own. Some open it with their first word.
const LISTENING: Duration = Duration::from_secs(1);

/// What is known after the opening.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) revision: Revision,
    /// Capabilities, name and instructions; no lists yet.
    pub(crate) inventory: Inventory,
    /// Whether a modern server names a legacy revision among those that it speaks.
    pub(crate) names_legacy: bool,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The program ended at the probe: some do at anything that they do not expect. It must be started again.
    #[error("the program exited when asked for its protocol revision")]
    Ended,
    /// The address takes no POST: it may be an HTTP+SSE server of 2024-11-05.
    #[error("{0}")]
    NoPost(LinkError),
    /// The definition wants the modern era, and the server does not speak it.
    #[error(
        "it does not speak {}, which `era: modern` in its definition requires; to use what it speaks, write `era: \
         auto`",
        Revision::LATEST.as_str()
    )]
    NotModern,
}

// === impl HandshakeError ===

impl HandshakeError {
    /// What a failed `initialize` says of a server whose main connection is modern.
    pub(crate) fn beside(&self) -> Failure {
        match self {
            Self::Link(LinkError::NotMcp(_)) | Self::NoPost(_) | Self::NotModern => Failure::Refused,
            // Whom it serves, and whether it can by now, says nothing of its era.
            Self::Link(LinkError::Status { status: 401 | 403 | 408 | 429 | 500.., .. }) => Failure::Unreached,
            Self::Link(LinkError::Status { .. }) => Failure::Refused,
            Self::Ended | Self::Link(LinkError::Closed | LinkError::Timeout(_)) => Failure::Silent,
            Self::Link(_) => Failure::Unreached,
        }
    }
}

/// How a connection is to be opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandshakeOptions<'a> {
    /// The era that the server was of when it last answered.
    pub(crate) known: Option<Era>,
    /// Whether no other era will do.
    pub(crate) only: bool,
    /// What a legacy server may ask, as declared to it.
    pub(crate) offered: &'a Capabilities,
}

/// Opens a connection. The caller brings the deadline.
pub(crate) async fn open(link: &Link, item: HandshakeOptions<'_>) -> Result<Handshake, HandshakeError> {
    let HandshakeOptions { known, only, offered } = item;
    match (link, known) {
        (Link::Http(_), Some(Era::Legacy)) if only => posted_handshake(link, offered).await,
        (_, Some(Era::Legacy)) => Ok(handshake(link, offered).await?),
        (_, Some(Era::Modern)) if only => opened_modern(link).await,
        (Link::Http(http), _) => probe_http(link, http, offered).await,
        (Link::Peer(_), Some(Era::Modern)) => {
            let outcome = discover(link).await?;
            // It was modern once and is not now: the task forgets the era and tries again.
            discovered(outcome)
                .ok_or_else(|| HandshakeError::Link(LinkError::NotMcp("it no longer answers `server/discover`".into())))
        }
        (Link::Peer(_), None) => probe_peer(link, offered).await,
    }
}

/// Without `initialize`, whatever the server says.
async fn opened_modern(link: &Link) -> Result<Handshake, HandshakeError> {
    let opened = match link {
        Link::Http(http) => {
            let id = link.next_id();
            let probed = http.probe(id, discover_params(id), Revision::LATEST, Duration::MAX).await?;
            let opened = probed.outcome.and_then(discovered);
            if let (None, 401 | 403 | 500..) = (&opened, probed.status) {
                let ProbeResponse { status, body, challenge, .. } = probed;
                return Err(LinkError::Status { status, body, challenge }.into());
            }
            opened.inspect(|opened| http.set_modern(opened.revision))
        }
        Link::Peer(_) => discovered(discover(link).await?),
    };
    retry_discover(link, opened.ok_or(HandshakeError::NotModern)?).await
}

async fn discover(link: &Link) -> Result<Result<Raw, RpcError>, LinkError> {
    // A probe is never taken back: a server may take a cancellation of something it never understood amiss.
    let options = CallOptions { deadline: Duration::MAX, ..CallOptions::default() };
    let id = link.next_id();
    link.call(id, method::DISCOVER, discover_params(id), options).await
}

fn discover_params(id: u64) -> Raw {
    written(Revision::LATEST, id, &Raw::empty_object(), &RequestMeta::OURS)
}

async fn probe_peer(link: &Link, offered: &Capabilities) -> Result<Handshake, HandshakeError> {
    let mut probe = std::pin::pin!(discover(link));
    let early = tokio::time::timeout(PROBE, &mut probe).await;
    if let Ok(outcome) = early {
        let outcome = match outcome {
            Err(LinkError::Closed) => return Err(HandshakeError::Ended),
            other => other?,
        };
        return match discovered(outcome) {
            Some(opened) => retry_discover(link, opened).await,
            None => Ok(handshake(link, offered).await?),
        };
    }
    // Silence: a legacy program that ignores what it does not know, or one that is still starting.
    let mut shaking = std::pin::pin!(handshake(link, offered));
    tokio::select! {
        biased;
        shaken = &mut shaking => match shaken {
            Ok(opened) => Ok(opened),
            Err(LinkError::Closed) => Err(HandshakeError::Ended),
            // A modern server that started slowly refuses the handshake; its answer to the probe is on the way.
            Err(refused) => probe.await.ok().and_then(discovered).ok_or(HandshakeError::Link(refused)),
        },
        outcome = &mut probe => match outcome.map(discovered) {
            Ok(Some(opened)) => Ok(opened),
            Ok(None) => Ok(shaking.await?),
            Err(LinkError::Closed) => Err(HandshakeError::Ended),
            Err(error) => Err(error.into()),
        },
    }
}

async fn probe_http(link: &Link, http: &Arc<HttpLink>, offered: &Capabilities) -> Result<Handshake, HandshakeError> {
    let id = link.next_id();
    let probed = http.probe(id, discover_params(id), Revision::LATEST, Duration::MAX).await?;
    if let Some(opened) = probed.outcome.and_then(discovered) {
        http.set_modern(opened.revision);
        return retry_discover(link, opened).await;
    }
    match probed.status {
        // Neither era can be told without a credential; a broken server is not called legacy.
        401 | 403 | 500.. => {
            Err(LinkError::Status { status: probed.status, body: probed.body, challenge: probed.challenge }.into())
        }
        _ => posted_handshake(link, offered).await,
    }
}

async fn posted_handshake(link: &Link, offered: &Capabilities) -> Result<Handshake, HandshakeError> {
    match handshake(link, offered).await {
        Err(error @ LinkError::Status { status: 400 | 404 | 405, .. }) => Err(HandshakeError::NoPost(error)),
        other => Ok(other?),
    }
}

/// A server that named its revisions in an error has not said yet what it offers: it is asked once more, in one of
/// them.
async fn retry_discover(link: &Link, opened: Handshake) -> Result<Handshake, HandshakeError> {
    if opened.inventory.capabilities.is_some() {
        return Ok(opened);
    }
    let again = discover(link).await?;
    discovered(again).filter(|opened| opened.inventory.capabilities.is_some()).ok_or_else(|| {
        HandshakeError::Link(LinkError::NotMcp("`server/discover` does not list its capabilities".into()))
    })
}

/// What a probe says: the opening of a modern server, or nothing.
fn discovered(outcome: Result<Raw, RpcError>) -> Option<Handshake> {
    let (named, result) = match outcome {
        Ok(result) => (NamedRevisions::read(&result.get("supportedVersions")?)?, Some(result)),
        // Only modern servers know these codes (2026-07-28, basic/versioning).
        Err(error) if error.code == REVISION_UNSUPPORTED => {
            (NamedRevisions::read(&error.data?.get("supported")?)?, None)
        }
        Err(error) if matches!(error.code, HEADER_MISMATCH | CAPABILITY_MISSING) => (NamedRevisions::LATEST, None),
        Err(_) => return None,
    };
    let NamedRevisions { revision, legacy } = named;
    let mut inventory = Inventory::default();
    if let Some(result) = &result {
        inventory.discovered(result);
    }
    Some(Handshake { revision, inventory, names_legacy: legacy })
}

/// Whether an error shows that a server which was a legacy one follows modern rules now.
pub(crate) fn speaks_of_modern_rules(error: &RpcError) -> bool {
    match error.code {
        HEADER_MISMATCH | REVISION_UNSUPPORTED => true,
        // A required key of `_meta` is missing (2026-07-28, basic).
        INVALID_PARAMS => error.message.contains("io.modelcontextprotocol/"),
        _ => false,
    }
}

/// Whether an error shows that a server which was a modern one wants a handshake and a session now.
pub(crate) fn speaks_of_legacy_rules(error: &RpcError) -> bool {
    let names = error.message.to_ascii_lowercase().contains("initializ");
    // Below lie the codes that servers use for it; a tool's own errors are results.
    names && (matches!(error.code, -32_600 | INVALID_PARAMS) || (-32_019..=-32_000).contains(&error.code))
}

/// What a modern server names of the revisions that we speak.
struct NamedRevisions {
    /// The newest modern one.
    revision: Revision,
    /// Whether a legacy one is among them.
    legacy: bool,
}

impl NamedRevisions {
    const LATEST: Self = Self { revision: Revision::LATEST, legacy: false };

    /// `None` where no modern one is among them.
    fn read(supported: &Raw) -> Option<Self> {
        let toolcrib_protocol::json::Outline::Array(dates) = supported.outline() else { return None };
        let dates = dates.into_iter().take(100).filter_map(toolcrib_protocol::json::text);
        let (modern, legacy): (Vec<_>, Vec<_>) =
            dates.filter_map(|date| Revision::parse(&date)).partition(|revision| revision.era() == Era::Modern);
        Some(Self { revision: modern.into_iter().max()?, legacy: !legacy.is_empty() })
    }
}

/// Shakes hands: `initialize`, the check of the answer, `notifications/initialized`.
pub(crate) async fn handshake(link: &Link, offered: &Capabilities) -> Result<Handshake, LinkError> {
    let id = link.next_id();
    let (outcome, session) = match link {
        Link::Peer(_) => {
            // `initialize` must not be cancelled (2025-11-25, basic/utilities/cancellation).
            let options = CallOptions { deadline: Duration::MAX, ..CallOptions::default() };
            let outcome = link.call(id, method::INITIALIZE, initialize_params(offered), options).await?;
            (outcome, None)
        }
        Link::Http(http) => http.initialize(id, initialize_params(offered), Duration::MAX).await?,
    };
    let result = outcome
        .map_err(|error| LinkError::NotMcp(format!("`initialize` answered error {}: {}", error.code, error.message)))?;
    let chosen = revision(&result).filter(|revision| revision.era() == Era::Legacy);
    let Some(revision) = chosen else {
        let named = result.text("protocolVersion").unwrap_or_default();
        return Err(LinkError::NotMcp(format!("`initialize` chose the unknown revision `{named}`")));
    };
    if let Link::Http(http) = link {
        http.set_session(session, revision);
    }
    link.notify(Notification::new(method::INITIALIZED, Raw::empty_object())).await?;
    if let Link::Http(http) = link {
        // What it asks or tells before the stream is open would be lost.
        let _ = tokio::time::timeout(LISTENING, http.listen()).await;
    }
    let mut inventory = Inventory::default();
    inventory.opened(&result);
    Ok(Handshake { revision, inventory, names_legacy: true })
}

fn initialize_params(offered: &Capabilities) -> Raw {
    let revision = Revision::LATEST_LEGACY;
    Raw::from_value(&serde_json::json!({
        "protocolVersion": revision.as_str(),
        "capabilities": offered.to_raw(revision).to_value(),
        "clientInfo": CLIENT_INFO.to_value(),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_probe_says() {
        let ok = |value: serde_json::Value| Ok(Raw::from_value(&value));
        let error = |code, data: serde_json::Value| Err(RpcError::new(code, "no").with_data(&data));
        let modern = |outcome| discovered(outcome).map(|opened| opened.revision);
        let newest = Some(Revision::LATEST);
        assert_eq!(modern(ok(json!({"supportedVersions": ["2026-07-28", "2025-11-25"]}))), newest);
        assert_eq!(modern(ok(json!({"supportedVersions": ["2099-01-01", "2026-07-28"]}))), newest);
        assert_eq!(modern(ok(json!({"supportedVersions": ["2025-11-25"]}))), None);
        assert_eq!(modern(ok(json!({"protocolVersion": "2025-11-25"}))), None);
        assert_eq!(modern(error(-32_022, json!({"supported": ["2026-07-28"]}))), newest);
        assert_eq!(modern(error(-32_022, json!({"supported": ["2099-01-01"]}))), None);
        assert_eq!(modern(error(-32_020, json!({}))), newest);
        assert_eq!(modern(error(-32_601, json!({}))), None);
        assert_eq!(modern(error(-32_602, json!({}))), None);
    }

    #[test]
    fn what_a_modern_server_says_of_the_legacy_era() {
        let both = |dates: serde_json::Value| {
            discovered(Ok(Raw::from_value(&json!({ "supportedVersions": dates })))).map(|opened| opened.names_legacy)
        };
        assert_eq!(both(json!(["2026-07-28", "2025-11-25"])), Some(true));
        assert_eq!(both(json!(["2026-07-28"])), Some(false));
        assert_eq!(both(json!(["2026-07-28", "1999-01-01"])), Some(false), "an unknown revision");
        let refused = RpcError::new(REVISION_UNSUPPORTED, "no");
        let refused = refused.with_data(&json!({"supported": ["2024-11-05", "2026-07-28"]}));
        assert_eq!(discovered(Err(refused)).map(|opened| opened.names_legacy), Some(true));
    }

    #[test]
    fn what_a_failed_handshake_says_of_the_era() {
        let status = |status| HandshakeError::Link(LinkError::Status { status, body: String::new(), challenge: None });
        for refused in [HandshakeError::Link(LinkError::NotMcp(String::new())), status(400), status(404), status(405)] {
            assert_eq!(refused.beside(), Failure::Refused, "{refused}");
        }
        for silent in [HandshakeError::Ended, HandshakeError::Link(LinkError::Closed), LinkError::Timeout(PROBE).into()]
        {
            assert_eq!(silent.beside(), Failure::Silent, "{silent}");
        }
        for elsewhere in [status(401), status(429), status(503), LinkError::Unreachable(String::new()).into()] {
            assert_eq!(elsewhere.beside(), Failure::Unreached, "{elsewhere}");
        }
    }
}
