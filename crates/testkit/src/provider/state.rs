//! What a provider remembers: clients, codes, grants and tokens.

use std::collections::{BTreeMap, BTreeSet};

use super::jwt::KeyRing;
use super::rules::{ProofRule, ProviderRules, Rotation, TokenForm};
use serde_json::{Value, json};
use toolcrib_base::clock::Timestamp;

/// Every secret that a remote gives starts so.
pub const SECRET_MARK: &str = "SIMULATED-SECRET";

/// An authorization code is valid for so many seconds.
const CODE_LIFE: u64 = 60;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) clients: BTreeMap<String, Client>,
    pub(super) prompts: BTreeMap<String, Prompt>,
    pub(super) counters: Counters,
    /// The ids of the proofs that came.
    pub(super) proofs: BTreeSet<String>,
    /// How often the nonce has changed.
    pub(super) nonce: usize,
    codes: BTreeMap<String, Code>,
    grants: Vec<Grant>,
    tokens: BTreeMap<String, Token>,
    keys: KeyRing,
    serial: u64,
}

/// What was asked for, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) accepted: usize,
    pub(super) refused: usize,
    pub(super) refreshes: usize,
    pub(super) registrations: usize,
    pub(super) revocations: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Asked for at the token endpoint.
    pub(super) secret: Option<String>,
    pub(super) redirects: Vec<String>,
    /// `client_secret_basic` or `client_secret_post`, where only one will do.
    pub(super) method: Option<String>,
}

/// What a person is asked.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    /// The cookie of the browser that was asked.
    pub(super) browser: String,
    pub(super) authorization: Authorization,
}

/// An authorization, as a client asked for it.
#[derive(Clone, Debug)]
pub(super) struct Authorization {
    pub(super) client: String,
    pub(super) redirect: String,
    pub(super) state: String,
    pub(super) challenge: String,
    pub(super) scopes: Vec<String>,
    pub(super) audience: Audience,
    pub(super) may_refresh: bool,
}

/// For whom tokens are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    Everyone,
    Nobody,
    Resource(String),
}

#[derive(Debug)]
struct Code {
    authorization: Authorization,
    issued: Timestamp,
    /// The grant, once it was used.
    grant: Option<usize>,
}

/// What a person has allowed.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) client: String,
    pub(super) scopes: Vec<String>,
    pub(super) audience: Audience,
    pub(super) may_refresh: bool,
    /// The thumbprint of the key that its tokens are bound to.
    pub(super) key: Option<String>,
    has_ended: bool,
}

#[derive(Clone, Debug)]
struct Token {
    grant: usize,
    is_refresh: bool,
    issued: Timestamp,
    /// Seconds; for ever without.
    life: Option<u32>,
    /// When another one took its place.
    retired: Option<Timestamp>,
}

/// What a token endpoint gives.
#[derive(Debug)]
pub(super) struct TokenPair {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) is_bound: bool,
}

// === impl State ===

impl State {
    /// A new text that nobody else has; it is a secret.
    pub(super) fn secret(&mut self, kind: &str) -> String {
        self.serial += 1;
        format!("{SECRET_MARK}-{kind}-{}", self.serial)
    }

    /// A new text that nobody else has.
    pub(super) fn name(&mut self, kind: &str) -> String {
        self.serial += 1;
        format!("{kind}-{}", self.serial)
    }

    /// A code for what a person allowed.
    pub(super) fn code(&mut self, authorization: Authorization, now: Timestamp) -> String {
        let code = self.secret("code");
        self.codes.insert(code.clone(), Code { authorization, issued: now, grant: None });
        code
    }

    /// Uses a code: the authorization and its new grant. A code that was used before ends what came of it.
    pub(super) fn redeem(&mut self, code: &str, now: Timestamp) -> Option<Redemption> {
        let code = self.codes.get_mut(code)?;
        if let Some(grant) = code.grant {
            self.grants[grant].has_ended = true;
            return None;
        }
        if now.since(code.issued) > CODE_LIFE * 1_000 {
            return None;
        }
        let authorization = code.authorization.clone();
        let grant = self.grants.len();
        code.grant = Some(grant);
        self.grants.push(Grant {
            client: authorization.client.clone(),
            scopes: authorization.scopes.clone(),
            audience: authorization.audience.clone(),
            may_refresh: authorization.may_refresh,
            key: None,
            has_ended: false,
        });
        Some(Redemption { authorization, grant })
    }

    /// Binds the tokens of a grant to the key of this thumbprint.
    pub(super) fn bind(&mut self, grant: usize, key: Option<String>) {
        self.grants[grant].key = key;
    }

