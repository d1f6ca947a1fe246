//! A server with a clock of its own, a client, a browser, and a person.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use toolcrib_auth::jose::SigningKey;
use toolcrib_auth::{KeyPreference, Sealer, Vault};
use toolcrib_authorization::{
    AuthorizationServer, AuthorizeRefusal, BrowserPerson, ClientSettings, Consent, ConsentChoice, ConsentPrompt,
    ConsentStep, DocumentFetch, FetchDocuments, FindGrants, OAuthError, ReturnStep, ServerParts, ServerSettings,
    TokenRequest,
};
use toolcrib_base::{Clock, Identity, ManualClock, PrincipalId, ProfileName, Proof, Role, Secret, Timestamp};
use toolcrib_identity::{
    BearerKind, BearerToken, CheckStatements, IssuerStatement, KeepSignIns, KnownToken, PresentedToken, ProveTokens,
    ReadSecret, Resource, SignInError, SignInFuture, SignInTokens, StatementCheck, TokenCheck, TokenGrant,
    TokenRefusal,
};
use toolcrib_store::{AuditFilter, AuditLog, AuditOrder, Config, Store, StoreError};
use url::{Url, form_urlencoded};

pub(crate) const ORIGIN: &str = "https://tools.example.com";
pub(crate) const CLIENT: &str = "editor";
pub(crate) const REDIRECT: &str = "https://editor.example/callback";
pub(crate) const DOCUMENT: &str = "https://hosted.example/client.json";
/// The address of a client whose keys are at another one.
pub(crate) const SIGNED: &str = "https://signed.example/client.json";
/// The public key of the client of [`SIGNED`] (RSA), and a statement of that client about itself, signed with PS256 by
/// another program, because nothing here makes such signatures.
pub(crate) const RSA_KEY: &str = "\
     uZztDx7x-5wbwTZNWpIFlJ99nJqOhK8u0sVGLgN292hyDg5CPOZ2vSQ3AMHmVnPSSmHfNSt5WNe4cJBam5nO95c2lIofUY1GUDRb\
     _ZXqXDCe5vnWOyG-_GALyKEY6aMPVDCbrEBzd5sd-B_zjz5u8d8qjBRkLhTGJjuKVfuWLDo048SCONAHf_p_5FAjbv1t97FU6H0z\
     2UG12IlzLUowi4upX0ZLK1l2gdODBy_e-hEq7mfMVpbeQwK5m2bJrL6FwBw1g31VLFOkscGVVCwLvnzQzqlk20c6HShf6TQJoFyx\
     OFsvd7boFGuw9qKin6f1WoOpuCG4epLGjBP744AFJQ";
pub(crate) const PS256_STATEMENT: &str = "\
     eyJhbGciOiJQUzI1NiIsImtpZCI6InBzIn0.eyJpc3MiOiJodHRwczovL3NpZ25lZC5leGFtcGxlL2NsaWVudC5qc29uIiwic3Vi\
     IjoiaHR0cHM6Ly9zaWduZWQuZXhhbXBsZS9jbGllbnQuanNvbiIsImF1ZCI6Imh0dHBzOi8vdG9vbHMuZXhhbXBsZS5jb20iLCJp\
     YXQiOjE4MDAwMDAwMDAsImV4cCI6MTgwMDAwMDMwMCwianRpIjoicHMtMSJ9.eF7DYysKEVfl9moTTNE7A9bWpVSnflNxaeb81A9\
     jMTiCL4-uxGPNrayYDhC57xNRV1cTp8ewocvtYlFuY99k1KsWfJOnLqJakdTIeC8hATdoRQg1QWCSL5iFXC3n-A-m7zNOzD1epxU\
     NH78-KJU86B5NelNdLmj5dnm7tpMZuFI0oNQVXer0fYekDBKUzFaGKLRwyRIKyRJQUSf-qks2sutt1oYGIoznK7qkjO-M4xPd2hs\
     F79AU5tcUPEgGGhz9fK4saVj1vajKRuGqcIksj9qwFXcd54-Ai7iWDLOMJv-GnUGHA8vvmMYKs7nA_SiTNbkhoiMFhkRyypZSfSt\
     N_w";
