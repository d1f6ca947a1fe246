//! What is given up in which order, and that nothing is ever dropped.

use super::*;
use crate::tokens;

const SCHEMA: &str = r#"{"type":"object","properties":{
    "query":{"type":"string"},"where":{"type":"object","properties":{"path":{"type":"string"},"depth":{"type":"integer"}}},
    "limit":{"type":"integer"},"order":{"enum":["newest","oldest","best"]}},"required":["query","where"]}"#;
const SUMMARY: &str = "Search the files of a project for a text and return the lines that contain it, with context";

fn with_entries<T>(count: usize, read: impl FnOnce(&[Entry<'_>]) -> T) -> T {
    let ids: Vec<ToolId> = (0..count).map(|n| ToolId::parse(&format!("files-{n}/search_text")).unwrap()).collect();
    let signature = Signature::read(SCHEMA, None);
    let entry = |id| Entry { id, name: "search_text", signature: &signature, summary: SUMMARY, also: &[] };
    read(&ids.iter().map(entry).collect::<Vec<_>>())
}

/// A budget that just fits a text gives this text.
fn check_one(expect: &str) {
    let max_tokens = line_tokens(expect);
    with_entries(1, |entries| {
        let rendered = render(entries, max_tokens);
        assert_eq!(rendered.text, expect, "{max_tokens} tokens");
        assert_eq!(rendered.tokens, max_tokens);
    });
}

#[test]
fn names_alone_fill_the_budget_and_no_more() {
    let ids: Vec<ToolId> = (0..100).map(|at| ToolId::parse(&format!("server/some_tool_{at}")).unwrap()).collect();
    let entries: Vec<(&ToolId, &str)> = ids.iter().map(|id| (id, "name")).collect();
    let (lines, used) = names(&entries, 300);
    assert!((20..60).contains(&lines.len()) && used <= 300, "{} names of {used} tokens", lines.len());
    assert_eq!(used, tokens::count(&lines.iter().map(|line| format!("{line}\n")).collect::<String>()));
    assert_eq!(names(&entries[..8], 10).0.len(), 8, "a page of the usual size is whole");
    assert_eq!(names(&entries, 100_000).0.len(), 100);
}

#[test]
fn things_are_given_up_in_the_documented_order() {
    let all = "- files-0/search_text(query: string, where: {path?: string, depth?: integer}, limit?: integer, \
               order?: \"newest\"|\"oldest\"|\"best\")";
    check_one(&format!("{all} — {SUMMARY}"));
    check_one(&format!("{all} — Search the files of a project for a text and return the…"));
    check_one(&format!("{all} …"));
    check_one("- files-0/search_text(query: string, where: {path?: string, depth?: integer}, limit?, order?) …");
    check_one("- files-0/search_text(query: string, where: {path?: string, depth?: integer}, …) …");
    check_one("- files-0/search_text(query: string, where: {…}, …) …");
    let least = "- files-0/search_text(query, where, …) …";
    check_one(least);
    with_entries(1, |entries| assert_eq!(render(entries, 0).text, least, "required parameters are never dropped"));
}

#[test]
fn the_parts_are_those_of_the_line() {
    with_entries(2, |entries| {
        let whole = render(entries, 4000);
        assert!(whole.shown.iter().all(|shown| !shown.shortened && shown.summary == SUMMARY));
        let cut = render(entries, whole.tokens - 1);
        let [first, last] = &cut.shown[..] else { panic!("two hits") };
        assert!(!first.shortened && last.shortened && cut.shortened);
        assert!(last.summary.ends_with('…'), "{last:?}");
        for (line, shown) in cut.text.lines().zip(&cut.shown) {
            assert!(line.ends_with(&format!("{} — {}", shown.signature, shown.summary)), "{line}");
        }
    });
}

#[test]
fn only_beyond_the_most_are_required_names_left_out_of_a_page() {
    let check = |count: usize, name: &str, most: usize, expect: &str| {
        let names: Vec<String> = (0..count).map(|n| format!("{name}_{n}")).collect();
        let fields: Vec<String> = names.iter().map(|name| format!(r#""{name}":{{"type":"string"}}"#)).collect();
        let required = serde_json::to_string(&names).unwrap();
        let schema = format!(r#"{{"properties":{{{}}},"required":{required}}}"#, fields.join(","));
        let signature = Signature::read(&schema, None);
        let ids: Vec<ToolId> = (0..8).map(|n| ToolId::parse(&format!("s{n}/t")).unwrap()).collect();
        let entry = |id| Entry { id, name: "t", signature: &signature, summary: "", also: &[] };
        let rendered = render(&ids.iter().map(entry).collect::<Vec<_>>(), most);
        assert!(rendered.tokens <= MOST_TOKENS && tokens::count(&rendered.text) <= MOST_TOKENS);
        assert!(rendered.text.lines().last().unwrap().ends_with(expect), "{}", rendered.text);
        assert!(rendered.text.lines().next().unwrap().contains(&format!("{name}_{}", count - 1)), "{}", rendered.text);
        rendered.tokens
    };
    let over = check(40, "a", 800, "a_38, a_39)");
    assert!(over > 800, "{over}: more than the budget, because names stay");
    check(60, "parameter", 100_000, "t(…60 required)");
}

#[test]
fn the_worst_hits_are_shortened_first() {
    with_entries(8, |entries| {
        let rendered = render(entries, 400);
        assert!(rendered.shortened && rendered.tokens <= 400);
        let lengths: Vec<usize> = rendered.text.lines().map(str::len).collect();
        assert_eq!(lengths.len(), 8);
        assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
        assert!(!render(entries, 4000).shortened);
    });
}

#[test]
fn many_hits_become_ids_and_none_is_dropped() {
    with_entries(100, |entries| {
        let rendered = render(entries, DEFAULT_TOKENS / 2);
        for (line, entry) in rendered.text.lines().zip(entries) {
            assert_eq!(line, format!("- {}", entry.id));
        }
        assert_eq!(rendered.text.lines().count(), 100);
    });
    assert_eq!(render(&[], 10), RenderedHits { text: String::new(), tokens: 0, shortened: false, shown: Vec::new() });
}

#[test]
fn eight_hostile_hits_fit_the_most() {
    let long = "字".repeat(50_000);
    let fields: Vec<String> = (0..300).map(|n| format!(r#""parameter_number_{n}":{{"type":"string"}}"#)).collect();
    let names: Vec<String> = (0..300).map(|n| format!(r#""parameter_number_{n}""#)).collect();
    let schema = format!(r#"{{"properties":{{{}}},"required":[{}]}}"#, fields.join(","), names.join(","));
    let signature = Signature::read(&schema, Some(&schema));
    let summary = summary(&long);
    let ids: Vec<ToolId> = (0..8).map(|n| ToolId::parse(&format!("s{n}/{long}\n- evil/tool")).unwrap()).collect();
    let name = "x".repeat(64);
    let entries: Vec<Entry<'_>> =
        ids.iter().map(|id| Entry { id, name: &name, signature: &signature, summary: &summary, also: &ids }).collect();
    let rendered = render(&entries, DEFAULT_TOKENS);
    assert_eq!(rendered.text.lines().count(), 8);
    assert!(tokens::count(&rendered.text) <= MOST_TOKENS, "{}", rendered.text);
    assert!(rendered.text.lines().all(|line| line.contains(&name)));
}

#[test]
fn equal_tools_are_named_while_there_is_room() {
    let ids: Vec<ToolId> = (0..6).map(|n| ToolId::parse(&format!("s{n}/t")).unwrap()).collect();
    let signature = Signature::read("{}", None);
    let check = |also, expect: &str| {
        let entry = Entry { id: &ids[0], name: "t", signature: &signature, summary: "Does it", also };
        assert_eq!(render(&[entry], 800).text, expect);
    };
    check(&ids[1..2], "- s0/t() — Does it (also s1/t)");
    check(&ids[1..6], "- s0/t() — Does it (also s1/t, s2/t, s3/t and 2 more)");
}

#[test]
fn a_summary_is_one_clean_sentence() {
    let check = |text: &str, expect: &str| assert_eq!(summary(text), expect, "{text:?}");
    check("Reads a file. Then more.", "Reads a file.");
    check("\n\n  Reads \t a file\nsecond line", "Reads a file");
    check("Uses e.g. v1.2 of it. More", "Uses e.g. v1.2 of it.");
    check("A\u{202e}B\u{7}C", "ABC");
    check("", "");
    check(" \u{200b} \n", "");
    let long = summary(&"word ".repeat(100));
    assert!(long.ends_with("word…") && long.chars().count() <= SUMMARY_CHARS, "{long}");
    assert_eq!(summary(&"é".repeat(500)).chars().count(), SUMMARY_CHARS);
}
