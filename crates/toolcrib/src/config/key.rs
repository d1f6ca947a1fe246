//! The table of keys. One row gives the name in the file, the flag, the variable, the default, the help and the check.
//!
//! To add a key, add a field to [`Config`] and a row here.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::Value;

use super::parse::{self, ParseError};
use super::{Config, SettingFlags};

/// One setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// As in `config.toml`.
    pub(crate) name: &'static str,
    /// The flag without its dashes.
    pub(crate) flag: &'static str,
    /// What a value looks like in the help.
    pub(crate) example: &'static str,
    /// Without one the key is not set.
    pub(crate) default: Option<&'static str>,
    /// One sentence without its dot.
    pub(crate) help: &'static str,
    /// Which kind of TOML value it takes.
    pub(crate) shape: Shape,
    /// Checks a value and puts it into the settings.
    pub(crate) set: fn(&mut Config, &Value) -> Result<(), ParseError>,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One text or number.
    One,
    /// An array; in a flag or a variable separated by commas.
    List,
}

pub(crate) const KEYS: [Key; 43] = [
    Key {
        name: "listen",
        flag: "listen",
        example: "ADDR",
        default: Some("127.0.0.1:8700"),
        help: "Address to listen on; port 0 lets the system choose",
        shape: Shape::One,
        set: |config, value| parse::address(value).map(|value| config.listen = value),
    },
    Key {
        name: "log",
        flag: "log",
        example: "FILTER",
        default: Some("info"),
        help: "Log filter for stderr: a level, or targets with levels such as `warn,toolcrib=debug`",
        shape: Shape::One,
        set: |config, value| parse::filter(value).map(|value| config.log = value),
    },
    Key {
        name: "log_format",
        flag: "log-format",
        example: "human|json",
        default: Some("human"),
        help: "Log format",
        shape: Shape::One,
        set: |config, value| parse::log_format(value).map(|value| config.log_format = value),
    },
    Key {
        name: "public_url",
        flag: "public-url",
        example: "URL",
        default: None,
        help: "URL that clients use when a proxy is in front of the gateway",
        shape: Shape::One,
        set: |config, value| parse::url(value).map(|value| config.public_url = Some(value)),
    },
    Key {
        name: "allowed_hosts",
        flag: "allowed-hosts",
        example: "HOST,…",
        default: None,
        help: "Accepted `Host` header names besides the loopback ones",
        shape: Shape::List,
        set: |config, value| parse::hosts(value).map(|value| config.allowed_hosts = value),
    },
    Key {
        name: "allowed_origins",
        flag: "allowed-origins",
        example: "ORIGIN,…",
        default: None,
        help: "Origins of web pages that may call the gateway",
        shape: Shape::List,
        set: |config, value| parse::origins(value).map(|value| config.allowed_origins = value),
    },
    Key {
        name: "tls",
        flag: "tls",
        example: "proxy",
        default: None,
        help: "`proxy`: a proxy in front of the gateway speaks TLS; it is named in `trusted_proxies`",
        shape: Shape::One,
        set: |config, value| parse::proxy(value).map(|()| config.tls.is_at_proxy = true),
    },
    Key {
        name: "tls.cert",
        flag: "tls-cert",
        example: "FILE",
        default: None,
        help: "Certificate of the gateway as PEM, then those of its issuers; with it the gateway speaks TLS",
        shape: Shape::One,
        set: |config, value| parse::path(value).map(|value| config.tls.cert = Some(value)),
    },
    Key {
        name: "tls.key",
        flag: "tls-key",
        example: "FILE",
        default: None,
        help: "Private key of the certificate as PEM",
        shape: Shape::One,
        set: |config, value| parse::path(value).map(|value| config.tls.key = Some(value)),
    },
    Key {
        name: "tls.client_ca",
        flag: "tls-client-ca",
        example: "FILE",
        default: None,
        help: "Authority of clients' certificates as PEM; what they may do is in `[identity.certificates]`",
        shape: Shape::One,
        set: |config, value| parse::path(value).map(|value| config.tls.client_ca = Some(value)),
    },
    Key {
        name: "trusted_proxies",
        flag: "trusted-proxies",
        example: "NETWORK,…",
        default: None,
        help: "Addresses of the proxies in front of the gateway, whose `X-Forwarded-For` counts",
        shape: Shape::List,
        set: |config, value| parse::networks(value).map(|value| config.trusted_proxies = value),
    },
    Key {
        name: "request_bytes",
        flag: "request-bytes",
        example: "BYTES",
        default: Some("4MiB"),
        help: "Maximum size of a client's request body",
        shape: Shape::One,
        set: |config, value| parse::bytes(value).map(|value| config.limits.request_bytes = value),
    },
    Key {
        name: "bodies_bytes",
        flag: "bodies-bytes",
        example: "BYTES",
        default: Some("256MiB"),
        help: "Maximum memory for all request bodies together; above it clients get 503",
        shape: Shape::One,
        set: |config, value| parse::bytes(value).map(|value| config.limits.bodies_bytes = value),
    },
    Key {
        name: "message_bytes",
        flag: "message-bytes",
        example: "BYTES",
        default: Some("32MiB"),
        help: "Maximum size of a message from a server",
        shape: Shape::One,
        set: |config, value| parse::bytes(value).map(|value| config.limits.message_bytes = value),
    },
    Key {
        name: "depth",
        flag: "depth",
        example: "N",
        default: Some("64"),
        help: "Maximum nesting depth of JSON in a message",
        shape: Shape::One,
        set: |config, value| parse::depth(value).map(|value| config.limits.depth = value),
    },
    Key {
        name: "sessions",
        flag: "sessions",
        example: "N",
        default: Some("10000"),
        help: "Maximum number of open sessions of legacy clients",
        shape: Shape::One,
        set: |config, value| parse::count(value).map(|value| config.limits.sessions = value),
    },
    Key {
        name: "session_idle",
        flag: "session-idle",
        example: "TIME",
        default: Some("30m"),
        help: "Idle time after which a session ends",
        shape: Shape::One,
        set: |config, value| parse::period(value).map(|value| config.limits.session_idle = value),
    },
    Key {
        name: "audit_queue",
        flag: "audit-queue",
        example: "N",
        default: Some("8192"),
        help: "Maximum number of queued audit events before calls wait",
        shape: Shape::One,
        set: |config, value| parse::count(value).map(|value| config.audit_queue = value),
    },
    Key {
        name: "audit.arguments",
        flag: "audit-arguments",
        example: "hash|redacted",
        default: Some("hash"),
        help: "What the audit log keeps of call arguments: a keyed hash, or also the arguments without secrets",
        shape: Shape::One,
        set: |config, value| parse::audit_arguments(value).map(|value| config.audit_arguments = value),
    },
    Key {
        name: "audit.days",
        flag: "audit-days",
        example: "N",
        default: None,
        help: "Days for which audit events are kept, if not for ever; what no checkpoint covers stays",
        shape: Shape::One,
        set: |config, value| parse::days(value).map(|value| config.audit_age = Some(value)),
    },
    Key {
        name: "guard_arguments",
        flag: "guard-arguments",
        example: "ACTION",
        default: Some("record"),
        help: "What to do with secrets in what servers are sent: off, record, redact or deny",
        shape: Shape::One,
        set: |config, value| parse::secret_action(value).map(|value| config.secret_actions.arguments = value),
    },
    Key {
        name: "guard_results",
        flag: "guard-results",
        example: "ACTION",
        default: Some("record"),
        help: "What to do with secrets in what servers answer: off, record, redact or deny",
        shape: Shape::One,
        set: |config, value| parse::secret_action(value).map(|value| config.secret_actions.results = value),
    },
    Key {
        name: "ui",
        flag: "ui",
        example: "full|read|off",
        default: Some("full"),
        help: "What the pages of the web user interface may do",
        shape: Shape::One,
        set: |config, value| parse::ui(value).map(|value| config.ui = value),
    },
    Key {
        name: "approvals.wait",
        flag: "approvals-wait",
        example: "TIME",
        default: Some("50s"),
        help: "How long a call that needs a yes waits for it before its client is answered",
        shape: Shape::One,
        set: |config, value| parse::period(value).map(|value| config.approvals.wait = value),
    },
    Key {
        name: "approvals.webhook",
        flag: "approvals-webhook",
        example: "URL",
        default: None,
        help: "URL that is notified of calls that wait for a yes",
        shape: Shape::One,
        set: |config, value| parse::url(value).map(|value| config.approvals.webhook = Some(value)),
    },
    Key {
        name: "approvals.webhook_secret",
        flag: "approvals-webhook-secret",
        example: "REFERENCE",
        default: None,
        help: "Secret that signs what the webhook gets, such as `vault:NAME` or `env:NAME`",
        shape: Shape::One,
        set: |config, value| parse::secret(value).map(|value| config.approvals.webhook_secret = Some(value)),
    },
    Key {
        name: "approvals.webhook_private",
        flag: "approvals-webhook-private",
        example: "true|false",
        default: Some("false"),
        help: "Let the webhook have a private address, or one of this machine",
        shape: Shape::One,
        set: |config, value| parse::switch(value).map(|value| config.approvals.webhook_private = value),
    },
    Key {
        name: "runners.listen",
        flag: "runners-listen",
        example: "ADDRESS,…",
        default: None,
        help: "Where runners connect: `unix:PATH`, `tcp:HOST:PORT` or `vsock:CID:PORT`",
        shape: Shape::List,
        set: |config, value| parse::runner_addresses(value).map(|value| config.runners.listen = value),
    },
    Key {
        name: "runners.connect",
        flag: "runners-connect",
        example: "ADDRESS,…",
        default: None,
        help: "Runners that listen: the same, or `firecracker:PATH:PORT`",
        shape: Shape::List,
        set: |config, value| parse::runner_addresses(value).map(|value| config.runners.connect = value),
    },
    Key {
        name: "runners.secret",
        flag: "runners-secret",
        example: "REFERENCE",
        default: None,
        help: "Secret that runners share with the gateway; without it the one in `state/runner-secret`",
        shape: Shape::One,
        set: |config, value| parse::secret(value).map(|value| config.runners.secret = Some(value)),
    },
    Key {
        name: "runners.runs",
        flag: "runners-runs",
        example: "N",
        default: Some("256"),
        help: "Number of runs that one runner executes at once",
        shape: Shape::One,
        set: |config, value| parse::count(value).map(|value| config.runners.runs = value),
    },
    Key {
        name: "runners.cert",
        flag: "runners-cert",
        example: "FILE",
        default: None,
        help: "Certificate that runners see over TCP, as PEM",
        shape: Shape::One,
        set: |config, value| parse::path(value).map(|value| config.runners.tls.cert = Some(value)),
    },
    Key {
        name: "runners.key",
        flag: "runners-key",
        example: "FILE",
        default: None,
        help: "Private key of that certificate as PEM",
        shape: Shape::One,
        set: |config, value| parse::path(value).map(|value| config.runners.tls.key = Some(value)),
    },
    Key {
        name: "runners.ca",
        flag: "runners-ca",
        example: "FILE",
        default: None,
        help: "Authority of the certificates that runners show over TCP, as PEM",
        shape: Shape::One,
        set: |config, value| parse::path(value).map(|value| config.runners.tls.ca = Some(value)),
    },
    Key {
        name: "events_kept",
        flag: "events-kept",
        example: "N",
        default: Some("10000"),
        help: "Number of events (changes of servers, workflows …) to keep",
        shape: Shape::One,
        set: |config, value| parse::count(value).map(|value| config.events.most = value),
    },
    Key {
        name: "events_days",
        flag: "events-days",
        example: "N",
        default: Some("14"),
        help: "Number of days to keep them",
        shape: Shape::One,
        set: |config, value| parse::days(value).map(|value| config.events.age = value),
    },
    Key {
        name: "runs_kept",
        flag: "runs-kept",
        example: "N",
        default: Some("10000"),
        help: "Number of completed workflow runs to keep",
        shape: Shape::One,
        set: |config, value| parse::count(value).map(|value| config.runs.most = value),
    },
    Key {
        name: "runs_days",
        flag: "runs-days",
        example: "N",
        default: Some("21"),
        help: "Number of days to keep them",
        shape: Shape::One,
        set: |config, value| parse::days(value).map(|value| config.runs.age = value),
    },
    Key {
        name: "grace",
        flag: "grace",
        example: "TIME",
        default: Some("5s"),
        help: "Grace period for running calls and servers at shutdown",
        shape: Shape::One,
        set: |config, value| parse::period(value).map(|value| config.grace = value),
    },
    Key {
        name: "otlp_endpoint",
        flag: "otlp-endpoint",
        example: "URL",
        default: None,
        help: "OpenTelemetry collector to send traces to, over HTTP",
        shape: Shape::One,
        set: |config, value| parse::url(value).map(|value| config.otlp_endpoint = Some(value)),
    },
    Key {
        name: "update.index",
        flag: "update-index",
        example: "URL",
        default: None,
        help: "Release index that `toolcrib self-update` reads",
        shape: Shape::One,
        set: |config, value| parse::url(value).map(|value| config.update.index = Some(value)),
    },
    Key {
        name: "update.key",
        flag: "update-key",
        example: "FILE",
        default: None,
        help: "Minisign public key of the releases, in place of the one of this build",
        shape: Shape::One,
        set: |config, value| parse::path(value).map(|value| config.update.key = Some(value)),
    },
    Key {
        name: "update.ca",
        flag: "update-ca",
        example: "FILE",
        default: None,
        help: "Authority of the release index's certificate as PEM, in place of those of the system",
        shape: Shape::One,
        set: |config, value| parse::path(value).map(|value| config.update.ca = Some(value)),
    },
];

