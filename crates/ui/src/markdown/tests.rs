//! What Markdown becomes, and that no text of others becomes more than that.

use proptest::prelude::*;

use super::*;

/// Bytes of a text that wants to take long.
const MANY: usize = 200_000;

fn check(text: &str, html: &str) {
    assert_eq!(Markdown::of(text).to_string(), html, "{text:?}");
}

#[test]
fn blocks_are_what_they_look_like() {
    check("# One #\ntext\nmore\n\n### Three", "<h3>One</h3><p>text\nmore</p><h5>Three</h5>");
    check("#no heading", "<p>#no heading</p>");
    check("# a comment\n# of a program", "<p># a comment</p><h3>of a program</h3>");
    check(
        "```rust\nfn <b>();\n  *x*\n```\nafter",
        "<pre class=\"wrap\"><code>fn &lt;b&gt;();\n  *x*</code></pre><p>after</p>",
    );
    check("~~~\nopen", "<pre class=\"wrap\"><code>open</code></pre>");
    check("> said\n> - so\n\n---", "<blockquote><p>said</p><ul><li>so</li></ul></blockquote><hr>");
    check("| a | b |\n|---|:-:|\n| 1 | 2 |", "<pre class=\"wrap\"><code>| a | b |\n|---|:-:|\n| 1 | 2 |</code></pre>");
}

#[test]
fn lists_nest_and_count() {
    check("- a\n- b\n  - c\n    more\n- d", "<ul><li>a</li><li>b<ul><li>c\nmore</li></ul></li><li>d</li></ul>");
    check("3. a\n4) b", "<ol start=\"3\"><li>a</li><li>b</li></ol>");
    check("1. a\n\n2. b\n\n   inside\n\nout", "<ol><li>a</li><li>b<p>inside</p></li></ol><p>out</p>");
    check("text\n* a\n+ b", "<p>text</p><ul><li>a</li><li>b</li></ul>");
    check("-5 is no item, - neither", "<p>-5 is no item, - neither</p>");
    check("- - - - - - - - - - a", &format!("{}- - a{}", "<ul><li>".repeat(8), "</li></ul>".repeat(8)));
}

#[test]
fn marks_in_lines_have_two_halves() {
    check(
        "**a *b* c** `d <e>` ``f`g``",
        "<p><strong>a <em>b</em> c</strong> <code>d &lt;e&gt;</code> <code>f`g</code></p>",
    );
    check(
        "2 * 3 * 4, snake_case_name, __init__, *open",
        "<p>2 * 3 * 4, snake_case_name, <strong>init</strong>, *open</p>",
    );
    check("\\*no\\* \\`mark\\` C:\\dir", "<p>*no* `mark` C:\\dir</p>");
    check("*a**b*", "<p><em>a**b</em></p>");
}

#[test]
fn links_lead_to_the_web_alone_and_say_where() {
    let rel = "target=\"_blank\" rel=\"noopener noreferrer\"";
    check(
        "[the page](https://example.com/a?b=1&c) <http://x.org>",
        &format!(
            "<p><a href=\"https://example.com/a?b=1&amp;c\" {rel}>the page</a> <span class=\"quiet\">(example.com)</span> \
             <a href=\"http://x.org\" {rel}>http://x.org</a></p>"
        ),
    );
    for text in [
        "[x](javascript:alert(1))",
        "[x](JavaScript://a%0aalert(1))",
        "[x](data:text/html,hi)",
        "[x](//evil.example)",
        "[x](/ui/sign-out)",
        "[x](https://user:pass@evil.example)",
        "[x](https://)",
        "[x](https://a\u{202e}b)",
        "[x](https://a b)",
        "[x](https://a'onclick=x)",
        "<javascript:alert(1)>",
        "![a picture](https://evil.example/x.png)",
        "[x][ref]\n\n[ref]: javascript:alert(1)",
    ] {
        let html = Markdown::of(text).to_string();
        assert!(!html.contains("<a ") && !html.contains("<img"), "{text}: {html}");
    }
}

