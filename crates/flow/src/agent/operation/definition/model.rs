//! What is special of the definitions of models. Keys are shown as references, never as values.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{Catalog, DEMO_MODEL, DefinitionKind, ModelDefinition, ModelWire};
use toolcrib_model::Script;

use super::{DefinitionForm, OperationCall, ShownDefinition};

pub(super) struct ModelForm;

const MEMBERS: &[&str] = &[
    "description",
    "wire",
    "url",
    "model",
    "key",
    "headers",
    "window",
    "max_output",
    "prices",
    "parallel",
    "timeout",
    "differs",
    "script",
];

const DEMO_DESCRIPTION: &str = "Built in: picks tools by the words of the task, needs no key and costs nothing";

impl DefinitionForm for ModelForm {
    fn noun(&self) -> &'static str {
        "model"
    }

    fn kind(&self) -> DefinitionKind {
        DefinitionKind::Model
    }

    fn members(&self) -> &'static [&'static str] {
        MEMBERS
    }

    fn rows(&self, _: &OperationCall, loaded: &Catalog) -> Vec<Value> {
        let demo = json!({
            "name": DEMO_MODEL, "wire": ModelWire::Script.as_str(), "model": DEMO_MODEL, "builtIn": true,
            "description": DEMO_DESCRIPTION, "agents": agents(loaded, DEMO_MODEL),
        });
        loaded.models.values().map(|model| row(loaded, model)).chain([demo]).collect()
    }

    fn shown(&self, _: &OperationCall, loaded: &Catalog, name: &str) -> Option<ShownDefinition> {
        if name == DEMO_MODEL {
            let value = json!({
                "name": DEMO_MODEL, "description": DEMO_DESCRIPTION, "wire": ModelWire::Script.as_str(),
                "script": { "demo": true },
            });
            return Some(ShownDefinition { value, is_masked: false, is_built_in: true, available: None });
        }
        let model = loaded.models.get(name)?;
        let value = model.to_shown_value();
        let is_masked = value.as_object() != Some(&model.spec);
        Some(ShownDefinition { value, is_masked, is_built_in: false, available: None })
    }

    fn compare(&self, loaded: &Catalog, name: &str, text: &str) -> Result<Vec<String>, Problem> {
        let Ok(model) = ModelDefinition::of_text(name, text) else { return Ok(Vec::new()) };
        if let Some(script) = &model.script
            && let Err(error) = Script::from_value(script)
        {
            let problem = Problem::new(Kind::Definition, format!("the script of the model is not valid: {error}"));
            return Err(problem.hint("An answer has `say`, `calls`, `finish` or `fail`; see `docs/guides/models.md`."));
        }
        if model.prices.is_some() || model.wire == ModelWire::Script {
            return Ok(Vec::new());
        }
        let limited = loaded
            .agents
            .values()
            .filter(|agent| agent.limits.limits_money() && agent.models.iter().any(|asked| asked.as_str() == name));
        let warn = |agent: &std::sync::Arc<toolcrib_catalog::AgentDefinition>| {
            format!("agent `{}` limits money, and this model has no `prices`", agent.name)
        };
        Ok(limited.map(warn).collect())
    }

    fn needed_by(&self, loaded: &Catalog, name: &str) -> Vec<String> {
        agents(loaded, name).into_iter().map(|agent| format!("agent `{agent}`")).collect()
    }

    fn next_step(&self, name: &str) -> String {
        format!("an agent asks it with `model: {name}`")
    }
}

/// The agents that ask a model.
fn agents(loaded: &Catalog, name: &str) -> Vec<String> {
    let asking = loaded.agents.values().filter(|agent| agent.models.iter().any(|model| model.as_str() == name));
    asking.map(|agent| agent.name.to_string()).collect()
}

fn row(loaded: &Catalog, model: &ModelDefinition) -> Value {
    let name = model.name.as_str();
    let mut row = json!({
        "name": name, "wire": model.wire.as_str(), "model": model.model, "max_output": model.max_output,
        "parallel": model.parallel, "agents": agents(loaded, name),
    });
    if let Some(url) = &model.url {
        row["url"] = url.to_string().into();
    }
    if let Some(key) = &model.key {
        row["key"] = key.to_string().into();
    }
    if let Some(window) = model.window {
        row["window"] = window.into();
    }
    if let Some(description) = &model.description {
        row["description"] = description.as_str().into();
    }
    if let Some(prices) = &model.prices {
        row["prices"] = json!({
            "input": prices.input.to_string(), "cached": prices.cached.to_string(),
            "cache_write": prices.cache_write.to_string(), "cache_write_hour": prices.cache_write_hour.to_string(),
            "output": prices.output.to_string(),
        });
    }
    row
}
