//! What is wrong with an agent only beside other definitions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toolcrib_base::ProfileName;

use super::AgentDefinition;
use crate::model::{DEMO_MODEL, ModelDefinition, ModelWire};
use crate::object_name::ObjectName;
use crate::problem::DefinitionProblem;
use crate::profile::ProfileDefinition;

/// What keeps an agent from running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentFault {
    #[error("agent `{agent}` asks the model `{model}`, which does not exist")]
    NoModel { agent: ObjectName, model: ObjectName },
    #[error("agent `{agent}` limits money, and its model `{model}` has no `prices`")]
    NoPrice { agent: ObjectName, model: ObjectName },
    #[error("agent `{agent}` has the tools of the profile `{profile}`, which does not exist")]
    NoProfile { agent: ObjectName, profile: ProfileName },
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
        }
    }

    /// The key that it is about.
    fn field(&self) -> &'static str {
        match self {
            Self::NoModel { .. } => "models",
            Self::NoPrice { .. } => "limits",
            Self::NoProfile { .. } => "profile",
        }
    }

    /// Whether nothing that may come later makes it right: a model may be written after its agent.
    pub fn is_problem(&self) -> bool {
        matches!(self, Self::NoPrice { .. })
    }

    pub(crate) fn in_file(&self, file: &Path) -> DefinitionProblem {
        let problem = DefinitionProblem::of_file(file, self.to_string()).hint(self.hint());
        DefinitionProblem { field: self.field().to_owned(), ..problem }
    }
}

impl AgentDefinition {
    /// What is wrong with it beside the models and profiles that there are. Scripted models cost nothing.
    pub fn faults(
        &self,
        models: &BTreeMap<ObjectName, Arc<ModelDefinition>>,
        profiles: &BTreeMap<ProfileName, Arc<ProfileDefinition>>,
    ) -> Vec<AgentFault> {
        let mut faults = Vec::new();
        let judge = self.sentinel.as_ref().and_then(|sentinel| sentinel.classifier.as_ref());
        let judge = judge.map(|judge| &judge.model);
        for name in self.models.iter().chain(judge).filter(|name| name.as_str() != DEMO_MODEL) {
            let (agent, name) = (self.name.clone(), name.clone());
            match models.get(&name) {
                None => faults.push(AgentFault::NoModel { agent, model: name }),
                Some(model) => {
                    let costs = model.prices.is_none() && model.wire != ModelWire::Script;
                    if costs && self.limits.limits_money() {
                        faults.push(AgentFault::NoPrice { agent, model: name });
                    }
                }
            }
        }
        if let Some(profile) = self.profile.as_ref().filter(|profile| !profiles.contains_key(*profile)) {
            faults.push(AgentFault::NoProfile { agent: self.name.clone(), profile: profile.clone() });
        }
        faults
    }
}
