//! The rows of operations on agents, models and connectors, with their schemas. What lies within a definition is left to its reader,
//! which names what is wrong with its place.

use toolcrib_base::Kind;
use toolcrib_view::{Effect, Method, Operation, Permission};

const AGENT: Operation = Operation { tag: "agents", ..Operation::OF_SOURCE };
const MODEL: Operation = Operation { tag: "models", ..Operation::OF_SOURCE };

/// Who they are about.
const AGENT_NAMED: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the agent"}},"required":["name"],"additionalProperties":false}"#;
const MODEL_NAMED: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the model"}},"required":["name"],"additionalProperties":false}"#;

/// What was done.
const SAID: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"message":{"type":"string"},"warnings":{"type":"array","items":{"type":"string"},"description":"Problems that do not make the definition invalid"},"file":{"type":"string"},"revision":{"type":"string"}},"required":["name","message"]}"#;

macro_rules! agent {
    ($more:literal) => {
        concat!(
            r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the agent; its tool is agent_<name>"},"description":{"type":"string","description":"What it does; the description of its tool"},"instructions":{"type":"string","description":"What the model is told before the task"},"models":{"type":"array","items":{"type":"string"},"description":"The models that it asks: the first one, and the others when it fails"},"model":{"type":"string","description":"The only model that it asks"},"profile":{"type":"string","description":"Whose tools it may have; without it those of the caller's profile"},"tools":{"type":"array","items":{"type":"string"},"description":"Patterns over server/tool. Without it all tools of the profile; an empty list allows nothing"},"tools_shown":{"type":"string","enum":["menu","all","native","auto"],"description":"How the tools are shown to the model"},"input":{"type":"object","description":"What it takes, as a JSON Schema of an object; without it a task in words"},"output":{"type":"object","description":"What it answers, as a JSON Schema; without it a text"},"limits":{"type":"object","description":"How far a run may go: {rounds, calls_per_turn, calls, tokens, money (dollars), time, call_time, result_size, per_day: {runs, tokens, money}}"},"runs_as":{"type":"string","enum":["caller","agent"],"description":"On whose behalf it calls tools"},"on_denied":{"type":"string","enum":["tell","end"],"description":"What happens when a call is denied"},"on_unknown":{"type":"string","enum":["tell","ask","end"],"description":"What happens when it is not known whether a call happened"},"sentinel":{"type":"object","description":"What is looked for in tasks and messages: {builtin, rules: [{name, pattern or words, action}], classifier: {model, block, quarantine, timeout}, on_failure}"},"config":{"type":["object","null"],"description":"Valinor's configuration of the agent"},"tool_allowlist":{"type":["array","null"],"items":{"type":"string"},"description":"Names of the tools that it may call. An empty list allows nothing"},"tool_policies":{"type":["object","null"],"description":"By the names of tools: {allowed_params, denied_params, max_results}"},"canary_tokens":{"type":["array","null"],"items":{"type":"string"},"description":"Texts that must not appear in a run"},"connectors":{"type":["array","null"],"items":{"type":["string","object"]},"description":"The connectors whose tools it may call, and no others: names, or {id, name, type, endpoint, auth, tools, governed_tools}. An empty list allows nothing"}"#,
            $more,
            r#"},"required":["name"],"additionalProperties":false}"#
        )
    };
}

macro_rules! model {
    ($more:literal) => {
        concat!(
            r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the model"},"description":{"type":"string","description":"What it is good for"},"wire":{"type":"string","enum":["chat","responses","messages","script"],"description":"How it is asked: OpenAI chat completions (local engines too), OpenAI Responses, Anthropic Messages, or answers in the file"},"url":{"type":"string","description":"The base of its API, such as http://127.0.0.1:11434/v1; without secrets"},"model":{"type":"string","description":"What the provider calls it; without it the name"},"key":{"type":"string","description":"Where its key is: vault:NAME, env:NAME, file:PATH or keyring:NAME; never the key itself"},"headers":{"type":"object","additionalProperties":{"type":"string"},"description":"Headers of every request beside the key's: texts, or references"},"window":{"type":"integer","description":"Tokens that a request and its answer may have together"},"max_output":{"type":"integer","description":"Tokens that an answer may have"},"prices":{"type":"object","description":"Dollars for a million tokens: {input, cached, cache_write, cache_write_hour, output}"},"parallel":{"type":"integer","description":"Requests that may run at a time"},"timeout":{"type":"string","description":"How long one answer may take, such as 10m"},"differs":{"type":"object","description":"In what the engine differs: {max_completion_tokens, strict, stream_usage, encrypted_reasoning}"},"script":{"type":"object","description":"With wire: script, what it answers: {turns, rules, demo}"}"#,
            $more,
            r#"},"required":["name","wire"],"additionalProperties":false}"#
        )
    };
}

