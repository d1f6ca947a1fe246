//! `core_connector_test`: connects to the server of a connector and compares what it offers with the definition; nothing
//! is called. `core_connector_rotate`: puts another secret into the vault. Neither shows a secret.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::nearest::nearest;
use toolcrib_base::{Kind, Problem, Secret, ServerName};
use toolcrib_call::admission::closing_problem;
use toolcrib_catalog::{ConnectorAuth, ConnectorDefinition, ConnectorStatus, GovernedTool};
use toolcrib_gateway::{Gateway, SecretRotation};

use super::OperationCall;

/// So many tools that a definition does not list are named.
const UNLISTED_SHOWN: usize = 50;

/// What a test has found.
#[derive(Default)]
struct ConnectorTest {
    checks: Vec<Value>,
}

// === impl ConnectorTest ===

impl ConnectorTest {
    fn say(&mut self, check: &str, works: Option<bool>, detail: impl Into<String>) {
        self.checks.push(json!({ "check": check, "works": works, "detail": detail.into() }));
    }
}

pub(super) async fn test(asking: &OperationCall) -> Result<Value, Problem> {
    let (gateway, connector) = named(asking)?;
    let name = connector.name.as_str();
    if connector.status == ConnectorStatus::Inactive {
        let problem = Problem::new(Kind::Conflict, format!("connector `{name}` is inactive"));
        return Err(problem.hint(format!("write `status: active` into `connectors/{name}.yaml`")));
    }
    let mut test = ConnectorTest::default();
    match connector.auth.vault_entry() {
        None if !connector.auth.has_credential() => test.say("credential", None, "the connector sends none"),
        None => test.say("credential", None, format!("that of a login: `toolcrib login {name}`")),
        Some(entry) => {
            let is_there = gateway.secret_names().await?.iter().any(|known| known == entry);
            let set = format!("the vault has no `{entry}`: set it with `toolcrib connector rotate {name}`");
            let detail = if is_there { format!("the vault has `{entry}`") } else { set };
            test.say("credential", Some(is_there), detail);
        }
    }
    let mut offered = Vec::new();
    match gateway.glance(name).await {
        Ok(seen) => {
            test.say("connection", Some(true), format!("{} tools in {} ms", seen.tools.len(), seen.took.as_millis()));
            let missing: Vec<String> = connector
                .tools
                .keys()
                .filter(|tool| !seen.tools.contains(tool))
                .map(|tool| match nearest(tool, seen.tools.iter().map(String::as_str)) {
                    Some(close) => format!("`{tool}` (did you mean `{close}`?)"),
                    None => format!("`{tool}`"),
                })
                .collect();
            let detail = match missing.as_slice() {
                [] => format!("its server has the {} of the definition", connector.tools.len()),
                missing => format!("its server has no {}", missing.join(", ")),
            };
            test.say("tools", Some(missing.is_empty()), detail);
            if seen.warnings > 0 {
                test.say("lists", None, format!("{} entries of its lists cannot be used", seen.warnings));
            }
            offered = seen.tools;
        }
        Err(problem) => {
            let hint = problem.hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            test.say("connection", Some(false), format!("{}{hint}", problem.message));
        }
    }
    let works = test.checks.iter().all(|check| check["works"] != false);
    let unlisted = offered.iter().filter(|tool| !connector.tools.contains_key(*tool));
    let unlisted: Vec<&String> = unlisted.take(UNLISTED_SHOWN).collect();
    let tools: Vec<Value> = connector.tools.iter().map(|(tool, governed)| row(tool, governed, &offered)).collect();
    Ok(json!({ "name": name, "works": works, "checks": test.checks, "tools": tools, "unlisted": unlisted }))
}

fn row(tool: &str, governed: &GovernedTool, offered: &[String]) -> Value {
    let mut row = json!({ "name": tool, "offered": offered.iter().any(|it| it == tool) });
    if let Some(action) = governed.action {
        row["action_type"] = action.as_str().into();
    }
    if let Some(risk) = governed.risk {
        row["risk_class"] = risk.as_str().into();
        row["decision"] = governed.decision().as_str().into();
    }
    row
}

pub(super) async fn rotate(asking: &OperationCall) -> Result<Value, Problem> {
    let (gateway, connector) = named(asking)?;
    let name = &connector.name;
    let Some(entry) = connector.auth.vault_entry() else {
        return Err(match connector.auth {
            ConnectorAuth::Login { .. } => Problem::new(Kind::Conflict, format!("connector `{name}` has a login"))
                .hint(format!("log in again with `toolcrib login {name}`")),
            _ => Problem::new(Kind::Conflict, format!("connector `{name}` has no credential"))
                .hint("write `auth` with a reference such as `vault:NAME` into its definition"),
        });
    };
    let value = asking.given.text("value")?;
    if value.chars().any(char::is_control) {
        let problem = Problem::new(Kind::InvalidParams, "`value` must be one line without control characters");
        return Err(problem.hint("pass the secret as the provider shows it"));
    }
    let rotation = SecretRotation { entry, server: name, value: Secret::new(value) };
    let replaced = gateway.rotate_secret(rotation).await?;
    let shared = sharing(&gateway, &connector, entry);
    let what = if replaced { "replaced" } else { "set" };
    let mut said = json!({
        "name": name.as_str(), "reference": format!("vault:{entry}"), "replaced": replaced,
        "message": format!("{what} the secret of connector `{name}` in the vault"),
    });
    if !shared.is_empty() {
        said["shared"] = shared.into();
    }
    Ok(said)
}

/// Other connectors with the same secret.
fn sharing(gateway: &Gateway, connector: &ConnectorDefinition, entry: &str) -> Vec<String> {
    let loaded = gateway.loaded();
    let others = loaded.connectors.values().filter(|other| other.name != connector.name);
    others.filter(|other| other.auth.vault_entry() == Some(entry)).map(|other| other.name.to_string()).collect()
}

/// The connector that is meant, of a file or of an agent's document.
fn named(asking: &OperationCall) -> Result<(Arc<Gateway>, Arc<ConnectorDefinition>), Problem> {
    let name = asking.given.text("name")?;
    let gateway = asking.inner.bridge.gateway().ok_or_else(closing_problem)?;
    let loaded = gateway.loaded();
    let of_agents = || loaded.agents.values().flat_map(|agent| agent.connectors.iter().flatten());
    let own = || of_agents().filter_map(|it| it.own.clone()).find(|own| own.name.as_str() == name);
    if let Some(connector) = loaded.connectors.get(name).cloned().or_else(own) {
        return Ok((gateway, connector));
    }
    let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    let problem = Problem::new(Kind::NotFound, format!("connector `{shown}` not found"));
    Err(match nearest(name, loaded.connectors.keys().map(ServerName::as_str)) {
        Some(close) => problem.hint(format!("Did you mean `{close}`?")),
        None => problem,
    })
}
