//! Tables of decisions, and the properties that hold for all of them.

use std::sync::Arc;

use proptest::prelude::*;
use toolcrib_base::{PrincipalId, Role, ToolId};

use super::*;
use crate::Caller;

const READS: Annotations =
    Annotations { read_only: Some(true), destructive: None, idempotent: None, open_world: None, digest: None };
const WRITES: Annotations = Annotations { read_only: Some(false), ..READS };
const SILENT: Annotations = Annotations { read_only: None, ..READS };

const AT: Moment<'static> = Moment::at(toolcrib_base::Timestamp(0));

fn globs(patterns: &[&str]) -> Vec<Glob> {
    patterns.iter().map(|pattern| Glob::new(pattern).unwrap()).collect()
}

fn rules(servers: &[&str], allow: &[&str], deny: &[&str], read_only: bool) -> Rules {
    let profile = ProfileName::new("default").unwrap();
    let (registry, held) = (Vec::new(), Arc::default());
    let [servers, allow, deny] = [servers, allow, deny].map(globs);
    Rules::new(Settings { profile, servers, registry, allow, deny, read_only, held })
}

fn tool(id: &str, annotations: Annotations) -> Act {
    Act::CallTool { tool: ToolId::parse(id).unwrap(), annotations }
}

fn of_server(server: &str) -> [Act; 4] {
    let (server, text) = (ServerName::new(server).unwrap(), Arc::<str>::from("x"));
    [
        Act::ReadResource { server: server.clone(), uri: text.clone() },
        Act::GetPrompt { server: server.clone(), name: text.clone() },
        Act::Complete { server: server.clone(), of: Reference::Prompt, name: text.clone() },
        Act::Forward { server, method: text },
    ]
}

fn operation(needs_admin: bool, annotations: Annotations) -> Act {
    Act::Operation { name: "server_create".into(), needs_admin, annotations }
}

/// Asks as a principal that may (not) administer and holds every answer to what must be true of all.
fn ask(rules: &Rules, act: &Act, is_admin: bool) -> Result<Rule, Reason> {
    ask_as(rules, act, if is_admin { Role::Admin } else { Role::Member })
}

fn ask_as(rules: &Rules, act: &Act, role: Role) -> Result<Rule, Reason> {
    let principal = PrincipalId::new("local");
    let request = Request { caller: Caller { principal: &principal, role }, act };
    let decision = rules.decide(&request, &AT);
    let hidden = decision.as_ref().is_err_and(|denial| denial.hidden);
    assert_eq!(rules.visible(&request), !hidden, "listing and calling disagree on {act}");
    let words = rules.explain(&request);
    match decision {
        Ok(permit) => {
            assert_eq!((permit.act(), permit.principal(), permit.profile()), (act, &principal, rules.profile()));
            assert!(words.contains(permit.rule().name()), "{words}");
            Ok(permit.rule())
        }
        Err(denial) => {
            assert!(words.contains(&denial.rule), "{words} does not name {}", denial.rule);
            assert_eq!(denial.hint().is_none(), denial.hidden, "a hidden thing has no hint, others have one");
            Err(denial.reason)
        }
    }
}

fn check(rules: &Rules, act: &Act, expected: Result<Rule, Reason>) {
    assert_eq!(ask(rules, act, false), expected, "{act} under {:?}", rules.settings);
}

#[test]
fn the_key_that_refuses_is_named() {
    let some = rules(&["files"], &["files/*"], &["*/secret*"], true);
    let principal = PrincipalId::new("local");
    let key = |act: &Act, is_admin: bool| {
        let role = if is_admin { Role::Admin } else { Role::Member };
        let request = Request { caller: Caller { principal: &principal, role }, act };
        some.refusing_key(&request).map(|(key, pattern)| (key, pattern.map(ToString::to_string)))
    };
    let refused = |key, pattern: Option<&str>| Some((key, pattern.map(str::to_owned)));
    assert_eq!(key(&tool("git/log", READS), false), refused("servers", None));
    assert_eq!(key(&tool("files/secret_key", READS), false), refused("tools.deny", Some("*/secret*")));
    assert_eq!(key(&tool("files/write", WRITES), false), refused("read_only", None));
    assert_eq!(key(&tool("files/read", READS), false), None, "nothing refuses it");
    assert_eq!(key(&operation(true, READS), false), None, "no file says who administers");
    let entry = Act::Configure { entry: ServerName::new("files").unwrap() };
    assert_eq!(key(&entry, true), refused("registry", None));
    let few = rules(&["*"], &["files/read"], &[], false);
    let act = tool("files/write", READS);
    let request = Request { caller: Caller { principal: &principal, role: Role::Admin }, act: &act };
    assert_eq!(few.refusing_key(&request).map(|(key, _)| key), Some("tools.allow"));
}

