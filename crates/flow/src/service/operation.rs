//! What people ask for: operations on services, on servers and the gateway as services, and on service classes.
//!
//! To add one: a row in [`ROWS`], and its arm in [`run`] with a function in `operation/instance.rs` or
//! `operation/kind.rs`.

mod call;
mod instance;
mod kind;
mod schema;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::Invocation;
use toolcrib_gateway::Gateway;
use toolcrib_view::{Effect, Method, Operation, Permission};

use super::table::Table;
use call::OperationCall;
use schema::{CHECKED, CREATE, CREATE_CLASS, NAMED, SAID, UPDATE_CLASS, VALIDATE};

pub(super) fn rows() -> &'static [Operation] {
    ROWS
}

/// Does one of them.
pub(super) fn run(
    table: Arc<Table>,
    gateway: Arc<Gateway>,
    operation: &'static Operation,
    invocation: Invocation,
) -> BoxFuture<'static, Result<Value, Problem>> {
    let asking = OperationCall::new(Arc::clone(&table), gateway, invocation);
    Box::pin(async move {
        match operation.tool {
            "core_service_create" => table.to_its_end(async move { instance::create(&asking).await }).await,
            "core_service_delete" => table.to_its_end(async move { instance::delete(&asking).await }).await,
            "core_service_get" => instance::get(&asking),
            "core_service_list" => Ok(instance::list(&asking)),
            "core_service_restart" => instance::restart(&asking).await,
            "core_service_start" => instance::start(&asking).await,
            "core_service_status" => instance::status(&asking).await,
            "core_service_stop" => instance::stop(&asking).await,
            "core_service_validate" => instance::validate(&asking),
            "core_serviceclass_available" => kind::available(&asking),
            "core_serviceclass_create" => kind::create(&asking).await,
            "core_serviceclass_delete" => kind::delete(&asking).await,
            "core_serviceclass_get" => kind::get(&asking).await,
            "core_serviceclass_list" => Ok(kind::list(&asking)),
            "core_serviceclass_update" => kind::update(&asking).await,
            "core_serviceclass_validate" => kind::validate(&asking),
            other => Err(Problem::new(Kind::Internal, format!("unknown service operation `{other}`"))),
        }
    })
}

/// What a tool of a lifecycle may end in.
const LIVING: &[Kind] = &[
    Kind::NotFound,
    Kind::Conflict,
    Kind::Unavailable,
    Kind::Timeout,
    Kind::BadServer,
    Kind::UnknownTool,
    Kind::Busy,
    Kind::Definition,
];

const SERVICE: Operation = Operation { tag: "services", slow: true, problems: LIVING, ..Operation::OF_SOURCE };
const CLASS: Operation = Operation { tag: "service classes", ..Operation::OF_SOURCE };

