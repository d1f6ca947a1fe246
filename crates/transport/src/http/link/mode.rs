//! How the server is spoken to: the headers that every message carries, put together and rendered once.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_protocol::{Request, Revision, header};

use crate::http::client::{HttpClient, RequestTemplate};

/// What was found out about the server.
#[derive(Debug)]
pub(super) struct Mode {
    /// A POST with all its headers but those that mirror its body.
    pub(super) template: RequestTemplate,
    pub(super) has_session: bool,
    modern: Option<Revision>,
}

impl Mode {
    /// A server that shook hands. `opening` is a POST before that.
    pub(super) fn legacy(
        client: &HttpClient,
        opening: &RequestTemplate,
        session: Option<HeaderValue>,
        revision: Revision,
    ) -> Self {
        let mut headers = opening.headers().clone();
        let has_session = session.is_some();
        if let Some(session) = session {
            headers.insert(HeaderName::from_static(header::SESSION_ID), session);
        }
        if revision.has_version_header() {
            let version = HeaderValue::from_static(revision.as_str());
            headers.insert(HeaderName::from_static(header::PROTOCOL_VERSION), version);
        }
        Self { template: opening.with_headers(client, headers), has_session, modern: None }
    }

    /// A server without a handshake.
    pub(super) fn modern(client: &HttpClient, opening: &RequestTemplate, revision: Revision) -> Self {
        let template = opening.with_headers(client, opening.headers().clone());
        Self { template, has_session: false, modern: Some(revision) }
    }

    pub(super) fn is_modern(&self) -> bool {
        self.modern.is_some()
    }

    /// The headers that mirror this body; a legacy server gets none.
    pub(super) fn mirrors(&self, request: &Request) -> HeaderMap {
        self.modern.map(|revision| header::standard(request, revision.as_str())).unwrap_or_default()
    }
}
