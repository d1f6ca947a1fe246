//! How requests reach models: the HTTP client of the process, with the keys and headers of the definitions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use toolcrib_catalog::{ModelDefinition, SecretRef};
use toolcrib_flow::agent::{ModelBody, ModelResponse, SendError, SendRequest};
use toolcrib_model::Wire;
use toolcrib_protocol::http1::MediaType;
use toolcrib_transport::http::client::{HttpClient, ResponseBody};

use crate::secrets::HomeSecrets;

/// How long a server may take to say something of itself, and how much it may say.
const LOOK: Duration = Duration::from_secs(5);
const LOOK_BYTES: usize = 4 << 20;

/// Sends requests with the connections of the process.
#[derive(Debug)]
struct ModelClient {
    http: HttpClient,
    secrets: Arc<HomeSecrets>,
}

/// Asks models with the HTTP client of the process.
pub(super) fn client(http: HttpClient, secrets: &Arc<HomeSecrets>) -> Arc<dyn SendRequest> {
    Arc::new(ModelClient { http, secrets: Arc::clone(secrets) })
}

struct Body(ResponseBody);

#[async_trait]
impl ModelBody for Body {
    async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        let chunk = self.0.chunk().await.map_err(|error| error.to_string())?;
        Ok(chunk.map(Bytes::copy_from_slice))
    }
}

#[async_trait]
impl SendRequest for ModelClient {
    async fn send(&self, model: &Arc<ModelDefinition>, wire: Wire, body: Bytes) -> Result<ModelResponse, SendError> {
        let (secrets, definition) = (Arc::clone(&self.secrets), Arc::clone(model));
        // Keys may lie in files and keyrings.
        let headers = tokio::task::spawn_blocking(move || headers(&secrets, &definition, wire)).await;
        let headers = headers.map_err(|error| SendError::Unusable(error.to_string()))??;
        let base = model.base().ok_or_else(|| SendError::Unusable(format!("model `{}` has no address", model.name)))?;
        let uri: Uri = format!("{base}{}", wire.path())
            .parse()
            .map_err(|_| SendError::Unusable(format!("the address of model `{}` cannot be used", model.name)))?;
        let sent = self.http.send(Method::POST, &uri, headers, body).await;
        let response =
            sent.map_err(|error| SendError::Network(format!("`{}` cannot be asked: {error}", model.name)))?;
        Ok(ModelResponse {
            status: response.status.as_u16(),
            is_stream: response.media_type == MediaType::EventStream,
            retry_after: response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned),
            body: Box::new(Body(response.body)),
        })
    }

    async fn look(&self, model: &Arc<ModelDefinition>, path: &'static str) -> Option<Bytes> {
        let base: Uri = model.base()?.parse().ok()?;
        let uri: Uri = format!("{}://{}{path}", base.scheme_str()?, base.authority()?).parse().ok()?;
        let (secrets, definition) = (Arc::clone(&self.secrets), Arc::clone(model));
        let headers =
            tokio::task::spawn_blocking(move || headers(&secrets, &definition, Wire::Chat)).await.ok()?.ok()?;
        let look = async {
            let response = self.http.send(Method::GET, &uri, headers, Bytes::new()).await.ok()?;
            let is_there = response.status.is_success();
            response.body.collect(LOOK_BYTES).await.ok().filter(|_| is_there)
        };
        tokio::time::timeout(LOOK, look).await.ok()?
    }
}

/// The headers of a request: those of the wire, the definition's own, and its key.
fn headers(secrets: &HomeSecrets, model: &ModelDefinition, wire: Wire) -> Result<HeaderMap, SendError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    for (name, value) in wire.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let mut put = |name: &str, prefix: &str, reference: &SecretRef| {
        let secret = secrets.own(reference).map_err(|error| {
            SendError::Unusable(format!("the key of model `{}` cannot be had: {error}", model.name))
        })?;
        let unfit =
            || SendError::Unusable(format!("the header `{name}` of model `{}` does not fit in one line", model.name));
        let name = HeaderName::try_from(name).map_err(|_| unfit())?;
        let mut value = HeaderValue::try_from(format!("{prefix}{}", secret.expose())).map_err(|_| unfit())?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(())
    };
    for (name, reference) in &model.headers {
        put(name, "", reference)?;
    }
    if let Some(key) = &model.key {
        let (name, prefix) = wire.key_header();
        put(name, prefix, key)?;
    }
    Ok(headers)
}
