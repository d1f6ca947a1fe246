//! The control API of a gateway, spoken by commands: JSON over HTTP, problems of RFC 9457.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode, Uri};
use serde_json::Value;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_login::LoginStatus;
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::{Outline, Rules};
use toolcrib_transport::LinkError;
use toolcrib_transport::http::client::{HttpClient, Response};
use toolcrib_transport::http::events::EventStream;

use super::login::ClientLogin;
use super::{BOUNDS, ClientFlags, GatewayAddress, OPEN, failure, locate};
use crate::home::Environment;

/// The stream of what changes; log lines and calls are not asked for.
const EVENTS: &str = "/events?kinds=state,event";
const STATES: &str = "/events?kinds=state";

/// A gateway whose control API is spoken to.
#[derive(Debug)]
pub(crate) struct Rest {
    http: HttpClient,
    located: GatewayAddress,
    /// Where the control API begins, without a path below it.
    root: String,
    profile: Option<ProfileName>,
    deadline: Duration,
    login: Option<ClientLogin>,
}

// === impl Rest ===

impl Rest {
    /// Finds the gateway. Nothing is sent yet.
    pub(crate) fn open(flags: &ClientFlags, environment: &Environment) -> anyhow::Result<Self> {
        let located = locate::locate(flags, environment)?;
        let uri = &located.uri;
        // What is in front of `/mcp` belongs to anyone who forwards to the gateway.
        let before = uri.path().rsplit_once("/mcp").map_or("", |(before, _)| before);
        let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let root = format!("{}://{authority}{before}/api/v1", uri.scheme_str().unwrap_or("http"));
        let http = located.http_client().context("start the HTTP client")?;
        let login = ClientLogin::find(&located, &http, flags, environment);
        let http = login.as_ref().map_or_else(|| http.clone(), |login| login.proving(&http));
        let profile = located.profile();
        Ok(Self { http, located, root, profile, deadline: flags.timeout, login })
    }

    /// The gateway's place and how we come to it.
    pub(crate) fn located(&self) -> &GatewayAddress {
        &self.located
    }

    /// How the login of this home at the gateway stands, where it is what we come with.
    pub(crate) async fn login_status(&self) -> Result<Option<LoginStatus>, Problem> {
        match &self.login {
            Some(login) => login.status().await,
            None => Ok(None),
        }
    }

    /// The profile that the person named, by a flag or in the URL.
    pub(crate) fn profile(&self) -> Option<&ProfileName> {
        self.profile.as_ref()
    }

    /// The path of an operation that everyone may ask for, in the profile that the person named: who is let in to that one
    /// alone has no other.
    pub(crate) fn in_profile(&self, path: &str) -> String {
        self.profile.as_ref().map_or_else(|| path.to_owned(), |profile| format!("{path}?profile={profile}"))
    }

