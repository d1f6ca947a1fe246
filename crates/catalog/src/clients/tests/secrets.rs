//! A secret at each place of every client's settings, as a value and as a key, whole and broken: no message, no note and no
//! question repeats it.

use std::collections::BTreeSet;

use super::*;

/// Shaped like a secret.
fn shaped() -> String {
    ["sk", "marker", "0123456789abcdef"].join("-")
}

/// Nothing tells that this is one but where it stands.
const PLAIN: &str = "hunter2marker";

/// Where a secret of any shape may stand.
const ZONES: [&str; 5] = ["env", "headers", "http_headers", "env_http_headers", "auth"];

/// Two servers with every key that some client knows.
fn servers() -> Value {
    json!({
        "local": {
            "type": "stdio", "command": "npx", "args": ["-y", "some-server", "--key", "x", "${workspaceFolder}"],
            "cwd": "/data", "env": {"API_KEY": "abc", "MODE": "${env:MODE}", "ASKED": "${input:asked}"},
            "env_vars": ["NAMED"], "envFile": ".env", "timeout": 5, "startup_timeout_sec": 5, "disabled": true,
            "title": "t", "description": "d", "toolPrefix": "p", "labels": {"a": "b"}, "autoApprove": ["one"],
            "family": {"name": "f", "instanceArg": "i"}, "settings": {"x": "y"},
        },
        "remote": {
            "type": "http", "url": "https://example.com/mcp?mode=fast", "httpUrl": "https://example.com/mcp",
            "serverUrl": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN:-none}"},
            "http_headers": {"X-Mode": "${MODE}x"}, "env_http_headers": {"X-Key": "KEY"},
            "bearer_token_env_var": "TOKEN", "auth": {"type": "oauth", "scopes": ["a"], "unknown": "u"}, "oauth": {"a": "b"},
        },
    })
}

/// The whole settings of a source, as its client writes them.
fn settings(client: &Client, source: &Source) -> Value {
    if client.format == Format::YamlFolder {
        let mut spec = servers()["remote"].clone();
        spec["env"] = servers()["local"]["env"].clone();
        return json!({
            "apiVersion": "muster.giantswarm.io/v1alpha1", "kind": "MCPServer", "metadata": {"name": "remote"},
            "spec": spec,
        });
    }
    let inputs = json!([{"type": "promptString", "id": "asked", "description": "DefinitionId", "password": true}]);
    let mut whole = json!({"inputs": inputs, "theme": "dark"});
    for way in source.servers {
        let steps: Vec<&str> = way.iter().map(|step| if *step == "*" { "/work" } else { *step }).collect();
        let mut value = servers();
        for step in steps[1..].iter().rev() {
            value = json!({ *step: value });
        }
        whole[steps[0]] = value;
    }
    whole
}

/// The text of a value in a client's format.
fn text_of(format: Format, value: &Value) -> String {
    match format {
        // YAML reads JSON.
        Format::Json | Format::YamlFolder => value.to_string(),
        Format::Toml => match value.as_object() {
            Some(members) => members.iter().map(|(key, value)| super::toml::member(key, value) + "\n").collect(),
            // What is no table is no TOML at all.
            None => value.to_string(),
        },
    }
}

fn pointers(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, inner)| pointers(inner, &format!("{path}/{}", escaped(key)), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, inner)| pointers(inner, &format!("{path}/{index}"), found));
        }
        _ => {}
    }
}

/// The value with a secret in each place in turn: everywhere where it is shaped like one, else where secrets belong.
fn planted(value: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    pointers(value, "", &mut all);
    let mut planted = Vec::new();
    for pointer in all {
        let is_zone = ZONES.iter().any(|zone| pointer.split('/').any(|key| key == *zone));
        let secrets = [Some(shaped()), is_zone.then(|| PLAIN.to_owned())];
        for secret in secrets.into_iter().flatten() {
            let mut plants = vec![
                json!(secret),
                json!([secret]),
                json!(format!("Authorization: Bearer {secret}")),
                json!(format!("https://me:{secret}@example.com/?token={secret}")),
                json!({ format!("KEY={secret}"): "y" }),
            ];
            // A name alone is what people look for in the message; one that is shaped like a secret is none.
            if secret != PLAIN {
                plants.push(json!(format!("${{input:{secret}}}x${{{secret}}}")));
                plants.push(json!({ &secret: &secret, "command": &secret, "type": &secret }));
            }
            for plant in plants {
                let mut changed = value.clone();
                *changed.pointer_mut(&pointer).unwrap() = plant;
                planted.push((pointer.clone(), changed));
            }
        }
    }
    planted
}

