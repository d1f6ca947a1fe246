//! `lifecycleTools` of a service class: which tool does what, with what, and what is taken out of its answer.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::reader::{Cursor, Fields};

/// The tools of a service's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleTools {
    pub start: LifecycleTool,
    pub stop: LifecycleTool,
    /// Without it a restart is a stop and a start.
    pub restart: Option<LifecycleTool>,
    pub status: Option<LifecycleTool>,
    pub health_check: Option<LifecycleTool>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleTool {
    /// Its name as any dialect gives it.
    pub tool: String,
    /// What it is called with; texts in it are templates.
    pub args: Map<String, Value>,
    /// Parts of the result to keep: a name for each JSON path.
    pub outputs: BTreeMap<String, String>,
    /// A template that must come out as `true`; otherwise the tool is not called, which counts as done.
    pub condition: Option<String>,
    /// What its answer must be like beside being no error.
    pub expect: Option<Expectation>,
    /// What its answer must not be like.
    pub expect_not: Option<Expectation>,
}

/// What is looked for in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expectation {
    /// Whether the tool succeeds.
    pub success: Option<bool>,
    /// Values by their JSON paths.
    pub json_path: BTreeMap<String, Value>,
}

// === impl LifecycleTools ===

impl LifecycleTools {
    /// Stands in while the rest of a wrong definition is read.
    pub(super) fn none() -> Self {
        let none = LifecycleTool {
            tool: String::new(),
            args: Map::new(),
            outputs: BTreeMap::new(),
            condition: None,
            expect: None,
            expect_not: None,
        };
        Self { start: none.clone(), stop: none, restart: None, status: None, health_check: None }
    }

    /// All that there are, with the words of the file for them.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &LifecycleTool)> {
        let optional = [("restart", &self.restart), ("status", &self.status), ("healthCheck", &self.health_check)];
        let optional = optional.into_iter().filter_map(|(word, tool)| Some((word, tool.as_ref()?)));
        [("start", &self.start), ("stop", &self.stop)].into_iter().chain(optional)
    }

    /// The names of the tools, each once, in the order of the lifecycle.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for (_, tool) in self.all() {
            if !names.contains(&tool.tool.as_str()) {
                names.push(tool.tool.as_str());
            }
        }
        names
    }
}

pub(super) fn tools(cursor: Cursor<'_>) -> Option<LifecycleTools> {
    let fields = cursor.fields()?;
    let hint = |word: &str| format!("add `{word}: {{tool: …}}`");
    let must = |word: &'static str| {
        let what = format!("the tool that {word}s a service");
        fields.require(word, &what, hint(word)).and_then(|cursor| tool(&cursor))
    };
    let (start, stop) = (must("start"), must("stop"));
    let may = |cursor: Option<Cursor<'_>>| cursor.and_then(|cursor| tool(&cursor));
    let tools = |start, stop| LifecycleTools {
        start,
        stop,
        restart: may(fields.get("restart")),
        status: may(fields.get("status")),
        health_check: may(fields.either("healthCheck", "health_check")),
    };
    let complete = start.is_some() && stop.is_some();
    let none = LifecycleTools::none();
    let read = tools(start.unwrap_or(none.start), stop.unwrap_or(none.stop));
    fields.finish();
    complete.then_some(read)
}

fn tool(cursor: &Cursor<'_>) -> Option<LifecycleTool> {
    let fields = cursor.clone().fields()?;
    let what = "the name of a tool";
    let name = fields.require("tool", what, "add `tool: …`".to_owned()).and_then(|cursor| cursor.word(what));
    let args = fields.either("args", "arguments").map(|cursor| values(&cursor)).unwrap_or_default();
    let texts = |cursor: Cursor<'_>| cursor.map(|_, path| path.text().map(str::to_owned));
    let mut outputs: BTreeMap<String, String> = fields.get("outputs").map(texts).unwrap_or_default();
    // The word of older files.
    let mapping = fields.get_unlisted("responseMapping").or_else(|| fields.get_unlisted("response_mapping"));
    outputs.extend(mapping.map(texts).unwrap_or_default());
    let tool = LifecycleTool {
        tool: name.clone().unwrap_or_default(),
        args: args.into_iter().collect(),
        outputs,
        condition: fields.text("condition"),
        expect: fields.get("expect").and_then(expectation),
        expect_not: fields.either("expectNot", "expect_not").and_then(expectation),
    };
    fields.finish();
    name.map(|_| tool)
}

fn values(cursor: &Cursor<'_>) -> BTreeMap<String, Value> {
    cursor.map(|_, value| Some(value.value()))
}

pub(crate) fn expectation(cursor: Cursor<'_>) -> Option<Expectation> {
    let fields: Fields<'_> = cursor.fields()?;
    let expectation = Expectation {
        success: fields.get("success").and_then(|cursor| cursor.flag()),
        json_path: fields.either("jsonPath", "json_path").map(|cursor| values(&cursor)).unwrap_or_default(),
    };
    fields.finish();
    Some(expectation)
}
