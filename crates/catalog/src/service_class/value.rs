//! A service class as a value, in the words of its file. What has its default is left out.

use serde_json::{Map, Value, json};

use super::{ArgumentDefinition, Expectation, LifecycleTool, ServiceClassDefinition};
use crate::template_language::TemplateLanguage;

impl ServiceClassDefinition {
    /// The definition with the keys of its YAML form.
    pub fn to_value(&self) -> Value {
        let mut config = Map::new();
        put(&mut config, "serviceType", self.service_type.clone());
        put(&mut config, "defaultName", self.default_name.clone());
        if !self.dependencies.is_empty() {
            config.insert("dependencies".to_owned(), self.dependencies.iter().map(Value::from).collect());
        }
        let tools: Map<String, Value> =
            self.tools.all().map(|(word, lifecycle)| (word.to_owned(), tool(lifecycle))).collect();
        config.insert("lifecycleTools".to_owned(), tools.into());
        let (health, timeouts) = (self.health, self.timeouts);
        config.insert(
            "healthCheck".to_owned(),
            json!({
                "enabled": health.enabled, "interval": health.interval.to_string(),
                "failureThreshold": health.failure_threshold, "successThreshold": health.success_threshold,
            }),
        );
        config.insert(
            "timeout".to_owned(),
            json!({
                "create": timeouts.create.to_string(), "delete": timeouts.delete.to_string(),
                "healthCheck": timeouts.health_check.to_string(),
            }),
        );
        if !self.outputs.is_empty() {
            config.insert("outputs".to_owned(), self.outputs.clone().into_iter().collect());
        }
        let mut value = Map::new();
        value.insert("name".to_owned(), self.name.as_str().into());
        put(&mut value, "version", self.version.clone());
        put(&mut value, "description", self.description.clone());
        if self.templates != TemplateLanguage::Go {
            put(&mut value, "templates", Some(self.templates.to_string()));
        }
        if !self.args.is_empty() {
            let args: Map<String, Value> = self.args.iter().map(|(name, arg)| (name.clone(), argument(arg))).collect();
            value.insert("args".to_owned(), args.into());
        }
        value.insert("serviceConfig".to_owned(), config.into());
        value.into()
    }
}

fn put(members: &mut Map<String, Value>, key: &str, value: Option<String>) {
    if let Some(value) = value {
        members.insert(key.to_owned(), value.into());
    }
}

fn argument(argument: &ArgumentDefinition) -> Value {
    let mut members = Map::new();
    members.insert("type".to_owned(), argument.kind.as_str().into());
    if argument.required {
        members.insert("required".to_owned(), true.into());
    }
    if let Some(default) = &argument.default {
        members.insert("default".to_owned(), default.clone());
    }
    put(&mut members, "description", argument.description.clone());
    for (key, value) in argument.schema().as_object().into_iter().flatten() {
        if matches!(key.as_str(), "enum" | "minimum" | "maximum" | "minLength" | "maxLength" | "pattern") {
            members.insert(key.clone(), value.clone());
        }
    }
    members.into()
}

fn tool(tool: &LifecycleTool) -> Value {
    let mut members = Map::new();
    members.insert("tool".to_owned(), tool.tool.as_str().into());
    if !tool.args.is_empty() {
        members.insert("args".to_owned(), tool.args.clone().into());
    }
    if !tool.outputs.is_empty() {
        members.insert("outputs".to_owned(), json!(tool.outputs));
    }
    put(&mut members, "condition", tool.condition.clone());
    for (key, expected) in [("expect", &tool.expect), ("expectNot", &tool.expect_not)] {
        if let Some(expected) = expected {
            members.insert(key.to_owned(), expectation(expected));
        }
    }
    members.into()
}

fn expectation(expectation: &Expectation) -> Value {
    let mut members = Map::new();
    if let Some(success) = expectation.success {
        members.insert("success".to_owned(), success.into());
    }
    if !expectation.json_path.is_empty() {
        members.insert("jsonPath".to_owned(), json!(expectation.json_path));
    }
    members.into()
}