const ROWS: &[Operation] = &[
    Operation {
        tool: "core_service_create",
        method: Method::Post,
        path: "/services",
        summary: "Create a service",
        description: "Create a service from a service class: check its arguments, start its dependencies, and call \
                      the start tool of its class. With `persist` it is saved as services/<name>.yaml and survives a \
                      restart of the gateway; with `autoStart` it is then also started.",
        effect: Effect::Changes { idempotent: false },
        creates: true,
        input: CREATE,
        output: r#"{"type":"object","properties":{"name":{"type":"string"},"serviceClassName":{"type":"string"},"state":{"type":"string"},"health":{"type":"string"},"outputs":{"type":"object"}},"required":["name","serviceClassName","state","health","outputs"]}"#,
        ..SERVICE
    },
    Operation {
        tool: "core_service_delete",
        method: Method::Delete,
        path: "/services/{name}",
        summary: "Delete a service",
        description: "Stop a service and delete it with its file. It is deleted even if its stop tool fails; the \
                      result then says what failed. Does not delete servers.",
        effect: Effect::Destroys { idempotent: true },
        input: NAMED,
        output: SAID,
        ..SERVICE
    },
    Operation {
        tool: "core_service_get",
        path: "/services/{name}",
        summary: "Show a service",
        description: "Show one service: its class, arguments, state, health, outputs and last error. Servers and the \
                      gateway itself are services too. Non-admins see only the class, state and health of services in \
                      the profile.",
        permission: Permission::Open,
        input: NAMED,
        output: r#"{"type":"object","properties":{"name":{"type":"string"},"serviceClassName":{"type":"string"},"state":{"type":"string"},"health":{"type":"string"}},"required":["name","state","health"]}"#,
        slow: false,
        problems: &[Kind::NotFound],
        ..SERVICE
    },
    Operation {
        tool: "core_service_list",
        path: "/services",
        summary: "List the services",
        description: "List the services with their state and health: the gateway itself, the servers, and the \
                      instances of service classes. Non-admins see only those in the profile.",
        permission: Permission::Open,
        output: r#"{"type":"object","properties":{"services":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"service_type":{"type":"string"},"state":{"type":"string"},"health":{"type":"string"}},"required":["name","service_type","state","health"]}},"total":{"type":"integer"}},"required":["services","total"]}"#,
        slow: false,
        problems: &[],
        ..SERVICE
    },
    Operation {
        tool: "core_service_restart",
        method: Method::Post,
        path: "/services/{name}/restart",
        summary: "Restart a service",
        description: "Restart a service with the restart tool of its class, or stop and start it. A server is \
                      reconnected.",
        effect: Effect::Destroys { idempotent: false },
        input: NAMED,
        output: SAID,
        ..SERVICE
    },
    Operation {
        tool: "core_service_start",
        method: Method::Post,
        path: "/services/{name}/start",
        summary: "Start a service",
        description: "Start a service after its dependencies. A running service is left unchanged.",
        effect: Effect::Changes { idempotent: true },
        input: NAMED,
        output: SAID,
        ..SERVICE
    },
    Operation {
        tool: "core_service_status",
        path: "/services/{name}/status",
        summary: "Service status",
        description: "Show the state and health of a service. For admins, calls the status tool of its class if there \
                      is one.",
        permission: Permission::Open,
        input: NAMED,
        output: r#"{"type":"object","properties":{"name":{"type":"string"},"service_type":{"type":"string"},"state":{"type":"string"},"health":{"type":"string"},"error":{"type":"string"}},"required":["name","service_type","state","health"]}"#,
        slow: false,
        ..SERVICE
    },
    Operation {
        tool: "core_service_stop",
        method: Method::Post,
        path: "/services/{name}/stop",
        summary: "Stop a service",
        description: "Stop a service. Fails if running services depend on it, and names them.",
        effect: Effect::Destroys { idempotent: true },
        input: NAMED,
        output: SAID,
        ..SERVICE
    },
    Operation {
        tool: "core_service_validate",
        method: Method::Post,
        path: "/validate/service",
        summary: "Check a service",
        description: "Check whether a service can be created from a class with these arguments, without creating it.",
        input: VALIDATE,
        output: SAID,
        slow: false,
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Definition],
        ..SERVICE
    },
    Operation {
        tool: "core_serviceclass_available",
        path: "/service-classes/{name}/available",
        summary: "Check a service class is available",
        description: "Check whether all tools and dependencies of a service class are available to you.",
        permission: Permission::Open,
        input: NAMED,
        output: r#"{"type":"object","properties":{"name":{"type":"string"},"available":{"type":"boolean"},"missingTools":{"type":"array"}},"required":["name","available"]}"#,
        ..CLASS
    },
    Operation {
        tool: "core_serviceclass_create",
        method: Method::Post,
        path: "/service-classes",
        summary: "Create a service class",
        description: "Write the definition of a new service class, service-classes/<name>.yaml, and load it.",
        effect: Effect::Changes { idempotent: false },
        creates: true,
        problems: &[Kind::Conflict, Kind::Definition],
        input: CREATE_CLASS,
        output: SAID,
        ..CLASS
    },
    Operation {
        tool: "core_serviceclass_delete",
        method: Method::Delete,
        path: "/service-classes/{name}",
        summary: "Delete a service class",
        description: "Delete the file of a service class. Its services remain, but cannot be started or stopped until \
                      a class of that name exists again.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: NAMED,
        output: SAID,
        ..CLASS
    },
    Operation {
        tool: "core_serviceclass_get",
        path: "/service-classes/{name}",
        summary: "Show a service class",
        description: "Show a service class and which of its tools are available. Non-admins see only the tools of \
                      classes in the profile.",
        permission: Permission::Open,
        problems: &[Kind::NotFound, Kind::Definition],
        input: NAMED,
        output: r#"{"type":"object","properties":{"name":{"type":"string"},"serviceConfig":{"type":"object"},"available":{"type":"boolean"},"yaml":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"}},"required":["name","available"]}"#,
        ..CLASS
    },
    Operation {
        tool: "core_serviceclass_list",
        path: "/service-classes",
        summary: "List the service classes",
        description: "List the service classes and which of their tools are available. Non-admins see only those in \
                      the profile.",
        permission: Permission::Open,
        output: r#"{"type":"object","properties":{"serviceClasses":{"type":"array"},"total":{"type":"integer"},"mode":{"type":"string"}},"required":["serviceClasses","total","mode"]}"#,
        ..CLASS
    },
    Operation {
        tool: "core_serviceclass_update",
        method: Method::Put,
        path: "/service-classes/{name}",
        summary: "Change a service class",
        description: "Replace the description, the arguments or the configuration of a service class; omitted fields \
                      are kept. Comments in the file stay where what they stand by does; with `yaml` the text is \
                      yours.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
        input: UPDATE_CLASS,
        output: SAID,
        ..CLASS
    },
    Operation {
        tool: "core_serviceclass_validate",
        method: Method::Post,
        path: "/validate/service-class",
        summary: "Check a service class",
        description: "Validate the definition of a service class without writing it. What is wrong is an error; with \
                      `yaml` it is the answer, with its lines.",
        problems: &[Kind::Conflict, Kind::Definition],
        input: CREATE_CLASS,
        output: CHECKED,
        ..CLASS
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_are_right() {
        for operation in ROWS {
            for schema in [operation.input, operation.output] {
                let schema: Value = serde_json::from_str(schema).unwrap();
                let Some(known) = schema["properties"].as_object() else { panic!("{}: {schema}", operation.tool) };
                let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
                assert!(required.iter().all(|name| known.contains_key(name.as_str().unwrap())), "{}", operation.tool);
            }
        }
        let create: Value = serde_json::from_str(CREATE_CLASS).unwrap();
        let tools = &create["properties"]["serviceConfig"]["properties"]["lifecycleTools"]["properties"];
        assert!(tools["healthCheck"]["properties"]["expect_not"].is_object(), "{tools}");
        assert!(tools["restart"]["properties"]["outputs"].is_object(), "{tools}");
    }
}
