//! `auth` of a server in muster's form: whether it holds together. It is kept and shown; nothing signs in by it yet.

use serde_json::Value;
use toolcrib_base::{Kind, Problem};

/// Checks what a schema cannot say.
pub(super) fn check(auth: &Value, is_remote: bool) -> Result<(), Problem> {
    let wrong = |message: &str| Err(Problem::new(Kind::InvalidParams, message));
    let kind = auth["type"].as_str();
    if !is_remote && kind != Some("none") {
        return wrong("`auth` is for remote servers (`streamable-http`, `sse`), and this one is `stdio`");
    }
    let text = |part: &Value, key: &str| part[key].as_str().is_some_and(|text| !text.is_empty());
    let teleport = &auth["teleport"];
    if kind == Some("teleport") && !teleport.is_object() {
        return wrong("`auth.teleport` is required for the auth type `teleport`");
    }
    if teleport.is_object() {
        match (text(teleport, "identityDir"), text(teleport, "identitySecretName")) {
            (true, true) => {
                return wrong("`identityDir` and `identitySecretName` of `auth.teleport` are mutually exclusive");
            }
            (false, false) => return wrong("`auth.teleport` needs one of `identityDir` and `identitySecretName`"),
            _ => {}
        }
    }
    let exchange = &auth["tokenExchange"];
    if exchange["enabled"] == true || text(exchange, "dexTokenEndpoint") {
        let endpoint = exchange["dexTokenEndpoint"].as_str().unwrap_or_default();
        // Anyone who reads that connection could pass for the user.
        if !endpoint.starts_with("https://") {
            return wrong("`auth.tokenExchange.dexTokenEndpoint` must be an `https://` address");
        }
    }
    let authorization = &auth["authorizationServer"];
    if authorization.is_object() {
        let issuer = authorization["issuer"].as_str().unwrap_or_default();
        if !issuer.starts_with("https://") || issuer.ends_with('/') {
            return wrong("`auth.authorizationServer.issuer` must be an `https://` address that does not end in `/`");
        }
        if auth["forwardToken"] == true || exchange["enabled"] == true {
            return wrong(
                "`authorizationServer` and `forwardToken` or `tokenExchange` of `auth` are mutually exclusive",
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_go_together_is_named() {
        let dir = json!({ "identityDir": "/run/tbot" });
        let both = json!({ "identityDir": "/run/tbot", "identitySecretName": "tbot" });
        let server = |issuer: &str| json!({ "issuer": issuer });
        let exchange = |endpoint: &str| json!({ "tokenExchange": { "enabled": true, "dexTokenEndpoint": endpoint } });
        for (auth, is_remote, expect) in [
            (json!({ "type": "none" }), false, None),
            (json!({ "type": "oauth", "forwardToken": true }), true, None),
            (json!({ "type": "teleport", "teleport": dir }), true, None),
            (json!({ "type": "teleport", "teleport": dir }), false, Some("auth")),
            (json!({ "type": "teleport", "teleport": both }), true, Some("mutually exclusive")),
            (json!({ "type": "teleport", "teleport": { "appName": "x" } }), true, Some("identitySecretName")),
            (json!({ "type": "teleport" }), true, Some("teleport")),
            (exchange("https://dex.example/token"), true, None),
            (exchange("http://dex.example/token"), true, Some("dexTokenEndpoint")),
            (json!({ "tokenExchange": { "enabled": true } }), true, Some("dexTokenEndpoint")),
            (json!({ "tokenExchange": { "enabled": false } }), true, None),
            (json!({ "type": "oauth", "authorizationServer": server("https://a.example") }), true, None),
            (json!({ "type": "oauth", "authorizationServer": server("http://a.example") }), true, Some("https")),
            (json!({ "type": "oauth", "authorizationServer": server("https://a.example/") }), true, Some("issuer")),
            (
                json!({ "forwardToken": true, "authorizationServer": server("https://a.example") }),
                true,
                Some("mutually exclusive"),
            ),
        ] {
            let told = check(&auth, is_remote).err().map(|problem| problem.message);
            match expect {
                None => assert_eq!(told, None, "{auth}"),
                Some(words) => assert!(told.as_deref().is_some_and(|told| told.contains(words)), "{auth}: {told:?}"),
            }
        }
    }
}
