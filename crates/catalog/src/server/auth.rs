//! How a server is logged in at: the key `auth`, with muster's keys as they are. Nothing here logs in; what only the
//! provider can know is not checked.

mod machine;
mod sso;

use toolcrib_base::ProfileName;

use crate::define;
use crate::endpoint::Endpoint;
use crate::problem::masked;
use crate::reader::{Cursor, Fields, choice};
use crate::secret::SecretRef;

use super::{ADDRESS_PATTERN, Transport};

pub use machine::IdentityProvider;
pub use sso::{ClientSecretRef, Teleport, TeleportIdentity, TokenExchange};

/// What the characters of a client's id may be: RFC 6749, appendix A.1.
const CLIENT_ID: &str = "^[ -~]+$";
/// The longest client's id, in bytes: some are addresses.
const CLIENT_ID_MAX: usize = 2_048;
/// How many scopes may be asked for.
const SCOPES_MAX: usize = 256;
/// What addresses that secrets are sent to look like.
const SECURE_PATTERN: &str = "^[Hh][Tt][Tt][Pp][Ss]://";

choice! {
    /// How calls to a server prove for whom they are made.
    AuthType {
        /// By a token of an OAuth login.
        OAuth = "oauth",
        /// Not at all.
        None = "none",
        /// By a certificate of Teleport.
        Teleport = "teleport",
        /// By a token that the gateway's own client gets, the same for all callers.
        ClientCredentials = "client_credentials",
        /// By a token that the company's identity provider vouches for (enterprise-managed authorization).
        Enterprise = "enterprise",
        /// By a token for the identity that the platform gives this workload.
        Workload = "workload",
    }
}

/// How a server is logged in at. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAuth {
    pub kind: AuthType,
    /// The client that is registered at the issuer by hand.
    pub client_id: Option<String>,
    /// Where its secret is; never plain text.
    pub client_secret: Option<SecretRef>,
    /// The redirect address that is registered with it.
    pub redirect_uri: Option<Endpoint>,
    /// What is asked for instead of what the server names; also from `authorizationServer`.
    pub scopes: Vec<String>,
    /// The issuer, for a server that does not name its own; also from `authorizationServer`.
    pub issuer: Option<Endpoint>,
    /// Whether the issuer may have a private address.
    pub private: bool,
    /// Whether tokens must be bound to a key of the gateway (DPoP), or must not.
    pub dpop: Option<bool>,
    /// The profiles whose keys use the owner's login.
    pub share: Vec<ProfileName>,
    /// Whether the client's own token is passed on.
    pub forward_token: bool,
    /// Whether a login of the server's own follows where that fails.
    pub fallback_to_own_auth: bool,
    /// For whom the token that is passed on must be.
    pub required_audiences: Vec<String>,
    /// Whether it may be passed on whomever it is for.
    pub any_audience: bool,
    pub token_exchange: Option<TokenExchange>,
    /// Where tokens are got, for a server that does not name its provider.
    pub token_endpoint: Option<Endpoint>,
    /// Where the private key of the client is; never plain text.
    pub private_key: Option<SecretRef>,
    /// The id of that key at the provider.
    pub key_id: Option<String>,
    /// Where the token is that the platform gives this workload.
    pub assertion: Option<SecretRef>,
    /// Who vouches for callers, with `type: enterprise`.
    pub identity_provider: Option<IdentityProvider>,
    pub teleport: Option<Teleport>,
}

impl ServerAuth {
    /// One of which nothing is said but its type.
    pub(crate) fn plain(kind: AuthType) -> Self {
        Self {
            kind,
            client_id: None,
            client_secret: None,
            redirect_uri: None,
            scopes: Vec::new(),
            issuer: None,
            private: false,
            dpop: None,
            share: Vec::new(),
            forward_token: false,
            fallback_to_own_auth: false,
            required_audiences: Vec::new(),
            any_audience: false,
            token_exchange: None,
            token_endpoint: None,
            private_key: None,
            key_id: None,
            assertion: None,
            identity_provider: None,
            teleport: None,
        }
    }

    /// Whether it says that somebody has to log in.
    pub fn wants_login(&self) -> bool {
        self.kind == AuthType::OAuth
    }

