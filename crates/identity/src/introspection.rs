//! Asks an issuer about an opaque token (RFC 7662).

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value};
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient};

use crate::form::{self, Sender};
use crate::issuer::IntrospectionClient;
use crate::metadata::Metadata;

/// What the issuer says of a token: its claims if it is active. The text of an error says why it did not say anything.
pub(crate) async fn ask(
    client: &CheckedClient,
    policy: AddressPolicy,
    metadata: &Metadata,
    ours: &IntrospectionClient,
    token: &str,
) -> Result<Option<Map<String, Value>>, String> {
    let reading = Arc::clone(&ours.secret);
    let secret = tokio::task::spawn_blocking(move || reading.read()).await.map_err(|error| error.to_string())??;
    let url = metadata.introspection.as_deref().ok_or("its metadata has no `introspection_endpoint`")?;
    let sender = Sender { id: &ours.id, secret: Some(&secret), takes_basic: metadata.introspection_takes_basic };
    let fields = [("token", token), ("token_type_hint", "access_token")];
    let request = form::request(url, &sender, &fields)?;
    let response = client.send(policy, request).await.map_err(|error| error.to_string())?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err("it refuses the credentials in `introspect`".to_owned());
        }
        status => return Err(format!("introspection answers with status {}", status.as_u16())),
    }
    let mut answer: Map<String, Value> =
        serde_json::from_slice(response.body()).map_err(|_| "introspection answers with something else than JSON")?;
    match answer.remove("active") {
        Some(Value::Bool(true)) => Ok(Some(answer)),
        Some(Value::Bool(false)) => Ok(None),
        _ => Err("introspection answers without `active`".to_owned()),
    }
}
