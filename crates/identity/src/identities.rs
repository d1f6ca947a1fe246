//! Proves tokens: which issuer, which keys, which claims, which proof.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use toolcrib_auth::jose::{ALGORITHMS, JoseError, SignedToken};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Identity, PrincipalId, Timestamp, own_secret};
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient};
use url::Url;

use crate::bearers::{BearerKind, BearerToken, Bearers, ProvenToken};
use crate::claims::{Claims, Source};
use crate::introspection;
use crate::issuer::{IntrospectionClient, IssuerSettings};
use crate::keys::IssuerKeys;
use crate::known::{self, Entry, KnownTokens};
use crate::proof::{ProofBearer, Proofs};
use crate::sign_ins::SignIns;
use crate::token::{KnownToken, PresentedToken, ProveTokens, Resource, TokenCheck, TokenGrant, TokenRefusal};

/// How long an issuer's answer about an opaque token counts, in milliseconds: so long it may be used after it was revoked.
const ANSWER: i64 = 60_000;
/// How long a signature counts before it is checked again, in milliseconds: its key may have been taken back.
const SIGNATURE: i64 = 600_000;
/// How many questions about opaque tokens are under way at a time.
const QUESTIONS: usize = 16;
/// The longest opaque token, in bytes.
const OPAQUE_BYTES: usize = 4 * 1024;
/// The types that say that a signed token is an access token (RFC 9068, section 2.1).
const ACCESS_TOKENS: [&str; 2] = ["at+jwt", "application/at+jwt"];
/// The type of any signed token. Many providers give it to access tokens and ID tokens alike.
const ANY_TOKEN: &str = "jwt";

/// The issuers of this gateway.
pub struct Identities {
    pub(crate) issuers: Vec<Issuer>,
    pub(crate) client: CheckedClient,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) scope: Scope,
    known: KnownTokens,
    pub(crate) bearers: Bearers,
    pub(crate) sign_ins: SignIns,
    proofs: Proofs,
    questions: Semaphore,
}

pub(crate) struct Issuer {
    pub(crate) settings: IssuerSettings,
    pub(crate) policy: AddressPolicy,
    pub(crate) keys: Arc<IssuerKeys>,
}

// === impl Identities ===

impl Identities {
    /// The tokens of these issuers count. In `scope` keys are fetched that no request waits for.
    ///
    /// # Errors
    /// The identifier of an issuer is no URL.
    pub fn new(
        issuers: Vec<IssuerSettings>,
        client: CheckedClient,
        clock: Arc<dyn Clock>,
        scope: Scope,
    ) -> Result<Self, String> {
        let issuers = issuers.into_iter().map(|settings| {
            let wrong = || format!("issuer `{}`: `{}` is not a URL", settings.name, settings.issuer);
            let url = Url::parse(&settings.issuer).map_err(|_| wrong())?;
            let policy = AddressPolicy::of(&url, settings.allows_private, "`private = true` at the issuer");
            let (client, clock) = (client.clone(), Arc::clone(&clock));
            let keys = Arc::new(IssuerKeys::new(settings.issuer.clone(), url, policy, client, clock));
            Ok(Issuer { settings, policy, keys })
        });
        Ok(Self {
            issuers: issuers.collect::<Result<_, String>>()?,
            client,
            clock,
            scope,
            known: KnownTokens::default(),
            bearers: Bearers::default(),
            sign_ins: SignIns::default(),
            proofs: Proofs::new(),
            questions: Semaphore::new(QUESTIONS),
        })
    }

    /// Whether the signed tokens that principals prove themselves with are kept, because a server wants them. Those that
    /// are there are dropped otherwise.
    pub fn keep_bearers(&self, is_wanted: bool) {
        self.bearers.want(is_wanted);
    }

    /// The signed tokens with which a principal proved itself and that are valid now, the newest first.
    pub fn bearers(&self, principal: &str) -> Vec<Arc<BearerToken>> {
        self.bearers.of(principal, self.clock.now())
    }

