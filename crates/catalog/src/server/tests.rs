//! What server files mean, and what is said of wrong ones.

use std::path::Path;

use toolcrib_base::Secret;

use super::*;
use crate::DefinitionProblem;

fn read(text: &str) -> Result<ServerDefinition, Vec<DefinitionProblem>> {
    define::read(Path::new("servers/files.yaml"), "files", text)
}

fn good(text: &str) -> ServerDefinition {
    read(text).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// The problems without the file, each with its hint after ` | `.
fn problems(text: &str) -> Vec<String> {
    let line = |problem: DefinitionProblem| {
        let text = problem.to_string().replacen("servers/files.yaml:", "", 1);
        problem.hint.map_or(text.clone(), |hint| format!("{text} | {hint}"))
    };
    read(text).expect_err(text).into_iter().map(line).collect()
}

fn bad(text: &str, expected: &str) {
    assert_eq!(problems(text), [expected], "{text}");
}

#[test]
fn the_printed_definition_is_read() {
    let server = good(
        r#"
# servers/files.yaml
name: files
title: Files on this machine
transport: stdio          # stdio | http | sse
command: npx              # stdio
args: ["-y", "@modelcontextprotocol/server-filesystem", "/data"]
env: {API_KEY: "env:FILES_KEY"}
cwd: /data
start: lazy               # lazy | eager | manual
session: principal        # shared | principal | handle | request
timeouts: {connect: 10s, list: 10s, call: 60s}
"#,
    );
    let program = Program {
        command: "npx".into(),
        args: ["-y", "@modelcontextprotocol/server-filesystem", "/data"].map(Into::into).into(),
        env: [("API_KEY".to_owned(), SecretRef::Env("FILES_KEY".into()))].into(),
        inherit_env: Vec::new(),
        cwd: Some("/data".into()),
    };
    assert_eq!(server.title.as_deref(), Some("Files on this machine"));
    assert_eq!(server.transport, Transport::Stdio(program));
}

#[test]
fn variables_are_handed_on_by_name_alone() {
    let server = good("name: files\ncommand: npx\ninherit_env: [KUBECONFIG, EDITOR]\n");
    let Transport::Stdio(program) = server.transport else { panic!("a program") };
    assert_eq!(program.inherit_env, ["KUBECONFIG", "EDITOR"]);
    for (names, part) in [
        ("['AWS_*']", "expected a variable's name"),
        ("['*']", "expected a variable's name"),
        ("[GITHUB_TOKEN]", "expected the name of a variable that is not a secret"),
        ("[TOOLCRIB_TOKEN]", "expected the name of a variable that is not a secret"),
        ("[EDITOR, EDITOR]", "each variable once"),
    ] {
        let text = problems(&format!("name: files\ncommand: npx\ninherit_env: {names}\n")).join("\n");
        assert!(text.contains(part) && text.contains("inherit_env"), "{text}");
    }
    let text = problems("name: files\ntransport: http\nurl: https://h/\ninherit_env: [A]\n").join("\n");
    assert!(text.contains("belongs to `transport: stdio`"), "{text}");
}

#[test]
fn an_absent_key_means_the_printed_value() {
    let server = good("name: files\ncommand: npx\n");
    let printed = good(
        "name: files\ntransport: stdio\ncommand: npx\nargs: []\nenv: {}\nstart: lazy\nsession: principal\ntimeouts: {list: 10s, call: 60s}\n",
    );
    assert_eq!(server, printed);
    assert_eq!((server.start, server.session), (Start::Lazy, SessionScope::Principal));
    assert_eq!(server.timeouts.call.to_string(), "1m");
    let some = good("name: files\ncommand: npx\ntimeouts: {call: 5m}\n").timeouts;
    assert_eq!(some, Timeouts { call: "5m".parse().unwrap(), ..Timeouts::default() });
}

#[test]
fn what_a_server_may_ask_is_a_set_of_words() {
    let declares = |words: &str| good(&format!("name: files\ncommand: npx\ndeclares: {words}\n")).declares;
    assert_eq!(declares("[roots, elicitation]"), [Ask::Elicitation, Ask::Roots]);
    assert_eq!(declares("[sampling]"), [Ask::Sampling]);
    assert_eq!(declares("[]"), []);
    assert_eq!(good("name: files\ncommand: npx\n").declares, []);
}

#[test]
fn remote_servers_have_an_address_and_headers() {
    for (word, kind) in [("http", TransportKind::Http), ("sse", TransportKind::Sse)] {
        let text = format!(
            "name: files\ntransport: {word}\nurl: https://example.com/mcp\nheaders: {{X-Key: 'keyring:files', X-Mode: fast}}\n"
        );
        let transport = good(&text).transport;
        assert_eq!(transport.kind(), kind);
        let (Transport::Http(remote) | Transport::Sse(remote)) = transport else { panic!("not remote") };
        assert_eq!(remote.url.expose(), "https://example.com/mcp");
        assert_eq!(remote.headers["X-Key"], SecretRef::Keyring("files".into()));
        assert_eq!(remote.headers["X-Mode"], SecretRef::Literal(Secret::new("fast")));
    }
}

#[test]
fn a_header_may_have_a_value_of_each_caller_and_nothing_else_may() {
    let text =
        "name: files\ntransport: http\nurl: https://example.com/mcp\nheaders: {X-Key: 'user:tracker', X-Mode: fast}\n";
    let Transport::Http(remote) = good(text).transport else { panic!("not remote") };
    let headers: Vec<_> = remote.user_headers().collect();
    assert_eq!(headers, [UserHeader { header: "X-Key", value: "tracker" }]);
    bad(
        "name: files\ncommand: npx\nenv: {KEY: 'user:tracker'}\n",
        "3:12: `env.KEY`: expected one value for all callers: a program runs with one environment | write `vault:NAME`; \
         `user:NAME` is for `headers` of a server with a URL",
    );
    bad(
        "name: files\ntransport: http\nurl: 'https://example.com/mcp?key=${user:tracker}'\n",
        "3:6: `url`: expected a reference such as `${vault:NAME}` in each place `${…}`, got something else",
    );
    bad(
        "name: files\ntransport: http\nurl: https://example.com/mcp\nheaders: {X-Key: 'user:'}\n",
        "4:18: `headers.X-Key`: expected a name after `user:`, such as `user:github`",
    );
}

#[test]
fn further_keys_are_kept() {
    let server = good(
        r#"{"name": "files", "transport": "http", "url": "https://example.com/mcp", "description": "d", "category": "c", "tags": ["t"], "keywords": ["k", "l"],
            "icon": "i", "homepage": "https://example.com", "labels": {"team": "a", "tier": 1}, "prefix": "fs",
            "verified_at": "2026-11-20T00:00:00Z", "auth": {"type": "oauth"}, "limits": {"concurrent": 3},
            "tools": [{"name": "read", "inputSchema": {"type": "object", "maximum": 1.5, "x": [null, true, "7", -7]}}]}"#,
    );
    assert_eq!(server.keywords, ["k", "l"]);
    assert_eq!(server.labels["tier"], "1");
    assert_eq!(server.prefix.as_deref(), Some("fs"));
    assert_eq!(server.limits, ServerLimits { concurrent: Some(3), ..ServerLimits::default() });
    let tool = ToolText {
        name: "read".into(),
        json: r#"{"name":"read","inputSchema":{"type":"object","maximum":1.5,"x":[null,true,"7",-7]}}"#.into(),
    };
    assert_eq!(server.tools, [tool]);
    assert!(server.auth.is_some_and(|auth| auth.wants_login()));
}

