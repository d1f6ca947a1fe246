//! The configuration in muster's shape, and what of it can be changed: the address, at the next start.
//!
//! A change is held in memory until it is saved; only then does it stand in `config.toml`. Nothing shown is a secret.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_view::{Effect, Method, Operation};

use super::{ROW, Row, Run, blocking, definition, row};
use crate::configuration::KeepSettings;
use crate::gateway::Gateway;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, _| Box::pin(std::future::ready(get(gateway)))),
        Operation {
            tool: "core_config_get",
            path: "/config",
            tag: "config",
            summary: "Show the configuration",
            description: "Show the configuration in force, with where each setting came from and what is to change. Secrets are no part of it.",
            problems: &[Kind::Conflict],
            output: r#"{"type":"object","properties":{"Aggregator":{"type":"object"},"Namespace":{"type":"string"},"settings":{"type":"object"},"pending":{"type":"object"}},"required":["Aggregator","Namespace","settings"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(std::future::ready(aggregator(gateway)))),
        Operation {
            tool: "core_config_get_aggregator",
            path: "/config/aggregator",
            tag: "config",
            summary: "Show where the gateway listens",
            description: "Show where the gateway listens and how tools are named, in muster's shape.",
            problems: &[Kind::Conflict],
            output: AGGREGATOR,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(reload(gateway))),
        Operation {
            tool: "core_config_reload",
            method: Method::Post,
            path: "/config/reload",
            tag: "config",
            summary: "Read the files again",
            description: "Reload servers, profiles and all other definitions, discard unsaved changes, and list the \
                          settings of config.toml that take effect only after the next start.",
            effect: Effect::Changes { idempotent: true },
            problems: &[Kind::Conflict, Kind::Definition],
            output: r#"{"type":"object","properties":{"message":{"type":"string"},"problems":{"type":"array"},"restart_needed":{"type":"array","items":{"type":"string"}}},"required":["message","problems","restart_needed"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(save(gateway))),
        Operation {
            tool: "core_config_save",
            method: Method::Post,
            path: "/config/save",
            tag: "config",
            summary: "Save the configuration",
            description: "Write what core_config_update_aggregator changed into config.toml; the rest of the file \
                          stays as it is. It takes effect after the next start.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::Conflict, Kind::Definition, Kind::Stale, Kind::Internal],
            output: r#"{"type":"object","properties":{"message":{"type":"string"},"file":{"type":"string"}},"required":["message"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(std::future::ready(update(gateway, arguments)))),
        Operation {
            tool: "core_config_update_aggregator",
            method: Method::Put,
            path: "/config/aggregator",
            tag: "config",
            summary: "Change where the gateway listens",
            description: "Change `host` and `port`. The change is kept in memory until core_config_save, and takes \
                          effect after the next start. Other settings are rejected with the reason.",
            effect: Effect::Changes { idempotent: true },
            problems: &[Kind::Conflict, Kind::Address],
            input: r#"{"type":"object","properties":{"aggregator":{"type":"object","description":"host, port; transport and musterPrefix only as they are"}},"required":["aggregator"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"message":{"type":"string"},"pending":{"type":"object"}},"required":["message","pending"]}"#,
            ..ROW
        },
    ),
];

const AGGREGATOR: &str = r#"{"type":"object","properties":{"Port":{"type":"integer"},"Host":{"type":"string"},"Transport":{"type":"string"},"MusterPrefix":{"type":"string"},"Enabled":{"type":"boolean"}},"required":["Port","Host","Transport","MusterPrefix","Enabled"]}"#;

/// What stands before the names of servers' tools in the muster dialect.
const PREFIX: &str = "x";
const TRANSPORT: &str = "streamable-http";

impl Gateway {
    /// Takes the settings of the process, once.
    pub fn keep_settings(&self, settings: Arc<dyn KeepSettings>) {
        // The composition root does it once.
        self.configuration.set(settings);
    }
}

fn aggregator(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let settings = gateway.configuration.settings()?;
    let (listen, is_listening) = (settings.listen(), settings.is_listening());
    Ok(json!({
        "Port": listen.port(), "Host": listen.ip().to_string(), "MusterPrefix": PREFIX,
        "Transport": if is_listening { TRANSPORT } else { "stdio" }, "Enabled": is_listening,
    }))
}

fn get(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let mut value = json!({
        "Aggregator": aggregator(gateway)?, "Namespace": crate::object_events::NAMESPACE, "Kubernetes": false,
        "settings": gateway.configuration.settings()?.shown(),
    });
    if let Some(listen) = *gateway.configuration.wanted() {
        value["pending"] = json!({ "listen": listen.to_string() });
    }
    Ok(value)
}

fn update(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let settings = gateway.configuration.settings()?;
    let mut listen = gateway.configuration.wanted().unwrap_or_else(|| settings.listen());
    let given = arguments.get("aggregator").map(|given| given.to_value()).unwrap_or_default();
    let wrong = |message: String| Problem::new(Kind::InvalidParams, message);
    for (key, value) in given.as_object().into_iter().flatten() {
        // muster's files say `port`, its answers `Port`.
        match (key.to_ascii_lowercase().as_str(), value) {
            ("port", Value::Number(port)) => {
                let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
                listen.set_port(port.ok_or_else(|| wrong("`aggregator.port` must be from 0 to 65535".to_owned()))?);
            }
            ("host", Value::String(host)) => {
                let host = if host == "localhost" { "127.0.0.1" } else { host };
                let shown: String = host.chars().take(64).collect();
                let host: IpAddr = host.parse().map_err(|_| {
                    wrong(format!("`aggregator.host` is `{shown}`; expected an IP address or `localhost`"))
                })?;
                listen.set_ip(host);
            }
            ("transport", Value::String(transport)) if transport == TRANSPORT => {}
            ("transport", _) => {
                return Err(wrong(format!("`aggregator.transport` cannot be changed: it is `{TRANSPORT}`"))
                    .hint("The older HTTP+SSE is served at `/sse` beside it; for stdio start `toolcrib stdio`."));
            }
            ("musterprefix", Value::String(prefix)) if prefix == PREFIX => {}
            ("musterprefix", _) => {
                return Err(wrong(format!("`aggregator.musterPrefix` cannot be changed: it is `{PREFIX}`")).hint(
                    "Names that clients and workflows know would change; `prefix` of a server changes its own part.",
                ));
            }
            ("enabled", Value::Bool(true)) => {}
            ("port", _) => return Err(wrong("wrong type for `aggregator.port`: expected number".to_owned())),
            ("host", _) => return Err(wrong("wrong type for `aggregator.host`: expected string".to_owned())),
            _ => {
                let shown: String = key.chars().take(64).collect();
                return Err(wrong(format!("`aggregator.{shown}` cannot be changed here"))
                    .hint("Only `host` and `port` can be set here; every other setting is in config.toml."));
            }
        }
    }
    settings.check_listen(listen)?;
    *gateway.configuration.wanted() = Some(listen);
    let message = "Successfully updated the aggregator configuration: core_config_save writes it, and it takes effect \
                   after the next start";
    Ok(json!({ "message": message, "pending": { "listen": listen.to_string() } }))
}

async fn save(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let settings = Arc::clone(gateway.configuration.settings()?);
    let Some(listen) = *gateway.configuration.wanted() else {
        return Ok(json!({ "message": "Successfully saved: nothing was changed since the start or the last save" }));
    };
    let writing = definition::writing(gateway)?;
    let file = blocking(move || settings.save_listen(listen, &writing.files)).await?;
    // What was asked for meanwhile is not saved yet.
    let mut wanted = gateway.configuration.wanted();
    *wanted = wanted.filter(|now| *now != listen);
    let message = format!(
        "Successfully saved `listen = \"{listen}\"`: it takes effect after the next start, unless a flag or a \
         variable overrides it"
    );
    Ok(json!({ "message": message, "file": file }))
}

async fn reload(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let settings = Arc::clone(gateway.configuration.settings()?);
    gateway.configuration.wanted().take();
    let taking = Arc::clone(gateway);
    let saved = blocking(move || {
        taking.take_in();
        settings.saved_listen()
    })
    .await?;
    let listen = gateway.configuration.settings()?.listen();
    let restart_needed: Vec<&str> = saved.filter(|saved| *saved != listen).map(|_| "listen").into_iter().collect();
    let problems: Vec<Value> = gateway.loaded().problems.iter().map(definition::problem).collect();
    let message = "Successfully reloaded the definitions; settings of config.toml count after the next start";
    Ok(json!({ "message": message, "problems": problems, "restart_needed": restart_needed }))
}
