//! Where spans are sent, and which: the variables that every program with OpenTelemetry reads, and our own setting, which
//! wins. A variable that is wrong is reported and ignored, because it may be meant for other programs.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::Uri;
use percent_encoding::percent_decode_str;
use toolcrib_base::trace::Sampler;

use crate::home::Environment;

/// The setting that names the collector.
const KEY: &str = "otlp_endpoint";
/// Where a collector takes spans, behind its own address.
const PATH: &str = "/v1/traces";
/// How long one request to the collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a span waits for others that are sent with it.
const DELAY: Duration = Duration::from_secs(5);
/// How many spans may wait; later ones are dropped and counted.
const QUEUE: usize = 2_048;
/// How many spans are sent at a time.
const BATCH: usize = 512;
/// The most of either.
const MOST: usize = 1_000_000;

/// How spans are exported.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TraceExport {
    /// Where they are posted to.
    pub(crate) endpoint: Uri,
    /// What each post carries; the values are marked sensitive.
    pub(crate) headers: HeaderMap,
    /// What is said of this process, `service.name` first.
    pub(crate) resource: Vec<(String, String)>,
    /// Which traces are recorded.
    pub(crate) sampling: Sampler,
    /// How long one post may take.
    pub(crate) timeout: Duration,
    /// How long a span waits for others.
    pub(crate) delay: Duration,
    /// How many spans may wait.
    pub(crate) queue: usize,
    /// How many spans are sent at a time.
    pub(crate) batch: usize,
}

/// What the settings and the variables say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Otlp {
    /// `None` while nobody asks for spans.
    pub(crate) export: Option<TraceExport>,
    /// What of the variables is wrong, one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Reads variables and notes what is wrong with them.
struct Reader<'a> {
    environment: &'a Environment,
    warnings: Vec<String>,
}

// === impl Otlp ===

impl Otlp {
    /// `endpoint` is the address of the collector in our own settings; it was checked.
    pub(super) fn read(environment: &Environment, endpoint: Option<&str>) -> Self {
        let mut reader = Reader { environment, warnings: Vec::new() };
        let export = reader.export(endpoint);
        Self { export, warnings: reader.warnings }
    }
}

// === impl Reader ===

