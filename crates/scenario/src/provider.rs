//! Mock identity providers: authorization servers in this process, whose tokens mock servers and the gateway check. They
//! keep to the specifications; what a scenario changes is their clock, their errors and which tokens are taken back.

mod endpoint;
mod jws;
mod ledger;
mod metadata;
mod refusal;
mod tls;
mod token;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock as _, SystemClock, Timestamp};
use toolcrib_transport::http::server;
use url::Url;

use jws::Signer;
use ledger::{Code, Ledger};
use refusal::Refusal;

pub(crate) use endpoint::bearer;
pub(crate) use ledger::{Bearer, Injection};

/// How long access tokens last where the scenario does not say.
pub(crate) const LIFETIME: Duration = Duration::from_secs(3_600);
/// The claim by which the gateway of a scenario knows what is granted to a user.
pub(crate) const ROLE_CLAIM: &str = "toolcrib_scenario_role";
/// Who logs in where no step says.
pub(crate) const SOMEONE: &str = "test-user";

/// What a scenario says of a provider.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "they are the flags of the scenario's form")]
pub(crate) struct ProviderSettings {
    pub(crate) name: String,
    /// The scopes that it knows; any where there are none.
    pub(crate) scopes: Vec<String>,
    /// Whether a session at it is enough for another login.
    pub(crate) approves: bool,
    pub(crate) wants_pkce: bool,
    pub(crate) lifetime: Duration,
    /// The client that is registered by hand.
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<String>,
    /// What the token endpoint answers to everything.
    pub(crate) error: Option<String>,
    pub(crate) has_mock_clock: bool,
    /// Whether its access tokens open the gateway.
    pub(crate) is_of_gateway: bool,
    pub(crate) trusted: Vec<TrustedIssuer>,
    pub(crate) has_tls: bool,
    /// Whether access tokens are signed.
    pub(crate) signs: bool,
}

/// An issuer whose tokens a provider exchanges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrustedIssuer {
    pub(crate) connector: String,
    pub(crate) provider: String,
}

/// A running provider. It ends with its scope.
#[derive(Debug)]
pub(crate) struct Provider {
    settings: ProviderSettings,
    /// Its identifier, which is where it listens.
    issuer: String,
    /// The certificate that its clients must trust, where it has one.
    authority: Option<String>,
    signer: Signer,
    ledger: Mutex<Ledger>,
    /// The providers whose tokens it exchanges, once all of them run.
    trusted: OnceLock<Vec<(String, Weak<Provider>)>>,
    /// For whom access tokens are that are asked for without a `resource`; the gateway's own provider has some.
    audiences: OnceLock<Vec<String>>,
}

/// Why a person is not sent back to the client with a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotApproved(pub(crate) String);

// === impl Provider ===

