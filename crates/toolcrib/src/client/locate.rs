//! Where the gateway is, and with which token we may come.

use std::path::PathBuf;

use http::Uri;
use toolcrib_base::{Kind, Problem, ProfileName, Secret};
use toolcrib_transport::http::client::HttpClient;

use super::ClientFlags;
use crate::config::{Config, SettingFlags};
use crate::home::{Environment, Home};
use crate::loopback::is_here;
use crate::{endpoint_login, ready, token};

/// The variable that names the endpoint.
const ENDPOINT_VARIABLE: &str = "TOOLCRIB_ENDPOINT";
/// The variable that holds the token itself.
const TOKEN_VARIABLE: &str = "TOOLCRIB_TOKEN";
/// The path of the default profile.
const PATH: &str = "/mcp";

/// The gateway to speak to.
#[derive(Debug, Clone)]
pub(crate) struct GatewayAddress {
    pub(crate) uri: Uri,
    /// Where the address was taken from, for errors.
    pub(crate) place: String,
    /// Whether the person named it, so that it may be anywhere.
    pub(crate) is_named: bool,
    /// Whether a gateway of this home says that it runs there.
    pub(crate) is_running: bool,
    pub(crate) token: Option<Secret>,
    /// Where the token was taken from.
    pub(crate) token_place: Option<String>,
    /// Where the certificate lies of a gateway of this home that speaks TLS.
    pub(crate) certificate: Option<PathBuf>,
    /// Why no token of a running gateway is sent, where there is a reason to tell.
    pub(crate) no_token: Option<String>,
    /// Whether this home has a login there, which counts where there is no token.
    pub(crate) has_login: bool,
}

/// Finds the gateway: `--endpoint`, `--context`, `TOOLCRIB_ENDPOINT`, `TOOLCRIB_CONTEXT`, the current context, the file
/// of a running one, the address in the settings.
pub(crate) fn locate(flags: &ClientFlags, environment: &Environment) -> Result<GatewayAddress, Problem> {
    // Anyone who names an endpoint needs no home.
    let home = Home::find(flags.home.as_deref(), environment);
    let serve_file = home.map(|home| home.serve_file());
    let running = serve_file.as_ref().ok().and_then(|path| ready::read(path));
    let alive = running.as_ref().filter(|ready| ready.is_alive());
    let context = context(flags, environment)?;
    let named = match (&flags.endpoint, &context) {
        (Some(url), _) => Some((url.clone(), "`--endpoint`".to_owned())),
        (None, Some((context, place))) => Some((context.endpoint.clone(), place.clone())),
        (None, None) => {
            environment.text(ENDPOINT_VARIABLE)?.map(|url| (url.to_owned(), format!("`{ENDPOINT_VARIABLE}`")))
        }
    };
    let is_named = named.is_some();
    let (url, place) = match (named, alive) {
        (Some(named), _) => named,
        (None, Some(ready)) => (ready.url.clone(), format!("`{}`", serve_file?.display())),
        (None, None) => from_settings(flags, environment)?,
    };
    let profile = flags.profile.as_ref().or(context.as_ref().and_then(|(context, _)| context.profile.as_ref()));
    let uri = endpoint(&url, profile).ok_or_else(|| not_an_endpoint(&url, &place))?;
    let is_running = !is_named && alive.is_some();
    // Only the gateway that the file names is who it says: anyone else may listen elsewhere.
    let own = alive.filter(|ready| ready.url.parse::<Uri>().is_ok_and(|own| is_same_origin(&own, &uri)));
    let certificate = own.and_then(|ready| ready.certificate.clone());
    let mut located = GatewayAddress {
        uri,
        place,
        is_named,
        is_running,
        token: None,
        token_place: None,
        certificate,
        no_token: None,
        has_login: false,
    };
    if flags.without_token {
        return Ok(located);
    }
    if let Some(path) = &flags.token_file {
        located.token = Some(token::read(path)?);
        located.token_place = Some(format!("`{}`", path.display()));
    } else if let Some((context, _)) = context.as_ref().filter(|(context, _)| context.token.is_some()) {
        located.token = context.resolve(&Home::find(flags.home.as_deref(), environment)?, environment)?;
        located.token_place = Some(format!("the context `{}`", context.name));
    } else if let Some(text) = environment.text(TOKEN_VARIABLE)?.filter(|_| context.is_none()) {
        if !token::is_token(text.trim()) {
            return Err(Problem::new(Kind::Unauthenticated, format!("`{TOKEN_VARIABLE}` contains no token")));
        }
        located.token = Some(Secret::new(text.trim()));
        located.token_place = Some(format!("`{TOKEN_VARIABLE}`"));
    } else if let Some(ready) = own {
        // Only the gateway that the file names gets its token: anyone else who listens here would learn it.
        if is_here(&located.uri) || located.certificate.is_some() {
            match token::read(&ready.token_file) {
                Ok(token) => {
                    located.token = Some(token);
                    located.token_place = Some(format!("`{}`", ready.token_file.display()));
                }
                Err(problem) => located.no_token = Some(problem.message),
            }
        }
    }
    if located.token.is_none() && is_named {
        let home = Home::find(flags.home.as_deref(), environment);
        located.has_login = home.is_ok_and(|home| endpoint_login::is_stored(&home, &located.uri));
    }
    Ok(located)
}