#[test]
fn scalars_in_texts_stay_as_they_are_written() {
    let Transport::Stdio(program) =
        good("name: files\ncommand: true\nargs: [-p, 0080, 1.10, no, '', '~']\nenv: {PORT: 8080, ON: yes}\n").transport
    else {
        panic!("not a program");
    };
    assert_eq!(program.command, "true");
    assert_eq!(program.args, ["-p", "0080", "1.10", "no", "", "~"]);
    assert_eq!(program.env["PORT"], SecretRef::Literal(Secret::new("8080")));
}

#[test]
fn wrong_values_are_reported_with_place_and_hint() {
    for (lines, expected) in [
        (
            "timeouts: {call: soon}",
            "3:18: `timeouts.call`: expected a duration above 0 such as `30s`, `500ms`, `2m` or `1h`, at most a week, \
             got `soon`",
        ),
        ("timeouts: 30s", "3:11: `timeouts`: expected a map of keys and values, got `30s`"),
        ("timeouts: {cal: 30s}", "3:12: `timeouts.cal`: expected a known key, got this one | did you mean `call`?"),
        ("start: lasy", "3:8: `start`: expected one of `lazy`, `eager`, `manual`, got `lasy` | did you mean `lazy`?"),
        ("session: [x]", "3:10: `session`: expected one of `shared`, `principal`, `handle`, `request`, got a list"),
        (
            "declares: [root]",
            "3:12: `declares[0]`: expected one of `elicitation`, `sampling`, `roots`, got `root` | did you mean `roots`?",
        ),
        ("declares: [roots, roots]", "3:19: `declares[1]`: expected each word once, got `roots`"),
        ("declares: roots", "3:11: `declares`: expected a list, got `roots`"),
        ("args: -y", "3:7: `args`: expected a list, got `-y`"),
        (
            "args:",
            "3:1: `args`: expected a list, got nothing | write `[]` for nothing, or remove the key for its default",
        ),
        ("args: [a, {b: c}]", "3:11: `args[1]`: expected a text, got a map"),
        ("args: [\"a\\0b\"]", "3:8: `args[0]`: expected a text without NUL characters, got `a\\u{0}b`"),
        ("env: {1A: x}", "3:11: `env.1A`: expected a variable's name of A-Z, a-z, 0-9 and `_`, the first not a digit"),
        ("env: {A: 'env:'}", "3:10: `env.A`: expected a variable's name after `env:`, such as `env:API_KEY`"),
        ("env: {A: [hush]}", "3:10: `env.A`: expected a text or a reference such as `env:API_KEY`"),
        ("cwd: ''", "3:6: `cwd`: expected a folder, got ``"),
        ("titel: x", "3:1: `titel`: expected a known key, got this one | did you mean `title`?"),
        (
            "<<: {a: b}",
            "3:1: `<<`: expected a known key, got this one | merge keys have no meaning here: repeat the keys",
        ),
        ("title: [x]", "3:8: `title`: expected a text, got a list"),
        (
            "title: a\ntitle: b",
            "4:1: `title`: expected each key once, got it again (first on line 3) | keep one of the two",
        ),
        (
            "url: https://example.com",
            "3:1: `url`: belongs to `transport: http` or `sse`, this is `stdio` | remove the key",
        ),
        (
            "prefix: a/b",
            "3:9: `prefix`: expected a prefix of 1 to 32 characters of A-Z, a-z, 0-9, `_`, `.` and `-`, got `a/b`",
        ),
        (
            "homepage: 'javascript:alert(1)'",
            "3:11: `homepage`: expected an address such as `https://example.com/mcp`, got `javascript:alert(1)`",
        ),
        (
            "tools: [{title: x}]",
            "3:9: `tools[0].name`: expected the tool's name, got nothing | take tools as `tools/list` gives them",
        ),
        ("tools: [{name: a}, {name: a}]", "3:27: `tools[1].name`: expected each tool once, got `a`"),
    ] {
        bad(&format!("name: files\ncommand: npx\n{lines}\n"), expected);
    }
}

