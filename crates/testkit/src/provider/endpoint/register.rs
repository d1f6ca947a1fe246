//! Dynamic client registration (RFC 7591).

use serde_json::{Value, json};

use crate::http::Request;
use crate::provider::answer::Answer;
use crate::provider::remote::Site;
use crate::provider::rules::{ProviderRules, Registration};
use crate::provider::state::Client;

/// Client metadata that a strict provider knows (RFC 7591 §2 and OpenID Connect Registration).
const MEMBERS: [&str; 13] = [
    "redirect_uris",
    "token_endpoint_auth_method",
    "grant_types",
    "response_types",
    "client_name",
    "client_uri",
    "logo_uri",
    "scope",
    "contacts",
    "software_id",
    "software_version",
    "application_type",
    "jwks_uri",
];

pub(super) fn answer(site: &Site, rules: &ProviderRules, request: &Request) -> Option<Answer> {
    match rules.registration {
        Registration::Absent => return None,
        Registration::Refusal(page) => return Some(Answer::page(page)),
        _ => {}
    }
    let wanted = request.json();
    let refuse = |error: &str, description: String| {
        Some(Answer::json(400, &json!({"error": error, "error_description": description})))
    };
    let Some(members) = wanted.as_object() else {
        return refuse("invalid_client_metadata", "the body is no JSON object".to_owned());
    };
    if rules.registration == Registration::KnownMembers
        && let Some(name) = members.keys().find(|name| !MEMBERS.contains(&name.as_str()))
    {
        return refuse("invalid_client_metadata", format!("Unrecognized field \"{name}\""));
    }
    let redirects = wanted["redirect_uris"].as_array().into_iter().flatten();
    let redirects: Vec<String> = redirects.filter_map(Value::as_str).map(str::to_owned).collect();
    if redirects.is_empty() {
        return refuse("invalid_redirect_uri", "`redirect_uris` is missing".to_owned());
    }
    let asked = wanted["token_endpoint_auth_method"].as_str().unwrap_or("client_secret_basic").to_owned();
    let has_secret = match rules.registration {
        Registration::SecretAlways | Registration::SecretForNone => true,
        _ => asked != "none",
    };
    let method = match rules.registration {
        Registration::SecretAlways if asked == "none" => "client_secret_post".to_owned(),
        _ => asked,
    };
    let mut state = site.state();
    let id = state.name("client");
    let secret = has_secret.then(|| state.secret("client-secret"));
    let mut answer = wanted.clone();
    let registered = answer.as_object_mut()?;
    registered.insert("client_id".to_owned(), json!(id));
    registered.insert("client_id_issued_at".to_owned(), json!(site.now().0 / 1_000));
    registered.insert("token_endpoint_auth_method".to_owned(), json!(method));
    if let Some(secret) = &secret {
        registered.insert("client_secret".to_owned(), json!(secret));
        registered.insert("client_secret_expires_at".to_owned(), json!(0));
    }
    let method = (method != "none").then_some(method);
    state.clients.insert(id, Client { secret, redirects, method });
    state.counters.registrations += 1;
    Some(Answer::json(201, &answer))
}
