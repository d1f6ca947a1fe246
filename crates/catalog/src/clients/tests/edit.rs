//! Putting us into settings and taking us out.

use std::cell::Cell;
use std::io;

use proptest::prelude::*;

use super::*;

const URL: &str = "http://127.0.0.1:8700/mcp";

fn ours(client: &Client) -> Value {
    entry(client, URL, "/opt/toolcrib", &["stdio".to_owned()], false).unwrap()
}

fn source(client: &Client) -> &'static Source {
    client.sources.iter().find(|source| source.is_written).unwrap()
}

/// Connects, checks the text, connects again, disconnects, and checks that the bytes are those of before.
#[track_caller]
fn check(name: &str, before: &str, after: &str) {
    let client = client(name).unwrap();
    let source = source(client);
    let ConnectOutcome::New { text, splices, made_container, .. } =
        connect(client, source, before, &ours(client), None).unwrap()
    else {
        panic!("it was connected already");
    };
    assert_eq!(text, after);
    assert_eq!(connect(client, source, &text, &ours(client), None).unwrap(), ConnectOutcome::Already);
    let undo = Some(EntryUndo { splices: &splices, made_container });
    assert_eq!(disconnect(client, source, &text, undo).unwrap().as_deref(), Some(before));
    assert_eq!(disconnect(client, source, before, undo).unwrap(), None);
    // Without the record nothing else is lost, and what is left can be read.
    let cut = disconnect(client, source, &text, None).unwrap().unwrap();
    assert!(!is_connected(client, source, &cut).unwrap());
    assert_eq!(disconnect(client, source, &cut, None).unwrap(), None);
}

#[test]
fn each_client_gets_its_own_form() {
    check(
        "claude-desktop",
        "{\n}\n",
        "{\n  \"mcpServers\": {\n    \"toolcrib\": {\n      \"command\": \"/opt/toolcrib\",\n      \"args\": [\"stdio\"]\n    }\n  }\n}\n",
    );
    for (name, container, entry) in [
        ("claude-code", "mcpServers", json!({ "type": "http", "url": URL })),
        ("cline", "mcpServers", json!({ "type": "streamableHttp", "url": URL })),
        ("cursor", "mcpServers", json!({ "url": URL })),
        ("gemini-cli", "mcpServers", json!({ "httpUrl": URL })),
        ("vscode", "servers", json!({ "type": "http", "url": URL })),
        ("windsurf", "mcpServers", json!({ "serverUrl": URL })),
        ("zed", "context_servers", json!({ "url": URL })),
    ] {
        let client = client(name).unwrap();
        let ConnectOutcome::New { text, .. } = connect(client, source(client), "", &ours(client), None).unwrap() else {
            panic!("{name}");
        };
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            json!({ container: { "toolcrib": entry } }),
            "{name}"
        );
    }
    let stdio = |name: &str| entry(client(name).unwrap(), URL, "/opt/toolcrib", &[], true).unwrap();
    assert_eq!(stdio("vscode"), json!({ "type": "stdio", "command": "/opt/toolcrib", "args": [] }));
    assert_eq!(stdio("cursor"), json!({ "command": "/opt/toolcrib", "args": [] }));
    assert_eq!(entry(client("muster").unwrap(), URL, "", &[], false), None);
}