    /// Whether callers are signed on without a person.
    pub fn signs_on(&self) -> bool {
        match self.kind {
            AuthType::OAuth => self.forward_token || self.exchanges(),
            AuthType::ClientCredentials | AuthType::Enterprise | AuthType::Workload => true,
            AuthType::None | AuthType::Teleport => false,
        }
    }

    /// Whether the caller's token is exchanged: that comes before passing it on.
    pub fn exchanges(&self) -> bool {
        self.token_exchange.as_ref().is_some_and(|exchange| exchange.enabled)
    }
}

/// The key `auth` of a server that is reached by `transport`, where that is known.
pub(super) fn read(fields: &Fields<'_>, transport: Option<&Transport>) -> Option<ServerAuth> {
    let written = fields.get("auth")?;
    let (whole, fields) = (fields.get("auth")?, written.fields()?);
    let kind = kind(&fields);
    if kind != AuthType::None && matches!(transport, Some(Transport::Stdio(_))) {
        let hint = "remove the key; a program gets its key in `env`".to_owned();
        whole.problem("belongs to `transport: http` or `sse`, this is `stdio`", Some(hint));
    }
    let (client_id, client_secret) = client(&fields);
    let own = Issuer { address: issuer(&fields), scopes: scopes(&fields) };
    let separate = sso::authorization_server(&fields);
    let auth = ServerAuth {
        kind,
        client_id,
        client_secret,
        redirect_uri: fields.get("redirect_uri").and_then(|cursor| secure(&cursor)),
        private: flag(&fields, "private"),
        dpop: fields.get("dpop").and_then(|cursor| cursor.flag()),
        share: fields.get("share").map(|cursor| profiles(&cursor)).unwrap_or_default(),
        forward_token: flag(&fields, "forwardToken"),
        fallback_to_own_auth: flag(&fields, "fallbackToOwnAuth"),
        required_audiences: fields.texts("requiredAudiences"),
        any_audience: flag(&fields, "anyAudience"),
        token_endpoint: fields.get("token_endpoint").and_then(|cursor| secure(&cursor)),
        private_key: fields.get("private_key").and_then(|cursor| own_secret(&cursor)),
        key_id: fields.text("key_id"),
        assertion: fields.get("assertion").and_then(|cursor| own_secret(&cursor)),
        identity_provider: fields.get("identityProvider").and_then(machine::identity_provider),
        token_exchange: fields.get("tokenExchange").and_then(sso::token_exchange),
        teleport: sso::teleport(&fields, kind),
        scopes: separate.as_ref().map_or(own.scopes, |it| it.scopes.clone()),
        issuer: separate.map_or(own.address, |it| it.address),
    };
    check_together(&fields, &auth);
    machine::check(&fields, &auth);
    fields.finish();
    Some(auth)
}

/// Who issues tokens, and for what.
struct Issuer {
    address: Option<Endpoint>,
    scopes: Vec<String>,
}

fn kind(fields: &Fields<'_>) -> AuthType {
    let Some(cursor) = fields.get("type") else { return AuthType::OAuth };
    // What definitions of registry entries said once.
    let is_older = cursor.node().as_text().is_some_and(|text| **text == *"oauth2");
    if is_older { AuthType::OAuth } else { cursor.choice().unwrap_or(AuthType::OAuth) }
}

/// What excludes each other.
fn check_together(fields: &Fields<'_>, auth: &ServerAuth) {
    let Some(separate) = fields.get("authorizationServer") else { return };
    for (is_there, key) in [
        (auth.forward_token, "forwardToken"),
        (auth.exchanges(), "tokenExchange"),
        (fields.has("issuer"), "issuer"),
        (fields.has("scopes"), "scopes"),
    ] {
        if is_there {
            let message = format!("`authorizationServer` and `{key}` of `auth` are mutually exclusive");
            separate.problem(message, Some("keep one of the two".to_owned()));
        }
    }
}

fn flag(fields: &Fields<'_>, key: &'static str) -> bool {
    fields.get(key).and_then(|cursor| cursor.flag()).unwrap_or(false)
}

