//! A service class made ready: its templates and paths are read once, so that what is wrong with them is known when the
//! class is loaded and not when a service needs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolcrib_catalog::{Expectation, LifecycleTool, ObjectName, ServiceClassDefinition, TemplateLanguage};

use super::life::{Life, Thresholds};
use crate::template::{Context, JsonPath, Template, Tree};

/// Services are examined no more often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// A class that can be used.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) definition: Arc<ServiceClassDefinition>,
    tools: BTreeMap<&'static str, Tool>,
    outputs: Tree,
}

/// One of its tools.
#[derive(Debug)]
pub(super) struct Tool {
    /// The word of the lifecycle: `start`, `stop` …
    pub(super) word: &'static str,
    pub(super) name: String,
    args: Tree,
    outputs: Vec<(String, JsonPath)>,
    condition: Option<Template>,
    expect: Option<CompiledExpectation>,
    expect_not: Option<CompiledExpectation>,
}

#[derive(Debug)]
struct CompiledExpectation {
    success: Option<bool>,
    values: Vec<(JsonPath, Value)>,
}

/// Something wrong in a class: the path of the key, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) field: String,
    pub(super) message: String,
}

/// What a tool said.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// Its structured content, else its text as JSON, else its text.
    pub(super) value: Value,
    pub(super) is_error: bool,
    pub(super) text: String,
}

/// All classes by name; of a wrong one what is wrong with it.
pub(super) type Classes = BTreeMap<ObjectName, Result<Arc<Class>, Vec<Fault>>>;

// === impl Class ===

impl Class {
    /// Reads what is written in it. All faults at once.
    pub(super) fn new(definition: &Arc<ServiceClassDefinition>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut tools = BTreeMap::new();
        for (word, tool) in definition.tools.all() {
            match Tool::new(word, tool, definition.templates) {
                Ok(tool) => drop(tools.insert(word, tool)),
                Err(more) => faults.extend(more),
            }
        }
        let outputs: Map<String, Value> = definition.outputs.clone().into_iter().collect();
        let outputs = Tree::parse(&Value::from(outputs), definition.templates);
        let outputs = outputs.map_err(|error| faults.push(fault("serviceConfig.outputs", &error)));
        match outputs {
            Ok(outputs) if faults.is_empty() => Ok(Self { definition: Arc::clone(definition), tools, outputs }),
            _ => Err(faults),
        }
    }

    /// The tool for something; the first one and the one that stops are always there.
    pub(super) fn tool(&self, word: &str) -> Option<&Tool> {
        self.tools.get(word)
    }

    /// The tool that reports the state of a service: for those who ask its status tool, for the loop the one for its health.
    pub(super) fn examiner(&self, by: Examiner) -> Option<&Tool> {
        let words = match by {
            Examiner::Status => ["status", "healthCheck"],
            Examiner::Loop => ["healthCheck", "status"],
        };
        words.into_iter().find_map(|word| self.tool(word))
    }

    /// How often services are examined without being asked; never where it is off or there is no tool.
    pub(super) fn interval(&self) -> Option<Duration> {
        let health = self.definition.health;
        (health.enabled && self.examiner(Examiner::Loop).is_some())
            .then(|| health.interval.duration().max(SHORTEST_INTERVAL))
    }

    pub(super) fn thresholds(&self) -> Thresholds {
        let health = self.definition.health;
        Thresholds { failure: health.failure_threshold, success: health.success_threshold }
    }

    /// How long a tool may take.
    pub(super) fn deadline(&self, word: &str) -> Duration {
        let timeouts = self.definition.timeouts;
        let period = match word {
            "start" | "restart" => timeouts.create,
            "stop" => timeouts.delete,
            _ => timeouts.health_check,
        };
        period.duration()
    }

    /// What people call this kind of service.
    pub(super) fn service_type(&self) -> &str {
        self.definition.service_type.as_deref().unwrap_or(self.definition.name.as_str())
    }

    /// The outputs of a service that has just started: what was kept of the answer, and above it those of the class.
    pub(super) fn outputs(&self, kept: &Map<String, Value>, context: &Value) -> Result<Map<String, Value>, String> {
        let rendered = self
            .outputs
            .render(&Context::from(context))
            .map_err(|error| format!("failed to render outputs: {error}"))?;
        let mut outputs = kept.clone();
        outputs.extend(rendered.as_object().cloned().unwrap_or_default());
        Ok(outputs)
    }
}

/// Who wants to know how a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Examiner {
    Status,
    Loop,
}

/// What templates of a service see: its arguments at the root and as `args`, its name, and what was kept of the answers
/// of its tools, all of it as `service.metadata` and each under its tool's word.
pub(super) fn context(name: &str, class: &str, args: &Map<String, Value>, life: &Life) -> Value {
    let mut metadata = Map::new();
    for kept in life.kept.values().filter_map(Value::as_object) {
        metadata.extend(kept.clone());
    }
    let id = ["serviceId", "serviceID", "service_id", "id"].iter().find_map(|key| metadata.get(*key)).cloned();
    // An argument called `start` is what its class means by `.start`, and so on.
    let mut context = args.clone();
    for (word, kept) in &life.kept {
        context.entry(word.clone()).or_insert_with(|| kept.clone());
    }
    for word in ["start", "stop", "restart"] {
        context.entry(word).or_insert_with(|| json!({}));
    }
    let service = json!({ "id": id.unwrap_or_else(|| name.into()), "name": name, "metadata": metadata });
    for (key, value) in [
        ("args", Value::from(args.clone())),
        ("name", name.into()),
        ("serviceClassName", class.into()),
        ("service", service),
    ] {
        if !args.contains_key(key) || key == "args" {
            context.insert(key.to_owned(), value);
        }
    }
    Value::Object(context)
}