#[test]
fn comments_commas_and_indents_stay() {
    check(
        "zed",
        "// Mine.\n{\n\t\"theme\": \"One\", // light\n\t/* servers */\n\t\"context_servers\": {\n\t\t// the first\n\t\t\"a\": { \"command\": \"x\", }, // why\n\t\t// the end\n\t},\n}\n",
        "// Mine.\n{\n\t\"theme\": \"One\", // light\n\t/* servers */\n\t\"context_servers\": {\n\t\t// the first\n\t\t\"a\": { \"command\": \"x\", }, // why\n\t\t\"toolcrib\": {\n\t\t\t\"url\": \"http://127.0.0.1:8700/mcp\"\n\t\t},\n\t\t// the end\n\t},\n}\n",
    );
    check(
        "cursor",
        "{\n    \"mcpServers\": {\n        \"a\": {\"url\": \"https://a\"} // no comma\n    }\n}",
        "{\n    \"mcpServers\": {\n        \"a\": {\"url\": \"https://a\"}, // no comma\n        \"toolcrib\": {\n            \"url\": \"http://127.0.0.1:8700/mcp\"\n        }\n    }\n}",
    );
    // A byte order mark and the line ends of Windows.
    check(
        "cursor",
        "\u{FEFF}{\r\n  \"x\": 1\r\n}\r\n",
        "\u{FEFF}{\r\n  \"x\": 1,\r\n  \"mcpServers\": {\r\n    \"toolcrib\": {\r\n      \"url\": \"http://127.0.0.1:8700/mcp\"\r\n    }\r\n  }\r\n}\r\n",
    );
    // All on one line.
    check(
        "cursor",
        "{\"mcpServers\":{\"a\":{}},\"b\":1}",
        "{\"mcpServers\":{\"a\":{}, \"toolcrib\": { \"url\": \"http://127.0.0.1:8700/mcp\" }},\"b\":1}",
    );
    check(
        "cursor",
        "{\"mcpServers\":{}}",
        "{\"mcpServers\":{\"toolcrib\": { \"url\": \"http://127.0.0.1:8700/mcp\" }}}",
    );
    // Nothing at all, and nothing but a remark.
    for before in ["", "\n", "// Mine.\n", "// Mine.", "{}", "{ }", "{ /* x */ }", "{ // x\n}", "{\n  // x\n\n}\n"] {
        let client = client("cursor").unwrap();
        let ConnectOutcome::New { text, .. } = connect(client, source(client), before, &ours(client), None).unwrap()
        else {
            panic!("{before}");
        };
        check("cursor", before, &text);
    }
    let empty = "{\n  \"mcpServers\": {},\n  \"b\": 1\n}\n";
    check(
        "cursor",
        empty,
        "{\n  \"mcpServers\": {\n    \"toolcrib\": {\n      \"url\": \"http://127.0.0.1:8700/mcp\"\n    }\n  },\n  \"b\": 1\n}\n",
    );
}

#[test]
fn toml_keeps_its_form() {
    let entry = "[mcp_servers.toolcrib]\nurl = \"http://127.0.0.1:8700/mcp\"\n";
    check("codex", "", entry);
    check("codex", "# Mine.\nmodel = 'x' # why\n", &format!("# Mine.\nmodel = 'x' # why\n\n{entry}"));
    check("codex", "[a]\nb = 1", &format!("[a]\nb = 1\n\n{entry}"));
    check(
        "codex",
        "[mcp_servers.one]\r\ncommand = \"x\"\r\n\r\n[tui] # last\r\n",
        "[mcp_servers.one]\r\ncommand = \"x\"\r\n\r\n[tui] # last\r\n\r\n[mcp_servers.toolcrib]\r\nurl = \"http://127.0.0.1:8700/mcp\"\r\n",
    );
    check("codex", "mcp_servers.one.command = \"x\"\n", &format!("mcp_servers.one.command = \"x\"\n\n{entry}"));
    check(
        "codex",
        "mcp_servers = { one = { command = \"x\" } } # all\n",
        "mcp_servers = { toolcrib = { url = \"http://127.0.0.1:8700/mcp\" }, one = { command = \"x\" } } # all\n",
    );
    check("codex", "mcp_servers = {}\n", "mcp_servers = { toolcrib = { url = \"http://127.0.0.1:8700/mcp\" } }\n");
}

