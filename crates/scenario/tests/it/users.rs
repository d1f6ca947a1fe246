//! The runner's tools for users, providers and tokens: what they answer, and what they refuse. The gateway is a script, so
//! that nothing of it is seen.

use toolcrib_scenario::Verdict;

use crate::run::{House, check};

#[tokio::test]
async fn every_expectation_counts_on_tools_of_users() {
    for (step, part) in [
        ("tool: test_get_current_user, expected: {json_path: {current_user: default}}", None),
        ("tool: test_get_current_user, expected: {not_contains: [default]}", Some("`not_contains`: `default`")),
        ("tool: test_get_current_user, expected: {json_path: {current_user: ann}}", Some("`json_path`")),
        ("tool: test_get_current_user, expected: {status_code: 201}", Some("`status_code`")),
        (
            "tool: test_create_user, args: {name: ann}, expected: {json_path: {name: ann, subject: ann, role: admin}}",
            None,
        ),
        ("tool: test_create_user, args: {name: ann, role: viewer}, expected: {json_path: {role: viewer}}", None),
        ("tool: test_switch_user, args: {name: default}, expected: {json_path: {current_user: default}}", None),
        ("tool: test_switch_user, args: {name: eve}", Some("no user `eve`")),
        ("tool: echo, as_user: eve", Some("no user `eve`")),
        ("tool: test_list_tools_for_user, args: {name: default}, expected: {json_path: {tools: [echo, fail]}}", None),
        (
            "tool: test_list_tools_for_user, args: {name: default}, expected: {not_contains: [echo]}",
            Some("`echo` is in"),
        ),
        ("tool: test_list_tools_for_user, args: {name: eve}", Some("no user `eve`")),
        ("tool: test_muster_auth_login, expected: {json_path: {success: true, subject: test-user}}", None),
        ("tool: test_muster_auth_login, args: {subject: ann}, expected: {contains: [ID token stored, ann]}", None),
        ("tool: test_simulate_muster_reauth, expected: {contains: [success, session]}", None),
        ("tool: test_read_auth_status", Some("unknown resources/read")),
    ] {
        check(step, part).await;
    }
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    for (step, part) in [
        ("tool: test_get_oauth_server_info, expected: {json_path: {total: 0}}", None),
        ("tool: test_get_oauth_server_info, args: {server: x}", Some("no mock provider `x`")),
        ("tool: test_advance_oauth_clock, args: {duration: 1m}", Some("`use_mock_clock`")),
        ("tool: test_advance_oauth_clock, args: {duration: soon}", Some("`soon` is no time")),
        ("tool: test_advance_oauth_clock, args: {duration: 1m, server: x}", Some("no mock provider `x`")),
        ("tool: test_revoke_token, args: {server: x}", Some("no mock provider `x`")),
        ("tool: test_inject_token, args: {server: x, token: t}", Some("`x` is no server that wants tokens")),
        ("tool: test_simulate_oauth_callback, args: {server: x}", Some("unknown core_auth_login")),
        ("tool: test_mint_token, args: {server: x, name: t}", Some("no mock provider `x`")),
        ("tool: test_reconnect_with_token, args: {token_ref: t}", Some("minted a token `t`")),
        ("tool: test_call_protected_mcp, args: {server: x, tool: t}", Some("`x` is no mock server over HTTP")),
        ("tool: test_broker_token_exchange, args: {subject_token_ref: t}", Some("minted a token `t`")),
    ] {
        check(step, part).await;
    }
}

#[tokio::test]
async fn a_server_that_wants_tokens_looks_at_each() {
    let text = "
pre_configuration:
  mock_oauth_servers:
  - {name: idp, scopes: [read], use_mock_clock: true, token_lifetime: 10m}
  - {name: other}
  mcp_servers:
  - name: s
    config:
      type: streamable-http
      oauth: {required: true, mock_oauth_server_ref: idp, scope: read, expected_audience: here}
      tools: [{name: t, responses: [{response: {said: yes}}]}, {name: who, echo_token: true}]
  - name: trusts
    config: {type: sse, oauth: {mock_oauth_server_ref: idp, trust_issuer_ref: other}, tools: [{name: t}]}
steps:
- {tool: test_call_protected_mcp, args: {server: s, tool: t}, expected: {success: false, status_code: 401, contains: [scope, resource_metadata]}}
- {tool: test_mint_token, args: {server: idp, name: good, sub: ann, aud: here, groups: [dev], act: {sub: bot}}, expected: {json_path: {claims.groups: [dev]}}}
- {tool: test_call_protected_mcp, args: {server: s, tool: t, token_ref: good}, expected: {status_code: 200, json_path: {said: yes}}}
- {tool: test_call_protected_mcp, args: {server: s, tool: who, token_ref: good}, expected: {json_path: {sub: ann, act.sub: bot, aud: here}}}
- {tool: test_call_protected_mcp, args: {server: s, tool: none, token_ref: good}, expected: {success: false, error_contains: [unknown tool]}}
- {tool: test_mint_token, args: {server: idp, name: elsewhere, aud: [there]}}
- {tool: test_call_protected_mcp, args: {server: s, tool: t, token_ref: elsewhere}, expected: {success: false, status_code: 401, error_contains: [invalid_token, audience]}}
- {tool: test_mint_token, args: {server: other, name: foreign, aud: here}}
- {tool: test_call_protected_mcp, args: {server: s, tool: t, token_ref: foreign}, expected: {success: false, status_code: 401, error_contains: [not known]}}
- {tool: test_advance_oauth_clock, args: {duration: 11m}, expected: {json_path: {servers: [idp]}}}
- {tool: test_call_protected_mcp, args: {server: s, tool: t, token_ref: good}, expected: {success: false, error_contains: [expired]}}
- {tool: test_mint_token, args: {server: idp, name: again, aud: here}}
- {tool: test_call_protected_mcp, args: {server: s, tool: t, token_ref: again}}
- {tool: test_revoke_token, args: {server: idp}, expected: {json_path: {revoked: 1}}}
- {tool: test_call_protected_mcp, args: {server: s, tool: t, token_ref: again}, expected: {success: false, error_contains: [revoked]}}
";
    let outcome = House::new().one(text).await;
    assert_eq!((outcome.verdict, &outcome.reason), (Verdict::Passed, &None), "{outcome:#?}");
}

#[tokio::test]
async fn each_user_comes_with_its_own_token_in_its_own_session() {
    let house = House::new();
    let text = "
steps:
- {tool: test_muster_auth_login, args: {subject: a@x.example}}
- {tool: test_create_user, args: {name: ann}, expected: {json_path: {subject: a@x.example}}}
- {tool: test_create_user, args: {name: bob}, expected: {json_path: {subject: bob}}}
- {tool: test_create_user, args: {name: bob}, expected: {success: false, error_contains: [already]}}
- {tool: echo, as_user: ann}
- {tool: echo, as_user: bob}
- {tool: test_switch_user, args: {name: ann}}
- {tool: echo}
- {tool: test_simulate_muster_reauth}
- {tool: echo}
";
    let outcome = house.one(text).await;
    assert_eq!((outcome.verdict, &outcome.reason), (Verdict::Passed, &None), "{outcome:#?}");
    let lines = house.seen.lines();
    let mut tokens: Vec<&String> = lines.iter().filter(|line| line.starts_with("token ")).collect();
    let opened = tokens.len();
    tokens.sort();
    tokens.dedup();
    // Who was there first, ann, bob, and ann again with another token.
    assert_eq!((opened, tokens.len()), (4, 4), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("call legacy/- echo")).count(), 4);
}
