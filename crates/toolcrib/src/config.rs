//! The settings: gathered low (flags, variables, the file's text), checked once, then a value of types.
//!
//! Precedence: flag, variable, file, default. The table of keys is in [`key`]; to add a key, add its row there.

mod audit;
mod file;
mod identity;
mod key;
mod otlp;
mod parse;
mod part;
mod reach;
mod runners;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolcrib_base::{Kind, Limits, Problem};
use toolcrib_call::SecretActions;
use toolcrib_catalog::SecretRef;
use toolcrib_gateway::UiMode;
use toolcrib_store::Retention;
use toolcrib_web::Network;

use crate::home::{Environment, Home};

pub(crate) use audit::{AuditConfig, AuditTargetConfig};
pub(crate) use identity::{
    CertificatesConfig, ClientConfig, GrantConfig, Grantee, IdentityConfig, IssuerConfig, ServerConfig,
};
pub(crate) use key::{KEYS, Key};
pub(crate) use otlp::{Otlp, TraceExport};
pub(crate) use reach::{Protection, TlsConfig};
pub(crate) use runners::{RunnerTlsConfig, RunnersConfig, at_home};

/// Settings as the command line gave them: nothing is checked yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags {
    /// `--home`
    pub(crate) home: Option<PathBuf>,
    /// One entry for each key that was given as a flag.
    pub(crate) flags: BTreeMap<&'static str, toml::Value>,
}

/// Settings as the gateway uses them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// The home folder.
    pub(crate) home: Home,
    /// Address to listen on; port 0 lets the system choose.
    pub(crate) listen: SocketAddr,
    /// Where the value of `listen` came from, for errors.
    pub(crate) listen_place: String,
    /// What is logged, in the syntax of `EnvFilter`; it was checked.
    pub(crate) log: String,
    /// Log format.
    pub(crate) log_format: LogFormat,
    /// The URL that clients use when a proxy is before us, without a `/` at its end.
    pub(crate) public_url: Option<String>,
    /// Names in `Host` that are ours besides the loopback ones.
    pub(crate) allowed_hosts: Vec<String>,
    /// Values of `Origin` that may call us besides our own.
    pub(crate) allowed_origins: Vec<String>,
    /// How connections are protected.
    pub(crate) tls: TlsConfig,
    /// The proxies whose word on clients' addresses counts.
    pub(crate) trusted_proxies: Vec<Network>,
    /// Whose access tokens count, if any do.
    pub(crate) identity: Option<IdentityConfig>,
    /// `request_bytes`, `bodies_bytes`, `message_bytes`, `depth`, `sessions` and `session_idle`.
    pub(crate) limits: Limits,
    /// How many audit events may wait for the disk.
    pub(crate) audit_queue: usize,
    /// Where the audit log is delivered to.
    pub(crate) audit: AuditConfig,
    /// Whether redacted arguments are kept in the audit log.
    pub(crate) audit_arguments: bool,
    /// For how long audit events are kept; for ever without it.
    pub(crate) audit_age: Option<Duration>,
    /// Whether it ends with the command that started it.
    pub(crate) is_momentary: bool,
    /// What is done with secrets in calls where neither a server nor a profile says anything.
    pub(crate) secret_actions: SecretActions,
    /// What the pages of the web user interface may do.
    pub(crate) ui: UiMode,
    /// Calls that wait for a yes.
    pub(crate) approvals: ApprovalsConfig,
    /// Who executes agent runs beside this process.
    pub(crate) runners: RunnersConfig,
    /// How many events are kept, and for how long.
    pub(crate) events: Retention,
    /// How many runs that ended are kept, and for how long.
    pub(crate) runs: Retention,
    /// How long the parts may take to end.
    pub(crate) grace: Duration,
    /// The address of the collector that spans are sent to.
    pub(crate) otlp_endpoint: Option<String>,
    /// How spans are exported, by that address and the variables of OpenTelemetry.
    pub(crate) otlp: Otlp,
    /// Where releases of this program are announced.
    pub(crate) update: UpdateConfig,
    /// Every key that has a value, with where it came from.
    pub(crate) given: BTreeMap<&'static str, ValueWithSource>,
}

/// `[approvals]`: calls that wait for a yes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ApprovalsConfig {
    /// How long a request waits for it.
    pub(crate) wait: Duration,
    /// What is told of what happens to them.
    pub(crate) webhook: Option<String>,
    /// What signs that.
    pub(crate) webhook_secret: Option<SecretRef>,
    /// Whether it may have a private address.
    pub(crate) webhook_private: bool,
}

/// `[update]`: where `toolcrib self-update` finds releases.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UpdateConfig {
    /// The index.
    pub(crate) index: Option<String>,
    /// Whose signature counts; a path from the home folder on.
    pub(crate) key: Option<PathBuf>,
    /// Whose certificates count; the same.
    pub(crate) ca: Option<PathBuf>,
}

/// How events are written to stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// One line for people.
    Human,
    /// One JSON object in a line.
    Json,
}

/// A value with the place that it came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueWithSource {
    pub(crate) value: toml::Value,
    pub(crate) place: String,
}

// === impl Config ===