#[test]
fn a_long_list_of_patterns_is_shown_in_part() {
    assert_eq!(list(&globs(&["a", "b", "c", "d", "e"])), "[a, b, c, d, e]");
    assert_eq!(list(&globs(&["a", "b", "c", "d", "e", "f", "g"])), "[a, b, c, d, e, …]");
}

#[test]
fn tools_pass_when_allowed_and_not_denied() {
    let all = rules(&["*"], &["*"], &[], false);
    check(&all, &tool("files/read", SILENT), Ok(Rule::ToolAllowed));

    let some = rules(&["files", "git*"], &["files/read*", "git/*"], &["*/read_secret*", "git/push"], false);
    for (id, expected) in [
        ("files/read", Ok(Rule::ToolAllowed)),
        ("files/read/deep", Ok(Rule::ToolAllowed)),
        ("files/read_secrets", Err(Reason::ToolDenied)),
        ("files/write", Err(Reason::ToolNotAllowed)),
        ("git/log", Ok(Rule::ToolAllowed)),
        ("git/push", Err(Reason::ToolDenied)),
        ("github/log", Err(Reason::ToolNotAllowed)),
        ("mail/read", Err(Reason::ServerNotAllowed)),
    ] {
        check(&some, &tool(id, SILENT), expected);
    }
}

#[test]
fn empty_lists_allow_nothing() {
    check(&rules(&["*"], &[], &[], false), &tool("files/read", READS), Err(Reason::ToolNotAllowed));
    check(&rules(&[], &["*"], &[], false), &tool("files/read", READS), Err(Reason::ServerNotAllowed));
    for act in of_server("files") {
        check(&rules(&[], &["*"], &[], false), &act, Err(Reason::ServerNotAllowed));
    }
}

#[test]
fn a_denied_everything_wins() {
    let rules = rules(&["*"], &["files/read", "*"], &["x/*", "*"], false);
    check(&rules, &tool("files/read", READS), Err(Reason::ToolDenied));
}

#[test]
fn server_patterns_bind_resources_and_prompts_but_tool_patterns_do_not() {
    let rules = rules(&["files"], &[], &["*"], false);
    for act in of_server("files") {
        check(&rules, &act, Ok(Rule::ServerAllowed));
    }
    for act in of_server("files2") {
        check(&rules, &act, Err(Reason::ServerNotAllowed));
    }
}

#[test]
fn a_read_only_profile_wants_the_tools_word() {
    let rules = rules(&["*"], &["*"], &["*/secret"], true);
    check(&rules, &tool("files/read", READS), Ok(Rule::ReadOnlyToolAllowed));
    check(&rules, &tool("files/write", WRITES), Err(Reason::NotReadOnly));
    check(&rules, &tool("files/any", SILENT), Err(Reason::NotReadOnly));
    check(&rules, &tool("files/secret", READS), Err(Reason::ToolDenied));
    let [read, get, complete, forward] = of_server("files");
    for act in [read, get, complete] {
        check(&rules, &act, Ok(Rule::ServerAllowed));
    }
    check(&rules, &forward, Err(Reason::NotReadOnly));
    check(&rules, &operation(false, WRITES), Err(Reason::NotReadOnly));
    check(&rules, &operation(false, READS), Ok(Rule::OpenOperation));
}

#[test]
fn an_entry_becomes_a_server_where_servers_and_registry_say_so() {
    let open = rules(&["git", "mail*"], &["*"], &[], true);
    let rules = Rules::new(Settings { registry: globs(&["git*", "mail"]), ..Settings::clone(&open.settings) });
    let entry = |name: &str| Act::Configure { entry: ServerName::new(name).unwrap() };
    for (name, expected) in [
        ("git", Ok(Rule::EntryAllowed)),
        ("mail", Ok(Rule::EntryAllowed)),
        ("mails", Err(Reason::EntryNotAllowed)),
        ("github", Err(Reason::ServerNotAllowed)),
        ("other", Err(Reason::ServerNotAllowed)),
    ] {
        check(&rules, &entry(name), expected);
    }
    // Without the key nothing may become a server, not even by who may administer: operations are there for that.
    assert_eq!(ask(&open, &entry("git"), true), Err(Reason::EntryNotAllowed));
}

