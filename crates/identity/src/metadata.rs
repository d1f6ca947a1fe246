//! What an issuer says of itself (RFC 8414, OpenID Connect Discovery).

use http::header::{ACCEPT, HeaderValue};
use http::{Request, Response, StatusCode};
use serde_json::Value;
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient};
use url::Url;

/// The endpoints that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) keys: Option<String>,
    pub(crate) introspection: Option<String>,
    /// Whether credentials go into the header at the introspection endpoint; otherwise into the body.
    pub(crate) introspection_takes_basic: bool,
    pub(crate) authorization: Option<String>,
    pub(crate) token: Option<String>,
    /// The same at the token endpoint.
    pub(crate) token_takes_basic: bool,
    /// Whether its answers say whose they are (RFC 9207).
    pub(crate) names_itself: bool,
}

/// Where the metadata of an issuer may be, in the order in which they are looked for.
fn places(issuer: &Url) -> Vec<String> {
    let (origin, path) = (issuer.origin().ascii_serialization(), issuer.path().trim_end_matches('/'));
    let mut places = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}{path}/.well-known/openid-configuration"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    places.dedup();
    places
}

/// Finds the metadata of an issuer; why not otherwise.
pub(crate) async fn find(
    client: &CheckedClient,
    policy: AddressPolicy,
    issuer: &str,
    url: &Url,
) -> Result<Metadata, String> {
    let mut last = String::new();
    for place in places(url) {
        match get(client, policy, &place).await {
            Ok(body) => match read(&body, issuer) {
                Ok(metadata) => return Ok(metadata),
                Err(wrong) => last = wrong,
            },
            // What was found out last about documents that exist says more.
            Err(missing) if last.is_empty() => last = missing,
            Err(_) => {}
        }
    }
    Err(last)
}

fn read(body: &[u8], issuer: &str) -> Result<Metadata, String> {
    let document: Value = serde_json::from_slice(body).map_err(|_| "its metadata is not JSON".to_owned())?;
    if document.get("issuer").and_then(Value::as_str) != Some(issuer) {
        return Err("its metadata is that of another issuer".to_owned());
    }
    let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
    let at_token = "token_endpoint_auth_methods_supported";
    let takes_basic = |names: &[&str]| {
        let methods = names.iter().find_map(|name| document.get(*name)?.as_array());
        let takes = |method: &str| methods.is_some_and(|methods| methods.iter().any(|one| one == method));
        takes("client_secret_basic") || !takes("client_secret_post")
    };
    Ok(Metadata {
        keys: text("jwks_uri"),
        introspection: text("introspection_endpoint"),
        introspection_takes_basic: takes_basic(&["introspection_endpoint_auth_methods_supported", at_token]),
        authorization: text("authorization_endpoint"),
        token: text("token_endpoint"),
        token_takes_basic: takes_basic(&[at_token]),
        names_itself: document.get("authorization_response_iss_parameter_supported") == Some(&Value::Bool(true)),
    })
}

/// The body of a document.
pub(crate) async fn get(client: &CheckedClient, policy: AddressPolicy, url: &str) -> Result<Vec<u8>, String> {
    let request = Request::get(url).header(ACCEPT, HeaderValue::from_static("application/json")).body(Vec::new());
    let request = request.map_err(|_| "its metadata names a URL that is none".to_owned())?;
    let response: Response<Vec<u8>> = client.send(policy, request).await.map_err(|error| error.to_string())?;
    match response.status() {
        StatusCode::OK => Ok(response.into_body()),
        status => Err(format!("it answers with status {}", status.as_u16())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_looked_for_where_the_specifications_put_them() {
        let of = |issuer: &str| places(&Url::parse(issuer).unwrap());
        assert_eq!(
            of("https://a.example"),
            [
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            of("https://a.example:8443/realms/x/"),
            [
                "https://a.example:8443/.well-known/oauth-authorization-server/realms/x",
                "https://a.example:8443/realms/x/.well-known/openid-configuration",
                "https://a.example:8443/.well-known/openid-configuration/realms/x",
            ]
        );
    }

    #[test]
    fn metadata_of_another_issuer_do_not_count() {
        let issuer = "https://a.example";
        assert!(read(br#"{"issuer": "https://a.example/", "jwks_uri": "https://a.example/k"}"#, issuer).is_err());
        assert!(read(br#"{"jwks_uri": "https://a.example/k"}"#, issuer).is_err());
        assert!(read(b"<html>", issuer).is_err());
        let read = read(
            br#"{"issuer": "https://a.example", "jwks_uri": "k",
            "introspection_endpoint_auth_methods_supported": ["client_secret_post"]}"#,
            issuer,
        );
        let read = read.unwrap();
        assert_eq!((read.keys.as_deref(), read.introspection), (Some("k"), None));
        assert_eq!((read.introspection_takes_basic, read.token_takes_basic), (false, true));
    }
}
