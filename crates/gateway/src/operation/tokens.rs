//! What tools cost a model: everything, what is listed, a task.

use toolcrib_view::{Operation, Permission};

use super::{ROW, Row, Run, row};
use crate::economy;

pub(super) const ROWS: &[Row] = &[row(
    Run::Counting(economy::answer),
    Operation {
        tool: "core_tokens",
        path: "/tokens",
        tag: "tools",
        summary: "Count tokens",
        description: "Count what the tools of this profile cost a model in tokens: all of them listed, what the profile lists, and a typical task by find, describe and call, averaged over the catalogue.",
        permission: Permission::Open,
        problems: &[toolcrib_base::Kind::NotFound],
        output: r#"{"type":"object","properties":{"profile":{"type":"string"},"exposure":{"type":"string"},"tokenizer":{"type":"string"},"everything":{"type":"object","properties":{"tools":{"type":"integer"},"tokens":{"type":"integer"}},"required":["tools","tokens"]},"listed":{"type":"object","properties":{"tools":{"type":"integer"},"tokens":{"type":"integer"}},"required":["tools","tokens"]},"task":{"type":"object","properties":{"find":{"type":"integer"},"describe":{"type":"integer"},"call":{"type":"integer"},"total":{"type":"integer"}},"required":["find","describe","call","total"]}},"required":["profile","exposure","tokenizer","everything","listed","task"]}"#,
        ..ROW
    },
)];
