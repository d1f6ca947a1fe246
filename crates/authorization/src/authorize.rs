//! A request for authorization (RFC 6749, section 4.1.1): what a client asks for, before anyone is asked.

use toolcrib_base::{Kind, Problem, Secret};

use crate::client::{Client, ClientSource};
use crate::error::{OAuthError, OAuthErrorCode};
use crate::parameters::Parameters;
use crate::redirect::Redirect;
use crate::request::{AuthorizationRequest, profile_of};
use crate::server::AuthorizationServer;

/// The longest `state`, in bytes.
const STATE_BYTES: usize = 2_048;
/// The digits of a SHA-256 in base64url.
const CHALLENGE: usize = 43;

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentPrompt {
    /// What the client calls itself.
    pub client_name: String,
    /// `client_id`.
    pub client: String,
    /// From where it is known.
    pub source: ClientSource,
    /// Where the answer goes.
    pub redirect: String,
    /// The scheme of the program that takes the answer, where it does not go to a site or a port of this machine.
    pub program: Option<String>,
    /// For which URL of this gateway.
    pub resource: String,
    /// The issuers at which the person can prove who it is; without one the owner approves.
    pub issuers: Vec<String>,
    /// What the form of the page gives back; it counts only in the browser that gets it.
    pub form: Secret,
}

/// Why no one is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorizeRefusal {
    /// The client or its address is not proven: only the person learns of it.
    Page(Problem),
    /// The client learns of it there.
    Redirect(String),
}

// === impl AuthorizationServer ===

impl AuthorizationServer {
    /// Reads a request; `browser` is the secret of the browser that will be asked.
    ///
    /// # Errors
    /// The client is not known, or asks for what it does not get.
    pub async fn authorize(&self, query: &str, browser: &Secret) -> Result<ConsentPrompt, AuthorizeRefusal> {
        let page = |error: &OAuthError| AuthorizeRefusal::Page(problem(error));
        let parameters = Parameters::read(query.as_bytes()).map_err(|error| page(&error))?;
        let id = parameters.needed("client_id").map_err(|error| page(&error))?;
        let client = self.client(id).await.map_err(|error| page(&error))?;
        let redirect = client.redirect(parameters.get("redirect_uri")).ok_or_else(|| {
            page(&OAuthError::request("`redirect_uri` is none of the addresses that the client has named"))
        })?;
        let request = self.request(&parameters, &client, &redirect);
        let request = request.map_err(|error| {
            let state = parameters.get("state").filter(|state| state.len() <= STATE_BYTES);
            AuthorizeRefusal::Redirect(self.error_answer(&redirect, state, &error))
        })?;
        Ok(ConsentPrompt {
            client_name: client.name.clone(),
            client: client.id.clone(),
            source: client.source,
            redirect: request.redirect.clone(),
            program: redirect.program().map(str::to_owned),
            resource: request.resource.clone(),
            issuers: self.inner.settings.sign_in.clone(),
            form: self.consent_form(&request, browser),
        })
    }

    fn request(
        &self,
        parameters: &Parameters,
        client: &Client,
        redirect: &Redirect,
    ) -> Result<AuthorizationRequest, OAuthError> {
        match parameters.needed("response_type")? {
            "code" => {}
            _ => {
                let code = OAuthErrorCode::UnsupportedResponseType;
                return Err(OAuthError::new(code, "only `response_type=code` is supported"));
            }
        }
        if parameters.get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(OAuthError::request("only `response_mode=query` is supported"));
        }
        if ["request", "request_uri"].iter().any(|name| parameters.get(name).is_some()) {
            return Err(OAuthError::request("requests in signed objects are not supported"));
        }
        let challenge = parameters.get("code_challenge").filter(|challenge| {
            let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            challenge.len() == CHALLENGE && challenge.bytes().all(is_digit)
        });
        let challenge = challenge.ok_or_else(|| OAuthError::request("PKCE is required: `code_challenge` with S256"))?;
        if parameters.get("code_challenge_method") != Some("S256") {
            return Err(OAuthError::request("PKCE is required: `code_challenge_method` must be `S256`"));
        }
        let state = parameters.get("state").map(str::to_owned);
        if state.as_ref().is_some_and(|state| state.len() > STATE_BYTES) {
            return Err(OAuthError::request("`state` is too long"));
        }
        Ok(AuthorizationRequest {
            client: client.id.clone(),
            redirect: redirect.as_str().to_owned(),
            is_named: parameters.get("redirect_uri").is_some(),
            state,
            challenge: challenge.to_owned(),
            resource: self.resource(parameters.get("resource"))?,
            scopes: self.scopes(parameters.get("scope"))?,
        })
    }

    /// What a token is for (RFC 8707): the gateway as a whole, or a profile. Whether there is such a profile is not said.
    pub(crate) fn resource(&self, named: Option<&str>) -> Result<String, OAuthError> {
        let origin = &self.inner.settings.origin;
        let Some(named) = named else { return Ok(origin.clone()) };
        let path = named.strip_suffix('/').unwrap_or(named).strip_prefix(origin.as_str());
        let is_ours = path.is_some_and(|path| path.is_empty() || profile_of(path).is_some());
        match is_ours {
            true => Ok(named.strip_suffix('/').unwrap_or(named).to_owned()),
            false => Err(OAuthError::new(OAuthErrorCode::InvalidTarget, "`resource` is no URL of this gateway")),
        }
    }

    /// What is granted of the scopes that are asked for: all that there are where none is named.
    pub(crate) fn scopes(&self, named: Option<&str>) -> Result<Vec<String>, OAuthError> {
        let ours = &self.inner.settings.scopes;
        let Some(named) = named else { return Ok(ours.iter().map(ToString::to_string).collect()) };
        let asked: Vec<&str> = named.split(' ').filter(|scope| !scope.is_empty()).collect();
        let ours = ours.iter().map(ToString::to_string);
        let granted: Vec<String> = ours.filter(|scope| asked.contains(&scope.as_str())).collect();
        if granted.is_empty() && !self.inner.settings.scopes.is_empty() {
            return Err(OAuthError::new(OAuthErrorCode::InvalidScope, "none of the scopes is known here"));
        }
        Ok(granted)
    }

    /// An answer that says why there is no code.
    pub(crate) fn error_answer(&self, redirect: &Redirect, state: Option<&str>, error: &OAuthError) -> String {
        let origin = self.inner.settings.origin.as_str();
        let mut parameters = vec![("error", error.code.as_str()), ("error_description", error.description.as_str())];
        parameters.extend(state.map(|state| ("state", state)));
        // RFC 9207: whose answer it is, also when it is an error.
        parameters.push(("iss", origin));
        redirect.with(&parameters)
    }
}

/// An error for the person in front of the browser.
pub(crate) fn problem(error: &OAuthError) -> Problem {
    let (kind, hint) = match error.code {
        OAuthErrorCode::ServerError => (Kind::Internal, "Ask the gateway's administrator to read its log."),
        OAuthErrorCode::TemporarilyUnavailable => (Kind::Busy, "Try again in ten minutes."),
        _ => {
            (Kind::InvalidRequest, "Close this page, and connect again from the client. Tell its maker if it stays so.")
        }
    };
    Problem::new(kind, error.description.clone()).hint(hint)
}
