//! Agents as people and Valinor write them, and what is refused.

use std::path::Path;

use serde_json::json;

use super::*;
use crate::GovernedDecision;
use crate::catalog::load;

fn told(problem: &crate::DefinitionProblem) -> String {
    format!("{problem} {}", problem.hint.as_deref().unwrap_or(""))
}

fn read_named(name: &str, text: &str) -> Result<AgentDefinition, Vec<String>> {
    let file = format!("agents/{name}.yaml");
    define::read(Path::new(&file), name, text).map_err(|problems| problems.iter().map(told).collect())
}

fn good(rest: &str) -> AgentDefinition {
    read_named("a", &format!("name: a\nmodel: m\n{rest}")).unwrap()
}

#[track_caller]
fn bad(text: &str, parts: &[&str]) {
    let problems = read_named("a", text).expect_err(text).join("\n");
    for part in parts {
        assert!(problems.contains(part), "{text}: {problems} lacks {part}");
    }
}

#[track_caller]
fn bad_rest(rest: &str, parts: &[&str]) {
    bad(&format!("name: a\nmodel: m\n{rest}"), parts);
}

fn names(models: &[ObjectName]) -> Vec<&str> {
    models.iter().map(ObjectName::as_str).collect()
}

#[test]
fn a_name_and_a_model_are_an_agent() {
    let agent = good("");
    assert_eq!((names(&agent.models), agent.tool_name()), (vec!["m"], "agent_a".to_owned()));
    assert_eq!((agent.tools_shown, agent.runs_as), (ToolsShown::Auto, RunsAs::Caller));
    assert_eq!((agent.on_denied, agent.on_unknown), (OnDenied::Tell, OnUnknown::Tell));
    assert_eq!((agent.limits, agent.tools), (AgentLimits::default(), None));
    let several = read_named("a", "name: a\nmodels: [one, two]\n").unwrap();
    assert_eq!(names(&several.models), ["one", "two"]);
}

#[test]
fn an_agent_without_a_model_is_refused() {
    for text in ["name: a\n", "name: a\nmodels: []\n"] {
        bad(text, &["`models`", "expected the model that it asks", "toolcrib list models"]);
    }
    bad("name: a\nmodel: x\nmodels: [y]\n", &["`model`", "stands beside `models`"]);
    bad("name: a\nmodels: [x, x]\n", &["`models[1]`", "each model once"]);
    bad("name: a\nmodel: a/b\n", &["`model`", "expected a name"]);
    let many: Vec<String> = (0..17).map(|n| format!("m{n}")).collect();
    bad(&format!("name: a\nmodels: [{}]\n", many.join(", ")), &["at most 16 models, got 17"]);
}

#[test]
fn an_empty_list_of_tools_allows_nothing() {
    assert!(good("").allows("files/read"));
    let some = good("tools: ['files/*', '*/search']\n");
    assert!(some.allows("files/read") && some.allows("web/search") && !some.allows("web/open"));
    for none in ["tools: []\n", "tool_allowlist: []\n", "tool_allowlist:\n", "config: {}\n"] {
        assert!(!good(none).allows("files/read"), "{none}");
    }
    bad_rest("tools: [read]\n", &["`tools[0]`", "write `*/read`"]);
    bad_rest("tools: ['files/{a,b}']\n", &["`tools[0]`", "expected a pattern"]);
}

#[test]
fn schemas_that_are_none_are_refused() {
    let agent = good("input: {type: object, properties: {n: {type: integer}}}\noutput: {type: array}\n");
    assert_eq!(agent.input.unwrap()["properties"]["n"], json!({"type": "integer"}));
    assert_eq!(agent.output, Some(json!({"type": "array"})));
    bad_rest("input: text\n", &["`input`", "expected a JSON Schema, got `text`"]);
    bad_rest("input: {type: array}\n", &["`input`", "with `type: object`"]);
    bad_rest("input: {type: object, properties: 3}\n", &["`input`", "not valid at `/properties`"]);
    bad_rest("output: {type: strnig}\n", &["`output`", "not valid at `/type`", "JSON Schema 2020-12"]);
}