#[test]
fn what_is_held_is_hidden_and_nothing_else() {
    let ids = |ids: &[&str]| ids.iter().map(|id| ToolId::parse(id).unwrap()).collect();
    let held = Arc::new(HeldItems { tools: ids(&["files/new"]), prompts: ids(&["files/x"]), ..HeldItems::default() });
    let settings = rules(&["*"], &["*"], &["files/denied"], false).settings;
    let rules = Rules::new(Settings { held, ..Settings::clone(&settings) });
    check(&rules, &tool("files/new", READS), Err(Reason::Held));
    check(&rules, &tool("files/x", READS), Ok(Rule::ToolAllowed));
    check(&rules, &tool("mail/new", READS), Ok(Rule::ToolAllowed));
    check(&rules, &tool("files/denied", READS), Err(Reason::ToolDenied));
    let [read, get, complete, forward] = of_server("files");
    check(&rules, &read, Ok(Rule::ServerAllowed));
    check(&rules, &forward, Ok(Rule::ServerAllowed));
    check(&rules, &get, Err(Reason::Held));
    check(&rules, &complete, Err(Reason::Held));
    let other = Act::GetPrompt { server: ServerName::new("mail").unwrap(), name: "x".into() };
    check(&rules, &other, Ok(Rule::ServerAllowed));
    let principal = PrincipalId::new("local");
    let request =
        Request { caller: Caller { principal: &principal, role: Role::Admin }, act: &tool("files/new", READS) };
    assert_eq!(
        rules.explain(&request),
        "tool `files/new` is hidden by `changed_tools: hold` of profile `default`, because it differs from what was \
         approved"
    );
}

#[test]
fn operations_ask_for_an_administering_principal() {
    let rules = rules(&[], &[], &["*"], false);
    for (needs_admin, is_admin, expected) in [
        (true, true, Ok(Rule::AdminOperation)),
        (true, false, Err(Reason::NeedsAdmin)),
        (false, true, Ok(Rule::OpenOperation)),
        (false, false, Ok(Rule::OpenOperation)),
    ] {
        assert_eq!(ask(&rules, &operation(needs_admin, WRITES), is_admin), expected);
    }
    check(&rules, &Act::MetaTool { name: "find_tools".into() }, Ok(Rule::MetaTool));
}

#[test]
fn a_viewer_only_reads_and_an_operator_reads_what_administrators_read() {
    let rules = rules(&["*"], &["*"], &[], false);

    for role in Role::ALL {
        let reads_only = role == Role::Viewer;
        let expected = |rule| if reads_only { Err(Reason::ViewerOnlyReads) } else { Ok(rule) };
        assert_eq!(ask_as(&rules, &tool("files/read", READS), role), Ok(Rule::ToolAllowed), "{role}");
        for annotations in [WRITES, SILENT] {
            assert_eq!(ask_as(&rules, &tool("files/write", annotations), role), expected(Rule::ToolAllowed), "{role}");
        }
        assert_eq!(ask_as(&rules, &operation(false, READS), role), Ok(Rule::OpenOperation), "{role}");
        assert_eq!(ask_as(&rules, &operation(false, WRITES), role), expected(Rule::OpenOperation), "{role}");
        let administers = |otherwise| if role.administers() { Ok(Rule::AdminOperation) } else { otherwise };
        let read = if role == Role::Operator { Ok(Rule::OperatorReads) } else { Err(Reason::NeedsAdmin) };
        assert_eq!(ask_as(&rules, &operation(true, READS), role), administers(read), "{role}");
        assert_eq!(ask_as(&rules, &operation(true, WRITES), role), administers(Err(Reason::NeedsAdmin)), "{role}");
        let forward = of_server("files").into_iter().find(|act| matches!(act, Act::Forward { .. })).unwrap();
        assert_eq!(ask_as(&rules, &forward, role), expected(Rule::ServerAllowed), "{role}");
    }
}

