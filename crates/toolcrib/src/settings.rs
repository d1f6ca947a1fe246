//! The settings as the control operations see them: what is in force and where it came from, and the address written
//! into `config.toml` on request, everything else in the file untouched.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toml::Spanned;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::Files;
use toolcrib_gateway::KeepSettings;

use crate::config::{Config, Protection};
use crate::home::Home;

/// Says what is risky about the TLS of the listener right now.
pub(crate) trait WarnOfTls: fmt::Debug + Send + Sync {
    /// What to change, with the next step.
    fn warnings(&self) -> Vec<Problem>;
}

/// The settings of this process.
#[derive(Debug)]
pub(crate) struct ProcessSettings {
    home: Home,
    configured: SocketAddr,
    /// Where it listens; nothing for a gateway over stdin and stdout.
    bound: Option<SocketAddr>,
    protection: Protection,
    /// The TLS of the listener, if it speaks it.
    tls: Option<Arc<dyn WarnOfTls>>,
    shown: Value,
}

impl ProcessSettings {
    pub(crate) fn new(config: &Config, bound: Option<SocketAddr>, tls: Option<Arc<dyn WarnOfTls>>) -> Self {
        let shown = config.given.iter().map(|(key, given)| {
            let value = serde_json::to_value(&given.value).unwrap_or_default();
            ((*key).to_owned(), json!({ "value": value, "from": given.place }))
        });
        let shown = Value::Object(shown.collect::<Map<_, _>>());
        let (home, protection) = (config.home.clone(), config.protection());
        Self { home, configured: config.listen, bound, protection, tls, shown }
    }

    fn file(&self) -> PathBuf {
        self.home.config_file()
    }
}

impl KeepSettings for ProcessSettings {
    fn listen(&self) -> SocketAddr {
        self.bound.unwrap_or(self.configured)
    }

    fn is_listening(&self) -> bool {
        self.bound.is_some()
    }

    fn shown(&self) -> Value {
        self.shown.clone()
    }

    fn check_listen(&self, address: SocketAddr) -> Result<(), Problem> {
        self.protection.check(address, "")
    }

    fn warnings(&self) -> Vec<Problem> {
        self.tls.as_ref().map(|tls| tls.warnings()).unwrap_or_default()
    }

    fn saved_listen(&self) -> Result<Option<SocketAddr>, Problem> {
        Config::listen_of_file(&self.home)
    }

    fn save_listen(&self, address: SocketAddr, files: &Files) -> Result<PathBuf, Problem> {
        let file = self.file();
        files.change_settings(|before| {
            with_listen(before, address).ok_or_else(|| {
                Problem::new(Kind::Definition, format!("`{}` is not valid TOML", file.display()))
                    .hint("Fix the file first.")
            })
        })?;
        Ok(file)
    }
}

/// The text with this address, everything else as it is; `None` where it is no TOML or would say something else then.
fn with_listen(text: &str, address: SocketAddr) -> Option<String> {
    type Entries = BTreeMap<String, Spanned<toml::Value>>;
    let entries: Entries = toml::from_str(text).ok()?;
    let written = format!("\"{address}\"");
    let after = match entries.get("listen") {
        Some(value) => {
            let span = value.span();
            format!("{}{written}{}", text.get(..span.start)?, text.get(span.end..)?)
        }
        None => format!("listen = {written}\n{text}"),
    };
    let read: Entries = toml::from_str(&after).ok()?;
    let plain = |entries: &Entries| -> BTreeMap<String, toml::Value> {
        entries.iter().map(|(key, value)| (key.clone(), value.get_ref().clone())).collect()
    };
    let mut expect = plain(&entries);
    expect.insert("listen".to_owned(), toml::Value::String(address.to_string()));
    (plain(&read) == expect).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_changes() {
        let address: SocketAddr = "127.0.0.1:9000".parse().unwrap();
        for (before, after) in [
            ("", "listen = \"127.0.0.1:9000\"\n"),
            ("log = \"info\"\n", "listen = \"127.0.0.1:9000\"\nlog = \"info\"\n"),
            ("# mine\nlisten = 'localhost:1' # why\ndepth=3", "# mine\nlisten = \"127.0.0.1:9000\" # why\ndepth=3"),
            ("listen=\"\"\"a\"\"\"\n", "listen=\"127.0.0.1:9000\"\n"),
        ] {
            assert_eq!(with_listen(before, address).as_deref(), Some(after), "{before}");
        }
        for wrong in ["listen =", "= 1", "listen = 1\nlisten = 2"] {
            assert_eq!(with_listen(wrong, address), None, "{wrong}");
        }
    }
}