#[test]
fn limits_are_above_nothing_and_within_bounds() {
    let limits = good("limits: {rounds: 3, money: 0.25, time: 5m, call_time: 30s, result_size: 8KiB, per_day: {runs: 9, money: '2'}}\n").limits;
    assert_eq!((limits.rounds, limits.money.map(crate::Dollars::picodollars)), (Some(3), Some(250_000_000_000)));
    assert!(limits.limits_money() && limits.per_day.runs == Some(9));
    for (key, values) in [
        ("rounds", &["0", "1001", "-1"][..]),
        ("calls_per_turn", &["0", "1001"]),
        ("calls", &["0", "100001"]),
        ("tokens", &["0", "4294967296"]),
        ("money", &["0", "-1", "1000000.5", "0.0000000000001"]),
        ("time", &["0s", "25h"]),
        ("call_time", &["0s", "25h"]),
        ("result_size", &["0", "255", "17MiB"]),
    ] {
        for value in values {
            bad_rest(&format!("limits: {{{key}: {value}}}\n"), &[&format!("`limits.{key}`"), "expected"]);
        }
    }
    bad_rest("limits: {per_day: {runs: 0}}\n", &["`limits.per_day.runs`"]);
    bad_rest("limits: {time: 1m, call_time: 2m}\n", &["`limits.call_time`", "at most the `time` of the run, `1m`"]);
    bad_rest("limits: {round: 3}\n", &["did you mean `rounds`?"]);
}

#[test]
fn unknown_keys_and_words_have_near_names() {
    bad_rest("instuctions: x\n", &["`instuctions`", "did you mean `instructions`?"]);
    bad_rest("tools_shown: meun\n", &["did you mean `menu`?"]);
    bad_rest("on_unknown: asc\n", &["did you mean `ask`?"]);
    bad_rest("runs_as: callr\n", &["did you mean `caller`?"]);
}

#[test]
fn a_name_fits_into_that_of_its_tool() {
    let name = "n".repeat(58);
    assert_eq!(read_named(&name, &format!("name: {name}\nmodel: m\n")).unwrap().tool_name().len(), 64);
    let name = "n".repeat(59);
    let said = read_named(&name, &format!("name: {name}\nmodel: m\n")).unwrap_err().join("\n");
    assert!(said.contains("expected at most 58 characters, got 59") && said.contains("`agent_NAME`"), "{said}");
}

/// What `load` says of an agent beside these files: problems and warnings.
fn loaded(files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let catalog = load(home.path());
    assert_eq!(catalog.agents.len(), 1);
    (catalog.problems.iter().map(told).collect(), catalog.warnings.iter().map(told).collect())
}

#[test]
fn a_model_or_a_profile_that_does_not_exist_is_a_warning() {
    let agent = ("agents/a.yaml", "name: a\nmodels: [demo, gone]\nprofile: nowhere\n");
    let (problems, warnings) = loaded(&[agent]);
    assert_eq!((problems, warnings.len()), (Vec::new(), 2));
    assert!(warnings[0].starts_with("agents/a.yaml: `models`: agent `a` asks the model `gone`"), "{warnings:?}");
    assert!(warnings[0].contains("toolcrib model add"), "{warnings:?}");
    assert!(warnings[1].contains("the profile `nowhere`, which does not exist"), "{warnings:?}");
    let model = ("models/gone.yaml", "name: gone\nwire: chat\nurl: http://127.0.0.1/v1\n");
    let profile = ("profiles/nowhere.yaml", "name: nowhere\n");
    assert_eq!(loaded(&[agent, model, profile]), (Vec::new(), Vec::new()));
}

#[test]
fn a_limit_of_money_needs_the_price_of_each_model() {
    let priced =
        ("models/dear.yaml", "name: dear\nwire: chat\nurl: http://127.0.0.1/v1\nprices: {input: 1, output: 2}\n");
    let free = ("models/free.yaml", "name: free\nwire: chat\nurl: http://127.0.0.1/v1\n");
    let scripted = ("models/said.yaml", "name: said\nwire: script\nscript: {turns: []}\n");
    for limits in ["{money: 1}", "{per_day: {money: 1}}"] {
        let text = format!("name: a\nmodels: [dear, free, said, demo]\nlimits: {limits}\n");
        let (problems, warnings) = loaded(&[("agents/a.yaml", &text), priced, free, scripted]);
        assert_eq!((problems.len(), warnings.len()), (1, 0), "{problems:?}");
        assert!(problems[0].contains("`a` limits money, and its model `free` has no `prices`"), "{problems:?}");
        assert!(problems[0].contains("models/free.yaml"), "{problems:?}");
    }
    let unlimited = ("agents/a.yaml", "name: a\nmodels: [free]\nlimits: {tokens: 9}\n");
    assert_eq!(loaded(&[unlimited, free]), (Vec::new(), Vec::new()));
}

