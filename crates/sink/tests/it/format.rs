//! Formats, read back by small readers of their own: whatever a value contains, it stays that value, on one line.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolcrib_base::Timestamp;
use toolcrib_sink::Entry;
use toolcrib_sink::format::{
    CEF_MAX, Format, MESSAGE_MAX, Origin, Resource, SyslogBody, cef, framed, json_line, otlp_request, syslog,
};

/// A row as the log has it, with some fields changed.
fn entry(changes: Value) -> Entry {
    let at = Timestamp(1_764_072_000_123);
    let mut fields = json!({
        "seq": 7, "at": at.to_string(), "principal": "user:acme/ann", "profile": "default", "door": "mcp",
        "method": "tools/call", "target": "files/read", "args_hash": "ab", "decision": "permit:tool-allowed",
        "outcome": "ok", "duration_us": 1500, "request_id": "1", "address": "192.0.2.7",
        "prev_hash": "00", "hash": "11",
    });
    let (Value::Object(fields), Value::Object(changes)) = (&mut fields, changes) else { panic!("objects") };
    fields.extend(changes);
    Entry { seq: fields["seq"].as_u64().unwrap(), at, checkpoint: None, fields: fields.clone() }
}

fn origin() -> Origin {
    Origin { host: "gate.example.com".to_owned(), process: "42".to_owned() }
}

/// What a reader of CEF reads: the header's fields and the extension's pairs.
fn read_cef(line: &str) -> (Vec<String>, Map<String, Value>) {
    let mut header = vec![String::new()];
    let mut characters = line.chars();
    while header.len() < 8 {
        match characters.next().expect("a header of seven bars") {
            '|' => header.push(String::new()),
            '\\' => header.last_mut().unwrap().push(characters.next().unwrap()),
            other => header.last_mut().unwrap().push(other),
        }
    }
    header.pop();
    let (mut pairs, mut pieces) = (Map::new(), vec![String::new()]);
    while let Some(character) = characters.next() {
        match character {
            '=' => pieces.push(String::new()),
            '\\' => pieces.last_mut().unwrap().push(match characters.next().unwrap() {
                'n' => '\n',
                'r' => '\r',
                other => other,
            }),
            other => pieces.last_mut().unwrap().push(other),
        }
    }
    let mut key = pieces.remove(0);
    let last = pieces.pop().unwrap();
    for piece in pieces {
        let (value, next) = piece.rsplit_once(' ').expect("a blank before the next key");
        pairs.insert(std::mem::replace(&mut key, next.to_owned()), value.into());
    }
    pairs.insert(key, last.into());
    (header, pairs)
}

/// What a reader of RFC 5424 reads: the header's fields, the parameters of our structured data, the text.
fn read_syslog(message: &str) -> (Vec<&str>, Map<String, Value>, &str) {
    let mut parts = message.splitn(7, ' ');
    let header: Vec<&str> = parts.by_ref().take(6).collect();
    let rest = parts.next().unwrap();
    let rest = rest.strip_prefix("[meta sequenceId=\"").unwrap();
    let (_, rest) = rest.split_once("\"][toolcrib@32473").unwrap();
    let (mut parameters, mut rest) = (Map::new(), rest);
    while let Some(parameter) = rest.strip_prefix(' ') {
        let (name, value) = parameter.split_once("=\"").unwrap();
        let (mut read, mut characters) = (String::new(), value.char_indices());
        let end = loop {
            match characters.next().expect("a quote") {
                (at, '"') => break at,
                (_, '\\') => read.push(characters.next().unwrap().1),
                (_, ']') => panic!("a bracket that ends the data"),
                (_, other) => read.push(other),
            }
        };
        parameters.insert(name.to_owned(), read.into());
        rest = &value[end + 1..];
    }
    (header, parameters, rest.strip_prefix("] ").unwrap())
}

