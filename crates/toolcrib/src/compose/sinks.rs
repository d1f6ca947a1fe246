//! The sinks of the audit log: from the settings to what delivers, with the secrets of headers.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_base::SystemClock;
use toolcrib_catalog::SecretRef;
use toolcrib_gateway::Gateway;
use toolcrib_sink::format::{Origin, Resource};
use toolcrib_sink::{OtlpConfig, Pace, ResolveHeaders, SinkConfig, Sinks, SinksConfig, TargetConfig};

use crate::config::{AuditTargetConfig, Config};
use crate::secrets::HomeSecrets;

/// Where Linux says what the machine is called.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Starts the sinks of the settings. `instance` is 0 for the gateway of the home, else the number of one beside it, which
/// has a log of its own. A gateway for the length of a command leaves delivery to the next one.
pub(super) async fn start(
    config: &Config,
    gateway: &Arc<Gateway>,
    secrets: &Arc<HomeSecrets>,
    instance: u32,
) -> anyhow::Result<()> {
    if config.is_momentary {
        return Ok(());
    }
    let host = host_name();
    let mut resource = Resource::program();
    resource.0.push(("service.instance.id", format!("{host}/{instance}")));
    resource.0.push(("host.name", host.clone()));
    let sinks = config.audit.sinks.iter().map(|sink| SinkConfig {
        name: sink.name.clone(),
        target: target(&sink.target, secrets, instance),
        is_from_now: sink.is_from_now,
    });
    let origin = Origin { host, process: std::process::id().to_string() };
    let config = SinksConfig { sinks: sinks.collect(), origin, resource, pace: Pace::default() };
    let store = gateway.store().clone();
    let started = tokio::task::spawn_blocking(move || Sinks::start(&config, &store, &(Arc::new(SystemClock) as _)));
    gateway.keep_sinks(Arc::new(started.await?.context("start the sinks of the audit log")?));
    Ok(())
}

fn target(config: &AuditTargetConfig, secrets: &Arc<HomeSecrets>, instance: u32) -> TargetConfig {
    match config {
        AuditTargetConfig::File(file) => {
            let mut file = file.clone();
            // Two processes that write one file would tear its lines.
            if instance > 0 {
                let stem = file.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let end = file.path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
                file.path.set_file_name(format!("{stem}-{instance}{end}"));
            }
            TargetConfig::File(file)
        }
        AuditTargetConfig::Syslog(syslog) => TargetConfig::Syslog(syslog.clone()),
        AuditTargetConfig::Otlp { url, headers, ca } => {
            let headers = SinkHeaders { secrets: Arc::clone(secrets), references: headers.clone() };
            TargetConfig::Otlp(OtlpConfig { url: url.clone(), headers: Arc::new(headers), ca: ca.clone() })
        }
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string(HOST_NAME).ok().or_else(|| std::env::var("HOSTNAME").ok());
    name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

/// Headers with secrets, found again whenever a connection to a collector begins.
#[derive(Debug)]
struct SinkHeaders {
    secrets: Arc<HomeSecrets>,
    references: BTreeMap<String, SecretRef>,
}

impl ResolveHeaders for SinkHeaders {
    fn headers(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for (name, reference) in &self.references {
            let secret = self.secrets.own(reference).map_err(|error| error.to_string())?;
            let wrong = || format!("value of `{reference}` cannot be the header `{name}`");
            let name: HeaderName = name.parse().map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(secret.expose()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }
}
