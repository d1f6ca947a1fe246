//! How the server is spoken to: the headers that every message carries, put together once.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_protocol::{Request, Revision, header};

/// What was found out about the server.
#[derive(Debug)]
pub(super) struct Mode {
    /// All headers of a POST but those that mirror its body.
    pub(super) headers: HeaderMap,
    pub(super) has_session: bool,
    modern: Option<Revision>,
}

impl Mode {
    /// A server that shook hands.
    pub(super) fn legacy(base: &HeaderMap, session: Option<HeaderValue>, revision: Revision) -> Self {
        let mut headers = base.clone();
        let has_session = session.is_some();
        if let Some(session) = session {
            headers.insert(HeaderName::from_static(header::SESSION_ID), session);
        }
        if revision.has_version_header() {
            let version = HeaderValue::from_static(revision.as_str());
            headers.insert(HeaderName::from_static(header::PROTOCOL_VERSION), version);
        }
        Self { headers, has_session, modern: None }
    }

    /// A server without a handshake.
    pub(super) fn modern(base: &HeaderMap, revision: Revision) -> Self {
        Self { headers: base.clone(), has_session: false, modern: Some(revision) }
    }

    pub(super) fn is_modern(&self) -> bool {
        self.modern.is_some()
    }

    /// The headers that mirror this body; a legacy server gets none.
    pub(super) fn mirrors(&self, request: &Request) -> HeaderMap {
        self.modern.map(|revision| header::standard(request, revision.as_str())).unwrap_or_default()
    }
}