impl Reader<'_> {
    fn export(&mut self, endpoint: Option<&str>) -> Option<TraceExport> {
        if self.text("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return None;
        }
        let endpoint = match endpoint {
            Some(base) => self.endpoint(KEY, base, PATH),
            None => self.endpoint_of_variables(),
        }?;
        Some(TraceExport {
            endpoint,
            headers: self.headers(),
            resource: self.resource(),
            sampling: self.sampling()?,
            timeout: self.millis(&["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"], TIMEOUT),
            delay: self.millis(&["OTEL_BSP_SCHEDULE_DELAY"], DELAY),
            queue: self.count("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE),
            batch: self.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH),
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        let text = self.environment.get(name)?.to_string_lossy();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The first of these variables that is set, with its name.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names.iter().find_map(|name| Some((*name, self.text(name)?)))
    }

    fn wrong(&mut self, name: &str, expected: &str, then: &str) {
        self.warnings.push(format!("`{name}`: expected {expected}; {then}"));
    }

    fn endpoint_of_variables(&mut self) -> Option<Uri> {
        let given = self.first(&["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"])?;
        match self.text("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("otlp") => {}
            Some("none") => return None,
            Some(_) => {
                self.wrong("OTEL_TRACES_EXPORTER", "`otlp` or `none`", "no spans are exported");
                return None;
            }
        }
        let protocols = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
        if let Some((name, protocol)) = self.first(&protocols)
            && protocol == "grpc"
        {
            self.wrong(name, "`http/json`", "spans are sent over HTTP, to a port that takes it such as 4318");
        }
        match given {
            ("OTEL_EXPORTER_OTLP_ENDPOINT", base) => self.endpoint("OTEL_EXPORTER_OTLP_ENDPOINT", &base, PATH),
            (name, whole) => self.endpoint(name, &whole, ""),
        }
    }

    /// The address in `text` with `path` behind it.
    fn endpoint(&mut self, name: &str, text: &str, path: &str) -> Option<Uri> {
        const EXPECTED: &str = "a URL such as `http://localhost:4318`";
        let uri = format!("{}{path}", if path.is_empty() { text } else { text.trim_end_matches('/') }).parse::<Uri>();
        let uri = uri.ok().filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        let Some(uri) = uri.filter(|uri| uri.host().is_some_and(|host| !host.is_empty())) else {
            let shown: String = text.chars().take(80).collect();
            let given = if toolcrib_catalog::is_secret_value(text) || text.contains('@') {
                String::new()
            } else {
                format!(", got `{}`", crate::text::line(&shown))
            };
            self.wrong(name, &format!("{EXPECTED}{given}"), "no spans are exported");
            return None;
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            let then = "put the credentials into `OTEL_EXPORTER_OTLP_HEADERS`; no spans are exported";
            self.wrong(name, &format!("{EXPECTED} without a user"), then);
            return None;
        }
        Some(uri)
    }

    /// `key=value,…` with percent-encoded values.
    fn pairs(&mut self, name: &str, text: &str) -> Vec<(String, String)> {
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=')?;
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            Some((key.trim().to_owned(), value.into_owned())).filter(|(key, _)| !key.is_empty())
        };
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        let read: Option<Vec<_>> = parts.map(pair).collect();
        read.unwrap_or_else(|| {
            self.wrong(name, "`key=value,…` with percent-encoded values", "it is ignored");
            Vec::new()
        })
    }

    fn headers(&mut self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let given = self.first(&["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"]);
        let Some((name, text)) = given else { return headers };
        for (key, value) in self.pairs(name, &text) {
            match (HeaderName::try_from(key.as_str()), HeaderValue::try_from(value)) {
                (Ok(key), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(key, value);
                }
                _ => self.wrong(name, "names and values of HTTP headers", "one of them is ignored"),
            }
        }
        headers
    }

    fn resource(&mut self) -> Vec<(String, String)> {
        let given = self.text("OTEL_RESOURCE_ATTRIBUTES");
        let mut resource = given.map(|text| self.pairs("OTEL_RESOURCE_ATTRIBUTES", &text)).unwrap_or_default();
        let of_attributes = resource.iter().position(|(key, _)| key == "service.name").map(|at| resource.remove(at).1);
        let name = self.text("OTEL_SERVICE_NAME").or(of_attributes).unwrap_or_else(|| "toolcrib".to_owned());
        resource.insert(0, ("service.name".to_owned(), name));
        for (key, value) in [
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("telemetry.sdk.name", "toolcrib"),
            ("telemetry.sdk.language", "rust"),
            ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ] {
            if !resource.iter().any(|(given, _)| given == key) {
                resource.push((key.to_owned(), value.to_owned()));
            }
        }
        resource
    }

    /// `None` where no trace is recorded.
    fn sampling(&mut self) -> Option<Sampler> {
        const RATIO: &str = "OTEL_TRACES_SAMPLER_ARG";
        let sampler = self.text("OTEL_TRACES_SAMPLER").unwrap_or_else(|| "parentbased_always_on".to_owned());
        let (follows_parent, own) = match sampler.strip_prefix("parentbased_") {
            Some(own) => (true, own),
            None => (false, sampler.as_str()),
        };
        let ratio = match own {
            "always_on" => 1.0,
            "always_off" if follows_parent => 0.0,
            "always_off" => return None,
            "traceidratio" => match self.text(RATIO).map(|text| text.parse::<f64>()) {
                None => 1.0,
                Some(Ok(ratio)) if (0.0..=1.0).contains(&ratio) => ratio,
                Some(_) => {
                    self.wrong(RATIO, "a number from 0 to 1", "every trace is recorded");
                    1.0
                }
            },
            _ => {
                let expected = "`always_on`, `always_off` or `traceidratio`, also behind `parentbased_`";
                self.wrong("OTEL_TRACES_SAMPLER", expected, "every trace is recorded");
                return Some(Sampler { ratio: 1.0, follows_parent: true });
            }
        };
        Some(Sampler { ratio, follows_parent })
    }

    fn millis(&mut self, names: &[&'static str], default: Duration) -> Duration {
        let Some((name, text)) = self.first(names) else { return default };
        match text.parse::<u32>() {
            Ok(millis) if millis > 0 => Duration::from_millis(millis.into()),
            _ => {
                self.wrong(name, "a number of milliseconds above 0", "the default is used");
                default
            }
        }
    }

    fn count(&mut self, name: &str, default: usize) -> usize {
        let Some(text) = self.text(name) else { return default };
        match text.parse::<usize>() {
            Ok(count) if (1..=MOST).contains(&count) => count,
            _ => {
                self.wrong(name, &format!("a number from 1 to {MOST}"), "the default is used");
                default
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn read(variables: &[(&str, &str)], endpoint: Option<&str>) -> Otlp {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value)));
        Otlp::read(&variables.collect(), endpoint)
    }

    fn exported(variables: &[(&str, &str)]) -> TraceExport {
        let base = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")];
        let otlp = read(&[&base, variables].concat(), None);
        assert_eq!(otlp.warnings, Vec::<String>::new());
        otlp.export.unwrap()
    }

    #[test]
    fn the_endpoint_is_the_setting_s_or_the_variables() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://b/custom");
        for (variables, setting, expected) in [
            (&[][..], None, None),
            (&[general], None, Some("http://a:4318/v1/traces")),
            (&[general, traces], None, Some("https://b/custom")),
            (&[general, traces], Some("http://c"), Some("http://c/v1/traces")),
            (&[general, ("OTEL_SDK_DISABLED", "True")], Some("http://c"), None),
            (&[general, ("OTEL_TRACES_EXPORTER", "none")], None, None),
            (&[general, ("OTEL_TRACES_SAMPLER", "always_off")], None, None),
        ] {
            let otlp = read(variables, setting);
            let endpoint = otlp.export.map(|export| export.endpoint.to_string());
            assert_eq!((endpoint.as_deref(), otlp.warnings.len()), (expected, 0), "{variables:?} {setting:?}");
        }
    }

    #[test]
    fn a_wrong_variable_is_named_and_ignored() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
        for (variables, says, exports) in [
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318")][..], "`localhost:4318`; no spans", false),
            (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://u:hunter2@a")], "without a user", false),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "u:hunter2@a b")], "a URL such as", false),
            (&[endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")], "`OTEL_TRACES_EXPORTER`", false),
            (&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "4318", true),
            (&[endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")], "`key=value,…`", true),
            (&[endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "a b=hunter2")], "HTTP headers", true),
            (&[endpoint, ("OTEL_TRACES_SAMPLER", "maybe")], "`OTEL_TRACES_SAMPLER`", true),
            (
                &[endpoint, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")],
                "`OTEL_TRACES_SAMPLER_ARG`",
                true,
            ),
            (&[endpoint, ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")], "`OTEL_EXPORTER_OTLP_TIMEOUT`", true),
            (&[endpoint, ("OTEL_BSP_MAX_QUEUE_SIZE", "0")], "from 1 to", true),
        ] {
            let otlp = read(variables, None);
            let [warning] = &otlp.warnings[..] else { panic!("{variables:?}: {:?}", otlp.warnings) };
            assert!(warning.contains(says) && !warning.contains("hunter2"), "{warning}");
            assert_eq!(otlp.export.is_some(), exports, "{variables:?}");
        }
    }

    #[test]
    fn headers_stay_secret_and_the_service_has_a_name() {
        let export = exported(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2, x=a%20b"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ]);
        assert_eq!(export.headers["api-key"], "hunter2");
        assert_eq!(export.headers["x"], "a b");
        assert!(!format!("{export:?}").contains("hunter2"), "{export:?}");
        assert_eq!(export.resource[0], ("service.name".to_owned(), "other".to_owned()));
        assert!(export.resource.contains(&("deployment.environment.name".to_owned(), "test".to_owned())));
        assert_eq!(export.sampling, Sampler { ratio: 0.25, follows_parent: true });
        let named = exported(&[("OTEL_SERVICE_NAME", "mine"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other")]);
        assert_eq!(named.resource[0].1, "mine");
    }
}
