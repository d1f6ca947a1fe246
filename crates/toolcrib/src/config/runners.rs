//! `[runners]`: who executes agent runs beside this process, and how they prove who they are. The command `runner` has the
//! same from its side.

use std::path::{Path, PathBuf};

use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::SecretRef;
use toolcrib_runner::{Address, TcpProtection};
use toolcrib_transport::stream::{TlsClient, TlsClientFiles, TlsServer, TlsServerFiles};

/// Who executes agent runs beside this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunnersConfig {
    /// Where they connect.
    pub(crate) listen: Vec<Address>,
    /// Where they listen.
    pub(crate) connect: Vec<Address>,
    /// What they share with the gateway.
    pub(crate) secret: Option<SecretRef>,
    /// Runs of one at once.
    pub(crate) runs: usize,
    /// For addresses of TCP.
    pub(crate) tls: RunnerTlsConfig,
}

/// The files of TLS between a gateway and a runner, the same on both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunnerTlsConfig {
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    /// The authority of the other side.
    pub(crate) ca: Option<PathBuf>,
}

impl RunnersConfig {
    /// Whether there can be any.
    pub(crate) fn is_used(&self) -> bool {
        !self.listen.is_empty() || !self.connect.is_empty()
    }
}

/// The address with its path from the home folder on.
pub(crate) fn at_home(address: &Address, home: &Path) -> Address {
    match address {
        Address::Unix(path) => Address::Unix(home.join(path)),
        Address::Firecracker(path, port) => Address::Firecracker(home.join(path), *port),
        other => other.clone(),
    }
}

impl RunnerTlsConfig {
    /// What is set of it, all or nothing; paths begin at `base`.
    fn files(&self, base: &Path) -> Result<Option<(PathBuf, PathBuf, PathBuf)>, Problem> {
        let here = |path: &PathBuf| base.join(path);
        match (&self.cert, &self.key, &self.ca) {
            (Some(cert), Some(key), Some(ca)) => Ok(Some((here(cert), here(key), here(ca)))),
            (None, None, None) => Ok(None),
            _ => {
                let message = "TCP between gateway and runners has only a part of its certificate, key and authority";
                Err(Problem::new(Kind::Definition, message).hint("set all three: `cert`, `key` and `ca`"))
            }
        }
    }

    /// For addresses that are listened at. Blocks.
    pub(crate) fn server(&self, base: &Path) -> Result<TcpProtection, Problem> {
        let Some((certificate, key, client_authorities)) = self.files(base)? else { return Ok(TcpProtection::None) };
        let read = TlsServer::read(&TlsServerFiles { certificate, key, client_authorities });
        read.map(TcpProtection::Server).map_err(|error| problem(&error))
    }

    /// For addresses that are connected to. Blocks.
    pub(crate) fn client(&self, base: &Path) -> Result<TcpProtection, Problem> {
        let Some((certificate, key, ca)) = self.files(base)? else { return Ok(TcpProtection::None) };
        let read = TlsClient::read(&TlsClientFiles { authorities: Some(ca), own: Some((certificate, key)) });
        read.map(TcpProtection::Client).map_err(|error| problem(&error))
    }
}

fn problem(error: &toolcrib_transport::http::tls::TlsError) -> Problem {
    Problem::new(Kind::Definition, error.to_string()).hint(error.hint())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_sockets_begin_at_the_home_folder() {
        let check = |text: &str, expected: &str| {
            assert_eq!(at_home(&text.parse().unwrap(), Path::new("/h")).to_string(), expected);
        };
        check("unix:state/runners.sock", "unix:/h/state/runners.sock");
        check("unix:/run/x.sock", "unix:/run/x.sock");
        check("firecracker:vm/v.sock:7", "firecracker:/h/vm/v.sock:7");
        check("tcp:localhost:7", "tcp:localhost:7");
    }

    #[test]
    fn a_part_of_tls_is_none() {
        let tls = RunnerTlsConfig { cert: Some("a".into()), ..RunnerTlsConfig::default() };
        for refused in [tls.server(Path::new("/h")), tls.client(Path::new("/h"))] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.hint.as_deref(), Some("set all three: `cert`, `key` and `ca`"));
        }
        assert!(matches!(RunnerTlsConfig::default().server(Path::new("/h")), Ok(TcpProtection::None)));
        let absent = RunnerTlsConfig { cert: Some("a".into()), key: Some("b".into()), ca: Some("c".into()) };
        assert!(absent.server(Path::new("/h")).unwrap_err().message.contains("`/h/"));
    }
}
