//! `[identity]` in `config.toml`: under which origin clients reach the gateway, which issuers' access tokens count, and
//! what is granted to whom. Only in the file: a grant in a variable would be easy to miss.

mod server;

use toml::Value;
use toolcrib_base::{Kind, Problem, ProfileName, Role};
use toolcrib_catalog::SecretRef;
use url::{Host, Url};

use super::ValueWithSource;
use super::part::Part;

pub(crate) use server::{ClientConfig, ServerConfig};

/// The name of the table.
pub(super) const TABLE: &str = "identity";
const KEYS: [&str; 6] = ["url", "client_document", "scopes", "issuer", "server", "certificates"];
const CERTIFICATES_KEYS: [&str; 2] = ["ca", "grants"];
const CERTIFICATE_GRANT_KEYS: [&str; 3] = ["name", "role", "profiles"];
const ISSUER_KEYS: [&str; 9] =
    ["name", "issuer", "audience", "grants", "introspect", "sign_in", "groups_claim", "tenant_claim", "private"];
const GRANT_KEYS: [&str; 5] = ["group", "user", "client", "role", "profiles"];
const INTROSPECT_KEYS: [&str; 3] = ["client_id", "client_secret", "each_request"];
const SIGN_IN_KEYS: [&str; 3] = ["client_id", "client_secret", "scopes"];

/// Teams with a provider.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IdentityConfig {
    /// The origin of the gateway: `scheme://host[:port]`.
    pub(crate) url: String,
    /// Where providers read what client the gateway is, if that is not at its own URL.
    pub(crate) client_document: Option<String>,
    /// What each access token needs.
    pub(crate) scopes: Vec<Box<str>>,
    /// Whose tokens count.
    pub(crate) issuers: Vec<IssuerConfig>,
    /// Our own authorization server, if it is switched on.
    pub(crate) server: Option<ServerConfig>,
    /// What clients' certificates prove.
    pub(crate) certificates: Option<CertificatesConfig>,
}

/// Clients with certificates of the authority in `tls.client_ca`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificatesConfig {
    /// What the authority is called in ids of principals.
    pub(crate) ca: String,
    /// What is granted to its clients.
    pub(crate) grants: Vec<CertificateGrantConfig>,
}

/// A role in profiles for the client of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateGrantConfig {
    /// The name in the certificate; `None` for every client.
    pub(crate) name: Option<String>,
    /// Which role.
    pub(crate) role: Role,
    /// Where.
    pub(crate) profiles: Vec<ProfileName>,
}

/// One issuer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IssuerConfig {
    /// What it is called in ids of principals.
    pub(crate) name: String,
    /// Its identifier, exactly as tokens have it in `iss`.
    pub(crate) issuer: String,
    /// What its tokens may have in `aud` beside our own URLs.
    pub(crate) audiences: Vec<String>,
    /// What is granted to its principals.
    pub(crate) grants: Vec<GrantConfig>,
    /// Our credentials to ask it about opaque tokens.
    pub(crate) introspect: Option<IntrospectConfig>,
    /// Our client for people who sign in to our pages.
    pub(crate) sign_in: Option<SignInConfig>,
    /// The claim with the groups.
    pub(crate) groups_claim: Option<String>,
    /// The claim with the tenant.
    pub(crate) tenant_claim: Option<String>,
    /// Whether it may be at a private address.
    pub(crate) private: bool,
}

/// A role in profiles for some principals of an issuer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GrantConfig {
    /// To whom.
    pub(crate) grantee: Grantee,
    /// Which role.
    pub(crate) role: Role,
    /// Where.
    pub(crate) profiles: Vec<ProfileName>,
}

/// Whom a grant is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Grantee {
    /// Members of a group.
    Group(String),
    /// One user, by `sub`.
    User(String),
    /// One client that acts for itself, by `client_id`.
    Client(String),
}