#[test]
fn html_and_what_no_one_sees_stay_text() {
    check("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>");
    check("**<img src=x onerror=y>**", "<p><strong>&lt;img src=x onerror=y&gt;</strong></p>");
    check(
        "a\u{202e}b \x1b[31m",
        "<p>a<span class=\"invisible\">U+202E</span>b <span class=\"invisible\">U+001B</span>[31m</p>",
    );
}

#[test]
fn a_text_is_recognized_by_two_signs() {
    let is_recognized = |text: &str| Markdown::recognized(text).is_some();
    for text in
        ["# Title\n\n- a\n- b", "see [it](https://x.org)", "**Done**: `3` files", "```\ncode\n```", "|a|\n|-|\n|1|"]
    {
        assert!(is_recognized(text), "{text}");
    }
    for text in [
        "plain words, *one* sign",
        "{\"a\": [1, 2], \"b\": \"**\"}",
        "# config of x\nname: a\nlist:\n  key: b",
        "2 * 3 * 4 = 24",
        "error at src/main.rs:3\n  - expected `x`",
        "<h1>no</h1>",
    ] {
        assert!(!is_recognized(text), "{text}");
    }
}

#[test]
fn what_wants_to_take_long_does_not() {
    for text in
        ["[a", "<http://a", "*a ", "_a ", "`a``b", "**a", "[](", "> ", "- ", "1. a\n ", "| \n", "\\", "![", "*_`["]
    {
        // Where the work for each mark grew with the text behind it, this would take minutes.
        let html = Markdown::of(&text.repeat(MANY / text.len())).to_string();
        assert!(html.len() < 32 * MANY, "{text}");
    }
}

/// What is left when the tags that are written are taken away.
fn without_tags(html: &str) -> String {
    let mut rest = html.to_owned();
    for tag in
        ["h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "blockquote", "strong", "em", "code", "hr", "span", "pre", "a"]
    {
        rest = rest.replace(&format!("<{tag}>"), "").replace(&format!("</{tag}>"), "");
    }
    for tag in ["<span class=\"invisible\">", "<span class=\"quiet\">", "<pre class=\"wrap\">"] {
        rest = rest.replace(tag, "");
    }
    while let Some(at) = rest.find("<ol start=\"") {
        let number = &rest[at + 11..];
        let end = number.find('"').unwrap();
        assert!(number[..end].bytes().all(|byte| byte.is_ascii_digit()), "{html}");
        rest.replace_range(at..at + 11 + end + 2, "");
    }
    while let Some(at) = rest.find("<a href=\"http") {
        let end = at + rest[at..].find('>').unwrap();
        let tag = &rest[at..=end];
        assert!(
            tag.ends_with("\" target=\"_blank\" rel=\"noopener noreferrer\">") && tag.matches('"').count() == 6,
            "{tag}"
        );
        rest.replace_range(at..=end, "");
    }
    rest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_becomes_another_element(
        parts in prop::collection::vec(
            prop_oneof![
                2 => prop::sample::select(vec![
                    "#", "# ", "\n", "\n\n", "- ", "  ", "1. ", "> ", "`", "```", "```\n", "*", "**", "_", "__", "[", "](", ")",
                    "](https://a.b/", "](javascript:", "<http://a", ">", "<", "\"", "'", "&", "\\", "|", "|-|", "---", "![",
                    "<script>", "<img src=x onerror=y>", "onclick=", "\u{202e}", "\x1b", "\r", "\0", "é漢🙂", "a", " ",
                ]).prop_map(str::to_owned),
                1 => any::<String>(),
            ],
            0..24,
        ),
    ) {
        let text = parts.concat();
        let html = Markdown::of(&text).to_string();
        let rest = without_tags(&html);
        prop_assert!(!rest.contains(['<', '>', '"', '\'']), "{:?}: {}", text, html);
    }
}
