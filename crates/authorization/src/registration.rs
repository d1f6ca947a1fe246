//! Dynamic client registration (RFC 7591), for clients that know nothing better. Off unless the settings switch it on.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use toolcrib_base::{Timestamp, random};

use crate::client::{Client, ClientProof, ClientRecord, ClientSource};
use crate::error::{OAuthError, OAuthErrorCode};
use crate::secrets::{hash, random_text};
use crate::server::AuthorizationServer;

/// How long a client is kept that gets no session, in milliseconds.
const UNUSED_LIFE: i64 = 24 * 3_600_000;

impl AuthorizationServer {
    /// Whether clients may register themselves.
    pub fn registers(&self) -> bool {
        self.inner.settings.registration
    }

    /// Registers a client (RFC 7591, section 3).
    ///
    /// # Errors
    /// It describes itself wrongly, or there are too many.
    pub async fn register(&self, body: &[u8]) -> Result<Value, OAuthError> {
        let wrong = |why: &str| OAuthError::new(OAuthErrorCode::InvalidClientMetadata, why);
        let asked: Map<String, Value> =
            serde_json::from_slice(body).map_err(|_| wrong("the body is no JSON object"))?;
        let text = |name: &str| asked.get(name).and_then(Value::as_str);
        let method = text("token_endpoint_auth_method").unwrap_or("none");
        let secret = match method {
            "none" => None,
            "client_secret_basic" | "client_secret_post" => Some(random_text()),
            _ => return Err(wrong("`token_endpoint_auth_method` is not supported here")),
        };
        let id = format!("tcc_{}", random::hex_128());
        let client = Client::of_metadata(&id, &asked, ClientSource::Registration, ClientProof::Public)?;
        // What is kept is what was checked, so that it has a bound.
        let metadata = json!({
            "client_name": client.name,
            "redirect_uris": client.redirects.iter().map(crate::redirect::Redirect::as_str).collect::<Vec<_>>(),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        });
        let Value::Object(metadata) = metadata else { return Err(wrong("the client cannot be kept")) };
        let mut answer = metadata.clone();
        let now = self.inner.clock.now();
        answer.insert("client_id".to_owned(), id.as_str().into());
        answer.insert("client_id_issued_at".to_owned(), (now.0 / 1_000).into());
        if let Some(secret) = &secret {
            answer.insert("client_secret".to_owned(), secret.as_str().into());
            answer.insert("client_secret_expires_at".to_owned(), 0.into());
        }
        let kept = ClientRecord { metadata, secret: secret.map(|secret| URL_SAFE_NO_PAD.encode(hash(&secret))) };
        let kept = serde_json::to_string(&kept).map_err(|error| OAuthError::fault(&error))?;
        let expires = Timestamp(now.0.saturating_add(UNUSED_LIFE));
        self.run(move |inner| inner.rows.put_client(&id, &kept, expires)).await??;
        Ok(Value::Object(answer))
    }
}
