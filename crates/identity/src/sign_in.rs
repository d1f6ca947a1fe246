//! People sign in to our pages at an issuer: the authorization code flow of OpenID Connect with PKCE, a nonce and a state
//! that only the browser has in which it was begun.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use toolcrib_auth::jose::SignedToken;
use toolcrib_base::{Secret, random};
use toolcrib_transport::http::checked::is_loopback;
use url::Url;

use crate::bearers::{BearerKind, ProvenToken};
use crate::claims::{Claims, Source};
use crate::form::{self, Sender};
use crate::identities::{Identities, Issuer};
use crate::issuer::SignInClient;
use crate::known;
use crate::metadata::Metadata;
use crate::sign_ins::SignInTokens;
use crate::token::{KnownToken, TokenRefusal};

/// Signs people in to pages.
pub trait SignIn: std::fmt::Debug + Send + Sync {
    /// The names of the issuers at which people can sign in.
    fn names(&self) -> Vec<&str>;

    /// Begins a sign-in at an issuer, whose answer is to come to `redirect`.
    ///
    /// # Errors
    /// The issuer cannot be used now.
    fn begin<'a>(&'a self, issuer: &'a str, redirect: &'a str) -> SignInFuture<'a, SignInStart>;

    /// Ends a sign-in: who it is.
    ///
    /// # Errors
    /// The answer is not the one that was awaited, or proves nothing.
    fn complete<'a>(&'a self, begun: &'a SignInState, answer: &'a SignInAnswer) -> SignInFuture<'a, Arc<KnownToken>>;
}

/// A step of a sign-in.
pub type SignInFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SignInError>> + Send + 'a>>;

/// Where the browser goes, and what it keeps.
#[derive(Debug, Clone)]
pub struct SignInStart {
    /// The issuer's page.
    pub url: String,
    /// What the browser that goes there keeps, and no one else learns.
    pub state: SignInState,
}

/// What must come back in the browser in which a sign-in was begun.
#[derive(Debug, Clone)]
pub struct SignInState {
    /// The name of the issuer.
    pub issuer: String,
    /// The random value of which everything else is made.
    pub seed: Secret,
    /// Where the answer comes.
    pub redirect: String,
}

/// What the issuer's page had the browser bring.
#[derive(Debug, Clone, Default)]
pub struct SignInAnswer {
    /// `code`.
    pub code: Option<Secret>,
    /// `state`.
    pub state: Option<String>,
    /// `iss` (RFC 9207).
    pub issuer: Option<String>,
    /// `error`.
    pub error: Option<String>,
}

/// Why no one is signed in. No text repeats anything secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// No issuer of this name takes sign-ins.
    #[error("there is no sign-in at `{0}`")]
    Unknown(String),
    /// The answer belongs to no sign-in of this browser.
    #[error("the answer belongs to no sign-in of this browser")]
    Browser,
    /// The issuer, or the person there, said no.
    #[error("the provider refused the sign-in: {0}")]
    Refused(String),
    /// What the issuer answered proves nothing.
    #[error("the provider's answer proves nothing: {0}")]
    Answer(String),
    /// The issuer cannot be asked now.
    #[error("the provider cannot be asked now")]
    Unavailable,
}

/// Where an issuer gives tokens, and as which client it is asked.
struct TokenEndpoint<'a> {
    identities: &'a Identities,
    issuer: &'a Issuer,
    client: &'a SignInClient,
}

/// A code that becomes an ID token.
struct CodeExchange<'a> {
    identities: &'a Identities,
    issuer: &'a Issuer,
    client: &'a SignInClient,
    begun: &'a SignInState,
}

// === impl SignInState ===

impl SignInState {
    fn new(issuer: &str, redirect: &str) -> Self {
        Self { issuer: issuer.to_owned(), seed: random::token(), redirect: redirect.to_owned() }
    }

    /// A value of the sign-in, from which no other one can be computed.
    fn value(&self, purpose: &str) -> String {
        let hash = Sha256::new().chain_update(purpose).chain_update([0]).chain_update(self.seed.expose());
        URL_SAFE_NO_PAD.encode(hash.finalize())
    }
}

// === impl SignIn for the issuers ===

impl SignIn for Identities {
    fn names(&self) -> Vec<&str> {
        let issuers = self.issuers.iter().filter(|issuer| issuer.settings.sign_in.is_some());
        issuers.map(|issuer| &*issuer.settings.name).collect()
    }

