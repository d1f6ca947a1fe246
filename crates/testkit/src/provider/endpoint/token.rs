//! The token endpoint: codes and refresh tokens become access tokens. Clients prove themselves in one way only.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::metadata::stated;
use crate::http::Request;
use crate::provider::answer::Answer;
use crate::provider::form::{Form, decoded};
use crate::provider::proof::{ExpectedProof, ProofError, check};
use crate::provider::remote::Site;
use crate::provider::rules::{AnswerForm, ErrorForm, PkceRule, ProofRule, ProviderRules, ResourceRule, ScopeAnswer};
use crate::provider::state::{Audience, TokenPair};

/// Why there is no token.
pub(super) struct TokenError {
    status: u16,
    error: &'static str,
    description: &'static str,
}

/// Who sent a form.
pub(super) struct Sender {
    pub(super) client: String,
    secret: Option<String>,
    method: &'static str,
    /// The thumbprint of the key of its proof.
    key: Option<String>,
}

pub(super) fn answer(site: &Site, rules: &ProviderRules, request: &Request) -> Answer {
    let wants_json = request.header("accept").is_some_and(|accept| accept.contains("application/json"));
    let as_form = match rules.answers {
        AnswerForm::Json => false,
        AnswerForm::FormByDefault => !wants_json,
        AnswerForm::Form => true,
    };
    let (status, mut members) = match issue(site, rules, request) {
        Ok(mut pair) => {
            pair.access = site.state().formed(pair.access, &stated(site, rules, rules.issuer), rules);
            (200, written(rules, &pair))
        }
        Err(error) => {
            let members = json!({"error": error.error, "error_description": error.description});
            let status = if rules.errors == ErrorForm::Standard { error.status } else { 200 };
            (status, members.as_object().cloned().unwrap_or_default())
        }
    };
    if rules.errors == ErrorForm::NotOk {
        let is_ok = !members.contains_key("error");
        members.insert("ok".to_owned(), json!(is_ok));
    }
    let answer = if as_form {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let form = members.iter().fold(Form::default(), |form, (name, value)| form.with(name, &text(value)));
        Answer::form(status, &form)
    } else {
        Answer::json(status, &Value::Object(members))
    };
    let answer = answer.with("cache-control: no-store".to_owned());
    match nonce(site, rules) {
        Some(nonce) => answer.with(format!("dpop-nonce: {nonce}")),
        None => answer,
    }
}

fn nonce(site: &Site, rules: &ProviderRules) -> Option<String> {
    (rules.proofs == ProofRule::Nonce).then(|| format!("provider-{}", site.state().nonce))
}

/// The thumbprint of the key that a request is proven with; `None` without a proof, or where none is read.
fn key(site: &Site, rules: &ProviderRules, request: &Request) -> Result<Option<String>, TokenError> {
    if rules.proofs == ProofRule::Absent {
        return Ok(None);
    }
    let url = format!("{}{}/token", site.origins().back, rules.path);
    let expected = ExpectedProof { request, url, token: None, nonce: nonce(site, rules) };
    check(site, &expected).map_err(|error| match error {
        ProofError::Wrong(why) => refusal("invalid_dpop_proof", why),
        ProofError::Nonce => refusal("use_dpop_nonce", "the proof needs another nonce"),
    })
}

fn written(rules: &ProviderRules, pair: &TokenPair) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("access_token".to_owned(), json!(pair.access));
    if !rules.token_type.is_empty() {
        let kind = if pair.is_bound { "DPoP" } else { rules.token_type };
        members.insert("token_type".to_owned(), json!(kind));
    }
    if let Some(life) = rules.lifetime.filter(|_| rules.says_lifetime) {
        members.insert("expires_in".to_owned(), json!(life));
    }
    if let Some(refresh) = &pair.refresh {
        members.insert("refresh_token".to_owned(), json!(refresh));
    }
    let scope = match rules.scopes.answer {
        ScopeAnswer::Spaces => Some(pair.scopes.join(" ")).filter(|scope| !scope.is_empty()),
        ScopeAnswer::Commas => Some(pair.scopes.join(",")),
        ScopeAnswer::Empty => Some(String::new()),
        ScopeAnswer::Absent => None,
    };
    if let Some(scope) = scope {
        members.insert("scope".to_owned(), json!(scope));
    }
    members
}

fn issue(site: &Site, rules: &ProviderRules, request: &Request) -> Result<TokenPair, TokenError> {
    let form = Form::parse(&String::from_utf8_lossy(&request.body));
    let sender = sender(site, request, &form)?;
    if rules.resource == ResourceRule::Refusal && form.count("resource") > 0 {
        return Err(refusal("invalid_target", "AADSTS9010010: the resource parameter is not supported"));
    }
    let sender = Sender { key: key(site, rules, request)?, ..sender };
    match form.get("grant_type") {
        Some("authorization_code") => redeem(site, rules, &sender, &form),
        Some("refresh_token") => refresh(site, rules, &sender, &form),
        _ => Err(refusal("unsupported_grant_type", "a code or a refresh token")),
    }
}

