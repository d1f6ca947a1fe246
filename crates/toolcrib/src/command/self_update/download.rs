//! Downloads of an update: `https` only, from the address that was named and where that one leads. Nothing that is sent
//! says who asks, and nothing that comes counts before it is verified.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, LOCATION, USER_AGENT};
use http::{Request, StatusCode};
use tokio::time::timeout;
use toolcrib_base::{Kind, Problem};
use toolcrib_transport::LinkError;
use toolcrib_transport::http::checked::is_loopback;
use toolcrib_transport::http::client::{HttpClient, Response};
use toolcrib_transport::http::tls;
use url::{Host, Url};

/// How long connecting, or waiting for the next bytes, may take.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a file may take in all.
const WHOLE: Duration = Duration::from_secs(30 * 60);
/// How often a request may be led elsewhere: release pages lead to a version, and that to a storage.
const REDIRECTS: usize = 3;
/// How many addresses of a host are tried.
const ADDRESSES: usize = 4;

/// The client with its rules.
#[derive(Debug)]
pub(super) struct Downloads {
    client: HttpClient,
    /// Whether `http` may be spoken with this machine: for tests.
    allows_http_here: bool,
}

// === impl Downloads ===

impl Downloads {
    /// One that trusts the authorities of `ca` in place of those of the platform.
    pub(super) fn new(ca: Option<&Path>, allows_http_here: bool) -> anyhow::Result<Self> {
        let client = match ca {
            Some(file) => {
                let problem = |error: tls::TlsError| {
                    Problem::new(Kind::Definition, error.to_string()).hint("check `--ca` or `update.ca`")
                };
                HttpClient::trusting(tls::authorities(file).map_err(problem)?)?
            }
            None => HttpClient::new()?,
        };
        Ok(Self { client, allows_http_here })
    }

    /// A whole file of at most `limit` bytes.
    pub(super) async fn bytes(&self, url: &Url, limit: usize) -> Result<Vec<u8>, Problem> {
        let mut bytes = Vec::new();
        self.pieces(url, |piece| {
            if bytes.len() + piece.len() > limit {
                let message = format!("`{}` has more than {limit} bytes", shown(url));
                return Err(Problem::new(Kind::TooLarge, message).hint("check the address: it is something else"));
            }
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .await?;
        Ok(bytes)
    }

    /// A file piece by piece, until its end or until `take` refuses one.
    pub(super) async fn pieces(
        &self,
        url: &Url,
        take: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let late = |_| broken(url, &format!("it is not complete after {} minutes", WHOLE.as_secs() / 60));
        timeout(WHOLE, self.read(url, take)).await.map_err(late)?
    }

    async fn read(&self, url: &Url, mut take: impl FnMut(&[u8]) -> Result<(), Problem>) -> Result<(), Problem> {
        let mut response = self.get(url).await?;
        loop {
            let piece = timeout(SILENCE, response.body.chunk()).await.map_err(|_| silent(url))?;
            match piece.map_err(|error| broken(url, &error.to_string()))? {
                Some(piece) => take(piece)?,
                None => return Ok(()),
            }
        }
    }

    /// The response at the end of all redirects.
    async fn get(&self, url: &Url) -> Result<Response, Problem> {
        let mut at = url.clone();
        for _ in 0..=REDIRECTS {
            self.check(&at, url)?;
            let response = timeout(SILENCE, self.send(&at)).await.map_err(|_| silent(&at))?;
            let response = response.map_err(|error| match error {
                LinkError::Unreachable(why) => unreachable(&at, &why),
                other => broken(&at, &other.to_string()),
            })?;
            if response.status == StatusCode::OK {
                return Ok(response);
            }
            let location = response.headers.get(LOCATION).filter(|_| response.status.is_redirection());
            let next = location.and_then(|location| at.join(location.to_str().ok()?).ok());
            at = next.ok_or_else(|| {
                let message = format!("`{}` answers with HTTP status {}", shown(&at), response.status.as_u16());
                Problem::new(Kind::NotFound, message)
                    .hint("check the address of the index: `--index` or `update.index`")
            })?;
        }
        let message = format!("`{}` leads elsewhere more than {REDIRECTS} times", shown(url));
        Err(Problem::new(Kind::BadServer, message).hint("name the address at the end with `--index`"))
    }

    /// `https`, without a name or a password.
    fn check(&self, at: &Url, begun: &Url) -> Result<(), Problem> {
        let is_secure = at.scheme() == "https" || (self.allows_http_here && at.scheme() == "http" && is_loopback(at));
        let message = match (is_secure, at == begun) {
            (true, _) if at.username().is_empty() && at.password().is_none() => return Ok(()),
            (true, _) => format!("`{}` has, or leads to, an address with a user name or a password", shown(begun)),
            (false, true) => format!("the release index `{}` is not reached: updates use `https`", shown(at)),
            (false, false) => format!("`{}` leads to `{}`, and updates use `https`", shown(begun), shown(at)),
        };
        Err(Problem::new(Kind::Forbidden, message).hint("name an address that begins with `https://`"))
    }

    /// One request. Redirects are not followed here, and the connection is closed behind the answer.
    async fn send(&self, url: &Url) -> Result<Response, LinkError> {
        let unreachable = |why: &str| LinkError::Unreachable(why.to_owned());
        let port = url.port_or_known_default().ok_or_else(|| unreachable("it has no port"))?;
        let addresses: Vec<SocketAddr> = match url.host().ok_or_else(|| unreachable("it has no host"))? {
            Host::Ipv4(address) => vec![(address, port).into()],
            Host::Ipv6(address) => vec![(address, port).into()],
            Host::Domain(host) => {
                let found = tokio::net::lookup_host((host, port)).await;
                found.map_err(|error| unreachable(&format!("the host name cannot be resolved: {error}")))?.collect()
            }
        };
        let mut request =
            Request::get(url.as_str()).body(Bytes::new()).map_err(|error| unreachable(&error.to_string()))?;
        let agent = HeaderValue::from_static(concat!("toolcrib/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        let mut last = unreachable("its host has no address");
        for address in addresses.into_iter().take(ADDRESSES) {
            match self.client.connect_to(address, request.uri()).await {
                Ok(connection) => return connection.send(request).await,
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// An address without what may be a secret in it.
fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

fn unreachable(url: &Url, why: &str) -> Problem {
    let hint = match why.contains("certificate") {
        true => "if its certificate is of an authority of your own, name that with `--ca FILE` or `update.ca`",
        false => "check the address and the connection, then try again; nothing was changed",
    };
    Problem::new(Kind::Unavailable, format!("cannot reach `{}`: {why}", shown(url))).hint(hint)
}

fn broken(url: &Url, why: &str) -> Problem {
    Problem::new(Kind::Unavailable, format!("the download of `{}` broke: {why}", shown(url)))
        .hint("try again; nothing was changed")
}

fn silent(url: &Url) -> Problem {
    Problem::new(Kind::Timeout, format!("`{}` sends nothing for {} seconds", shown(url), SILENCE.as_secs()))
        .hint("try again later; nothing was changed")
}
