//! Operations: administrative acts, each written once and reached as a `core_*` tool, a REST route and a command.
//!
//! To add one: a file in `operation/` with its function, and a row in [`TABLE`]. The doors read the table.

mod audit;
mod lifecycle;
mod profiles;
mod servers;
mod tools;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_policy::{Act, Annotations};
use toolcrib_protocol::Raw;

use crate::approval::Judgement;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::view::View;

/// Who may do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Everybody who reaches the profile.
    Open,
    /// Principals that may administer.
    Admin,
}

type Run = for<'a> fn(&'a Arc<Gateway>, Asking<'a>, &'a Raw) -> BoxFuture<'a, Result<Value, Problem>>;

/// Who asks for an operation, and what that caller's profile shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) view: &'a View,
    pub(crate) caller: &'a Caller,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    /// The name of its tool.
    pub tool: &'static str,
    /// The path of its REST route below `/api/v1`, reached by GET with the arguments in the query.
    pub route: &'static str,
    /// What people and models read.
    pub description: &'static str,
    /// Who may do it.
    pub permission: Permission,
    /// Whether it may take long, so that clients that know tasks get one.
    pub(crate) slow: bool,
    /// Whether it changes nothing.
    reads: bool,
    /// The schema of its arguments.
    schema: &'static str,
    run: Run,
}

/// Every operation, sorted by its tool's name.
pub(crate) static TABLE: &[Operation] = &[
    Operation {
        tool: "core_audit_list",
        route: "/audit",
        description: "List audit events, newest first.",
        permission: Permission::Admin,
        slow: false,
        reads: true,
        schema: audit::LIST,
        run: |gateway, _, arguments| Box::pin(audit::list(gateway, arguments)),
    },
    Operation {
        tool: "core_audit_verify",
        route: "/audit/verify",
        description: "Verify that no audit event was changed or removed.",
        permission: Permission::Admin,
        slow: true,
        reads: true,
        schema: NO_ARGUMENTS,
        run: |gateway, _, _| Box::pin(audit::verify(gateway)),
    },
    Operation {
        tool: "core_mcpserver_approve",
        route: "/servers/approve",
        description: "Approve what of a server differs from what was approved before, so that profiles that hold it show it.",
        permission: Permission::Admin,
        slow: false,
        reads: false,
        schema: lifecycle::DECIDE,
        run: |gateway, asking, arguments| {
            Box::pin(lifecycle::decide(gateway, Judgement::Approve, asking.caller, arguments))
        },
    },
    Operation {
        tool: "core_mcpserver_changes",
        route: "/servers/changes",
        description: "Show what of a server differs from what was approved.",
        permission: Permission::Admin,
        slow: false,
        reads: true,
        schema: lifecycle::SERVER,
        run: |gateway, _, arguments| Box::pin(std::future::ready(lifecycle::changes(gateway, arguments))),
    },
    Operation {
        tool: "core_mcpserver_doctor",
        route: "/servers/doctor",
        description: "Tell how servers are, since when, what failed and what to do.",
        permission: Permission::Admin,
        slow: false,
        reads: true,
        schema: lifecycle::DOCTOR,
        run: |gateway, _, arguments| Box::pin(std::future::ready(lifecycle::doctor(gateway, arguments))),
    },
    Operation {
        tool: "core_mcpserver_list",
        route: "/servers",
        description: "List the servers with their state, tools and last error.",
        permission: Permission::Admin,
        slow: false,
        reads: true,
        schema: NO_ARGUMENTS,
        run: |gateway, _, _| Box::pin(std::future::ready(Ok(servers::list(gateway)))),
    },
    Operation {
        tool: "core_mcpserver_reject",
        route: "/servers/reject",
        description: "Turn down what of a server differs from what was approved; it stays held.",
        permission: Permission::Admin,
        slow: false,
        reads: false,
        schema: lifecycle::DECIDE,
        run: |gateway, asking, arguments| {
            Box::pin(lifecycle::decide(gateway, Judgement::Reject, asking.caller, arguments))
        },
    },
    Operation {
        tool: "core_mcpserver_verify",
        route: "/servers/verify",
        description: "Start a server beside what runs, list it, compare it with what was approved, and keep what it offers.",
        permission: Permission::Admin,
        slow: true,
        reads: false,
        schema: lifecycle::SERVER,
        run: |gateway, asking, arguments| Box::pin(lifecycle::verify(gateway, asking.caller, arguments)),
    },
    Operation {
        tool: "core_profile_list",
        route: "/profiles",
        description: "List the profiles with what they show.",
        permission: Permission::Admin,
        slow: false,
        reads: true,
        schema: NO_ARGUMENTS,
        run: |gateway, _, _| Box::pin(std::future::ready(Ok(profiles::list(gateway)))),
    },
    Operation {
        tool: "core_tool_explain",
        route: "/tools/explain",
        description: "Explain why a tool is there or not: from its definition to the profile, with the rule that hides it.",
        permission: Permission::Admin,
        slow: false,
        reads: true,
        schema: lifecycle::EXPLAIN,
        run: |gateway, asking, arguments| {
            Box::pin(std::future::ready(lifecycle::explain(gateway, asking.caller, arguments)))
        },
    },
    Operation {
        tool: "core_tool_list",
        route: "/tools",
        description: "List the tools of this profile with their ids, names and states.",
        permission: Permission::Open,
        slow: false,
        reads: true,
        schema: tools::LIST,
        run: |_, asking, arguments| Box::pin(std::future::ready(tools::list(asking.view, arguments))),
    },
];

