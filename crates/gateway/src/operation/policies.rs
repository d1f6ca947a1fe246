//! Policies: list those in force, check files, explain what they make of a request, run cases, compare files, and play the
//! record against them.

mod answer;
mod diff;
mod matrix;
mod question;
mod simulate;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ToolId};
use toolcrib_catalog::PolicyFile;
use toolcrib_policy::{
    Annotations, Ask, Effect as PolicyEffect, Fault, Policies, PolicyRule, PolicyVerdict, ToolDigest, Vocabulary,
    WORKFLOWS, check as names_of,
};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::arguments::text;
use toolcrib_view::view::{annotations, digest};
use toolcrib_view::{Effect, Method, Operation};

use self::answer::answer;
use self::question::Question;
use super::{ROW, Row, Run, Words, blocking, definition, page, row};
use crate::gateway::Gateway;
use crate::policies::compiled;

/// How many tools the table of who may do what has if nothing else is said.
const MATRIX_ROWS: usize = 100;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(check(gateway, arguments))),
        Operation {
            tool: "core_policy_check",
            method: Method::Post,
            path: "/policies/check",
            tag: "policies",
            summary: "Check policies",
            description: "Check the files of policies, or those in `files`, strictly: their syntax, types and annotations. `warnings` are names that nothing has, with the nearest.",
            problems: &[Kind::InvalidParams],
            input: r#"{"type":"object","properties":{"files":{"type":"array","description":"Files to check in place of those on disk","items":{"type":"object","properties":{"name":{"type":"string","description":"Such as `prod.cedar`"},"text":{"type":"string"}},"required":["name","text"],"additionalProperties":false}},"file":{"type":"object","description":"One file in place of the one of its name, beside the others on disk; without a text it is left out","properties":{"name":{"type":"string"},"text":{"type":"string"}},"required":["name"],"additionalProperties":false}},"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"ok":{"type":"boolean"},"policies":{"type":"integer"},"problems":{"type":"array","items":{"type":"object"}},"warnings":{"type":"array","items":{"type":"object"}}},"required":["ok","policies","problems","warnings"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(difference(gateway, arguments))),
        Operation {
            tool: "core_policy_diff",
            method: Method::Post,
            path: "/policies/diff",
            tag: "policies",
            summary: "Say who gains or loses what by a change of policies",
            description: "Compare the policies in force with `files`, or with those on disk changed by `file`, over all tools, operations, entries of the registry, prompts and up to 10,000 resources that servers list: for each profile, each role and everybody whom policies name. `open` is what depends on the call. Rows are of effect `gains`, `loses` or `changes`.",
            problems: &[Kind::InvalidParams],
            input: r#"{"type":"object","properties":{"files":{"type":"array","description":"The files that would be the policies","items":{"type":"object","properties":{"name":{"type":"string","description":"Such as `prod.cedar`"},"text":{"type":"string"}},"required":["name","text"],"additionalProperties":false}},"profile":{"type":"string","description":"Only this profile"},"file":{"type":"object","description":"One file in place of the one of its name, beside the others on disk; without a text it is left out","properties":{"name":{"type":"string"},"text":{"type":"string"}},"required":["name"],"additionalProperties":false}},"oneOf":[{"required":["files"]},{"required":["file"]}],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"gains":{"type":"integer"},"loses":{"type":"integer"},"changes":{"type":"array","items":{"type":"object"}},"principals":{"type":"integer","description":"How many kinds of principals were compared"},"things":{"type":"integer"},"truncated":{"type":"boolean"}},"required":["gains","loses","changes","truncated"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(explain(gateway, arguments))),
        Operation {
            tool: "core_policy_explain",
            method: Method::Post,
            path: "/policies/explain",
            tag: "policies",
            summary: "Explain what policies make of a request",
            description: "Say what the profile, the role and policies decide of a request, what each policy that is about it does, and what else would be needed. Name one of `tool`, `operation`, `resource`, `prompt`, `approve`, `complete`, `forward` or `configure`. Without `arguments`, policies that look at the call are open; with `at` or what led to the call, those that look at nothing else of it are not.",
            problems: &[Kind::InvalidParams],
            input: EXPLAIN_INPUT,
            output: r#"{"type":"object","properties":{"decision":{"type":"string","enum":["permit","hidden","deny","confirm","approve","open"]},"by":{"type":"string"},"reason":{"type":"string"},"policies":{"type":"array","items":{"type":"object"}},"needed":{"type":"array","items":{"type":"string"},"description":"What would have to be otherwise, or whose yes it takes"}},"required":["decision","policies","needed"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(std::future::ready(Ok(list(gateway))))),
        Operation {
            tool: "core_policy_list",
            path: "/policies",
            tag: "policies",
            summary: "List the policies in force",
            description: "List the policies in force with their files and lines, and what is wrong with the files on disk. While files are bad, the last good ones stay in force; where there are none, only administrators act.",
            output: r#"{"type":"object","properties":{"inForce":{"type":"boolean","description":"Whether policies decide at all"},"files":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"policies":{"type":"integer"},"problems":{"type":"integer"}},"required":["name","policies","problems"]}},"policies":{"type":"array","items":{"type":"object"}},"problems":{"type":"array","items":{"type":"object"}}},"required":["inForce","files","policies","problems"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(matrix(gateway, caller, arguments))),
        Operation {
            tool: "core_policy_matrix",
            path: "/policies/matrix",
            tag: "policies",
            summary: "Show who may call what",
            description: "Show the tools of a profile and, for each role and each principal that policies name, what is decided of a call: `permit`, `hidden`, `deny`, `confirm`, `approve`, or `open` where it depends on the call.",
            problems: &[Kind::InvalidParams, Kind::NotFound],
            input: r#"{"type":"object","properties":{"profile":{"type":"string","description":"The profile; the caller's without it"},"query":{"type":"string","description":"Words of the tool's id or title"},"who":{"type":"string","description":"Part of a principal's words, such as `role member` or `Group`"},"decision":{"enum":["permit","hidden","deny","confirm","approve","open"],"description":"Only tools that have it for someone"},"limit":{"type":"integer","minimum":1,"maximum":200,"default":100},"offset":{"type":"integer","minimum":0,"default":0}},"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"profile":{"type":"string"},"inForce":{"type":"boolean"},"principals":{"type":"array","items":{"type":"object","properties":{"who":{"type":"string"},"principal":{"type":"string"},"role":{"type":"string"},"groups":{"type":"array"},"client":{"type":["string","null"]},"tenant":{"type":["string","null"]}},"required":["who","principal","role","groups"]}},"principalsTotal":{"type":"integer"},"tools":{"type":"array","items":{"type":"object","properties":{"tool":{"type":"string"},"decisions":{"type":"array","items":{"type":"object","properties":{"decision":{"type":"string"},"by":{"type":"string"}},"required":["decision","by"]}}},"required":["tool","decisions"]}},"total":{"type":"integer"},"truncated":{"type":"boolean"}},"required":["profile","inForce","principals","principalsTotal","tools","total","truncated"]}"#,
            slow: true,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(simulate(gateway, arguments))),
        Operation {
            tool: "core_policy_simulate",
            method: Method::Post,
            path: "/policies/simulate",
            tag: "policies",
            summary: "Play the record against policies",
            description: "Decide the calls on record since a moment by `files`, or by the policies in force, and list what would have been decided otherwise. `to` is `depends on arguments` or `depends on groups` where the record does not say enough.",
            problems: &[Kind::InvalidParams],
            input: r#"{"type":"object","properties":{"since":{"type":["string","integer"],"description":"RFC 3339, a date, or milliseconds since 1970"},"files":{"type":"array","description":"Files in place of those in force","items":{"type":"object"}},"file":{"type":"object","description":"One file in place of the one of its name, beside the others on disk; without a text it is left out","properties":{"name":{"type":"string"},"text":{"type":"string"}},"required":["name"],"additionalProperties":false}},"required":["since"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"played":{"type":"integer"},"same":{"type":"integer"},"skipped":{"type":"integer","description":"What policies had no part in, or what is no longer there"},"changes":{"type":"array","items":{"type":"object"}},"truncated":{"type":"boolean"}},"required":["played","same","skipped","changes","truncated"]}"#,
            slow: true,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(test(gateway, arguments))),
        Operation {
            tool: "core_policy_test",
            method: Method::Post,
            path: "/policies/test",
            tag: "policies",
            summary: "Run cases against policies",
            description: "Decide each case as `core_policy_explain` does and compare the decision with `expect`.",
            problems: &[Kind::InvalidParams],
            effect: Effect::Reads,
            input: r#"{"type":"object","properties":{"cases":{"type":"array","items":{"type":"object"},"description":"Arguments of `core_policy_explain`, with `expect` and perhaps `name`"},"files":{"type":"array","items":{"type":"object"}}},"required":["cases"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"passed":{"type":"integer"},"failed":{"type":"integer"},"cases":{"type":"array","items":{"type":"object"}}},"required":["passed","failed","cases"]}"#,
            ..ROW
        },
    ),
];

/// The arguments of `core_policy_explain`. Cases have the same, with `name` and `expect` and without `files`.
const EXPLAIN_INPUT: &str = r#"{"type":"object","properties":{"as":{"type":"string","description":"The principal, such as `user:acme/ann`"},"role":{"type":"string","enum":["viewer","member","operator","admin","owner"],"description":"What it may do in the profile; `member` if it is not said"},"groups":{"type":"array","items":{"type":"string"},"description":"Its groups, as its issuer names them"},"client":{"type":"string","description":"The OAuth client that it uses"},"tenant":{"type":"string"},"profile":{"type":"string","description":"`default` if it is not said"},"door":{"type":"string","enum":["mcp","rest","page","errand","service"],"description":"`mcp` if it is not said"},"proof":{"type":"string","description":"How it is proven, such as `key` or `access-token`"},"tool":{"type":"string","description":"The exact id `server/tool`"},"operation":{"type":"string","description":"Such as `mcpserver_list`"},"resource":{"type":"string","description":"`server uri`"},"prompt":{"type":"string","description":"`server/prompt`"},"approve":{"type":"string","description":"The tool `server/tool` that somebody else calls"},"complete":{"type":"string","description":"`server/prompt`, or `server uri` of a resource or a template"},"forward":{"type":"string","description":"`server method`, a method that the gateway does not know"},"configure":{"type":"string","description":"An entry of the registry"},"arguments":{"type":"object"},"actor":{"type":"string","description":"Who acts in the principal's name"},"bridge":{"type":"string"},"session":{"type":"string","description":"Its session, which may be halted"},"workflow":{"type":"string","description":"The workflow whose step it is"},"run":{"type":"string","description":"The run whose step it is, which may be halted"},"labels":{"type":"array","items":{"type":"string"},"description":"What the run has seen"},"at":{"type":"string","description":"The time, in RFC 3339; now if it is not said"},"files":{"type":"array","items":{"type":"object"},"description":"Files in place of those in force"}},"required":["as"],"additionalProperties":false}"#;

/// What `core_policy_explain` answers, and cases expect.
const DECISIONS: [&str; 6] = ["permit", "hidden", "deny", "confirm", "approve", "open"];

fn list(gateway: &Arc<Gateway>) -> Value {
    let policies = gateway.policies.policies();
    let rows: Vec<Value> = policies.iter().flat_map(Policies::rules).map(rule).collect();
    let problems: Vec<Value> = gateway.policies.faults().iter().map(fault).collect();
    let loaded = gateway.loaded();
    let files: Vec<Value> = loaded
        .policies
        .iter()
        .map(|file| {
            let of = |list: &[Value]| list.iter().filter(|it| it["file"] == file.name.as_str()).count();
            json!({ "name": file.name, "policies": of(&rows), "problems": of(&problems) })
        })
        .collect();
    json!({ "inForce": policies.is_some(), "files": files, "policies": rows, "problems": problems })
}

async fn check(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let files = match files(gateway, arguments)? {
        Some(files) => files,
        None => gateway.loaded().policies.to_vec(),
    };
    let gateway = Arc::clone(gateway);
    blocking(move || {
        Ok(match compiled(&files, gateway.policies.operations()) {
            Err(faults) => {
                let problems: Vec<Value> = faults.iter().map(fault).collect();
                json!({ "ok": false, "policies": 0, "problems": problems, "warnings": [] })
            }
            Ok(policies) => {
                let warnings: Vec<Value> = names_of(&policies, &vocabulary(&gateway)).iter().map(fault).collect();
                let count = policies.rules().count();
                json!({ "ok": true, "policies": count, "problems": [], "warnings": warnings })
            }
        })
    })
    .await
}

async fn difference(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let files = files(gateway, arguments)?.unwrap_or_default();
    let profile = match text(arguments, "profile")? {
        None => None,
        Some(name) => {
            let known = gateway.loaded().profiles.keys().find(|it| it.as_str() == name).cloned();
            Some(known.ok_or_else(|| Problem::new(Kind::InvalidParams, format!("no profile `{name}`")))?)
        }
    };
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let after = asked(&gateway, Some(files))?;
        let change = diff::Change { before: gateway.policies.policies(), after };
        Ok(change.rows(&gateway, profile.as_ref()))
    })
    .await
}

