//! A client of the settings acts in a person's name: with the person's access token (RFC 8693), or with the statement of an
//! issuer about the person (RFC 7523; Identity Assertion Authorization Grant).

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{ProfileName, Timestamp, random};
use toolcrib_identity::{KnownToken, PresentedToken, ProveTokens, Resource};

use super::ProvenRequest;
use crate::error::{OAuthError, OAuthErrorCode};
use crate::request::profile_of;
use crate::run::RunOwner;
use crate::secrets::hash;
use crate::server::AuthorizationServer;
use crate::session::{LiveSession, OwnGrant, Person, SessionDetails};

pub(crate) const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
pub(crate) const ASSERTION: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// How long a statement is remembered at most, in milliseconds: none counts for longer.
const STATEMENT_LIFE: i64 = 3_600_000;

/// Someone in whose name a client acts.
struct Subject {
    known: Arc<KnownToken>,
    resource: String,
    scopes: Vec<String>,
    actor: Option<Value>,
    /// The run with which it ends.
    run: Option<String>,
}

impl AuthorizationServer {
    /// An access token of a person becomes one of the client's, for the same person.
    pub(super) async fn exchange(&self, request: &ProvenRequest) -> Result<Value, OAuthError> {
        let ProvenRequest { client, parameters } = request;
        if !client.exchanges {
            return Err(refused());
        }
        if parameters.needed("subject_token_type")? != ACCESS_TOKEN {
            return Err(OAuthError::request("only access tokens are exchanged"));
        }
        if parameters.get("requested_token_type").is_some_and(|kind| kind != ACCESS_TOKEN) {
            return Err(OAuthError::request("only access tokens are given"));
        }
        if parameters.get("actor_token").is_some() {
            return Err(OAuthError::request("the actor is the client: `actor_token` is not supported"));
        }
        let named = parameters.get("resource").or(parameters.get("audience"));
        let resource = self.resource(named)?;
        let token = parameters.needed("subject_token")?;
        let known = self.subject(token, &resource).await?;
        let mut actor = json!({ "sub": client.id });
        // Who acted before stands inside (RFC 8693, section 4.1).
        if let Some(before) = known.identity.session.as_deref().and_then(|id| self.inner.sessions.get(id))
            && let Some(before) = &before.details.actor
        {
            actor["act"] = before.clone();
        }
        let scopes = self.scopes(parameters.get("scope"))?;
        // No more than the token that was shown has.
        let scopes = scopes.into_iter().filter(|scope| known.scopes.iter().any(|had| **had == **scope)).collect();
        let run = parameters.get("run").map(|run| self.run_of(run, &known, &resource)).transpose()?;
        let subject = Subject { known, resource, scopes, actor: Some(actor), run };
        let mut answer = self.act_for(request, subject).await?;
        answer["issued_token_type"] = ACCESS_TOKEN.into();
        Ok(answer)
    }

    /// The statement of an issuer that one of its users lets the client in here.
    pub(super) async fn assert(&self, request: &ProvenRequest) -> Result<Value, OAuthError> {
        let ProvenRequest { client, parameters } = request;
        if !client.exchanges {
            return Err(refused());
        }
        let origin = &self.inner.settings.origin;
        let checked = self.inner.statements.check(parameters.needed("assertion")?, origin).await;
        let statement = checked.map_err(|why| OAuthError::grant(format!("the assertion does not count: {why}")))?;
        if !self
            .inner
            .settings
            .assertions
            .iter()
            .any(|name| Some(&**name) == statement.known.identity.issuer.as_deref())
        {
            return Err(OAuthError::grant("assertions of this issuer are not accepted"));
        }
        if statement.known.identity.client.as_deref() != Some(client.id.as_str()) {
            return Err(OAuthError::grant("the assertion is for another client"));
        }
        let now = self.inner.clock.now();
        if statement.known.expires.0 > now.0.saturating_add(STATEMENT_LIFE) {
            return Err(OAuthError::grant("the assertion counts for too long"));
        }
        let named = parameters.get("resource").map(str::to_owned).or(statement.resource);
        let resource = self.resource(named.as_deref())?;
        let scopes = self.scopes(parameters.get("scope").or(statement.scope.as_deref()))?;
        let issuer = statement.known.identity.issuer.as_deref().unwrap_or_default();
        let (key, until) = (hash(&format!("{issuer}\0{}", statement.id)), statement.known.expires);
        if !self.run(move |inner| inner.rows.use_assertion(&key, until)).await?? {
            return Err(OAuthError::grant("the assertion was used before"));
        }
        let subject = Subject { known: statement.known, resource, scopes, actor: None, run: None };
        self.act_for(request, subject).await
    }