    /// Whether the person named its address, so that it may be that of another home or machine.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.located.is_named
    }

    /// The gateway's address without a path.
    pub(crate) fn origin(&self) -> &str {
        self.root.trim_end_matches("/api/v1")
    }

    /// Reads something.
    pub(crate) async fn get(&self, path: &str) -> Result<Raw, Problem> {
        self.ask(Method::GET, path, None).await
    }

    /// The gateway's live events, which only admins may read.
    pub(crate) async fn events(&self) -> Result<EventStream, Problem> {
        let opening = async {
            match self.stream(EVENTS).await {
                // An older gateway, which keeps no events.
                Err(problem) if problem.kind == Kind::InvalidParams => self.stream(STATES).await,
                opened => opened,
            }
        };
        let opened = tokio::time::timeout(self.deadline.min(OPEN), opening).await;
        opened.unwrap_or_else(|_| Err(Problem::new(Kind::Timeout, "the gateway did not open an event stream")))
    }

    async fn stream(&self, path: &str) -> Result<EventStream, Problem> {
        let uri: Uri = format!("{}{path}", self.root)
            .parse()
            .map_err(|_| Problem::new(Kind::InvalidParams, format!("`{path}` is not a path")))?;
        match self.http.open_stream(&uri, self.headers().await?, BOUNDS.bytes).await {
            Ok(Some(stream)) => Ok(stream),
            Ok(None) => Err(Problem::new(Kind::BadServer, "this gateway has no event stream")),
            Err(LinkError::Status { status, body, challenge }) => {
                Err(self.refused(status, body.as_bytes(), challenge.as_deref()))
            }
            Err(error) => Err(failure::of_link(error, &self.located)),
        }
    }

    async fn headers(&self) -> Result<HeaderMap, Problem> {
        if let Some(login) = &self.login {
            return login.headers().await;
        }
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.located.token
            && let Ok(mut value) = HeaderValue::try_from(format!("Bearer {}", token.expose()))
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    /// Sends a request; `path` may carry a query.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Raw>) -> Result<Raw, Problem> {
        let uri: Uri = format!("{}{path}", self.root)
            .parse()
            .map_err(|_| Problem::new(Kind::InvalidParams, format!("`{path}` is not a path")))?;
        let bytes = body.map(|body| body.bytes().clone());
        let answer = tokio::time::timeout(self.deadline, self.exchange(method, &uri, bytes)).await;
        answer.unwrap_or_else(|_| {
            let message = format!("the gateway at `{uri}` did not answer within {} s", self.deadline.as_secs_f32());
            Err(Problem::new(Kind::Timeout, message).hint("wait longer with `--timeout 10m`"))
        })
    }

    async fn exchange(&self, method: Method, uri: &Uri, body: Option<Bytes>) -> Result<Raw, Problem> {
        let sent = self.headers().await?;
        let mut response = self.send(&method, uri, &sent, body.clone()).await?;
        if response.status == StatusCode::UNAUTHORIZED
            && let Some(login) = &self.login
        {
            let challenge = response.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
            if login.is_renewed(&sent, challenge).await? {
                response = self.send(&method, uri, &self.headers().await?, body).await?;
            }
        }
        let status = response.status;
        let challenge = response.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = response.body.collect(BOUNDS.bytes).await.map_err(|error| {
            Problem::new(Kind::Unavailable, format!("the response of the gateway at `{uri}` is incomplete: {error}"))
        })?;
        if !status.is_success() {
            return Err(self.refused(status.as_u16(), &body, challenge.as_deref()));
        }
        let is_answer = |raw: &Raw| !matches!(raw.outline(), Outline::Scalar(_));
        Raw::parse(body, Rules::relayed(BOUNDS.depth)).ok().filter(is_answer).ok_or_else(|| {
            Problem::new(Kind::BadServer, format!("the server at `{uri}` is not a Toolcrib control API"))
                .hint("check that the endpoint is a Toolcrib gateway of the same version with `toolcrib version`")
        })
    }

    async fn send(
        &self,
        method: &Method,
        uri: &Uri,
        proof: &HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Response, Problem> {
        let mut headers = proof.clone();
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let response = self.http.send(method.clone(), uri, headers, body.unwrap_or_default()).await;
        response.map_err(|error| failure::of_link(error, &self.located))
    }

    /// The problem that an answer reports.
    fn refused(&self, status: u16, body: &[u8], challenge: Option<&str>) -> Problem {
        let told: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(code) = told["code"].as_str() else {
            let problem = failure::of_status(status, &String::from_utf8_lossy(body), &self.located);
            return failure::with_login_hint(problem, challenge, &self.located);
        };
        let kind = failure::kind(Some(code), Kind::BadServer.row().code);
        let problem = Problem::new(kind, told["detail"].as_str().unwrap_or_default());
        match (kind, told["hint"].as_str()) {
            // The gateway takes us as who we are, and a server wants a login.
            (Kind::Unauthenticated, Some(hint)) if hint.contains("toolcrib login ") => problem.hint(hint),
            (Kind::Unauthenticated, _) if self.located.token.is_none() => {
                let problem = problem.hint(failure::hint_of_token(&self.located));
                failure::with_login_hint(problem, challenge, &self.located)
            }
            // A token that is not accepted is another thing than none, as over MCP.
            (Kind::Unauthenticated, _) => Problem { kind: Kind::Forbidden, ..problem }
                .hint("check `--token-file`, `TOOLCRIB_TOKEN` and the context's token"),
            (_, Some(hint)) => problem.hint(hint),
            (_, None) => problem,
        }
    }
}

/// A text as one part of a path or as a value in a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    // A part that means "here" or "above" is none for anyone who normalises paths.
    match out.as_str() {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_paths_stay_parts() {
        for (text, expected) in [("a-b", "a-b"), ("a/b?c#d e", "a%2Fb%3Fc%23d%20e"), ("..", "%2E%2E"), ("ä", "%C3%A4")]
        {
            assert_eq!(encoded(text), expected);
        }
    }
}