    /// Uses a refresh token: its grant, if it is valid. One that was rotated out ends its grant.
    pub(super) fn refresh(&mut self, token: &str, rules: &ProviderRules, now: Timestamp) -> Option<usize> {
        let token = self.tokens.get(token).filter(|token| token.is_refresh)?;
        let grant = token.grant;
        let is_late = token.retired.is_some_and(|retired| match rules.refresh.rotation {
            Rotation::Unchanged => false,
            Rotation::Strict => true,
            Rotation::Grace(seconds) => now.since(retired) > u64::from(seconds) * 1_000,
        });
        if is_late {
            self.grants[grant].has_ended = true;
        }
        (!self.grants[grant].has_ended).then_some(grant)
    }

    /// New tokens of a grant; `spent` is the refresh token that was used for them.
    pub(super) fn issue(
        &mut self,
        grant: usize,
        spent: Option<&str>,
        rules: &ProviderRules,
        now: Timestamp,
    ) -> TokenPair {
        let access = self.secret("access");
        self.tokens.insert(
            access.clone(),
            Token { grant, is_refresh: false, issued: now, life: rules.lifetime, retired: None },
        );
        let is_kept = spent.is_some() && rules.refresh.rotation == Rotation::Unchanged;
        let mut refresh = None;
        if self.grants[grant].may_refresh && !is_kept {
            let token = self.secret("refresh");
            self.tokens
                .insert(token.clone(), Token { grant, is_refresh: true, issued: now, life: None, retired: None });
            refresh = Some(token);
            if let Some(spent) = spent.and_then(|spent| self.tokens.get_mut(spent)) {
                spent.retired.get_or_insert(now);
            }
        }
        let grant = &self.grants[grant];
        let is_bound = grant.key.is_some() && rules.proofs != ProofRule::Absent;
        TokenPair { access, refresh, scopes: grant.scopes.clone(), is_bound }
    }

    /// The keys that access tokens are signed with.
    pub(super) fn keys(&mut self) -> &mut KeyRing {
        &mut self.keys
    }

    /// Gives an access token in the form of the rules: the text that it was is its `jti` then.
    pub(super) fn formed(&mut self, access: String, issuer: &str, rules: &ProviderRules) -> String {
        if rules.tokens == TokenForm::Opaque {
            return access;
        }
        let Some(token) = self.tokens.remove(&access) else { return access };
        let grant = &self.grants[token.grant];
        let issued = token.issued.0 / 1_000;
        let audience = match &grant.audience {
            Audience::Resource(resource) => json!(resource),
            Audience::Everyone | Audience::Nobody => Value::Null,
        };
        let claims = json!({
            "iss": issuer,
            "sub": "someone",
            "aud": audience,
            "client_id": grant.client,
            "scope": grant.scopes.join(" "),
            "iat": issued,
            "exp": token.life.map(|life| issued + i64::from(life)),
            "jti": access,
        });
        let signed = self.keys.sign(&claims);
        self.tokens.insert(signed.clone(), token);
        signed
    }

    /// The grant of an access token that is valid now.
    pub(super) fn granted(&self, access: &str, now: Timestamp) -> Option<&Grant> {
        let token = self.tokens.get(access).filter(|token| !token.is_refresh)?;
        let is_old = token.life.is_some_and(|life| now.since(token.issued) >= u64::from(life) * 1_000);
        let grant = &self.grants[token.grant];
        (!is_old && !grant.has_ended && token.retired.is_none()).then_some(grant)
    }

    /// The grant of any token, valid or not.
    pub(super) fn grant_of(&self, token: &str) -> Option<&Grant> {
        self.tokens.get(token).map(|token| &self.grants[token.grant])
    }

    /// Takes a token back; a refresh token takes its whole grant along.
    pub(super) fn revoke(&mut self, token: &str, now: Timestamp) {
        if let Some(token) = self.tokens.get_mut(token) {
            token.retired = Some(now);
            if token.is_refresh {
                self.grants[token.grant].has_ended = true;
            }
        }
    }

    /// Ends every grant, as a person does in the settings of an account.
    pub(super) fn end_grants(&mut self) {
        self.grants.iter_mut().for_each(|grant| grant.has_ended = true);
    }

    /// How many grants have not ended.
    pub(super) fn live_grants(&self) -> usize {
        self.grants.iter().filter(|grant| !grant.has_ended).count()
    }
}

/// A code that was used.
#[derive(Debug)]
pub(super) struct Redemption {
    pub(super) authorization: Authorization,
    /// The number of the new grant.
    pub(super) grant: usize,
}