    /// Whom a token proves where the new one is to count.
    async fn subject(&self, token: &str, resource: &str) -> Result<Arc<KnownToken>, OAuthError> {
        let origin = self.inner.settings.origin.as_str();
        let profile = self.profile_at(resource)?;
        let resource = Resource { origin, profile: &profile };
        let (method, path) = ("POST", "/oauth/token");
        let presented = PresentedToken { token, is_dpop: false, proof: None, method, path, resource };
        self.prove(presented).await.map_err(|refusal| OAuthError::grant(format!("`subject_token`: {refusal}")))
    }

    /// The run that a token is to be bound to: one that is under way in the name of the person, at this resource. Whether
    /// there is one of somebody else is not to be learnt.
    fn run_of(&self, run: &str, known: &KnownToken, resource: &str) -> Result<String, OAuthError> {
        let owner = RunOwner { principal: known.id.clone(), profile: self.profile_at(resource)? };
        match self.inner.runs.has(run, &owner) {
            true => Ok(run.to_owned()),
            false => Err(no_run()),
        }
    }

    fn profile_at(&self, resource: &str) -> Result<ProfileName, OAuthError> {
        let path = resource.strip_prefix(self.inner.settings.origin.as_str()).unwrap_or_default();
        let default = || ProfileName::new("default").map_err(|error| OAuthError::fault(&error));
        profile_of(path).map_or_else(default, Ok)
    }

    async fn act_for(&self, request: &ProvenRequest, subject: Subject) -> Result<Value, OAuthError> {
        let Subject { known, resource, scopes, actor, run } = subject;
        let mut person = Person::of_known(&known);
        if person.issuer.is_none() || person.issuer.as_deref() == Some(super::own::OWN) {
            // What the owner or the settings granted is in the session of the token.
            person.granted = known.grants.first().map(OwnGrant::new);
        } else if known.grants.is_empty() {
            return Err(OAuthError::grant("nothing here is granted to this person"));
        }
        let now = self.inner.clock.now();
        let details = SessionDetails {
            person,
            client: request.client.id.clone(),
            client_name: request.client.name.clone(),
            redirect: None,
            resource,
            scopes,
            begun_at: now.0,
            actor,
            parent: known.identity.session.as_deref().map(str::to_owned),
            run,
        };
        let mut record = details.record(&random::hex_128(), None, now);
        // It ends with the token that it was given for.
        record.expires_at = Timestamp(record.expires_at.0.min(known.expires.0));
        let method = if details.actor.is_some() { "oauth/exchange" } else { "oauth/assertion" };
        let session = Arc::new(LiveSession::new(&record, details));
        match session.details.run.is_some() {
            true => self.keep_for_run(session).await,
            false => self.keep(method, session, record).await,
        }
    }

    /// Has a session count until its run ends, and gives its access token.
    async fn keep_for_run(&self, session: Arc<LiveSession>) -> Result<Value, OAuthError> {
        let slot = self.inner.place().await?;
        let now = self.inner.clock.now();
        self.inner.sessions.forget_expired(now);
        let answer = self.inner.answer(&session, None, now);
        if !self.inner.bind_to_run(session.details.run.as_deref().unwrap_or_default(), &session) {
            return Err(no_run());
        }
        self.inner.record_given(slot, "oauth/run", &session);
        Ok(answer)
    }
}

fn no_run() -> OAuthError {
    OAuthError::grant("no such run of this person is under way at this resource")
}

fn refused() -> OAuthError {
    OAuthError::new(OAuthErrorCode::UnauthorizedClient, "the client may not act in the name of others")
}