/// Credentials for introspection (RFC 7662).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IntrospectConfig {
    pub(crate) client_id: String,
    pub(crate) client_secret: SecretRef,
    /// Whether each request asks, also with a signed token.
    pub(crate) each_request: bool,
}

/// Our client for people who sign in to our pages.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SignInConfig {
    pub(crate) client_id: String,
    /// `None` for a public client.
    pub(crate) client_secret: Option<SecretRef>,
    /// `openid` is among them.
    pub(crate) scopes: Vec<String>,
}

/// Reads the table.
pub(super) fn read(given: &ValueWithSource) -> Result<IdentityConfig, Problem> {
    let place = given.place.as_str();
    let part = Part::new(&given.value, TABLE.to_owned(), place, &KEYS)?;
    let url = origin(part.required("url")?)
        .ok_or_else(|| part.wrong("url", "an https origin such as `https://tools.example.com`, without a path"))?;
    let client_document = part.text("client_document")?.map(str::to_owned);
    if client_document.as_deref().is_some_and(|url| !is_document(url)) {
        let expected = "an https URL with a path, such as `https://example.com/toolcrib.json`";
        return Err(part.wrong("client_document", expected));
    }
    let scopes = part.texts("scopes")?;
    if !scopes.iter().all(|scope| is_scope(scope)) {
        return Err(part.wrong("scopes", "scopes such as `mcp:tools`, without blanks and quotes"));
    }
    let scopes = scopes.into_iter().map(String::into_boxed_str).collect();
    let issuers = part.parts("issuer", &ISSUER_KEYS)?;
    let issuers = issuers.iter().map(issuer).collect::<Result<Vec<_>, _>>()?;
    if let Some(at) = issuers.iter().position(|issuer| issuer.name == "agent") {
        let message = format!("{place}: `identity.issuer[{at}].name`: `agent` names agents that run as themselves");
        return Err(Problem::new(Kind::Definition, message).hint("give the issuer another name"));
    }
    for (at, one) in issuers.iter().enumerate() {
        let before = &issuers[..at];
        for (key, is_twice) in [
            ("name", before.iter().any(|other| other.name == one.name)),
            ("issuer", before.iter().any(|other| other.issuer == one.issuer)),
        ] {
            if is_twice {
                let message = format!("{place}: `identity.issuer[{at}].{key}`: another issuer has the same one");
                return Err(Problem::new(Kind::Definition, message).hint("give each issuer one `[[identity.issuer]]`"));
            }
        }
    }
    // An opaque token does not say whose it is: asked about it, one issuer would learn the tokens of another.
    if let Some((at, _)) = issuers.iter().enumerate().filter(|(_, one)| one.introspect.is_some()).nth(1) {
        let message =
            format!("{place}: `identity.issuer[{at}].introspect`: another issuer is asked about opaque tokens");
        return Err(Problem::new(Kind::Definition, message).hint("keep `introspect` at one issuer"));
    }
    let server = part.part("server", &server::KEYS)?.map(|part| server::read(&part)).transpose()?;
    let certificates = part.part("certificates", &CERTIFICATES_KEYS)?;
    let certificates = certificates.as_ref().map(certificates_of).transpose()?;
    if let Some(server) = &server {
        if let Some(at) = issuers.iter().position(|issuer| issuer.name == "own") {
            let message = format!("{place}: `identity.issuer[{at}].name`: `own` is our own authorization server");
            return Err(Problem::new(Kind::Definition, message).hint("give the issuer another name"));
        }
        if let Some(unknown) = server.assertions.iter().find(|name| !issuers.iter().any(|issuer| issuer.name == **name))
        {
            let message = format!("{place}: `identity.server.assertions`: there is no issuer `{unknown}`");
            return Err(Problem::new(Kind::Definition, message).hint("name issuers of `[[identity.issuer]]`"));
        }
    }
    Ok(IdentityConfig { url, client_document, scopes, issuers, server, certificates })
}

