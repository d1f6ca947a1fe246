//! The scanner against a table and against serde_json as an oracle.

use proptest::prelude::*;

use super::scanner::special_in;
use super::*;

const STRICT: Rules = Rules::strict(8);

fn check(text: &str, expect: Result<(), &str>) {
    match (scan(text.as_bytes(), STRICT), expect) {
        (Ok(_), Ok(())) => {}
        (Err(fault), Err(part)) => assert!(fault.to_string().contains(part), "{text}: {fault}"),
        (got, expect) => panic!("{text}: got {got:?}, expected {expect:?}"),
    }
}

#[test]
fn a_table_of_texts() {
    for good in [
        "{}",
        " [ ] ",
        "0",
        "-1.5e+3",
        "\"\\u00e9\\n\"",
        "[1,[2,{\"a\":null}],true]",
        "{\"a\":{\"a\":1}}",
        "\"\\ud800\"",
    ] {
        check(good, Ok(()));
    }
    for (bad, why) in [
        ("", "a value"),
        ("{", "a key"),
        ("{\"a\"}", "`:`"),
        ("{\"a\":1,}", "a key"),
        ("[1,]", "a value"),
        ("[1 2]", "`,` or `]`"),
        ("01", "the end"),
        ("1.", "a digit"),
        ("+1", "a value"),
        ("nul", "`true`"),
        ("\"\u{1}\"", "control character"),
        ("\"\\x\"", "an escape"),
        ("\"\\u12g4\"", "four hexadecimal"),
        ("\"open", "closing quote"),
        ("{} {}", "the end"),
        ("{\"a\":1,\"a\":2}", "duplicate key"),
        ("{\"a\":1,\"\\u0061\":2}", "duplicate key"),
        ("{\"x\":[{\"a\":1,\"a\":2}]}", "duplicate key"),
        ("{\"x\":{\"\\ud800\":1,\"\\uD800\":2}}", "surrogate"),
        ("[[[[[[[[[1]]]]]]]]]", "deeper than 8"),
    ] {
        check(bad, Err(why));
    }
    assert_eq!(scan(b"\"\xff\"", STRICT), Err(Fault::Encoding { at: 1 }));
}

#[test]
fn depth_is_counted_from_the_outermost_bracket() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(scan(nested(8).as_bytes(), STRICT).is_ok());
    assert!(scan(nested(9).as_bytes(), STRICT).is_err());
    assert!(scan(nested(1_000_000).as_bytes(), STRICT).is_err());
    let objects = |levels: usize| "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels);
    assert!(scan(objects(8).as_bytes(), STRICT).is_ok());
    assert!(scan(objects(9).as_bytes(), STRICT).is_err());
}

#[test]
fn relayed_texts_may_repeat_inner_keys_but_not_outer_ones() {
    let rules = Rules::relayed(8);
    assert!(scan(b"{\"r\":{\"a\":1,\"a\":2}}", rules).is_ok());
    assert!(scan(b"{\"r\":1,\"r\":2}", rules).is_err());
}

#[test]
fn members_keep_order_and_raw_values() {
    let members = scan(b" {\"b\" : [1, 2] ,\"a\\n\":\"x\"} ", STRICT).unwrap().into_object().unwrap();
    let pairs: Vec<_> = members.iter().map(|member| (&*member.key, member.value)).collect();
    assert_eq!(pairs, [("b", "[1, 2]"), ("a\n", "\"x\"")]);
    assert_eq!(find(&members, "b"), Some("[1, 2]"));
    assert_eq!(find(&members, "c"), None);
}

#[test]
fn many_keys_take_linear_time() {
    use std::fmt::Write;
    let mut body = String::from("{\"x\":{");
    for index in 0..200_000 {
        write!(body, "\"k{index}\":1,").unwrap();
    }
    body.push_str("\"k7\":1}}");
    assert!(matches!(scan(body.as_bytes(), STRICT), Err(Fault::DuplicateKey { .. })));
}

