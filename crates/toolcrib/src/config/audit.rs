//! `[[audit.sink]]` in `config.toml`: where the audit log is delivered to. Only in the file: a receiver in a variable would be
//! easy to miss.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::Uri;
use http::header::HeaderName;
use toml::Value;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_catalog::SecretRef;
use toolcrib_sink::{FileConfig, SyslogConfig, SyslogMessage};
use toolcrib_transport::stream::TlsClientFiles;
use url::{Host, Url};

use super::part::Part;
use super::{ValueWithSource, parse};

/// The name of the list.
pub(super) const LIST: &str = "audit.sink";
/// What every sink has.
const SINK_KEYS: [&str; 3] = ["name", "type", "from"];
const FILE_KEYS: [&str; 3] = ["path", "max_bytes", "keep"];
const SYSLOG_KEYS: [&str; 5] = ["address", "ca", "cert", "key", "message"];
const OTLP_KEYS: [&str; 3] = ["url", "headers", "ca"];

/// How many sinks there may be: each is a task that reads the log.
const SINKS_MAX: usize = 16;
/// How large a file gets unless the settings say something else.
const FILE_BYTES: u64 = 100 * 1024 * 1024;
/// The smallest size of a file: less is a slip, and one line has some KiB.
const FILE_BYTES_LEAST: usize = 64 * 1024;
/// How many older files are kept unless the settings say something else, and at most.
const FILES: u32 = 10;
const FILES_MAX: usize = 1_000;
/// The port of syslog with TLS (RFC 5425); without it there is no port of its own over TCP.
const SYSLOG_TLS_PORT: u16 = 6_514;

/// Where the audit log goes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct AuditConfig {
    /// Each receiver.
    pub(crate) sinks: Vec<AuditSinkConfig>,
}

/// A receiver.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AuditSinkConfig {
    /// By which its place in the log is remembered.
    pub(crate) name: String,
    /// Whether it gets only what happens from now on, when it is new.
    pub(crate) is_from_now: bool,
    /// Which kind.
    pub(crate) target: AuditTargetConfig,
}

/// A kind of receiver, files named as in the settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AuditTargetConfig {
    /// JSON Lines.
    File(FileConfig),
    /// Syslog.
    Syslog(SyslogConfig),
    /// A collector.
    Otlp {
        /// Where it takes log records.
        url: Uri,
        /// What each request carries.
        headers: BTreeMap<String, SecretRef>,
        /// Whose certificates count.
        ca: Option<PathBuf>,
    },
}

/// Reads the list.
pub(super) fn read(given: &ValueWithSource) -> Result<AuditConfig, Problem> {
    let place = given.place.as_str();
    let wrong = || {
        let message = format!("{place}: `{LIST}`: expected a list of at most {SINKS_MAX} tables");
        Problem::new(Kind::Definition, message).hint("write each sink as `[[audit.sink]]`")
    };
    let items = given.value.as_array().filter(|items| items.len() <= SINKS_MAX).ok_or_else(wrong)?;
    let all: Vec<&str> = [&SINK_KEYS[..], &FILE_KEYS, &SYSLOG_KEYS, &OTLP_KEYS].concat();
    let read = |(at, item)| sink(&Part::new(item, format!("{LIST}[{at}]"), place, &all)?);
    let sinks = items.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    if let Some(at) = (1..sinks.len()).find(|at| sinks[..*at].iter().any(|other| other.name == sinks[*at].name)) {
        let message = format!("{place}: `{LIST}[{at}].name`: another sink has the same one");
        return Err(Problem::new(Kind::Definition, message).hint("give each sink a name of its own"));
    }
    Ok(AuditConfig { sinks })
}