fn certificates_of(part: &Part<'_>) -> Result<CertificatesConfig, Problem> {
    let ca = part.required("ca")?;
    // Names of profiles have the same rule.
    if ProfileName::new(ca).is_err() {
        return Err(part.wrong("ca", "a name of small letters, digits and `-`, such as `office`"));
    }
    let grant = |part: &Part<'_>| {
        let name = Some(part.required("name")?).filter(|name| *name != "*").map(str::to_owned);
        Ok(CertificateGrantConfig { name, role: role(part)?, profiles: profiles(part)? })
    };
    let grants = part.parts("grants", &CERTIFICATE_GRANT_KEYS)?.iter().map(grant).collect::<Result<_, Problem>>()?;
    Ok(CertificatesConfig { ca: ca.to_owned(), grants })
}

fn issuer(part: &Part<'_>) -> Result<IssuerConfig, Problem> {
    let name = part.required("name")?;
    // Names of profiles have the same rule.
    if ProfileName::new(name).is_err() {
        return Err(part.wrong("name", "a name of small letters, digits and `-`, such as `acme`"));
    }
    let url = part.required("issuer")?;
    if !is_issuer(url) {
        return Err(part.wrong("issuer", "an https URL such as `https://login.example.com`, as the issuer writes it"));
    }
    let audiences = match part.table.get("audience") {
        Some(Value::String(audience)) => vec![audience.clone()],
        _ => part.texts("audience")?,
    };
    if audiences.iter().any(String::is_empty) {
        return Err(part.wrong("audience", "texts that are not empty"));
    }
    let grants = part.parts("grants", &GRANT_KEYS)?.iter().map(grant).collect::<Result<_, _>>()?;
    let introspect = part.part("introspect", &INTROSPECT_KEYS)?;
    let sign_in = part.part("sign_in", &SIGN_IN_KEYS)?;
    Ok(IssuerConfig {
        name: name.to_owned(),
        issuer: url.to_owned(),
        audiences,
        grants,
        introspect: introspect.as_ref().map(credentials).transpose()?,
        sign_in: sign_in.as_ref().map(pages).transpose()?,
        groups_claim: part.text("groups_claim")?.map(str::to_owned),
        tenant_claim: part.text("tenant_claim")?.map(str::to_owned),
        private: part.flag("private")?,
    })
}

fn grant(part: &Part<'_>) -> Result<GrantConfig, Problem> {
    let (group, user, client) = (part.text("group")?, part.text("user")?, part.text("client")?);
    let grantee = match (group, user, client) {
        (Some(group), None, None) => Grantee::Group(group.to_owned()),
        (None, Some(user), None) => Grantee::User(user.to_owned()),
        (None, None, Some(client)) => Grantee::Client(client.to_owned()),
        _ => {
            let message = format!("{}: `{}`: expected one of `group`, `user` and `client`", part.place, part.name);
            return Err(Problem::new(Kind::Definition, message)
                .hint("write `{group = \"dev\", role = \"member\", profiles = [\"work\"]}`"));
        }
    };
    Ok(GrantConfig { grantee, role: role(part)?, profiles: profiles(part)? })
}

fn role(part: &Part<'_>) -> Result<Role, Problem> {
    part.required("role")?.parse().map_err(|_| part.wrong("role", ROLES))
}

fn profiles(part: &Part<'_>) -> Result<Vec<ProfileName>, Problem> {
    let profiles = part.texts("profiles")?.iter().map(|name| ProfileName::new(name)).collect::<Result<Vec<_>, _>>();
    profiles.map_err(|_| part.wrong("profiles", "names of profiles"))
}

const ROLES: &str = "`viewer`, `member`, `operator`, `admin` or `owner`";

fn credentials(part: &Part<'_>) -> Result<IntrospectConfig, Problem> {
    let client_secret = part.secret("client_secret", part.required("client_secret")?)?;
    let each_request = part.flag("each_request")?;
    Ok(IntrospectConfig { client_id: part.required("client_id")?.to_owned(), client_secret, each_request })
}