pub(crate) const VERIFIER: &str = "a-verifier-that-has-more-than-forty-two-characters";
const NOW: i64 = 1_800_000_000_000;

/// Knows no tokens of others.
#[derive(Debug)]
struct Outside;

impl ProveTokens for Outside {
    fn known(&self, _: &str, _: &Resource<'_>, _: Timestamp) -> Option<Arc<KnownToken>> {
        None
    }

    fn prove<'a>(&'a self, _: PresentedToken<'a>) -> TokenCheck<'a> {
        Box::pin(std::future::ready(Err(TokenRefusal::Invalid("not ours".to_owned()))))
    }

    fn issuers(&self) -> Vec<String> {
        vec!["https://login.example.com".to_owned()]
    }

    fn proof_algorithms(&self) -> &[&'static str] {
        &[]
    }
}

/// The documents of clients; nothing else is fetched.
#[derive(Debug)]
pub(crate) struct ClientDocuments {
    /// The only address that the client of [`DOCUMENT`] names for answers.
    pub(crate) redirect: Mutex<&'static str>,
}

impl FetchDocuments for ClientDocuments {
    fn fetch<'a>(&'a self, url: &'a Url) -> DocumentFetch<'a> {
        let document = json!({
            "client_id": DOCUMENT, "client_name": "Hosted", "redirect_uris": [*self.redirect.lock().unwrap()],
        });
        let signed = json!({
            "client_id": SIGNED, "client_name": "Signed", "redirect_uris": ["https://signed.example/callback"],
            "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://keys.example/keys.json",
        });
        let keys = json!({"keys": [{"kty": "RSA", "kid": "ps", "n": RSA_KEY, "e": "AQAB"}]});
        let answer = match url.as_str() {
            DOCUMENT => Ok(document.to_string().into_bytes()),
            SIGNED => Ok(signed.to_string().into_bytes()),
            "https://keys.example/keys.json" => Ok(keys.to_string().into_bytes()),
            _ => Err("it answers with status 404".to_owned()),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// The provider at which people have signed in: each token is the next number, and lasts an hour.
#[derive(Debug)]
pub(crate) struct Provider {
    clock: Arc<ManualClock>,
    /// Which numbers were given, with their ends.
    given: Mutex<Vec<Timestamp>>,
    /// What it says instead of another token.
    pub(crate) refuses: Mutex<Option<SignInError>>,
}

impl Provider {
    fn next(&self) -> SignInTokens {
        let mut given = self.given.lock().unwrap();
        given.push(Timestamp(self.clock.now().0 + 3_600_000));
        let number = given.len();
        let (id_token, refresh) = (Secret::new(format!("id-{number}")), Some(Secret::new(format!("refresh-{number}"))));
        SignInTokens { issuer: "acme".into(), id_token, refresh }
    }

    /// How many tokens it gave.
    pub(crate) fn count(&self) -> usize {
        self.given.lock().unwrap().len()
    }
}

impl KeepSignIns for Provider {
    fn taken(&self, principal: &PrincipalId) -> Option<SignInTokens> {
        (principal.as_str() == "user:acme/ann").then(|| self.next())
    }

    fn bearer(&self, tokens: &SignInTokens) -> Option<BearerToken> {
        let number: usize = tokens.id_token.expose().strip_prefix("id-")?.parse().ok()?;
        let expires = *self.given.lock().unwrap().get(number - 1)?;
        Some(BearerToken::new(tokens.id_token.clone(), BearerKind::Id, "https://login.example.com", expires))
    }

    fn renew<'a>(&'a self, _: &'a SignInTokens) -> SignInFuture<'a, SignInTokens> {
        let refused = self.refuses.lock().unwrap().clone();
        Box::pin(std::future::ready(refused.map_or_else(|| Ok(self.next()), Err)))
    }
}

/// Takes `statement:<user>:<client>:<id>` for statements of `acme`.
impl CheckStatements for Outside {
    fn check<'a>(&'a self, statement: &'a str, audience: &'a str) -> StatementCheck<'a> {
        let parts: Vec<&str> = statement.split(':').collect();
        let checked = match parts[..] {
            ["statement", user, client, id] if audience == ORIGIN => {
                let known = known(user);
                let identity = Identity { client: Some(client.into()), ..(*known.identity).clone() };
                let known = Arc::new(KnownToken { identity: Arc::new(identity), ..known });
                let resource = Some(format!("{ORIGIN}/mcp/p/work"));
                Ok(IssuerStatement { known, id: id.to_owned(), resource, scope: None })
            }
            _ => Err("its signature is wrong".to_owned()),
        };
        Box::pin(std::future::ready(checked))
    }
}

/// A secret of the settings.
#[derive(Debug)]
struct Password;

impl ReadSecret for Password {
    fn read(&self) -> Result<Secret, String> {
        Ok(Secret::new("s3cret"))
    }
}

impl FindGrants for Outside {
    fn grants(&self, principal: &PrincipalId, _: &Identity) -> Vec<TokenGrant> {
        match principal.as_str() {
            "user:acme/ann" => vec![grant()],
            _ => Vec::new(),
        }
    }
}

/// What Ann may do.
pub(crate) fn grant() -> TokenGrant {
    TokenGrant { role: Role::Member, profiles: vec![ProfileName::new("work").unwrap()] }
}

/// Someone of `acme`.
pub(crate) fn known(name: &str) -> KnownToken {
    let identity = Identity { issuer: Some("acme".into()), ..Identity::by(Proof::Page) };
    KnownToken {
        id: PrincipalId::new(&format!("user:acme/{name}")),
        identity: Arc::new(identity),
        scopes: Vec::new(),
        expires: Timestamp(NOW + 3_600_000),
        grants: if name == "ann" { vec![grant()] } else { Vec::new() },
    }
}

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) server: AuthorizationServer,
    pub(crate) audit: AuditLog,
    pub(crate) browser: Secret,
    folder: TempDir,
    sealer: Sealer,
    sign_in: Vec<String>,
    registration: bool,
    /// The key of the client `signer`.
    pub(crate) key: SigningKey,
    pub(crate) provider: Arc<Provider>,
    pub(crate) hosted: Arc<ClientDocuments>,
}

