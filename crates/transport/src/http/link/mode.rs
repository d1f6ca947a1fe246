//! How the server is spoken to: the headers that every message carries, put together once.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_protocol::{Raw, Revision, header, method};

use crate::http::client::joined;

/// What was found out about the server.
#[derive(Debug)]
pub(super) struct Mode {
    /// All headers of a POST but those that mirror its body.
    pub(super) headers: HeaderMap,
    pub(super) is_modern: bool,
    pub(super) has_session: bool,
}

/// The headers that mirror one body.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    method: Option<HeaderValue>,
    name: Option<HeaderValue>,
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
            version(&mut headers, revision);
        }
        Self { headers, is_modern: false, has_session }
    }

    /// A server without a handshake.
    pub(super) fn modern(base: &HeaderMap, revision: Revision) -> Self {
        let mut headers = base.clone();
        version(&mut headers, revision);
        Self { headers, is_modern: true, has_session: false }
    }

    /// What the headers of a message must repeat of its body (2026-07-28, SEP-2243).
    pub(super) fn mirrors(&self, method: &str, params: &Raw) -> Mirrors {
        if !self.is_modern {
            return Mirrors::default();
        }
        let name = method::named_by(method).and_then(|parameter| params.text(parameter));
        Mirrors { method: encoded(method), name: name.as_deref().and_then(encoded) }
    }
}

impl Mirrors {
    /// All headers of the message; `more` are those of its call.
    pub(super) fn on(&self, mode: &Mode, more: &HeaderMap) -> HeaderMap {
        let mut all = joined(&mode.headers, more);
        if let Some(method) = &self.method {
            all.insert(HeaderName::from_static(header::METHOD), method.clone());
        }
        if let Some(name) = &self.name {
            all.insert(HeaderName::from_static(header::NAME), name.clone());
        }
        all
    }
}

fn version(headers: &mut HeaderMap, revision: Revision) {
    let name = HeaderName::from_static(header::PROTOCOL_VERSION);
    headers.insert(name, HeaderValue::from_static(revision.as_str()));
}

/// An encoded value is visible ASCII, so it is there.
fn encoded(value: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(header::encode_value(value)).ok()
}