fn pages(part: &Part<'_>) -> Result<SignInConfig, Problem> {
    let mut scopes = part.texts("scopes")?;
    if !scopes.iter().all(|scope| is_scope(scope)) {
        return Err(part.wrong("scopes", "scopes such as `openid` and `groups`, without blanks and quotes"));
    }
    if !scopes.iter().any(|scope| scope == "openid") {
        scopes.insert(0, "openid".to_owned());
    }
    let client_secret = part.text("client_secret")?.map(|text| part.secret("client_secret", text)).transpose()?;
    Ok(SignInConfig { client_id: part.required("client_id")?.to_owned(), client_secret, scopes })
}

// === impl IdentityConfig ===

impl IdentityConfig {
    /// The host of the URL with its port, as clients send it in `Host`.
    pub(crate) fn host(&self) -> &str {
        self.url.split_once("://").map_or("", |(_, host)| host)
    }
}

/// The origin of a URL without a path: https, or http on this machine.
fn origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(is_protected)?;
    let is_origin = url.path() == "/" && !text.contains(['?', '#', '@']);
    is_origin.then(|| url.origin().ascii_serialization())
}

/// Whether it can be the URL of a client metadata document (OAuth Client ID Metadata Document, section 3).
fn is_document(text: &str) -> bool {
    let is_plain = |url: &Url| url.scheme() == "https" && url.has_host() && url.path() != "/";
    // As a client's id it is compared letter by letter.
    Url::parse(text).is_ok_and(|url| is_plain(&url) && url.as_str() == text) && !text.contains(['?', '#', '@'])
}

/// Whether it can be an issuer's identifier (RFC 8414, section 2).
fn is_issuer(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| is_protected(&url)) && !text.contains(['?', '#', '@'])
}

/// Whether what is sent there stays between two: over https, or on this machine.
fn is_protected(url: &Url) -> bool {
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" && url.has_host() || url.scheme() == "http" && is_here
}