async fn matrix(gateway: &Arc<Gateway>, by: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let profile = text(arguments, "profile")?.unwrap_or_else(|| by.profile.to_string());
    let view = gateway.view(&profile).ok_or_else(|| definition::unknown_profile(gateway, &profile))?;
    let (limit, offset) = page(arguments)?;
    let query = matrix::MatrixQuery {
        words: Words::of(arguments)?,
        decision: text(arguments, "decision")?,
        who: text(arguments, "who")?.unwrap_or_default(),
        limit: limit.unwrap_or(MATRIX_ROWS),
        offset,
    };
    let gateway = Arc::clone(gateway);
    blocking(move || Ok(matrix::matrix(&gateway, &view, &query))).await
}

async fn simulate(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let since = match &arguments.to_value()["since"] {
        Value::String(written) => toolcrib_base::Timestamp::parse(written),
        Value::Number(millis) => millis.as_i64().map(toolcrib_base::Timestamp),
        _ => None,
    };
    let wrong = || Problem::new(Kind::InvalidParams, "`since` must be a time such as 2026-11-20T12:00:00Z");
    let since = since.ok_or_else(wrong)?;
    let files = files(gateway, arguments)?;
    // What happened a moment ago is played too.
    let _ = gateway.path.store.audit().flush().await;
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let policies = asked(&gateway, files)?;
        simulate::Simulation::new(&gateway, policies).play(since)
    })
    .await
}