#[test]
fn the_transport_decides_which_keys_belong() {
    let needs_command =
        "1:1: `command`: expected the program to start, got nothing | add a line such as `command: npx`";
    bad("name: files\n", needs_command);
    bad("name: files\ntransport: stdio\ncommand:\n", &needs_command.replace("1:1", "3:1"));
    bad("name: files\ncommand: ''\n", "2:10: `command`: expected the program to start, got ``");
    bad("name: files\ncommand: [npx, -y]\n", "2:10: `command`: expected a text, got a list");
    bad(
        "name: files\nurl: https://example.com\n",
        "1:1: `transport`: expected how the `url` is spoken to, got nothing | add `transport: http`, or `transport: sse` for the older form",
    );
    bad(
        "name: files\ntransport: http\n",
        "1:1: `url`: expected the address of the server, got nothing | add a line such as `url: https://example.com/mcp`",
    );
    bad(
        "name: files\ntransport: https\nurl: https://example.com\n",
        "2:12: `transport`: expected one of `stdio`, `http`, `sse`, got `https` | did you mean `http`?",
    );
    assert_eq!(
        problems("name: files\ntransport: sse\nurl: https://example.com\ncommand: npx\nenv: {A: b}\n"),
        [
            "4:1: `command`: belongs to `transport: stdio`, this is `sse` | remove the key",
            "5:1: `env`: belongs to `transport: stdio`, this is `sse` | remove the key",
        ]
    );
    let remote = "name: files\ntransport: http\nurl: ";
    bad(
        &format!("{remote}ftp://example.com"),
        "3:6: `url`: expected an address such as `https://example.com/mcp`, got `ftp://example.com`",
    );
    bad(
        &format!("{remote}ftp://me:hush@example.com"),
        "3:6: `url`: expected an address such as `https://example.com/mcp`, got something else",
    );
    let remote = format!("{remote}https://example.com\nheaders: ");
    for (headers, expected) in [
        (
            "{Mcp-Session-Id: x}",
            "4:27: `headers.Mcp-Session-Id`: expected a header that is the server's own, got one of the protocol | remove it: the protocol sets this header",
        ),
        (
            "{Content-Length: 0}",
            "4:27: `headers.Content-Length`: expected a header that is the server's own, got one of the protocol | remove it: the protocol sets this header",
        ),
        ("{'X Y': x}", "4:18: `headers.****`: expected a header's name such as `X-Key`"),
        ("{X-A: b, x-a: c}", "4:24: `headers.x-a`: expected each header once, got it again (first as `X-A`)"),
        ("{X-A: \"b\\nc\"}", "4:16: `headers.X-A`: expected a header's value in one line"),
    ] {
        bad(&format!("{remote}{headers}"), expected);
    }
}