/// RFC 6749, section 3.3.
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::*;

    fn parse(text: &str) -> Result<IdentityConfig, String> {
        let table: Table = text.parse().unwrap();
        let given = ValueWithSource { value: table["identity"].clone(), place: "config.toml:1".into() };
        read(&given).map_err(|problem| problem.message.trim_start_matches("config.toml:1: ").to_owned())
    }

    const ACME: &str = "[identity]\nurl = 'https://tools.example.com/'\n[[identity.issuer]]\nname = 'acme'\n\
                        issuer = 'https://login.example.com'\n";

    #[test]
    fn an_issuer_has_grants() {
        let config = parse(&format!(
            "{ACME}audience = 'api://tools'\nprivate = true\n\
             introspect = {{client_id = 'us', client_secret = 'env:SECRET'}}\n\
             sign_in = {{client_id = 'us', scopes = ['groups']}}\n\
             grants = [{{group = 'dev', role = 'member', profiles = ['work']}}, {{user = '7', role = 'admin'}}]"
        ))
        .unwrap();
        assert_eq!((config.url.as_str(), config.host()), ("https://tools.example.com", "tools.example.com"));
        let [acme] = &config.issuers[..] else { panic!("{config:?}") };
        assert_eq!(
            (acme.name.as_str(), acme.audiences.as_slice(), acme.private),
            ("acme", &["api://tools".to_owned()][..], true)
        );
        assert_eq!(acme.grants[0].grantee, Grantee::Group("dev".into()));
        assert_eq!((acme.grants[1].role, acme.grants[1].profiles.len()), (Role::Admin, 0));
        assert!(acme.introspect.is_some());
        assert_eq!(acme.sign_in.as_ref().unwrap().scopes, ["openid", "groups"]);
        assert_eq!(config.server, None);
        let server = "[identity.server]\n[[identity.server.client]]\nid = 'nightly'\nclient_secret = 'env:SECRET'\n\
                      role = 'member'\nprofiles = ['work']";
        let config = parse(&format!("{ACME}{server}")).unwrap().server.unwrap();
        assert!(!config.registration && config.clients[0].name == "nightly" && config.clients[0].secret.is_some());
        let here = parse("[identity]\nurl = 'http://127.0.0.1:8700'").unwrap();
        assert_eq!(here.host(), "127.0.0.1:8700");
    }

    #[test]
    fn certificates_have_grants() {
        let config = parse(
            "[identity]\nurl = 'https://tools.example.com'\n[identity.certificates]\nca = 'office'\n\
             grants = [{name = 'ci.example.com', role = 'member', profiles = ['work']}, {name = '*', role = 'viewer'}]",
        );
        let certificates = config.unwrap().certificates.unwrap();
        let names: Vec<_> = certificates.grants.iter().map(|grant| (grant.name.as_deref(), grant.role)).collect();
        assert_eq!(
            (certificates.ca.as_str(), names),
            ("office", vec![(Some("ci.example.com"), Role::Member), (None, Role::Viewer)])
        );
    }

    #[test]
    fn a_mistake_is_named() {
        let more = |line: &str| format!("{ACME}{line}");
        for (text, expected) in [
            ("identity = 1".to_owned(), "`identity`: expected a table"),
            ("[identity]\nscopes = []".into(), "`identity` has no `url`"),
            ("[identity]\nurl = 'http://tools.example.com'".into(), "`identity.url`: expected an https origin"),
            ("[identity]\nurl = 'https://a.example/x'".into(), "`identity.url`: expected an https origin"),
            ("[identity]\nurl = 'https://u:p@a.example'".into(), "`identity.url`: expected an https origin"),
            ("[identity]\nurl = 'file:///etc'".into(), "`identity.url`: expected an https origin"),
            (
                "[identity]\nurl = 'https://a.example'\nclient_document = 'https://a.example'".into(),
                "`identity.client_document`: expected an https URL with a path",
            ),
            (
                "[identity]\nurl = 'https://a.example'\nclient_document = 'https://a.example/x/../c.json'".into(),
                "`identity.client_document`: expected an https URL with a path",
            ),
            ("[identity]\nurl = 'https://a.example'\nscopes = ['a b']".into(), "`identity.scopes`: expected scopes"),
            ("[identity]\nurl = 'https://a.example'\nissuers = []".into(), "unknown key `identity.issuers`"),
            (more("grant = []"), "unknown key `identity.issuer[0].grant`"),
            (more("grants = [{role = 'member'}]"), "`identity.issuer[0].grants[0]`: expected one of"),
            (
                more("grants = [{user = 'a', group = 'b', role = 'member'}]"),
                "`identity.issuer[0].grants[0]`: expected one of",
            ),
            (more("grants = [{user = 'a', role = 'root'}]"), "`identity.issuer[0].grants[0].role`: expected `viewer`"),
            (more("grants = [{user = 'a'}]"), "`identity.issuer[0].grants[0]` has no `role`"),
            (
                more("grants = [{user = 'a', role = 'member', profiles = ['*']}]"),
                "`identity.issuer[0].grants[0].profiles`",
            ),
            (
                more("introspect = {client_id = 'us', client_secret = 's3cret'}"),
                "`identity.issuer[0].introspect.client_secret`: expected a reference",
            ),
            (more("introspect = {client_secret = 'env:X'}"), "`identity.issuer[0].introspect` has no `client_id`"),
            (
                more("introspect = {client_id = 'us', client_secret = 'env:X', each_request = 1}"),
                "`identity.issuer[0].introspect.each_request`: expected `true` or `false`",
            ),
            (
                more(
                    "introspect = {client_id = 'us', client_secret = 'env:X'}\n[[identity.issuer]]\nname = 'b'\n\
                     issuer = 'https://b.example'\nintrospect = {client_id = 'us', client_secret = 'env:X'}",
                ),
                "`identity.issuer[1].introspect`: another issuer",
            ),
            (more("sign_in = {scopes = ['openid']}"), "`identity.issuer[0].sign_in` has no `client_id`"),
            (more("sign_in = {client_id = 'us', scopes = ['a b']}"), "`identity.issuer[0].sign_in.scopes`: expected"),
            (
                more("sign_in = {client_id = 'us', client_secret = 's3cret'}"),
                "`identity.issuer[0].sign_in.client_secret`: expected a reference",
            ),
            (more("private = 'yes'"), "`identity.issuer[0].private`: expected `true`"),
            (more("audience = ['']"), "`identity.issuer[0].audience`: expected texts"),
            (
                more("[[identity.issuer]]\nname = 'acme'\nissuer = 'https://b.example'"),
                "`identity.issuer[1].name`: another issuer",
            ),
            (
                more("[[identity.issuer]]\nname = 'b'\nissuer = 'https://login.example.com'"),
                "`identity.issuer[1].issuer`: another issuer",
            ),
            (
                more("[[identity.issuer]]\nname = 'a/b'\nissuer = 'https://b.example'"),
                "`identity.issuer[1].name`: expected a name",
            ),
            (
                more("[[identity.issuer]]\nname = 'b'\nissuer = 'http://b.example'"),
                "`identity.issuer[1].issuer`: expected an https URL",
            ),
        ] {
            check_mistake(&text, expected);
        }
    }

    #[test]
    fn a_mistake_about_our_own_server_and_certificates_is_named() {
        let more = |line: &str| format!("{ACME}{line}");
        for (text, expected) in [
            (more("[identity.server]\nregister = true"), "unknown key `identity.server.register`"),
            (more("[identity.server]\nassertions = ['b']"), "`identity.server.assertions`: there is no issuer `b`"),
            (
                more("[[identity.issuer]]\nname = 'own'\nissuer = 'https://b.example'\n[identity.server]"),
                "`identity.issuer[1].name`: `own` is our own",
            ),
            (more("[identity.server]\nregistration = 1"), "`identity.server.registration`: expected `true`"),
            (more("[[identity.server.client]]\nname = 'x'"), "`identity.server.client[0]` has no `id`"),
            (more("[[identity.server.client]]\nid = 'x'"), "`identity.server.client[0].redirect_uris`: expected"),
            (
                more("[[identity.server.client]]\nid = 'x'\nrole = 'member'\nclient_secret = 's3cret'"),
                "`identity.server.client[0].client_secret`: expected a reference",
            ),
            (
                more("[[identity.server.client]]\nid = 'x'\nrole = 'member'\njwks = 's3cret'"),
                "`identity.server.client[0].jwks`: expected a set",
            ),
            (
                more(
                    "[[identity.server.client]]\nid = 'x'\nrole = 'member'\n[[identity.server.client]]\nid = 'x'\n\
                     role = 'member'",
                ),
                "`identity.server.client[1].id`: another client",
            ),
            (more("[identity.certificates]\ngrants = []"), "`identity.certificates` has no `ca`"),
            (more("[identity.certificates]\nca = 'a/b'"), "`identity.certificates.ca`: expected a name"),
            (
                more("[identity.certificates]\nca = 'a'\ngrants = [{role = 'member'}]"),
                "`identity.certificates.grants[0]` has no `name`",
            ),
            (
                more("[identity.certificates]\nca = 'a'\ngrants = [{group = 'x', role = 'member'}]"),
                "unknown key `identity.certificates.grants[0].group`",
            ),
        ] {
            check_mistake(&text, expected);
        }
    }

    fn check_mistake(text: &str, expected: &str) {
        let said = parse(text).unwrap_err();
        assert!(said.starts_with(expected) && !said.contains("s3cret"), "{said}");
    }
}
