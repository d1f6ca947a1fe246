//! The resources of a profile: list, read.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_view::view::View;
use toolcrib_view::{Effect, Method, Operation, Permission};

use super::{ROW, Row, Run, row};

/// What may be wrong with what a server is asked for.
pub(super) const PROBLEMS: &[Kind] = &[
    Kind::InvalidParams,
    Kind::Forbidden,
    Kind::NotFound,
    Kind::Busy,
    Kind::BadServer,
    Kind::Unavailable,
    Kind::Timeout,
    Kind::Cancelled,
];

pub(super) const ROWS: &[Row] = &[
    row(
        Run::View(list),
        Operation {
            tool: "core_resource_list",
            path: "/resources",
            tag: "resources",
            summary: "List the resources",
            description: "List the resources of this profile and their templates, as clients get them.",
            permission: Permission::Open,
            problems: &[Kind::NotFound],
            output: r#"{"type":"object","properties":{"resources":{"type":"array"},"resourceTemplates":{"type":"array"}},"required":["resources","resourceTemplates"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Read,
        Operation {
            tool: "core_resource_read",
            method: Method::Post,
            path: "/resources/read",
            tag: "resources",
            summary: "Read a resource",
            description: "Read a resource by its URI, as a client of the profile would: same rules, same record in the audit log. Answers its parts as content of a tool.",
            permission: Permission::Open,
            effect: Effect::Unknown,
            problems: PROBLEMS,
            input: r#"{"type":"object","properties":{"uri":{"type":"string","description":"Its URI as listed, or one that fits a template"}},"required":["uri"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"content":{"type":"array"}},"required":["content"]}"#,
            ..ROW
        },
    ),
];

fn list(view: &View, _: &Raw) -> Result<Value, Problem> {
    let mut listed = view.resources.resources_listed.plain().to_value();
    let mut templates = view.resources.templates_listed.plain().to_value();
    Ok(json!({ "resources": listed["resources"].take(), "resourceTemplates": templates["resourceTemplates"].take() }))
}