impl World {
    /// Where the owner approves.
    pub(crate) fn of_owner() -> Self {
        Self::new(&[], false)
    }

    /// Where people sign in at `acme`.
    pub(crate) fn of_team() -> Self {
        Self::new(&["acme"], false)
    }

    pub(crate) fn with_registration() -> Self {
        Self::new(&[], true)
    }

    fn new(sign_in: &[&str], registration: bool) -> Self {
        let (folder, clock) = (TempDir::new().unwrap(), Arc::new(ManualClock::at(Timestamp(NOW))));
        let vault = Vault::new(folder.path(), None);
        let sealer = vault.sealer(KeyPreference::File).unwrap();
        let sign_in: Vec<String> = sign_in.iter().map(|name| (*name).to_owned()).collect();
        let key = SigningKey::read(&SigningKey::generate()).unwrap();
        let provider =
            Arc::new(Provider { clock: Arc::clone(&clock), given: Mutex::default(), refuses: Mutex::default() });
        let hosted = Arc::new(ClientDocuments { redirect: Mutex::new("https://hosted.example/callback") });
        let variant = Variant { sign_in: &sign_in, registration, key: &key, provider: &provider, hosted: &hosted };
        let (server, audit) = open(&folder, &sealer, &clock, variant);
        let browser = Secret::new("toolcrib-consent-1=2");
        Self { clock, server, audit, browser, folder, sealer, sign_in, registration, key, provider, hosted }
    }

    /// Whether a text stands readable in a file of the state.
    pub(crate) fn has_on_disk(&self, text: &str) -> bool {
        let files = std::fs::read_dir(self.folder.path().join("state")).unwrap().flatten();
        let mut texts = files.filter_map(|file| std::fs::read(file.path()).ok());
        texts.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }

    /// What the database has on the disk.
    pub(crate) fn state_files(&self) -> Vec<Vec<u8>> {
        let files = std::fs::read_dir(self.folder.path().join("state")).unwrap();
        files.filter_map(|file| std::fs::read(file.unwrap().path()).ok()).collect()
    }

    /// The same after a restart.
    pub(crate) fn restarted(self) -> Self {
        let Self { clock, server, audit, browser, folder, sealer, sign_in, registration, key, provider, hosted } = self;
        drop((server, audit));
        let variant = Variant { sign_in: &sign_in, registration, key: &key, provider: &provider, hosted: &hosted };
        let (server, audit) = open(&folder, &sealer, &clock, variant);
        Self { clock, server, audit, browser, folder, sealer, sign_in, registration, key, provider, hosted }
    }