fn sink(part: &Part<'_>) -> Result<AuditSinkConfig, Problem> {
    let name = part.required("name")?;
    // Names of profiles have the same rule.
    if ProfileName::new(name).is_err() {
        return Err(part.wrong("name", "a name of small letters, digits and `-`, such as `siem`"));
    }
    let is_from_now = match part.text("from")? {
        None | Some("oldest") => false,
        Some("now") => true,
        Some(_) => return Err(part.wrong("from", "`oldest` or `now`")),
    };
    let (keys, read): (&[&str], fn(&Part<'_>) -> Result<_, _>) = match part.required("type")? {
        "file" => (&FILE_KEYS, file),
        "syslog" => (&SYSLOG_KEYS, syslog),
        "otlp" => (&OTLP_KEYS, otlp),
        _ => return Err(part.wrong("type", "`file`, `syslog` or `otlp`")),
    };
    let foreign = |key: &&String| !SINK_KEYS.contains(&key.as_str()) && !keys.contains(&key.as_str());
    if let Some(key) = part.table.keys().find(foreign) {
        let known = keys.join("`, `");
        return Err(part.wrong(key, &format!("no such key for this type; it has `{known}`")));
    }
    Ok(AuditSinkConfig { name: name.to_owned(), is_from_now, target: read(part)? })
}

fn file(part: &Part<'_>) -> Result<AuditTargetConfig, Problem> {
    let max_bytes = match part.table.get("max_bytes") {
        None => FILE_BYTES,
        Some(value) => {
            let bytes = parse::bytes(value).ok().filter(|bytes| *bytes >= FILE_BYTES_LEAST);
            bytes.ok_or_else(|| part.wrong("max_bytes", "a size of at least `64KiB`, such as `100MiB`"))? as u64
        }
    };
    let keep = match part.table.get("keep") {
        None => FILES,
        Some(value) => {
            let keep = parse::count(value).ok().filter(|keep| *keep <= FILES_MAX).and_then(|keep| keep.try_into().ok());
            keep.ok_or_else(|| part.wrong("keep", "a number from 1 to 1000"))?
        }
    };
    Ok(AuditTargetConfig::File(FileConfig { path: path(part, "path")?, max_bytes, keep }))
}

fn syslog(part: &Part<'_>) -> Result<AuditTargetConfig, Problem> {
    const EXPECTED: &str = "an address such as `tls://siem.example.com:6514` or `tcp://10.0.0.7:601`";
    let wrong = || part.wrong("address", EXPECTED);
    let url = Url::parse(part.required("address")?).map_err(|_| wrong())?;
    let is_plain = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    if !is_plain || has_credentials(&url) {
        return Err(wrong());
    }
    let host = match url.host() {
        Some(Host::Ipv6(address)) => address.to_string(),
        Some(host) => host.to_string(),
        None => return Err(wrong()),
    };
    let own = match (optional_path(part, "cert")?, optional_path(part, "key")?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err(part.wrong("cert", "`key` beside it")),
        (None, Some(_)) => return Err(part.wrong("key", "`cert` beside it")),
    };
    let files = TlsClientFiles { authorities: optional_path(part, "ca")?, own };
    let (tls, port) = match (url.scheme(), url.port()) {
        ("tls", port) => (Some(files), port.unwrap_or(SYSLOG_TLS_PORT)),
        ("tcp", Some(port)) if files == TlsClientFiles::default() => (None, port),
        ("tcp", Some(_)) => {
            return Err(part.wrong("address", "one that begins with `tls://` for `ca`, `cert` and `key`"));
        }
        _ => return Err(wrong()),
    };
    let message = match part.text("message")? {
        None | Some("cef") => SyslogMessage::Cef,
        Some("json") => SyslogMessage::Json,
        Some(_) => return Err(part.wrong("message", "`cef` or `json`")),
    };
    Ok(AuditTargetConfig::Syslog(SyslogConfig { host, port, tls, message }))
}

fn otlp(part: &Part<'_>) -> Result<AuditTargetConfig, Problem> {
    const EXPECTED: &str = "a URL such as `https://otel.example.com/v1/logs`, without a user, a query or a fragment";
    let wrong = || part.wrong("url", EXPECTED);
    let text = part.required("url")?;
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.filter(|url| !has_credentials(url) && url.query().is_none() && url.fragment().is_none());
    let url: Uri = url.and_then(|url| url.as_str().parse().ok()).ok_or_else(wrong)?;
    let ca = optional_path(part, "ca")?;
    if ca.is_some() && url.scheme_str() == Some("http") {
        return Err(part.wrong("ca", "a URL that begins with `https://`"));
    }
    let mut headers = BTreeMap::new();
    if let Some(value) = part.table.get("headers") {
        let table = value.as_table().ok_or_else(|| part.wrong("headers", "a table of header names and references"))?;
        for (name, value) in table {
            if name.parse::<HeaderName>().is_err() {
                return Err(part.wrong("headers", "names of headers such as `Authorization`"));
            }
            let key = format!("headers.{name}");
            let reference = value.as_str().ok_or_else(|| part.wrong(&key, "a text"))?;
            headers.insert(name.clone(), part.secret(&key, reference)?);
        }
    }
    Ok(AuditTargetConfig::Otlp { url, headers, ca })
}

/// A user or a password in a URL would be shown with it.
fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

fn path(part: &Part<'_>, key: &str) -> Result<PathBuf, Problem> {
    optional_path(part, key)?.ok_or_else(|| {
        let message = format!("{}: `{}` has no `{key}`", part.place, part.name);
        Problem::new(Kind::Definition, message).hint(format!("add `{key}` to it"))
    })
}

fn optional_path(part: &Part<'_>, key: &str) -> Result<Option<PathBuf>, Problem> {
    let path = |value: &Value| parse::path(value).map_err(|wrong| part.wrong(key, wrong.0));
    part.table.get(key).map(path).transpose()
}

// === impl AuditConfig ===

impl AuditConfig {
    /// The same with files from the root; relative ones begin at the home folder.
    pub(crate) fn at_home(mut self, home: &std::path::Path) -> Self {
        for sink in &mut self.sinks {
            match &mut sink.target {
                AuditTargetConfig::File(file) => file.path = home.join(&file.path),
                AuditTargetConfig::Syslog(syslog) => {
                    let Some(files) = &mut syslog.tls else { continue };
                    let own = files.own.iter_mut().flat_map(|(certificate, key)| [certificate, key]);
                    own.chain(&mut files.authorities).for_each(|path| *path = home.join(&path));
                }
                AuditTargetConfig::Otlp { ca, .. } => ca.iter_mut().for_each(|ca| *ca = home.join(&ca)),
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::*;

    fn parse(sink: &str) -> Result<AuditConfig, String> {
        let table: Table = format!("[[audit.sink]]\n{sink}").parse().unwrap();
        let given = ValueWithSource { value: table["audit"]["sink"].clone(), place: "config.toml:1".into() };
        read(&given).map_err(|problem| problem.message.trim_start_matches("config.toml:1: ").to_owned())
    }

    fn target(sink: &str) -> AuditTargetConfig {
        let config = parse(&format!("name = 'a'\n{sink}")).unwrap().at_home(std::path::Path::new("/h"));
        config.sinks.into_iter().next().unwrap().target
    }

    #[test]
    fn each_kind_has_its_keys() {
        let expected = FileConfig { path: "/h/logs/a.jsonl".into(), max_bytes: FILE_BYTES, keep: FILES };
        assert_eq!(target("type = 'file'\npath = 'logs/a.jsonl'"), AuditTargetConfig::File(expected));
        let expected = FileConfig { path: "/a".into(), max_bytes: 1 << 20, keep: 2 };
        assert_eq!(
            target("type = 'file'\npath = '/a'\nmax_bytes = '1MiB'\nkeep = 2"),
            AuditTargetConfig::File(expected)
        );
        for (settings, host, port, tls, message) in [
            ("address = 'tls://siem.example.com'", "siem.example.com", 6_514, Some(None), SyslogMessage::Cef),
            (
                "address = 'tls://[2001:db8::7]:99'\nca = 'ca.pem'",
                "2001:db8::7",
                99,
                Some(Some("/h/ca.pem")),
                SyslogMessage::Cef,
            ),
            ("address = 'tcp://10.0.0.7:601'\nmessage = 'json'", "10.0.0.7", 601, None, SyslogMessage::Json),
        ] {
            let tls = tls.map(|ca: Option<&str>| TlsClientFiles { authorities: ca.map(PathBuf::from), own: None });
            let expected = SyslogConfig { host: host.to_owned(), port, tls, message };
            assert_eq!(target(&format!("type = 'syslog'\n{settings}")), AuditTargetConfig::Syslog(expected));
        }
        let own = target("type = 'syslog'\naddress = 'tls://siem'\ncert = 'c.pem'\nkey = '/k.pem'");
        let AuditTargetConfig::Syslog(SyslogConfig { tls: Some(tls), .. }) = own else { panic!("{own:?}") };
        assert_eq!(tls.own, Some(("/h/c.pem".into(), "/k.pem".into())));
        let otlp =
            target("type = 'otlp'\nurl = 'https://otel.example.com/v1/logs'\nheaders = {Authorization = 'vault:otlp'}");
        let headers = BTreeMap::from([("Authorization".to_owned(), SecretRef::Vault("otlp".to_owned()))]);
        let url = "https://otel.example.com/v1/logs".parse().unwrap();
        assert_eq!(otlp, AuditTargetConfig::Otlp { url, headers, ca: None });
    }

    #[test]
    fn a_mistake_is_named() {
        for (sink, expected) in [
            ("type = 'file'", "`audit.sink[0]` has no `name`"),
            ("name = 'A b'\ntype = 'file'", "`audit.sink[0].name`: expected a name of small letters"),
            ("name = 'a'\ntype = 'kafka'", "`audit.sink[0].type`: expected `file`, `syslog` or `otlp`"),
            ("name = 'a'\ntype = 'file'", "`audit.sink[0]` has no `path`"),
            ("name = 'a'\ntype = 'file'\npath = ''", "`audit.sink[0].path`: expected a path"),
            (
                "name = 'a'\ntype = 'file'\npath = 'x'\nmax_bytes = 9",
                "`audit.sink[0].max_bytes`: expected a size of at least",
            ),
            ("name = 'a'\ntype = 'file'\npath = 'x'\nkeep = 0", "`audit.sink[0].keep`: expected a number"),
            (
                "name = 'a'\ntype = 'file'\npath = 'x'\nurl = 'y'",
                "`audit.sink[0].url`: expected no such key for this type",
            ),
            ("name = 'a'\ntype = 'file'\npath = 'x'\nform = 'now'", "unknown key `audit.sink[0].form`"),
            ("name = 'a'\ntype = 'file'\npath = 'x'\nfrom = 'x'", "`audit.sink[0].from`: expected `oldest` or `now`"),
            ("name = 'a'\ntype = 'syslog'\naddress = 'siem:514'", "`audit.sink[0].address`: expected an address"),
            ("name = 'a'\ntype = 'syslog'\naddress = 'udp://siem:514'", "`audit.sink[0].address`: expected an address"),
            ("name = 'a'\ntype = 'syslog'\naddress = 'tcp://siem'", "`audit.sink[0].address`: expected an address"),
            ("name = 'a'\ntype = 'syslog'\naddress = 'tls://u:p@siem'", "`audit.sink[0].address`: expected an address"),
            (
                "name = 'a'\ntype = 'syslog'\naddress = 'tcp://siem:1'\nca = 'x'",
                "`audit.sink[0].address`: expected one that",
            ),
            ("name = 'a'\ntype = 'syslog'\naddress = 'tls://siem'\ncert = 'x'", "`audit.sink[0].cert`: expected `key`"),
            ("name = 'a'\ntype = 'otlp'\nurl = 'https://u:p@x/'", "`audit.sink[0].url`: expected a URL"),
            ("name = 'a'\ntype = 'otlp'\nurl = 'https://x/?key=1'", "`audit.sink[0].url`: expected a URL"),
            ("name = 'a'\ntype = 'otlp'\nurl = 'http://x/'\nca = 'y'", "`audit.sink[0].ca`: expected a URL"),
            (
                "name = 'a'\ntype = 'otlp'\nurl = 'http://x/'\nheaders = {Authorization = 'Bearer s3cret'}",
                "`audit.sink[0].headers.Authorization`: expected a reference",
            ),
            (
                "name = 'a'\ntype = 'file'\npath = 'x'\n[[audit.sink]]\nname = 'a'\ntype = 'file'\npath = 'y'",
                "`audit.sink[1].name`: another sink has the same one",
            ),
        ] {
            let error = parse(sink).unwrap_err();
            assert!(error.starts_with(expected), "{sink}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        let many = "name = 'a'\ntype = 'file'\npath = 'x'\n[[audit.sink]]\n".repeat(17);
        assert!(parse(many.trim_end_matches("[[audit.sink]]\n")).unwrap_err().contains("at most 16 tables"));
    }
}
