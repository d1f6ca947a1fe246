//! What the claims of a token say of its bearer, and whether they count now. Pure: the signature is checked elsewhere.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolcrib_base::{Identity, PrincipalId, Proof, Timestamp};

use crate::issuer::IssuerSettings;
use crate::name::encoded;
use crate::token::{KnownToken, Resource};

/// By how much an issuer's clock may differ from ours, in milliseconds.
pub(crate) const SKEW: i64 = 60_000;
/// The longest `sub` and client id (OpenID Connect Core, section 2), in bytes.
const NAME_BYTES: usize = 255;
/// How many who act for one another are kept of a token; no deployment chains so many.
const ACTORS: usize = 8;
/// How many groups, scopes and audiences of a token are read.
const ITEMS: usize = 1_000;
/// When an opaque token ends of which its issuer does not say so, in milliseconds from now.
const UNSAID_LIFE: i64 = 600_000;

/// Where claims come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A signed token whose type says what it is. It must say all that counts.
    Token,
    /// A signed token whose type does not say what it is, so that its claims must.
    UntypedToken,
    /// The issuer's own answer about a token.
    Introspection,
    /// An ID token that we asked for ourselves.
    SignIn,
}

/// What a token says.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    pub(crate) known: KnownToken,
    /// When it was issued, or read first where it does not say so.
    pub(crate) issued: Timestamp,
    /// For whom it is.
    pub(crate) audiences: Vec<Box<str>>,
    /// The identifier of the issuer that signed it; `None` for an opaque token.
    pub(crate) signed_by: Option<Box<str>>,
    /// Whether one of them is in the settings: then it counts for every profile.
    pub(crate) is_listed: bool,
    /// The thumbprint of the key that its bearer must prove.
    pub(crate) bound_to: Option<Box<str>>,
}

// === impl Claims ===

impl Claims {
    /// Reads the claims of a token of this issuer; what is wrong otherwise.
    pub(crate) fn read(
        claims: &Map<String, Value>,
        issuer: &IssuerSettings,
        source: Source,
        now: Timestamp,
    ) -> Result<Self, String> {
        if source != Source::SignIn && is_other_kind(claims) {
            return Err("the token is not an access token".to_owned());
        }
        match claims.get("iss") {
            Some(Value::String(stated)) if *stated == issuer.issuer => {}
            None if source == Source::Introspection => {}
            _ => return Err("the token's issuer is not accepted".to_owned()),
        }
        let expires = expiry(claims, source, now)?;
        let audiences = texts(claims.get("aud"));
        let is_listed = audiences.iter().any(|audience| issuer.audiences.iter().any(|listed| **listed == **audience));
        // What the settings list may be the id of a client, which is the audience of its ID tokens too.
        if source == Source::UntypedToken && is_listed && !is_access_token(claims) {
            return Err("the token is not an access token, as far as its type and claims say".to_owned());
        }
        let bound_to = bound_to(claims)?;
        let (user, client) = match source {
            Source::SignIn => (Some(claims.get("sub").and_then(Value::as_str).unwrap_or_default()), None),
            Source::Token | Source::UntypedToken | Source::Introspection => bearer(claims)?,
        };
        if user.is_some_and(|user| user.is_empty() || user.len() > NAME_BYTES) {
            return Err(format!("the token's `sub` is not a name of at most {NAME_BYTES} bytes"));
        }
        let name = encoded(&issuer.name);
        let id = match (user, client) {
            (Some(user), _) => format!("user:{name}/{}", encoded(user)),
            (None, Some(client)) => format!("service:{name}/{}", encoded(client)),
            (None, None) => return Err("the token names no one in `sub`".to_owned()),
        };
        let groups = texts(at(claims, issuer.groups_claim.as_deref().unwrap_or("groups")));
        let tenant = issuer.tenant_claim.as_deref().and_then(|claim| at(claims, claim)?.as_str());
        let identity = Identity {
            issuer: Some(issuer.name.clone()),
            tenant: tenant.map(Into::into),
            client: client.map(Into::into),
            actors: actors(claims.get("act")),
            ..Identity::by(Proof::AccessToken)
        };
        let scopes = claims.get("scope").or_else(|| claims.get("scp"));
        let known = KnownToken {
            id: PrincipalId::new(&id),
            scopes: texts(scopes)
                .iter()
                .flat_map(|text| text.split(' '))
                .filter(|text| !text.is_empty())
                .map(Into::into)
                .collect(),
            grants: issuer.grants_of(user, client, &groups),
            identity: Arc::new(Identity { groups, ..identity }),
            expires,
        };
        let signed_by = (source != Source::Introspection).then(|| issuer.issuer.as_str().into());
        // That it is a time which is not to come was checked with its end.
        let issued = claims.get("iat").and_then(Value::as_i64);
        let issued = issued.map_or(now, |seconds| Timestamp(seconds.saturating_mul(1_000)));
        Ok(Self { known, issued, audiences, signed_by, is_listed, bound_to })
    }

