//! Values of settings: from what a flag, a variable or the file gave to the type that is used.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use toml::Value;
use toolcrib_catalog::{Period, SecretAction, SecretRef};
use toolcrib_gateway::UiMode;
use toolcrib_runner::Address;
use toolcrib_web::{Network, NetworkError};
use tracing_subscriber::EnvFilter;

use super::LogFormat;

/// What was expected instead, as a fragment after "expected".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParseError(pub(crate) &'static str);

/// Units of bytes.
const UNITS: [(&str, usize); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

fn text<'a>(value: &'a Value, expected: &'static str) -> Result<&'a str, ParseError> {
    value.as_str().ok_or(ParseError(expected))
}

pub(super) fn address(value: &Value) -> Result<SocketAddr, ParseError> {
    const EXPECTED: &str = "an address with a port such as `127.0.0.1:8700`";
    let text = text(value, EXPECTED)?.trim();
    if let Some(port) = text.strip_prefix("localhost:") {
        return port
            .parse()
            .map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
            .or(Err(ParseError(EXPECTED)));
    }
    text.parse().or(Err(ParseError(EXPECTED)))
}

pub(super) fn filter(value: &Value) -> Result<String, ParseError> {
    const EXPECTED: &str = "a filter such as `info` or `warn,toolcrib=debug`";
    let text = text(value, EXPECTED)?;
    EnvFilter::try_new(text).or(Err(ParseError(EXPECTED)))?;
    Ok(text.to_owned())
}

pub(super) fn log_format(value: &Value) -> Result<LogFormat, ParseError> {
    match value.as_str() {
        Some("human") => Ok(LogFormat::Human),
        Some("json") => Ok(LogFormat::Json),
        _ => Err(ParseError("`human` or `json`")),
    }
}

pub(super) fn ui(value: &Value) -> Result<UiMode, ParseError> {
    value.as_str().and_then(UiMode::named).ok_or(ParseError("`full`, `read` or `off`"))
}

pub(super) fn secret_action(value: &Value) -> Result<SecretAction, ParseError> {
    let actions = [SecretAction::Off, SecretAction::Record, SecretAction::Redact, SecretAction::Deny];
    let action = actions.into_iter().find(|action| value.as_str() == Some(action.as_str()));
    action.ok_or(ParseError("`off`, `record`, `redact` or `deny`"))
}

pub(super) fn url(value: &Value) -> Result<String, ParseError> {
    const EXPECTED: &str = "a URL such as `https://tools.example.com`";
    let text = text(value, EXPECTED)?.trim_end_matches('/');
    let uri: Uri = text.parse().or(Err(ParseError(EXPECTED)))?;
    let fits = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && uri.query().is_none();
    if fits { Ok(text.to_owned()) } else { Err(ParseError(EXPECTED)) }
}

pub(super) fn hosts(value: &Value) -> Result<Vec<String>, ParseError> {
    const EXPECTED: &str = "host names such as `tools.example.com` or `tools.example.com:8700`";
    let fits = |host: &str| host.parse::<http::uri::Authority>().is_ok() && !host.contains('@');
    list(value, EXPECTED, fits).map(|hosts| hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect())
}

pub(super) fn origins(value: &Value) -> Result<Vec<String>, ParseError> {
    const EXPECTED: &str = "origins such as `https://tools.example.com`, without a path";
    let fits = |origin: &str| {
        let after_scheme = origin.split_once("://").map(|(_, rest)| rest);
        after_scheme.is_some_and(|rest| !rest.contains('/')) && url(&Value::String(origin.to_owned())).is_ok()
    };
    list(value, EXPECTED, fits)
}

/// The one word that says who speaks TLS.
pub(super) fn proxy(value: &Value) -> Result<(), ParseError> {
    const EXPECTED: &str = "`proxy`, or a table with `cert` and `key`";
    if text(value, EXPECTED)? == "proxy" { Ok(()) } else { Err(ParseError(EXPECTED)) }
}

pub(super) fn path(value: &Value) -> Result<PathBuf, ParseError> {
    const EXPECTED: &str = "a path, from the root or from the home folder";
    let text = text(value, EXPECTED)?;
    if text.is_empty() || text.contains('\0') { Err(ParseError(EXPECTED)) } else { Ok(text.into()) }
}

/// Where runners are.
pub(super) fn runner_addresses(value: &Value) -> Result<Vec<Address>, ParseError> {
    const EXPECTED: &str =
        "a list of `unix:PATH`, `tcp:HOST:PORT`, `vsock:CID:PORT` or `firecracker:PATH:PORT`, each once";
    let items = value.as_array().ok_or(ParseError(EXPECTED))?;
    let read = |item: &Value| item.as_str().and_then(|text| text.trim().parse().ok());
    let addresses: Option<Vec<Address>> = items.iter().map(read).collect();
    let differ = |addresses: &Vec<Address>| (1..addresses.len()).all(|at| !addresses[..at].contains(&addresses[at]));
    addresses.filter(differ).ok_or(ParseError(EXPECTED))
}

pub(super) fn networks(value: &Value) -> Result<Vec<Network>, ParseError> {
    const EXPECTED: &str =
        "addresses such as `10.0.0.7`, or networks such as `10.0.0.0/24`, with no bits behind the prefix";
    const TOO_LARGE: &str =
        "networks of at least `/8`, or `/16` in IPv6: everyone in them could claim to be any client";
    let items = value.as_array().ok_or(ParseError(EXPECTED))?;
    let network = |item: &Value| match item.as_str().map(str::parse) {
        Some(Ok(network)) => Ok(network),
        Some(Err(NetworkError::TooLarge)) => Err(ParseError(TOO_LARGE)),
        _ => Err(ParseError(EXPECTED)),
    };
    items.iter().map(network).collect()
}

fn list(value: &Value, expected: &'static str, fits: impl Fn(&str) -> bool) -> Result<Vec<String>, ParseError> {
    let items = value.as_array().ok_or(ParseError(expected))?;
    let item = |item: &Value| item.as_str().filter(|text| fits(text)).map(str::to_owned).ok_or(ParseError(expected));
    items.iter().map(item).collect()
}

/// Bytes, plain or with a unit; at least one.
pub(super) fn bytes(value: &Value) -> Result<usize, ParseError> {
    const EXPECTED: &str = "a number of bytes above 0 such as `4194304` or `4MiB`";
    let number = match value {
        Value::String(text) => {
            let text = text.trim();
            let unit = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
            let (digits, size) = unit.unwrap_or((text, 1));
            digits.trim_end().parse::<usize>().ok().and_then(|number| number.checked_mul(size))
        }
        other => other.as_integer().and_then(|number| usize::try_from(number).ok()),
    };
    number.filter(|number| *number > 0).ok_or(ParseError(EXPECTED))
}

/// How many, from 1 to a million.
pub(super) fn count(value: &Value) -> Result<usize, ParseError> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_integer().and_then(|number| usize::try_from(number).ok()),
    };
    number.filter(|number| (1..=1_000_000).contains(number)).ok_or(ParseError("a number from 1 to 1000000"))
}

