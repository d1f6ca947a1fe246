//! The switches of a simulated remote: each says in what it differs from the specifications. The default is a remote
//! that keeps to all of them. What the switches do is in `provider/endpoint/` and `provider/resource.rs`.

use serde_json::Value;

/// A remote: a protected MCP server and the provider that it trusts.
#[derive(Clone, Debug, Default)]
pub struct RemoteRules {
    /// The authorization server.
    pub provider: ProviderRules,
    /// The protected MCP server.
    pub server: ServerRules,
    /// The provider lives at the MCP server's own origin, as the first revision with authorization had it.
    pub one_origin: bool,
}

/// The switches of an authorization server.
#[derive(Clone, Debug)]
pub struct ProviderRules {
    /// The host of the issuer where the remote has names: `github.com`.
    pub host: &'static str,
    /// Another host for the token, registration and revocation endpoints; empty for none.
    pub back_host: &'static str,
    /// The path of the issuer, `/login/oauth`; empty for none.
    pub path: &'static str,
    /// What its metadata says that it is called.
    pub issuer: StatedIssuer,
    /// Where its metadata lie.
    pub metadata: Vec<MetadataPlace>,
    /// How its metadata are answered.
    pub document: DocumentForm,
    /// Members that replace those of its metadata; `null` removes one.
    pub edits: Value,
    /// What it knows of PKCE.
    pub pkce: PkceRule,
    /// Who may register.
    pub registration: Registration,
    /// The clients that an administrator has registered.
    pub clients: Vec<ClientEntry>,
    /// Which redirects it accepts.
    pub redirects: RedirectRule,
    /// What access tokens are.
    pub tokens: TokenForm,
    /// What it knows of tokens that are bound to keys.
    pub proofs: ProofRule,
    /// How it writes tokens.
    pub answers: AnswerForm,
    /// How it writes errors.
    pub errors: ErrorForm,
    /// What it does with `resource`.
    pub resource: ResourceRule,
    /// Which scopes it takes.
    pub scopes: ScopeRule,
    /// When it gives a refresh token, and for how long that lives.
    pub refresh: RefreshRule,
    /// Seconds that an access token lives; `None` for ever.
    pub lifetime: Option<u32>,
    /// Whether answers say how long a token lives.
    pub says_lifetime: bool,
    /// `token_type` of its answers; empty for none.
    pub token_type: &'static str,
    /// What it says of itself in the redirect (RFC 9207).
    pub iss: IssRule,
    /// A `prompt=consent` ends in an error: only an administrator may consent.
    pub refuses_forced_consent: bool,
    /// Whether there is a revocation endpoint.
    pub revocation: bool,
    /// What a person sees whose client is not known.
    pub unknown_client: Page,
}

/// A client that was registered by hand.
#[derive(Clone, Debug, Default)]
pub struct ClientEntry {
    /// `client_id`.
    pub id: &'static str,
    /// Asked for at the token endpoint; empty for a public client.
    pub secret: &'static str,
    /// The redirects that were entered.
    pub redirects: Vec<String>,
}

/// What metadata say of their issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatedIssuer {
    /// The one that they were asked for.
    Same,
    /// The same with a slash at its end, as is everything that names it.
    Slash,
    /// The origin alone, although the issuer has a path.
    Origin,
    /// Any other text.
    Other(&'static str),
}

/// A place for the metadata of an authorization server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataPlace {
    /// `/.well-known/oauth-authorization-server` before the issuer's path (RFC 8414).
    OAuthInserted,
    /// The same after the issuer's path.
    OAuthAppended,
    /// `/.well-known/openid-configuration` before the issuer's path.
    OpenIdInserted,
    /// The same after the issuer's path (OpenID Connect Discovery).
    OpenIdAppended,
    /// RFC 8414's name at the origin of the MCP server.
    Server,
    /// Any path.
    Path(&'static str),
}

/// How a document is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentForm {
    /// As it should be.
    Json,
    /// 302 to this address.
    Redirect(&'static str),
    /// A body without an end.
    Endless,
    /// A page that is no JSON, with status 200.
    Html,
    /// JSON deeper than anyone needs.
    Deep,
    /// This status and no more.
    Status(u16),
}

