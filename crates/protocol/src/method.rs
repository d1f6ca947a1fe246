//! The names of the methods, in one place.

macro_rules! methods {
    ($($name:ident = $text:literal),* $(,)?) => { $(#[doc = concat!("`", $text, "`")] pub const $name: &str = $text;)* };
}

methods! {
    INITIALIZE = "initialize",
    INITIALIZED = "notifications/initialized",
    PING = "ping",
    DISCOVER = "server/discover",
    TOOLS_LIST = "tools/list",
    TOOLS_CALL = "tools/call",
    RESOURCES_LIST = "resources/list",
    RESOURCE_TEMPLATES_LIST = "resources/templates/list",
    RESOURCES_READ = "resources/read",
    RESOURCES_SUBSCRIBE = "resources/subscribe",
    RESOURCES_UNSUBSCRIBE = "resources/unsubscribe",
    PROMPTS_LIST = "prompts/list",
    PROMPTS_GET = "prompts/get",
    COMPLETE = "completion/complete",
    SET_LEVEL = "logging/setLevel",
    LISTEN = "subscriptions/listen",
    CANCELLED = "notifications/cancelled",
    PROGRESS = "notifications/progress",
    MESSAGE = "notifications/message",
    TOOLS_CHANGED = "notifications/tools/list_changed",
    RESOURCES_CHANGED = "notifications/resources/list_changed",
    PROMPTS_CHANGED = "notifications/prompts/list_changed",
    RESOURCE_UPDATED = "notifications/resources/updated",
    SUBSCRIPTION_ACKNOWLEDGED = "notifications/subscriptions/acknowledged",
    ELICITATION_CREATE = "elicitation/create",
    SAMPLING_CREATE = "sampling/createMessage",
    ROOTS_LIST = "roots/list",
    ROOTS_CHANGED = "notifications/roots/list_changed",
    TASKS_GET = "tasks/get",
    TASKS_UPDATE = "tasks/update",
    TASKS_CANCEL = "tasks/cancel",
    TASK_CHANGED = "notifications/tasks",
}

/// The methods whose complete results must say how long and for whom they may be cached (2026-07-28).
pub fn is_cacheable(method: &str) -> bool {
    matches!(method, DISCOVER | TOOLS_LIST | RESOURCES_LIST | RESOURCE_TEMPLATES_LIST | PROMPTS_LIST | RESOURCES_READ)
}

/// The parameter that the `Mcp-Name` header mirrors, for the methods that have one (2026-07-28, and the tasks
/// extension).
pub fn named_by(method: &str) -> Option<&'static str> {
    match method {
        TOOLS_CALL | PROMPTS_GET => Some("name"),
        RESOURCES_READ => Some("uri"),
        TASKS_GET | TASKS_UPDATE | TASKS_CANCEL => Some("taskId"),
        _ => None,
    }
}