    /// Whether a person is its subject, and not a client that acts for itself.
    pub(crate) fn is_about_user(&self) -> bool {
        self.known.id.as_str().starts_with("user:")
    }

    /// Whether it is for a resource.
    pub(crate) fn is_for(&self, resource: &Resource<'_>) -> bool {
        self.is_listed || self.audiences.iter().any(|audience| resource.is(audience))
    }
}

/// Who acts in the name of a token's subject, as its claim `act` says: the one who acts now first (RFC 8693, section 4.1).
pub fn actors(claim: Option<&Value>) -> Vec<Box<str>> {
    let chain = std::iter::successors(claim, |actor| actor.get("act")).take(ACTORS);
    let names = chain.filter_map(|actor| actor.get("sub").or_else(|| actor.get("client_id"))?.as_str());
    names.map(|name| name.chars().take(NAME_BYTES).collect::<String>().into()).collect()
}

/// Whether claims are those of a token of another kind by the same issuer, such as an ID token, which tells a client who its
/// user is.
fn is_other_kind(claims: &Map<String, Value>) -> bool {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_ascii_lowercase);
    // OpenID Connect Core, sections 3.1.3.6 and 3.3.2.11; FAPI; RFC 8417.
    ["nonce", "at_hash", "c_hash", "s_hash", "events"].iter().any(|only| claims.contains_key(*only))
        // Keycloak and Cognito say it themselves, and Hydra in its answers about opaque tokens.
        || text("typ").is_some_and(|kind| ["id", "refresh", "offline", "logout"].contains(&kind.as_str()))
        || text("token_use").is_some_and(|kind| !["access", "access_token"].contains(&kind.as_str()))
}

/// Whether claims have something that issuers write into access tokens and not into ID tokens. `azp` and `auth_time` are in
/// both.
fn is_access_token(claims: &Map<String, Value>) -> bool {
    let says = |name: &str, value: &str| {
        claims.get(name).and_then(Value::as_str).is_some_and(|text| text.eq_ignore_ascii_case(value))
    };
    // RFC 9068, section 2.2, and Entra's and Okta's names for the same.
    ["scope", "scp", "client_id", "appid", "cid"].iter().any(|name| claims.contains_key(*name))
        // Tokens of services without scopes: Entra's, Auth0's.
        || ["azpacr", "idtyp", "gty"].iter().any(|name| claims.contains_key(*name))
        // Keycloak's, Cognito's.
        || says("typ", "bearer")
        || says("typ", "dpop")
        || says("token_use", "access")
        || says("token_use", "access_token")
}

/// When the token ends, with the tolerance for clocks.
fn expiry(claims: &Map<String, Value>, source: Source, now: Timestamp) -> Result<Timestamp, String> {
    let moment = |name: &str| -> Result<Option<i64>, String> {
        match claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let seconds = value.as_f64().filter(|seconds| seconds.is_finite());
                let seconds = seconds.ok_or_else(|| format!("the token's `{name}` is not a time"))?;
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "a float that is too large becomes the largest number"
                )]
                Ok(Some((seconds * 1_000.0) as i64))
            }
        }
    };
    let expires = match moment("exp")? {
        Some(expires) => expires.saturating_add(SKEW),
        None if source == Source::Introspection => now.0.saturating_add(UNSAID_LIFE),
        None => return Err("the token does not say when it expires".to_owned()),
    };
    if expires <= now.0 {
        return Err("the token has expired".to_owned());
    }
    for name in ["nbf", "iat"] {
        if moment(name)?.is_some_and(|from| from > now.0.saturating_add(SKEW)) {
            return Err("the token is not valid yet: compare the clocks of the issuer and of this gateway".to_owned());
        }
    }
    Ok(Timestamp(expires))
}

