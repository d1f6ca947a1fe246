//! The form of scenario files as tables of keys: what is read, what is refused, what muster's runner ignores, and the
//! JSON schema all come from here. To add a key, give it a row here and read it in `scenario/`.

mod check;
mod identity;
mod schema;

pub(crate) use check::{check, check_at};
pub(crate) use schema::{map as map_schema, schema as form_schema};

use crate::drive::Speaker;

/// The keys of one kind of map.
#[derive(Debug)]
pub(crate) struct Table {
    /// In the JSON schema; no two tables have the same.
    pub(crate) name: &'static str,
    pub(crate) keys: &'static [Key],
    /// Whether further keys are passed on: the gateway reads the definition, and tells what is wrong with it.
    pub(crate) open: bool,
}

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) required: bool,
    /// For people; empty for keys that are told elsewhere.
    pub(crate) about: &'static str,
}

/// What stands behind a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Text,
    Flag,
    /// A number from the first to the second.
    Number(f64, f64),
    /// The same without a fraction.
    Whole(u32, u32),
    Time,
    /// A list of texts, or one text.
    Texts,
    Words(&'static [&'static str]),
    Any,
    Map,
    /// A map whose values are texts.
    TextMap,
    List,
    Object(&'static Table),
    Objects(&'static Table),
    /// A map of these keys, or texts.
    ObjectOrTexts(&'static Table),
    /// Read by no one: muster's runner passes it over, and so do we.
    Ignored,
}

/// What kind of client calls: a word of ours, which other runners do not know.
const CLIENT: Shape = Shape::Words(&Speaker::WORDS);

pub(crate) const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, required: false, about }
}

pub(crate) const fn needed(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, required: true, about }
}

/// A scenario in muster's form.
pub(crate) static SCENARIO: Table = Table {
    name: "scenario",
    open: false,
    keys: &[
        needed("name", Shape::Text, "names the scenario in reports"),
        key("category", Shape::Text, "for `--category`: `behavioral`, `integration`"),
        key("concept", Shape::Text, "for `--concept`: `workflow`, `mcpserver`, `service` …"),
        key("description", Shape::Text, "for people"),
        key("tags", Shape::Texts, "for `--tag`"),
        key("timeout", Shape::Time, "how long all steps may take"),
        key("client", CLIENT, "what kind of client calls; `legacy` without it"),
        key("skip", Shape::Text, "`true` or a reason: the scenario is reported as skipped"),
        key(
            "prerequisites",
            Shape::ObjectOrTexts(&PREREQUISITES),
            "texts for people, or `{env: [names], programs: [names]}`: skipped where one is missing",
        ),
        key("pre_configuration", Shape::Object(&SETUP), "what is there before the gateway starts"),
        needed("steps", Shape::Objects(&STEP), "calls in order"),
        key("cleanup", Shape::Objects(&STEP), "calls after the steps, whatever became of them"),
    ],
};

static PREREQUISITES: Table = Table {
    name: "prerequisites",
    open: false,
    keys: &[
        key("env", Shape::Texts, "variables; skipped where one is missing"),
        key("programs", Shape::Texts, "programs; skipped where one is missing"),
    ],
};

/// One step.
pub(crate) static STEP: Table = Table {
    name: "step",
    open: false,
    keys: &[
        key("id", Shape::Text, "names the step; `{{ id.field }}` in later `args` is its result"),
        key("description", Shape::Text, "for people"),
        needed("tool", Shape::Text, "the tool by its plain name"),
        key("args", Shape::Map, "its arguments"),
        key("timeout", Shape::Time, "how long one call may take"),
        key("as_user", Shape::Text, "which user calls, made by `test_create_user`; the current one without it"),
        key("profile", Shape::Text, "through which profile to call; `default` without it"),
        key("client", CLIENT, "what kind of client calls; the scenario's without it"),
        key("retry", Shape::Object(&RETRY), "how often to try again"),
        key("expected", Shape::Object(&EXPECTED), "what must be true of the answer"),
        key("continue_on_failure", Shape::Flag, "goes on with the next step after a failure"),
        key("cleanup", Shape::Objects(&CLEANUP), "calls after all steps, in reverse order; failures are warnings"),
    ],
};

/// A step of a step's `cleanup`.
pub(crate) static CLEANUP: Table = Table {
    name: "cleanup",
    open: false,
    keys: &[
        key("id", Shape::Text, "names the call"),
        key("description", Shape::Text, "for people"),
        needed("tool", Shape::Text, "the tool by its plain name"),
        key("args", Shape::Map, "its arguments"),
        key("timeout", Shape::Time, "how long the call may take"),
        key("as_user", Shape::Text, "which user calls, made by `test_create_user`; the current one without it"),
        key("profile", Shape::Text, "through which profile to call"),
        key("client", CLIENT, "what kind of client calls"),
        key("retry", Shape::Object(&RETRY), "how often to try again"),
        key("expected", Shape::Object(&EXPECTED), "what should be true of the answer"),
        key("continue_on_failure", Shape::Flag, "failures are warnings in any case"),
    ],
};

