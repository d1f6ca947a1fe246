//! Who may reach the gateway: TLS, proxies, and what has to be set before it listens beyond this machine.

use std::net::SocketAddr;
use std::path::PathBuf;

use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_catalog::Catalog;
use toolcrib_transport::http::tls::TlsFiles;
use toolcrib_web::TrustedProxies;

use super::Config;

/// How connections are protected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsConfig {
    /// A proxy in front speaks TLS.
    pub(crate) is_at_proxy: bool,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) client_ca: Option<PathBuf>,
}

/// What protects an address that others can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Protection {
    has_tls: bool,
    is_behind_proxies: bool,
}

// === impl Protection ===

impl Protection {
    /// Refuses an address that others can reach in plain text.
    pub(crate) fn check(self, address: SocketAddr, place: &str) -> Result<(), Problem> {
        if address.ip().to_canonical().is_loopback() || self.has_tls || self.is_behind_proxies {
            return Ok(());
        }
        let message = format!(
            "refusing to listen on `{address}`{place}: tokens and keys of other machines would cross the network in \
             plain text"
        );
        let hint = format!(
            "set `tls.cert` and `tls.key`, or `tls = \"proxy\"` and `trusted_proxies` behind a proxy that speaks TLS, \
             or listen on `127.0.0.1:{}`",
            address.port()
        );
        Err(Problem::new(Kind::Address, message).hint(hint))
    }
}

// === impl Config ===

impl Config {
    /// The files of the own TLS, if the gateway speaks it. Paths begin at the home folder.
    pub(crate) fn tls_files(&self) -> Option<TlsFiles> {
        let here = |path: &PathBuf| self.home.path().join(path);
        let TlsConfig { cert, key, client_ca, .. } = &self.tls;
        Some(TlsFiles {
            certificate: here(cert.as_ref()?),
            key: here(key.as_ref()?),
            client_authorities: client_ca.as_ref().map(here),
        })
    }

    /// What protects the address.
    pub(crate) fn protection(&self) -> Protection {
        Protection {
            has_tls: self.tls_files().is_some(),
            is_behind_proxies: self.tls.is_at_proxy && !self.trusted_proxies.is_empty(),
        }
    }

    /// The proxies whose word counts.
    pub(crate) fn proxies(&self) -> TrustedProxies {
        TrustedProxies::new(self.trusted_proxies.clone())
    }

    /// Refuses an address that others can reach in plain text, and settings that contradict each other.
    pub(crate) fn check_listen(&self) -> Result<(), Problem> {
        self.check_tls()?;
        self.protection().check(self.listen, &format!(" ({})", self.listen_place))
    }

    fn check_tls(&self) -> Result<(), Problem> {
        let TlsConfig { is_at_proxy, cert, key, client_ca } = &self.tls;
        let certificates = self.identity.as_ref().is_some_and(|identity| identity.certificates.is_some());
        let (message, hint) = match (cert, key) {
            (Some(_), Some(_)) if *is_at_proxy => (
                "`tls` says that a proxy speaks TLS, and `tls.cert` that the gateway does",
                "remove one of them; a proxy in front of a gateway with TLS of its own is named in `trusted_proxies` alone",
            ),
            (Some(_), None) => {
                ("`tls.cert` is set and `tls.key` is not", "set `tls.key` to the file of its private key")
            }
            (None, Some(_)) => {
                ("`tls.key` is set and `tls.cert` is not", "set `tls.cert` to the file of its certificate")
            }
            (None, None) if client_ca.is_some() => (
                "`tls.client_ca` needs `tls.cert` and `tls.key`",
                "set both: clients show certificates to the gateway's own TLS only",
            ),
            _ if *is_at_proxy && self.trusted_proxies.is_empty() => (
                "`tls = \"proxy\"` needs `trusted_proxies`",
                "set `trusted_proxies = [\"127.0.0.1\"]` for a proxy on this machine, else to its address",
            ),
            _ if client_ca.is_some() && !certificates => (
                "`tls.client_ca` needs `[identity.certificates]`",
                "say there what the clients of this authority are called (`ca`) and may do (`grants`)",
            ),
            _ if client_ca.is_none() && certificates => (
                "`[identity.certificates]` needs `tls.client_ca`",
                "set it to the file with the certificate of the clients' authority",
            ),
            _ => return Ok(()),
        };
        Err(Problem::new(Kind::Definition, message).hint(hint))
    }

    /// Refuses to be reached by others while a profile asks for no credential.
    pub(crate) fn check_profiles(&self, catalog: &Catalog) -> Result<(), Problem> {
        // With `[identity]` each request needs a credential.
        if self.listen.ip().to_canonical().is_loopback() || self.identity.is_some() {
            return Ok(());
        }
        let open: Vec<&ProfileName> =
            catalog.profiles.values().filter(|profile| profile.keys.is_none()).map(|profile| &profile.name).collect();
        let Some(first) = open.first() else { return Ok(()) };
        let names = open.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let message = format!(
            "refusing to listen on `{}` ({}): it needs a credential for each profile, and none is set for {names}",
            self.listen, self.listen_place
        );
        Err(Problem::new(Kind::Address, message)
            .hint(format!("make a key with `toolcrib profile key add {first} NAME`, or set `[identity]`")))
    }
}