fn redeem(site: &Site, rules: &ProviderRules, sender: &Sender, form: &Form) -> Result<TokenPair, TokenError> {
    let (mut state, now) = (site.state(), site.now());
    let redeemed = state.redeem(form.get("code").unwrap_or_default(), now);
    let redeemed = redeemed.ok_or_else(|| refusal("invalid_grant", "the code is not valid"))?;
    let asked = &redeemed.authorization;
    let verifier = form.get("code_verifier").unwrap_or_default();
    let is_proven = match rules.pkce {
        PkceRule::S256 | PkceRule::Silent => URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)) == asked.challenge,
        PkceRule::Plain => verifier == asked.challenge,
        PkceRule::Absent => true,
    };
    if !is_proven || asked.client != sender.client || form.get("redirect_uri") != Some(asked.redirect.as_str()) {
        return Err(refusal("invalid_grant", "the code was for another client, redirect or verifier"));
    }
    same_resource(form, &asked.audience, rules)?;
    state.bind(redeemed.grant, sender.key.clone());
    Ok(state.issue(redeemed.grant, None, rules, now))
}

fn refresh(site: &Site, rules: &ProviderRules, sender: &Sender, form: &Form) -> Result<TokenPair, TokenError> {
    let (mut state, now) = (site.state(), site.now());
    let token = form.get("refresh_token").unwrap_or_default();
    let not_valid = || refusal(rules.refresh.error, "the refresh token is not valid");
    let grant = state.grant_of(token).filter(|grant| grant.client == sender.client).ok_or_else(not_valid)?;
    same_resource(form, &grant.audience, rules)?;
    if rules.proofs != ProofRule::Absent && grant.key != sender.key {
        return Err(refusal("invalid_dpop_proof", "the refresh token is bound to another key"));
    }
    let wanted = form.get("scope").unwrap_or_default().split_whitespace();
    if wanted.into_iter().any(|scope| !grant.scopes.iter().any(|granted| granted == scope)) {
        return Err(refusal("invalid_scope", "a refresh asks for no more than was granted"));
    }
    let grant = state.refresh(token, rules, now).ok_or_else(not_valid)?;
    state.counters.refreshes += 1;
    Ok(state.issue(grant, Some(token), rules, now))
}

/// A provider that binds tokens to servers wants the server in each request.
fn same_resource(form: &Form, audience: &Audience, rules: &ProviderRules) -> Result<(), TokenError> {
    let Audience::Resource(resource) = audience else { return Ok(()) };
    if rules.resource == ResourceRule::Required && form.get("resource") != Some(resource.as_str()) {
        return Err(refusal("invalid_target", "`resource` is missing or another one"));
    }
    Ok(())
}

/// Who sent a form, with a proof where the client has a secret.
pub(super) fn sender(site: &Site, request: &Request, form: &Form) -> Result<Sender, TokenError> {
    let stranger = |description| TokenError { status: 401, error: "invalid_client", description };
    let basic = request.header("authorization").and_then(|header| header.strip_prefix("Basic "));
    let sender = match basic {
        Some(_) if form.count("client_secret") > 0 => {
            return Err(refusal("invalid_request", "Client must not use multiple authentication methods"));
        }
        Some(basic) => {
            let text = STANDARD.decode(basic).map_err(|_| stranger("no Basic credentials"))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let (id, secret) = text.split_once(':').ok_or_else(|| stranger("no Basic credentials"))?;
            Sender { client: decoded(id), secret: Some(decoded(secret)), method: "client_secret_basic", key: None }
        }
        None => Sender {
            client: form.get("client_id").unwrap_or_default().to_owned(),
            secret: form.get("client_secret").map(str::to_owned),
            method: "client_secret_post",
            key: None,
        },
    };
    let state = site.state();
    let client = state.clients.get(&sender.client).ok_or_else(|| stranger("the client is not known"))?;
    if client.secret != sender.secret {
        return Err(stranger("the client secret is missing or wrong"));
    }
    let is_proper = client.method.as_ref().is_none_or(|method| sender.secret.is_none() || *method == sender.method);
    if is_proper { Ok(sender) } else { Err(stranger("the client registered another method")) }
}

fn refusal(error: &'static str, description: &'static str) -> TokenError {
    TokenError { status: 400, error, description }
}

// === impl TokenError ===

impl TokenError {
    pub(super) fn to_answer(&self) -> Answer {
        Answer::json(self.status, &json!({"error": self.error, "error_description": self.description}))
    }
}
