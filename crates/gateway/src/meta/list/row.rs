//! What muster's lists are made of: tools of servers and sources, tools of families in the place of their members', and
//! operations.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_protocol::Raw;
use toolcrib_view::Operation;
use toolcrib_view::view::{FamilyTool, Tool, View};

/// How long a summary is, in characters.
const SUMMARY: usize = 120;
/// The member of a tool's `_meta` that has its labels.
const LABELS: &str = "muster.giantswarm.io/labels";
/// How many bytes of rows one answer has at most, beside its first row: what a model can read at all.
const PAGE_BYTES: usize = 64 * 1024;

/// One thing that can be called.
#[derive(Debug, Clone)]
pub(super) enum Row<'a> {
    Tool(&'a Arc<Tool>),
    Family(&'a Arc<FamilyTool>),
    Operation(&'static Operation),
}

/// How much of a row is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// A line.
    Summary,
    /// The whole description.
    Description,
    /// The description and the schema of the arguments.
    Schema,
}

/// The rows of one answer.
pub(super) struct Page {
    pub(super) rows: Vec<Value>,
    /// Where the next page begins.
    pub(super) next: Option<usize>,
}

impl<'a> Row<'a> {
    /// Everything that a profile shows, in a fixed order.
    pub(super) fn all(view: &'a View) -> Vec<Self> {
        let mut rows = Self::of_tools(view, view.tools.iter());
        rows.extend(view.operations.iter().map(Self::Operation));
        rows
    }

    /// These tools, each family's once where its first member stands.
    pub(super) fn of_tools(view: &'a View, tools: impl Iterator<Item = &'a Arc<Tool>>) -> Vec<Self> {
        let mut told = HashSet::new();
        let row = |tool: &'a Arc<Tool>| match view.families.with(&tool.id) {
            Some(family) => told.insert(&*family.name).then_some(Self::Family(family)),
            None => Some(Self::Tool(tool)),
        };
        tools.filter_map(row).collect()
    }

    pub(super) fn name(&self) -> &'a str {
        match self {
            Self::Tool(tool) => &tool.name,
            Self::Family(family) => &family.name,
            Self::Operation(operation) => operation.tool,
        }
    }

    pub(super) fn description(&self) -> &'a str {
        match self {
            Self::Tool(tool) => tool.description(),
            Self::Family(family) => family.description(),
            Self::Operation(operation) => operation.description,
        }
    }

    pub(super) fn input_schema(&self) -> Value {
        match self {
            Self::Tool(tool) => {
                tool.entry.input_schema().map_or_else(|| json!({ "type": "object" }), |schema| schema.to_value())
            }
            Self::Family(family) => family.input_schema(),
            Self::Operation(operation) => operation.input_schema(),
        }
    }

    /// The labels of its server, and of its own.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let tool = match self {
            Self::Tool(tool) => Some(*tool),
            Self::Family(family) => family.any(),
            Self::Operation(_) => None,
        };
        let Some(tool) = tool else { return BTreeMap::new() };
        let mut labels = tool.definition().map(|definition| definition.labels.clone()).unwrap_or_default();
        let own = tool.entry.raw.get("_meta").and_then(|meta| meta.get(LABELS)).map(|labels| Raw::to_value(&labels));
        for (key, value) in own.as_ref().and_then(Value::as_object).into_iter().flatten() {
            if let Some(value) = value.as_str() {
                labels.insert(key.clone(), value.to_owned());
            }
        }
        labels
    }

    /// As it stands in an answer.
    pub(super) fn shown(&self, detail: Detail) -> Value {
        let mut value = json!({ "name": self.name() });
        match detail {
            Detail::Summary => {
                let line = self.description().lines().next().unwrap_or_default();
                value["summary"] = line.chars().take(SUMMARY).collect::<String>().into();
            }
            Detail::Description => value["description"] = self.description().into(),
            Detail::Schema => {
                value["description"] = self.description().into();
                value["inputSchema"] = self.input_schema();
            }
        }
        value
    }
}

impl Page {
    /// As many of the rows from `offset` on as fit, at most `limit`, and at least one.
    pub(super) fn cut<T>(all: &[T], offset: usize, limit: usize, shown: impl Fn(&T) -> Value) -> Self {
        let mut page = Self { rows: Vec::new(), next: None };
        let mut bytes = 0;
        for (number, row) in all.iter().enumerate().skip(offset) {
            let value = shown(row);
            bytes += value.to_string().len();
            if page.rows.len() >= limit || (bytes > PAGE_BYTES && !page.rows.is_empty()) {
                page.next = Some(number);
                break;
            }
            page.rows.push(value);
        }
        page
    }
}
