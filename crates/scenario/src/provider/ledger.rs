//! What a provider remembers: clients, codes, tokens, and how far its clock is ahead.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use toolcrib_base::{Timestamp, random};

use super::ROLE_CLAIM;

/// How long an authorization code lasts (RFC 6749, section 4.1.2), in milliseconds.
const CODE: u64 = 60_000;

/// Who logs in, and what the gateway of the scenario grants to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) subject: String,
    /// The role, where the bearer is a user of the gateway.
    pub(crate) role: Option<&'static str>,
}

/// A token that a step wrote: what the next code is answered with.
#[derive(Debug, Clone)]
pub(crate) struct Injection {
    pub(crate) token: String,
    pub(crate) scopes: Option<Vec<String>>,
    /// Seconds.
    pub(crate) lifetime: Option<i64>,
}

/// A code and what it was asked for with.
#[derive(Debug, Clone)]
pub(super) struct Code {
    pub(super) client: String,
    pub(super) redirect: String,
    /// Empty without PKCE.
    pub(super) challenge: String,
    pub(super) scopes: Vec<String>,
    pub(super) resource: Option<String>,
    pub(super) bearer: Bearer,
    pub(super) nonce: Option<String>,
    pub(super) at: Timestamp,
}

/// What a refresh token stands for.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) client: String,
    pub(super) scopes: Vec<String>,
    pub(super) audiences: Vec<String>,
    pub(super) bearer: Bearer,
}

#[derive(Debug)]
struct AccessToken {
    claims: Map<String, Value>,
    ends: Timestamp,
    is_revoked: bool,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Milliseconds that its clock is ahead of everyone's.
    pub(super) ahead: i64,
    /// Clients that registered themselves, with their secrets.
    pub(super) clients: HashMap<String, Option<String>>,
    pub(super) injection: Option<Injection>,
    codes: HashMap<String, Code>,
    tokens: HashMap<String, AccessToken>,
    refresh: HashMap<String, Grant>,
}

// === impl Bearer ===

impl Bearer {
    pub(super) fn claims(&self) -> Map<String, Value> {
        let email = match self.subject.contains('@') {
            true => self.subject.clone(),
            false => format!("{}@example.com", self.subject),
        };
        let mut claims = json!({
            "sub": self.subject, "name": self.subject, "email": email, "email_verified": true, "groups": [],
        });
        if let Some(role) = self.role {
            claims[ROLE_CLAIM] = json!([role]);
        }
        claims.as_object().cloned().unwrap_or_default()
    }
}

// === impl Ledger ===

impl Ledger {
    pub(super) fn add_code(&mut self, code: Code) -> String {
        let name = random::hex_128();
        self.codes.insert(name.clone(), code);
        name
    }

    /// Uses a code, which counts once.
    pub(super) fn redeem(&mut self, code: &str, now: Timestamp) -> Option<Code> {
        self.codes.remove(code).filter(|code| now.since(code.at) <= CODE)
    }

    pub(super) fn keep(&mut self, token: String, claims: Map<String, Value>, ends: Timestamp) {
        self.tokens.insert(token, AccessToken { claims, ends, is_revoked: false });
    }

    pub(super) fn claims(&self, token: &str, now: Timestamp) -> Option<Map<String, Value>> {
        let token = self.tokens.get(token)?;
        (!token.is_revoked && token.ends > now).then(|| token.claims.clone())
    }

    pub(super) fn why_not(&self, token: &str, now: Timestamp) -> &'static str {
        match self.tokens.get(token) {
            None => "the token is not known",
            Some(token) if token.is_revoked => "the token was revoked",
            Some(token) if token.ends <= now => "the token has expired",
            Some(_) => "the token is not for this",
        }
    }

    pub(super) fn add_grant(&mut self, grant: Grant) -> String {
        let token = random::hex_128();
        self.refresh.insert(token.clone(), grant);
        token
    }

    /// Uses a refresh token, which is rotated.
    pub(super) fn take_grant(&mut self, token: &str) -> Option<Grant> {
        self.refresh.remove(token)
    }

    /// Takes one token back, whatever its kind.
    pub(super) fn revoke(&mut self, token: &str) {
        if let Some(token) = self.tokens.get_mut(token) {
            token.is_revoked = true;
        }
        self.refresh.remove(token);
    }

    pub(super) fn revoke_all(&mut self, audience: Option<&str>, now: Timestamp) -> usize {
        let mut count = 0;
        for token in self.tokens.values_mut() {
            let is_meant = audience.is_none_or(|audience| is_for(&token.claims, audience));
            if is_meant && !token.is_revoked {
                count += usize::from(token.ends > now);
                token.is_revoked = true;
            }
        }
        let is_meant =
            |grant: &Grant| audience.is_none_or(|audience| grant.audiences.iter().any(|own| own == audience));
        self.refresh.retain(|_, grant| !is_meant(grant));
        count
    }
}

/// Whether `aud` of a token has this value.
pub(super) fn is_for(claims: &Map<String, Value>, audience: &str) -> bool {
    match claims.get("aud") {
        Some(Value::String(own)) => own == audience,
        Some(Value::Array(all)) => all.iter().any(|own| own == audience),
        _ => false,
    }
}