/// JSON-like texts, mostly nearly right.
fn nearly_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i32>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
        ".{0,6}".prop_map(|text| serde_json::to_string(&text).unwrap()),
        "[ -~]{0,4}",
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(("[a-c]{1,2}", inner), 0..4).prop_map(|members| {
                let parts: Vec<_> = members.iter().map(|(key, value)| format!(" \"{key}\" : {value}")).collect();
                format!("{{{}}}", parts.join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn accepts_what_serde_json_accepts(text in nearly_json()) {
        let ours = scan(text.as_bytes(), Rules::relayed(100));
        // Only the outermost object's duplicates are refused here; serde_json's `Value` keeps the last.
        let duplicate = matches!(ours, Err(Fault::DuplicateKey { .. }));
        let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text);
        prop_assert!(duplicate || ours.is_ok() == theirs.is_ok(), "{text}: {ours:?} {theirs:?}");
    }

    #[test]
    fn never_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let ours = scan(&bytes, Rules::relayed(100));
        let theirs = serde_json::from_slice::<&serde_json::value::RawValue>(&bytes);
        prop_assert!(ours.is_ok() == theirs.is_ok());
    }

    #[test]
    fn members_are_slices_that_scan_again(text in nearly_json()) {
        if let Ok(Outline::Object(members)) = scan(text.as_bytes(), Rules::relayed(100)) {
            for member in members {
                prop_assert!(scan_text(member.value, Rules::checked()).is_ok());
            }
        }
    }

    #[test]
    fn a_checked_text_has_the_same_outline_without_a_second_check(text in nearly_json()) {
        if let Ok(outline) = scan(text.as_bytes(), Rules::relayed(100)) {
            // What is noted of the values is not the same: what is skipped is not looked at.
            let plain = |outline: Outline<'_>| match outline {
                Outline::Object(members) => {
                    let text = |it: Member<'_>| (it.key.into_owned(), it.raw_key.to_owned(), it.value.to_owned());
                    (members.into_iter().map(text).collect(), Vec::new())
                }
                Outline::Array(items) => (Vec::new(), items.into_iter().map(str::to_owned).collect()),
                Outline::Scalar(text) => (Vec::new(), vec![text.to_owned()]),
            };
            prop_assert_eq!(plain(outline_of_checked(&text)), plain(outline));
        }
    }

    /// Brackets of both kinds, nested more than 64 deep: what is open is known at each level.
    #[test]
    fn deep_nesting_closes_as_it_opened(kinds in prop::collection::vec(any::<bool>(), 1..300), wrong in any::<usize>()) {
        let open: String = kinds.iter().map(|is_object| if *is_object { "{\"a\":[1," } else { "[{\"b\":" }).collect();
        let close: String = kinds.iter().rev().map(|is_object| if *is_object { "]}" } else { "}]" }).collect();
        let text = format!("{open}1{close}");
        prop_assert!(scan(text.as_bytes(), Rules::strict(1_000)).is_ok(), "{text}");
        let mut broken = close.into_bytes();
        let at = wrong % broken.len();
        broken[at] = if broken[at] == b'}' { b']' } else { b'}' };
        let broken = [open.as_bytes(), b"1", &broken].concat();
        prop_assert!(scan(&broken, Rules::strict(1_000)).is_err());
    }

    #[test]
    fn a_word_shows_its_first_special_byte(bytes in prop::collection::vec(prop_oneof![
        any::<u8>(), Just(b'"'), Just(b'\\'), Just(0x1f), Just(0x20), Just(b'!'), Just(0xff), Just(b'a')
    ], 8..40)) {
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
        let word = special_in(u64::from_le_bytes(bytes[..8].try_into().unwrap()));
        let first = (word != 0).then_some(word.trailing_zeros() as usize / 8);
        prop_assert_eq!(first, bytes[..8].iter().position(is_special));
        prop_assert_eq!(special(&bytes), bytes.iter().position(is_special));
    }

    /// What is noted of the keys of a value while it is scanned never hides one of them.
    #[test]
    fn no_key_is_hidden_by_what_was_noted(
        inner in nearly_json(), keys in prop::collection::vec("[a-c\"\\\\/é]{0,3}", 0..6), asked in "[a-c\"\\\\/é]{0,3}",
    ) {
        prop_assume!(scan(inner.as_bytes(), Rules::relayed(90)).is_ok());
        let keys: std::collections::BTreeSet<_> = keys.into_iter().collect();
        let written: Vec<_> = keys.iter().map(|key| format!("{}:{inner}", serde_json::to_string(key).unwrap())).collect();
        let text = format!("{{\"result\":{{{}}}}}", written.join(","));
        for rules in [Rules::relayed(100), Rules::strict(100)] {
            let Ok(Outline::Object(members)) = scan(text.as_bytes(), rules) else { continue };
            prop_assert!(keys.iter().all(|key| members[0].keys.may_have(key)), "{text}");
            prop_assert!(members[0].keys.may_have(&asked) || !keys.contains(&asked));
        }
    }

    #[test]
    fn one_member_is_found_as_among_all(text in nearly_json(), key in "[a-c]{1,2}") {
        if let Ok(outline) = scan(text.as_bytes(), Rules::relayed(100)) {
            let members = if let Outline::Object(members) = outline { members } else { Vec::new() };
            prop_assert_eq!(member(&text, &key), find(&members, &key));
        }
    }
}