impl Config {
    /// The settings of a gateway that a command starts for itself: any free port, and `log` as the log's filter, unless
    /// `flags` or `TOOLCRIB_LOG` say otherwise. The person's own home and address have no effect.
    ///
    /// # Errors
    /// A flag or a variable has a wrong value.
    pub(crate) fn for_a_command(
        home: &Path,
        log: &'static str,
        flags: impl IntoIterator<Item = (&'static str, toml::Value)>,
        environment: &Environment,
    ) -> Result<Self, Problem> {
        let listen = [("listen", toml::Value::from("127.0.0.1:0"))];
        Self::for_a_moment(home, log, listen.into_iter().chain(flags), environment)
    }

    /// The same on the address of the person's settings: of a gateway that stands in for theirs.
    ///
    /// # Errors
    /// A setting has a wrong value.
    pub(crate) fn for_a_moment(
        home: &Path,
        log: &'static str,
        flags: impl IntoIterator<Item = (&'static str, toml::Value)>,
        environment: &Environment,
    ) -> Result<Self, Problem> {
        let mut all = BTreeMap::new();
        if environment.get("TOOLCRIB_LOG").is_none() {
            all.insert("log", log.into());
        }
        all.extend(flags);
        let config = Self::load(&SettingFlags { home: Some(home.to_owned()), flags: all }, environment)?;
        Ok(Self { is_momentary: true, ..config })
    }

    /// Reads the file and settles every key.
    pub(crate) fn load(low: &SettingFlags, environment: &Environment) -> Result<Self, Problem> {
        Self::settle(low, environment).map_err(toolcrib_catalog::without_secrets)
    }

    fn settle(low: &SettingFlags, environment: &Environment) -> Result<Self, Problem> {
        let home = Home::find(low.home.as_deref(), environment)?;
        let mut from_file = file::read(&home.config_file())?;
        let mut config = Self::blank(home);
        for key in &KEYS {
            let given = given(key, low, environment, &mut from_file)?;
            let Some(given) = given else { continue };
            (key.set)(&mut config, &given.value).map_err(|wrong| {
                let message =
                    format!("{}: `{}`: expected {}, got {}", given.place, key.name, wrong.0, shown(&given.value));
                Problem::new(Kind::Definition, message)
            })?;
            if key.name == "listen" {
                config.listen_place.clone_from(&given.place);
            }
            config.given.insert(key.name, given);
        }
        if let Some(given) = from_file.remove(identity::TABLE) {
            config.identity = Some(identity::read(&given)?);
            config.given.insert(identity::TABLE, given);
        }
        if let Some(given) = from_file.remove(audit::LIST) {
            config.audit = audit::read(&given)?.at_home(config.home.path());
            config.given.insert(audit::LIST, given);
        }
        config.otlp = Otlp::read(environment, config.otlp_endpoint.as_deref());
        Ok(config)
    }

    /// The address that the file says now, if it says one.
    pub(crate) fn listen_of_file(home: &Home) -> Result<Option<SocketAddr>, Problem> {
        let Some(given) = file::read(&home.config_file())?.remove("listen") else { return Ok(None) };
        let wrong = |wrong: parse::ParseError| {
            Problem::new(Kind::Definition, format!("{}: `listen`: expected {}", given.place, wrong.0))
        };
        parse::address(&given.value).map(Some).map_err(wrong)
    }

    /// What the defaults of the table are then written over.
    fn blank(home: Home) -> Self {
        Self {
            home,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            listen_place: String::new(),
            log: String::new(),
            log_format: LogFormat::Human,
            public_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tls: TlsConfig::default(),
            trusted_proxies: Vec::new(),
            identity: None,
            limits: Limits::default(),
            audit_queue: 0,
            audit: AuditConfig::default(),
            audit_arguments: false,
            audit_age: None,
            is_momentary: false,
            secret_actions: SecretActions::default(),
            ui: UiMode::default(),
            approvals: ApprovalsConfig::default(),
            runners: RunnersConfig::default(),
            events: Retention::EVENTS,
            runs: Retention::RUNS,
            grace: Duration::ZERO,
            otlp_endpoint: None,
            otlp: Otlp::default(),
            update: UpdateConfig::default(),
            given: BTreeMap::new(),
        }
    }
}

/// The value of a key by precedence.
fn given(
    key: &'static Key,
    low: &SettingFlags,
    environment: &Environment,
    from_file: &mut BTreeMap<&'static str, ValueWithSource>,
) -> Result<Option<ValueWithSource>, Problem> {
    if let Some(value) = low.flags.get(key.name) {
        return Ok(Some(ValueWithSource { value: value.clone(), place: format!("flag `--{}`", key.flag) }));
    }
    let variable = key.variable();
    if let Some(text) = environment.text(&variable)? {
        return Ok(Some(ValueWithSource { value: key.value_of_text(text), place: format!("variable `{variable}`") }));
    }
    if let Some(given) = from_file.remove(key.name) {
        return Ok(Some(given));
    }
    Ok(key.default.map(|text| ValueWithSource { value: key.value_of_text(text), place: "the default".to_owned() }))
}

/// A wrong value as it is repeated in an error.
fn shown(value: &toml::Value) -> String {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if toolcrib_catalog::is_secret_value(&text) {
        return "a text".to_owned();
    }
    let short: String = text.chars().take(80).collect();
    format!("`{}`", crate::text::line(&short))
}

#[cfg(test)]
mod tests;