// === impl GatewayAddress ===

impl GatewayAddress {
    /// The profile that the URL names.
    pub(crate) fn profile(&self) -> Option<ProfileName> {
        let (_, name) = self.uri.path().rsplit_once("/mcp/p/")?;
        ProfileName::new(name).ok()
    }

    /// Whether a command comes with a token or a login.
    pub(crate) fn has_credential(&self) -> bool {
        self.token.is_some() || self.has_login
    }

    /// A client for it: a gateway of this home with TLS is known by its very certificate, others by their authorities.
    pub(crate) fn http_client(&self) -> std::io::Result<HttpClient> {
        self.certificate.clone().map_or_else(HttpClient::new, HttpClient::pinning)
    }
}

fn is_same_origin(one: &Uri, other: &Uri) -> bool {
    one.scheme() == other.scheme() && one.authority() == other.authority()
}

/// Whether the gateway that is asked for is the one that `toolcrib serve` would start in this home.
pub(crate) fn is_of_this_home(flags: &ClientFlags, environment: &Environment) -> bool {
    let located = match locate(flags, environment) {
        Ok(located) => located,
        // Its port is chosen at its start.
        Err(problem) => return problem.kind == Kind::Unavailable,
    };
    let authority = |uri: &Uri| uri.authority().map(|name| name.as_str().replace("localhost", "127.0.0.1"));
    let own = || from_settings(flags, environment).ok().and_then(|(url, _)| url.parse::<Uri>().ok());
    is_here(&located.uri) && (!located.is_named || own().is_some_and(|own| authority(&own) == authority(&located.uri)))
}

/// The context that is used; a named endpoint needs none.
pub(crate) fn context(
    flags: &ClientFlags,
    environment: &Environment,
) -> Result<Option<(crate::contexts::Context, String)>, Problem> {
    let names_endpoint = flags.context.is_none() && environment.text(ENDPOINT_VARIABLE)?.is_some();
    if flags.endpoint.is_some() || names_endpoint {
        return Ok(None);
    }
    let home = Home::find(flags.home.as_deref(), environment);
    crate::contexts::wanted(flags.context.as_deref(), home.as_ref().map_err(Clone::clone), environment)
}

/// Where another client finds the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientAddress {
    pub(crate) url: String,
    /// Whether its certificate is for another name, so that only a program that pins it can connect: our bridge.
    pub(crate) needs_pinning: bool,
}