    fn begin<'a>(&'a self, issuer: &'a str, redirect: &'a str) -> SignInFuture<'a, SignInStart> {
        Box::pin(async move {
            let (issuer, client) = self.at(issuer)?;
            let metadata = metadata(issuer).await?;
            let state = SignInState::new(&issuer.settings.name, redirect);
            let url = page(issuer, client, &metadata, &state).ok_or_else(|| {
                let why = "its metadata names no page to sign in that can be opened".to_owned();
                tracing::warn!(issuer = issuer.settings.issuer, error = why, "people cannot sign in");
                SignInError::Answer(why)
            })?;
            Ok(SignInStart { url: url.into(), state })
        })
    }

    fn complete<'a>(&'a self, begun: &'a SignInState, answer: &'a SignInAnswer) -> SignInFuture<'a, Arc<KnownToken>> {
        Box::pin(async move {
            let (issuer, client) = self.at(&begun.issuer)?;
            let awaited = Secret::new(begun.value("state"));
            if !answer.state.as_ref().is_some_and(|state| awaited.matches(state)) {
                return Err(SignInError::Browser);
            }
            let metadata = metadata(issuer).await?;
            match &answer.issuer {
                Some(stated) if *stated != issuer.settings.issuer => {
                    return Err(SignInError::Answer("it comes from another issuer".to_owned()));
                }
                None if metadata.names_itself => {
                    return Err(SignInError::Answer("it does not say from which issuer it comes".to_owned()));
                }
                _ => {}
            }
            if let Some(error) = &answer.error {
                return Err(SignInError::Refused(shown(error)));
            }
            let code = answer.code.as_ref().ok_or_else(|| SignInError::Answer("it has no code".to_owned()))?;
            let exchange = CodeExchange { identities: self, issuer, client, begun };
            let tokens = exchange.redeem(&metadata, code).await?;
            let known = exchange.signed_in(tokens.id_token.expose()).await?;
            self.sign_ins.put(&known.id, tokens, self.clock.now());
            Ok(known)
        })
    }
}

impl Identities {
    fn at(&self, name: &str) -> Result<(&Issuer, &SignInClient), SignInError> {
        let issuer = self.issuers.iter().find(|issuer| *issuer.settings.name == *name);
        let found = issuer.and_then(|issuer| Some((issuer, issuer.settings.sign_in.as_ref()?)));
        found.ok_or_else(|| SignInError::Unknown(shown(name)))
    }
}

// === impl CodeExchange ===

impl CodeExchange<'_> {
    /// The tokens for a code.
    async fn redeem(&self, metadata: &Metadata, code: &Secret) -> Result<SignInTokens, SignInError> {
        let Self { identities, issuer, client, begun } = self;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", &begun.redirect),
            ("code_verifier", &begun.value("verifier")),
        ];
        TokenEndpoint { identities, issuer, client }.ask(metadata, &fields).await
    }

    /// Who an ID token says that it is.
    async fn signed_in(&self, raw: &str) -> Result<Arc<KnownToken>, SignInError> {
        let Self { identities, issuer, client, begun } = self;
        let (token, claims) = TokenEndpoint { identities, issuer, client }.read(raw)?;
        let nonce = Secret::new(begun.value("nonce"));
        let stated = token.claims().get("nonce").and_then(Value::as_str);
        if !stated.is_some_and(|stated| nonce.matches(stated)) {
            return Err(SignInError::Answer("the token belongs to another sign-in".to_owned()));
        }
        TokenEndpoint { identities, issuer, client }.verify(&token).await?;
        let hash = known::hash(raw);
        let proven = ProvenToken { token: raw, hash: &hash, claims: &claims, kind: BearerKind::Id };
        identities.bearers.keep(proven, identities.clock.now());
        Ok(Arc::new(claims.known))
    }
}

/// The tokens that come in the place of those of a sign-in.
pub(crate) async fn renewed(
    identities: &Identities,
    before: &SignInTokens,
    refresh: &Secret,
) -> Result<SignInTokens, SignInError> {
    let (issuer, client) = identities.at(&before.issuer)?;
    let endpoint = TokenEndpoint { identities, issuer, client };
    let metadata = metadata(issuer).await?;
    let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
    let after = endpoint.ask(&metadata, &fields).await?;
    let subject = |token: &SignedToken<'_>| token.claims().get("sub").cloned();
    let (token, _) = endpoint.read(after.id_token.expose())?;
    let is_same = SignedToken::parse(before.id_token.expose()).is_ok_and(|before| subject(&before) == subject(&token));
    if !is_same {
        return Err(SignInError::Answer("the token is for someone else than the one who signed in".to_owned()));
    }
    endpoint.verify(&token).await?;
    // Without another one it stays (RFC 6749, section 6).
    Ok(SignInTokens { refresh: after.refresh.or_else(|| Some(refresh.clone())), ..after })
}