#[test]
fn toml_entries_are_cut_out_also_when_others_came_behind_them() {
    let client = client("codex").unwrap();
    let cut = |text: &str| disconnect(client, source(client), text, None).unwrap().unwrap();
    let text = "a = 1\n\n[mcp_servers.toolcrib]\nurl = \"x\" # ours\n\n[mcp_servers.toolcrib.env]\nX = \"1\"\n\n# about b\n[b]\nc = 2\n";
    assert_eq!(cut(text), "a = 1\n\n# about b\n[b]\nc = 2\n");
    assert_eq!(cut("[mcp_servers]\ntoolcrib = { url = \"x\" }\none = {}\n"), "[mcp_servers]\none = {}\n");
    assert_eq!(cut("mcp_servers = { one = {}, toolcrib = { url = \"x\" } }\n"), "mcp_servers = { one = {} }\n");
}

#[test]
fn another_address_replaces_the_entry_and_disconnecting_goes_back_to_the_beginning() {
    let client = client("cursor").unwrap();
    let source = source(client);
    let before = "{ \"a\": 1 }\n";
    let ConnectOutcome::New { text: first, splices, made_container, replaces } =
        connect(client, source, before, &ours(client), None).unwrap()
    else {
        panic!()
    };
    assert!(!replaces);
    let other = json!({ "url": "http://127.0.0.1:8700/mcp/p/work" });
    let ConnectOutcome::New { text: second, splices, made_container, replaces } =
        connect(client, source, &first, &other, Some(EntryUndo { splices: &splices, made_container })).unwrap()
    else {
        panic!()
    };
    assert!(replaces && second.contains("/p/work") && !second.contains("8700/mcp\""));
    assert_eq!(
        disconnect(client, source, &second, Some(EntryUndo { splices: &splices, made_container })).unwrap().as_deref(),
        Some(before)
    );
}

#[test]
fn what_others_changed_since_stays() {
    let client = client("cursor").unwrap();
    let source = source(client);
    let before = "{\n  \"a\": 1\n}\n";
    let ConnectOutcome::New { text, splices, made_container, .. } =
        connect(client, source, before, &ours(client), None).unwrap()
    else {
        panic!()
    };
    let undo = Some(EntryUndo { splices: &splices, made_container });
    // Something before our entry, so that it is elsewhere now.
    let later = text.replace("\"a\": 1", "\"a\": 12345, \"b\": [2]");
    assert_eq!(disconnect(client, source, &later, undo).unwrap().unwrap(), "{\n  \"a\": 12345, \"b\": [2]\n}\n");
    // Another server beside ours: the map stays.
    let later = text.replace("    }\n  }", "    },\n    \"new\": {}\n  }");
    let back = disconnect(client, source, &later, undo).unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&back).unwrap(), json!({ "a": 1, "mcpServers": { "new": {} } }));
    // Our entry was edited: it goes all the same, and so does the map that came with it.
    let later = text.replace("\"url\"", "\"disabled\": true,\n      \"url\"");
    let back = disconnect(client, source, &later, undo).unwrap().unwrap();
    assert_eq!(back, before);
    // A switch that a person added is no other entry.
    assert_eq!(connect(client, source, &later, &ours(client), undo).unwrap(), ConnectOutcome::Already);
}