#[test]
fn a_configure_document_of_valinor_is_read() {
    let document = json!({
        "name": "a",
        "config": {"agents": {"defaults": {"model": {"primary": "one", "fallbacks": ["two"]}, "sandbox": {"mode": "all"}}}, "theme": "x"},
        "tool_allowlist": ["create_issue", "files/read"],
        "tool_policies": {"create_issue": {"allowed_params": ["title"], "denied_params": ["token"], "max_results": 20}},
        "canary_tokens": ["CANARY-7f3a91", "vault:canary"],
        "connectors": [{
            "id": "c-1", "name": "tracker", "type": "mcp", "endpoint": "https://tracker.example.com/mcp",
            "auth": {"api_key": "vault:tracker"}, "tools": ["create_issue", "wipe", "look", "odd"],
            "governed_tools": {
                "create_issue": {"action_type": "write", "risk_class": "external_writes", "decision": "allow"},
                "wipe": {"action_type": "write", "risk_class": "daring"},
                "look": {"action_type": "read"},
                "odd": {"action_type": ""},
            },
        }],
    });
    let agent = read_named("a", &document.to_string()).unwrap();
    assert_eq!(names(&agent.models), ["one", "two"]);
    assert!(agent.allows("tracker/create_issue") && agent.allows("files/read") && !agent.allows("tracker/wipe"));
    assert_eq!(agent.tool_policies["create_issue"].max_results, Some(20));
    let own = agent.connectors.as_ref().and_then(|connectors| connectors[0].own.as_ref()).unwrap();
    assert_eq!((own.auth.vault_entry(), own.tools.len()), (Some("tracker"), 4));
    let decision = |tool: &str| own.tools[tool].decision();
    assert_eq!(decision("create_issue"), GovernedDecision::Allow);
    assert_eq!((decision("wipe"), decision("odd")), (GovernedDecision::Block, GovernedDecision::Block));
    assert_eq!((decision("look"), agent.config["theme"].as_str()), (GovernedDecision::Allow, Some("x")));
    assert_eq!(agent.to_shown_value()["canary_tokens"], json!(["****", "vault:canary"]));
    assert!(!format!("{agent:?}").contains("CANARY-7f3a91"));
}

#[test]
fn what_valinor_leaves_open_is_closed_here() {
    bad_rest("config: {agents: {defaults: {sandbox: {mode: off}}}}\n", &["agents.defaults.sandbox.mode", "`non-main`"]);
    bad_rest("config: {tools: {exec: {workspaceOnly: false}}}\n", &["tools.exec.workspaceOnly", "`true`"]);
    bad_rest("config: {tools: {exec: {applyPatch: {workspaceOnly: no}}}}\n", &["tools.exec.applyPatch.workspaceOnly"]);
    bad_rest("config: {gateway: {bind: 0.0.0.0}}\n", &["gateway.bind", "`loopback`"]);
    bad("name: a\nconfig: {model: openai/gpt}\n", &["the name of a model in `config`", "`openai/gpt`"]);
    bad("name: a\nconfig: {}\ntool_allowlist: []\n", &["`models`", "expected the model that it asks"]);
    bad_rest("tool_allowlist: ['*']\n", &["`tool_allowlist[0]`", "got the pattern", "write patterns in `tools`"]);
    bad_rest("tool_allowlist: [x]\ntools: ['*']\n", &["`tools`", "stands beside"]);
    bad_rest("canary_tokens: [short]\n", &["`canary_tokens[0]`", "at least 8 characters"]);
    bad_rest("tool_policies: {x: {max_results: 0}}\n", &["`tool_policies.x.max_results`"]);
    bad_rest("tool_policies: {x: {denied: [a]}}\n", &["tool_policies.x.denied"]);
}

