//! The endpoints of an authorization server, one file each. To add one, add a file with `answer` and a line here.

mod authorize;
mod metadata;
mod register;
mod revoke;
mod token;

use super::answer::Answer;
use super::remote::Site;
use crate::http::Request;

pub(super) use metadata::{document, edit, stated};

/// What the provider answers; `None` where it has nothing.
pub(super) fn answer(site: &Site, request: &Request) -> Option<Answer> {
    let rules = site.rules().provider;
    let path = request.target.split('?').next().unwrap_or_default();
    if let Some(answer) = metadata::answer(site, &rules, path) {
        return Some(answer);
    }
    match (request.method.as_str(), path.strip_prefix(rules.path)?) {
        ("GET", "/authorize") => Some(authorize::ask(site, &rules, request)),
        ("POST", "/consent") => Some(authorize::decide(site, &rules, request)),
        ("POST", "/token") => Some(token::answer(site, &rules, request)),
        ("POST", "/register") => register::answer(site, &rules, request),
        ("POST", "/revoke") if rules.revocation => Some(revoke::answer(site, &rules, request)),
        ("POST", "/introspect") => Some(revoke::introspect(site, &rules, request)),
        ("GET", "/jwks") => Some(Answer::json(200, &site.state().keys().document())),
        _ => None,
    }
}