// === impl TokenEndpoint ===

impl TokenEndpoint<'_> {
    /// What the endpoint gives for these fields.
    async fn ask(&self, metadata: &Metadata, fields: &[(&str, &str)]) -> Result<SignInTokens, SignInError> {
        let Self { identities, issuer, client } = self;
        let unavailable = |why: String| {
            tracing::warn!(issuer = issuer.settings.issuer, error = why, "people cannot sign in");
            SignInError::Unavailable
        };
        let secret = match &client.secret {
            None => None,
            Some(secret) => {
                let secret = Arc::clone(secret);
                let read = tokio::task::spawn_blocking(move || secret.read()).await;
                Some(read.map_err(|error| unavailable(error.to_string()))?.map_err(unavailable)?)
            }
        };
        let sender = Sender { id: &client.id, secret: secret.as_ref(), takes_basic: metadata.token_takes_basic };
        let endpoint = metadata.token.as_deref().unwrap_or_default();
        let request = form::request(endpoint, &sender, fields).map_err(unavailable)?;
        let response = identities.client.send(issuer.policy, request).await;
        let response = response.map_err(|error| unavailable(error.to_string()))?;
        let answer: Map<String, Value> = serde_json::from_slice(response.body()).unwrap_or_default();
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        match (response.status(), text("id_token")) {
            (StatusCode::OK, Some(token)) => Ok(SignInTokens {
                issuer: issuer.settings.name.clone(),
                id_token: Secret::new(token),
                refresh: text("refresh_token").map(Secret::new),
            }),
            (StatusCode::OK, None) => Err(SignInError::Answer("it has no ID token".to_owned())),
            (StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                let error = text("error").unwrap_or_else(|| "it does not accept the code".to_owned());
                Err(SignInError::Refused(shown(&error)))
            }
            (status, _) => Err(unavailable(format!("its token endpoint answers with status {}", status.as_u16()))),
        }
    }

    /// What an ID token says, if it is for us (OpenID Connect Core, section 3.1.3.7). Its signature is another matter.
    fn read<'t>(&self, raw: &'t str) -> Result<(SignedToken<'t>, Claims), SignInError> {
        let Self { identities, issuer, client } = self;
        let wrong = |why: &str| SignInError::Answer(why.to_owned());
        let token = SignedToken::parse(raw).map_err(|error| wrong(&error.to_string()))?;
        if ["jwk", "jku", "x5u"].iter().any(|name| token.has_header(name)) {
            return Err(wrong("the token brings its own key"));
        }
        let claims = Claims::read(token.claims(), &issuer.settings, Source::SignIn, identities.clock.now());
        let claims = claims.map_err(|why| wrong(&why))?;
        let text = |name: &str| token.claims().get(name).and_then(Value::as_str);
        let is_ours = claims.audiences.iter().any(|audience| **audience == *client.id)
            && match text("azp") {
                Some(party) => party == client.id,
                None => claims.audiences.len() == 1,
            };
        if !is_ours {
            return Err(wrong("the token is for another client"));
        }
        Ok((token, claims))
    }

    /// Whether the issuer signed it.
    async fn verify(&self, token: &SignedToken<'_>) -> Result<(), SignInError> {
        let verified = self.issuer.keys.verify(token, &self.identities.scope).await;
        verified.map_err(|refusal| match refusal {
            TokenRefusal::Unavailable(_) => SignInError::Unavailable,
            other => SignInError::Answer(other.to_string()),
        })
    }
}

async fn metadata(issuer: &Issuer) -> Result<Metadata, SignInError> {
    issuer.keys.metadata().await.map_err(|why| {
        tracing::warn!(issuer = issuer.settings.issuer, error = why, "people cannot sign in");
        SignInError::Unavailable
    })
}

/// The issuer's page with all that it must know.
fn page(issuer: &Issuer, client: &SignInClient, metadata: &Metadata, state: &SignInState) -> Option<Url> {
    let mut url = Url::parse(metadata.authorization.as_deref()?).ok()?;
    let is_fine = match url.scheme() {
        "https" => true,
        "http" => issuer.policy.allows_loopback && is_loopback(&url),
        _ => false,
    };
    if !is_fine || !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return None;
    }
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(state.value("verifier")));
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.id)
        .append_pair("redirect_uri", &state.redirect)
        .append_pair("scope", &client.scopes.join(" "))
        .append_pair("state", &state.value("state"))
        .append_pair("nonce", &state.value("nonce"))
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256");
    Some(url)
}

/// A text of a stranger, short and without surprises.
fn shown(text: &str) -> String {
    text.chars().filter(|character| character.is_ascii_graphic() || *character == ' ').take(100).collect()
}
