//! What a definition of a server says, as a digest that is kept: by it the next start tells which definitions changed.
//!
//! The text behind the digest is written here and nowhere else, so that no change of a type changes what is on the disk.
//! What a definition leaves out is left out, so that a new key changes the digests of those alone that have it.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use toolcrib_catalog::{
    ClientSecretRef, ConnectorOffer, GovernedTool, Guards, IdentityProvider, RiskClass, SecretAction, ServerAuth,
    ServerDefinition, ServerLimits, SessionScope, Size, SpokenEra, Start, Teleport, TeleportIdentity, Timeouts,
    TokenExchange, ToolAction, ToolGuards, ToolLimits,
};

use toolcrib_call::servers::encoded as encoded_transport;

/// Names the encoding: another one gets another number. The first one had no name.
const ENCODING: &str = "2:";

/// The digest of all that a definition says, secrets as stars.
pub(super) fn digest(definition: &ServerDefinition) -> String {
    let digest = Sha256::digest(encoded(definition).as_bytes());
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{ENCODING}{digits}")
}

/// Whether a digest that was kept can be compared with those of today.
pub(super) fn is_comparable(kept: &str) -> bool {
    kept.starts_with(ENCODING)
}

fn encoded(definition: &ServerDefinition) -> String {
    // Every field is named, so that a new one is not forgotten here.
    let ServerDefinition {
        name,
        title,
        description,
        transport: _,
        start,
        idle,
        session,
        era,
        declares: _,
        timeouts,
        category,
        tags,
        keywords,
        icon,
        homepage,
        labels,
        confirm,
        tool_labels,
        prefix,
        family,
        renamed,
        tools,
        verified_at,
        auth,
        limits,
        guards,
        connector,
    } = definition;
    let defaults = Timeouts::default();
    let Timeouts { connect, list, call } = timeouts;
    let unless = |is_default: bool, word: &str| (!is_default).then(|| word.to_owned());
    let members = [
        ("name", json!(name.as_str())),
        ("title", json!(title)),
        ("description", json!(description)),
        // How it is reached and what it is told that its client can be asked for.
        ("reached", json!(encoded_transport(definition))),
        ("start", json!(unless(*start == Start::Lazy, start.as_str()))),
        ("idle", json!(idle.map(|idle| idle.to_string()))),
        ("session", json!(unless(*session == SessionScope::Principal, session.as_str()))),
        ("era", json!(unless(*era == SpokenEra::Auto, era.as_str()))),
        ("timeouts.connect", json!(connect.map(|period| period.to_string()))),
        ("timeouts.list", json!(unless(*list == defaults.list, &list.to_string()))),
        ("timeouts.call", json!(unless(*call == defaults.call, &call.to_string()))),
        ("category", json!(category)),
        ("tags", json!(tags)),
        ("keywords", json!(keywords)),
        ("icon", json!(icon)),
        ("homepage", json!(homepage.as_ref().map(ToString::to_string))),
        ("labels", json!(labels)),
        ("confirm", json!(confirm.iter().map(toolcrib_base::Glob::as_str).collect::<Vec<_>>())),
        ("tool_labels", tool_labels.iter().map(|it| json!([it.pattern.as_str(), it.labels])).collect()),
        ("prefix", json!(prefix)),
        ("family", json!(family.as_ref().map(|family| [&family.name, &family.instance_arg]))),
        ("renamed", json!(renamed)),
        ("tools", tools.iter().map(|tool| Value::from(tool.json.as_str())).collect()),
        ("verified_at", json!(verified_at)),
        ("auth", json!(auth.as_ref().map(encoded_auth))),
        ("limits.concurrent", json!(limits.concurrent)),
        ("limits.per_tool", json!(limits.per_tool)),
        ("limits", encoded_limits(limits)),
        ("guards", encoded_guards(guards)),
        ("connector", json!(connector.as_ref().map(encoded_connector))),
    ];
    said(members).to_string()
}

