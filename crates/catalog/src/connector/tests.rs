//! Connectors as people and Valinor write them, the servers that are made of them, and what is refused.

use serde_json::json;

use super::*;
use crate::governed::{GovernedDecision, RiskClass, ToolAction};
use crate::secret::SecretRef;
use crate::server::SpokenEra;

fn read_it(text: &str) -> Result<ConnectorDefinition, Vec<String>> {
    let told = |problem: &DefinitionProblem| format!("{problem} {}", problem.hint.as_deref().unwrap_or(""));
    ConnectorDefinition::of_text("crm", text).map_err(|problems| problems.iter().map(told).collect())
}

fn good(rest: &str) -> ConnectorDefinition {
    read_it(&format!("name: crm\nendpoint: https://crm.example.com/mcp\n{rest}")).unwrap()
}

#[track_caller]
fn bad(rest: &str, fragments: &[&str]) -> String {
    let said = read_it(&format!("name: crm\nendpoint: https://crm.example.com/mcp\n{rest}")).unwrap_err().join("\n");
    for fragment in fragments {
        assert!(said.contains(fragment), "`{fragment}` is not in: {said}");
    }
    said
}

#[test]
fn a_connector_in_the_words_of_valinor_is_read() {
    let document = json!({
        "name": "crm", "connector_type": "mcp", "endpoint": "https://crm.example.com/mcp",
        "auth_config": {"api_key": "vault:crm"}, "resources": [],
        "tools": ["find_contact", {
            "name": "send_mail", "action_type": "write", "risk_class": "channel_sends", "target_type": "contact",
            "target_label_template": "{{ to }}", "approval_summary_template": "Mail to {{ to }}: {{ subject }}",
        }],
    });
    let connector = read_it(&document.to_string()).unwrap();
    assert_eq!(connector.auth.kind(), ConnectorAuthKind::ApiKey);
    assert_eq!(connector.auth.vault_entry(), Some("crm"));
    assert_eq!(connector.tools["find_contact"], GovernedTool::default());
    let mail = &connector.tools["send_mail"];
    assert_eq!((mail.action, mail.risk), (Some(ToolAction::Write), Some(RiskClass::ChannelSends)));
    let summary = mail.approval_summary.as_ref().unwrap();
    assert_eq!(summary.render(&json!({"to": "a@b", "subject": "Hi"})), "Mail to a@b: Hi");
}

#[test]
fn each_credential_goes_where_its_server_reads_it() {
    for (auth, header, sent) in [
        ("{api_key: 'vault:k'}", "Authorization", "Bearer s3cret"),
        ("{type: api_key, api_key: 'vault:k', header: X-API-Key}", "X-API-Key", "s3cret"),
        ("{type: bearer, token: 'vault:k'}", "Authorization", "Bearer s3cret"),
        ("{type: basic, username: ann, password: 'vault:k'}", "Authorization", "Basic YW5uOnMzY3JldA=="),
        ("{type: header, header: X-Key, value: 'vault:k'}", "X-Key", "s3cret"),
    ] {
        let connector = good(&format!("auth: {auth}\ntools: [a]\n"));
        let server = connector.to_server();
        let Transport::Http(remote) = &server.transport else { panic!("{auth}") };
        assert_eq!(remote.headers, BTreeMap::from([(header.to_owned(), SecretRef::Vault("k".into()))]), "{auth}");
        let secret = toolcrib_base::Secret::new("s3cret");
        let value = remote.forms.get(header).map_or(secret.clone(), |form| form.value(&secret));
        assert!(value.matches(sent), "{auth}");
        assert_eq!(server.auth.as_ref().map(|auth| auth.kind), Some(AuthType::None), "{auth}");
    }
    for none in ["", "auth: {}\n", "auth: null\n", "auth: {type: none}\n"] {
        let connector = good(&format!("{none}tools: [a]\n"));
        assert_eq!((connector.auth.kind(), connector.auth.vault_entry()), (ConnectorAuthKind::None, None));
    }
    let client = "auth: {type: oauth2, client_id: app, client_secret: 'vault:k', token_url: 'https://a.example/t', scope: 'a b'}\n";
    let auth = good(client).to_server().auth.unwrap();
    assert_eq!((auth.kind, auth.client_id.as_deref()), (AuthType::ClientCredentials, Some("app")));
    assert_eq!(auth.scopes, ["a", "b"]);
    let login = good("auth: {type: oauth2, scope: read}\n").to_server();
    assert_eq!((login.auth.unwrap().kind, login.era), (AuthType::OAuth, SpokenEra::Auto));
}