async fn explain(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let question = Question::read(gateway, &arguments.to_value())?;
    let files = files(gateway, arguments)?;
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let policies = asked_if_any(&gateway, files)?;
        answer(&gateway, policies.as_ref(), &question)
    })
    .await
}

async fn test(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let value = arguments.to_value();
    let cases = value["cases"].as_array().cloned().unwrap_or_default();
    let mut questions = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let name = case["name"].as_str().map_or_else(|| format!("case {}", index + 1), str::to_owned);
        let invalid = |message: String| Problem::new(Kind::InvalidParams, format!("{name}: {message}"));
        let hint = |problem: Problem| problem.hint("Write `permit`, `hidden`, `deny`, `confirm`, `approve` or `open`.");
        let expect = case["expect"].as_str().ok_or_else(|| hint(invalid("`expect` is missing".to_owned())))?;
        if !DECISIONS.contains(&expect) {
            return Err(hint(invalid(format!("`expect: {expect}` is no decision"))));
        }
        let question = Question::of_case(gateway, case)
            .map_err(|problem| Problem { message: format!("{name}: {problem}"), ..problem })?;
        questions.push((name, expect.to_owned(), question));
    }
    let files = files(gateway, arguments)?;
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let policies = asked_if_any(&gateway, files)?;
        let mut results = Vec::new();
        for (name, expect, question) in &questions {
            let answer = answer(&gateway, policies.as_ref(), question)?;
            let (decision, by) = (&answer["decision"], &answer["by"]);
            let passed = *decision == expect.as_str();
            results.push(json!({ "name": name, "passed": passed, "expect": expect, "decision": decision, "by": by }));
        }
        let passed = results.iter().filter(|it| it["passed"] == true).count();
        Ok(json!({ "passed": passed, "failed": results.len() - passed, "cases": results }))
    })
    .await
}