/// What a server that is made of a connector offers. Credentials are among the headers and in `auth`.
fn encoded_connector(offer: &ConnectorOffer) -> Value {
    let ConnectorOffer { tools, resources } = offer;
    let governed = |tool: &GovernedTool| {
        let (action, risk) = (tool.action.map(ToolAction::as_str), tool.risk.map(RiskClass::as_str));
        json!([action, risk, tool.decision().as_str(), tool.target_type])
    };
    let tools: Vec<Value> = tools.iter().map(|(name, tool)| json!([name, governed(tool)])).collect();
    json!({ "tools": tools, "resources": resources })
}

fn encoded_guards(guards: &Guards) -> Value {
    let Guards { arguments, results, redact_arguments, redact_results, tools } = guards;
    let of_tool = |of_tool: &ToolGuards| {
        said([("pattern", json!(of_tool.pattern.as_str())), ("guards", encoded_guards(&of_tool.guards))])
    };
    let action = |action: &Option<SecretAction>| json!(action.map(SecretAction::as_str));
    said([
        ("arguments", action(arguments)),
        ("results", action(results)),
        ("redact_arguments", redact_arguments.iter().map(|pointer| Value::from(pointer.to_string())).collect()),
        ("redact_results", redact_results.iter().map(|pointer| Value::from(pointer.to_string())).collect()),
        ("tools", tools.iter().map(of_tool).collect()),
    ])
}

/// What limits say beside the two that were there first, without what they leave out.
fn encoded_limits(limits: &ServerLimits) -> Value {
    let ServerLimits { concurrent: _, per_tool: _, queue, per_minute, argument_bytes, result_bytes, tools } = limits;
    let bytes = |size: &Option<Size>| json!(size.map(Size::bytes));
    let of_tool = |limits: &ToolLimits| {
        let ToolLimits { pattern, concurrent, queue, per_minute, argument_bytes, result_bytes } = limits;
        said([
            ("pattern", json!(pattern.as_str())),
            ("concurrent", json!(concurrent)),
            ("queue", json!(queue)),
            ("per_minute", json!(per_minute)),
            ("argument_bytes", bytes(argument_bytes)),
            ("result_bytes", bytes(result_bytes)),
        ])
    };
    said([
        ("queue", json!(queue)),
        ("per_minute", json!(per_minute)),
        ("argument_bytes", bytes(argument_bytes)),
        ("result_bytes", bytes(result_bytes)),
        ("tools", tools.iter().map(of_tool).collect()),
    ])
}

/// How a server is logged in at, without what it leaves out.
fn encoded_auth(auth: &ServerAuth) -> Value {
    let ServerAuth {
        kind,
        client_id,
        client_secret,
        redirect_uri,
        scopes,
        issuer,
        private,
        dpop,
        share,
        forward_token,
        fallback_to_own_auth,
        required_audiences,
        any_audience,
        token_exchange,
        token_endpoint,
        private_key,
        key_id,
        assertion,
        identity_provider,
        teleport,
    } = auth;
    let set = |flag: &bool| flag.then_some(true);
    let members = [
        ("type", json!(kind.as_str())),
        ("client_id", json!(client_id)),
        ("client_secret", json!(client_secret.as_ref().map(ToString::to_string))),
        ("redirect_uri", json!(redirect_uri.as_ref().map(ToString::to_string))),
        ("scopes", json!(scopes)),
        ("issuer", json!(issuer.as_ref().map(ToString::to_string))),
        ("private", json!(set(private))),
        ("dpop", json!(dpop)),
        ("share", share.iter().map(|profile| Value::from(profile.as_str())).collect()),
        ("forwardToken", json!(set(forward_token))),
        ("fallbackToOwnAuth", json!(set(fallback_to_own_auth))),
        ("requiredAudiences", json!(required_audiences)),
        ("anyAudience", json!(set(any_audience))),
        ("tokenExchange", json!(token_exchange.as_ref().map(encoded_exchange))),
        ("token_endpoint", json!(token_endpoint.as_ref().map(ToString::to_string))),
        ("private_key", json!(private_key.as_ref().map(ToString::to_string))),
        ("key_id", json!(key_id)),
        ("assertion", json!(assertion.as_ref().map(ToString::to_string))),
        ("identityProvider", json!(identity_provider.as_ref().map(encoded_provider))),
        ("teleport", json!(teleport.as_ref().map(encoded_teleport))),
    ];
    said(members)
}