    /// What the settings grant to someone whom one of the issuers has proven, whatever was proven by: a token, or a sign-in
    /// that is remembered.
    pub fn grants_of(&self, principal: &PrincipalId, identity: &Identity) -> Vec<TokenGrant> {
        let name = identity.issuer.as_deref();
        let issuer = self.issuers.iter().find(|issuer| Some(&*issuer.settings.name) == name);
        issuer.map(|issuer| issuer.settings.grants_to(principal, &identity.groups)).unwrap_or_default()
    }

    async fn check(&self, presented: PresentedToken<'_>) -> Result<Arc<KnownToken>, TokenRefusal> {
        let now = self.clock.now();
        let hash = known::hash(presented.token);
        let entry = match self.known.get(&hash, now) {
            Some(entry) => entry,
            None => {
                let proven = self.claims(presented.token, &presented.resource).await;
                let (claims, until) = proven.inspect_err(|refusal| {
                    if matches!(refusal, TokenRefusal::Invalid(_)) {
                        self.bearers.forget(&hash);
                    }
                })?;
                self.known.add(hash, claims, until, now)
            }
        };
        let known = self.admit(&entry, &presented)?;
        let claims = entry.claims();
        let proven = ProvenToken { token: presented.token, hash: &hash, claims, kind: BearerKind::Access };
        self.bearers.keep(proven, now);
        Ok(known)
    }

    /// What a token says, once that is proven, and until when that counts.
    async fn claims(&self, token: &str, resource: &Resource<'_>) -> Result<(Claims, Timestamp), TokenRefusal> {
        match SignedToken::parse(token) {
            Ok(signed) => {
                let (claims, issuer) = self.signed(&signed, resource).await?;
                match issuer.settings.introspection.as_ref().filter(|ours| ours.each_request) {
                    None => Ok((claims, self.after(SIGNATURE))),
                    Some(ours) => {
                        self.ask(issuer, ours, token).await?;
                        Ok((claims, self.after(0)))
                    }
                }
            }
            Err(JoseError::NotAToken) => {
                let (claims, ours) = self.opaque(token).await?;
                Ok((claims, self.after(if ours.each_request { 0 } else { ANSWER })))
            }
            Err(error) => Err(TokenRefusal::Invalid(error.to_string())),
        }
    }