    /// What is on record: method, principal, decision and outcome of each event.
    pub(crate) async fn recorded(&self) -> Vec<String> {
        self.audit.flush().await.unwrap();
        let order = AuditOrder::OldestFirst { after: 0 };
        let rows = self.audit.list(&AuditFilter { order, limit: 100, ..AuditFilter::default() }).unwrap();
        rows.iter().map(|row| format!("{} {} {} {}", row.method, row.principal, row.decision, row.outcome)).collect()
    }

    /// A request of the client of the settings, with some parameters changed; an empty one is left out.
    pub(crate) async fn asked(&self, changes: &[(&str, &str)]) -> Result<ConsentPrompt, AuthorizeRefusal> {
        self.server.authorize(&query(changes), &self.browser).await
    }

    pub(crate) async fn said(
        &self,
        prompt: &ConsentPrompt,
        choice: ConsentChoice,
    ) -> Result<ConsentStep, AuthorizeRefusal> {
        self.said_in(prompt, choice, &self.browser).await
    }

    /// What comes of the form in a browser.
    pub(crate) async fn said_in(
        &self,
        prompt: &ConsentPrompt,
        choice: ConsentChoice,
        browser: &Secret,
    ) -> Result<ConsentStep, AuthorizeRefusal> {
        let browsers = [browser.clone()];
        let consent = Consent {
            form: prompt.form.expose(),
            browsers: &browsers,
            choice,
            address: "192.0.2.1".to_owned(),
            user: None,
        };
        self.server.consent(consent).await
    }

    /// The secret name of a request that someone allowed.
    pub(crate) async fn allowed(&self, changes: &[(&str, &str)]) -> Secret {
        let prompt = self.asked(changes).await.unwrap();
        let choice = ConsentChoice::Allow { issuer: self.sign_in.first().cloned() };
        match self.said(&prompt, choice).await.unwrap() {
            ConsentStep::Wait(name) => name,
            ConsentStep::Return(url) => panic!("{url}"),
        }
    }

    pub(crate) async fn resumed(&self, name: &Secret, who: Option<&str>) -> Result<ReturnStep, AuthorizeRefusal> {
        self.resumed_in(name, who, &self.browser).await
    }

    pub(crate) async fn resumed_in(
        &self,
        name: &Secret,
        who: Option<&str>,
        browser: &Secret,
    ) -> Result<ReturnStep, AuthorizeRefusal> {
        let (browsers, known) = ([browser.clone()], who.map(known));
        self.server.resume(name.expose(), BrowserPerson { browsers: &browsers, known: known.as_ref() }).await
    }

    /// A code, once Ann or the owner has agreed.
    pub(crate) async fn code(&self, changes: &[(&str, &str)]) -> String {
        let name = self.allowed(changes).await;
        if self.sign_in.is_empty() {
            let Ok(ReturnStep::Approve { code, .. }) = self.resumed(&name, None).await else { panic!() };
            self.server.approve(code.expose(), toolcrib_authorization::ApprovalGrant::default()).await.unwrap();
        }
        match self.resumed(&name, Some("ann")).await.unwrap() {
            ReturnStep::Return(url) => parameter(&url, "code").unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// What the token endpoint answers to a code, with some parameters changed.
    pub(crate) async fn redeemed(&self, code: &str, changes: &[(&str, &str)]) -> Result<Value, OAuthError> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", CLIENT),
            ("redirect_uri", REDIRECT),
            ("code_verifier", VERIFIER),
            ("code", code),
        ];
        self.token(&changed(&fields, changes)).await
    }

    pub(crate) async fn refreshed(&self, token: &str) -> Result<Value, OAuthError> {
        let fields = [("grant_type", "refresh_token"), ("client_id", CLIENT), ("refresh_token", token)];
        self.token(&changed(&fields, &[])).await
    }

    pub(crate) async fn token(&self, form: &str) -> Result<Value, OAuthError> {
        self.server.token(TokenRequest { authorization: None, body: form.as_bytes() }).await
    }