fn encoded_exchange(exchange: &TokenExchange) -> Value {
    let TokenExchange {
        enabled,
        dex_token_endpoint,
        expected_issuer,
        connector_id,
        scopes,
        client_credentials,
        client_id,
        client_secret,
    } = exchange;
    let secret = client_credentials.as_ref().map(|secret| {
        let ClientSecretRef { name, namespace, client_id_key, client_secret_key } = secret;
        json!([name, namespace, client_id_key, client_secret_key])
    });
    let members = [
        ("enabled", json!(enabled)),
        ("dexTokenEndpoint", json!(dex_token_endpoint.as_ref().map(ToString::to_string))),
        ("expectedIssuer", json!(expected_issuer)),
        ("connectorId", json!(connector_id)),
        ("scopes", json!(scopes)),
        ("clientCredentialsSecretRef", json!(secret)),
        ("clientId", json!(client_id)),
        ("clientSecret", json!(client_secret.as_ref().map(ToString::to_string))),
    ];
    said(members)
}

fn encoded_provider(provider: &IdentityProvider) -> Value {
    let IdentityProvider { token_endpoint, client_id, client_secret, id_token } = provider;
    said([
        ("tokenEndpoint", json!(token_endpoint.as_ref().map(ToString::to_string))),
        ("clientId", json!(client_id)),
        ("clientSecret", json!(client_secret.as_ref().map(ToString::to_string))),
        ("idToken", json!(id_token.as_ref().map(ToString::to_string))),
    ])
}

fn encoded_teleport(teleport: &Teleport) -> Value {
    let identity = match &teleport.identity {
        TeleportIdentity::Folder(folder) => json!([folder]),
        TeleportIdentity::Secret { name, namespace } => json!([name, namespace]),
    };
    said([("appName", json!(teleport.app_name)), ("identity", identity)])
}