// === impl Tool ===

impl Tool {
    fn new(word: &'static str, tool: &LifecycleTool, language: TemplateLanguage) -> Result<Self, Vec<Fault>> {
        let place = |key: &str| format!("serviceConfig.lifecycleTools.{word}.{key}");
        let mut faults = Vec::new();
        let args = Tree::parse(&Value::from(tool.args.clone()), language);
        let args = args.map_err(|error| faults.push(fault(&place("args"), &error))).ok();
        let condition = tool.condition.as_deref().map(|text| Template::parse(text, language)).transpose();
        let condition = condition.map_err(|error| faults.push(fault(&place("condition"), &error))).ok().flatten();
        let mut outputs = Vec::new();
        for (name, path) in &tool.outputs {
            match JsonPath::parse(path) {
                Some(path) => outputs.push((name.clone(), path)),
                None => faults.push(no_path(&place("outputs"), path)),
            }
        }
        let mut expected = |key: &str, expectation: &Option<Expectation>| {
            let expectation = expectation.as_ref()?;
            let mut values = Vec::new();
            for (path, value) in &expectation.json_path {
                match JsonPath::parse(path) {
                    Some(path) => values.push((path, value.clone())),
                    None => faults.push(no_path(&place(key), path)),
                }
            }
            Some(CompiledExpectation { success: expectation.success, values })
        };
        let (expect, expect_not) = (expected("expect", &tool.expect), expected("expectNot", &tool.expect_not));
        match args {
            Some(args) if faults.is_empty() => {
                Ok(Self { word, name: tool.tool.clone(), args, outputs, condition, expect, expect_not })
            }
            _ => Err(faults),
        }
    }

    /// What it is called with; nothing where its condition says that it is not to be called.
    pub(super) fn arguments(&self, context: &Value) -> Result<Option<Value>, String> {
        let context = &Context::from(context);
        if let Some(condition) = &self.condition {
            let wanted = condition.render(context);
            let wanted =
                wanted.map_err(|error| format!("failed to render the condition of `{}`: {error}", self.name))?;
            if wanted != Value::Bool(true) && wanted.as_str().is_none_or(|text| text.trim() != "true") {
                return Ok(None);
            }
        }
        let rendered = self.args.render(context);
        rendered.map(Some).map_err(|error| format!("failed to render arguments of `{}`: {error}", self.name))
    }

    /// What is kept of an answer, if it is as it should be.
    pub(super) fn judge(&self, answer: &Answer) -> Result<Map<String, Value>, String> {
        let success = self.expect.as_ref().and_then(|expected| expected.success).unwrap_or(true);
        if answer.is_error == success {
            return Err(if answer.is_error {
                format!("`{}`: {}", self.name, answer.text)
            } else {
                format!("`{}` was expected to fail and did not", self.name)
            });
        }
        for (path, wanted) in self.expect.iter().flat_map(|expected| &expected.values) {
            match path.find(&answer.value) {
                Some(found) if is_same(found, wanted) => {}
                Some(found) => {
                    return Err(format!(
                        "`{}`: expected `{}` to be {wanted}, got {}",
                        self.name,
                        path.text(),
                        cut(found)
                    ));
                }
                None => return Err(format!("`{}`: expected `{}` to be {wanted}, got nothing", self.name, path.text())),
            }
        }
        if let Some(unwanted) = &self.expect_not {
            if unwanted.success == Some(!answer.is_error) {
                return Err(format!(
                    "`{}` was expected not to {}",
                    self.name,
                    if answer.is_error { "fail" } else { "succeed" }
                ));
            }
            let met = unwanted
                .values
                .iter()
                .find(|(path, value)| path.find(&answer.value).is_some_and(|found| is_same(found, value)));
            if let Some((path, value)) = met {
                return Err(format!("`{}`: expected `{}` not to be {value}", self.name, path.text()));
            }
        }
        Ok(self.outputs.iter().filter_map(|(name, path)| Some((name.clone(), kept(path, answer)?))).collect())
    }
}

/// The value of an output. Some files write `result.` before the path into the answer.
fn kept(path: &JsonPath, answer: &Answer) -> Option<Value> {
    let inner = || JsonPath::parse(path.text().strip_prefix("result.")?)?.find(&answer.value).cloned();
    path.find(&answer.value).cloned().or_else(inner)
}

/// Values are compared as they print: `"8080"` is `8080`.
fn is_same(found: &Value, wanted: &Value) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    found == wanted || text(found) == text(wanted)
}

fn cut(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn fault(field: &str, error: &crate::template::TemplateError) -> Fault {
    Fault { field: field.to_owned(), message: error.to_string() }
}

fn no_path(field: &str, path: &str) -> Fault {
    let path: String = path.chars().filter(|c| !c.is_control()).take(80).collect();
    Fault { field: field.to_owned(), message: format!("expected a JSON path such as `result.id`, got `{path}`") }
}
