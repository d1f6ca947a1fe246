//! The prompts of a profile: list, get.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_view::view::View;
use toolcrib_view::{Effect, Method, Operation, Permission};

use super::resources::PROBLEMS;
use super::{ROW, Row, Run, row};

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Prompt,
        Operation {
            tool: "core_prompt_get",
            method: Method::Post,
            path: "/prompts/{name}/get",
            tag: "prompts",
            summary: "Get a prompt",
            description: "Get a prompt with its arguments, as a client of the profile would: same rules, same record. Answers its messages as structured content of a tool.",
            permission: Permission::Open,
            effect: Effect::Unknown,
            problems: PROBLEMS,
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"Its name as listed"},"arguments":{"type":"object"}},"required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"content":{"type":"array"}},"required":["content"]}"#,
            ..ROW
        },
    ),
    row(
        Run::View(list),
        Operation {
            tool: "core_prompt_list",
            path: "/prompts",
            tag: "prompts",
            summary: "List the prompts",
            description: "List the prompts of this profile with their arguments, as clients get them.",
            permission: Permission::Open,
            problems: &[Kind::NotFound],
            output: r#"{"type":"object","properties":{"prompts":{"type":"array","items":{"type":"object","required":["name"]}}},"required":["prompts"]}"#,
            ..ROW
        },
    ),
];

fn list(view: &View, _: &Raw) -> Result<Value, Problem> {
    let mut listed = view.prompts_listed.plain().to_value();
    Ok(json!({ "prompts": listed["prompts"].take() }))
}
