//! The names of the simulated remotes: which host is at which address of this machine. Nothing here asks the real DNS.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http::Uri;

/// Hosts and their addresses; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Network(Arc<Mutex<BTreeMap<String, SocketAddr>>>);

// === impl Network ===

impl Network {
    /// From now on `host` is at `address`.
    pub fn add(&self, host: &str, address: SocketAddr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(host.to_owned(), address);
    }

    /// Where the host of `uri` is: a name of this network, or an address of the loopback interface.
    pub fn address(&self, uri: &Uri) -> Option<SocketAddr> {
        let host = uri.host()?;
        let named = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).copied();
        named.or_else(|| {
            let host = if host == "localhost" { "127.0.0.1" } else { host };
            let address = SocketAddr::new(host.parse().ok()?, uri.port_u16()?);
            address.ip().is_loopback().then_some(address)
        })
    }
}