const NO_ARGUMENTS: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

/// The operation of a tool's name.
pub(crate) fn by_tool(name: &str) -> Option<&'static Operation> {
    TABLE.iter().find(|operation| operation.tool == name)
}

/// The operation of a REST route. What changes something is not reached by GET, which is all there is so far.
pub fn by_route(route: &str) -> Option<&'static Operation> {
    TABLE.iter().find(|operation| operation.route == route && operation.reads)
}

impl Operation {
    /// The schema of its arguments.
    pub fn schema(&self) -> Value {
        serde_json::from_str(self.schema).unwrap_or_else(|_| json!({ "type": "object" }))
    }

    /// Its entry in `tools/list`.
    pub(crate) fn entry(&self) -> Raw {
        Raw::from_value(&json!({
            "name": self.tool, "description": self.description, "inputSchema": self.schema(),
            "annotations": { "readOnlyHint": self.reads },
        }))
    }

    /// What is asked when it is called.
    pub(crate) fn act(&self) -> Act {
        Act::Operation {
            name: self.tool.trim_start_matches("core_").into(),
            needs_admin: self.permission == Permission::Admin,
            annotations: Annotations { read_only: Some(self.reads), ..Annotations::default() },
        }
    }

    /// Does it, once its arguments are known to be right.
    pub(crate) async fn run(
        &self,
        gateway: &Arc<Gateway>,
        asking: Asking<'_>,
        arguments: &Raw,
    ) -> Result<Value, Problem> {
        self.check(arguments)?;
        (self.run)(gateway, asking, arguments).await
    }

    /// Unknown and mistyped arguments are named.
    fn check(&self, arguments: &Raw) -> Result<(), Problem> {
        let id = toolcrib_base::ToolId::new(core_name(), self.tool);
        let check = crate::schema::ArgumentCheck::compile(&id, Some(&Raw::from_value(&self.schema())));
        match check.faults(arguments) {
            None => Ok(()),
            Some(faults) => Err(Problem::new(
                toolcrib_base::Kind::InvalidParams,
                format!("the arguments do not fit `{}`:\n{faults}", self.tool),
            )),
        }
    }
}

/// The name under which the gateway's own operations stand in records.
fn core_name() -> toolcrib_base::ServerName {
    toolcrib_base::ServerName::new("core").expect("`core` is a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_schemas_hold() {
        assert!(TABLE.is_sorted_by_key(|operation| operation.tool));
        for operation in TABLE {
            assert!(operation.tool.starts_with("core_") && operation.route.starts_with('/'));
            assert_eq!(operation.schema()["additionalProperties"], false, "{}", operation.tool);
            let needs_something = operation.schema().get("required").is_some();
            assert_eq!(operation.check(&Raw::empty_object()).is_err(), needs_something, "{}", operation.tool);
            let odd = Raw::from_value(&json!({ "no_such": 1 }));
            let problem = operation.check(&odd).unwrap_err();
            assert!(problem.message.contains("no_such"), "{}", problem.message);
        }
    }
}
