//! Short tokens that are bound to a run: what a run starts calls back with one of these, never with its caller's own.

use std::sync::Arc;

use toolcrib_base::{Identity, Kind, PrincipalId, Problem, Secret, Timestamp};
use toolcrib_identity::TokenGrant;

use crate::error::OAuthError;
use crate::server::AuthorizationServer;
use crate::session::{ACCESS_LIFE, LiveSession, OwnGrant, Person, SessionDetails};

/// What a token of a run is for.
#[derive(Debug, Clone)]
pub struct RunTokenRequest<'a> {
    /// The run's id.
    pub run: &'a str,
    /// In whose name it runs.
    pub principal: &'a PrincipalId,
    /// What was proven about that principal.
    pub identity: &'a Identity,
    /// What it may do: at most what the principal may.
    pub grant: TokenGrant,
    /// For which URL of this gateway.
    pub resource: &'a str,
    /// How long it counts, in milliseconds; at most as long as an access token.
    pub life: i64,
}

impl AuthorizationServer {
    /// A token that counts until it ends, its run ends, or the session ends in which the run was started. One of a run at a
    /// time: an earlier one ends.
    ///
    /// # Errors
    /// The URL is none of this gateway's; the state cannot be written.
    pub async fn run_token(&self, request: RunTokenRequest<'_>) -> Result<Secret, Problem> {
        let RunTokenRequest { run, principal, identity, grant, resource, life } = request;
        let wrong = |error: OAuthError| Problem::new(Kind::InvalidParams, error.description);
        let now = self.inner.clock.now();
        let details = SessionDetails {
            person: Person {
                principal: principal.as_str().to_owned(),
                issuer: identity.issuer.as_deref().map(str::to_owned),
                tenant: identity.tenant.as_deref().map(str::to_owned),
                groups: identity.groups.iter().map(ToString::to_string).collect(),
                granted: Some(OwnGrant::new(&grant)),
            },
            client: format!("run:{run}"),
            client_name: format!("run {run}"),
            redirect: None,
            resource: self.resource(Some(resource)).map_err(wrong)?,
            scopes: self.scopes(None).map_err(wrong)?,
            begun_at: now.0,
            actor: None,
            parent: identity.session.as_deref().map(str::to_owned),
        };
        let mut record = details.record(&session_of(run), None, now);
        record.expires_at = Timestamp(now.0.saturating_add(life.clamp(0, ACCESS_LIFE)));
        let session = Arc::new(LiveSession::new(&record, details));
        let answer = self.keep(session, record).await.map_err(wrong)?;
        Ok(Secret::new(answer["access_token"].as_str().unwrap_or_default()))
    }

    /// Ends the token of a run.
    ///
    /// # Errors
    /// The state cannot be written.
    pub async fn end_run(&self, run: &str) -> Result<(), Problem> {
        self.end_session(&session_of(run)).await.map(drop)
    }
}

fn session_of(run: &str) -> String {
    format!("run-{run}")
}
