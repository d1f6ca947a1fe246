//! What must be known of a server to connect to it, secrets resolved.

use std::path::PathBuf;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_base::{Mask, Secret, ServerName};
use toolcrib_protocol::{Capabilities, Era};
use toolcrib_transport::http::client::Endpoint as HttpEndpoint;

use crate::eras::Nature;
use crate::install::Installer;
use crate::places::PlaceLimits;

/// From how many bytes on a value in the query of an address is taken for a key.
const KEY_IN_QUERY: usize = 8;
/// The same of a word of its path.
const KEY_IN_PATH: usize = 24;

/// One server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its name.
    pub name: ServerName,
    /// How it is reached.
    pub endpoint: Endpoint,
    /// When it is started.
    pub start: Start,
    /// After how long without a call it is stopped until the next one; `None` is never. Only where it starts lazily.
    pub idle: Option<Duration>,
    /// How long to wait for it.
    pub timeouts: Timeouts,
    /// How many calls may run at a time, and wait, when it is started.
    pub places: PlaceLimits,
    /// Whose calls share a connection, where the server is a legacy one.
    pub session: SessionPolicy,
    /// What the connection that lists declares. Some servers show tools only to clients that can be asked.
    pub declares: Capabilities,
    /// The only era in which it is spoken to; `None` is that of each client, where the server speaks it.
    pub only: Option<Era>,
    /// What is remembered of it.
    pub nature: Nature,
    /// Where its program installs what it runs.
    pub installs: Option<Installer>,
    /// Whether it is known to want a login by OAuth, also where its refusals do not say so.
    pub wants_login: bool,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Endpoint {
    /// A child process that speaks over stdin and stdout.
    Stdio {
        /// A name looked up in `PATH`, or a path.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables beside the inherited ones.
        env: Vec<(String, Secret)>,
        /// The names of further variables of ours that it inherits.
        inherit: Vec<String>,
        /// Its working folder.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP, of whichever era; also HTTP+SSE where the address takes no POST.
    Http(HttpEndpoint),
    /// HTTP+SSE of 2024-11-05.
    Sse(HttpEndpoint),
    /// The definition cannot be used as it is, for instance because a secret is missing.
    Unusable {
        /// Why, as a fragment.
        reason: String,
    },
}

impl Endpoint {
    /// Streamable HTTP at `url`; unusable with its reason when the URL or a header cannot be sent.
    pub fn http(url: &str, headers: &[(String, Secret)]) -> Self {
        Self::at(url, headers).map_or_else(|reason| Self::Unusable { reason }, Self::Http)
    }

    /// HTTP+SSE at `url`; unusable with its reason as above.
    pub fn sse(url: &str, headers: &[(String, Secret)]) -> Self {
        Self::at(url, headers).map_or_else(|reason| Self::Unusable { reason }, Self::Sse)
    }

    fn at(url: &str, headers: &[(String, Secret)]) -> Result<HttpEndpoint, String> {
        let Ok(uri) = url.parse() else {
            return Err("its URL cannot be requested".into());
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let header = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value.expose()));
            let (Ok(name), Ok(mut value)) = header else {
                return Err(format!("its header `{name}` cannot be sent"));
            };
            value.set_sensitive(true);
            map.insert(name, value);
        }
        Ok(HttpEndpoint { uri, headers: map, proof: HeaderMap::new() })
    }
}

impl ServerConfig {
    /// How long a start may take at most, also where it is a download.
    pub fn longest_start(&self) -> Duration {
        let connect = self.timeouts.connect;
        self.installs.as_ref().map_or(connect, |installs| installs.most.max(connect))
    }

    /// Takes the secrets that the server was given out of texts of it and about it.
    pub(crate) fn mask(&self) -> Mask {
        match &self.endpoint {
            Endpoint::Stdio { env, .. } => Mask::new(env.iter().map(|(_, secret)| secret.expose())),
            Endpoint::Http(http) | Endpoint::Sse(http) => {
                let values = http.headers.values().filter_map(|value| value.to_str().ok());
                // `Bearer x` is told without its first word just as often.
                let words = values.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or_default()]);
                Mask::new(words.chain(keys_of(&http.uri)))
            }
            Endpoint::Unusable { .. } => Mask::default(),
        }
    }

    /// A text without these secrets.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.mask().apply(text).into_owned()
    }
}

/// What of an address may be a key: values of its query, and words of its path that are too long for a name.
fn keys_of(uri: &http::Uri) -> impl Iterator<Item = &str> {
    let values = uri.query().into_iter().flat_map(|query| query.split('&')).filter_map(|member| member.split_once('='));
    let values = values.map(|(_, value)| value).filter(|value| value.len() >= KEY_IN_QUERY);
    values.chain(uri.path().split('/').filter(|word| word.len() >= KEY_IN_PATH))
}

/// When a server is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the first call; once in the background when nothing is known of its tools.
    Lazy,
    /// With the gateway.
    Eager,
    /// When someone says so.
    Manual,
}

/// Whose calls share a connection to a legacy server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionPolicy {
    /// All that offer the same.
    Shared,
    /// Those of one principal that offer the same; a legacy client that can be asked has its own.
    #[default]
    Principal,
    /// Those that name the same conversation; those that name none as with [`SessionPolicy::Principal`].
    Handle,
    /// None: each call opens and closes its own. Calls that name the same conversation are one.
    Request,
}

/// How long to wait for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For starting and the handshake.
    pub connect: Duration,
    /// For all pages of its lists.
    pub list: Duration,
    /// For one call.
    pub call: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), list: Duration::from_secs(10), call: Duration::from_secs(60) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_s_secrets_do_not_stand_in_texts_about_it() {
        let config = |endpoint| ServerConfig {
            name: ServerName::new("a").unwrap(),
            endpoint,
            start: Start::Lazy,
            idle: None,
            timeouts: Timeouts::default(),
            places: PlaceLimits::default(),
            session: SessionPolicy::default(),
            declares: Capabilities::NONE,
            only: None,
            nature: Nature::default(),
            installs: None,
            wants_login: false,
        };
        let env = vec![("KEY".to_owned(), Secret::new("sk-12345")), ("MODE".to_owned(), Secret::new("on"))];
        let stdio = config(Endpoint::Stdio { program: "x".into(), args: vec![], env, inherit: vec![], cwd: None });
        assert_eq!(stdio.masked("invalid key sk-12345 on start"), "invalid key **** on start");
        let http = config(Endpoint::http("http://localhost/", &[("x-key".into(), Secret::new("Bearer abcdefgh"))]));
        assert_eq!(http.masked("got Bearer abcdefgh, or abcdefgh"), "got ****, or ****");
    }
}
