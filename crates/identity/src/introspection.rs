//! Asks an issuer about an opaque token (RFC 7662).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, StatusCode};
use serde_json::{Map, Value};
use toolcrib_base::Secret;
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient};
use url::form_urlencoded;

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
    let request = question(metadata, &ours.id, &secret, token)?;
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

/// The request about a token.
fn question(metadata: &Metadata, id: &str, secret: &Secret, token: &str) -> Result<Request<Vec<u8>>, String> {
    let url = metadata.introspection.as_deref().ok_or("its metadata has no `introspection_endpoint`")?;
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("token", token).append_pair("token_type_hint", "access_token");
    let mut request = Request::post(url)
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .header(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    if metadata.takes_basic {
        // Both parts are encoded as in a form first (RFC 6749, section 2.3.1).
        let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = STANDARD.encode(format!("{}:{}", part(id), part(secret.expose())));
        let mut value = HeaderValue::try_from(format!("Basic {pair}")).map_err(|_| "the credentials fit no header")?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    } else {
        form.append_pair("client_id", id).append_pair("client_secret", secret.expose());
    }
    request.body(form.finish().into_bytes()).map_err(|_| "its introspection endpoint is no URL".to_owned())
}