/// The same where there may be none: then the profile and the role decide alone.
fn asked_if_any(gateway: &Gateway, files: Option<Vec<PolicyFile>>) -> Result<Option<Policies>, Problem> {
    match files.is_none() && gateway.policies.policies().is_none() {
        true => Ok(None),
        false => asked(gateway, files).map(Some),
    }
}

/// The policies that a question is about.
fn asked(gateway: &Gateway, files: Option<Vec<PolicyFile>>) -> Result<Policies, Problem> {
    let faults = |faults: Vec<Fault>| {
        let first = faults.first().map_or_else(String::new, ToString::to_string);
        Problem::new(Kind::InvalidParams, first).hint("See all that is wrong with `toolcrib policy check`.")
    };
    match files {
        Some(files) => compiled(&files, gateway.policies.operations()).map_err(faults),
        None => gateway.policies.policies().ok_or_else(|| {
            Problem::new(Kind::NotFound, "there are no policies: profiles and roles decide alone")
                .hint("Put files `*.cedar` into the folder `policies` of the home folder.")
        }),
    }
}

fn rule(rule: &PolicyRule) -> Value {
    let effect = match &rule.effect {
        PolicyEffect::Permit => "permit",
        PolicyEffect::Forbid { .. } => "forbid",
        PolicyEffect::Ask(Ask::Confirm { .. }) => "confirm",
        PolicyEffect::Ask(Ask::Approve { .. }) => "approve",
    };
    json!({
        "id": &*rule.id, "file": &*rule.file, "line": rule.line, "effect": effect, "recordsOnly": rule.records_only,
        "description": rule.description,
    })
}

