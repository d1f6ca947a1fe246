//! What is wrong with an agent only beside other definitions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toolcrib_base::{ProfileName, ServerName};

use super::AgentDefinition;
use crate::connector::ConnectorDefinition;
use crate::model::{DEMO_MODEL, ModelDefinition, ModelWire};
use crate::object_name::ObjectName;
use crate::problem::DefinitionProblem;
use crate::profile::ProfileDefinition;
use crate::server::ServerDefinition;

/// The definitions that agents name.
#[derive(Debug, Clone, Copy)]
pub struct KnownDefinitions<'a> {
    pub models: &'a BTreeMap<ObjectName, Arc<ModelDefinition>>,
    pub profiles: &'a BTreeMap<ProfileName, Arc<ProfileDefinition>>,
    pub connectors: &'a BTreeMap<ServerName, Arc<ConnectorDefinition>>,
    /// Those of connectors among them.
    pub servers: &'a BTreeMap<ServerName, Arc<ServerDefinition>>,
}

/// What keeps an agent from running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentFault {
    #[error("agent `{agent}` asks the model `{model}`, which does not exist")]
    NoModel { agent: ObjectName, model: ObjectName },
    #[error("agent `{agent}` limits money, and its model `{model}` has no `prices`")]
    NoPrice { agent: ObjectName, model: ObjectName },
    #[error("agent `{agent}` has the tools of the profile `{profile}`, which does not exist")]
    NoProfile { agent: ObjectName, profile: ProfileName },
    #[error("agent `{agent}` has the tools of the connector `{connector}`, which does not exist")]
    NoConnector { agent: ObjectName, connector: ServerName },
    #[error("agent `{agent}` describes another connector `{connector}` than the one that there is")]
    OtherConnector { agent: ObjectName, connector: ServerName },
}

// === impl AgentFault ===

impl AgentFault {
    /// The next step.
    pub fn hint(&self) -> String {
        match self {
            Self::NoModel { model, .. } => {
                format!(
                    "write `models/{model}.yaml`, or look at `toolcrib list models`; `toolcrib model add` finds local ones"
                )
            }
            Self::NoPrice { model, .. } => {
                format!("add `prices: {{input: …, output: …}}` to `models/{model}.yaml`, or remove the limit")
            }
            Self::NoProfile { profile, .. } => format!("write `profiles/{profile}.yaml`, or name another profile"),
            Self::NoConnector { connector, .. } => {
                format!("write `connectors/{connector}.yaml`, or look at `toolcrib list connectors`")
            }
            Self::OtherConnector { connector, .. } => format!(
                "name it only (`connectors: [{connector}]`), or give it another name; endpoint and credential differ, or a server has this name"
            ),
        }
    }

    /// The key that it is about.
    fn field(&self) -> &'static str {
        match self {
            Self::NoModel { .. } => "models",
            Self::NoPrice { .. } => "limits",
            Self::NoProfile { .. } => "profile",
            Self::NoConnector { .. } | Self::OtherConnector { .. } => "connectors",
        }
    }

    /// Whether nothing that may come later makes it right: a model may be written after its agent.
    pub fn is_problem(&self) -> bool {
        matches!(self, Self::NoPrice { .. } | Self::OtherConnector { .. })
    }

    pub(crate) fn in_file(&self, file: &Path) -> DefinitionProblem {
        let problem = DefinitionProblem::of_file(file, self.to_string()).hint(self.hint());
        DefinitionProblem { field: self.field().to_owned(), ..problem }
    }
}

impl AgentDefinition {
    /// What is wrong with it beside the definitions that there are. Scripted models cost nothing.
    pub fn faults(&self, known: &KnownDefinitions<'_>) -> Vec<AgentFault> {
        let mut faults = Vec::new();
        let judge = self.sentinel.as_ref().and_then(|sentinel| sentinel.classifier.as_ref());
        let judge = judge.map(|judge| &judge.model);
        for name in self.models.iter().chain(judge).filter(|name| name.as_str() != DEMO_MODEL) {
            let (agent, name) = (self.name.clone(), name.clone());
            match known.models.get(&name) {
                None => faults.push(AgentFault::NoModel { agent, model: name }),
                Some(model) => {
                    let costs = model.prices.is_none() && model.wire != ModelWire::Script;
                    if costs && self.limits.limits_money() {
                        faults.push(AgentFault::NoPrice { agent, model: name });
                    }
                }
            }
        }
        if let Some(profile) = self.profile.as_ref().filter(|profile| !known.profiles.contains_key(*profile)) {
            faults.push(AgentFault::NoProfile { agent: self.name.clone(), profile: profile.clone() });
        }
        for connector in self.connectors.iter().flatten() {
            let (agent, name) = (self.name.clone(), connector.name.clone());
            match known.servers.get(&name) {
                None if connector.own.is_some() || known.connectors.contains_key(&name) => {}
                None => faults.push(AgentFault::NoConnector { agent, connector: name }),
                Some(server) if connector.is_meant(server) => {}
                Some(_) => faults.push(AgentFault::OtherConnector { agent, connector: name }),
            }
        }
        faults
    }
}