#[test]
fn what_cannot_be_read_is_refused_with_its_place() {
    let check = |name: &str, text: &str, expected: &str| {
        let client = client(name).unwrap();
        let error = connect(client, source(client), text, &ours(client), None).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let looks_empty = matches!(disconnect(client, source(client), text, None), Ok(None));
        assert!(looks_empty || disconnect(client, source(client), text, None).is_err());
    };
    check("cursor", "{\n  \"a\": 1\n  \"b\": 2\n}", "2:9: not valid JSON: expected comma");
    check("cursor", "{ \"a\": ", "1:8: not valid JSON: expected value after colon in object property");
    check("cursor", "{ 'a': 1 }", "1:3: not valid JSON: single-quoted strings are not allowed");
    check("cursor", "{} {}", "1:4: not valid JSON: text cannot contain more than one JSON value");
    check("cursor", "[]", "1:1: expected an object at the top of the file");
    check("cursor", "{\n \"mcpServers\": [] }", "2:16: expected an object in `mcpServers`");
    check("cursor", "{\"mcpServers\": {}, \"mcpServers\": {}}", "1:20: `mcpServers` is there twice");
    check("cursor", "\u{FEFF}{ä", "1:2: not valid JSON: expected string for object property");
    check("codex", "a = 1\nb = \n", "2:5: not valid TOML: string values must be quoted, expected literal string");
    check("codex", "mcp_servers = 1\n", "1:15: expected a table in `mcp_servers`");
    let deep = "[".repeat(100_000);
    let client = client("cursor").unwrap();
    assert!(connect(client, source(client), &deep, &ours(client), None).is_err());
    let twice = "{\"mcpServers\": {\"toolcrib\": {}, \"toolcrib\": {\"url\": \"x\"}}}";
    assert!(connect(client, source(client), twice, &ours(client), None).is_err());
}

// === the file ===

fn full_disk(file: &mut std::fs::File, bytes: &[u8]) -> io::Result<()> {
    io::Write::write_all(file, &bytes[..bytes.len() / 2])?;
    Err(io::Error::from(io::ErrorKind::StorageFull))
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    std::fs::write(&path, "{ \"old\": true }").unwrap();
    let file = SettingsFile::read(&path).unwrap();
    let error = file.replace("{ \"new\": true }", &full_disk).unwrap_err();
    assert!(matches!(error, FileError::Unwritable { .. }), "{error}");
    assert!(matches!(file.back_up(&folder.path().join("b"), "t", &full_disk), Err(FileError::NoBackup { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{ \"old\": true }");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "only the file and the folder of copies");
    assert_eq!(std::fs::read_dir(folder.path().join("b")).unwrap().count(), 0);
}

#[test]
fn a_file_that_someone_else_wrote_to_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    std::fs::write(&path, "old").unwrap();
    let file = SettingsFile::read(&path).unwrap();
    std::fs::write(&path, "theirs").unwrap();
    assert!(matches!(file.replace("ours", &write_all_and_sync), Err(FileError::Changed { .. })));
    assert!(matches!(file.remove(), Err(FileError::Changed { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
    let absent = SettingsFile::read(&folder.path().join("new.json")).unwrap();
    std::fs::write(folder.path().join("new.json"), "theirs").unwrap();
    assert!(matches!(absent.replace("ours", &write_all_and_sync), Err(FileError::Changed { .. })));
    // Also while we write.
    let file = SettingsFile::read(&path).unwrap();
    let calls = Cell::new(0);
    let meanwhile = |to: &mut std::fs::File, bytes: &[u8]| {
        calls.set(calls.get() + 1);
        std::fs::write(&path, "theirs again")?;
        write_all_and_sync(to, bytes)
    };
    assert!(matches!(file.replace("ours", &meanwhile), Err(FileError::Changed { .. })));
    assert_eq!((calls.get(), std::fs::read_to_string(&path).unwrap().as_str()), (1, "theirs again"));
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("dotfiles").join("mcp.json");
    std::fs::create_dir(real.parent().unwrap()).unwrap();
    std::fs::write(&real, "old").unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("mcp.json");
    symlink(&real, &link).unwrap();
    let file = SettingsFile::read(&link).unwrap();
    let copy = file.back_up(&folder.path().join("b"), "t", &write_all_and_sync).unwrap().unwrap();
    file.replace("new", &write_all_and_sync).unwrap();
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "new");
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "old");
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    symlink(folder.path().join("nowhere"), folder.path().join("dangling")).unwrap();
    assert!(matches!(SettingsFile::read(&folder.path().join("dangling")), Err(FileError::Unreadable { .. })));
    assert!(matches!(SettingsFile::read(folder.path()), Err(FileError::NotAFile { .. })));
    std::fs::write(&real, [0xFF, 0xFE]).unwrap();
    assert!(matches!(SettingsFile::read(&link).unwrap().text(), Err(FileError::NotText { .. })));
}

// === any document ===

/// Blanks and comments between two tokens.
fn trivia() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just(String::new()),
        3 => Just(" ".to_owned()),
        3 => Just("\n  ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just(" /* a, { } */ ".to_owned()),
        1 => Just(" // b \" } ,\n".to_owned()),
        1 => Just("\n\n    // c\r\n    ".to_owned()),
    ];
    proptest::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

/// A value as text.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("-1.5e3".to_owned()),
        Just("\"\"".to_owned()),
        "[a-z/*\",{}ä]{0,6}".prop_map(|text| Value::from(text).to_string()),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            object(proptest::collection::vec(("[a-z]{1,3}", inner.clone()), 0..4)),
            (proptest::collection::vec((trivia(), inner), 0..3), any::<bool>(), trivia()).prop_map(
                |(items, comma, end)| {
                    let comma = if comma && !items.is_empty() { "," } else { "" };
                    let items: Vec<String> = items.into_iter().map(|(before, item)| before + &item).collect();
                    format!("[{}{comma}{end}]", items.join(","))
                }
            ),
        ]
    })
}

