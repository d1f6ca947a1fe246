//! The owner's word, where there is no provider: the page shows a code, and the owner approves it by a command. Who reads
//! the code on a page and runs the command has both; a link from a stranger shows its code to no one else.

use std::sync::PoisonError;

use toolcrib_base::{Kind, Problem, ProfileName, Role, Timestamp};
use toolcrib_identity::TokenGrant;
use toolcrib_store::SecretHash;

use crate::approval_code::hash_of;
use crate::request::{ConsentedRequest, DENIED, profile_of};
use crate::server::AuthorizationServer;
use crate::session::OwnGrant;

/// What a code would approve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDescription {
    /// What the client calls itself.
    pub client_name: String,
    /// `client_id`.
    pub client: String,
    /// Where the answer goes.
    pub redirect: String,
    /// For which URL of this gateway.
    pub resource: String,
    /// The profile of that URL; `None` for the gateway as a whole.
    pub profile: Option<ProfileName>,
    /// From which address it was asked for.
    pub address: String,
    /// Until when it can be approved.
    pub expires_at: Timestamp,
}

/// What the owner grants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalGrant {
    /// The role; a member's where it is `None`.
    pub role: Option<Role>,
    /// The profiles; that of the URL where there are none.
    pub profiles: Vec<ProfileName>,
}

impl AuthorizationServer {
    /// What a code would approve.
    ///
    /// # Errors
    /// There is no such code, or too many were tried.
    pub async fn describe(&self, code: &str) -> Result<ApprovalDescription, Problem> {
        self.waiting(code).await.map(|(_, description)| description)
    }

    /// Approves the request of a code.
    ///
    /// # Errors
    /// There is no such code, or too many were tried; the URL names no profile, and neither does the grant.
    pub async fn approve(&self, code: &str, grant: ApprovalGrant) -> Result<ApprovalDescription, Problem> {
        let (hash, description) = self.waiting(code).await?;
        let mut profiles = grant.profiles;
        if profiles.is_empty() {
            profiles.extend(description.profile.clone());
        }
        if profiles.is_empty() {
            return Err(Problem::new(
                Kind::InvalidParams,
                "the client asks for the gateway as a whole, so name profiles",
            )
            .hint("Run the command again with `--allow PROFILE`."));
        }
        let grant = OwnGrant::new(&TokenGrant { role: grant.role.unwrap_or(Role::Member), profiles });
        self.decide(hash, serde_json::to_string(&grant).expect("texts become JSON")).await?;
        tracing::info!(client = description.client, role = grant.role, "the owner approved a client");
        Ok(description)
    }

    /// Refuses the request of a code.
    ///
    /// # Errors
    /// There is no such code, or too many were tried.
    pub async fn deny(&self, code: &str) -> Result<ApprovalDescription, Problem> {
        let (hash, description) = self.waiting(code).await?;
        self.decide(hash, DENIED.to_owned()).await?;
        Ok(description)
    }

    async fn decide(&self, code: SecretHash, decision: String) -> Result<(), Problem> {
        let decided = self.run(move |inner| inner.rows.decide_request(&code, &decision)).await;
        match decided.map_err(|error| Problem::new(Kind::Internal, error.description))?? {
            true => Ok(()),
            false => Err(unknown()),
        }
    }

    /// The request that waits for a code.
    async fn waiting(&self, code: &str) -> Result<(SecretHash, ApprovalDescription), Problem> {
        let now = self.inner.clock.now();
        self.inner.tries.lock().unwrap_or_else(PoisonError::into_inner).check(now)?;
        let hash = hash_of(code);
        let found = self.run(move |inner| inner.rows.request_of_code(&hash)).await;
        let found = found.map_err(|error| Problem::new(Kind::Internal, error.description))??;
        let waiting = found.filter(|found| found.decision.is_none());
        let read = waiting.and_then(|found| {
            let consented: ConsentedRequest = serde_json::from_str(&found.details).ok()?;
            Some((found, consented))
        });
        let Some((found, consented)) = read.filter(|_| self.inner.settings.sign_in.is_empty()) else {
            self.inner.tries.lock().unwrap_or_else(PoisonError::into_inner).note();
            return Err(unknown());
        };
        let ConsentedRequest { request, client_name, .. } = consented;
        let path = request.resource.strip_prefix(self.inner.settings.origin.as_str());
        let description = ApprovalDescription {
            profile: path.and_then(profile_of),
            client_name,
            client: request.client,
            redirect: request.redirect,
            resource: request.resource,
            address: found.address,
            expires_at: found.expires_at,
        };
        Ok((hash, description))
    }
}

fn unknown() -> Problem {
    Problem::new(Kind::NotFound, "no client waits for this code")
        .hint("Read the code again from the page, or connect again from the client: a code is valid for ten minutes.")
}
