//! Samples of every client's file, and the definitions that come of them.

use super::*;

/// Every server of a sample as a draft, or why it is left out.
fn drafts(name: &str, source: usize, text: &str) -> Vec<(String, Result<Draft, String>)> {
    let client = client(name).unwrap();
    let variable = |name: &str| (name == "SET").then(|| "from-outside".to_owned());
    let answer = |value: &str, is_secret| Answer { value: Secret::new(value), is_secret };
    let answers = [
        ("workspaceFolder".to_owned(), answer("/src/work", false)),
        ("input:given".to_owned(), answer("s3cret", true)),
        ("input:plain".to_owned(), answer("eu", false)),
    ];
    let around = Surroundings {
        answers: &answers.into(),
        home: Some(PathBuf::from("/people/me")),
        variable: &variable,
        own_authority: Some("127.0.0.1:8700".to_owned()),
    };
    let found = find(client, &client.sources[source], text).unwrap();
    found.iter().map(|found| (found.key.clone(), translate(client, PathBuf::from("f"), found, &around))).collect()
}

fn refer(name: &str) -> String {
    format!("vault:{name}")
}

/// The only server of a sample as a definition's text, without its first line, and with its secrets and notes.
#[track_caller]
fn check(name: &str, text: &str, expected: &str, secrets: &[(&str, Option<&str>)], notes: &[&str]) {
    let mut all = drafts(name, 0, text);
    assert_eq!(all.len(), 1);
    let draft = all.remove(0).1.unwrap();
    let definition = draft.definition(&draft.name, &refer);
    assert!(definition.is_ok(), "{definition:?}\n{}", draft.text(&draft.name, &refer));
    let text = draft.text(&draft.name, &refer);
    assert_eq!(text.split_once('\n').unwrap().1, expected);
    let wanted = draft.secrets(&draft.name);
    let wanted: Vec<(&str, Option<&str>)> =
        wanted.iter().map(|wanted| (wanted.name.as_str(), wanted.value.as_ref().map(Secret::expose))).collect();
    assert_eq!(wanted, secrets);
    for (_, secret) in secrets {
        assert!(secret.is_none_or(|secret| !text.contains(secret)), "{text}");
    }
    assert_eq!(draft.notes.len(), notes.len(), "{:?}", draft.notes);
    for (note, part) in draft.notes.iter().zip(notes) {
        assert!(note.contains(part), "no `{part}` in `{note}`");
    }
}

#[test]
fn claude_desktop() {
    check(
        "claude-desktop",
        r#"{
            // remarks are let pass although the client is strict
            "mcpServers": {
                "My Files": { "command": "npx", "args": ["-y", "some-server", "/data"], "env": { "API_KEY": "abc", "MODE": "fast", "N": 3, }, },
            },
            "theme": "dark",
        }"#,
        "name: my-files\ntransport: stdio\ncommand: npx\nargs: [\"-y\", \"some-server\", \"/data\"]\nenv:\n  API_KEY: \"vault:my-files-api-key\"\n  MODE: \"fast\"\n  \"N\": \"3\"\n",
        &[("my-files-api-key", Some("abc"))],
        &[],
    );
}

#[test]
fn claude_code() {
    check(
        "claude-code",
        r#"{ "numStartups": 4, "mcpServers": { "issues": { "type": "http", "url": "https://example.com/mcp",
            "headers": { "Authorization": "Bearer ${SET}", "X-Mode": "${MODE:-fast}", "X-Set": "${SET:-no}", "Accept": "x" } } } }"#,
        "name: issues\ntransport: http\nurl: \"https://example.com/mcp\"\nheaders:\n  Authorization: \"vault:issues-authorization\"\n  X-Mode: \"fast\"\n  X-Set: \"env:SET\"\n",
        &[("issues-authorization", Some("Bearer from-outside"))],
        &["gets its default", "no default", "the protocol sets it"],
    );
    let all = drafts(
        "claude-code",
        0,
        r#"{"mcpServers": {"a": {"command": "x"}}, "projects": {"/work": {"mcpServers": {"b": {"type": "sse", "url": "https://e/x"}}}, "/none": {}}}"#,
    );
    let names: Vec<_> =
        all.iter().map(|(key, draft)| (key.as_str(), draft.as_ref().unwrap().transport().as_str())).collect();
    assert_eq!(names, [("a", "stdio"), ("b", "sse")]);
}