static RETRY: Table = Table {
    name: "retry",
    open: false,
    keys: &[
        needed("count", Shape::Whole(0, 100), "how many more tries"),
        key("delay", Shape::Time, "the wait before the first of them; 1s"),
        key("backoff_multiplier", Shape::Number(1.0, 100.0), "each wait is so many times the one before; 1"),
    ],
};

static EXPECTED: Table = Table {
    name: "expected",
    open: false,
    keys: &[
        key(
            "success",
            Shape::Flag,
            "whether the call succeeds; without it: `false` beside `error_contains`, else `true`",
        ),
        key("contains", Shape::Texts, "parts of the answer's text, in whatever case"),
        key("not_contains", Shape::Texts, "what must not be in it"),
        key("error_contains", Shape::Texts, "parts of the error's text; a call that succeeds has none"),
        key("json_path", Shape::Map, "values at paths such as `steps.0.status`; of a map the named keys"),
        key("status_code", Shape::Whole(100, 599), "the HTTP status that the gateway answered the call with"),
        key("wait_for_state", Shape::Time, "asks again until all of this is true, at most so long"),
    ],
};

static SETUP: Table = Table {
    name: "setup",
    open: false,
    keys: &[
        key("mcp_servers", Shape::Objects(&SERVER), "mock servers"),
        key("workflows", Shape::Objects(&WORKFLOW), "workflows"),
        key("service_classes", Shape::Objects(&CLASS), "service classes"),
        key("services", Shape::Objects(&SERVICE), "services"),
        key(
            "profiles",
            Shape::Objects(&PROFILE),
            "profiles in the gateway's own form; the dialect is `muster` without one",
        ),
        key("files", Shape::TextMap, "further files of the home by their path, as text"),
        key("main_config", Shape::Object(&MAIN), "muster's `config.yaml`"),
        key("mock_oauth_servers", Shape::Objects(&identity::PROVIDER), "mock identity providers"),
        key("muster_broker", Shape::Object(&identity::BROKER), "whose signed tokens the gateway accepts"),
    ],
};

static SERVER: Table = Table {
    name: "server",
    open: false,
    keys: &[
        needed("name", Shape::Text, "the server's name"),
        needed("config", Shape::Object(&MOCK), "what the mock server does"),
    ],
};

/// A mock server; also the file of `--mock-config`.
pub(crate) static MOCK: Table = Table {
    name: "mock",
    open: false,
    keys: &[
        key("type", Shape::Words(&["stdio", "streamable-http", "sse"]), "its transport; `stdio` without it"),
        key("toolPrefix", Shape::Text, "stands before its tools' names in place of the server's name"),
        key("description", Shape::Text, "for people"),
        key("family", Shape::Map, "one of several servers with the same tools: `{name, instanceArg}`"),
        key("tools", Shape::Objects(&TOOL), "its tools"),
        key("autoStart", Shape::Flag, "`false`: it waits until somebody starts it"),
        key("command", Shape::Text, "a program in place of the mock"),
        key("args", Shape::Texts, "its arguments"),
        key("env", Shape::Map, "its variables"),
        key("url", Shape::Text, "an address in place of the mock"),
        key("headers", Shape::Map, "what is sent along to it"),
        key("definition", Shape::Map, "further keys of the server's definition in the gateway's own form"),
        key("oauth", Shape::Object(&identity::PROTECTION), "the mock server wants tokens of a mock provider"),
    ],
};

static TOOL: Table = Table {
    name: "tool",
    open: false,
    keys: &[
        needed("name", Shape::Text, "the tool's own name"),
        key("description", Shape::Text, "what the model reads"),
        key("input_schema", Shape::Map, "its JSON schema; defaults of its properties are filled in"),
        key("annotations", Shape::Map, "such as `{readOnlyHint: true}`"),
        key("responses", Shape::Objects(&RESPONSE), "the first whose condition fits is the answer, else the first"),
        key("echo_token", Shape::Flag, "the answer is what the token of the call says of its bearer"),
    ],
};

static RESPONSE: Table = Table {
    name: "response",
    open: false,
    keys: &[
        key("condition", Shape::Map, "arguments and the values that they must have"),
        key("response", Shape::Any, "the answer; `{{ .arg }}` in its texts is an argument"),
        key("error", Shape::Text, "the answer is an error with this text"),
        key("delay", Shape::Time, "how long the answer takes"),
        key("echo", Shape::Ignored, ""),
    ],
};