#[test]
fn a_secret_is_in_the_vault_or_refused_without_being_repeated() {
    for auth in [
        "{api_key: hunter2hunter2}",
        "{type: bearer, token: hunter2hunter2}",
        "{type: basic, username: ann, password: hunter2hunter2}",
        "{type: header, header: X-Key, value: hunter2hunter2}",
        "{type: oauth2, client_id: a, client_secret: hunter2hunter2}",
        "{type: api_key, api_key: 'env:hunter2hunter2'}",
        "{type: api_key, api_key: 'file:hunter2hunter2'}",
        "{type: api_key, api_key: 'user:hunter2hunter2'}",
        "{type: nothing, token: hunter2hunter2}",
        "{type: bearer, token: 'vault:k', api_key: hunter2hunter2}",
        "{refresh_token: hunter2hunter2}",
    ] {
        let said = bad(&format!("auth: {auth}\n"), &["auth"]);
        assert!(!said.contains("hunter2"), "{said}");
    }
    bad("auth: {token: hunter2}\n", &["crm.yaml:3:", "`auth.token`", "got a value", "secret set NAME", "vault:NAME"]);
    bad("auth: {api_key: 'env:KEY'}\n", &["expected a reference to the vault, got another place"]);
    bad("auth: {refresh_token: 'vault:r', type: oauth2}\n", &["auth.refresh_token", "toolcrib login"]);
    let said = read_it("name: crm\nendpoint: https://ann:hunter2@crm.example.com/mcp\n").unwrap_err().join("\n");
    assert!(said.contains("without a user") && !said.contains("hunter2"), "{said}");
    let said = read_it("name: crm\nendpoint: https://crm.example.com/mcp?key=hunter2\n").unwrap_err().join("\n");
    assert!(said.contains("a query") && !said.contains("hunter2"), "{said}");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    bad("auth: {type: bearer}\n", &["`auth.token`", "expected a reference to the secret, got nothing"]);
    bad("auth: {type: basic, username: 'a:b', password: 'vault:k'}\n", &["auth.username", "without a colon"]);
    bad("auth: {type: header, header: 'X Y', value: 'vault:k'}\n", &["auth.header", "a header's name"]);
    bad("auth: {type: header, header: Host, value: 'vault:k'}\n", &["auth.header", "one of the protocol"]);
    bad("auth: {username: ann}\n", &["auth.type", "the kind of the credential"]);
    bad("auth: {type: oauth2, client_secret: 'vault:k'}\n", &["auth.client_id"]);
    bad("auth: {type: oauth2, token_url: 'https://a.example/t'}\n", &["auth.client_secret"]);
    bad("auth: {type: bearer, token: 'vault:k', header: X}\n", &["auth.header", "has no meaning with `type: bearer`"]);
    bad("auth: {}\nauth_config: {}\n", &["auth_config", "is `auth`"]);
    bad("type: rest\n", &["`type`", "expected `mcp`"]);
    bad("tools: [a, a]\n", &["tools[1]", "each tool once"]);
    bad("tools: ['a*']\n", &["tools[0]", "the pattern"]);
    bad("tools: [{action_type: read}]\n", &["tools[0].name"]);
    bad("tools: [{name: a, action_type: write}]\n", &["tools[0].risk_class", "of a tool that writes"]);
    bad("tools: [{name: a, action_type: delete}]\n", &["action_type", "`read`, `write`"]);
    bad("status: on\n", &["status", "`active`"]);
    let template = "tools:\n- name: a\n  action_type: read\n  approval_summary_template: \"Open {{ title\"\n";
    bad(template, &["crm.yaml:6:", "tools[0].approval_summary_template", "`}}` after `{{`", "{{ title }}"]);
    bad("tools: [{name: a, action_type: read, target_type: \"a\\u200b\"}]\n", &["target_type", "a screen shows"]);
}

#[test]
fn risk_classes_become_the_labels_that_policies_read() {
    let connector = good(
        "tools:\n- {name: open, action_type: write, risk_class: external_writes, target_type: issue}\n\
         - {name: odd, risk_class: daring}\n- {name: mute, action_type: ''}\n- {name: look, action_type: read}\n- plain\n",
    );
    let server = connector.to_server();
    let labels = |tool: &str| {
        let found = server.tool_labels.iter().find(|labels| labels.pattern.matches(tool));
        found.map(|found| found.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>())
    };
    assert_eq!(labels("open").unwrap(), ["action_type=write", "risk=external_writes", "target_type=issue"]);
    assert_eq!(labels("odd").unwrap(), ["risk=unknown"]);
    assert_eq!(labels("mute").unwrap(), ["risk=unknown"]);
    assert_eq!(labels("look").unwrap(), ["action_type=read"]);
    assert_eq!(labels("plain"), None);
    assert!(server.has_tool("plain") && !server.has_tool("other") && !server.has_prompts());
    assert!(!server.has_resource("crm://x"));
    assert!(!good("").to_server().has_tool("plain"), "no list is no tool");
}