#[test]
fn json_lines_are_what_the_audit_command_prints() {
    let line = json_line(&entry(json!({ "target": "a\nb" })));
    assert!(line.starts_with(r#"{"seq":7,"at":"2025-11-25T12:00:00.123Z","principal":"user:acme/ann","#), "{line}");
    assert!(line.contains(r#""target":"a\nb""#), "{line}");
}

#[test]
fn cef_uses_the_dictionary_and_carries_every_field() {
    let line = cef(&entry(json!({ "outcome": "denied", "decision": "deny:tool-denied", "labels": ["a", "b"] })));
    let (header, pairs) = read_cef(&line);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(header, ["CEF:0", "Toolcrib", "toolcrib", version, "tools/call", "tools/call denied", "7"]);
    let expected = json!({
        "rt": "1764072000123", "externalId": "7", "suser": "user:acme/ann", "app": "mcp", "outcome": "denied",
        "cs1": "files/read", "cs1Label": "target", "cs2": "default", "cs2Label": "profile",
        "cn1": "1500", "cn1Label": "durationMicroseconds", "act": "deny", "reason": "tool-denied",
        "src": "192.0.2.7", "toolcribArgsHash": "ab", "toolcribRequestId": "1", "toolcribPrevHash": "00",
        "toolcribHash": "11", "toolcribLabels": r#"["a","b"]"#,
    });
    assert_eq!(Value::Object(pairs), expected);
    let (_, pairs) = read_cef(&cef(&entry(json!({ "address": "2001:db8::7" }))));
    assert_eq!(pairs["c6a2"], "2001:db8::7");
}

#[test]
fn a_header_cannot_be_forged_by_a_method() {
    let (header, pairs) = read_cef(&cef(&entry(json!({ "method": "a|9|b\\|\nCEF:0|" }))));
    assert_eq!(header[4], "a|9|b\\| CEF:0|");
    assert_eq!(header.len(), 7);
    assert_eq!(pairs["suser"], "user:acme/ann");
}

#[test]
fn syslog_has_the_header_of_rfc_5424() {
    let message = syslog(&entry(json!({ "seq": 2_147_483_648_u64 })), &origin(), SyslogBody::Cef);
    let (header, parameters, text) = read_syslog(&message);
    assert_eq!(header, ["<110>1", "2025-11-25T12:00:00.123Z", "gate.example.com", "toolcrib", "42", "tools/call"]);
    assert!(message.contains("[meta sequenceId=\"1\"]"), "a number of 31 bits: {message}");
    assert_eq!(parameters["seq"], "2147483648");
    assert_eq!(parameters["hash"], "11");
    assert!(text.starts_with("CEF:0|Toolcrib|"), "{text}");
    let message = syslog(&entry(json!({})), &origin(), SyslogBody::Json);
    assert!(read_syslog(&message).2.starts_with("{\"seq\":7,"), "{message}");
    let unnamed =
        syslog(&entry(json!({ "method": "ä ß" })), &Origin { host: " ".to_owned(), ..origin() }, SyslogBody::Cef);
    assert_eq!(read_syslog(&unnamed).0[2..], ["-", "toolcrib", "42", "-"]);
    assert_eq!(framed("ä"), "2 ä", "bytes are counted");
}

#[test]
fn severities_follow_the_outcome() {
    for (changes, priority) in [
        (json!({}), "<110>"),
        (json!({ "outcome": "cancelled" }), "<110>"),
        (json!({ "outcome": "tool_error" }), "<109>"),
        (json!({ "guard": "result github-token 1 redacted" }), "<109>"),
        (json!({ "outcome": "denied" }), "<108>"),
        (json!({ "canary": "cnr_1" }), "<108>"),
    ] {
        let message = syslog(&entry(changes), &origin(), SyslogBody::Cef);
        assert!(message.starts_with(priority), "{message}");
    }
}

#[test]
fn otlp_is_the_json_mapping_of_protocol_buffers() {
    let resource = Resource(vec![("service.name", "toolcrib".to_owned())]);
    let request: Value = serde_json::from_str(&otlp_request(&[entry(json!({ "is_new": true }))], &resource)).unwrap();
    let logs = &request["resourceLogs"][0];
    let expected = json!([{ "key": "service.name", "value": { "stringValue": "toolcrib" } }]);
    assert_eq!(logs["resource"]["attributes"], expected);
    let record = &logs["scopeLogs"][0]["logRecords"][0];
    assert_eq!(record["timeUnixNano"], "1764072000123000000", "numbers of 64 bits are texts");
    assert_eq!(record["severityNumber"], 9);
    assert_eq!(record["body"], json!({ "stringValue": "tools/call files/read: ok" }));
    let attributes = record["attributes"].as_array().unwrap();
    for expected in [
        json!({ "key": "toolcrib.seq", "value": { "intValue": "7" } }),
        json!({ "key": "user.id", "value": { "stringValue": "user:acme/ann" } }),
        json!({ "key": "client.address", "value": { "stringValue": "192.0.2.7" } }),
        json!({ "key": "toolcrib.is_new", "value": { "boolValue": true } }),
    ] {
        assert!(attributes.contains(&expected), "{expected} is not in {attributes:?}");
    }
}

#[test]
fn huge_values_are_cut_and_small_ones_are_not() {
    let huge = "\\\"]=|".repeat(200_000);
    let big = entry(json!({ "target": huge, "arguments": huge, "request_id": huge, "session": huge, "guard": huge }));
    assert!(cef(&big).len() <= CEF_MAX);
    let message = syslog(&big, &origin(), SyslogBody::Json);
    assert!(message.len() <= MESSAGE_MAX, "{}", message.len());
    let (_, parameters, text) = read_syslog(&message);
    assert_eq!(parameters["principal"], "user:acme/ann");
    assert_eq!(read_cef(text).1["suser"], "user:acme/ann");
    assert!(otlp_request(&[big], &Resource::default()).len() < 128 * 1024);
    // What the log itself allows in each field arrives whole.
    let full = entry(json!({ "arguments": "x".repeat(4_000), "target": "y".repeat(512) }));
    assert_eq!(read_cef(&cef(&full)).1["toolcribArguments"], "x".repeat(4_000));
}

/// Texts with what formats give a meaning to, more often than chance would.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("|".to_owned()),
        Just("\\".to_owned()),
        Just("=".to_owned()),
        Just("\"".to_owned()),
        Just("]".to_owned()),
        Just("] CEF:0|a|b|".to_owned()),
        Just(" suser=admin".to_owned()),
        Just("\u{2028}\u{85}\u{1b}[2J\0".to_owned()),
        "[a-z ]{0,6}",
        any::<String>(),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// What a reader gets of a value: characters that steer something are replaced, in CEF but line ends.
fn shown(text: &str, keeps: &[char]) -> String {
    let shown = |character: char| {
        let is_unsafe = character.is_control() || matches!(character, '\u{2028}' | '\u{2029}');
        if is_unsafe && !keeps.contains(&character) { '\u{fffd}' } else { character }
    };
    text.chars().map(shown).collect()
}

/// Whether some reader takes a text for more than one line, or a terminal for more than text.
fn has_line_end(text: &str) -> bool {
    text.contains(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}', '\u{1b}'])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_value_is_read_back(target in nasty(), principal in nasty(), arguments in nasty(), method in nasty()) {
        prop_assume!(target.len() + principal.len() + arguments.len() + method.len() < 500);
        let changes = json!({ "target": target, "principal": principal, "arguments": arguments, "method": method });
        let entry = entry(changes);
        let line = json_line(&entry);
        prop_assert_eq!(line.lines().count(), 1);
        prop_assert!(!has_line_end(&line), "{line:?}");
        prop_assert_eq!(&serde_json::from_str::<Value>(&line).unwrap(), &Value::Object(entry.fields.clone()));

        let line = cef(&entry);
        prop_assert!(!line.contains(char::is_control), "{line:?}");
        let (header, pairs) = read_cef(&line);
        prop_assert_eq!(header.len(), 7);
        prop_assert_eq!(pairs["cs1"].as_str().unwrap(), shown(&target, &['\n', '\r']));
        prop_assert_eq!(pairs["suser"].as_str().unwrap(), shown(&principal, &['\n', '\r']));
        prop_assert_eq!(pairs["toolcribArguments"].as_str().unwrap(), shown(&arguments, &['\n', '\r']));
        prop_assert_eq!(pairs["toolcribHash"].as_str().unwrap(), "11");

        let message = syslog(&entry, &origin(), SyslogBody::Cef);
        prop_assert!(!message.contains(char::is_control), "{message:?}");
        let (fields, parameters, text) = read_syslog(&message);
        prop_assert_eq!(fields.len(), 6);
        prop_assert!(fields.iter().all(|field| field.bytes().all(|byte| byte.is_ascii_graphic())));
        prop_assert_eq!(parameters["target"].as_str().unwrap(), shown(&target, &[]));
        prop_assert_eq!(parameters["principal"].as_str().unwrap(), shown(&principal, &[]));
        prop_assert_eq!(text, line);

        let request: Value = serde_json::from_str(&otlp_request(&[entry], &Resource::default())).unwrap();
        let attributes = &request["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["attributes"];
        let expected = json!({ "key": "toolcrib.target", "value": { "stringValue": target } });
        prop_assert!(attributes.as_array().unwrap().contains(&expected));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn messages_have_a_bound(
        fields in proptest::collection::btree_map(any::<String>(), nasty(), 0..60),
        repeated in 1_usize..100,
    ) {
        let fields: Map<String, Value> = fields.into_iter().map(|(key, text)| (key, text.repeat(repeated).into())).collect();
        let entry = entry(Value::Object(fields));
        let message = syslog(&entry, &Origin { host: "h".repeat(400), ..origin() }, SyslogBody::Json);
        prop_assert!(message.len() <= MESSAGE_MAX, "{} bytes", message.len());
        prop_assert!(cef(&entry).len() <= CEF_MAX);
        for format in [Format::Jsonl, Format::Cef, Format::Otlp] {
            prop_assert!(!has_line_end(&format.line(&entry, &Resource::default())));
        }
    }
}