/// The members that hold something.
fn said<const N: usize>(members: [(&str, Value); N]) -> Value {
    let said = members.into_iter().filter(|(_, value)| !is_empty(value)).map(|(key, value)| (key.to_owned(), value));
    Value::Object(said.collect::<Map<_, _>>())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(text: &str) -> std::sync::Arc<ServerDefinition> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("servers")).unwrap();
        std::fs::write(home.path().join("servers/a.yaml"), format!("name: a\n{text}")).unwrap();
        let loaded = toolcrib_catalog::load(home.path());
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        loaded.servers["a"].clone()
    }

    /// Of `{"name":"a","reached":"{\"args\":[],\"command\":\"run\",\"cwd\":null,\"env\":{},\"transport\":\"stdio\"}"}`.
    const GOLDEN: &str = "2:a4f2e89e7f6f685c86bb6570891df2be";

    #[test]
    fn what_is_kept_stays_what_it_is() {
        let plain = definition("command: run\n");
        assert_eq!(
            encoded(&plain),
            r#"{"name":"a","reached":"{\"args\":[],\"command\":\"run\",\"cwd\":null,\"env\":{},\"transport\":\"stdio\"}"}"#
        );
        assert_eq!(digest(&plain), GOLDEN);
        assert!(is_comparable(GOLDEN) && !is_comparable("0123456789abcdef0123456789abcdef"));
    }

    #[test]
    fn every_key_changes_the_digest_and_a_secret_does_not() {
        let plain = digest(&definition("command: run\n"));
        for line in [
            "title: t",
            "description: d",
            "args: [a]",
            "env: {K: v}",
            "inherit_env: [K]",
            "cwd: c",
            "start: eager",
            "idle: 5m",
            "session: shared",
            "era: legacy",
            "declares: [roots]",
            "timeouts: {connect: 5s}",
            "timeouts: {list: 5s}",
            "timeouts: {call: 5s}",
            "category: c",
            "tags: [t]",
            "keywords: [k]",
            "icon: i",
            "homepage: https://example.com",
            "labels: {a: b}",
            "confirm: [t]",
            "tool_labels: {t: {a: b}}",
            "tool_labels: {t: {}}",
            "prefix: p",
            "renamed: {a: b}",
            "tools: [{name: t, inputSchema: {type: object}}]",
            "verified_at: 2026-01-01",
            "limits: {concurrent: 5}",
            "limits: {per_tool: 5}",
            "limits: {queue: 5}",
            "limits: {per_minute: 5}",
            "limits: {argument_bytes: 5}",
            "limits: {result_bytes: 5}",
            "limits: {tools: {t: {concurrent: 5}}}",
            "limits: {tools: {t: {queue: 5}}}",
            "limits: {tools: {t: {per_minute: 5}}}",
            "limits: {tools: {t: {argument_bytes: 5}}}",
            "limits: {tools: {t: {result_bytes: 5}}}",
            "guards: {secrets: {arguments: deny}}",
            "guards: {secrets: {results: deny}}",
            "guards: {redact: {arguments: [/a]}}",
            "guards: {redact: {results: [/a]}}",
            "guards: {tools: {t: {secrets: {results: deny}}}}",
        ] {
            assert_ne!(digest(&definition(&format!("command: run\n{line}\n"))), plain, "{line}");
        }
        let remote =
            |auth: &str| digest(&definition(&format!("transport: http\nurl: https://a.example/mcp\n{auth}\n")));
        let exchange = "enabled: false, dexTokenEndpoint: 'https://dex.example/t'";
        let digests: std::collections::BTreeSet<String> = [
            "",
            "auth: {type: oauth}",
            "auth: {type: none}",
            "auth: {client_id: a}",
            "auth: {client_id: b}",
            "auth: {client_id: a, client_secret: 'env:A'}",
            "auth: {client_id: a, client_secret: 'env:B'}",
            "auth: {redirect_uri: 'https://a.example/cb'}",
            "auth: {scopes: [a]}",
            "auth: {issuer: 'https://a.example'}",
            "auth: {private: true}",
            "auth: {share: [work]}",
            "auth: {forwardToken: true}",
            "auth: {fallbackToOwnAuth: true}",
            "auth: {requiredAudiences: [a]}",
            &format!("auth: {{tokenExchange: {{{exchange}}}}}"),
            &format!("auth: {{tokenExchange: {{{exchange}, connectorId: a}}}}"),
            &format!("auth: {{tokenExchange: {{{exchange}, expectedIssuer: a}}}}"),
            &format!("auth: {{tokenExchange: {{{exchange}, scopes: a}}}}"),
            &format!("auth: {{tokenExchange: {{{exchange}, clientCredentialsSecretRef: {{name: a}}}}}}"),
            &format!("auth: {{tokenExchange: {{{exchange}, clientId: a}}}}"),
            &format!("auth: {{tokenExchange: {{{exchange}, clientSecret: 'env:A'}}}}"),
            "auth: {anyAudience: true}",
            "auth: {type: client_credentials, client_id: a, client_secret: 'env:A'}",
            "auth: {type: client_credentials, client_id: a, private_key: 'env:A'}",
            "auth: {type: client_credentials, client_id: a, private_key: 'env:A', key_id: a}",
            "auth: {type: workload, assertion: 'env:A'}",
            "auth: {type: workload, assertion: 'env:A', token_endpoint: 'https://a.example'}",
            "auth: {type: enterprise, identityProvider: {tokenEndpoint: 'https://a.example'}}",
            "auth: {type: enterprise, identityProvider: {tokenEndpoint: 'https://a.example', clientId: a}}",
            "auth: {type: enterprise, identityProvider: {tokenEndpoint: 'https://a.example', clientSecret: 'env:A'}}",
            "auth: {type: enterprise, identityProvider: {tokenEndpoint: 'https://a.example', idToken: 'env:A'}}",
            "auth: {teleport: {identityDir: /a}}",
            "auth: {teleport: {identitySecretName: a}}",
            "auth: {teleport: {identityDir: /a, appName: a}}",
        ]
        .map(remote)
        .into();
        assert_eq!(digests.len(), 35, "each says something else");
        let secret = |value: &str| digest(&definition(&format!("command: run\nenv: {{K: {value}}}\n")));
        assert_eq!(secret("one"), secret("two"));
        assert_ne!(secret("env:ONE"), secret("env:TWO"), "a reference is no secret");
    }
}
