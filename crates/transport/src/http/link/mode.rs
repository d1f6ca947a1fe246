//! How the server is spoken to: the headers that every message carries, put together and rendered once.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_protocol::{Request, Revision, header};

use crate::http::client::{Endpoint, HttpClient, RequestTemplate};

/// What was found out about the server.
#[derive(Debug)]
pub(super) struct Mode {
    /// A POST with all its headers but those that mirror its body.
    template: RequestTemplate,
    /// The same without what proves whose connection it is, where that differs.
    unproven: Option<RequestTemplate>,
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
        Self { template: opening.with_headers(client, headers), unproven: None, has_session, modern: None }
    }

    /// A server without a handshake. `endpoint` is where `opening` leads.
    pub(super) fn modern(
        client: &HttpClient,
        endpoint: &Endpoint,
        opening: &RequestTemplate,
        revision: Revision,
    ) -> Self {
        let template = opening.with_headers(client, opening.headers().clone());
        let unproven =
            (!endpoint.proof.is_empty()).then(|| opening.with_headers(client, endpoint.unproven_post_headers()));
        Self { template, unproven, has_session: false, modern: Some(revision) }
    }

    /// The POST of a message; without what proves whose connection it is where the message `proves` all by itself.
    pub(super) fn template(&self, proves: bool) -> &RequestTemplate {
        self.unproven.as_ref().filter(|_| proves).unwrap_or(&self.template)
    }

    pub(super) fn is_modern(&self) -> bool {
        self.modern.is_some()
    }

    /// The headers that mirror this body; a legacy server gets none.
    pub(super) fn mirrors(&self, request: &Request) -> HeaderMap {
        self.modern.map(|revision| header::standard(request, revision.as_str())).unwrap_or_default()
    }
}
