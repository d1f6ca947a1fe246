//! Policies from texts to decisions.

mod agreement;
mod names;

use toolcrib_base::{CallChain, Glob, Identity, PrincipalId, ProfileName, Proof, Role, ServerName, Timestamp, ToolId};

use super::*;
use crate::{Act, Annotations, Reference, ToolDigest};

const OPERATIONS: [&str; 3] = ["server_list", "server_remove", "status"];

fn operations() -> Vec<String> {
    OPERATIONS.map(str::to_owned).to_vec()
}

fn compile(text: &str) -> Result<Policies, Vec<Fault>> {
    Policies::compile(&[PolicyText { file: "team.cedar".to_owned(), text: text.to_owned() }], &operations())
}

/// Who asks, in few words.
#[derive(Debug)]
struct Asker {
    principal: PrincipalId,
    role: Role,
    identity: Identity,
    profile: ProfileName,
}

fn who(principal: &str, role: Role, groups: &[&str]) -> Asker {
    let mut identity = Identity::by(Proof::AccessToken);
    identity.issuer = Some("acme".into());
    identity.groups = groups.iter().map(|it| (*it).into()).collect();
    let profile = ProfileName::new("work").expect("a name");
    Asker { principal: PrincipalId::new(principal), role, identity, profile }
}

impl Asker {
    fn subject(&self) -> Subject<'_> {
        let Self { principal, role, identity, profile } = self;
        Subject { principal, role: *role, identity, profile, door: "mcp" }
    }
}

fn ann() -> Asker {
    who("user:acme/ann", Role::Member, &["dev"])
}

fn tool(id: &str, read_only: bool) -> Act {
    let annotations = Annotations { read_only: Some(read_only), ..Annotations::default() };
    Act::CallTool { tool: ToolId::parse(id).expect("an id"), annotations }
}

fn labels() -> LabelTable {
    let pairs = |of: &[(&str, &str)]| of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let of_tools = |of: &[(&str, &[(&str, &str)])]| {
        let labels = |(pattern, of): &(&str, &[(&str, &str)])| (Glob::new(pattern).expect("a pattern"), pairs(of));
        of.iter().map(labels).collect()
    };
    let name = |name: &str| ServerName::new(name).expect("a name");
    let governed: &[(&str, &[(&str, &str)])] = &[
        ("send_*", &[("risk", "channel_sends")]),
        ("post_*", &[("risk", "external_writes")]),
        ("wipe_*", &[("risk", "destructive_actions")]),
        ("read_*", &[("risk", "sensitive_data_access")]),
        ("book_*", &[("risk", "credentialed_third_party_actions")]),
        ("recall_*", &[("risk", "cross_scope_memory_access")]),
        ("odd_*", &[("risk", "daring")]),
        ("none_*", &[("risk", "")]),
        ("*_dev", &[("env", "dev")]),
        ("*_two", &[("risk", "channel_sends"), ("team", "ops")]),
    ];
    LabelTable::new()
        .server(&name("prod"), &pairs(&[("env", "prod")]), Vec::new())
        .server(&name("mixed"), &pairs(&[("env", "prod"), ("team", "web")]), of_tools(governed))
        .workflow("nightly", &pairs(&[("env", "prod")]))
}

/// 2026-11-25, a Wednesday, at noon in UTC.
const NOON: Timestamp = Timestamp(1_795_608_000_000);

fn decide(policies: &Policies, who: &Asker, act: &Act, arguments: &str) -> PolicyVerdict {
    let moment = Moment { arguments: Some(arguments.as_bytes()), ..Moment::at(NOON) };
    let class = policies.class(&who.subject());
    let ruling = class.decide(act, &labels(), &moment);
    // What is decided with hidden words is what is not shown, and the other way round.
    let is_hidden = matches!(ruling, PolicyVerdict::Deny { hidden: true, .. });
    assert_eq!(class.shows(act, &labels()), !is_hidden, "{act} {arguments}");
    ruling
}

/// The ruling in few words: `yes ID`, `hidden ID`, `no ID`, `confirm ID`, `approve ID`; `-` where no policy did it.
fn words(ruling: &PolicyVerdict) -> String {
    match ruling {
        PolicyVerdict::Permit(by) => format!("yes {}", by.as_deref().unwrap_or("-")),
        PolicyVerdict::Deny { by, hidden } => {
            let by = by.as_ref().map_or("-", |rule| &*rule.id);
            format!("{} {by}", if *hidden { "hidden" } else { "no" })
        }
        PolicyVerdict::Ask { by, ask: Ask::Confirm { .. } } => format!("confirm {}", by.id),
        PolicyVerdict::Ask { by, ask: Ask::Approve { group, .. } } => format!("approve {} {group}", by.id),
    }
}

#[track_caller]
fn check_ruling(text: &str, who: &Asker, act: &Act, arguments: &str, expect: &str) {
    let shown = text.chars().take(500).collect::<String>();
    let policies = compile(text).unwrap_or_else(|faults| panic!("{shown}: {faults:?}"));
    assert_eq!(words(&decide(&policies, who, act, arguments)), expect, "{shown}\n{act} {arguments}");
}

#[track_caller]
fn check_fault(text: &str, line: Option<usize>, expect: &str) {
    let faults = compile(text).expect_err("it is bad");
    let said: Vec<String> = faults.iter().map(|it| format!("{it} | {}", it.hint.as_deref().unwrap_or(""))).collect();
    let shown = text.chars().take(500).collect::<String>();
    assert!(said.iter().any(|it| it.contains(expect)), "{shown}\n{expect}\n{said:#?}");
    assert_eq!(faults[0].line, line, "{said:#?}");
}