const AGENT_GIVEN: &str = agent!("");
const AGENT_UPDATE: &str =
    agent!(r#","revision":{"type":"string","description":"Only if the file still has this revision"}"#);
const MODEL_GIVEN: &str = model!("");
const MODEL_UPDATE: &str =
    model!(r#","revision":{"type":"string","description":"Only if the file still has this revision"}"#);

const AGENT_LIST: &str = r#"{"type":"object","properties":{"agents":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"available":{"type":"boolean"},"description":{"type":"string"},"models":{"type":"array","items":{"type":"string"}},"tools":{"type":"array","items":{"type":"string"}},"tools_shown":{"type":"string"},"runs_as":{"type":"string"},"profile":{"type":"string"},"warnings":{"type":"array","items":{"type":"string"}}},"required":["name","available","models"]}},"total":{"type":"integer"}},"required":["agents","total"]}"#;
const MODEL_LIST: &str = r#"{"type":"object","properties":{"models":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"wire":{"type":"string"},"model":{"type":"string"},"url":{"type":"string"},"key":{"type":"string","description":"Where its key is"},"window":{"type":"integer"},"max_output":{"type":"integer"},"parallel":{"type":"integer"},"prices":{"type":"object","additionalProperties":{"type":"string"}},"agents":{"type":"array","items":{"type":"string"}},"description":{"type":"string"},"builtIn":{"type":"boolean"}},"required":["name","wire","model"]}},"total":{"type":"integer"}},"required":["models","total"]}"#;
const AGENT_SHOWN: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"available":{"type":"boolean"},"agent":{"type":"object"},"yaml":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"}},"required":["name","agent","yaml"]}"#;
const MODEL_SHOWN: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"model":{"type":"object"},"yaml":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"},"builtIn":{"type":"boolean"}},"required":["name","model","yaml"]}"#;

pub(in crate::agent::operation) const ROWS: [Operation; 13] = [
    Operation {
        tool: "core_agent_create",
        method: Method::Post,
        path: "/agents",
        summary: "Create an agent",
        description: "Write a new agent, agents/<name>.yaml: its models, instructions, tools, limits and schemas, or a \
                      configure document of Valinor. It is available immediately as the tool agent_<name>.",
        effect: Effect::Changes { idempotent: false },
        creates: true,
        is_secret: true,
        problems: &[Kind::Conflict, Kind::Definition],
        input: AGENT_GIVEN,
        output: SAID,
        ..AGENT
    },
    Operation {
        tool: "core_agent_delete",
        method: Method::Delete,
        path: "/agents/{name}",
        summary: "Delete an agent",
        description: "Delete the file of an agent. Its runs remain listed.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: AGENT_NAMED,
        output: SAID,
        ..AGENT
    },
    Operation {
        tool: "core_agent_get",
        path: "/agents/{name}",
        summary: "Show an agent",
        description: "Show the definition of an agent, as JSON and as the text of its file. Canary tokens are masked.",
        permission: Permission::Open,
        problems: &[Kind::NotFound],
        input: AGENT_NAMED,
        output: AGENT_SHOWN,
        ..AGENT
    },
    Operation {
        tool: "core_agent_list",
        path: "/agents",
        summary: "List the agents",
        description: "List the agents with their models and tools, and whether each is available in this profile.",
        permission: Permission::Open,
        output: AGENT_LIST,
        ..AGENT
    },
    Operation {
        tool: "core_agent_update",
        method: Method::Put,
        path: "/agents/{name}",
        summary: "Replace an agent",
        description: "Replace the whole definition of an agent. With `revision`, only if the file still has that \
                      revision.",
        effect: Effect::Destroys { idempotent: true },
        is_secret: true,
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
        input: AGENT_UPDATE,
        output: SAID,
        ..AGENT
    },
    Operation {
        tool: "core_agent_validate",
        method: Method::Post,
        path: "/validate/agent",
        summary: "Check an agent",
        description: "Validate the definition of an agent without writing it.",
        is_secret: true,
        problems: &[Kind::Definition],
        input: AGENT_GIVEN,
        output: SAID,
        ..AGENT
    },
    Operation {
        tool: "core_model_create",
        method: Method::Post,
        path: "/models",
        summary: "Create a model",
        description: "Write a new model, models/<name>.yaml: how and where it is asked, a reference to its key, its \
                      window and prices. Agents can ask it immediately.",
        effect: Effect::Changes { idempotent: false },
        creates: true,
        is_secret: true,
        problems: &[Kind::Conflict, Kind::Definition],
        input: MODEL_GIVEN,
        output: SAID,
        ..MODEL
    },
    Operation {
        tool: "core_model_delete",
        method: Method::Delete,
        path: "/models/{name}",
        summary: "Delete a model",
        description: "Delete the file of a model. The answer names the agents that asked it.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: MODEL_NAMED,
        output: SAID,
        ..MODEL
    },
    Operation {
        tool: "core_model_get",
        path: "/models/{name}",
        summary: "Show a model",
        description: "Show the definition of a model, as JSON and as YAML. Its key is shown as a reference, plain \
                      values of headers are masked.",
        problems: &[Kind::NotFound],
        input: MODEL_NAMED,
        output: MODEL_SHOWN,
        ..MODEL
    },
    Operation {
        tool: "core_model_list",
        path: "/models",
        summary: "List the models",
        description: "List the models that agents can ask, with their wires, windows and prices, and the agents that \
                      ask them.",
        output: MODEL_LIST,
        ..MODEL
    },
    Operation {
        tool: "core_model_test",
        method: Method::Post,
        path: "/models/{name}/test",
        summary: "Test a model",
        description: "Ask a model a few small questions and say what works: answers, stream, tools, a forced tool, output \
                      by a schema, cache, usage, and the window that its server has really loaded. It costs what some \
                      ten short answers cost.",
        effect: Effect::Changes { idempotent: true },
        slow: true,
        problems: &[Kind::NotFound],
        input: MODEL_NAMED,
        output: r#"{"type":"object","properties":{"name":{"type":"string"},"model":{"type":"string"},"wire":{"type":"string"},"works":{"type":"boolean","description":"Whether nothing failed"},"checks":{"type":"array","items":{"type":"object","properties":{"check":{"type":"string"},"works":{"type":["boolean","null"],"description":"null where it cannot be said"},"detail":{"type":"string"}},"required":["check","works","detail"]}},"tokens":{"type":"integer"},"money":{"type":"string"}},"required":["name","works","checks"]}"#,
        ..MODEL
    },
    Operation {
        tool: "core_model_update",
        method: Method::Put,
        path: "/models/{name}",
        summary: "Replace a model",
        description: "Replace the whole definition of a model. With `revision`, only if the file still has that \
                      revision.",
        effect: Effect::Destroys { idempotent: true },
        is_secret: true,
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
        input: MODEL_UPDATE,
        output: SAID,
        ..MODEL
    },
    Operation {
        tool: "core_model_validate",
        method: Method::Post,
        path: "/validate/model",
        summary: "Check a model",
        description: "Validate the definition of a model without writing it.",
        is_secret: true,
        problems: &[Kind::Definition],
        input: MODEL_GIVEN,
        output: SAID,
        ..MODEL
    },
];

const CONNECTOR: Operation = Operation { tag: "connectors", ..Operation::OF_SOURCE };

/// Which one they are about.
const CONNECTOR_NAMED: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the connector"}},"required":["name"],"additionalProperties":false}"#;
const CONNECTOR_ROTATE: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the connector"},"value":{"type":"string","description":"The new secret, which is stored in the vault and never shown"}},"required":["name","value"],"additionalProperties":false}"#;

macro_rules! connector {
    ($more:literal) => {
        concat!(
            r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the connector and of its server: a-z, 0-9 and -"},"description":{"type":"string","description":"What it is for"},"type":{"type":"string","enum":["mcp"],"description":"What it speaks"},"connector_type":{"type":"string","enum":["mcp"],"description":"The same in the words of Valinor"},"endpoint":{"type":"string","description":"Its address, without secrets"},"auth":{"type":["object","null"],"description":"Its credential: {type: none}, {type: api_key, api_key, header}, {type: bearer, token}, {type: basic, username, password}, {type: header, header, value} or {type: oauth2, client_id, client_secret, token_url, scope}. Every secret is vault:NAME, never the secret itself"},"auth_config":{"type":["object","null"],"description":"The same in the words of Valinor"},"tools":{"type":["array","null"],"items":{"type":["string","object"]},"description":"The tools that it has; others do not exist. Names, or {name, action_type: read or write, risk_class, target_type, target_label_template, approval_summary_template}"},"resources":{"type":["array","null"],"items":{"type":"string"},"description":"The addresses of the resources that it has"},"status":{"type":"string","enum":["active","inactive"],"description":"Whether it can be called"}"#,
            $more,
            r#"},"required":["name","endpoint"],"additionalProperties":false}"#
        )
    };
}

const CONNECTOR_GIVEN: &str = connector!("");
const CONNECTOR_UPDATE: &str =
    connector!(r#","revision":{"type":"string","description":"Only if the file still has this revision"}"#);

const CONNECTOR_LIST: &str = r#"{"type":"object","properties":{"connectors":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"endpoint":{"type":"string"},"auth":{"type":"string"},"secret":{"type":"string","description":"Where its secret is"},"status":{"type":"string"},"tools":{"type":"array","items":{"type":"string"}},"agents":{"type":"array","items":{"type":"string"}},"description":{"type":"string"}},"required":["name","endpoint","auth","status","tools"]}},"total":{"type":"integer"}},"required":["connectors","total"]}"#;
const CONNECTOR_SHOWN: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"connector":{"type":"object"},"yaml":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"}},"required":["name","connector","yaml"]}"#;
const CONNECTOR_ROTATED: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"reference":{"type":"string"},"replaced":{"type":"boolean"},"message":{"type":"string"},"shared":{"type":"array","items":{"type":"string"},"description":"Other connectors with this secret"}},"required":["name","reference","replaced","message"]}"#;
const CONNECTOR_TESTED: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"works":{"type":"boolean","description":"Whether nothing failed"},"checks":{"type":"array","items":{"type":"object","properties":{"check":{"type":"string"},"works":{"type":["boolean","null"],"description":"null where it cannot be said"},"detail":{"type":"string"}},"required":["check","works","detail"]}},"tools":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"offered":{"type":"boolean"},"action_type":{"type":"string"},"risk_class":{"type":"string"},"decision":{"type":"string"}},"required":["name","offered"]}},"unlisted":{"type":"array","items":{"type":"string"},"description":"Tools of its server that the definition does not list, at most 50"}},"required":["name","works","checks","tools","unlisted"]}"#;