pub(super) fn fault(fault: &Fault) -> Value {
    json!({ "file": fault.file, "line": fault.line, "message": fault.message, "hint": fault.hint })
}

fn files(gateway: &Gateway, arguments: &Raw) -> Result<Option<Vec<PolicyFile>>, Problem> {
    if let Some(file) = arguments.get("file") {
        let file = file.to_value();
        let name = file["name"].as_str().unwrap_or_default();
        return Ok(Some(with_file(gateway.loaded().policies.to_vec(), name, file["text"].as_str())));
    }
    let Some(files) = arguments.get("files") else { return Ok(None) };
    let invalid = || Problem::new(Kind::InvalidParams, "`files` is a list of `{name, text}`");
    let file = |it: &Value| {
        let text = |key: &str| it[key].as_str().map(str::to_owned);
        Some(PolicyFile { name: text("name")?, text: Ok(text("text")?) })
    };
    let value = files.to_value();
    let files: Option<Vec<PolicyFile>> = value.as_array().ok_or_else(invalid)?.iter().map(file).collect();
    files.map(Some).ok_or_else(invalid)
}

/// The files with one of them changed, added or, without a text, left out.
pub(super) fn with_file(mut files: Vec<PolicyFile>, name: &str, text: Option<&str>) -> Vec<PolicyFile> {
    files.retain(|file| file.name != name);
    files.extend(text.map(|text| PolicyFile { name: name.to_owned(), text: Ok(text.to_owned()) }));
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// The digest of a tool's definition as the gateway knows it.
fn digest_of(gateway: &Gateway, tool: &ToolId) -> Option<ToolDigest> {
    hints_of(gateway, tool)?.digest
}

/// A decision in a word.
fn word(verdict: &PolicyVerdict) -> &'static str {
    match verdict {
        PolicyVerdict::Permit(_) => "permit",
        PolicyVerdict::Deny { hidden: true, .. } => "hidden",
        PolicyVerdict::Deny { hidden: false, .. } => "deny",
        PolicyVerdict::Ask { ask: Ask::Confirm { .. }, .. } => "confirm",
        PolicyVerdict::Ask { ask: Ask::Approve { .. }, .. } => "approve",
    }
}

/// What a tool says of itself; `None` where there is none.
fn hints_of(gateway: &Gateway, tool: &ToolId) -> Option<Annotations> {
    if tool.server.as_str() == WORKFLOWS {
        // The hints of a workflow are those of its steps, as a view has settled them.
        let views = gateway.views();
        return views.values().find_map(|view| view.tool_by_id(tool)).map(|tool| tool.annotations);
    }
    let table = gateway.path.servers.table();
    let inventory = table.get(&tool.server)?.server.inventory();
    let entry = inventory.tools.iter().find(|it| *it.key == *tool.tool)?;
    Some(Annotations { digest: Some(digest(entry)), ..annotations(entry) })
}

/// The names that there are.
fn vocabulary(gateway: &Gateway) -> Vocabulary {
    let loaded = gateway.loaded();
    let table = gateway.path.servers.table();
    let mut tools = BTreeSet::new();
    for (name, running) in table.iter() {
        tools.extend(running.server.inventory().tools.iter().map(|tool| format!("{name}/{}", tool.key)));
    }
    let is_listed = table.values().all(|running| running.server.status().listed);
    let labels = crate::policies::labels(&loaded);
    let keys = loaded.profiles.iter().flat_map(|(profile, definition)| {
        let keys = definition.keys.iter().flatten();
        keys.map(move |key| format!("{profile}/{}", key.name))
    });
    Vocabulary {
        servers: Some(table.keys().map(ToString::to_string).collect()),
        // What is not listed is not known to be missing.
        tools: is_listed.then_some(tools),
        workflows: Some(loaded.workflows.keys().map(ToString::to_string).collect()),
        labels: Some(labels.all()),
        profiles: Some(loaded.profiles.keys().map(ToString::to_string).collect()),
        keys: Some(keys.collect()),
        groups: gateway.policies.issuers().map(|it| it.groups.clone()),
        issuers: gateway.policies.issuers().map(|it| it.issuers.clone()),
        entries: Some(loaded.registry.keys().map(ToString::to_string).collect()),
        operations: Some(gateway.policies.operations().iter().cloned().collect()),
    }
}
