//! The file of contexts: what is read, what is refused, who gets which token.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::find(Some(folder.path()), &Environment::default()).unwrap();
    (folder, home)
}

fn write(home: &Home, text: &str, mode: u32) {
    let path = home.path().join(FILE);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_was_written_is_read_again() {
    let (_folder, home) = home();
    assert!(Contexts::load(&home).unwrap().all.is_empty());
    let mut contexts = Contexts::load(&home).unwrap();
    contexts.current = Some("work".into());
    for (name, token) in [("work", Some("env:WORK")), ("home-2", None), ("open", Some("very-secret"))] {
        contexts.all.push(Context {
            name: name.into(),
            endpoint: format!("https://{name}.example/mcp"),
            profile: Some(ProfileName::new("p").unwrap()),
            token: token.map(|token| token_of(token).unwrap()),
            output: Some(Format::Wide),
        });
    }
    contexts.save().unwrap();
    let mode = std::fs::metadata(home.path().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let read = Contexts::load(&home).unwrap();
    assert_eq!((read.current.as_deref(), &read.all), (Some("work"), &contexts.all));
    assert_eq!(read.all[2].shown()["token"], "****");
}

#[test]
fn musters_file_is_read() {
    let (_folder, home) = home();
    let text = "current-context: local\ncontexts:\n  - name: local\n    endpoint: http://localhost:8090/mcp\n    settings:\n      output: json\n";
    write(&home, text, 0o644);
    let contexts = Contexts::load(&home).unwrap();
    let current = contexts.current().unwrap().unwrap();
    assert_eq!((current.endpoint.as_str(), current.output), ("http://localhost:8090/mcp", Some(Format::Json)));
}

#[test]
fn a_damaged_file_is_reported_with_its_place() {
    let entry = |rest: &str| format!("contexts:\n- name: a\n  endpoint: http://a\n{rest}");
    for (text, part) in [
        ("contexts: [".to_owned(), "contexts.yaml:2:1: "),
        ("[]".to_owned(), "expected a map"),
        ("a: 1\n---\nb: 2".to_owned(), "more than one document"),
        ("contexts: {}".to_owned(), "expected a list"),
        ("kontexts: []".to_owned(), "unknown key `kontexts`"),
        ("current-context: [1]".to_owned(), "`current-context`: expected a text"),
        ("contexts:\n- endpoint: http://a".to_owned(), "`contexts[0]`: the key `name` is missing"),
        ("contexts:\n- name: a".to_owned(), "the key `endpoint` is missing"),
        ("contexts:\n- name: ../a\n  endpoint: x".to_owned(), "`../a` is not a name"),
        (entry("- name: a\n  endpoint: http://b\n"), "`a` appears twice"),
        (entry("  tokn: x\n"), "`contexts[0]`: unknown key `tokn`"),
        (entry("  token: 'env:1X'\n"), "`token`: expected a variable's name"),
        (entry("  token: vault:x\n"), "the vault holds secrets of servers only"),
        (entry("  settings: {output: xml}\n"), "table, wide, json, yaml, name"),
        (entry("  settings: {colour: red}\n"), "unknown key `colour`"),
        (entry("  token: plain-text\n"), "other users can read it"),
    ] {
        let (_folder, home) = home();
        write(&home, &text, 0o644);
        let problem = Contexts::load(&home).unwrap_err();
        assert!(problem.message.contains(part), "{problem} for {text}");
        assert!(!problem.message.contains("plain-text") && problem.hint.is_some(), "{problem}");
    }
    let (folder, home) = home();
    std::fs::create_dir(folder.path().join(FILE)).unwrap();
    let problem = Contexts::load(&home).unwrap_err();
    assert!(problem.message.contains("cannot read") && problem.hint.unwrap().contains("--endpoint"));
}

#[test]
fn names_are_checked() {
    for name in ["a", "a-b", "0", &"x".repeat(63)] {
        check_name(name).unwrap();
    }
    for name in ["", "-a", "a-", "A", "a.b", "a/b", "ä", &"x".repeat(64)] {
        assert!(check_name(name).unwrap_err().contains("is not a name"), "{name}");
    }
}

#[test]
fn tokens_are_resolved_when_they_are_used() {
    let (folder, home) = home();
    std::fs::write(folder.path().join("t"), "of-file\n").unwrap();
    let environment: Environment =
        [("T".to_owned(), OsString::from("of-env")), ("BAD".to_owned(), "a b".into())].into_iter().collect();
    let resolve = |text: &str| {
        let context = Context {
            name: "a".into(),
            endpoint: "http://a".into(),
            profile: None,
            token: Some(token_of(text).unwrap()),
            output: None,
        };
        context.resolve(&home, &environment)
    };
    for (text, expected) in [("file:t", "of-file"), ("env:T", "of-env"), ("itself", "itself")] {
        assert_eq!(resolve(text).unwrap().unwrap().expose(), expected);
    }
    for (text, part) in
        [("file:none", "cannot read a token"), ("env:NONE", "is not set"), ("env:BAD", "contains no token")]
    {
        let problem = resolve(text).unwrap_err();
        assert_eq!(problem.kind, Kind::Unauthenticated);
        assert!(problem.message.contains(part), "{problem}");
    }
}

#[test]
fn flag_variable_current() {
    let (_folder, home) = home();
    let text = "current-context: c\ncontexts:\n- {name: a, endpoint: 'http://a'}\n- {name: b, endpoint: 'http://b'}\n- {name: c, endpoint: 'http://c'}\n";
    write(&home, text, 0o644);
    let variable: Environment = [("TOOLCRIB_CONTEXT".to_owned(), OsString::from("b"))].into_iter().collect();
    let empty = Environment::default();
    for (flag, environment, expected) in
        [(Some("a"), &variable, "a"), (None, &variable, "b"), (None, &empty, "c"), (Some("b"), &empty, "b")]
    {
        let (context, place) = wanted(flag, Ok(&home), environment).unwrap().unwrap();
        assert_eq!(context.name, expected, "{place}");
    }
    let problem = wanted(Some("d"), Ok(&home), &empty).unwrap_err();
    assert!(problem.message.contains("no context `d` (from `--context`)"), "{problem}");
    assert!(problem.hint.unwrap().contains("`a`, `b`, `c`"));
    write(&home, "current-context: gone\n", 0o644);
    assert!(wanted(None, Ok(&home), &empty).unwrap_err().message.contains("no context `gone`"));
    let homeless = || Err(Problem::new(Kind::Definition, "no home"));
    assert!(wanted(None, homeless(), &empty).unwrap().is_none());
    assert!(wanted(Some("a"), homeless(), &empty).is_err());
}

/// A secret in each place of the file, as a value, as a key and where the text is broken: no message repeats it.
#[test]
fn no_message_repeats_a_secret() {
    let shaped = ["sk", "marker", "0123456789abcdef"].join("-");
    // Nothing tells that this is one but that it stands at the token.
    let plain = "hunter2marker".to_owned();
    let whole = json!({
        "current-context": "work",
        "contexts": [{
            "name": "work", "endpoint": "https://work.example/mcp", "profile": "p", "token": "env:TOKEN",
            "settings": {"output": "json"},
        }],
    });
    let places = [
        "",
        "/current-context",
        "/contexts",
        "/contexts/0",
        "/contexts/0/name",
        "/contexts/0/endpoint",
        "/contexts/0/profile",
        "/contexts/0/token",
        "/contexts/0/settings",
        "/contexts/0/settings/output",
    ];
    let mut texts = Vec::new();
    for place in places {
        let secrets = [Some(&shaped), (place == "/contexts/0/token").then_some(&plain)];
        for secret in secrets.into_iter().flatten() {
            for plant in [
                json!(secret),
                json!([secret]),
                json!({ secret: "y" }),
                json!({ format!("KEY={secret}"): secret }),
                json!(format!("Bearer {secret}")),
                json!(format!("vault:{secret}")),
                json!(format!("env:{secret}")),
                json!(format!("file:../{secret}")),
                json!(format!("https://me:{secret}@example.com/?token={secret}")),
            ] {
                let mut changed = whole.clone();
                *changed.pointer_mut(place).unwrap() = plant;
                texts.push(changed.to_string());
            }
            let mut twice = whole.clone();
            let context = twice["contexts"][0].clone();
            twice["contexts"].as_array_mut().unwrap().push(context);
            if let Some(value) = twice.pointer_mut(place) {
                *value = json!(secret);
            }
            texts.push(twice.to_string());
        }
    }
    for text in [
        "{}",
        "- {}",
        "KEY={}",
        "? [{}]\n: x",
        "!{} x",
        "*{}",
        "a: [{}",
        "\"{}",
        "token: {}",
        "contexts: [{token: {}}]",
        "contexts: [{name: a, endpoint: b, token: [{}",
        "a: &{} b: c",
        "current-context: {}\n---\n{}",
    ] {
        texts.extend([&shaped, &plain].map(|secret| text.replace("{}", secret)));
    }
    let (_folder, home) = home();
    let (mut tried, mut leaks) = (0, Vec::new());
    for text in texts {
        for mode in [0o600, 0o644] {
            write(&home, &text, mode);
            let read = Contexts::load(&home).and_then(|contexts| contexts.current().map(|_| ()));
            if let Err(problem) = read {
                let told = format!("{} {}", problem.message, problem.hint.as_deref().unwrap_or_default());
                if told.contains("marker") {
                    leaks.push(format!("{text}: {told}"));
                }
                tried += 1;
            }
        }
    }
    assert_eq!(leaks, Vec::<String>::new());
    assert!(tried > 60, "{tried}");
}