/// The user and the client of a token; the user is `None` where the client acts for itself.
fn bearer(claims: &Map<String, Value>) -> Result<(Option<&str>, Option<&str>), String> {
    let text = |name: &str| match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() && text.len() <= NAME_BYTES => Ok(Some(text.as_str())),
        Some(_) => Err(format!("the token's `{name}` is not a name of at most {NAME_BYTES} bytes")),
    };
    let subject = text("sub")?;
    let mut client = None;
    // RFC 9068, OpenID Connect, and the names of single providers.
    for name in ["client_id", "azp", "cid", "appid"] {
        client = client.or(text(name)?);
    }
    let says = |name: &str, value: &str| claims.get(name).and_then(Value::as_str) == Some(value);
    let is_service =
        subject.is_none() || subject == client || says("idtyp", "app") || says("gty", "client-credentials");
    Ok((subject.filter(|_| !is_service), client.or(subject.filter(|_| is_service))))
}

/// The thumbprint of the key that the token is bound to (RFC 9449, section 6.1).
fn bound_to(claims: &Map<String, Value>) -> Result<Option<Box<str>>, String> {
    match claims.get("cnf") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(confirmation)) => match (confirmation.len(), confirmation.get("jkt")) {
            (1, Some(Value::String(thumbprint))) => Ok(Some(thumbprint.as_str().into())),
            _ => Err("the token is bound to something that cannot be proven here".to_owned()),
        },
        Some(_) => Err("the token's `cnf` is not an object".to_owned()),
    }
}

/// A claim by its name, or by its path where there is none of that name.
fn at<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    rest.split('.').try_fold(claims.get(first)?, |value, part| value.get(part))
}