// === impl Key ===

impl Key {
    /// The environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("TOOLCRIB_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// The value of a text outside of the file.
    pub(crate) fn value_of_text(&self, text: &str) -> Value {
        match self.shape {
            Shape::One => Value::String(text.to_owned()),
            Shape::List => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
            }
        }
    }

    fn argument(&'static self) -> Arg {
        let default = self.default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
        let help = format!("{} [env: {}]{default}", self.help, self.variable());
        let argument = Arg::new(self.name).long(self.flag).value_name(self.example).help(help).help_heading("Settings");
        match self.shape {
            Shape::One => argument.action(ArgAction::Set),
            Shape::List => argument.action(ArgAction::Append),
        }
    }
}

// === impl SettingFlags ===

/// What `#[derive(clap::Args)]` would make, from the table.
impl clap::Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let home =
            Arg::new("home").long("home").value_name("DIR").value_parser(clap::value_parser!(std::path::PathBuf));
        let home = home.help("The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]");
        command.arg(home).args(KEYS.iter().map(Key::argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = BTreeMap::new();
        for key in &KEYS {
            let Some(texts) = matches.get_many::<String>(key.name) else { continue };
            let texts: Vec<&str> = texts.map(String::as_str).collect();
            flags.insert(key.name, key.value_of_text(&texts.join(",")));
        }
        Ok(Self { home: matches.get_one("home").cloned(), flags })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