#[test]
fn cursor() {
    check(
        "cursor",
        "\u{FEFF}{\"mcpServers\": {\"db\": {\"command\": \"${userHome}/bin/db\", \"args\": [\"${workspaceFolder}\"],\r\n \"env\": {\"URL\": \"postgres://u:p@h/x\", \"T\": \"${env:T}\"}, \"envFile\": \".env\"}}}",
        "name: db\ntransport: stdio\ncommand: /people/me/bin/db\nargs: [\"/src/work\"]\nenv:\n  T: \"env:T\"\n  URL: \"vault:db-url\"\n",
        &[("db-url", Some("postgres://u:p@h/x"))],
        &["variables of that file"],
    );
    check(
        "cursor",
        r#"{"mcpServers": {"old": {"url": "https://example.com/sse"}}}"#,
        "name: old\ntransport: sse\nurl: \"https://example.com/sse\"\n",
        &[],
        &[],
    );
}

#[test]
fn vs_code() {
    check(
        "vscode",
        r#"{ "inputs": [{"type": "promptString", "id": "gh-token", "password": true}],
             "servers": { "github": { "type": "http", "url": "https://example.com/mcp", "headers": { "X-Token": "${input:gh-token}", "Authorization": "Bearer ${input:gh-token}" } } } }"#,
        "name: github\ntransport: http\nurl: \"https://example.com/mcp\"\nheaders:\n  Authorization: \"vault:github-authorization\"\n  X-Token: \"vault:github-x-token\"\n",
        &[("github-authorization", None), ("github-x-token", None)],
        &["asks for as `gh-token`", "`gh-token`: give its whole value"],
    );
    for text in [
        r#"{"mcp": {"servers": {"a": {"command": "x"}}}, "editor.fontSize": 12}"#,
        r#"{"mcp.servers": {"a": {"type": "stdio", "command": "x"}}}"#,
    ] {
        assert_eq!(drafts("vscode", 1, text)[0].0, "a");
    }
}

#[test]
fn keys_in_addresses_go_into_the_vault() {
    let random = "0123456789abcdef".repeat(2);
    check(
        "cursor",
        &format!(
            r#"{{"mcpServers": {{"r": {{"url": "https://h.example/s/{random}/mcp?api_key=k%2B1&region=${{input:plain}}&t=${{SET}}&x=${{input:given}}"}}}}}}"#
        ),
        "name: r\ntransport: http\nurl: \"https://h.example/s/${vault:r-url-path}/mcp?api_key=${vault:r-url-api-key}&region=eu&t=${env:SET}&x=${vault:r-url-given}\"\n",
        &[("r-url-path", Some(&random)), ("r-url-api-key", Some("k%2B1")), ("r-url-given", Some("s3cret"))],
        &["goes into the vault"],
    );
    check(
        "cursor",
        r#"{"mcpServers": {"r": {"url": "https://me:p%40ss@h.example/sse"}}}"#,
        "name: r\ntransport: sse\nurl: \"https://h.example/sse\"\nheaders:\n  Authorization: \"vault:r-authorization\"\n",
        &[("r-authorization", Some("Basic bWU6cEBzcw=="))],
        &["sent as the header"],
    );
}