/// The URL for another client: the given one, else that in the settings, because that of a gateway that runs now may be
/// another one tomorrow. Where clients reach it by a name, its certificate and its logins are for that name.
pub(crate) fn address(
    endpoint_flag: Option<&str>,
    profile: Option<&ProfileName>,
    home: &Home,
    environment: &Environment,
) -> Result<ClientAddress, Problem> {
    let (url, place) = match endpoint_flag {
        Some(url) => (url.to_owned(), "`--endpoint`".to_owned()),
        None => {
            let flags = SettingFlags { home: Some(home.path().to_owned()), ..SettingFlags::default() };
            let config = Config::load(&flags, environment)?;
            match &config.identity {
                Some(identity) => (identity.url.clone(), "`identity.url`".to_owned()),
                None => own_address(&config)?,
            }
        }
    };
    // The default profile needs no path.
    let profile = profile.filter(|profile| profile.as_str() != "default");
    let uri = endpoint(&url, profile).ok_or_else(|| not_an_endpoint(&url, &place))?;
    let is_https = uri.scheme_str() == Some("https");
    Ok(ClientAddress { needs_pinning: endpoint_flag.is_none() && is_https && is_here(&uri), url: uri.to_string() })
}

fn not_an_endpoint(url: &str, place: &str) -> Problem {
    Problem::new(Kind::InvalidParams, format!("`{url}` from {place} is not an endpoint"))
        .hint("an endpoint looks like `http://127.0.0.1:8700/mcp`")
}

/// The address that a gateway of this home would listen on.
fn from_settings(flags: &ClientFlags, environment: &Environment) -> Result<(String, String), Problem> {
    own_address(&Config::load(&SettingFlags { home: flags.home.clone(), ..SettingFlags::default() }, environment)?)
}

fn own_address(config: &Config) -> Result<(String, String), Problem> {
    let mut address = config.listen;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
    }
    if address.port() == 0 {
        let problem =
            Problem::new(Kind::Unavailable, "no gateway is running in this home, and its port is chosen at start");
        return Err(problem.hint("start it with `toolcrib serve`"));
    }
    let scheme = if config.tls_files().is_some() { "https" } else { "http" };
    Ok((format!("{scheme}://{address}{PATH}"), format!("`listen`, {}", config.listen_place)))
}

/// A URL as an endpoint: `/mcp` where it has no path, `/p/<profile>` after it.
fn endpoint(url: &str, profile: Option<&ProfileName>) -> Option<Uri> {
    let uri: Uri = url.trim().parse().ok()?;
    let authority = uri.authority()?.as_str();
    let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
    if authority.contains('@') || uri.query().is_some() {
        return None;
    }
    let path = uri.path().trim_end_matches('/');
    let path = if path.is_empty() { PATH } else { path };
    let profile = profile.map(|profile| format!("/p/{profile}")).unwrap_or_default();
    format!("{scheme}://{authority}{path}{profile}").parse().ok()
}