#[test]
fn a_decision_of_its_own_becomes_a_class_that_decides_the_same() {
    for (risk, decision, label) in [
        (Some(RiskClass::DestructiveActions), None, Some(RiskClass::DestructiveActions)),
        (Some(RiskClass::DestructiveActions), Some(GovernedDecision::Allow), None),
        (Some(RiskClass::ExternalWrites), Some(GovernedDecision::Block), Some(RiskClass::Unknown)),
        (Some(RiskClass::ChannelSends), Some(GovernedDecision::RequireApproval), Some(RiskClass::ExternalWrites)),
        (None, Some(GovernedDecision::Block), Some(RiskClass::Unknown)),
        (None, None, None),
    ] {
        let tool = GovernedTool { risk, decision, ..GovernedTool::default() };
        assert_eq!(tool.risk_label(), label, "{risk:?} {decision:?}");
    }
}

#[test]
fn a_connector_is_a_server_of_the_catalogue_unless_a_server_has_its_name() {
    let home = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = home.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let text = "name: crm\nendpoint: https://crm.example.com/mcp\ntools: [a]\n";
    write("connectors/crm.yaml", text);
    write("connectors/off.yaml", &text.replace("crm\n", "off\nstatus: inactive\n"));
    write("agents/a.yaml", "name: a\nmodel: demo\nconnectors: [crm, gone]\n");
    let own = "connectors: [{name: own, endpoint: 'https://own.example.com/mcp', tools: [x]}]\n";
    write("agents/b.yaml", &format!("name: b\nmodel: demo\n{own}"));
    let loaded = crate::load(home.path());
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert!(loaded.warnings[0].to_string().contains("the connector `gone`, which does not exist"));
    let names: Vec<&str> = loaded.servers.keys().map(ServerName::as_str).collect();
    assert_eq!(names, ["crm", "own"]);
    assert!(loaded.servers["own"].has_tool("x"));

    write("servers/crm.yaml", "name: crm\ncommand: run\n");
    write("agents/c.yaml", &format!("name: c\nmodel: demo\n{}", own.replace("own.example", "other.example")));
    let (loaded, changes) = crate::reload(&loaded, home.path());
    assert!(changes.servers.changed.iter().any(|name| name.as_str() == "crm"));
    let told: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
    let told = told.join("\n");
    assert!(told.contains("connectors/crm.yaml: `name`: expected another name: the server `crm`"), "{told}");
    assert!(told.contains("agent `a` describes another connector `crm`"), "{told}");
    assert!(told.contains("agent `c` describes another connector `own`"), "{told}");
    assert!(loaded.servers["crm"].connector.is_none(), "the file of a server counts");
}

#[test]
fn an_agent_has_the_tools_that_its_connectors_let_it_have() {
    let agent = |connectors: &str| {
        crate::AgentDefinition::of_text("a", &format!("name: a\nmodel: demo\nconnectors: {connectors}\n")).unwrap()
    };
    let server = good(
        "auth: {api_key: 'vault:k'}\ntools: [plain, {name: open, action_type: write, risk_class: external_writes}]\n",
    )
    .to_server();
    let has = |connectors: &str, tool: &str| agent(connectors).has_of_connectors(&server, tool);
    assert!(has("[crm]", "open") && has("[crm]", "plain") && !has("[crm]", "other"));
    assert!(!has("[]", "open") && !has("[other]", "open"));
    let whole = |rest: &str| format!("[{{name: crm, endpoint: 'https://crm.example.com/mcp', {rest}}}]");
    assert!(has(&whole("tools: [open]"), "open") && !has(&whole("tools: [open]"), "plain"));
    assert!(!has(&whole(""), "open"), "a list that is not there allows nothing");
    // What is stricter in the document is kept from the agent; what is looser changes nothing of what policies decide.
    let governed = |decision: &str| {
        whole(&format!("tools: [plain], governed_tools: {{plain: {{action_type: read, decision: {decision}}}}}"))
    };
    assert!(has(&governed("allow"), "plain"));
    assert!(!has(&governed("block"), "plain") && !has(&governed("require_approval"), "plain"));
    let elsewhere = "[{name: crm, endpoint: 'https://evil.example.com/mcp', tools: [open]}]";
    assert!(!has(elsewhere, "open"), "another server than the one that there is");
    assert!(!has(&whole("tools: [open], auth: {api_key: 'vault:other'}"), "open"), "another credential");
    let none = crate::AgentDefinition::of_text("a", "name: a\nmodel: demo\n").unwrap();
    assert!(none.has_of_connectors(&server, "other"), "nothing is said of connectors");
    let plain = ServerDefinition { connector: None, ..server.clone() };
    assert!(!agent("[crm]").has_of_connectors(&plain, "open"), "a plain server is no connector");
}