    /// Tokens of the client.
    pub(crate) async fn tokens(&self) -> Value {
        let code = self.code(&[]).await;
        self.redeemed(&code, &[]).await.unwrap()
    }

    /// What an access token proves at a profile; why it proves nothing otherwise.
    pub(crate) async fn proves(&self, token: &str, profile: &str) -> Result<Arc<KnownToken>, String> {
        let profile = ProfileName::new(profile).unwrap();
        let resource = Resource { origin: ORIGIN, profile: &profile };
        if let Some(known) = self.server.known(token, &resource, self.clock.now()) {
            return Ok(known);
        }
        let (method, path) = ("POST", "/mcp");
        let presented = PresentedToken { token, is_dpop: false, proof: None, method, path, resource };
        self.server.prove(presented).await.map_err(|refusal| refusal.to_string())
    }
}

/// How one server differs from the others.
#[derive(Clone, Copy)]
struct Variant<'a> {
    sign_in: &'a [String],
    registration: bool,
    key: &'a SigningKey,
    provider: &'a Arc<Provider>,
    hosted: &'a Arc<ClientDocuments>,
}

fn open(
    folder: &TempDir,
    sealer: &Sealer,
    clock: &Arc<ManualClock>,
    variant: Variant<'_>,
) -> (AuthorizationServer, AuditLog) {
    let Variant { sign_in, registration, key, provider, hosted } = variant;
    let config = Config { clock: Arc::clone(clock) as Arc<dyn Clock>, ..Config::default() };
    // The threads of a store that was dropped let go of its folder a moment later.
    let store = loop {
        match Store::open(&folder.path().join("state"), config.clone()) {
            Err(StoreError::InUse { .. }) => std::thread::yield_now(),
            opened => break opened.unwrap(),
        }
    };
    let client = ClientSettings {
        id: CLIENT.into(),
        name: "Editor".into(),
        redirects: vec![REDIRECT.into(), "http://127.0.0.1/callback".into()],
        secret: None,
        keys: None,
        grant: None,
        exchanges: false,
    };
    let settings = ServerSettings {
        origin: ORIGIN.into(),
        scopes: vec!["tools".into()],
        registration,
        clients: vec![
            ClientSettings {
                id: "nightly".into(),
                secret: Some(Arc::new(Password)),
                grant: Some(grant()),
                redirects: Vec::new(),
                ..client.clone()
            },
            ClientSettings {
                id: "signer".into(),
                keys: Some(json!({ "keys": [key.public_jwk()] })),
                grant: Some(grant()),
                redirects: Vec::new(),
                ..client.clone()
            },
            ClientSettings { id: "agent".into(), secret: Some(Arc::new(Password)), exchanges: true, ..client.clone() },
            client,
        ],
        sign_in: sign_in.to_vec(),
        assertions: vec!["acme".into()],
    };
    let audit = store.audit().clone();
    let parts = ServerParts {
        settings,
        store,
        sealer: sealer.clone(),
        documents: Arc::<ClientDocuments>::clone(hosted),
        issuers: Arc::new(Outside),
        statements: Arc::new(Outside),
        grants: Arc::new(Outside),
        sign_ins: Arc::<Provider>::clone(provider),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
    };
    (AuthorizationServer::open(parts).unwrap(), audit)
}

pub(crate) fn challenge() -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER))
}

/// The query of a request, with some parameters changed; an empty one is left out.
pub(crate) fn query(changes: &[(&str, &str)]) -> String {
    let challenge = challenge();
    let resource = format!("{ORIGIN}/mcp/p/work");
    let fields = [
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", REDIRECT),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("state", "s-1"),
        ("resource", &resource),
    ];
    changed(&fields, changes)
}

fn changed(fields: &[(&str, &str)], changes: &[(&str, &str)]) -> String {
    let kept = fields.iter().filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
    let all = kept.chain(changes).filter(|(_, value)| !value.is_empty());
    form_urlencoded::Serializer::new(String::new()).extend_pairs(all).finish()
}

pub(crate) fn parameter(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).unwrap();
    url.query_pairs().find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
}

pub(crate) fn text(answer: &Value, name: &str) -> String {
    answer[name].as_str().unwrap_or_else(|| panic!("no {name} in {answer}")).to_owned()
}
