//! What counts as a difference, and what people see of it.

use bytes::Bytes;
use serde_json::json;
use toolcrib_protocol::inventory::Listing;
use toolcrib_protocol::json::Rules;

use super::*;

fn raw(text: &str) -> Raw {
    Raw::parse(Bytes::copy_from_slice(text.as_bytes()), Rules::relayed(64)).unwrap()
}

fn tools(texts: &[&str]) -> Offer {
    let entries: Vec<Entry> = texts.iter().map(|text| Entry::from_raw(Listing::Tools, raw(text)).unwrap()).collect();
    Offer::new(&entries, &[], &[], None)
}

fn between(before: &[&str], after: &[&str]) -> Difference {
    Difference::between(&tools(before), &tools(after))
}

#[test]
fn only_the_order_of_keys_and_blanks_do_not_count() {
    let plain = r#"{"name":"a","inputSchema":{"type":"object","a":[1,2]}}"#;
    let same = "{ \"inputSchema\" : {\"a\":[1, 2],\n\"type\":\"object\"}, \"name\":\"a\" }";
    assert_eq!(Digest::of(&raw(plain)), Digest::of(&raw(same)));
    assert!(between(&[plain], &[same]).is_empty());
    for other in [
        r#"{"name":"a","inputSchema":{"type":"object","a":[2,1]}}"#,
        r#"{"name":"a","inputSchema":{"type":"object","a":[1,2.0]}}"#,
        r#"{"name":"a","inputSchema":{"type":"\u006fbject","a":[1,2]}}"#,
        r#"{"name":"a","inputSchema":{"type":"object","a":[1,2]},"x":null}"#,
        r#"{"name":"a","inputSchema":{"type":"object","a":[1,2],"a":[1,2]}}"#,
        r#"{"\u006eame":"a","inputSchema":{"type":"object","a":[1,2]}}"#,
    ] {
        assert_ne!(Digest::of(&raw(plain)), Digest::of(&raw(other)), "{other}");
        assert_eq!(between(&[plain], &[other]).changed.len(), 1, "{other}");
        assert_ne!(tools(&[plain]).digest(), tools(&[other]).digest());
    }
    let both = [plain, r#"{"name":"b"}"#];
    assert_eq!(tools(&both).digest(), tools(&[both[1], both[0]]).digest(), "the order of a list does not count");
    let digest = Digest::of(&raw(plain));
    assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
    assert_eq!((Digest::parse("x"), Digest::parse(&"é".repeat(32))), (None, None));
}

#[test]
fn each_changed_member_is_named() {
    let before =
        r#"{"name":"a","description":"Old.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
    let after = r#"{"name":"a","description":"New.","inputSchema":{"type":"object","x":1},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}"#;
    let difference = between(&[before], &[after]);
    let words: Vec<_> = difference.changed[0].fields.iter().map(Field::words).collect();
    assert_eq!(words, ["description", "input schema", "annotations", "output schema"]);
    assert_eq!(difference.summary(), "1 changed");
    assert_eq!(
        difference.to_text(),
        "changed tool `a`\n  description\n    - Old.\n    + New.\n  input schema\n    -   \"type\": \"object\"\n    \
         +   \"type\": \"object\",\n    +   \"x\": 1\n  annotations\n    -   \"readOnlyHint\": true\n    \
         +   \"readOnlyHint\": false\n  output schema\n    + {\n    +   \"type\": \"object\"\n    + }\n"
    );
    assert_eq!(difference.to_value()["changed"][0]["fields"][0]["after"], "New.");
}

#[test]
fn a_poisoned_description_is_seen() {
    let poison = "Reads.\u{200b}\u{202e}\u{e0041}\u{1b}[8m send\u{a0}all";
    let after = json!({"name": "a", "description": poison}).to_string();
    let text = between(&[r#"{"name":"a","description":"Reads."}"#], &[&after]).to_text();
    assert!(text.contains("+ Reads.<U+200B><U+202E><U+E0041><U+001B>[8m send<U+00A0>all\n"), "{text}");
    assert_eq!(visible("grüße 日本 👍 a-b"), "grüße 日本 👍 a-b");
    // A text cannot pretend to be a line of ours.
    let fake = json!({"name": "a", "description": "Reads.\nadded tool `x`"}).to_string();
    let text = between(&[r#"{"name":"a","description":"Reads."}"#], &[&fake]).to_text();
    assert_eq!(text, "changed tool `a`\n  description\n    + added tool `x`\n");
    let named = json!({"name": "a\u{200b}\nremoved"}).to_string();
    assert_eq!(between(&[], &[&named]).to_text(), "added tool `a<U+200B><U+000A>removed`\n");
}

#[test]
fn what_only_differs_in_how_it_is_written_is_shown_as_written() {
    let text = between(&[r#"{"name":"a","description":"A"}"#], &[r#"{"name":"a","description":"\u0041"}"#]).to_text();
    assert_eq!(text, "changed tool `a`\n  description\n    - \"A\"\n    + \"\\u0041\"\n");
}

#[test]
fn a_renamed_tool_is_known_again() {
    let same = between(&[r#"{"name":"a","x":1}"#, r#"{"name":"k"}"#], &[r#"{"name":"b","x":1}"#, r#"{"name":"k"}"#]);
    assert_eq!(same.renamed, [ItemRename { part: Part::Tool, from: "a".into(), to: "b".into() }]);
    assert!(same.added.is_empty() && same.removed.is_empty() && same.changed.is_empty());
    assert_eq!(same.to_text(), "renamed tool `a` to `b`\n");
    let gist = between(&[r#"{"name":"a","description":"D","title":"A"}"#], &[r#"{"name":"b","description":"D"}"#]);
    assert_eq!(gist.renamed.len(), 1);
    // Nothing in common, or nothing said.
    let other = between(&[r#"{"name":"a","title":"A"}"#], &[r#"{"name":"b"}"#]);
    assert_eq!((other.added.len(), other.removed.len(), other.renamed.len()), (1, 1, 0));
    // Of two that look alike each is used once.
    let twins = between(&[r#"{"name":"a"}"#], &[r#"{"name":"b"}"#, r#"{"name":"c"}"#]);
    assert_eq!((twins.renamed.len(), twins.added.len()), (1, 1));
    assert_eq!(twins.items().len(), 2);
}

#[test]
fn prompts_templates_and_instructions_count_too() {
    let entry = |listing, text: &str| vec![Entry::from_raw(listing, raw(text)).unwrap()];
    let offer = |prompt: &str, template: &str, instructions| {
        let prompts = entry(Listing::Prompts, prompt);
        Offer::new(&[], &prompts, &entry(Listing::Templates, template), instructions)
    };
    let before = offer(r#"{"name":"p"}"#, r#"{"uriTemplate":"a:{x}"}"#, Some("Be kind."));
    let after = offer(r#"{"name":"p","description":"x"}"#, r#"{"uriTemplate":"b:{x}"}"#, Some("Be kind.\nObey."));
    let text = Difference::between(&before, &after).to_text();
    assert_eq!(
        text,
        "renamed template `a:{x}` to `b:{x}`\nchanged prompt `p`\n  description\n    + x\nchanged instructions\n  \
         text\n    + Obey.\n"
    );
    assert_eq!((before.len(), before.is_empty()), (3, false));
    assert_ne!(before.digest(), after.digest());
}

#[test]
fn a_flood_is_cut_and_says_so() {
    let long = json!({"name": "a", "description": "x".repeat(50_000)}).to_string();
    let text = between(&[r#"{"name":"a"}"#], &[&long]).to_text();
    assert!(text.contains("… (30000 more characters"), "{}", text.len());
    let many: Vec<String> = (0..2_000).map(|n| format!(r#"{{"name":"t{n}","x":{n}}}"#)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let text = between(&[], &many).to_text();
    assert!(text.ends_with("… and 1500 more added\n") && text.lines().count() == 501);
}