impl Provider {
    /// Starts to listen on a port that the system chooses.
    pub(crate) async fn start(settings: ProviderSettings, scope: &Scope) -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let provider = if settings.has_tls {
            let front = tls::listen(address, scope).await?;
            let authority = Some(front.authority);
            Self { authority, ..Self::new(settings, format!("https://{}", front.address)) }
        } else {
            Self::new(settings, format!("http://{address}"))
        };
        let provider = Arc::new(provider);
        let answering = Arc::clone(&provider);
        scope.spawn(server::serve(listener, scope.clone(), move |_, request| {
            let provider = Arc::clone(&answering);
            async move { endpoint::answer(&provider, request).await }
        }));
        Ok(provider)
    }

    fn new(settings: ProviderSettings, issuer: String) -> Self {
        let (ledger, signer) = (Mutex::default(), Signer::new());
        Self { settings, issuer, authority: None, signer, ledger, trusted: OnceLock::new(), audiences: OnceLock::new() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// Its identifier.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The certificate that its clients must trust, where it has one.
    pub(crate) fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    pub(crate) fn settings(&self) -> &ProviderSettings {
        &self.settings
    }

    /// Where its tokens are given out.
    pub(crate) fn token_endpoint(&self) -> String {
        format!("{}{}", self.issuer, metadata::TOKEN)
    }

    /// Registers a client that asks about tokens; gives its secret.
    pub(crate) fn add_client(&self, id: &str) -> String {
        let secret = toolcrib_base::random::hex_128();
        self.ledger().clients.insert(id.to_owned(), Some(secret.clone()));
        secret
    }

    /// Tells it which of `all` are the issuers that it trusts. Once.
    pub(crate) fn meet(&self, all: &[Arc<Provider>]) {
        let one = |trusted: &TrustedIssuer| {
            let found = all.iter().find(|provider| provider.name() == trusted.provider)?;
            Some((trusted.connector.clone(), Arc::downgrade(found)))
        };
        let _ = self.trusted.set(self.settings.trusted.iter().filter_map(one).collect());
    }

    /// Tells it for whom tokens are that name no resource. Once.
    pub(crate) fn serve_audiences(&self, audiences: Vec<String>) {
        let _ = self.audiences.set(audiences);
    }

    fn trusted(&self) -> &[(String, Weak<Provider>)] {
        self.trusted.get().map(Vec::as_slice).unwrap_or_default()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What time it is here.
    fn now(&self) -> Timestamp {
        let ahead = self.ledger().ahead;
        Timestamp(SystemClock.now().0.saturating_add(ahead))
    }

    /// Puts its clock forward; an error where it has the clock of everyone.
    pub(crate) fn advance(&self, time: Duration) -> Result<(), String> {
        if !self.settings.has_mock_clock {
            return Err(format!("the clock of `{}` cannot be put forward: it lacks `use_mock_clock`", self.name()));
        }
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let mut ledger = self.ledger();
        ledger.ahead = ledger.ahead.saturating_add(millis);
        Ok(())
    }

    /// Whether an address is a page of this provider where logins begin.
    pub(crate) fn asks_at(&self, url: &Url) -> bool {
        url.origin().ascii_serialization() == self.issuer && url.path() == metadata::AUTHORIZE
    }

    /// A person with a session here says yes to what a client asks for: where the browser is sent then.
    pub(crate) fn approve(&self, url: &Url, bearer: &Bearer) -> Result<String, NotApproved> {
        self.authorize(url, Some(bearer))
    }

    fn authorize(&self, url: &Url, bearer: Option<&Bearer>) -> Result<String, NotApproved> {
        let field = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        let refuse = |why: &str| Err(NotApproved(why.to_owned()));
        let Some(client) = field("client_id").filter(|client| self.knows_client(client)) else {
            return refuse("the client is not known");
        };
        let redirect = field("redirect_uri").and_then(|redirect| Url::parse(&redirect).ok());
        let Some(redirect) = redirect.filter(is_of_this_machine) else {
            return refuse("the redirect URL is not one of this machine");
        };
        let challenge = field("code_challenge").unwrap_or_default();
        let is_proper = challenge.is_empty() || field("code_challenge_method").as_deref() == Some("S256");
        if field("response_type").as_deref() != Some("code") || !is_proper {
            return refuse("expected `response_type=code` and PKCE with S256");
        }
        if self.settings.wants_pkce && challenge.is_empty() {
            return refuse("PKCE is required");
        }
        let Some(bearer) = bearer else { return refuse("the person has not approved") };
        let code = Code {
            client,
            redirect: redirect.to_string(),
            challenge,
            scopes: self.granted(&field("scope").unwrap_or_default()),
            resource: field("resource"),
            bearer: bearer.clone(),
            nonce: field("nonce"),
            at: self.now(),
        };
        let code = self.ledger().add_code(code);
        let mut back = redirect;
        back.query_pairs_mut().append_pair("code", &code).append_pair("iss", &self.issuer);
        if let Some(state) = field("state") {
            back.query_pairs_mut().append_pair("state", &state);
        }
        Ok(back.into())
    }

    /// The scopes that are granted of those that are asked for; all that it knows where none is.
    fn granted(&self, asked: &str) -> Vec<String> {
        let known = &self.settings.scopes;
        let asked: Vec<&str> = asked.split_whitespace().collect();
        if asked.is_empty() {
            return known.clone();
        }
        let is_known = |scope: &&&str| known.is_empty() || known.iter().any(|known| known == **scope);
        asked.iter().filter(is_known).map(|scope| (*scope).to_owned()).collect()
    }

    fn knows_client(&self, client: &str) -> bool {
        self.settings.client_id.as_deref() == Some(client) || self.ledger().clients.contains_key(client)
    }

    /// An access token for a user of the gateway, as after a login there.
    pub(crate) fn sign_in(&self, bearer: &Bearer) -> String {
        let client = self.settings.client_id.clone().unwrap_or_else(|| "toolcrib-scenario".to_owned());
        let scopes =
            if self.settings.scopes.is_empty() { vec!["openid".to_owned()] } else { self.settings.scopes.clone() };
        let audiences = self.audiences.get().cloned().unwrap_or_default();
        self.issue(&client, bearer, &scopes, &audiences)
    }

    /// A signed token with claims that a scenario writes; `typ` is that of its header.
    pub(crate) fn mint(&self, claims: &Map<String, Value>, typ: &str) -> String {
        let (now, life) = (SystemClock.now().0 / 1_000, self.life());
        let mut all =
            json!({ "iss": self.issuer, "iat": now, "exp": now + life, "jti": toolcrib_base::random::hex_128() });
        let members = all.as_object_mut().expect("it was written as an object");
        members.extend(claims.clone());
        let claims = members.clone();
        let token = self.signer.sign(typ, &claims);
        let ends = Timestamp(self.now().0.saturating_add(life * 1_000));
        self.ledger().keep(token.clone(), claims, ends);
        token
    }

    /// The claims of an access token that counts now.
    pub(crate) fn claims(&self, token: &str) -> Option<Map<String, Value>> {
        let now = self.now();
        self.ledger().claims(token, now)
    }

    /// Why a token does not count.
    pub(crate) fn why_not(&self, token: &str) -> &'static str {
        let now = self.now();
        self.ledger().why_not(token, now)
    }

    /// Takes back every token that is for one of `audiences`, or all tokens; how many counted until now.
    pub(crate) fn revoke_all(&self, audience: Option<&str>) -> usize {
        let now = self.now();
        self.ledger().revoke_all(audience, now)
    }

    /// Answers the next code with this very token.
    pub(crate) fn inject(&self, injection: Injection) {
        self.ledger().injection = Some(injection);
    }

    /// Seconds that access tokens last.
    fn life(&self) -> i64 {
        i64::try_from(self.settings.lifetime.as_secs()).unwrap_or(i64::MAX)
    }

    /// A new access token.
    fn issue(&self, client: &str, bearer: &Bearer, scopes: &[String], audiences: &[String]) -> String {
        let claims = self.access_claims(client, bearer, scopes, audiences);
        let ends = Timestamp(self.now().0.saturating_add(self.life() * 1_000));
        // Those of the gateway's users say whose they are to whomever they are passed on to.
        let token = match self.settings.signs || self.settings.is_of_gateway {
            true => self.signer.sign("at+jwt", &claims),
            false => toolcrib_base::random::token().expose().to_owned(),
        };
        self.ledger().keep(token.clone(), claims, ends);
        token
    }

    /// Times are those of everyone: the mock clock counts here, not where tokens are read.
    fn access_claims(
        &self,
        client: &str,
        bearer: &Bearer,
        scopes: &[String],
        audiences: &[String],
    ) -> Map<String, Value> {
        let now = SystemClock.now().0 / 1_000;
        let mut claims = bearer.claims();
        let more = json!({
            "iss": self.issuer, "aud": audiences, "client_id": client, "scope": scopes.join(" "),
            "iat": now, "exp": now + self.life(), "jti": toolcrib_base::random::hex_128(),
        });
        claims.extend(more.as_object().cloned().unwrap_or_default());
        claims
    }
}

/// Loopback, as clients of this machine have it (RFC 8252, section 7.3).
fn is_of_this_machine(url: &Url) -> bool {
    matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]")) && url.fragment().is_none()
}

#[cfg(test)]
mod tests;
