//! Revocation (RFC 7009) and introspection (RFC 7662).

use serde_json::json;

use super::metadata::stated;
use super::token::sender;
use crate::http::Request;
use crate::provider::answer::Answer;
use crate::provider::form::Form;
use crate::provider::remote::Site;
use crate::provider::rules::ProviderRules;
use crate::provider::state::Audience;

pub(super) fn answer(site: &Site, _: &ProviderRules, request: &Request) -> Answer {
    let form = Form::parse(&String::from_utf8_lossy(&request.body));
    let sender = match sender(site, request, &form) {
        Ok(sender) => sender,
        Err(error) => return error.to_answer(),
    };
    let (mut state, now) = (site.state(), site.now());
    let token = form.get("token").unwrap_or_default();
    // A token that is not known, or another client's, is no error (§2.2).
    if state.grant_of(token).is_some_and(|grant| grant.client == sender.client) {
        state.revoke(token, now);
        state.counters.revocations += 1;
    }
    Answer::empty(200)
}

pub(super) fn introspect(site: &Site, rules: &ProviderRules, request: &Request) -> Answer {
    let form = Form::parse(&String::from_utf8_lossy(&request.body));
    if let Err(error) = sender(site, request, &form) {
        return error.to_answer();
    }
    let state = site.state();
    let Some(grant) = state.granted(form.get("token").unwrap_or_default(), site.now()) else {
        return Answer::json(200, &json!({"active": false}));
    };
    let audience = match &grant.audience {
        Audience::Resource(resource) => json!(resource),
        Audience::Everyone | Audience::Nobody => json!(null),
    };
    let scope = grant.scopes.join(" ");
    let issuer = stated(site, rules, rules.issuer);
    let body = json!({"active": true, "iss": issuer, "client_id": grant.client, "sub": "someone", "scope": scope, "aud": audience});
    Answer::json(200, &body)
}