#[test]
fn placeholders_are_filled_in_or_refused_by_name() {
    for (client, entry, expected) in [
        (
            "cursor",
            r#"{"command": "x", "args": ["${workspaceFolder}${/}a", "${userHome}", "${SET}", "${D:-d}"]}"#,
            Ok("args: [\"/src/work/a\", \"/people/me\", \"from-outside\", \"d\"]"),
        ),
        (
            "vscode",
            r#"{"command": "x", "env": {"R": "${input:plain}", "K": "a ${input:given}"}}"#,
            Ok("K: \"vault:a-k\"\n  R: \"eu\""),
        ),
        (
            "claude-desktop",
            r#"{"command": "npx", "args": ["mcp-remote", "--header", "Authorization:${AUTH}"], "env": {"AUTH": "Bearer abcdefgh"}}"#,
            Ok("Authorization:${AUTH}"),
        ),
        ("cursor", r#"{"command": "x", "args": ["${config:a.b}"]}"#, Err("`--set config:a.b=VALUE`")),
        ("cursor", r#"{"command": "${command:pick}"}"#, Err("`${command:pick}`, which only the client knows")),
        ("vscode", r#"{"command": "x", "args": ["--key", "${input:given}"]}"#, Err("which a definition may not hold")),
        ("vscode", r#"{"command": "x", "args": ["${input:other}"]}"#, Err("`--set input:other=VALUE`")),
        ("cursor", r#"{"command": "x", "cwd": "${env:NOT_SET}"}"#, Err("the variable `NOT_SET`, which is not set")),
        ("cursor", r#"{"command": "x", "env": {"A": "${file}"}}"#, Err("`A` needs `${file}`")),
        ("cursor", r#"{"url": "https://${config:host}/mcp"}"#, Err("`url` needs `${config:host}`")),
    ] {
        let container = if client == "vscode" { "servers" } else { "mcpServers" };
        let mut all = drafts(client, 0, &format!(r#"{{"{container}": {{"a": {entry}}}}}"#));
        match (all.remove(0).1, expected) {
            (Ok(draft), Ok(part)) => {
                let text = draft.text(&draft.name, &refer);
                assert!(text.contains(part), "no `{part}` in\n{text}");
                assert!(draft.definition(&draft.name, &refer).is_ok(), "{text}");
            }
            (Err(reason), Err(part)) => assert!(reason.contains(part), "no `{part}` in {reason}"),
            (other, _) => panic!("{entry}: {other:?}"),
        }
    }
}

#[test]
fn questions_of_a_client_are_those_that_its_servers_refer_to() {
    let text = r#"{"inputs": [{"id": "a", "description": "The key", "password": true}, {"id": "unused"}, {"id": "c", "default": "eu"}],
        "servers": {"x": {"command": "x", "args": ["${input:c}"], "env": {"A": "k ${input:a}", "B": "${input:b}", "C": "${input:a}"}}}}"#;
    let client = client("vscode").unwrap();
    let found = find(client, &client.sources[0], text).unwrap();
    let asked = inputs(client, text, &found);
    let asked: Vec<(&str, bool, Option<&str>)> =
        asked.iter().map(|input| (input.id.as_str(), input.is_secret, input.default.as_deref())).collect();
    assert_eq!(asked, [("c", false, Some("eu")), ("a", true, None), ("b", true, None)]);
}

#[test]
fn windsurf() {
    check(
        "windsurf",
        r#"{"mcpServers": {"x": {"serverUrl": "https://example.com/mcp", "headers": {"API_KEY": "k1"}, "disabled": true, "disabledTools": ["t"]}}}"#,
        "name: x\ntransport: http\nurl: \"https://example.com/mcp\"\nheaders:\n  API_KEY: \"vault:x-api-key\"\nstart: manual\n",
        &[("x-api-key", Some("k1"))],
        &["disabled", "`disabledTools`"],
    );
}

#[test]
fn zed() {
    check(
        "zed",
        "{\n // old form\n \"context_servers\": { \"a\": { \"source\": \"custom\", \"command\": { \"path\": \"srv\", \"args\": [\"-v\"], \"env\": null }, \"settings\": {} } }\n}",
        "name: a\ntransport: stdio\ncommand: srv\nargs: [\"-v\"]\n",
        &[],
        &[],
    );
    check(
        "zed",
        r#"{"context_servers": {"a": {"enabled": false, "url": "https://example.com/mcp"}}}"#,
        "name: a\ntransport: http\nurl: \"https://example.com/mcp\"\nstart: manual\n",
        &[],
        &["disabled"],
    );
    let all = drafts("zed", 0, r#"{"context_servers": {"ext": {"source": "extension", "settings": {"k": 1}}}}"#);
    assert!(all[0].1.as_ref().unwrap_err().contains("extension"));
}

#[test]
fn codex() {
    check(
        "codex",
        "# mine\n[mcp_servers.docs]\ncommand = \"npx\" # why\nargs = [\n  \"-y\",\n  \"docs\",\n]\nenv = { API_TOKEN = \"abc\" }\nenv_vars = [\"LANG_X\"]\nstartup_timeout_sec = 20\ntool_timeout_sec = 1.5\nenabled_tools = [\"a\"]\n",
        "name: docs\ntransport: stdio\ncommand: npx\nargs: [\"-y\", \"docs\"]\nenv:\n  API_TOKEN: \"vault:docs-api-token\"\n  LANG_X: \"env:LANG_X\"\ntimeouts: {call: 1500ms, connect: 20s}\n",
        &[("docs-api-token", Some("abc"))],
        &["`enabled_tools`"],
    );
    check(
        "codex",
        "[mcp_servers.figma]\nurl = \"https://example.com/mcp\"\nbearer_token_env_var = \"UNSET\"\n[mcp_servers.figma.http_headers]\nX-A = \"1\"\n[mcp_servers.figma.env_http_headers]\nX-B = \"B_VAR\"\n",
        "name: figma\ntransport: http\nurl: \"https://example.com/mcp\"\nheaders:\n  Authorization: \"vault:figma-authorization\"\n  X-A: \"1\"\n  X-B: \"env:B_VAR\"\n",
        &[("figma-authorization", None)],
        &["give its whole value"],
    );
}

#[test]
fn gemini_cli() {
    check(
        "gemini-cli",
        r#"{"theme": "x", "mcpServers": {"Py_Tools": {"command": "python", "args": ["-m", "srv"], "cwd": "./s", "timeout": 15000, "env": {"KEY": "$MY_KEY", "B": "${B}"}, "trust": false}}}"#,
        "name: py-tools\ntransport: stdio\ncommand: python\nargs: [\"-m\", \"srv\"]\nenv:\n  B: \"env:B\"\n  KEY: \"env:MY_KEY\"\ncwd: \"./s\"\ntimeouts: {call: 15s}\n",
        &[],
        &[],
    );
    let all = drafts(
        "gemini-cli",
        0,
        r#"{"mcpServers": {"a": {"httpUrl": "https://e/x"}, "b": {"url": "https://e/x"}, "c": {"url": "https://e/x", "type": "http"}}}"#,
    );
    let kinds: Vec<&str> = all.iter().map(|(_, draft)| draft.as_ref().unwrap().transport().as_str()).collect();
    assert_eq!(kinds, ["http", "sse", "http"]);
}

#[test]
fn cline() {
    check(
        "cline",
        r#"{"mcpServers": {"r": {"type": "streamableHttp", "url": "https://example.com/mcp", "timeout": 60, "autoApprove": [], "disabled": false}}}"#,
        "name: r\ntransport: http\nurl: \"https://example.com/mcp\"\ntimeouts: {call: 60s}\n",
        &[],
        &[],
    );
    let all = drafts("cline", 0, r#"{"mcpServers": {"r": {"url": "https://example.com/x", "autoApprove": ["t"]}}}"#);
    assert_eq!(all[0].1.as_ref().unwrap().transport().as_str(), "sse");
}

#[test]
fn muster() {
    check(
        "muster",
        "apiVersion: muster.giantswarm.io/v1alpha1\nkind: MCPServer # one\nmetadata:\n  name: gh\n  labels: {team: a}\nspec:\n  type: streamable-http\n  url: https://example.com/mcp\n  headers: {X-Key: abc}\n  timeout: 30\n  toolPrefix: g\n  description: Things\n  autoStart: true\n  auth: {type: oauth}\n",
        "name: gh\ndescription: Things\nprefix: g\ntransport: http\nurl: \"https://example.com/mcp\"\nheaders:\n  X-Key: \"vault:gh-x-key\"\nstart: eager\ntimeouts: {call: 30s}\nauth:\n  type: oauth\nlabels:\n  \"team\": \"a\"\n",
        &[("gh-x-key", Some("abc"))],
        &["`auth` is kept as it is"],
    );
    let of = |spec: &str| format!("kind: MCPServer\nmetadata: {{name: gh}}\nspec: {{{spec}}}\n");
    check(
        "muster",
        &of("type: stdio, command: run, family: {name: k8s, instanceArg: cluster}, auth: {type: none}"),
        "name: gh\ntransport: stdio\ncommand: run\nfamily: {name: \"k8s\", instance_arg: \"cluster\"}\n",
        &[],
        &[],
    );
    check(
        "muster",
        &of(
            "type: sse, url: 'https://example.com/sse', family: {name: 'a b', instanceArg: x}, auth: {forwardToken: true, password: p, \
             tokenExchange: {enabled: true, dexTokenEndpoint: 'https://u:p@dex.example.com/token'}}",
        ),
        "name: gh\ntransport: sse\nurl: \"https://example.com/sse\"\nauth:\n  forwardToken: true\n  tokenExchange: {}\n",
        &[],
        &["`family`", "`auth.password`, `auth.tokenExchange.dexTokenEndpoint`", "`auth` is kept as it is"],
    );
    check(
        "muster",
        &of(
            "type: sse, url: 'https://example.com/sse', auth: {type: oauth, client_id: 0123456789abcdef0123456789abcdef, \
             client_secret: 'env:SECRET', redirect_uri: 'https://u:p@example.com/cb', share: [x]}",
        ),
        "name: gh\ntransport: sse\nurl: \"https://example.com/sse\"\nauth:\n  type: oauth\n  client_id: \"0123456789abcdef0123456789abcdef\"\n  client_secret: \"env:SECRET\"\n",
        &[],
        &["`auth.redirect_uri`, `auth.share`", "`auth` is kept as it is"],
    );
    check(
        "muster",
        &of("type: sse, url: 'https://example.com/sse', auth: {client_id: a, client_secret: hunter2}"),
        "name: gh\ntransport: sse\nurl: \"https://example.com/sse\"\nauth:\n  client_id: a\n",
        &[],
        &["`auth.client_secret` not imported", "`auth` is kept as it is"],
    );
    check(
        "cursor",
        r#"{"mcpServers": {"a": {"url": "https://example.com/mcp", "auth": {"type": "oauth"}, "family": {"name": "x", "instanceArg": "y"}}}}"#,
        "name: a\ntransport: http\nurl: \"https://example.com/mcp\"\n",
        &[],
        &["sign in again"],
    );
    assert!(drafts("muster", 0, "kind: Workflow\nmetadata: {name: x}\nspec: {steps: [{id: a, tool: b}]}\n").is_empty());
    let client = client("muster").unwrap();
    let error = find(client, &client.sources[0], "kind: MCPServer\nspec: [\n").unwrap_err().to_string();
    assert!(error.contains("not valid YAML"), "{error}");
    assert!(find(client, &client.sources[0], "kind: MCPServer\n").is_err());
}

#[test]
fn toolcrib_is_not_imported() {
    let all = drafts(
        "cursor",
        0,
        r#"{"mcpServers": {"toolcrib": {"url": "https://elsewhere/mcp"}, "a": {"command": "/opt/toolcrib", "args": ["stdio"]},
            "b": {"url": "http://localhost:8700/mcp/p/work"}, "c": {"command": "npx", "args": ["mcp-remote", "http://127.0.0.1:8700/mcp"]},
            "d": {"url": "http://127.0.0.1:8701/mcp"}}}"#,
    );
    let left_out: Vec<bool> = all.iter().map(|(_, draft)| draft.is_err()).collect();
    assert_eq!(left_out, [true, true, true, true, false]);
}

#[test]
fn odd_servers_are_reported_not_taken() {
    let all = drafts(
        "cursor",
        0,
        r#"{"mcpServers": {"none": {}, "ws": {"type": "ws", "url": "wss://x"}, "bad": {"url": "not one"}, "": {"command": "x"}, "text": "x", "empty": {"command": " "}}}"#,
    );
    let kept: Vec<&str> = all.iter().filter_map(|(_, draft)| Some(draft.as_ref().ok()?.name.as_str())).collect();
    assert_eq!(kept, ["server"]);
    assert_eq!(all.len(), 5);
    // What a definition would take for a reference, and what YAML would take for something else.
    check(
        "cursor",
        "{\"mcpServers\": {\"x: y\\n# z\": {\"command\": \"a: b\", \"args\": [\"\\u0085\\u2028\\u007f\", \"no\", \"\"], \"env\": {\"A\": \"file:/etc/passwd\", \"no\": \"yes\", \"B C\": \"1\"}, \"description\": \"- a\\n- b\"}}}",
        "name: x-y-z\ndescription: \"- a\\n- b\"\ntransport: stdio\ncommand: \"a: b\"\nargs: [\"\\u0085\\u2028\\u007f\", \"no\", \"\"]\nenv:\n  A: \"vault:x-y-z-a\"\n  \"no\": \"yes\"\n",
        &[("x-y-z-a", Some("file:/etc/passwd"))],
        &["`B C`"],
    );
    check(
        "cursor",
        r#"{"mcpServers": {"x": {"command": "a", "args": ["--api-key", "abc", "--token=abc", "--verbose"]}, "y": 1}}"#,
        "name: x\ntransport: stdio\ncommand: a\nargs: [\"--api-key\", \"abc\", \"--token=abc\", \"--verbose\"]\n",
        &[],
        &["argument 2", "argument 3"],
    );
}

// === names ===

fn draft(client: &str, text: &str) -> Draft {
    drafts(client, 0, text).remove(0).1.unwrap()
}

#[test]
fn nothing_is_overwritten_and_nothing_written_twice() {
    let with = |key: &str| format!(r#"{{"mcpServers": {{"gh": {{"command": "x", "env": {{"TOKEN": "{key}"}}}}}}}}"#);
    let settled = |drafts: Vec<Draft>, present: &BTreeMap<ServerName, Arc<ServerDefinition>>, taken: &[&str]| {
        let is_taken = |name: &ServerName| taken.contains(&name.as_str());
        let settled = settle(drafts, present, &is_taken, &refer, &|_, _| None);
        settled
            .into_iter()
            .map(|settled| match settled.outcome {
                Outcome::New { name, .. } => format!("new {name}"),
                Outcome::Present { name } => format!("present {name}"),
                Outcome::Impossible { .. } => "impossible".to_owned(),
            })
            .collect::<Vec<_>>()
    };
    let nothing = BTreeMap::new();
    let same = || vec![draft("cursor", &with("one")), draft("windsurf", &with("one")), draft("windsurf", &with("two"))];
    // Equal ones are one; one with another token is another.
    assert_eq!(settled(same(), &nothing, &[]), ["new gh", "present gh", "new gh-windsurf"]);
    // A file that is there, even a bad one, keeps its name.
    assert_eq!(settled(same(), &nothing, &["gh"]), ["new gh-cursor", "present gh-cursor", "new gh-windsurf"]);
    let first = draft("cursor", &with("one"));
    let definition = Arc::new(first.definition(&first.name, &refer).unwrap());
    let present = BTreeMap::from([(first.name.clone(), definition)]);
    assert_eq!(settled(vec![first], &present, &["gh"]), ["present gh"]);
    let other = draft("cursor", r#"{"mcpServers": {"gh": {"command": "y"}}}"#);
    assert_eq!(settled(vec![other], &present, &["gh"]), ["new gh-cursor"]);
}

#[test]
fn secrets_have_names_of_their_own() {
    let draft = draft(
        "cursor",
        r#"{"mcpServers": {"a": {"command": "x", "env": {"A_KEY": "1a", "A__KEY": "2b", "a_key": "3c"}}}}"#,
    );
    let names: Vec<String> = draft.secrets(&draft.name).into_iter().map(|wanted| wanted.name).collect();
    assert_eq!(names, ["a-a-key", "a-a-key-2", "a-a-key-3"]);
    let definition = draft.definition(&draft.name, &refer).unwrap();
    let Transport::Stdio(program) = definition.transport else { panic!() };
    assert_eq!(
        program.env.values().map(ToString::to_string).collect::<Vec<_>>(),
        ["vault:a-a-key", "vault:a-a-key-2", "vault:a-a-key-3"]
    );
    assert!(!format!("{draft:?}").contains("1a"), "secrets are not printed");
}

#[test]
fn a_definition_is_found_where_its_client_is() {
    // The file that is there wins over the first place.
    let folder = tempfile::tempdir().unwrap();
    let cline = folder.path().join(".cline/data/settings/cline_mcp_settings.json");
    std::fs::create_dir_all(cline.parent().unwrap()).unwrap();
    #[derive(Debug)]
    struct Home(PathBuf);
    impl VariableOf for Home {
        fn variable(&self, name: &str) -> Option<PathBuf> {
            (name == "HOME").then(|| self.0.clone())
        }
    }
    let home = Home(folder.path().to_owned());
    let places = Places::new(Platform::Linux, &home);
    let written = |name: &str| client(name).unwrap().file_to_write(&places).map(|(_, path)| path);
    assert_eq!(written("cline").unwrap(), cline, "its folder is there");
    let extension = folder.path().join(client("cline").unwrap().sources[0].places[0].path);
    assert_eq!(written("muster"), None);
    assert!(!extension.exists());
    assert_eq!(places.shown(&cline), "~/.cline/data/settings/cline_mcp_settings.json");
    assert_eq!(places.shown(Path::new("/etc/x")), "/etc/x");
}
