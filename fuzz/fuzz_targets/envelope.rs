//! The envelope: what serde_json refuses is refused, and what is written is read again as the same message.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;
use toolcrib_protocol::json::{self, Rules};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Message, Raw, meta};

const DEPTH: usize = 64;

fuzz_target!(|data: &[u8]| {
    let ours = json::scan(data, Rules::checked());
    let theirs = serde_json::from_slice::<&RawValue>(data);
    assert_eq!(ours.is_ok(), theirs.is_ok(), "{ours:?} {theirs:?}");

    let bytes = Bytes::copy_from_slice(data);
    for rules in [Rules::strict(DEPTH), Rules::relayed(DEPTH)] {
        match Message::parse(&bytes, rules) {
            Ok(message) => {
                assert!(ours.is_ok());
                check_envelope(data, &message);
                check_round_trip(&message, rules);
                check_parts(&message);
            }
            Err(bad) => check_round_trip(&Message::Answer(bad.to_answer()), rules),
        }
        if let Ok(messages) = Message::parse_batch(&bytes, rules) {
            assert!(!messages.is_empty());
        }
    }
});

/// serde_json's tree agrees on what kind of message this is.
fn check_envelope(data: &[u8], message: &Message) {
    // A tree cannot hold half a surrogate pair or a number beyond f64; the envelope relays both.
    let Ok(tree) = serde_json::from_slice::<Value>(data) else { return };
    assert_eq!(tree["jsonrpc"], "2.0");
    match message {
        Message::Request(request) => {
            assert_eq!(tree["method"], request.method.as_str());
            assert_eq!(tree["id"].to_string(), value(request.id.as_str()).to_string());
            assert!(tree.get("params").is_none() || tree["params"] == request.params.to_value());
        }
        Message::Notification(notification) => {
            assert_eq!(tree["method"], notification.method.as_str());
            assert!(tree.get("id").is_none());
        }
        Message::Answer(answer) => {
            assert!(tree.get("method").is_none());
            match &answer.outcome {
                Ok(result) => assert_eq!(tree["result"], result.to_value()),
                Err(_) => assert!(tree.get("error").is_some()),
            }
        }
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// One line is written, and reading it gives the same line again.
fn check_round_trip(message: &Message, rules: Rules) {
    let written = message.to_bytes();
    assert!(!written.iter().any(|byte| matches!(byte, b'\n' | b'\r')));
    let again = Message::parse(&written, rules).expect("what was written is read");
    assert_eq!(again.to_bytes(), written);
    assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(message));
}

/// Edits touch what they name and nothing else; reserved keys do not pass.
fn check_parts(message: &Message) {
    let raw = match message {
        Message::Request(request) => &request.params,
        Message::Notification(notification) => &notification.params,
        Message::Answer(answer) => match &answer.outcome {
            Ok(result) if result.is_object() => result,
            _ => return,
        },
    };
    assert_eq!(raw.edit(&[]).to_value(), raw.to_value());
    let edited = raw.edit(&[("name", Edit::Set("1")), ("_meta", Edit::Remove)]);
    assert_eq!(edited.get("name").as_ref().map(Raw::as_str), Some("1"));
    assert!(edited.get("_meta").is_none());
    let next = meta::for_legacy_server(raw, Some(7), None);
    let stamped = next.get("_meta").expect("the progress token is in it");
    assert_eq!(stamped.get(meta::PROGRESS_TOKEN).as_ref().map(Raw::as_str), Some("7"));
    assert!(!stamped.members().iter().any(|member| member.key.starts_with(meta::RESERVED)));
}