/// Days, from one to ten years.
pub(super) fn days(value: &Value) -> Result<Duration, ParseError> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let days = count(value).ok().and_then(|days| u32::try_from(days).ok()).filter(|days| *days <= 3_650);
    days.map(|days| DAY * days).ok_or(ParseError("a number of days from 1 to 3650"))
}

/// How deep JSON may nest. Deeper than 120 our own JSON library refuses to read.
pub(super) fn depth(value: &Value) -> Result<usize, ParseError> {
    count(value).ok().filter(|depth| (8..=120).contains(depth)).ok_or(ParseError("a number from 8 to 120"))
}

pub(super) fn period(value: &Value) -> Result<Duration, ParseError> {
    const EXPECTED: &str = "a duration above 0 such as `30s`, `500ms`, `2m` or `1h`, at most a week";
    text(value, EXPECTED)?.parse::<Period>().map(Period::duration).or(Err(ParseError(EXPECTED)))
}

/// Whether the audit log keeps redacted arguments beside their hash.
pub(super) fn audit_arguments(value: &Value) -> Result<bool, ParseError> {
    match value.as_str() {
        Some("hash") => Ok(false),
        Some("redacted") => Ok(true),
        _ => Err(ParseError("`hash` or `redacted`")),
    }
}

/// A place where a secret is kept, not the secret itself.
pub(super) fn secret(value: &Value) -> Result<SecretRef, ParseError> {
    const EXPECTED: &str = "a reference such as `env:NAME`, `file:PATH` or `vault:NAME`";
    match text(value, EXPECTED)?.parse() {
        Ok(SecretRef::Literal(_) | SecretRef::User(_)) | Err(_) => Err(ParseError(EXPECTED)),
        Ok(reference) => Ok(reference),
    }
}

pub(super) fn switch(value: &Value) -> Result<bool, ParseError> {
    match value {
        Value::Boolean(on) => Ok(*on),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        _ => Err(ParseError("`true` or `false`")),
    }
}