/// An object as text; no key twice.
fn object(members: impl Strategy<Value = Vec<(String, String)>>) -> impl Strategy<Value = String> {
    let spaces = proptest::collection::vec((trivia(), trivia(), trivia(), trivia()), 6);
    (members, spaces, any::<bool>(), trivia()).prop_map(|(members, spaces, comma, end)| {
        let mut seen = std::collections::HashSet::new();
        let members: Vec<_> = members.into_iter().filter(|(key, _)| seen.insert(key.clone())).collect();
        let comma = if comma && !members.is_empty() { "," } else { "" };
        let members: Vec<String> = members
            .iter()
            .zip(&spaces)
            .map(|((key, value), (a, b, c, d))| format!("{a}{}{b}:{c}{value}{d}", Value::from(key.as_str())))
            .collect();
        format!("{{{}{comma}{end}}}", members.join(","))
    })
}

fn document() -> impl Strategy<Value = String> {
    let servers = object(proptest::collection::vec(("[a-z]{1,3}", value()), 0..3));
    let others = proptest::collection::vec(("[a-z]{1,3}", value()), 0..4);
    let top = (others, proptest::option::of(servers), 0..4_usize).prop_map(|(mut members, servers, at)| {
        if let Some(servers) = servers {
            let at = at.min(members.len());
            members.insert(at, ("mcpServers".to_owned(), servers));
        }
        members
    });
    (prop_oneof![Just(""), Just("\u{FEFF}")], trivia(), object(top), trivia())
        .prop_map(|(mark, before, top, after)| format!("{mark}{before}{top}{after}"))
}

/// What a document says, read by the library alone.
fn parsed(text: &str) -> Value {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default()).unwrap();
    parsed.value.map_or(Value::Null, Value::from)
}

/// A TOML document: members, tables and remarks in any order, servers in each of the forms that there are.
fn toml_document() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("# \"remark\" [x]"),
        Just(""),
        Just("  "),
        Just("[table.N]  # why"),
        Just("[[list]]"),
        Just("keyN = 'x'"),
        Just("keyN = [ 1,"),
        Just("[mcp_servers.sN]"),
        Just("[mcp_servers.sN.env]"),
        Just("\"quoted N\" = { a = 1, b = \"}\" }"),
    ];
    let top = prop_oneof![
        4 => Just(""),
        1 => Just("mcp_servers = { a = { command = \"x\" } } # all\n"),
        1 => Just("mcp_servers.a.command = \"x\"\n"),
        1 => Just("mcp_servers = {}\n"),
    ];
    let newline = prop_oneof![Just("\n"), Just("\r\n")];
    (top, proptest::collection::vec(line, 0..8), newline, any::<bool>()).prop_map(|(top, lines, newline, ends)| {
        let lines: Vec<String> = lines.iter().enumerate().map(|(n, line)| line.replace('N', &n.to_string())).collect();
        let closed: Vec<String> = lines
            .iter()
            .map(|line| if line.ends_with("1,") { format!("{line}{newline}  2 ]") } else { line.clone() })
            .collect();
        format!("{}{}{}", top.replace('\n', newline), closed.join(newline), if ends { newline } else { "" })
    })
}