#[test]
fn connectors_are_checked_and_hold_no_secrets() {
    let connector = |rest: &str| format!("connectors: [{{name: c, endpoint: 'https://example.com/mcp', {rest}}}]\n");
    bad_rest(&connector("auth: {api_key: hunter2}"), &["connectors[0].auth.api_key", "got a value", "secret set NAME"]);
    let said = read_named("a", &format!("name: a\nmodel: m\n{}", connector("auth: {token: hunter2}"))).unwrap_err();
    assert!(!said.join("\n").contains("hunter2"), "{said:?}");
    bad_rest(&connector("type: rest"), &["connectors[0].type", "expected `mcp`"]);
    bad_rest(&connector("governed_tools: {w: {action_type: write}}"), &["risk_class", "of a tool that writes"]);
    bad_rest(&connector("governed_tools: {w: {action_type: delete}}"), &["action_type", "`read`, `write`"]);
    bad_rest("connectors: [{name: c}]\n", &["connectors[0].endpoint", "expected where the connector is"]);
    bad_rest("connectors: [{name: c, endpoint: nowhere}]\n", &["connectors[0].endpoint", "expected an address"]);
    let twice = "connectors: [{name: c, endpoint: 'https://a.example'}, {name: c, endpoint: 'https://b.example'}]\n";
    bad_rest(twice, &["connectors[1]", "each connector once"]);
}

#[test]
fn a_sentinel_has_rules_that_compile_and_a_judge() {
    let text = "sentinel:\n  builtin: block\n  rules: [{words: [a.b, c]}, {name: n, pattern: 'x+', action: record}]\n  \
                classifier: {model: judge, block: 0.9}\n";
    let sentinel = good(text).sentinel.unwrap();
    let rules: Vec<_> = sentinel.rules.iter().map(|rule| (rule.name.as_str(), rule.action)).collect();
    assert_eq!(rules, [("rule 1", SentinelAction::Block), ("n", SentinelAction::Record)]);
    assert!(sentinel.rules[0].pattern.contains(r"a\.b|c"), "{:?}", sentinel.rules[0]);
    assert_eq!((sentinel.builtin, sentinel.on_failure), (Some(SentinelAction::Block), OnFailure::Block));
    let judge = sentinel.classifier.unwrap();
    assert!((judge.block.value() - 0.9).abs() < 1e-9 && (judge.quarantine.value() - 0.5).abs() < 1e-9);
    for (rest, parts) in [
        ("sentinel: {rules: [{pattern: '('}]}\n", &["`sentinel.rules[0].pattern`", "regular expression"][..]),
        ("sentinel: {rules: [{pattern: 'x*'}]}\n", &["does not fit everything"]),
        ("sentinel: {rules: [{pattern: '(x{1000}){1000}'}]}\n", &["regular expression"]),
        ("sentinel: {rules: [{}]}\n", &["expected what the rule looks for"]),
        ("sentinel: {rules: [{words: []}]}\n", &["1 to 1000 words"]),
        ("sentinel: {rules: [{words: [x], pattern: y}]}\n", &["stands beside `words`"]),
        ("sentinel: {rules: [{words: [x], action: deny}]}\n", &["action"]),
        ("sentinel: {classifier: {model: m, block: 1.5}}\n", &["number from `0` to `1`"]),
        ("sentinel: {classifier: {model: m, block: 0.2}}\n", &["expected at most `block`, `0.2`"]),
        ("sentinel: {classifier: {model: m, timeout: 1h}}\n", &["at most `120s`"]),
        ("sentinel: {classifier: {}}\n", &["expected the model that judges"]),
        ("sentinel: {rule: []}\n", &["`sentinel.rule`"]),
    ] {
        bad_rest(rest, parts);
    }
}

#[test]
fn an_agent_that_runs_as_itself_has_a_profile_and_a_principal() {
    bad_rest("runs_as: agent\n", &["runs_as", "needs a profile of its own", "profile: NAME"]);
    let agent = AgentDefinition::of_text("a", "name: a\nmodel: m\nprofile: p\nruns_as: agent\n").unwrap();
    assert_eq!(agent.own_principal().unwrap().as_str(), "service:agent/a");
    let plain = AgentDefinition::of_text("a", "name: a\nmodel: m\nprofile: p\n").unwrap();
    assert_eq!(plain.own_principal(), None);
}
