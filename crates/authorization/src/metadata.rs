//! What the server says of itself.

use serde_json::{Value, json};
use toolcrib_auth::jose::ALGORITHMS;

use crate::server::AuthorizationServer;

impl AuthorizationServer {
    /// The metadata (RFC 8414, section 2).
    pub fn metadata(&self) -> Value {
        let settings = &self.inner.settings;
        let origin = &settings.origin;
        let methods = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"];
        let mut metadata = json!({
            "issuer": origin,
            "authorization_endpoint": format!("{origin}/oauth/authorize"),
            "token_endpoint": format!("{origin}/oauth/token"),
            "revocation_endpoint": format!("{origin}/oauth/revoke"),
            "jwks_uri": format!("{origin}/oauth/jwks"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": self.grant_types(),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": methods,
            "token_endpoint_auth_signing_alg_values_supported": ALGORITHMS,
            "revocation_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_signing_alg_values_supported": ALGORITHMS,
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
        });
        if !settings.scopes.is_empty() {
            metadata["scopes_supported"] = json!(settings.scopes);
        }
        if settings.registration {
            metadata["registration_endpoint"] = format!("{origin}/oauth/register").into();
        }
        metadata
    }

    /// The public keys (RFC 7517, section 5).
    pub fn key_set(&self) -> Value {
        self.inner.keys.published()
    }
}