#[test]
fn only_what_needs_an_administrator_may_be_known_of() {
    for reason in [
        Reason::ServerNotAllowed,
        Reason::EntryNotAllowed,
        Reason::ToolDenied,
        Reason::ToolNotAllowed,
        Reason::NotReadOnly,
        Reason::Held,
    ] {
        assert!(reason.is_hidden(), "{reason:?}");
    }
    assert!(!Reason::NeedsAdmin.is_hidden());
    assert!(!Reason::ViewerOnlyReads.is_hidden());
}

#[test]
fn administering_opens_no_tool() {
    let rules = rules(&["*"], &["*"], &["files/write"], true);
    assert_eq!(ask(&rules, &tool("files/write", READS), true), Err(Reason::ToolDenied));
    assert_eq!(ask(&rules, &tool("files/other", WRITES), true), Err(Reason::NotReadOnly));
}

#[test]
fn the_rule_is_named_in_words() {
    let rules = rules(&["files"], &["files/read*"], &["files/read_secret*"], true);
    for (act, expected) in [
        (
            tool("files/read_secrets", READS),
            "tool `files/read_secrets` is hidden by `tools.deny: files/read_secret*` of profile `default`",
        ),
        (
            tool("files/write", READS),
            "tool `files/write` is hidden by `tools.allow: [files/read*]` of profile `default`",
        ),
        (tool("mail/send", READS), "tool `mail/send` is hidden by `servers: [files]` of profile `default`"),
        (tool("files/read", READS), "tool `files/read` is allowed in profile `default` (read-only-tool-allowed)"),
        (operation(true, READS), "operation `server_create` is denied by the rule that only admins can do it"),
    ] {
        let principal = PrincipalId::new("local");
        let request = Request { caller: Caller { principal: &principal, role: Role::Member }, act: &act };
        assert_eq!(rules.explain(&request), expected);
    }
}

fn any_annotations() -> impl Strategy<Value = Annotations> {
    (any::<Option<bool>>(), any::<Option<bool>>()).prop_map(|(read_only, destructive)| Annotations {
        read_only,
        destructive,
        ..Annotations::default()
    })
}

fn any_act() -> impl Strategy<Value = Act> {
    let server = prop_oneof![Just("a"), Just("b"), Just("ab")];
    (server, "[ab]{1,3}", any_annotations(), 0..8_usize, any::<bool>()).prop_map(
        |(server, name, annotations, kind, needs_admin)| match kind {
            0..=2 => Act::CallTool { tool: ToolId::parse(&format!("{server}/{name}")).unwrap(), annotations },
            3..=5 => of_server(server)[kind - 3].clone(),
            6 => Act::Configure { entry: ServerName::new(server).unwrap() },
            _ => Act::Operation { name: name.into(), needs_admin, annotations },
        },
    )
}

fn any_globs() -> impl Strategy<Value = Vec<Glob>> {
    prop::collection::vec("[ab*?/]{1,4}".prop_map(|pattern| Glob::new(&pattern).unwrap()), 0..4)
}

prop_compose! {
    fn any_settings()(
        servers in any_globs(), registry in any_globs(), allow in any_globs(), deny in any_globs(),
        read_only in any::<bool>(), held in any::<bool>(),
    ) -> Settings {
        let id = ToolId::parse("a/a").unwrap();
        let held = if held { HeldItems { tools: [id.clone()].into(), prompts: [id].into(), ..HeldItems::default() } } else { HeldItems::default() };
        let (profile, held) = (ProfileName::new("p").unwrap(), Arc::new(held));
        Settings { profile, servers, registry, allow, deny, read_only, held }
    }
}

/// What is decided of a tool in a profile that asks before some calls, and by these policies.
fn asking(policies: &str) -> impl Fn(&str, Option<&Demand>) -> Result<Permit, Denial> {
    let text = crate::PolicyText { file: "a.cedar".to_owned(), text: policies.to_owned() };
    let policies = crate::Policies::compile(&[text], &[]).unwrap();
    let identity = toolcrib_base::Identity::by(toolcrib_base::Proof::Loopback);
    let (principal, profile) = (PrincipalId::new("local"), ProfileName::new("default").unwrap());
    let subject = crate::Subject {
        principal: &principal,
        role: Role::Member,
        identity: &identity,
        profile: &profile,
        door: "mcp",
    };
    let class = ClassRules { class: policies.class(&subject), labels: Arc::default() };
    let tools = AskingTools { confirm: globs(&["mail/*"]), approve: globs(&["prod/*"]), of_servers: Vec::new() };
    let rules = rules(&["*"], &["*"], &["prod/never"], false).asking(tools).with_policies(Some(class));
    move |id, given| {
        let act = tool(id, WRITES);
        let request =
            Request { caller: Caller { principal: &PrincipalId::new("local"), role: Role::Member }, act: &act };
        match given {
            Some(given) => rules.decide_given(&request, &AT, given),
            None => rules.decide(&request, &AT),
        }
    }
}