    fn after(&self, millis: i64) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_add(millis))
    }

    async fn signed(
        &self,
        token: &SignedToken<'_>,
        resource: &Resource<'_>,
    ) -> Result<(Claims, &Issuer), TokenRefusal> {
        let invalid = |why: &str| TokenRefusal::Invalid(why.to_owned());
        let source = match token.header("typ").map(str::to_ascii_lowercase).as_deref() {
            Some(kind) if ACCESS_TOKENS.contains(&kind) => Source::Token,
            Some(ANY_TOKEN) => Source::UntypedToken,
            None if !token.has_header("typ") => Source::UntypedToken,
            _ => return Err(invalid("the token is not an access token")),
        };
        // Keys come from the issuer, never from the token.
        if ["jwk", "jku", "x5u"].iter().any(|name| token.has_header(name)) {
            return Err(invalid("the token brings its own key"));
        }
        let stated = token.claims().get("iss").and_then(Value::as_str);
        let issuer = self.issuers.iter().find(|issuer| stated == Some(&issuer.settings.issuer));
        let issuer = issuer.ok_or_else(|| invalid("the token's issuer is not accepted"))?;
        // First what costs nothing: a token that is not for us makes no request.
        let claims = Claims::read(token.claims(), &issuer.settings, source, self.clock.now());
        let claims = claims.map_err(TokenRefusal::Invalid)?;
        if !claims.is_for(resource) {
            return Err(not_for_us());
        }
        issuer.keys.verify(token, &self.scope).await?;
        Ok((claims, issuer))
    }

    /// What an issuer says of an opaque token. What is another thing by its form goes to no one: a secret of this or another
    /// installation of ours, and a signed token that was cut, which says itself whose it is.
    async fn opaque(&self, token: &str) -> Result<(Claims, &IntrospectionClient), TokenRefusal> {
        if own_secret::has_form(token) || SignedToken::has_form(token) {
            return Err(not_valid());
        }
        let issuer = self.issuers.iter().find_map(|issuer| Some((issuer, issuer.settings.introspection.as_ref()?)));
        let (issuer, ours) = issuer.filter(|_| token.len() <= OPAQUE_BYTES).ok_or_else(not_valid)?;
        let claims = self.ask(issuer, ours, token).await?;
        let claims = Claims::read(&claims, &issuer.settings, Source::Introspection, self.clock.now());
        Ok((claims.map_err(TokenRefusal::Invalid)?, ours))
    }

    /// What the issuer says of a token.
    async fn ask(
        &self,
        issuer: &Issuer,
        ours: &IntrospectionClient,
        token: &str,
    ) -> Result<Map<String, Value>, TokenRefusal> {
        let unavailable = |why: String| {
            tracing::warn!(issuer = issuer.settings.issuer, error = why, "a token cannot be checked");
            TokenRefusal::Unavailable(format!("the token cannot be checked now: issuer `{}`", issuer.settings.name))
        };
        let Ok(_question) = self.questions.acquire().await else { return Err(not_valid()) };
        let metadata = issuer.keys.metadata().await.map_err(unavailable)?;
        let answer = introspection::ask(&self.client, issuer.policy, &metadata, ours, token).await;
        answer.map_err(unavailable)?.ok_or_else(not_valid)
    }

    fn admit(&self, entry: &Entry, presented: &PresentedToken<'_>) -> Result<Arc<KnownToken>, TokenRefusal> {
        let known = entry.in_resource(&presented.resource).ok_or_else(not_for_us)?;
        match (entry.bound_to(), presented.is_dpop) {
            (None, false) => {}
            (Some(key), true) => {
                let bearer = ProofBearer { principal: &known.id, key };
                self.proofs.check(presented, bearer, self.clock.now())?;
            }
            // Stolen, it would count without the key.
            (Some(_), false) => {
                return Err(TokenRefusal::Invalid("the token is bound to a key: send it with `DPoP`".to_owned()));
            }
            (None, true) => {
                return Err(TokenRefusal::Invalid("the token is bound to no key: send it with `Bearer`".to_owned()));
            }
        }
        Ok(Arc::clone(known))
    }
}

impl ProveTokens for Identities {
    fn known(&self, token: &str, resource: &Resource<'_>, now: Timestamp) -> Option<Arc<KnownToken>> {
        let hash = known::hash(token);
        let entry = self.known.get(&hash, now).filter(|entry| entry.bound_to().is_none())?;
        let known = entry.in_resource(resource).cloned()?;
        let proven = ProvenToken { token, hash: &hash, claims: entry.claims(), kind: BearerKind::Access };
        self.bearers.keep(proven, now);
        Some(known)
    }

    fn prove<'a>(&'a self, presented: PresentedToken<'a>) -> TokenCheck<'a> {
        Box::pin(self.check(presented))
    }

    fn issuers(&self) -> Vec<String> {
        self.issuers.iter().map(|issuer| issuer.settings.issuer.clone()).collect()
    }

    fn proof_algorithms(&self) -> &[&'static str] {
        if self.issuers.is_empty() { &[] } else { &ALGORITHMS }
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identities").field("issuers", &self.issuers()).finish_non_exhaustive()
    }
}

fn not_valid() -> TokenRefusal {
    TokenRefusal::Invalid("the token or key is not valid here".to_owned())
}

fn not_for_us() -> TokenRefusal {
    TokenRefusal::Invalid("the token is for another audience".to_owned())
}
