//! The metadata of an authorization server (RFC 8414, OpenID Connect Discovery), at the places that the rules name.

use serde_json::{Value, json};

use crate::provider::answer::Answer;
use crate::provider::remote::Site;
use crate::provider::rules::{IssRule, MetadataPlace, PkceRule, ProofRule, ProviderRules, Registration, StatedIssuer};

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPEN_ID: &str = "/.well-known/openid-configuration";

pub(super) fn answer(site: &Site, rules: &ProviderRules, path: &str) -> Option<Answer> {
    let is_here = rules.metadata.iter().any(|place| {
        let appended = |name: &str| path.strip_prefix(rules.path) == Some(name);
        let inserted = |name: &str| path.strip_prefix(name) == Some(rules.path);
        match place {
            MetadataPlace::OAuthInserted => inserted(OAUTH),
            MetadataPlace::OAuthAppended => appended(OAUTH),
            MetadataPlace::OpenIdInserted => inserted(OPEN_ID),
            MetadataPlace::OpenIdAppended => appended(OPEN_ID),
            MetadataPlace::Server => false,
            MetadataPlace::Path(other) => path == *other,
        }
    });
    is_here.then(|| Answer::document(rules.document, &document(site, rules)))
}

/// The metadata, with the edits of the rules.
pub(in crate::provider) fn document(site: &Site, rules: &ProviderRules) -> Value {
    let issuer = site.issuer(rules);
    let back = format!("{}{}", site.origins().back, rules.path);
    let mut document = json!({
        "issuer": stated(site, rules, rules.issuer),
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{back}/token"),
        "introspection_endpoint": format!("{back}/introspect"),
        "jwks_uri": format!("{back}/jwks"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post", "client_secret_basic"],
    });
    let members = document.as_object_mut().expect("it is written as an object");
    let mut add = |name: &str, value: Value| members.insert(name.to_owned(), value);
    match rules.pkce {
        PkceRule::S256 => add("code_challenge_methods_supported", json!(["S256"])),
        PkceRule::Plain => add("code_challenge_methods_supported", json!(["plain"])),
        PkceRule::Silent | PkceRule::Absent => None,
    };
    if rules.registration != Registration::Absent {
        add("registration_endpoint", json!(format!("{back}/register")));
    }
    if rules.revocation {
        add("revocation_endpoint", json!(format!("{back}/revoke")));
    }
    if !rules.scopes.supported.is_empty() {
        add("scopes_supported", json!(rules.scopes.supported));
    }
    if rules.proofs != ProofRule::Absent {
        add("dpop_signing_alg_values_supported", json!(["ES256"]));
    }
    if rules.iss != IssRule::Absent {
        add("authorization_response_iss_parameter_supported", json!(true));
    }
    edit(&mut document, &rules.edits);
    document
}

/// How the issuer is named.
pub(in crate::provider) fn stated(site: &Site, rules: &ProviderRules, issuer: StatedIssuer) -> String {
    match issuer {
        StatedIssuer::Same => site.issuer(rules),
        StatedIssuer::Slash => site.issuer(rules) + "/",
        StatedIssuer::Origin => site.origins().provider.clone(),
        StatedIssuer::Other(other) => other.to_owned(),
    }
}

/// Replaces members; `null` removes one.
pub(in crate::provider) fn edit(document: &mut Value, edits: &Value) {
    let (Some(members), Some(edits)) = (document.as_object_mut(), edits.as_object()) else { return };
    for (name, value) in edits {
        match value {
            Value::Null => members.remove(name),
            value => members.insert(name.clone(), value.clone()),
        };
    }
}