#[test]
fn without_other_policies_the_baseline_says_what_roles_may_do() {
    let [reads, writes] = [tool("files/read", true), tool("files/write", false)];
    let operation = |name: &str, needs_admin, read_only| Act::Operation {
        name: name.into(),
        needs_admin,
        annotations: Annotations { read_only: Some(read_only), ..Annotations::default() },
    };
    let open = operation("status", false, true);
    let looks = operation("server_list", true, true);
    let removes = operation("server_remove", true, false);
    let read = Act::ReadResource { server: ServerName::new("files").expect("a name"), uri: "file:///a".into() };
    let policies = Policies::compile(&[], &operations()).expect("the baseline is good");
    for (role, expect) in [
        (Role::Viewer, "yes no yes yes no no"),
        (Role::Member, "yes yes yes yes no no"),
        (Role::Operator, "yes yes yes yes yes no"),
        (Role::Admin, "yes yes yes yes yes yes"),
        (Role::Owner, "yes yes yes yes yes yes"),
    ] {
        let who = who("user:acme/ann", role, &[]);
        let found = [&reads, &writes, &read, &open, &looks, &removes];
        let found = found.map(|act| match decide(&policies, &who, act, "{}") {
            PolicyVerdict::Permit(_) => "yes",
            _ => "no",
        });
        assert_eq!(found.join(" "), expect, "{role}");
    }
}

#[test]
fn what_is_shipped_passes_the_check_of_types() {
    let as_files = SHIPPED.map(|(file, text)| PolicyText { file: file.to_owned(), text: text.to_owned() });
    let compiled = Policies::compile(&as_files, &operations());
    assert_eq!(compiled.map(|it| it.rules().count()).map_err(|it| format!("{it:?}")), Ok(16));
}

/// The rows of Valinor's governance: a class of risk, and its default decision.
#[test]
fn each_risk_class_has_the_decision_of_valinor() {
    for (id, expect) in [
        ("mixed/post_issue", "approve risk-external-writes "),
        ("mixed/wipe_disk", "no risk-destructive-actions"),
        ("mixed/read_salaries", "no risk-sensitive-data-access"),
        ("mixed/send_mail", "yes baseline-member"),
        ("mixed/book_flight", "approve risk-credentialed-third-party-actions "),
        ("mixed/recall_all", "no risk-cross-scope-memory-access"),
        ("mixed/odd_thing", "no risk-unknown"),
        ("mixed/none_thing", "no risk-unknown"),
        ("mixed/other", "yes baseline-member"),
        ("files/wipe_disk", "yes baseline-member"),
        // With two classes the stricter counts.
        ("mixed/wipe_two", "no risk-destructive-actions"),
        ("mixed/send_two", "yes baseline-member"),
    ] {
        check_ruling("", &ann(), &tool(id, false), "{}", expect);
    }
    // What a server says of its tool lifts nothing.
    check_ruling("", &ann(), &tool("mixed/wipe_disk", true), "{}", "no risk-destructive-actions");
    // The order is: what the team says for some, what it says for all, what is shipped, blocked.
    let own = r#"@id("wipes") @approve("ops")
forbid (principal, action == Action::"call", resource in Label::"risk=destructive_actions") unless { principal in Group::"acme/root" };"#;
    let texts = [PolicyText { file: RISK_FILE.to_owned(), text: own.to_owned() }];
    let policies = Policies::compile(&texts, &operations()).expect("good");
    let wipe = tool("mixed/wipe_disk", false);
    assert_eq!(words(&decide(&policies, &ann(), &wipe, "{}")), "approve wipes ops");
    let root = who("user:acme/ann", Role::Member, &["root"]);
    assert_eq!(words(&decide(&policies, &root, &wipe, "{}")), "yes baseline-member");
}

