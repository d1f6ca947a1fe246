//! A client acts in its own name (RFC 6749, section 4.4): one that the settings grant something.

use std::sync::Arc;

use serde_json::Value;
use toolcrib_identity::encoded;

use super::ProvenRequest;
use crate::error::{OAuthError, OAuthErrorCode};
use crate::secrets::hash;
use crate::server::AuthorizationServer;
use crate::session::{LiveSession, OwnGrant, Person, SessionDetails};

/// The issuer of such principals: `service:own/<client>`. No other issuer may have this name.
pub const OWN: &str = "own";

impl AuthorizationServer {
    pub(super) async fn credentials(&self, request: &ProvenRequest) -> Result<Value, OAuthError> {
        let ProvenRequest { client, parameters } = request;
        let refused = || OAuthError::new(OAuthErrorCode::UnauthorizedClient, "nothing is granted to the client itself");
        let grant = client.grant.as_ref().ok_or_else(refused)?;
        let (resource, scopes) = (self.resource(parameters.get("resource"))?, self.scopes(parameters.get("scope"))?);
        let now = self.inner.clock.now();
        let person = Person {
            principal: format!("service:{OWN}/{}", encoded(&client.id)),
            issuer: Some(OWN.to_owned()),
            tenant: None,
            groups: Vec::new(),
            granted: Some(OwnGrant::new(grant)),
        };
        // One session for the same thing, however often it is asked for.
        let id = hash(&format!("{}\0{resource}\0{}", client.id, scopes.join(" ")));
        let id: String = id.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let details = SessionDetails {
            person,
            client: client.id.clone(),
            client_name: client.name.clone(),
            redirect: None,
            resource,
            scopes,
            begun_at: now.0,
            actor: None,
            parent: None,
            run: None,
        };
        let record = details.record(&id, None, now);
        let session = Arc::new(LiveSession::new(&record, details));
        self.keep("oauth/client", session, record).await
    }
}