/// One text or a list of them; what else is in it is left out.
fn texts(value: Option<&Value>) -> Vec<Box<str>> {
    match value {
        Some(Value::String(text)) => vec![text.as_str().into()],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).take(ITEMS).map(Into::into).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_base::{ProfileName, Role};

    use super::*;
    use crate::issuer::{GrantRule, Grantee};
    use crate::token::TokenGrant;

    const NOW: i64 = 1_800_000_000;

    fn issuer() -> IssuerSettings {
        let rule = |grantee, role| GrantRule {
            grantee,
            grant: TokenGrant { role, profiles: vec![ProfileName::new("work").unwrap()] },
        };
        IssuerSettings {
            name: "acme".into(),
            issuer: "https://login.example.com".into(),
            audiences: vec!["api://tools".into()],
            grants: vec![
                rule(Grantee::Group("dev".into()), Role::Member),
                rule(Grantee::User("root".into()), Role::Admin),
                rule(Grantee::Client("nightly".into()), Role::Viewer),
            ],
            introspection: None,
            sign_in: None,
            groups_claim: None,
            tenant_claim: Some("org.id".into()),
            allows_private: false,
        }
    }

    fn read(more: &Value) -> Result<Claims, String> {
        read_from(Source::Token, more)
    }

    fn read_from(source: Source, more: &Value) -> Result<Claims, String> {
        let mut claims = json!({
            "iss": "https://login.example.com", "sub": "ann", "client_id": "app", "exp": NOW + 600,
            "aud": "https://tools.example.com",
        });
        let members = claims.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        members.retain(|_, value| *value != "remove");
        Claims::read(members, &issuer(), source, Timestamp(NOW * 1_000))
    }

    #[test]
    fn a_token_names_a_user_or_a_service() {
        for (claims, expected) in [
            (json!({}), "user:acme/ann"),
            (json!({"sub": "auth0|12@x"}), "user:acme/auth0|12@x"),
            (json!({"sub": "../key:work/ci"}), "user:acme/..%2Fkey:work%2Fci"),
            (json!({"sub": "a b%\n\u{e9}"}), "user:acme/a%20b%25%0A%C3%A9"),
            (json!({"sub": "app"}), "service:acme/app"),
            (json!({"sub": "remove"}), "service:acme/app"),
            (json!({"sub": "x@clients", "gty": "client-credentials"}), "service:acme/app"),
            (json!({"sub": "0f", "idtyp": "app", "client_id": "remove", "appid": "7"}), "service:acme/7"),
            (json!({"client_id": "remove", "azp": "web"}), "user:acme/ann"),
        ] {
            assert_eq!(read(&claims).unwrap().known.id.as_str(), expected, "{claims}");
        }
        for wrong in [
            json!({"sub": 7}),
            json!({"sub": ""}),
            json!({"sub": "a".repeat(256)}),
            json!({"client_id": ["app"]}),
            json!({"sub": "remove", "client_id": "remove"}),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_count_within_a_minute() {
        for (claims, expected) in [
            (json!({"exp": NOW - 59}), Ok(())),
            (json!({"exp": NOW - 60}), Err("expired")),
            (json!({"exp": NOW as f64 - 59.5}), Ok(())),
            (json!({"exp": 1e300}), Ok(())),
            (json!({"exp": -1e300}), Err("expired")),
            (json!({"exp": "2030-01-01"}), Err("`exp` is not a time")),
            (json!({"exp": "remove"}), Err("when it expires")),
            (json!({"nbf": NOW + 60}), Ok(())),
            (json!({"nbf": NOW + 61}), Err("not valid yet")),
            (json!({"iat": NOW + 3_600}), Err("compare the clocks")),
            (json!({"nbf": null}), Ok(())),
        ] {
            match (read(&claims), expected) {
                (Ok(_), Ok(())) => {}
                (Err(said), Err(expected)) => assert!(said.contains(expected), "{said}"),
                (read, expected) => panic!("{claims}: {read:?}, {expected:?}"),
            }
        }
    }

    #[test]
    fn tokens_of_others_and_for_other_uses_are_refused() {
        for (claims, expected) in [
            (json!({"iss": "https://login.example.com/"}), "issuer"),
            (json!({"iss": "https://LOGIN.example.com"}), "issuer"),
            (json!({"iss": ["https://login.example.com"]}), "issuer"),
            (json!({"iss": "remove"}), "issuer"),
            (json!({"nonce": "x"}), "not an access token"),
            (json!({"at_hash": "x"}), "not an access token"),
            (json!({"events": {}}), "not an access token"),
            (json!({"cnf": {"x5t#S256": "x"}}), "bound to something"),
            (json!({"cnf": {"x5t#S256": "x", "jkt": "y"}}), "bound to something"),
            (json!({"cnf": {"jkt": 1}}), "bound to something"),
            (json!({"cnf": "x"}), "`cnf`"),
        ] {
            let said = read(&claims).unwrap_err();
            assert!(said.contains(expected), "{claims}: {said}");
        }
        assert_eq!(read(&json!({"cnf": {"jkt": "y"}})).unwrap().bound_to.as_deref(), Some("y"));
    }

    #[test]
    fn an_untyped_token_for_a_listed_audience_must_say_that_it_is_an_access_token() {
        // What providers write, without what tells nothing.
        let access = [
            ("Entra, 1.0", json!({"appid": "app", "appidacr": "1", "scp": "use", "ver": "1.0", "unique_name": "a"})),
            ("Entra, 2.0", json!({"azp": "app", "azpacr": "0", "scp": "use", "ver": "2.0", "uti": "u"})),
            ("Entra, a service", json!({"azp": "app", "azpacr": "1", "roles": ["r"], "ver": "2.0"})),
            ("Auth0", json!({"azp": "app", "scope": "openid", "aud": ["api://tools", "https://x/userinfo"]})),
            ("Auth0, a service", json!({"sub": "app@clients", "azp": "app", "gty": "client-credentials"})),
            ("Okta", json!({"ver": 1, "jti": "AT.1", "cid": "app", "uid": "0", "scp": ["use"], "auth_time": 1})),
            ("Keycloak", json!({"typ": "Bearer", "azp": "app", "acr": "1", "sid": "s"})),
            ("Keycloak, bound", json!({"typ": "DPoP", "azp": "app"})),
            ("Cognito", json!({"token_use": "access", "client_id": "app", "username": "ann"})),
            ("Hydra", json!({"token_use": "access_token"})),
            ("RFC 9068 in all but its type", json!({"client_id": "app", "jti": "1"})),
        ];
        let id = [
            ("Entra", json!({"aud": "api://tools", "ver": "2.0", "tid": "t", "rh": "r", "preferred_username": "a"})),
            ("Auth0", json!({"sid": "s", "name": "Ann", "email": "a@example.com"})),
            ("Okta", json!({"ver": 1, "jti": "ID.1", "amr": ["pwd"], "idp": "0", "auth_time": 1})),
            ("Google", json!({"azp": "api://tools", "email": "a@example.com", "email_verified": true})),
            ("Google, a service", json!({"azp": "1", "email": "x@y.iam.gserviceaccount.com"})),
            ("Keycloak", json!({"typ": "ID", "azp": "api://tools", "acr": "1", "scope": "openid"})),
            ("Cognito", json!({"token_use": "id", "cognito:username": "ann", "client_id": "app"})),
            ("with a nonce", json!({"nonce": "n", "scope": "openid"})),
        ];
        let read = |claims: &Value, audience: &str| {
            let mut with = json!({"client_id": "remove", "aud": audience});
            with.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
            read_from(Source::UntypedToken, &with)
        };
        for (provider, claims) in access {
            read(&claims, "api://tools").unwrap_or_else(|why| panic!("{provider}: {why}"));
        }
        for (provider, claims) in id {
            let said = read(&claims, "api://tools").unwrap_err();
            assert!(said.contains("not an access token"), "{provider}: {said}");
        }
        // Our own URL is no client's id: whoever asked for such a token asked for one for us.
        read(&json!({"azp": "1"}), "https://tools.example.com").unwrap();
        // The type says it.
        read_from(Source::Token, &json!({"client_id": "remove", "azp": "app", "aud": "api://tools"})).unwrap();
    }

    #[test]
    fn grants_follow_groups_users_and_clients() {
        let work = ProfileName::new("work").unwrap();
        let role = |claims: Value| read(&claims).unwrap().known.role_in(&work);
        assert_eq!(role(json!({})), None);
        assert_eq!(role(json!({"groups": ["ops", "dev"]})), Some(Role::Member));
        assert_eq!(role(json!({"groups": "dev"})), Some(Role::Member));
        assert_eq!(role(json!({"groups": "dev ops"})), None);
        assert_eq!(role(json!({"groups": {"dev": true}})), None);
        assert_eq!(role(json!({"groups": ["dev"], "sub": "root"})), Some(Role::Admin));
        // A user that comes with a client is not the client, and a client is not the user of its name.
        assert_eq!(role(json!({"client_id": "nightly"})), None);
        assert_eq!(role(json!({"client_id": "nightly", "sub": "nightly"})), Some(Role::Viewer));
        assert_eq!(role(json!({"client_id": "root", "sub": "root"})), None);
        // What is remembered of someone is granted the same.
        let again = |claims: Value| {
            let known = read(&claims).unwrap().known;
            (issuer().grants_to(&known.id, &known.identity.groups), known.grants)
        };
        for claims in [
            json!({}),
            json!({"groups": ["ops", "dev"]}),
            json!({"groups": ["dev"], "sub": "root"}),
            json!({"client_id": "nightly", "sub": "nightly"}),
            json!({"client_id": "root", "sub": "root"}),
        ] {
            let (remembered, granted) = again(claims.clone());
            assert_eq!(remembered, granted, "{claims}");
        }
        assert!(issuer().grants_to(&PrincipalId::new("user:acme2/root"), &[]).is_empty());
        assert!(issuer().grants_to(&PrincipalId::new("local"), &["dev".into()]).is_empty());
        let claims = read(&json!({"org": {"id": "t1"}, "scope": "a b", "groups": ["x", 7]})).unwrap();
        assert_eq!(claims.known.identity.tenant.as_deref(), Some("t1"));
        assert_eq!(claims.known.identity.groups, ["x".into()]);
        assert_eq!(claims.known.scopes, ["a".into(), "b".into()]);
        assert_eq!(read(&json!({"scp": ["a", "b c"]})).unwrap().known.scopes.len(), 3);
    }

    #[test]
    fn a_token_is_for_our_url_or_what_the_settings_list() {
        let profile = ProfileName::new("work").unwrap();
        let resource = Resource { origin: "https://tools.example.com", profile: &profile };
        for (audience, expected) in [
            (json!("https://tools.example.com"), true),
            (json!(["x", "https://tools.example.com/mcp/p/work"]), true),
            (json!("api://tools"), true),
            (json!("https://tools.example.com/mcp/p/home"), false),
            (json!("app"), false),
            (json!([]), false),
            (json!("remove"), false),
            (json!({"https://tools.example.com": 1}), false),
        ] {
            assert_eq!(read(&json!({"aud": audience})).unwrap().is_for(&resource), expected, "{audience}");
        }
    }
}