#[test]
fn tools_have_the_labels_of_their_server_unless_they_have_others() {
    let by = |label: &str| {
        format!(r#"@id("it") forbid (principal, action == Action::"call", resource in Label::"{label}");"#)
    };
    check_ruling(&by("env=prod"), &ann(), &tool("mixed/other", false), "{}", "hidden it");
    check_ruling(&by("env=prod"), &ann(), &tool("mixed/clean_dev", false), "{}", "yes baseline-member");
    check_ruling(&by("env=dev"), &ann(), &tool("mixed/clean_dev", false), "{}", "hidden it");
    check_ruling(&by("env=dev"), &ann(), &tool("mixed/other", false), "{}", "yes baseline-member");
    check_ruling(&by("team=web"), &ann(), &tool("mixed/clean_dev", false), "{}", "hidden it");
    let both = r#"@id("it") forbid (principal, action == Action::"call", resource) when { resource.labels.containsAll(["team=ops", "env=prod"]) };"#;
    check_ruling(both, &ann(), &tool("mixed/send_two", false), "{}", "hidden it");
    check_ruling(both, &ann(), &tool("mixed/send_one", false), "{}", "yes baseline-member");
    let runs = r#"@id("it") forbid (principal, action == Action::"run", resource in Label::"env=prod");"#;
    check_ruling(runs, &ann(), &tool("workflow/nightly", false), "{}", "hidden it");
    check_ruling(runs, &ann(), &tool("workflow/other", false), "{}", "yes baseline-member");
    // Prompts and resources have those of their server.
    let server = ServerName::new("mixed").expect("a name");
    let prompt = Act::GetPrompt { server, name: "clean_dev".into() };
    check_ruling(&by("env=dev").replace("call", "get"), &ann(), &prompt, "{}", "yes baseline-read");
    check_ruling(&by("env=prod").replace("call", "get"), &ann(), &prompt, "{}", "hidden it");
}

#[test]
fn a_server_is_hidden_only_if_no_tool_of_it_could_be_shown() {
    let who = ann();
    let shows = |text: &str, server: &str| {
        let policies = compile(text).expect("good");
        policies.class(&who.subject()).shows_server(&ServerName::new(server).expect("a name"), &labels())
    };
    let all = r#"forbid (principal, action, resource in Label::"env=prod");"#;
    assert!(!shows(all, "prod"));
    assert!(shows(all, "mixed"), "a tool with `env=dev` is there");
    let twice = format!(r#"{all} forbid (principal, action, resource in Server::"mixed");"#);
    assert!(!shows(&twice, "mixed"), "whatever labels its tools have");
    let prompts = r#"forbid (principal, action in [Action::"read", Action::"get"], resource);"#;
    for hint in ["readOnly", "destructive", "idempotent", "openWorld"] {
        for negated in ["", "!"] {
            let text = format!(
                r#"{prompts} forbid (principal, action == Action::"call", resource) when {{ {negated}resource.{hint} }};"#
            );
            assert!(shows(&text, "files"), "{text}");
        }
        let text = format!(
            r#"{prompts} forbid (principal, action == Action::"call", resource) when {{ resource.{hint} }}; forbid (principal, action == Action::"call", resource) unless {{ resource.{hint} }};"#
        );
        assert!(!shows(&text, "files"), "{text}");
    }
}

#[test]
fn the_digest_of_a_tool_is_an_attribute() {
    let digest = ToolDigest([0xab; 32]);
    let text = format!(
        r#"@id("pinned") forbid (principal, action == Action::"call", resource == Tool::"bank/pay") unless {{ resource has digest && resource.digest == "{digest}" }};"#
    );
    let with = |digest: Option<ToolDigest>| {
        let Act::CallTool { tool, annotations } = tool("bank/pay", false) else { unreachable!("it is a call") };
        Act::CallTool { tool, annotations: Annotations { digest, ..annotations } }
    };
    check_ruling(&text, &ann(), &with(Some(digest)), "{}", "yes baseline-member");
    check_ruling(&text, &ann(), &with(Some(ToolDigest([0; 32]))), "{}", "hidden pinned");
    check_ruling(&text, &ann(), &with(None), "{}", "hidden pinned");
    let policies = compile(&text).expect("good");
    let class = policies.class(&who("user:acme/ann", Role::Member, &[]).subject());
    for digest in [Some(digest), Some(ToolDigest([0; 32])), Some(digest), None] {
        assert_eq!(class.shows(&with(digest), &labels()), digest == Some(ToolDigest([0xab; 32])), "{digest:?}");
    }
    assert!(class.looks_at_digests());
    assert!(!compile("").expect("good").class(&ann().subject()).looks_at_digests());
}

#[test]
fn who_approves_may_depend_on_the_digest_of_the_tool() {
    let text = format!(
        r#"@id("known") permit (principal, action == Action::"approve", resource) when {{ resource has digest && resource.digest == "{}" }};"#,
        ToolDigest([0xab; 32])
    );
    let policies = compile(&text).expect("good");
    let who = ann();
    let class = policies.class(&who.subject());
    for digest in [Some([0xab; 32]), Some([0; 32]), None, Some([0xab; 32])] {
        let Act::CallTool { tool, annotations } = tool("bank/pay", false) else { unreachable!("it is a call") };
        let act = Act::Approve { tool, annotations: Annotations { digest: digest.map(ToolDigest), ..annotations } };
        let may = matches!(class.decide(&act, &labels(), &Moment::at(NOON)), PolicyVerdict::Permit(_));
        assert_eq!(may, digest == Some([0xab; 32]), "{digest:?}");
    }
}

#[test]
fn a_prompt_with_a_colon_in_its_name_is_a_prompt_and_a_template_is_a_resource() {
    let server = || ServerName::new("docs").expect("a name");
    let complete = |of, name: &str| Act::Complete { server: server(), of, name: name.into() };
    let prompts = r#"@id("it") forbid (principal, action == Action::"complete", resource is Prompt);"#;
    let resources = r#"@id("it") forbid (principal, action == Action::"complete", resource is Resource);"#;
    for name in ["review", "team:review", "docs://x/{name}"] {
        check_ruling(prompts, &ann(), &complete(Reference::Prompt, name), "{}", "hidden it");
        check_ruling(resources, &ann(), &complete(Reference::Prompt, name), "{}", "yes baseline-read");
        check_ruling(prompts, &ann(), &complete(Reference::Resource, name), "{}", "yes baseline-read");
        check_ruling(resources, &ann(), &complete(Reference::Resource, name), "{}", "hidden it");
    }
    let one = r#"@id("it") forbid (principal, action == Action::"complete", resource == Prompt::"docs/team:review");"#;
    check_ruling(one, &ann(), &complete(Reference::Prompt, "team:review"), "{}", "hidden it");
    check_ruling(one, &ann(), &complete(Reference::Resource, "team:review"), "{}", "yes baseline-read");
}

#[test]
fn an_outlook_says_what_holds_for_every_call() {
    let text = r#"
@id("big") forbid (principal, action == Action::"call", resource == Tool::"bank/pay") when { context.arguments has amount && context.arguments.amount > 100 };
@id("late") forbid (principal, action == Action::"call", resource == Tool::"bank/close") when { context.time.toTime() > duration("11h") };
@id("never") forbid (principal, action == Action::"call", resource == Tool::"bank/wipe");
@id("asks") @confirm("") forbid (principal, action == Action::"call", resource == Tool::"bank/ask");
@id("extra") permit (principal, action == Action::"call", resource == Tool::"bank/more") when { context.arguments has amount };
@id("only-recorded") @mode("record") forbid (principal, action == Action::"call", resource == Tool::"bank/more") when { context.arguments has amount };"#;
    let policies = compile(text).expect("good");
    let (member, viewer) = (ann(), who("user:acme/eve", Role::Viewer, &[]));
    for (who, id, at, expect) in [
        (&member, "bank/pay", None, "open big"),
        (&member, "bank/pay", Some(NOON), "open big"),
        (&member, "bank/close", None, "open late"),
        (&member, "bank/close", Some(NOON), "no late"),
        (&member, "bank/close", Some(Timestamp(NOON.0 - 3_600_000 * 2)), "yes baseline-member"),
        (&member, "bank/wipe", None, "hidden never"),
        (&member, "bank/ask", None, "confirm asks"),
        // What is permitted anyhow does not depend on one more permit, and a record decides nothing.
        (&member, "bank/more", None, "yes baseline-member"),
        (&viewer, "bank/more", None, "open extra"),
        (&viewer, "bank/pay", None, "hidden -"),
    ] {
        let found = match policies.class(&who.subject()).outlook(&tool(id, false), &labels(), at) {
            Outlook::Settled(verdict) => words(&verdict),
            Outlook::Open(open) => {
                assert!(open.iter().all(|it| it.text.contains("context")), "{open:?}");
                format!("open {}", open.iter().map(|it| &*it.rule.id).collect::<Vec<_>>().join(" "))
            }
        };
        assert_eq!(found, expect, "{id} at {at:?} by {:?}", who.role);
    }
}

#[test]
fn policies_about_the_time_follow_the_clock_by_the_second() {
    let text = r#"@id("late") forbid (principal, action == Action::"call", resource) when { context.time.toTime() >= duration("12h1s") };"#;
    let policies = compile(text).expect("good");
    let (who, act) = (ann(), tool("files/write", false));
    let class = policies.class(&who.subject());
    for (after, expect) in [
        (0, "yes baseline-member"),
        (999, "yes baseline-member"),
        (1_000, "no late"),
        (1_999, "no late"),
        (-1, "yes baseline-member"),
        (500, "yes baseline-member"),
    ] {
        let moment = Moment::at(Timestamp(NOON.0 + after));
        assert_eq!(words(&class.decide(&act, &labels(), &moment)), expect, "{after} ms after noon");
    }
}

#[test]
fn forbidding_wins_and_hides_unless_it_says_otherwise() {
    let writes = tool("prod/delete", false);
    let text = r#"@id("prod") forbid (principal, action == Action::"call", resource in Server::"prod");"#;
    check_ruling(text, &ann(), &writes, "{}", "hidden prod");
    check_ruling(text, &ann(), &tool("files/write", false), "{}", "yes baseline-member");
    check_ruling(&text.replace("@id", r#"@deny("said") @id"#), &ann(), &writes, "{}", "no prod");
    let by_label = r#"@id("label") forbid (principal, action, resource in Label::"env=prod");"#;
    check_ruling(by_label, &ann(), &writes, "{}", "hidden label");
    let by_hint = r#"@id("hint") forbid (principal, action == Action::"call", resource in Server::"prod") unless { resource.readOnly };"#;
    check_ruling(by_hint, &ann(), &writes, "{}", "hidden hint");
    check_ruling(by_hint, &ann(), &tool("prod/read", true), "{}", "yes baseline-viewer");
    let by_group = r#"@id("group") forbid (principal in Group::"acme/dev", action, resource is Tool) when { resource.destructive };"#;
    check_ruling(by_group, &ann(), &writes, "{}", "hidden group");
    check_ruling(by_group, &who("user:acme/ann", Role::Member, &["ops"]), &writes, "{}", "yes baseline-member");
    let by_name = r#"@id("name") forbid (principal, action, resource is Tool) when { resource.name like "del*" };"#;
    check_ruling(by_name, &ann(), &writes, "{}", "hidden name");
    check_ruling(by_name, &ann(), &tool("prod/add", false), "{}", "yes baseline-member");
    let by_id = r#"@id("id") forbid (principal == User::"acme/ann", action, resource == Tool::"prod/delete");"#;
    check_ruling(by_id, &ann(), &writes, "{}", "hidden id");
    check_ruling(by_id, &who("user:acme/bob", Role::Member, &["dev"]), &writes, "{}", "yes baseline-member");
    check_ruling(by_id, &ann(), &tool("prod/add", false), "{}", "yes baseline-member");
}

#[test]
fn a_replaced_baseline_denies_what_no_policy_permits() {
    let texts = [PolicyText {
        file: BASELINE_FILE.to_owned(),
        text: r#"@id("few") permit (principal, action, resource in Server::"files");
                 @id("some") permit (principal, action == Action::"call", resource in Server::"bank") when { context.arguments has amount && context.arguments.amount < 10 };"#
            .to_owned(),
    }];
    let policies = Policies::compile(&texts, &operations()).expect("good");
    for (id, arguments, expect) in [
        ("files/read", "{}", "yes few"),
        ("mail/send", "{}", "hidden -"),
        ("bank/pay", r#"{"amount": 9}"#, "yes some"),
        ("bank/pay", r#"{"amount": 10}"#, "no -"),
        ("bank/pay", r#"{"amount": "9"}"#, "no -"),
        ("bank/pay", "{}", "no -"),
    ] {
        assert_eq!(words(&decide(&policies, &ann(), &tool(id, false), arguments)), expect, "{id} {arguments}");
    }
}

#[test]
fn arguments_of_an_odd_type_get_around_nothing() {
    let text = r#"@id("big") forbid (principal, action == Action::"call", resource) when { context.arguments has amount && context.arguments.amount > 100 };"#;
    for (arguments, expect) in [
        (r#"{"amount": 100}"#, "yes baseline-member"),
        (r#"{"amount": 100.0}"#, "yes baseline-member"),
        ("{}", "yes baseline-member"),
        (r#"{"amount": 101}"#, "no big"),
        (r#"{"amount": 1e2}"#, "yes baseline-member"),
        (r#"{"amount": 100.5}"#, "no big"),
        (r#"{"amount": "101"}"#, "no big"),
        (r#"{"amount": "1"}"#, "no big"),
        (r#"{"amount": null}"#, "no big"),
        (r#"{"amount": [1]}"#, "no big"),
        (r#"{"amount": 9223372036854775807}"#, "no big"),
        (r#"{"amount": 9223372036854775808}"#, "no big"),
        (r#"{"amount": 18446744073709551615}"#, "no big"),
        (r#"{"amount": -1e19}"#, "no big"),
        (r#"{"amount": true}"#, "no big"),
        (r#"{"amount": {"amount": 1}}"#, "no big"),
        (r#"{"amount": 1e300}"#, "no big"),
        (r#"{"amount": -9223372036854775808}"#, "yes baseline-member"),
    ] {
        check_ruling(text, &ann(), &tool("bank/pay", false), arguments, expect);
    }
    // 2^53 and one more are one float: what was written is not known.
    let odd = r#"@id("odd") permit (principal, action == Action::"call", resource) when { context.arguments has id && context.arguments.id == 9007199254740992 };"#;
    for (arguments, expect) in [
        (r#"{"id": 9007199254740992}"#, "yes odd"),
        (r#"{"id": 9007199254740993}"#, "no -"),
        (r#"{"id": 9007199254740992.0}"#, "no -"),
        (r#"{"id": 9007199254740993.0}"#, "no -"),
        (r#"{"id": 18446744073709551615}"#, "no -"),
        (r#"{"id": -9007199254740992}"#, "no -"),
    ] {
        let viewer = who("user:acme/eve", Role::Viewer, &[]);
        check_ruling(odd, &viewer, &tool("bank/pay", false), arguments, expect);
    }
    let path = r#"@id("path") forbid (principal, action == Action::"call", resource) unless { context.arguments has path && context.arguments.path like "/data/*" };"#;
    for (arguments, expect) in [
        (r#"{"path": "/data/a"}"#, "yes baseline-viewer"),
        (r#"{"path": "/etc/passwd"}"#, "no path"),
        (r#"{"path": ["/data/a"]}"#, "no path"),
        ("{}", "no path"),
        ("no json", "no path"),
    ] {
        check_ruling(path, &ann(), &tool("files/read", true), arguments, expect);
    }
    let deep = r#"@id("deep") forbid (principal, action == Action::"call", resource) when { context.arguments has options && context.arguments.options has force && context.arguments.options.force };"#;
    check_ruling(deep, &ann(), &tool("a/b", false), r#"{"options": {"force": true}}"#, "no deep");
    check_ruling(deep, &ann(), &tool("a/b", false), r#"{"options": {"force": false}}"#, "yes baseline-member");
    check_ruling(deep, &ann(), &tool("a/b", false), r#"{"options": {"force": 1}}"#, "no deep");
    check_ruling(deep, &ann(), &tool("a/b", false), r#"{"options": 1}"#, "no deep");
    let set = r#"@id("set") forbid (principal, action == Action::"call", resource) when { context.arguments has to && !["a@x.com", "b@x.com"].containsAll(context.arguments.to) };"#;
    check_ruling(set, &ann(), &tool("a/b", false), r#"{"to": ["a@x.com"]}"#, "yes baseline-member");
    check_ruling(set, &ann(), &tool("a/b", false), r#"{"to": ["a@x.com", "c@x.com"]}"#, "no set");
    check_ruling(set, &ann(), &tool("a/b", false), r#"{"to": "c@x.com"}"#, "no set");
    let decimal = r#"@id("price") forbid (principal, action == Action::"call", resource) when { context.arguments has price && context.arguments.price.greaterThan(decimal("9.99")) };"#;
    check_ruling(decimal, &ann(), &tool("a/b", false), r#"{"price": 9.98}"#, "yes baseline-member");
    check_ruling(decimal, &ann(), &tool("a/b", false), r#"{"price": 9}"#, "yes baseline-member");
    check_ruling(decimal, &ann(), &tool("a/b", false), r#"{"price": 10}"#, "no price");
    check_ruling(decimal, &ann(), &tool("a/b", false), r#"{"price": 9.999}"#, "no price");
    check_ruling(decimal, &ann(), &tool("a/b", false), r#"{"price": 0.12345}"#, "no price");
}

#[test]
fn policies_that_read_one_argument_in_two_ways_do_not_disturb_each_other() {
    let text = r#"
@id("text") forbid (principal, action == Action::"call", resource in Server::"a") when { context.arguments has id && context.arguments.id == "x" };
@id("number") forbid (principal, action == Action::"call", resource in Server::"b") when { context.arguments has id && context.arguments.id == 7 };"#;
    check_ruling(text, &ann(), &tool("a/t", false), r#"{"id": "x"}"#, "no text");
    check_ruling(text, &ann(), &tool("a/t", false), r#"{"id": "y"}"#, "yes baseline-member");
    check_ruling(text, &ann(), &tool("b/t", false), r#"{"id": 7}"#, "no number");
    check_ruling(text, &ann(), &tool("b/t", false), r#"{"id": 8}"#, "yes baseline-member");
}

#[test]
fn an_annotated_forbid_asks_once_all_else_permits() {
    let text = r#"
@id("ask-ops") @approve("ops") @expires("30m")
forbid (principal, action == Action::"call", resource in Server::"prod") unless { resource.readOnly };
@id("ask-me") @confirm("") @remember("10m")
forbid (principal, action == Action::"call", resource) when { resource.destructive };
@id("never") @deny("said") forbid (principal, action == Action::"call", resource == Tool::"prod/never");
@id("late") @approve("night") forbid (principal, action == Action::"call", resource in Server::"late") when { context.time.toTime() > duration("11h") };"#;
    check_ruling(text, &ann(), &tool("prod/delete", false), "{}", "approve ask-ops ops");
    check_ruling(text, &ann(), &tool("prod/read", true), "{}", "yes baseline-viewer");
    check_ruling(text, &ann(), &tool("files/delete", false), "{}", "confirm ask-me");
    check_ruling(text, &ann(), &tool("late/do", false), "{}", "approve late night");
    check_ruling(text, &ann(), &tool("prod/never", false), "{}", "no never");
    // Who may not call it at all is not asked.
    check_ruling(text, &who("user:acme/eve", Role::Viewer, &[]), &tool("prod/delete", false), "{}", "hidden -");
    let policies = compile(text).expect("good");
    let rules: Vec<_> = policies.rules().map(|rule| (rule.id.to_string(), rule.effect.clone())).collect();
    let half_an_hour = Some(std::time::Duration::from_secs(1_800));
    let approve = Effect::Ask(Ask::Approve { group: "ops".to_owned(), expires: half_an_hour });
    assert!(rules.contains(&("ask-ops".to_owned(), approve)), "{rules:?}");
}

#[test]
fn a_policy_in_record_mode_decides_nothing_and_is_named() {
    let text = r#"@id("try") @mode("record") forbid (principal, action == Action::"call", resource) when { resource.destructive };
@id("late") @mode("record") forbid (principal, action == Action::"call", resource) when { context.time.toTime() > duration("11h") };
@id("early") @mode("record") forbid (principal, action == Action::"call", resource) when { context.time.toTime() < duration("11h") };"#;
    let act = tool("files/delete", false);
    check_ruling(text, &ann(), &act, "{}", "yes baseline-member");
    let policies = compile(text).expect("good");
    let who = ann();
    let moment = Moment::at(NOON);
    let recorded = policies.class(&who.subject()).recorded(&act, &labels(), &moment);
    assert_eq!(recorded.iter().map(|it| &**it).collect::<Vec<_>>(), ["try", "late", "suggested-destructive"]);
    let at_night = Moment::at(Timestamp(NOON.0 + 9 * 3_600_000));
    let recorded = policies.class(&who.subject()).recorded(&act, &labels(), &at_night);
    assert!(recorded.iter().any(|it| &**it == "suggested-hours"), "{recorded:?}");
    let reads = policies.class(&who.subject()).recorded(&tool("files/read", true), &labels(), &at_night);
    assert_eq!(reads.iter().map(|it| &**it).collect::<Vec<_>>(), ["late"]);
}

#[test]
fn classes_are_shared_by_all_whom_no_policy_tells_apart() {
    let policies = compile(
        r#"forbid (principal in Group::"acme/ops", action, resource) when { resource in Server::"x" };
           forbid (principal == User::"acme/ann", action, resource == Tool::"a/b");"#,
    )
    .expect("good");
    let class = |who: &Asker| std::sync::Arc::as_ptr(&policies.class(&who.subject()));
    let [bob, cid] = ["user:acme/bob", "user:acme/cid"].map(|it| who(it, Role::Member, &["dev", "other"]));
    assert_eq!(class(&bob), class(&cid));
    assert_ne!(class(&bob), class(&ann()), "a policy names her");
    assert_ne!(class(&bob), class(&who("user:acme/bob", Role::Member, &["ops"])));
    assert_ne!(class(&bob), class(&who("user:acme/bob", Role::Admin, &["dev"])));
    assert_ne!(class(&bob), class(&who("key:work/bob", Role::Member, &["dev"])), "another type");
}

#[test]
fn groups_of_another_issuer_and_odd_names_are_other_groups() {
    let text = r#"@id("it") forbid (principal in Group::"acme/dev", action, resource is Tool);"#;
    let act = tool("a/b", false);
    let mut other = ann();
    other.identity.issuer = Some("evil".into());
    check_ruling(text, &other, &act, "{}", "yes baseline-member");
    for odd in ["", "\"", "dev\"", "acme/dev", "dev\0", "Dev", " dev", "🦀", "a\nb", "*"] {
        check_ruling(text, &who("user:acme/ann", Role::Member, &[odd]), &act, "{}", "yes baseline-member");
    }
    let many: Vec<String> = (0..10_000).map(|it| format!("g{it}")).collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    check_ruling(text, &who("user:acme/ann", Role::Member, &many), &act, "{}", "yes baseline-member");
    many.push("dev");
    check_ruling(text, &who("user:acme/ann", Role::Member, &many), &act, "{}", "hidden it");
    let odd = r#"@id("odd") forbid (principal in Group::"acme/a\"b\n🦀", action, resource is Tool);"#;
    check_ruling(odd, &who("user:acme/ann", Role::Member, &["a\"b\n🦀"]), &act, "{}", "hidden odd");
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_the_next_step() {
    for (text, line, expect) in [
        ("\npermit (principal, action", Some(2), "unexpected end of input"),
        ("permit (principal, action, resource)\nwhen { resource.readonly };", Some(1), "readOnly"),
        (r#"permit (principal == Usr::"acme/ann", action, resource);"#, Some(1), "Usr"),
        (r#"permit (principal, action == Action::"cal", resource);"#, Some(1), "cal"),
        (r#"permit (principal, action == Action::"server_lst", resource);"#, Some(1), "server_list"),
        (r#"permit (principal in Role::"admn", action, resource);"#, Some(1), "role `admn` does not exist"),
        (r#"permit (principal == ?principal, action, resource);"#, Some(1), "templates"),
        (r#"@idd("x") permit (principal, action, resource);"#, Some(1), "Did you mean `@id`?"),
        (r#"@approve("ops") permit (principal, action, resource);"#, Some(1), "`@approve` has no effect on `permit`"),
        (r#"@confirm("") @approve("ops") forbid (principal, action, resource);"#, Some(1), "exclude each other"),
        (r#"@approve("ops") @expires("soon") forbid (principal, action, resource);"#, Some(1), "is no time"),
        (r#"@confirm("") @expires("30m") forbid (principal, action, resource);"#, Some(1), "without `@approve`"),
        (r#"@approve("ops") @remember("x") forbid (principal, action, resource);"#, Some(1), "without `@confirm`"),
        (r#"@expires("30m") forbid (principal, action, resource);"#, Some(1), "without `@approve`"),
        (r#"@remember("10m") permit (principal, action, resource);"#, Some(1), "without `@confirm`"),
        (r#"@mode("try") forbid (principal, action, resource);"#, Some(1), "Write `record`."),
        (r#"@deny("quietly") forbid (principal, action, resource);"#, Some(1), "`hidden` or `said`"),
        (
            "@id(\"a\") permit (principal, action, resource);\n@id(\"a\") permit (principal, action, resource);",
            Some(2),
            "team.cedar:1",
        ),
        (
            r#"permit (principal, action == Action::"call", resource) when { context.arguments.amount > 1 };"#,
            Some(1),
            "amount",
        ),
        (
            r#"permit (principal, action == Action::"call", resource) when { context.arguments has a && context.arguments.a > 1 && context.arguments.a like "x" };"#,
            Some(1),
            "type",
        ),
        (
            r#"permit (principal, action == Action::"read", resource) when { context.arguments has a };"#,
            Some(1),
            "arguments",
        ),
    ] {
        check_fault(text, line, expect);
    }
    check_fault(&" ".repeat((4 << 20) + 1), None, "at most 4194304 are allowed");
}

/// Operations that no policy names are checked by one of them: what holds for it holds for each.
#[test]
fn policies_about_operations_are_checked_whichever_they_name() {
    for action in ["action", "action in Action::\"operate\"", "action == Action::\"status\""] {
        let text =
            |condition: &str| format!("forbid (principal, {action}, resource is Operation) when {{ {condition} }};");
        check_fault(&text("resource.readonly"), Some(1), "readOnly");
        check_fault(&text("resource.name == 1"), Some(1), "type");
        assert!(compile(&text("resource.administrative && context.door == \"mcp\"")).is_ok(), "{action}");
    }
    for name in ["server_list", "server_remove"] {
        let text = format!(r#"@id("it") forbid (principal, action, resource) when {{ action == Action::"{name}" }};"#);
        for asked in OPERATIONS {
            let annotations = Annotations { read_only: Some(true), ..Annotations::default() };
            let act = Act::Operation { name: asked.into(), needs_admin: false, annotations };
            check_ruling(
                &text,
                &ann(),
                &act,
                "{}",
                if asked == name { "no it" } else { "yes baseline-viewer-operations" },
            );
        }
    }
}

#[test]
fn what_clients_name_at_any_length_is_decided_and_not_kept() {
    let text =
        r#"@id("etc") forbid (principal, action == Action::"read", resource) when { resource.uri like "*etc*" };"#;
    let policies = compile(text).expect("good");
    let who = ann();
    let class = policies.class(&who.subject());
    let read = |uri: &str| Act::ReadResource { server: ServerName::new("files").expect("a name"), uri: uri.into() };
    let moment = Moment::at(NOON);
    for length in [1, 100_000] {
        let padding = "x".repeat(length);
        let ruling = class.decide(&read(&format!("file:///etc/{padding}")), &labels(), &moment);
        assert_eq!(words(&ruling), "hidden etc");
        let ruling = class.decide(&read(&format!("file:///var/{padding}")), &labels(), &moment);
        assert_eq!(words(&ruling), "yes baseline-read");
    }
    assert_eq!(class.shapes(), 2);
}

#[test]
fn odd_labels_and_names_of_any_length_are_decided() {
    let odd = "a\"b\n🦀\\";
    let pairs = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    let server = ServerName::new("odd").expect("a name");
    let long = "x".repeat(1 << 20);
    let of_tools = vec![(Glob::new("*").expect("a pattern"), pairs("note", &long))];
    let table = LabelTable::new().server(&server, &pairs("owner", odd), of_tools);
    let text = format!(
        r#"@id("odd") forbid (principal, action == Action::"call", resource in Label::"owner={}") when {{ resource.labels.contains("note={long}") }};"#,
        odd.escape_debug()
    );
    let policies = compile(&text).expect("good");
    let who = ann();
    let class = policies.class(&who.subject());
    let call = |name: &str| {
        let annotations = Annotations { read_only: Some(false), ..Annotations::default() };
        Act::CallTool { tool: ToolId::new(server.clone(), name), annotations }
    };
    for name in ["a", &"n".repeat(100_000)] {
        assert_eq!(words(&class.decide(&call(name), &table, &Moment::at(NOON))), "hidden odd");
    }
    assert_eq!(table.known(), 1, "a name that a client makes up at any length is not kept");
    let elsewhere = LabelTable::new();
    assert_eq!(words(&class.decide(&call("a"), &elsewhere, &Moment::at(NOON))), "yes baseline-member");
}

#[test]
fn long_texts_and_many_conditions_are_evaluated_or_refused() {
    let long = format!(
        r#"@id("long") forbid (principal, action == Action::"call", resource) when {{ context.arguments has a && context.arguments.a == "{}" }};"#,
        "x".repeat(1 << 20)
    );
    check_ruling(&long, &ann(), &tool("a/b", false), r#"{"a": "x"}"#, "yes baseline-member");
    let clauses = |count: usize| {
        let clauses: Vec<String> = (0..count).map(|it| format!(r#"resource == Tool::"a/t{it}""#)).collect();
        format!(r#"@id("many") forbid (principal, action, resource) when {{ {} }};"#, clauses.join(" || "))
    };
    check_ruling(&clauses(480), &ann(), &tool("a/t479", false), "{}", "hidden many");
    check_ruling(&clauses(480), &ann(), &tool("a/other", false), "{}", "yes baseline-member");
    check_fault(&clauses(10_000), Some(1), "more than 1000 parts");
    let many = "forbid (principal, action, resource in Server::\"x\");\n".repeat(10_000);
    check_fault(&many, None, "and at most 10000 are allowed");
    let contradicting =
        r#"@id("p") permit (principal, action, resource); @id("f") forbid (principal, action, resource);"#;
    check_ruling(contradicting, &ann(), &tool("a/b", true), "{}", "hidden f");
}

#[test]
fn explaining_names_each_policy_whose_head_fits() {
    let text = r#"@id("big") forbid (principal, action == Action::"call", resource) when { context.arguments has amount && context.arguments.amount > 100 };
@id("other") forbid (principal, action == Action::"call", resource in Server::"other");"#;
    let policies = compile(text).expect("good");
    let (who, act) = (ann(), tool("bank/pay", false));
    let class = policies.class(&who.subject());
    let told = |moment: Option<&Moment<'_>>| -> Vec<String> {
        let why = class.explain(&act, &labels(), moment);
        why.iter().map(|it| format!("{} {:?} {}", it.rule.id, it.counts, it.failed)).collect()
    };
    let big =
        |arguments: &'static str| told(Some(&Moment { arguments: Some(arguments.as_bytes()), ..Moment::at(NOON) }));
    assert!(told(None).contains(&"big None false".to_owned()), "{:?}", told(None));
    assert!(big(r#"{"amount": 1}"#).contains(&"big Some(false) false".to_owned()));
    assert!(big(r#"{"amount": 101}"#).contains(&"big Some(true) false".to_owned()));
    assert!(big(r#"{"amount": "x"}"#).contains(&"big Some(true) true".to_owned()));
    assert!(told(None).iter().any(|it| it == "baseline-member Some(true) false"));
    assert!(!told(None).iter().any(|it| it.starts_with("other")));
}

#[test]
fn explaining_decides_what_looks_at_the_time_alone_once_that_is_known() {
    let text = r#"@id("late") forbid (principal, action, resource) when { context.time > datetime("2026-06-01") };
@id("big") forbid (principal, action == Action::"call", resource) when { context.arguments has amount && context.arguments.amount > 100 };"#;
    let policies = compile(text).expect("good");
    let (who, act) = (ann(), tool("bank/pay", false));
    let class = policies.class(&who.subject());
    let counts = |moment: Option<&Moment<'_>>, id: &str| {
        class.explain(&act, &labels(), moment).into_iter().find(|it| *it.rule.id == *id).map(|it| it.counts)
    };
    for (moment, late, big) in [
        (None, None, None),
        (Some(Moment::at(Timestamp::parse("2026-05-01T00:00:00Z").expect("a time"))), Some(false), None),
        (Some(Moment::at(Timestamp::parse("2026-07-01T00:00:00Z").expect("a time"))), Some(true), None),
        (Some(Moment { arguments: Some(b"{}"), ..Moment::at(NOON) }), Some(true), Some(false)),
    ] {
        assert_eq!(counts(moment.as_ref(), "late"), Some(late), "{moment:?}");
        assert_eq!(counts(moment.as_ref(), "big"), Some(big), "{moment:?}");
    }
}

#[test]
fn what_led_to_a_call_is_in_the_context() {
    let text = r#"
@id("runs") forbid (principal, action == Action::"call", resource in Server::"prod") when { context.chain has workflow && context.chain.workflow == "nightly" };
@id("acting") forbid (principal, action == Action::"call", resource in Server::"bank") when { context.chain has actor };
@id("bridged") forbid (principal, action == Action::"call", resource in Server::"home") unless { context.chain has bridge };
@id("seen") forbid (principal, action == Action::"call", resource in Server::"mail") when { context.labels.contains("secret") };"#;
    let policies = compile(text).expect("good");
    let who = ann();
    let class = policies.class(&who.subject());
    let run = CallChain { workflow: Some("nightly".into()), run: Some("r1".into()), ..CallChain::default() };
    let other = CallChain { workflow: Some("hourly".into()), ..CallChain::default() };
    let seen = CallChain { labels: ["secret".into()].into(), ..CallChain::default() };
    for (id, [actor, bridge], chain, expect) in [
        ("prod/x", [None, None], None, "yes baseline-member"),
        ("prod/x", [None, None], Some(&run), "no runs"),
        ("prod/x", [None, None], Some(&other), "yes baseline-member"),
        ("bank/x", [None, None], None, "yes baseline-member"),
        ("bank/x", [Some("agent"), None], None, "no acting"),
        ("home/x", [None, None], None, "no bridged"),
        ("home/x", [None, Some("toolcrib/1")], None, "yes baseline-member"),
        ("mail/x", [None, None], Some(&run), "yes baseline-member"),
        ("mail/x", [None, None], Some(&seen), "no seen"),
    ] {
        let moment = Moment { actor, bridge, chain, ..Moment::at(NOON) };
        let act = tool(id, false);
        assert_eq!(words(&class.decide(&act, &labels(), &moment)), expect, "{id} {actor:?} {chain:?}");
        assert!(class.shows(&act, &labels()), "{id}: what depends on the call is shown");
    }
    for (wrong, expect) in [
        ("context.chain.workflow == \"a\"", "workflow"),
        ("context.chain has run && context.chain.run == 1", "type"),
        ("context.labels.contains(1)", "type"),
    ] {
        check_fault(&format!("forbid (principal, action, resource) when {{ {wrong} }};"), Some(1), expect);
    }
}
