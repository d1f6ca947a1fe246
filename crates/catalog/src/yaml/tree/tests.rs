//! Places, the meaning of scalars, and what hostile documents must not do.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> (Option<Node>, Vec<String>) {
    let sink = Sink::new(Path::new("a.yaml"));
    let node = parse_into(text, &sink);
    (node, sink.finish().iter().map(ToString::to_string).collect())
}

fn good(text: &str) -> Node {
    let (node, problems) = read(text);
    assert_eq!(problems, [""; 0], "{text}");
    node.unwrap()
}

fn bad(text: &str, expected: &str) {
    let (_, problems) = read(text);
    assert_eq!(problems, [expected], "{text:?}");
}

fn entries(node: &Node) -> &[Entry] {
    match &node.content {
        Content::Map(entries) => entries,
        other => panic!("not a map: {other:?}"),
    }
}

#[test]
fn every_value_knows_its_place() {
    let node = good("# note\nname: files\nargs: [a,\n  ä, b]\ntimeouts:\n  call: 3s\n");
    let map = entries(&node);
    let place = |position: Position| (position.line, position.column);
    assert_eq!((place(map[0].at), place(map[0].value.at)), ((2, 1), (2, 7)));
    let Content::List(items) = &map[1].value.content else { panic!("not a list") };
    assert_eq!((place(items[1].at), place(items[2].at)), ((4, 3), (4, 6)));
    assert_eq!(place(entries(&map[2].value)[0].value.at), (6, 9));
}

#[test]
fn scalars_mean_what_yaml_1_2_says() {
    let node = good("[yes, true, 'true', 8080, ~, '', !!str 7, !!str true, \"null\"]");
    let Content::List(items) = &node.content else { panic!("not a list") };
    let flags: Vec<_> = items.iter().map(Node::as_flag).collect();
    assert_eq!(flags, [None, Some(true), None, None, None, None, None, None, None]);
    let texts: Vec<_> = items.iter().map(|item| item.as_text().map(|text| &**text)).collect();
    assert_eq!(
        texts,
        [Some("yes"), Some("true"), Some("true"), Some("8080"), None, Some(""), Some("7"), Some("true"), Some("null")]
    );
}

#[test]
fn json_is_read_as_it_is() {
    let node = good("{\n\t\"name\": \"a\\/b\\u00e9\",\n\t\"list\": [1, true, null, {\"x\": []}]\n}\n");
    assert_eq!(entries(&node)[0].value.as_text().unwrap().as_ref(), "a/bé");
}

#[test]
fn aliases_stand_for_what_they_name() {
    let node = good("a: &x {k: [1, 2]}\nb: *x\n");
    let copy = &entries(&node)[1].value;
    assert_eq!((copy.at.line, copy.at.column), (2, 4));
    assert_eq!(&*entries(copy)[0].key, "k");
}

#[test]
fn problems_have_their_place_and_path() {
    bad("a: 1\nb: 2\na: 3\n", "a.yaml:3:1: `a`: expected each key once, got it again (first on line 1)");
    bad("t:\n  x: 1\n  'x': 2\n", "a.yaml:3:3: `t.x`: expected each key once, got it again (first on line 2)");
    bad("a: !run rm\n", "a.yaml:1:4: `a`: expected a plain value, got one with a tag");
    bad("a: 1\n---\nb: 2\n", "a.yaml:2:1: expected one document, got a second one after `---`");
    bad("[a]: 1\n", "a.yaml:1:1: expected a key, got a list");
    bad("a: &x [*x]\n", "a.yaml:1:8: `a[0]`: expected an alias to something above, got one to itself");
    for empty in ["", "\n\n", "# only a note\n", "---\n", "~", "\u{FEFF}"] {
        bad(empty, "a.yaml:1:1: expected a definition, got nothing: the file is empty");
    }
    for (text, place) in [("a: [1, 2\nb: 3\n", "a.yaml:"), ("a: 'x\n", "a.yaml:"), ("a: *none\n", "a.yaml:1:4")] {
        let (node, problems) = read(text);
        assert!(node.is_none() && problems.len() == 1, "{text}: {problems:?}");
        assert!(problems[0].starts_with(place) && problems[0].contains("not valid YAML"), "{problems:?}");
    }
}

#[test]
fn multiplying_aliases_are_stopped() {
    let mut lists = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    let mut texts = format!("a0: &a0 {}\n", "x".repeat(500_000));
    for level in 1..30 {
        let inner = format!("*a{0}, ", level - 1).repeat(9);
        lists += &format!("a{level}: &a{level} [{inner}]\n");
        texts += "b";
        texts += &format!("{level}: *a0\n");
    }
    for bomb in [lists, texts] {
        let (node, problems) = read(&bomb);
        assert!(node.is_none());
        assert!(problems[0].contains("values, aliases included"), "{problems:?}");
    }
}

#[test]
fn nested_anchors_do_not_multiply() {
    let nested = |depth: usize| (0..depth).map(|level| format!("&a{level} [")).collect::<String>();
    let text = format!("{}{}{}", nested(60), "x, ".repeat(100_000), "]".repeat(60));
    assert!(read(&text).1[0].contains("values, aliases included"));
}

#[test]
fn depth_is_bounded() {
    // The scanner has a bound of its own, which brackets without an end reach first.
    let scanners = "recursion limit exceeded";
    for (text, message) in [
        ("[".repeat(DEPTH_MAX + 1) + &"]".repeat(DEPTH_MAX + 1), "at most 64 levels"),
        ("- ".repeat(50_000) + "x", "at most 64 levels"),
        ("? ".repeat(50_000) + "x", "at most 64 levels"),
        ("[".repeat(500_000), scanners),
        ("{a: ".repeat(100_000), scanners),
    ] {
        let (node, problems) = read(&text);
        assert!(node.is_none() && problems[0].contains(message), "{problems:?}");
    }
    let deepest = "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX);
    good(&deepest);
    // An alias cannot go deeper than what is written.
    let (node, problems) = read(&format!("a: &a {0}x{1}\nb: {0}*a{1}\n", "[".repeat(40), "]".repeat(40)));
    assert!(node.is_none() && problems[0].contains("at most 64 levels"), "{problems:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Texts of the characters that mean something: always a tree or a problem, never a panic.
    #[test]
    fn any_text_gives_a_tree_or_a_problem(text in "[ab:\\-\\[\\]{},&*!?|>'\"#%@`~\\\\ \t\n\r0é.\u{FEFF}\u{85}]{0,40}") {
        let (node, problems) = read(&text);
        prop_assert!(node.is_some() || !problems.is_empty());
    }
}