fn client(fields: &Fields<'_>) -> (Option<String>, Option<SecretRef>) {
    let id = fields.get("client_id").and_then(|cursor| {
        let text = cursor.text()?;
        cursor.fits(CLIENT_ID);
        let is_id = !text.is_empty() && text.len() <= CLIENT_ID_MAX && text.bytes().all(|b| (b' '..=b'~').contains(&b));
        if !is_id {
            cursor.expected("the id that the provider gave to its client");
        }
        is_id.then(|| text.to_owned())
    });
    let secret = fields.get("client_secret").and_then(|cursor| {
        if !fields.has("client_id") {
            let hint = "add `client_id:` with the id that the provider gave".to_owned();
            cursor.problem("expected a `client_id` beside it, got nothing", Some(hint));
        }
        own_secret(&cursor)
    });
    (id, secret)
}

/// A secret of the gateway's own, by reference.
fn own_secret(cursor: &Cursor<'_>) -> Option<SecretRef> {
    match define::secret(cursor)? {
        SecretRef::Literal(_) => {
            let hint = "put it into the vault with `toolcrib secret set NAME`, and write `vault:NAME`".to_owned();
            cursor.problem("expected a reference such as `vault:NAME`, got a secret in plain text", Some(hint));
            None
        }
        SecretRef::User(_) => {
            let hint = "write `vault:NAME`".to_owned();
            cursor.problem("expected one secret for all callers: the client is the same", Some(hint));
            None
        }
        reference => Some(reference),
    }
}

/// An issuer is compared letter by letter with what tokens and metadata say, so it stays as it is written.
fn issuer(fields: &Fields<'_>) -> Option<Endpoint> {
    let cursor = fields.get("issuer")?;
    let address = plain_address(&cursor, ADDRESS_PATTERN)?;
    let is_good = is_secure(&address) && !address.expose().contains('?');
    if !is_good {
        cursor.expected("an `https://` address without a query (`http://` on this machine)");
    }
    is_good.then_some(address)
}

/// An address that secrets may be sent to.
pub(crate) fn secure(cursor: &Cursor<'_>) -> Option<Endpoint> {
    let address = plain_address(cursor, ADDRESS_PATTERN)?;
    let is_good = is_secure(&address);
    if !is_good {
        cursor.expected("an `https://` address, or an `http://` address of this machine");
    }
    is_good.then_some(address)
}

/// An address without secrets in it. What is wrong is not repeated: it may hold one.
fn plain_address(cursor: &Cursor<'_>, pattern: &'static str) -> Option<Endpoint> {
    let text = cursor.text()?;
    cursor.fits(pattern);
    let address = text.parse::<Endpoint>().ok();
    let is_plain = |it: &Endpoint| it.references().next().is_none() && !authority(it).contains('@');
    let address = address.filter(is_plain);
    if address.is_none() {
        cursor.expected("an address such as `https://login.example.com`, without user and references");
    }
    address
}

fn authority(address: &Endpoint) -> &str {
    let rest = address.expose().split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or_default()
}

/// Whether nobody but this machine reads what is sent there.
fn is_secure(address: &Endpoint) -> bool {
    let host = address.host().unwrap_or_default();
    let is_loopback = || {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    address.expose().to_ascii_lowercase().starts_with("https://") || is_loopback()
}

/// `scopes`: a list, or one text with spaces in between.
fn scopes(fields: &Fields<'_>) -> Vec<String> {
    let Some(cursor) = fields.get("scopes") else { return Vec::new() };
    // RFC 6749, section 3.3.
    let is_scope = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b == b'!' || (b'#'..=b'[').contains(&b) || (b']'..=b'~').contains(&b))
    };
    let scopes = cursor.words(is_scope, "a scope of printable characters without quotes and backslashes");
    if scopes.len() > SCOPES_MAX {
        cursor.problem(format!("expected at most {SCOPES_MAX} scopes, got {}", scopes.len()), None);
    }
    scopes
}

fn profiles(cursor: &Cursor<'_>) -> Vec<ProfileName> {
    let mut seen: Vec<ProfileName> = Vec::new();
    cursor.list(|item| {
        let text = item.text()?;
        item.is_name();
        let Ok(name) = ProfileName::new(text) else {
            item.expected("the name of a profile");
            return None;
        };
        if seen.contains(&name) {
            item.problem(format!("expected each profile once, got `{}` again", masked(text)), None);
        }
        seen.push(name.clone());
        Some(name)
    })
}

#[cfg(test)]
mod tests;
