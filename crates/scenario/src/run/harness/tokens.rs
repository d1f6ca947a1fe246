//! Tokens that steps make themselves: at the gateway's door, at a server without the gateway, and to be exchanged.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Uri};
use serde_json::{Map, Value, json};
use toolcrib_transport::http::client::HttpClient;
use url::form_urlencoded;

use super::users::opened;
use super::{Arguments, Caller};
use crate::expect::Answer;
use crate::harness::ROLES;
use crate::home::BROKER;
use crate::provider::{ROLE_CLAIM, SOMEONE};
use crate::run::World;

/// The largest answer that is read, in bytes.
const ANSWER: usize = 4 * 1024 * 1024;
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// A provider signs what the step writes.
pub(super) fn mint(world: &mut World, args: &Arguments<'_>) -> Result<Value, String> {
    let (server, name) = (args.needed("server")?, args.needed("name")?);
    let provider = world.provider(server).ok_or_else(|| format!("there is no mock provider `{server}`"))?;
    let mut claims = Map::new();
    for key in ["iss", "sub", "aud", "groups", "email", "email_verified", "act"] {
        if let Some(value) = args.given.get(key) {
            claims.insert(key.to_owned(), value.clone());
        }
    }
    claims.entry("sub").or_insert_with(|| SOMEONE.into());
    claims.entry("aud").or_insert_with(|| world.origin().into());
    claims.insert(ROLE_CLAIM.to_owned(), json!([ROLES[0]]));
    let token = provider.mint(&claims, args.text("typ").unwrap_or("at+jwt"));
    world.tokens.insert(name.to_owned(), token);
    claims.remove(ROLE_CLAIM);
    Ok(json!({ "success": true, "name": name, "server": server, "claims": claims }))
}

/// The caller comes with a minted token from now on.
pub(super) async fn reconnect(world: &mut World, args: &Arguments<'_>, caller: &Caller) -> Result<Answer, String> {
    let token = minted(world, args, "token_ref")?;
    world.send_token(&caller.key.user, &token).await?;
    opened(world, caller, "connected with the token").await
}

/// Calls a tool of a mock server, which sees the token itself.
pub(super) async fn call_server(world: &mut World, args: &Arguments<'_>, caller: &Caller) -> Result<Answer, String> {
    let (server, tool) = (args.needed("server")?, args.needed("tool")?);
    let url = world.server_url(server);
    let url = url.ok_or_else(|| format!("`{server}` is no mock server over HTTP"))?;
    let token = args.text("token_ref").map(|_| minted(world, args, "token_ref")).transpose()?;
    let params = json!({ "name": tool, "arguments": args.map("args") });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let mut headers = json_headers();
    if let Some(token) = token {
        headers.insert(AUTHORIZATION, bearer(&token)?);
    }
    let reply = send(&url, headers, call.to_string(), caller).await?;
    let Ok(value) = serde_json::from_slice::<Value>(&reply.body) else { return Ok(reply.refused()) };
    if reply.status >= 400 {
        return Ok(reply.refused());
    }
    let (mut answer, status) = match value.get("result") {
        Some(result) => (Answer::of_result(result), reply.status),
        None => (Answer::failed(value["error"]["message"].as_str().unwrap_or_default().to_owned()), reply.status),
    };
    answer.status = Some(status);
    Ok(answer)
}

/// Exchanges a minted token at the gateway's own token endpoint (RFC 8693).
pub(super) async fn exchange(world: &mut World, args: &Arguments<'_>, caller: &Caller) -> Result<Answer, String> {
    let subject = minted(world, args, "subject_token_ref")?;
    let actor = args.text("actor_token_ref").map(|_| minted(world, args, "actor_token_ref")).transpose()?;
    let mut form = exchange_form(args, &subject, actor.as_deref());
    if let Some(secret) = world.broker_secret() {
        let mut client = form_urlencoded::Serializer::new(&mut form);
        client.append_pair("client_id", BROKER).append_pair("client_secret", secret.expose());
    }
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    let reply = send(&format!("{}/oauth/token", world.origin()), headers, form, caller).await?;
    let value = serde_json::from_slice::<Value>(&reply.body).unwrap_or_default();
    let token = value["access_token"].as_str().filter(|_| reply.status < 400);
    let Some(token) = token else { return Ok(reply.refused()) };
    if let Some(name) = args.text("name") {
        world.tokens.insert(name.to_owned(), token.to_owned());
    }
    let mut shown = value.clone();
    shown["access_token"] = "****".into();
    shown["success"] = true.into();
    Ok(Answer { status: Some(reply.status), ..Answer::done(shown) })
}

fn exchange_form(args: &Arguments<'_>, subject: &str, actor: Option<&str>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
    form.append_pair("subject_token", subject);
    form.append_pair("subject_token_type", args.text("subject_token_type").unwrap_or(ACCESS_TOKEN));
    for key in ["audience", "resource"] {
        if let Some(value) = args.text(key) {
            form.append_pair(key, value);
        }
    }
    if let Some(actor) = actor {
        form.append_pair("actor_token", actor).append_pair("actor_token_type", ACCESS_TOKEN);
    }
    form.finish()
}

/// What came back over HTTP.
struct HttpReply {
    status: u16,
    challenge: String,
    body: Bytes,
}

impl HttpReply {
    /// A refusal, with everything that a person would look for.
    fn refused(&self) -> Answer {
        let text = format!("HTTP {}: {} {}", self.status, self.challenge, String::from_utf8_lossy(&self.body));
        Answer { status: Some(self.status), ..Answer::failed(text.trim_end().to_owned()) }
    }
}

async fn send(url: &str, headers: HeaderMap, body: String, caller: &Caller) -> Result<HttpReply, String> {
    let uri: Uri = url.parse().map_err(|error| format!("`{url}` is no URL: {error}"))?;
    let client = HttpClient::new().map_err(|error| error.to_string())?;
    let exchange = async {
        let response = client.send(Method::POST, &uri, headers, body.into()).await?;
        let status = response.status.as_u16();
        let challenge = response.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let challenge = challenge.unwrap_or_default().to_owned();
        Ok(HttpReply { status, challenge, body: response.body.collect(ANSWER).await? })
    };
    let answered = tokio::time::timeout(caller.deadline, exchange).await;
    let answered: Result<_, toolcrib_transport::LinkError> = answered.map_err(|_| format!("`{url}` did not answer"))?;
    answered.map_err(|error| format!("`{url}`: {error}"))
}

fn json_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| "the token does not fit into a header".to_owned())
}

/// The token that a step minted under the name in an argument.
fn minted(world: &World, args: &Arguments<'_>, key: &str) -> Result<String, String> {
    let name = args.needed(key)?;
    let known = world.tokens.get(name).cloned();
    known.ok_or_else(|| format!("no step has minted a token `{name}`"))
}