/// Everything that is said of a text when its servers are read, those left aside that are as they were.
fn server_report(client: &'static Client, source: &Source, text: &str, same: &[ClientServer]) -> Vec<String> {
    let mut report = Vec::new();
    let answers = BTreeMap::new();
    let variable = |_: &str| None;
    let home = Some(PathBuf::from("/people/me"));
    let around = Surroundings { answers: &answers, home, variable: &variable, own_authority: None };
    let found = find(client, source, text).unwrap_or_else(|error| {
        report.push(error.to_string());
        Vec::new()
    });
    for found in found.iter().filter(|found| !same.contains(found)) {
        match translate(client, PathBuf::from("f"), found, &around) {
            Err(reason) => report.push(reason),
            Ok(draft) => {
                report.extend(draft.notes.iter().cloned());
                if let Err(problems) = draft.definition(&draft.name, &|name| format!("vault:{name}")) {
                    report.extend(problems.iter().map(|problem| format!("{problem} {:?}", problem.hint)));
                }
            }
        }
    }
    report
}

/// The same with what is said when our own entry is put in and taken out.
fn report(client: &'static Client, source: &Source, text: &str, same: &[ClientServer]) -> Vec<String> {
    let mut report = server_report(client, source, text, same);
    if let Some(entry) = entry(client, "http://127.0.0.1:8700/mcp", "toolcrib", &[], false) {
        let connected = connect(client, source, text, &entry, None).map(drop);
        report.extend(connected.err().map(|error| error.to_string()));
    }
    report.extend(disconnect(client, source, text, None).err().map(|error| error.to_string()));
    report.extend(is_connected(client, source, text).err().map(|error| error.to_string()));
    report
}

/// The clients and sources that are read in different ways.
fn readers() -> Vec<(&'static Client, &'static Source)> {
    let mut readers: Vec<(&Client, &Source)> = Vec::new();
    for (client, source) in CLIENTS.iter().flat_map(|client| client.sources.iter().map(move |source| (client, source)))
    {
        let is_same = |(known, other): &(&Client, &Source)| {
            (known.format, known.dollar_variables, other.servers)
                == (client.format, client.dollar_variables, source.servers)
        };
        if !readers.iter().any(is_same) {
            readers.push((client, source));
        }
    }
    readers
}

#[test]
fn no_message_about_a_client_s_settings_repeats_a_secret() {
    let (mut tried, mut leaks) = (0, BTreeSet::new());
    for (client, source) in readers() {
        let whole = settings(client, source);
        let same = find(client, source, &text_of(client.format, &whole)).unwrap();
        for (pointer, changed) in planted(&whole) {
            let text = text_of(client.format, &changed);
            // What is deeper is not looked at where our own entry goes.
            let tell = if pointer.matches('/').count() < 3 { report } else { server_report };
            for message in tell(client, source, &text, &same) {
                if message.contains("marker") {
                    leaks.insert(format!("{} {pointer}: {message}", client.name));
                }
                tried += 1;
            }
        }
    }
    assert_eq!(leaks, BTreeSet::new());
    assert!(tried > 1_000, "{tried}");
}

#[test]
fn no_message_about_broken_settings_repeats_a_secret() {
    let mut tried = 0;
    for (client, source) in readers() {
        let whole = text_of(client.format, &settings(client, source));
        for text in [
            "{}",
            "- {}",
            "KEY={}",
            "{ \"a\": {} }",
            "{ \"{}\" }",
            "{ \"{}\": 1, \"{}\": 2 }",
            "\"{}",
            "{} = ",
            "= {}",
            "{} = 1\n{} = 2\n",
            "[{}]\n[{}]\n",
            "[\"{}\n",
            "a = {}",
            "a = '{}",
            "a = [ {} ]",
            "a: [{}",
            "'{}",
            "!{} x",
            "*{}",
            "a: &{} b: c",
            "/* {}",
            "{ // {}",
            "mcpServers = \"{}\"",
            "{ \"mcpServers\": \"{}\" }",
            "? [{}]\n: x",
        ] {
            for secret in [&shaped(), PLAIN] {
                for text in [text.replace("{}", secret), whole.clone() + &text.replace("{}", secret)] {
                    for message in report(client, source, &text, &[]) {
                        assert!(!message.contains("marker"), "{}: {message}\n{text}", client.name);
                        tried += 1;
                    }
                }
            }
        }
        // Cut anywhere, with a secret behind it.
        for (at, _) in whole.char_indices().step_by(7) {
            let text = format!("{}{PLAIN}", &whole[..at]);
            tried += report(client, source, &text, &[]).into_iter().fold(0, |count, message| {
                assert!(!message.contains("marker"), "{}: {message}\n{text}", client.name);
                count + 1
            });
        }
    }
    assert!(tried > 1_000, "{tried}");
}