#[test]
fn a_yes_counts_for_exactly_what_was_asked_for() {
    let one =
        asking(r#"@id("one") @approve("ops") forbid (principal, action == Action::"call", resource in Server::"db");"#);
    let demand = |decided: Result<Permit, Denial>| *decided.unwrap_err().demand.unwrap();
    assert!(one("files/read", None).is_ok());
    let (of_profile, of_policy) = (demand(one("prod/delete", None)), demand(one("db/drop", None)));
    assert_eq!(one("prod/delete", None).unwrap_err().reason, Reason::ProfileAsks);
    assert_eq!(one("db/drop", None).unwrap_err().reason, Reason::PolicyAsks);
    assert!(one("prod/delete", Some(&of_profile)).is_ok() && one("db/drop", Some(&of_policy)).is_ok());
    // What asks for another yes, or for none that a person may give, is not content.
    assert!(one("db/drop", Some(&of_profile)).is_err() && one("prod/delete", Some(&of_policy)).is_err());
    assert_eq!(one("prod/never", Some(&of_profile)).unwrap_err().reason, Reason::ToolDenied);
    let less = Demand { needs_approval: false, ..of_profile.clone() };
    assert!(one("prod/delete", Some(&less)).is_err());
    // Other policies, another yes, also where they ask for the same.
    let other = asking(
        r#"@id("one") @approve("ops") forbid (principal, action == Action::"call", resource in Server::"db"); "#,
    );
    assert!(other("db/drop", Some(&of_policy)).is_err());
    // Both ask, and one yes is for both.
    let both =
        asking(r#"@id("one") @confirm("") forbid (principal, action == Action::"call", resource in Server::"prod");"#);
    let of_both = demand(both("prod/delete", None));
    assert!(of_both.needs_approval && of_both.by.len() == 2, "{of_both:?}");
    assert!(both("prod/delete", Some(&of_both)).is_ok() && both("prod/delete", Some(&of_profile)).is_err());
    let forbids = asking(r#"@deny("said") forbid (principal, action == Action::"call", resource in Server::"prod");"#);
    assert_eq!(forbids("prod/delete", Some(&of_profile)).unwrap_err().reason, Reason::PolicyForbids);
}

proptest! {
    #[test]
    fn listing_and_calling_agree(settings in any_settings(), act in any_act(), is_admin in any::<bool>()) {
        // `ask` compares `visible` with `decide`.
        let answer = ask(&Rules::new(settings), &act, is_admin);
        if let (Err(Reason::NeedsAdmin), Act::Operation { needs_admin, .. }) = (answer, &act) {
            prop_assert!(*needs_admin && !is_admin);
        }
    }

    #[test]
    fn one_more_pattern_to_deny_never_opens_anything(settings in any_settings(), more in any_globs(), act in any_act()) {
        let before = ask(&Rules::new(settings.clone()), &act, false);
        let mut stricter = settings;
        stricter.deny.extend(more);
        stricter.read_only = true;
        if ask(&Rules::new(stricter), &act, false).is_ok() {
            prop_assert!(before.is_ok());
        }
    }

    #[test]
    fn permitted_tools_fit_the_plain_reading_of_the_profile(settings in any_settings(), act in any_act()) {
        let rules = Rules::new(settings.clone());
        if let Act::CallTool { tool, annotations } = &act {
            let any = |patterns: &[Glob], text: &str| patterns.iter().any(|pattern| pattern.matches(text));
            let expected = any(&settings.servers, tool.server.as_str())
                && any(&settings.allow, &tool.to_string())
                && !any(&settings.deny, &tool.to_string())
                && (!settings.read_only || annotations.read_only == Some(true))
                && !settings.held.tools.contains(tool);
            prop_assert_eq!(ask(&rules, &act, true).is_ok(), expected);
        }
    }
}
