//! Both forms of files, and everything that can be wrong with them.

use std::path::Path;

use super::*;

const WHOLE: &str = r#"
name: whole
category: behavioral
concept: workflow
description: d
tags: [a, b]
timeout: 2m
prerequisites: {env: [HOME], programs: [sh]}
pre_configuration:
  mcp_servers:
  - name: mock
    config:
      type: sse
      toolPrefix: p
      tools:
      - name: t
        responses: [{condition: {a: 1}, response: {x: 1}, delay: 1s}, {error: no}, {echo: ignored}]
  workflows: [{name: w, labels: {l: m}, config: {steps: [], input_schema: {}}}]
  service_classes: [{name: c, serviceConfig: {lifecycleTools: {}}}]
  services: [{name: s, serviceClassName: c}]
  main_config: {config: {namespace: x, aggregator: {port: 1, musterPrefix: x}}}
steps:
- id: one
  description: d
  tool: x_p_t
  args: {a: 1}
  timeout: 5s
  retry: {count: 2, delay: 10ms, backoff_multiplier: 2}
  continue_on_failure: true
  expected:
    success: false
    contains: text
    not_contains: [a, 1]
    error_contains: [e]
    json_path: {a.b: null, c: [1]}
    status_code: 200
    wait_for_state: 3s
  cleanup:
  - tool: core_workflow_delete
    args: {name: "{{ one.name }}"}
- tool: core_workflow_list
cleanup:
- id: last
  tool: core_workflow_list
"#;