#[test]
fn a_name_is_a_name_and_the_files_stem() {
    let hint = "expected at most 64 characters of a-z, 0-9 and `-`, not starting with `-`";
    for name in ["..", "../x", "a/b", "Files", "-a", "a_b", "''"] {
        let shown = name.trim_matches('\'');
        bad(&format!("name: {name}\ncommand: x\n"), &format!("1:7: `name`: expected a name, got `{shown}` | {hint}"));
    }
    bad("command: x\n", "1:1: `name`: expected the definition's name, got nothing | add `name: files`");
    bad(
        "name: other\ncommand: x\n",
        "1:7: `name`: expected the file's stem `files`, got `other` | rename the file to `other.yaml` or write `name: files`",
    );
}

#[test]
fn all_problems_of_a_file_are_reported_at_once_in_order() {
    let told = problems("name: Files\ntransport: carrier\nstart: now\nwat: 1\ntimeouts: {list: 0s}\n");
    let fields: Vec<&str> = told.iter().map(|line| line.split('`').nth(1).unwrap()).collect();
    assert_eq!(fields, ["name", "transport", "start", "wat", "timeouts.list"]);
}

#[test]
fn other_shapes_are_reported() {
    for (text, got) in [("- a\n", "a list"), ("files\n", "a text"), ("7", "a text")] {
        bad(text, &format!("1:1: expected a map of keys and values, got {got}"));
    }
    bad("", "1:1: expected a definition, got nothing: the file is empty");
}

#[test]
fn only_a_lazy_server_may_be_told_when_to_stop() {
    let read = |lines: &str| {
        let text = format!("name: a\ncommand: x\n{lines}");
        crate::define::read::<ServerDefinition>(std::path::Path::new("servers/a.yaml"), "a", &text)
    };
    let idle = |lines| read(lines).unwrap().idle.map(|idle| idle.to_string());
    assert_eq!(idle("idle: 90s"), Some("90s".to_owned()));
    assert_eq!((idle("start: lazy\nidle: 10m"), idle("")), (Some("10m".to_owned()), None));
    for lines in ["start: eager\nidle: 10m", "idle: soon", "start: manual\nidle: 1h"] {
        assert_eq!(read(lines).unwrap_err().len(), 1, "{lines}");
    }
}

#[test]
fn a_definition_may_say_in_which_era_its_server_is_spoken_to() {
    assert_eq!(good("name: files\ncommand: x\n").era, SpokenEra::Auto);
    for (word, era) in [("auto", SpokenEra::Auto), ("legacy", SpokenEra::Legacy), ("modern", SpokenEra::Modern)] {
        assert_eq!(good(&format!("name: files\ncommand: x\nera: {word}\n")).era, era);
    }
    let sse = "name: files\ntransport: sse\nurl: https://example.com/sse\n";
    assert_eq!(good(&format!("{sse}era: legacy\n")).era, SpokenEra::Legacy);
    bad(
        &format!("{sse}era: modern\n"),
        "4:6: `era`: expected no `era: modern` beside `transport: sse`, which is of the legacy era | write `transport: http`, or \
         remove `era`",
    );
    let wrong = problems("name: files\ncommand: x\nera: modren\n").remove(0);
    assert!(wrong.starts_with("3:6: `era`") && wrong.contains("`modern`"), "{wrong}");
}