/// What a provider knows of PKCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PkceRule {
    /// It says S256 and checks it.
    S256,
    /// It checks S256, and its metadata do not say so.
    Silent,
    /// It says and checks `plain` only.
    Plain,
    /// It neither says nor checks anything.
    Absent,
}

/// Who may register, and what comes back.
#[derive(Clone, Debug, PartialEq)]
pub enum Registration {
    /// Anyone, as the client wants it.
    Open,
    /// There is no endpoint.
    Absent,
    /// Anyone; each client gets a secret and has to use it, whatever it asked for.
    SecretAlways,
    /// The same, and the answer says `none`.
    SecretForNone,
    /// Anyone; members that are none of client metadata (RFC 7591) are refused.
    KnownMembers,
    /// The endpoint is there and answers everyone like this.
    Refusal(Page),
}

/// A fixed answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The HTTP status.
    pub status: u16,
    /// The media type.
    pub media_type: &'static str,
    /// The body.
    pub body: &'static str,
}

/// Which redirects a provider accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectRule {
    /// Those of the client, letter by letter.
    Exact,
    /// The same; of loopback addresses any port (RFC 8252 §7.3).
    AnyLoopbackPort,
    /// No loopback address, although it can be registered.
    NoLoopback,
    /// Those of the client; of loopback addresses only `localhost`.
    LocalhostName,
}

/// What access tokens are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenForm {
    /// Texts that mean something to their provider alone.
    Opaque,
    /// JWTs (RFC 9068), whose keys the provider publishes.
    Jwt,
}

/// What a provider or a server knows of tokens that are bound to keys (DPoP, RFC 9449).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofRule {
    /// Nothing.
    Absent,
    /// It says so, and takes requests with a proof and without.
    Offered,
    /// The same; a proof has to name its nonce.
    Nonce,
}

/// How a provider writes tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// JSON.
    Json,
    /// A form, unless JSON is asked for.
    FormByDefault,
    /// A form, whatever is asked for.
    Form,
}

/// How a token endpoint writes errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorForm {
    /// Status 400 or 401 and `error`.
    Standard,
    /// Status 200 and `error`, in the form of answers.
    Success,
    /// Status 200, `"ok": false` and `error`; tokens come with `"ok": true`.
    NotOk,
}

/// What a provider does with `resource` (RFC 8707).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceRule {
    /// It goes into the token; without one there is no token for any server.
    Required,
    /// Not read; tokens are for every server.
    Unread,
    /// An error.
    Refusal,
    /// Not read: `audience` names the server, and without one tokens are for none.
    Audience,
}

/// Which scopes a provider takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScopeRule {
    /// An authorization without scopes is an error.
    pub required: bool,
    /// Any other is `invalid_scope`; empty for all.
    pub known: &'static [&'static str],
    /// What its metadata list; empty for no such member.
    pub supported: &'static [&'static str],
    /// How answers say what was granted.
    pub answer: ScopeAnswer,
}

/// How a provider says which scopes it granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScopeAnswer {
    /// As RFC 6749 §5.1 has it.
    #[default]
    Spaces,
    /// With commas.
    Commas,
    /// An empty text.
    Empty,
    /// Not at all, also when it granted less.
    Absent,
}

/// When a provider gives a refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshRule {
    /// On which condition.
    pub condition: RefreshCondition,
    /// What a refresh does to the token.
    pub rotation: Rotation,
    /// The error of a refresh token that is not valid.
    pub error: &'static str,
}

/// On which condition a provider gives a refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshCondition {
    /// Always.
    Always,
    /// For the scope `offline_access`.
    OfflineScope,
    /// For `access_type=offline` in the authorization.
    OfflineParameter,
    /// Never.
    Never,
}

/// What a refresh does to the refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// It stays; answers do not repeat it.
    Unchanged,
    /// A new one; who sends an old one ends the grant.
    Strict,
    /// A new one; an old one is valid for so many seconds more.
    Grace(u32),
}

/// What a provider says of itself in the redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssRule {
    /// Nothing, and its metadata do not promise it.
    Absent,
    /// Its issuer, as its metadata promise.
    Issuer,
    /// Another issuer: the answer of a provider that was mixed up.
    Other(&'static str),
    /// Nothing, although its metadata promise it.
    Broken,
}

