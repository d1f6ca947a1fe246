//! When a step runs: a template, a tool's answer, an earlier step's result, and these put together.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::reader::{Cursor, Fields};
use crate::service_class::{Expectation, expectation};

/// How deep conditions may nest.
const DEPTH_MAX: usize = 8;

/// Whether a step runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Comes out as `true`.
    Template(Value),
    /// The answer of a tool is as it should be.
    Tool {
        tool: String,
        args: Map<String, Value>,
        test: Test,
    },
    /// The result of an earlier step is as it should be.
    FromStep {
        step: String,
        test: Test,
    },
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
}

/// What a result is held against.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Test {
    pub expect: Option<Expectation>,
    pub expect_not: Option<Expectation>,
}

// === impl Condition ===

impl Condition {
    /// The tools that it calls.
    pub fn tools(&self) -> Vec<&str> {
        match self {
            Self::Template(_) | Self::FromStep { .. } => Vec::new(),
            Self::Tool { tool, .. } => vec![tool],
            Self::All(all) | Self::Any(all) => all.iter().flat_map(Self::tools).collect(),
            Self::Not(inner) => inner.tools(),
        }
    }
}

pub(super) fn condition(cursor: &Cursor<'_>) -> Option<Condition> {
    read(cursor, 0)
}

fn read(cursor: &Cursor<'_>, depth: usize) -> Option<Condition> {
    if depth > DEPTH_MAX {
        cursor.expected(format_args!("at most {DEPTH_MAX} conditions within each other"));
        return None;
    }
    let fields = cursor.clone().fields()?;
    let kinds = ["template", "tool", "fromStep", "from_step", "and", "or", "not"];
    let found: Vec<&str> = kinds.into_iter().filter(|key| fields.has(key)).collect();
    let condition = match found.as_slice() {
        [] => {
            let hint = "write `template: …`, or `tool:` or `fromStep:` with `expect:`";
            cursor.problem("one of template, tool or fromStep is required", Some(hint.to_owned()));
            None
        }
        ["template", ..] if found.len() > 1 => {
            cursor.problem("template is mutually exclusive with tool/fromStep", Some("keep one".to_owned()));
            None
        }
        [one] => one_of(one, &fields, cursor, depth),
        _ => {
            cursor.problem(format!("{} are mutually exclusive", found.join(" and ")), Some("keep one".to_owned()));
            None
        }
    };
    // Read here, so that they are not reported again as unknown.
    for key in kinds.into_iter().chain(["args", "expect", "expectNot", "expect_not"]) {
        fields.get_unlisted(key);
    }
    fields.finish();
    condition
}

fn one_of(kind: &str, fields: &Fields<'_>, cursor: &Cursor<'_>, depth: usize) -> Option<Condition> {
    let several = |key: &'static str| {
        let list = fields.get(key)?;
        let all = list.items().iter().filter_map(|item| read(item, depth + 1)).collect::<Vec<_>>();
        if list.node().is_list() && all.is_empty() && list.items().is_empty() {
            list.expected("at least one condition");
        }
        Some(all)
    };
    match kind {
        "template" => {
            for key in ["expect", "expectNot", "expect_not", "args"] {
                fields.misplaced(key, "means nothing beside `template`");
            }
            fields.get("template").map(|cursor| Condition::Template(cursor.value()))
        }
        "tool" => {
            let tool = fields.get("tool").and_then(|cursor| cursor.word("the name of a tool"));
            let args = fields.get("args").filter(|cursor| !cursor.node().is_null());
            let args: BTreeMap<String, Value> =
                args.map(|cursor| cursor.map(|_, value| Some(value.value()))).unwrap_or_default();
            let test = test(fields, cursor);
            Some(Condition::Tool { tool: tool?, args: args.into_iter().collect(), test: test? })
        }
        "and" => several("and").map(Condition::All),
        "or" => several("or").map(Condition::Any),
        "not" => fields.get("not").and_then(|inner| read(&inner, depth + 1)).map(|inner| Condition::Not(inner.into())),
        _ => {
            let step = fields.either("fromStep", "from_step").and_then(|cursor| cursor.word("the id of a step"));
            let test = test(fields, cursor);
            Some(Condition::FromStep { step: step?, test: test? })
        }
    }
}

fn test(fields: &Fields<'_>, cursor: &Cursor<'_>) -> Option<Test> {
    let test = Test {
        expect: fields.get("expect").and_then(expectation),
        expect_not: fields.either("expectNot", "expect_not").and_then(expectation),
    };
    if !fields.has("expect") && !fields.has("expectNot") && !fields.has("expect_not") {
        cursor.problem("expect or expectNot is required", Some("write `expect: {success: true}`".to_owned()));
        return None;
    }
    Some(test)
}