pub(in crate::agent::operation) const CONNECTOR_ROWS: [Operation; 8] = [
    Operation {
        tool: "core_connector_create",
        method: Method::Post,
        path: "/connectors",
        summary: "Create a connector",
        description: "Write a new connector, connectors/<name>.yaml: an MCP server with a reference to its credential, \
                      and what is decided of its tools. It is called as the server of its name.",
        effect: Effect::Changes { idempotent: false },
        creates: true,
        is_secret: true,
        problems: &[Kind::Conflict, Kind::Definition],
        input: CONNECTOR_GIVEN,
        output: SAID,
        ..CONNECTOR
    },
    Operation {
        tool: "core_connector_delete",
        method: Method::Delete,
        path: "/connectors/{name}",
        summary: "Delete a connector",
        description: "Delete the file of a connector; its secret stays in the vault. The answer names the agents that \
                      had its tools.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: CONNECTOR_NAMED,
        output: SAID,
        ..CONNECTOR
    },
    Operation {
        tool: "core_connector_get",
        path: "/connectors/{name}",
        summary: "Show a connector",
        description: "Show the definition of a connector, as JSON and as YAML. Its secrets are references.",
        problems: &[Kind::NotFound],
        input: CONNECTOR_NAMED,
        output: CONNECTOR_SHOWN,
        ..CONNECTOR
    },
    Operation {
        tool: "core_connector_list",
        path: "/connectors",
        summary: "List the connectors",
        description: "List the connectors with their addresses, kinds of credentials and tools, and the agents that \
                      have them.",
        output: CONNECTOR_LIST,
        ..CONNECTOR
    },
    Operation {
        tool: "core_connector_rotate",
        method: Method::Post,
        path: "/connectors/{name}/rotate",
        summary: "Rotate the secret of a connector",
        description: "Replace the secret of a connector in the vault, or set it first. Those that have it are \
                      restarted. The value is never shown, logged or recorded.",
        effect: Effect::Destroys { idempotent: true },
        is_secret: true,
        problems: &[Kind::NotFound, Kind::Conflict, Kind::InvalidParams, Kind::Forbidden, Kind::TooLarge],
        input: CONNECTOR_ROTATE,
        output: CONNECTOR_ROTATED,
        ..CONNECTOR
    },
    Operation {
        tool: "core_connector_test",
        method: Method::Post,
        path: "/connectors/{name}/test",
        summary: "Test a connector",
        description: "Connect to the server of a connector and compare its tools with the definition: whether the \
                      secret is set, the server answers, and each tool is there. Nothing is called.",
        effect: Effect::Changes { idempotent: true },
        slow: true,
        problems: &[Kind::NotFound, Kind::Conflict],
        input: CONNECTOR_NAMED,
        output: CONNECTOR_TESTED,
        ..CONNECTOR
    },
    Operation {
        tool: "core_connector_update",
        method: Method::Put,
        path: "/connectors/{name}",
        summary: "Replace a connector",
        description: "Replace the whole definition of a connector. With `revision`, only if the file still has that \
                      revision.",
        effect: Effect::Destroys { idempotent: true },
        is_secret: true,
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
        input: CONNECTOR_UPDATE,
        output: SAID,
        ..CONNECTOR
    },
    Operation {
        tool: "core_connector_validate",
        method: Method::Post,
        path: "/validate/connector",
        summary: "Check a connector",
        description: "Validate the definition of a connector without writing it.",
        is_secret: true,
        problems: &[Kind::Definition],
        input: CONNECTOR_GIVEN,
        output: SAID,
        ..CONNECTOR
    },
];