fn wrong(text: &str) -> Vec<String> {
    read(Path::new("s.yaml"), text)
        .map(|scenario| format!("{scenario:?}"))
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn step(text: &str) -> String {
    format!("name: n\nsteps:\n- id: s\n  tool: t\n{text}")
}

#[test]
fn muster_s_form_is_read_whole() {
    let scenario = read(Path::new("s.yaml"), WHOLE).unwrap();
    assert_eq!((scenario.form, scenario.timeout), (Form::Muster, Some(Duration::from_secs(120))));
    let server = &scenario.setup.servers[0];
    assert_eq!((server.transport, server.prefix.as_deref()), (Transport::Sse, Some("p")));
    assert_eq!(server.mock.tools[0].responses.len(), 3);
    let workflow = &scenario.setup.definitions[0];
    assert_eq!(workflow.2.to_string(), r#"{"steps":[],"labels":{"l":"m"},"name":"w"}"#);
    let step = &scenario.steps[0];
    assert_eq!(step.retry, Some(Retry { count: 2, delay: Duration::from_millis(10), factor: 2.0 }));
    assert!(step.continues);
    let expected = &step.expected;
    assert_eq!((expected.success, expected.status_code), (Some(false), Some(200)));
    assert_eq!(expected.not_contains, ["a", "1"]);
    assert_eq!(expected.json_path[0], ("a.b".to_owned(), Value::Null));
    assert_eq!(expected.wait_for_state, Some(Duration::from_secs(3)));
    assert_eq!(step.cleanup[0].id, "one/cleanup-1");
    assert_eq!(scenario.steps[1].id, "step-2");
    assert!(scenario.steps[1].expected.nothing);
    assert_eq!(scenario.cleanup[0].id, "last");
    assert_eq!((scenario.needs.env.len(), scenario.needs.programs.len()), (1, 1));
}

#[test]
fn definitions_are_passed_on_whole_and_servers_may_be_real() {
    let text = "
name: n
pre_configuration:
  mcp_servers:
  - {name: a, config: {command: sh, args: [-c, 1], env: {A: b}, autoStart: false}}
  - {name: b, config: {type: streamable-http, url: 'http://127.0.0.1:1/mcp', headers: {X: y}}}
  service_classes: [{name: c, version: 1.0.0, serviceConfig: {}, unheard: of}]
  services: [{name: s, serviceClassName: c, autoStart: true}]
steps: [{tool: t}]
";
    let setup = read(Path::new("s.yaml"), text).unwrap().setup;
    let [a, b] = &setup.servers[..] else { panic!("two servers") };
    assert!(a.is_real && b.is_real);
    let expected = r#"{"start":"manual","command":"sh","args":["-c","1"],"env":{"A":"b"}}"#;
    assert_eq!(Value::Object(a.definition.clone()).to_string(), expected);
    assert_eq!(b.definition["headers"]["X"], "y");
    assert_eq!(setup.definitions[0].2["unheard"], "of");
    assert_eq!(setup.definitions[1].2["autoStart"], true);
}

#[test]
fn scooter_s_form_is_read() {
    let text = r"
name: s
description: d
timeout: 30s
requires: {env: [KEY], registry: [clock]}
steps:
- {name: a, action: initialize}
- {name: b, action: list_tools, expect: {tools_contain: [scooter_find]}}
- {name: c, action: call_tool, tool: scooter_find, args: {query: x}, expect: {error: null, result.content: not_empty, result_contains: y, result_not_contains: [z]}}
- {action: wait, args: {seconds: 0.5}}
- {action: call_tool, tool: t, expect: {error: broken, result: {content: empty}}}
";
    let scenario = read(Path::new("s.yaml"), text).unwrap();
    assert_eq!(scenario.form, Form::Scooter);
    assert_eq!((&scenario.needs.env[0], &scenario.needs.registry[0]), (&"KEY".to_owned(), &"clock".to_owned()));
    let expected = &scenario.steps[2].expected;
    assert_eq!((expected.success, expected.has_content), (Some(true), Some(true)));
    assert_eq!((&expected.result_contains[0], &expected.result_not_contains[0]), (&"y".to_owned(), &"z".to_owned()));
    assert!(matches!(scenario.steps[3].act, Act::Wait(time) if time == Duration::from_millis(500)));
    assert_eq!(scenario.steps[3].id, "step-4");
    let last = &scenario.steps[4].expected;
    assert_eq!(
        (last.success, &last.error_contains[0], last.has_content),
        (Some(false), &"broken".to_owned(), Some(false))
    );
}

#[test]
fn typos_are_named_with_their_lines() {
    for (text, expected) in [
        (step("  expectd: {}\n"), "s.yaml:5: `steps[0].expectd`: is not a known key (did you mean `expected`?)"),
        (
            step("  expected:\n    contain: [a]\n"),
            "s.yaml:6: `steps[0].expected.contain`: is not a known key (did you mean `contains`?)",
        ),
        (
            step("  expected: {success: yes}\n"),
            "s.yaml:5: `steps[0].expected.success`: expected `true` or `false`, got `yes`",
        ),
        (
            step("  timeout: soon\n"),
            "s.yaml:5: `steps[0].timeout`: expected a time such as `30s` or `1m30s`, got `soon`",
        ),
        (step("  retry: {delay: 1s}\n"), "s.yaml:5: `steps[0].retry`: lacks the key `count`"),
        (step("  retry: {count: 1000}\n"), "`steps[0].retry.count`: expected a whole number from 0 to 100, got `1000`"),
        (step("  expected: {contains: {a: b}}\n"), "expected a list of texts, got a map"),
        (step("  cleanup: [{tool: t, cleanup: []}]\n"), "`steps[0].cleanup[0].cleanup`: is not a known key"),
        (step("- {id: r, tool: ''}\n"), "s.yaml:5: `tool`: the step `r` names no tool"),
        (
            step("  client: modren\n"),
            "expected one of legacy, modern, modern-tasks, got `modren` (did you mean `modern`?)",
        ),
        (
            step("- {id: r, tool: test_restart_gateway, args: {how: hard}}\n"),
            "s.yaml:5: `steps[1].args.how`: expected one of graceful, kill, got `hard`",
        ),
        (
            step("  cleanup: [{tool: test_restart_gateway, args: {hwo: kill}}]\n"),
            "`steps[0].cleanup[0].args.hwo`: is not a known key (did you mean `how`?)",
        ),
        (step("cleanup: [{tool: test_send_request}]\n"), "s.yaml:5: `cleanup[0]`: lacks the key `method`"),
        (step("  prerequisites: {envs: [X]}\n"), "`steps[0].prerequisites`: is not a known key"),
        ("name: n\nprerequisites: {envs: [X]}\nsteps: [{tool: t}]\n".to_owned(), "(did you mean `env`?)"),
        (step("  args: {x: '{{ ss.field }}'}\n"), "names no step"),
        (step("  args: {x: '{{ no-such-step.field }}'}\n"), "`{{ no-such-step.… }}` names no step"),
        ("name: n\nsteps: []\n".to_owned(), "expected at least one step"),
        ("steps: [{tool: t}]\n".to_owned(), "lacks the key `name`"),
        (String::new(), "the file is empty"),
        ("[]".to_owned(), "expected a map"),
        ("name: [\n".to_owned(), "not valid YAML"),
        (
            "name: n\nsteps: [{action: call}]\n".to_owned(),
            "expected one of initialize, list_tools, call_tool, wait, got `call`",
        ),
        ("name: n\nsteps: [{action: call_tool, tol: x}]\n".to_owned(), "(did you mean `tool`?)"),
        ("name: n\nsteps: [{action: call_tool}]\n".to_owned(), "names no tool"),
        ("name: n\nsteps: [{action: list_tools, tool: x}]\n".to_owned(), "the action `list_tools` calls no tool"),
        ("name: n\nsteps: [{action: wait, args: {second: 1}}]\n".to_owned(), "the action `wait` has no such argument"),
        ("name: n\nsteps: [{action: wait, args: {seconds: long}}]\n".to_owned(), "expected a number, got `long`"),
        ("name: n\nsteps: [{action: list_tools}, {tool: t}]\n".to_owned(), "`steps[1]`: lacks the key `action`"),
    ] {
        let found = wrong(&text);
        assert!(found.iter().any(|found| found.contains(expected)), "{text}\n{found:?}\nlacks {expected}");
    }
}

#[test]
fn every_fault_of_a_file_is_reported() {
    let found = wrong("name: n\ntagz: [a]\nsteps:\n- tol: x\n- tool: y\n  arg: {}\n");
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn templates_of_workflows_are_not_ours() {
    let text =
        step("  args: {a: '{{ .input.x }}', b: '{{ input.x }}', c: '{{ eq .a \"b\" }}', d: '{{ results.q.r }}'}\n");
    assert!(read(Path::new("s.yaml"), &text).is_ok());
}

#[test]
fn only_the_file_says_what_is_skipped() {
    let skipped = |text: &str| read(Path::new("s.yaml"), text).unwrap().skip;
    assert_eq!(skipped("name: oauth-x\nsteps: [{tool: t}]\n"), None);
    assert_eq!(skipped("name: n\nskip: true\nsteps: [{tool: t}]\n").unwrap(), "the file says `skip`");
    assert_eq!(skipped("name: n\nskip: later\nsteps: [{tool: t}]\n").unwrap(), "the file says `skip`: later");
    assert_eq!(skipped("name: n\nskip: false\nsteps: [{tool: t}]\n"), None);
}

#[test]
fn providers_and_what_servers_ask_are_read() {
    let text = "
name: n
pre_configuration:
  mock_oauth_servers:
  - name: a
    scopes: [openid, read]
    auto_approve: false
    pkce_required: true
    token_lifetime: 30m
    client_id: app
    client_secret: hush
    simulate_error: invalid_grant
    use_mock_clock: true
    use_as_muster_oauth_server: true
    sign_tokens: true
  - {name: b, issuer: https://ignored.example, use_tls: true, trusted_issuers: [{connector_id: c, oauth_server_ref: a}]}
  muster_broker: {trusted_issuers: [b, {oauth_server_ref: a, audiences: [x]}]}
  mcp_servers:
  - name: s
    config:
      type: streamable-http
      oauth:
        required: true
        mock_oauth_server_ref: a
        scope: read write
        forward_token: true
        trust_issuer_ref: b
        expected_audience: aud
        token_exchange: {oauth_server_ref: b, connector_id: c, scopes: openid, expected_issuer: https://i.example}
      tools: [{name: t, echo_token: true}]
  - {name: open, config: {type: sse, oauth: {required: false, mock_oauth_server_ref: a}}}
steps: [{tool: t, as_user: u}]
";
    let setup = read(Path::new("s.yaml"), text).unwrap().setup;
    let [a, b] = &setup.identity.providers[..] else { panic!("two providers") };
    assert!(!a.approves && a.wants_pkce && a.has_mock_clock && a.is_of_gateway && a.signs && !a.has_tls);
    assert_eq!(
        (a.lifetime, a.scopes.len(), a.error.as_deref()),
        (Duration::from_secs(1_800), 2, Some("invalid_grant"))
    );
    assert!(b.approves && b.has_tls && b.trusted[0].provider == "a" && b.trusted[0].connector == "c");
    assert_eq!(setup.identity.brokered[1].audiences, ["x"]);
    assert!(setup.identity.has_users);
    let asked = setup.servers[0].protection.as_ref().unwrap();
    assert_eq!((asked.scopes.len(), asked.forwards, asked.audience.as_deref()), (2, true, Some("aud")));
    let exchange = asked.exchange.as_ref().unwrap();
    assert_eq!((exchange.provider.as_deref(), exchange.is_off), (Some("b"), false));
    assert!(setup.servers[0].mock.tools[0].echoes);
    assert_eq!(setup.servers[1].protection, None);
}

#[test]
fn providers_and_tools_of_the_runner_that_are_not_there_are_named() {
    let servers = |oauth: &str| {
        format!(
            "name: n\npre_configuration:\n  mock_oauth_servers: [{{name: login}}]\n  mcp_servers:\n  - {{name: s, config: \
             {{type: sse, oauth: {{{oauth}}}}}}}\nsteps: [{{tool: t}}]\n"
        )
    };
    for (text, expected) in [
        (servers("mock_oauth_server_ref: logni"), "there is no mock provider `logni` (did you mean `login`?)"),
        (servers("trust_issuer_ref: x"), "there is no mock provider `x`"),
        (servers("token_exchange: {oauth_server_ref: x}"), "there is no mock provider `x`"),
        (servers("mock_oauth_server_rf: login"), "is not a known key (did you mean `mock_oauth_server_ref`?)"),
        (
            "name: n\npre_configuration: {mock_oauth_servers: [{name: a, trusted_issuers: [{connector_id: c, \
             oauth_server_ref: b}]}]}\nsteps: [{tool: t}]\n"
                .to_owned(),
            "there is no mock provider `b`",
        ),
        (
            "name: n\nsteps: [{tool: test_switch_usr}]\n".to_owned(),
            "has no tool `test_switch_usr` (did you mean `test_switch_user`?)",
        ),
    ] {
        let found = wrong(&text);
        assert!(found.iter().any(|found| found.contains(expected)), "{text}\n{found:?}\nlacks {expected}");
    }
}