proptest! {
    #[test]
    fn connecting_and_disconnecting_gives_the_same_bytes_in_toml(before in toml_document()) {
        let client = client("codex").unwrap();
        let source = source(client);
        let toml = toml_edit::Document::parse(before.as_str());
        match connect(client, source, &before, &ours(client), None) {
            Ok(ConnectOutcome::New { text, splices, made_container, .. }) => {
                prop_assert!(splices.as_slice().iter().all(|splice| splice.out.is_empty()));
                prop_assert!(toml_edit::Document::parse(text.as_str()).is_ok(), "{}", text);
                prop_assert_eq!(connect(client, source, &text, &ours(client), None).unwrap(), ConnectOutcome::Already);
                let undo = Some(EntryUndo { splices: &splices, made_container });
                prop_assert_eq!(disconnect(client, source, &text, undo).unwrap().unwrap(), before);
                let cut = disconnect(client, source, &text, None).unwrap().unwrap();
                prop_assert!(!is_connected(client, source, &cut).unwrap());
            }
            Ok(ConnectOutcome::Already) => prop_assert!(false, "it is not there"),
            // The same table twice, and such: nothing is written.
            Err(_) => prop_assert!(toml.is_err(), "{}", before),
        }
    }

    #[test]
    fn connecting_and_disconnecting_gives_the_same_bytes(before in document()) {
        let client = client("claude-code").unwrap();
        let source = source(client);
        let ConnectOutcome::New { text, splices, made_container, .. } =
            connect(client, source, &before, &ours(client), None).unwrap() else { panic!() };
        // Everything else is unchanged: what came in are pieces, and without them it is the same text.
        prop_assert!(splices.as_slice().iter().all(|splice| splice.out.is_empty()));
        let mut expected = parsed(&before);
        let servers = expected.as_object_mut().unwrap().entry("mcpServers").or_insert_with(|| json!({}));
        servers.as_object_mut().unwrap().insert("toolcrib".to_owned(), ours(client));
        prop_assert_eq!(parsed(&text).to_string(), expected.to_string());
        prop_assert_eq!(connect(client, source, &text, &ours(client), None).unwrap(), ConnectOutcome::Already);
        let undo = Some(EntryUndo { splices: &splices, made_container });
        prop_assert_eq!(disconnect(client, source, &text, undo).unwrap().unwrap(), before.clone());
        // Without the record: the same values, comments included, and again no entry of ours.
        let cut = disconnect(client, source, &text, None).unwrap().unwrap();
        let mut expected = parsed(&before);
        expected.as_object_mut().unwrap().entry("mcpServers").or_insert_with(|| json!({}));
        prop_assert_eq!(parsed(&cut).to_string(), expected.to_string());
        prop_assert_eq!(cut.matches("/*").count(), before.matches("/*").count());
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}", json in "[\\[\\]{}\",:/*\\n a1]{0,40}") {
        for name in ["cursor", "codex"] {
            let client = client(name).unwrap();
            for text in [&text, &json] {
                let connected = connect(client, source(client), text, &ours(client), None);
                if let Ok(ConnectOutcome::New { text: changed, splices, made_container, .. }) = connected {
                    let back = disconnect(client, source(client), &changed, Some(EntryUndo { splices: &splices, made_container }));
                    prop_assert_eq!(back.unwrap().unwrap(), text.clone());
                }
            }
        }
    }
}