static WORKFLOW: Table = Table {
    name: "workflow",
    open: false,
    keys: &[
        needed("name", Shape::Text, "its name"),
        key("labels", Shape::Map, "its labels"),
        needed("config", Shape::Map, "the workflow"),
    ],
};

static CLASS: Table = Table {
    name: "class",
    open: true,
    keys: &[
        needed("name", Shape::Text, "its name"),
        key("args", Shape::Map, "its arguments"),
        key("serviceConfig", Shape::Map, "its life cycle"),
        key("config", Shape::Map, "the same under a key of its own"),
    ],
};

static SERVICE: Table = Table {
    name: "service",
    open: true,
    keys: &[
        needed("name", Shape::Text, "its name"),
        key("serviceClassName", Shape::Text, "its class"),
        key("args", Shape::Map, "its arguments"),
        key("config", Shape::Map, "the same under a key of its own"),
    ],
};

static PROFILE: Table = Table {
    name: "profile",
    open: false,
    keys: &[
        needed("name", Shape::Text, "its name; `default` replaces the one that is there otherwise"),
        key("config", Shape::Map, "its keys"),
    ],
};

static MAIN: Table =
    Table { name: "main", open: false, keys: &[key("config", Shape::Object(&MAIN_CONFIG), "the file's content")] };

static MAIN_CONFIG: Table = Table {
    name: "main_config",
    open: false,
    keys: &[
        key("namespace", Shape::Ignored, ""),
        key("kubernetes", Shape::Ignored, ""),
        key("aggregator", Shape::Object(&AGGREGATOR), "the gateway's settings"),
    ],
};

static AGGREGATOR: Table = Table {
    name: "aggregator",
    open: false,
    keys: &[
        key("port", Shape::Ignored, ""),
        key("host", Shape::Ignored, ""),
        key("transport", Shape::Ignored, ""),
        key("enabled", Shape::Ignored, ""),
        key("admin", Shape::Ignored, ""),
        key("musterPrefix", Shape::Words(&["x"]), "`x` is the only one"),
        key("oauth", Shape::Ignored, ""),
        key("oauthServer", Shape::Ignored, ""),
    ],
};

/// A scenario in MCP Scooter's form.
pub(crate) static SCOOTER: Table = Table {
    name: "scooter",
    open: false,
    keys: &[
        needed("name", Shape::Text, "names the scenario in reports"),
        key("description", Shape::Text, "for people"),
        key("category", Shape::Text, "for `--category`"),
        key("tags", Shape::Texts, "for `--tag`"),
        key("timeout", Shape::Time, "how long all steps may take"),
        key("client", CLIENT, "what kind of client calls; `legacy` without it"),
        key("skip", Shape::Text, "`true` or a reason: the scenario is reported as skipped"),
        key("requires", Shape::Object(&REQUIRES), "what must be there"),
        key("pre_configuration", Shape::Object(&SETUP), "what is there before the gateway starts"),
        needed("steps", Shape::Objects(&SCOOTER_STEP), "actions in order"),
    ],
};

static REQUIRES: Table = Table {
    name: "requires",
    open: false,
    keys: &[
        key("env", Shape::Texts, "variables; skipped where one is missing"),
        key("registry", Shape::Texts, "registry entries that the profile may find and start"),
    ],
};

pub(crate) static SCOOTER_STEP: Table = Table {
    name: "scooter_step",
    open: false,
    keys: &[
        key("name", Shape::Text, "names the step"),
        needed("action", Shape::Words(&["initialize", "list_tools", "call_tool", "wait"]), "what is done"),
        key("tool", Shape::Text, "for `call_tool`"),
        key("args", Shape::Map, "its arguments; `seconds` for `wait`"),
        key("timeout", Shape::Time, "how long it may take"),
        key("client", CLIENT, "what kind of client acts; the scenario's without it"),
        key("expect", Shape::Object(&SCOOTER_EXPECT), "what must be true of the answer"),
    ],
};

static SCOOTER_EXPECT: Table = Table {
    name: "scooter_expect",
    open: false,
    keys: &[
        key("error", Shape::Any, "`null`: it succeeds; a text: the error holds it"),
        key("tools_contain", Shape::Texts, "names that are in the list of tools"),
        key("tools_not_contain", Shape::Texts, "names that are not"),
        key("result", Shape::Object(&SCOOTER_RESULT), "about the result"),
        key("result.content", Shape::Words(&["not_empty", "empty"]), "whether there is any content"),
        key("result_contains", Shape::Texts, "parts of the result's JSON"),
        key("result_not_contains", Shape::Texts, "what must not be in it"),
    ],
};

static SCOOTER_RESULT: Table = Table {
    name: "scooter_result",
    open: false,
    keys: &[key("content", Shape::Words(&["not_empty", "empty"]), "whether there is any content")],
};

#[cfg(test)]
mod tests;