#[test]
fn tools_of_a_pattern_have_labels() {
    let labels =
        good("name: files\ncommand: x\ntool_labels: {'delete_*': {risk: destructive_actions, team: web}, look: {}}\n")
            .tool_labels;
    let said: Vec<String> = labels.iter().map(|it| format!("{} {:?}", it.pattern, it.labels)).collect();
    assert_eq!(said, [r#"delete_* {"risk": "destructive_actions", "team": "web"}"#, "look {}"]);
    for (wrong, expect) in [
        ("{'[a]': {a: b}}", "expected labels of a pattern over names of tools"),
        ("{look: [a]}", "tool_labels.look"),
        ("{look: {a: [b]}}", "tool_labels.look.a"),
    ] {
        let problem = problems(&format!("name: files\ncommand: x\ntool_labels: {wrong}\n")).join(" / ");
        assert!(problem.contains(expect), "{wrong}: {problem}");
    }
}

#[test]
fn limits_hold_for_a_server_and_for_tools_of_a_pattern() {
    let limits = good(
        "name: files\ncommand: x\nlimits: {queue: 0, per_minute: 9, argument_bytes: 4KiB, result_bytes: 1MiB,
  tools: {'delete_*': {concurrent: 1, queue: 2, per_minute: 3}, '*': {per_minute: 5, result_bytes: 100}}}\n",
    )
    .limits;
    assert_eq!((limits.queue, limits.per_minute), (Some(0), Some(9)));
    assert_eq!(limits.argument_bytes.map(crate::Size::bytes), Some(4_096));
    let rates = |tool: &str| limits.of_tool(tool).filter_map(|limits| limits.per_minute).collect::<Vec<_>>();
    assert_eq!((rates("delete_all"), rates("read")), (vec![5, 3], vec![5]));
    for (wrong, expected) in [
        ("{queue: -1}", "expected a whole number from 0 to 8192"),
        ("{per_minute: 0}", "expected a whole number from 1 to 1000000"),
        ("{argument_bytes: 1MB}", "expected a number of bytes above 0"),
        ("{tools: {'[a]': {queue: 1}}}", "expected limits of a pattern over names of tools"),
        ("{tools: {a: {per_tool: 1}}}", "per_tool"),
        ("{tools: [a]}", "expected a map"),
    ] {
        let problem = problems(&format!("name: files\ncommand: x\nlimits: {wrong}\n")).join(" / ");
        assert!(problem.contains(expected), "{wrong}: {problem}");
    }
}

#[test]
fn guards_say_what_becomes_of_secrets_and_which_values_are_replaced() {
    let guards = good(
        "name: files\ncommand: x\nguards: {secrets: {results: redact}, redact: {results: ['/a/*/b', /c], arguments: [/d]}}\n",
    )
    .guards;
    assert_eq!((guards.arguments, guards.results), (None, Some(crate::SecretAction::Redact)));
    let pointers = guards.redact_results.iter().chain(&guards.redact_arguments);
    assert_eq!(pointers.map(ToString::to_string).collect::<Vec<_>>(), ["/a/*/b", "/c", "/d"]);
    assert_eq!(crate::SecretAction::Deny.stricter(crate::SecretAction::Record), crate::SecretAction::Deny);
    let of_tools = "name: files\ncommand: x\nguards: {tools: {'read_*': {secrets: {results: deny}}, write: {}}}\n";
    let guards = good(of_tools).guards;
    let said = |tool: &str| guards.of_tool(tool).map(|guards| guards.results).collect::<Vec<_>>();
    assert_eq!((said("read_file"), said("write")), (vec![Some(crate::SecretAction::Deny)], vec![None]));
    assert!(said("list").is_empty());
    for (wrong, expected) in [
        ("{tools: {'a**': {secret: {}}}}", "expected a known key"),
        ("{tools: {a: {tools: {}}}}", "expected a known key"),
        ("{secrets: {results: hide}}", "expected one of `off`, `record`, `redact`, `deny`"),
        ("{redact: {results: [a]}}", "expected a JSON pointer"),
        ("{secret: {}}", "expected a known key"),
    ] {
        let found = problems(&format!("name: files\ncommand: x\nguards: {wrong}\n")).join(" / ");
        assert!(found.contains(expected), "{wrong}: {found}");
    }
}