/// Whether a text can be an endpoint.
pub(crate) fn is_endpoint(url: &str) -> bool {
    endpoint(url, None).is_some()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::*;

    const RUNNING: &str = "http://127.0.0.1:5000/mcp";

    /// A home in which a gateway runs (this test) and has a token.
    fn home(url: &str) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let token = home.path().join("state/token");
        token::write_private(&token, b"secret").unwrap();
        ready(std::process::id(), url, &token).write(&home.path().join("state/serve.json")).unwrap();
        home
    }

    fn ready(pid: u32, url: &str, token_file: &Path) -> ready::ReadyFile {
        ready::ReadyFile {
            pid,
            url: url.to_owned(),
            token_file: token_file.to_owned(),
            certificate: None,
            unlisted: Vec::new(),
        }
    }

    fn find(home: &Path, endpoint: Option<&str>, variables: &[(&str, &str)]) -> Result<GatewayAddress, Problem> {
        let flags = ClientFlags {
            home: Some(home.to_owned()),
            endpoint: endpoint.map(str::to_owned),
            ..ClientFlags::for_tests()
        };
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
        locate(&flags, &environment)
    }

    fn token_of(located: &GatewayAddress) -> Option<&str> {
        located.token.as_ref().map(Secret::expose)
    }

    #[test]
    fn flag_variable_running_gateway_settings() {
        let home = home(RUNNING);
        let variable = [(ENDPOINT_VARIABLE, "http://b:1")];
        for (located, url, place) in [
            (find(home.path(), Some("https://a:1/x/"), &variable), "https://a:1/x", "`--endpoint`"),
            (find(home.path(), None, &variable), "http://b:1/mcp", "`TOOLCRIB_ENDPOINT`"),
            (find(home.path(), None, &[]), RUNNING, "serve.json`"),
        ] {
            let located = located.unwrap();
            assert_eq!(located.uri.to_string(), url);
            assert!(located.place.ends_with(place), "{}", located.place);
        }
        let empty = tempfile::tempdir().unwrap();
        let located = find(empty.path(), None, &[("TOOLCRIB_LISTEN", "0.0.0.0:9")]).unwrap();
        assert_eq!(located.uri.to_string(), "http://127.0.0.1:9/mcp");
        assert_eq!(located.place, "`listen`, variable `TOOLCRIB_LISTEN`");
        let problem = find(empty.path(), None, &[("TOOLCRIB_LISTEN", "127.0.0.1:0")]).unwrap_err();
        assert!(problem.hint.unwrap().contains("toolcrib serve"));
        // Anyone who was killed leaves the file behind.
        ready(i32::MAX.unsigned_abs(), RUNNING, Path::new("/t")).write(&home.path().join("state/serve.json")).unwrap();
        assert_eq!(find(home.path(), None, &[]).unwrap().uri.to_string(), "http://127.0.0.1:8700/mcp");
    }

    #[test]
    fn the_token_of_a_gateway_goes_to_no_one_else() {
        let own = home(RUNNING);
        assert_eq!(token_of(&find(own.path(), None, &[]).unwrap()), Some("secret"));
        assert_eq!(token_of(&find(own.path(), Some("http://127.0.0.1:5000"), &[]).unwrap()), Some("secret"));
        for other in ["http://127.0.0.1:5001", "http://127.0.0.1.evil.example:5000", "https://evil.example"] {
            assert_eq!(token_of(&find(own.path(), Some(other), &[]).unwrap()), None, "{other}");
        }
        let flags = ClientFlags { home: Some(own.path().to_owned()), ..ClientFlags::for_tests() }.without_token();
        let environment = [(TOKEN_VARIABLE.to_owned(), OsString::from("given"))].into_iter().collect();
        assert_eq!(token_of(&locate(&flags, &environment).unwrap()), None);
        // With TLS it is known by its certificate, at any address; never in plain text.
        let secure = home("https://192.0.2.1:5000/mcp");
        let known = ready::ReadyFile {
            certificate: Some("/c".into()),
            ..ready::read(&secure.path().join("state/serve.json")).unwrap()
        };
        known.write(&secure.path().join("state/serve.json")).unwrap();
        let located = find(secure.path(), None, &[]).unwrap();
        assert_eq!((token_of(&located), located.certificate.as_deref()), (Some("secret"), Some(Path::new("/c"))));
        for other in ["http://192.0.2.1:5000", "https://192.0.2.1:5001", "https://192.0.2.2:5000"] {
            let located = find(secure.path(), Some(other), &[]).unwrap();
            assert_eq!((token_of(&located), located.certificate.as_deref()), (None, None), "{other}");
        }
        let elsewhere = home("http://192.0.2.1:5000/mcp");
        assert_eq!(token_of(&find(elsewhere.path(), None, &[]).unwrap()), None);
        let given = [(TOKEN_VARIABLE, "given")];
        assert_eq!(token_of(&find(elsewhere.path(), None, &given).unwrap()), Some("given"));
        assert_eq!(find(own.path(), None, &[(TOKEN_VARIABLE, "a\nb")]).unwrap_err().kind, Kind::Unauthenticated);
    }

    #[test]
    fn profiles_have_their_own_url() {
        let profile = ProfileName::new("work").unwrap();
        for (url, expected) in [
            ("http://a", Some("http://a/mcp/p/work")),
            ("http://a/mcp/", Some("http://a/mcp/p/work")),
            ("http://a/x/mcp", Some("http://a/x/mcp/p/work")),
            ("http://user:pw@a/mcp", None),
            ("ftp://a", None),
            ("127.0.0.1:8700", None),
            ("", None),
        ] {
            assert_eq!(endpoint(url, Some(&profile)).map(|uri| uri.to_string()).as_deref(), expected, "{url}");
        }
    }
}