/// The switches of a protected MCP server.
#[derive(Clone, Debug)]
pub struct ServerRules {
    /// Its host where the remote has names: `api.githubcopilot.com`.
    pub host: &'static str,
    /// The path of its endpoint.
    pub path: &'static str,
    /// Where its metadata lie (RFC 9728).
    pub metadata: Vec<ResourcePlace>,
    /// How its metadata name the issuer.
    pub issuer: StatedIssuer,
    /// Its metadata name it without the slash at the end of its path.
    pub drops_slash: bool,
    /// How its metadata are answered.
    pub document: DocumentForm,
    /// Members that replace those of its metadata; `null` removes one.
    pub edits: Value,
    /// What a 401 says.
    pub challenge: Challenge,
    /// The scope that a challenge asks for; empty for none.
    pub challenge_scope: &'static str,
    /// What its metadata list; empty for no such member.
    pub scopes_supported: &'static [&'static str],
    /// What needs a token.
    pub locked: LockedPart,
    /// The scope that calls need on top; empty for none.
    pub call_scope: &'static str,
    /// How a token without that scope is refused.
    pub scope_refusal: ScopeRefusal,
    /// What it knows of tokens that are bound to keys.
    pub proofs: ProofRule,
    /// It refuses every message but `initialize` that names no session.
    pub sessions: bool,
}

/// A place for the metadata of a protected server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourcePlace {
    /// `/.well-known/oauth-protected-resource` before the server's path.
    Inserted,
    /// The same at the root.
    Root,
    /// [`ResourcePlace::Inserted`] is a redirect to the root.
    Redirect,
    /// Any path.
    Path(&'static str),
}

/// What a 401 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// `Bearer` and the address of the first place of the metadata.
    Metadata,
    /// `Bearer` and this address.
    Address(&'static str),
    /// `Bearer` alone.
    Plain,
    /// No header.
    Absent,
}

/// What of a server needs a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockedPart {
    /// Every message.
    Everything,
    /// Only `tools/call`.
    Calls,
}

/// How a token without a scope is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeRefusal {
    /// 403 with `insufficient_scope` and the scopes of the call.
    Challenge,
    /// 403 and a word.
    Text,
}

impl Default for ProviderRules {
    fn default() -> Self {
        Self {
            host: "login.example",
            back_host: "",
            path: "",
            issuer: StatedIssuer::Same,
            metadata: vec![MetadataPlace::OAuthInserted],
            document: DocumentForm::Json,
            edits: Value::Null,
            pkce: PkceRule::S256,
            registration: Registration::Open,
            clients: Vec::new(),
            redirects: RedirectRule::Exact,
            tokens: TokenForm::Opaque,
            proofs: ProofRule::Absent,
            answers: AnswerForm::Json,
            errors: ErrorForm::Standard,
            resource: ResourceRule::Required,
            scopes: ScopeRule::default(),
            refresh: RefreshRule::default(),
            lifetime: Some(3_600),
            says_lifetime: true,
            token_type: "Bearer",
            iss: IssRule::Absent,
            refuses_forced_consent: false,
            revocation: true,
            unknown_client: Page { status: 400, media_type: "text/html", body: "<h1>Unknown client</h1>" },
        }
    }
}

impl Default for RefreshRule {
    fn default() -> Self {
        Self { condition: RefreshCondition::Always, rotation: Rotation::Strict, error: "invalid_grant" }
    }
}

impl Default for ServerRules {
    fn default() -> Self {
        Self {
            host: "mcp.example",
            path: "/mcp",
            metadata: vec![ResourcePlace::Inserted],
            issuer: StatedIssuer::Same,
            drops_slash: false,
            document: DocumentForm::Json,
            edits: Value::Null,
            challenge: Challenge::Metadata,
            challenge_scope: "",
            scopes_supported: &[],
            locked: LockedPart::Everything,
            call_scope: "",
            scope_refusal: ScopeRefusal::Challenge,
            proofs: ProofRule::Absent,
            sessions: false,
        }
    }
}
