//! A text that is made to say something else, with its comments and its order kept: key by key and item by item, by
//! lines, maps and lists within each other included (`edit/below.rs`). What came of it is read again; whatever cannot be
//! changed in this way is for the caller to rewrite.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::render::render;

mod below;

use below::comment_of_key;

/// How many places of a line are tried as the beginning of its comment: each is read again.
const PLACES: usize = 8;

/// What a text says.
type Read<'a> = &'a dyn Fn(&str) -> Option<Value>;

/// The text, which says `before`, made to say `after`; `read` gives what a text says. `None` where its keys are not at
/// the beginnings of lines, or the result would not say exactly that.
pub(crate) fn amend(
    text: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    read: Read<'_>,
) -> Option<String> {
    let says = |text: &String| read(text).is_some_and(|value| value.as_object() == Some(after));
    // What is within a key keeps its comments; where that fails, the whole key is rewritten.
    let amended = [true, false].into_iter().filter_map(|goes_below| amended(text, before, after, read, goes_below));
    amended.into_iter().find(says)
}

fn amended(
    text: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    read: Read<'_>,
    goes_below: bool,
) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let inner = |text: &str, [was, now]: [&Map<String, Value>; 2]| amend(text, was, now, read);
    for (key, was) in before {
        let now = after.get(key);
        if now == Some(was) {
            continue;
        }
        let block = block_of(&lines, key)?;
        let below = now.filter(|_| goes_below);
        if let Some(kept) = below.and_then(|now| below::amend_block(&lines[block.clone()], key, [was, now], &inner)) {
            lines.splice(block, kept);
            continue;
        }
        let written = now.map(|now| render(&json!({ key: now }))).unwrap_or_default();
        let mut written: Vec<String> = written.lines().map(str::to_owned).collect();
        if let [line] = written.as_mut_slice() {
            let (first, is_one) = (lines.get(block.start)?, block.len() == 1);
            line.push_str(if is_one { comment_of(first, key, was, read) } else { comment_of_key(first, key) });
        }
        lines.splice(block, written);
    }
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    let new = after.iter().filter(|(key, _)| !before.contains_key(*key));
    lines.extend(new.flat_map(|(key, now)| {
        let written = render(&json!({ key: now }));
        written.lines().map(str::to_owned).collect::<Vec<_>>()
    }));
    Some(lines.join("\n") + "\n")
}

/// The lines of a key of the whole document: its own, and those below that are indented, are items of its list, or
/// nothing. Comments and blank lines after the last of them are not its own.
fn block_of(lines: &[String], key: &str) -> Option<Range<usize>> {
    let mut lines = lines.iter().enumerate();
    let (first, _) = lines.find(|(_, line)| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))?;
    let mut end = first + 1;
    for (number, line) in lines {
        let text = line.trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if line.len() == text.len() && !text.starts_with("- ") && text != "-" {
            break;
        }
        end = number + 1;
    }
    Some(first..end)
}

/// The comment at the end of a line with one key: what can be left away without changing what the line says.
fn comment_of<'a>(line: &'a str, key: &str, was: &Value, read: Read<'_>) -> &'a str {
    let says = json!({ key: was });
    let mut places = line.match_indices(" #").map(|(at, _)| at).take(PLACES);
    places.find(|at| read(&line[..*at]).as_ref() == Some(&says)).map_or("", |at| &line[at..])
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse;
    use super::*;

    const TEXT: &str = "# what it is for\nname: a # it\n\n# where it is\ncommand: run # old\n\nargs:\n# first\n- one\n- two\n\n# the end\nstart: eager\n";

    fn says(text: &str) -> Option<Value> {
        parse(Path::new("a.yaml"), text).ok().map(|node| node.value())
    }

    /// The text made to say `after`, rewritten where that is all that can be done.
    fn changed(text: &str, after: &Value) -> String {
        let (before, meant) = (says(text).unwrap(), after.as_object().unwrap());
        let text = amend(text, before.as_object().unwrap(), meant, &says).unwrap_or_else(|| render(after));
        assert_eq!(says(&text).as_ref(), Some(after), "{text}");
        text
    }

    #[test]
    fn items_of_a_list_come_and_go_with_their_comments() {
        let text =
            "keys: # who may\n  # first\n  - {name: a}\n\n  # second\n  - name: b # it\n    hash: x\n# end\nname: a\n";
        let more =
            changed(text, &json!({ "keys": [{"name": "a"}, {"name": "b", "hash": "x"}, {"name": "c"}], "name": "a" }));
        assert_eq!(more, text.replace("    hash: x\n", "    hash: x\n  - name: c\n"));
        let other = changed(text, &json!({ "keys": [{"name": "b", "hash": "x"}, {"name": "c"}], "name": "a" }));
        assert_eq!(other, more.replace("  - {name: a}\n", ""));
        let last = changed(text, &json!({ "keys": [{"name": "a"}, {"name": "c"}], "name": "a" }));
        assert_eq!(last, "keys: # who may\n  # first\n  - {name: a}\n  - name: c\n\n  # second\n# end\nname: a\n");
        let none = changed(text, &json!({ "keys": [], "name": "a" }));
        assert_eq!(none, "keys: [] # who may\n# end\nname: a\n");
        let swapped = changed(text, &json!({ "keys": [{"name": "b", "hash": "x"}, {"name": "a"}], "name": "a" }));
        assert!(swapped.ends_with("\n# end\nname: a\n"), "{swapped}");
    }

    #[test]
    fn members_of_a_map_keep_their_comments_and_their_order() {
        let text = "name: a\ntools: # rules\n  # what ann may\n  allow:\n    - x/a # one\n    - x/b\n  deny: [\"*/c\"] # never\n\n# the end\nread_only: true\n";
        let with = |tools: Value| json!({ "name": "a", "tools": tools, "read_only": true });
        let more = changed(text, &with(json!({ "allow": ["x/a", "x/b", "x/d"], "deny": ["*/c"] })));
        assert_eq!(more, text.replace("    - x/b\n", "    - x/b\n    - x/d\n"));
        let other = changed(text, &with(json!({ "allow": ["x/a", "x/b"], "deny": [], "confirm": ["x/a"] })));
        assert_eq!(other, text.replace("  deny: [\"*/c\"] # never\n", "  deny: [] # never\n  confirm: [x/a]\n"));
        let flow = "name: a\ntools: {allow: [\"x/a\"]} # one line\n";
        let flow = changed(flow, &json!({ "name": "a", "tools": { "allow": ["x/b"] } }));
        assert!(flow.contains("x/b") && !flow.contains("x/a"), "{flow}");
    }

    #[test]
    fn comments_and_order_stay() {
        let mut after = json!({ "name": "a", "command": "run", "args": ["one", "two"], "start": "eager" });
        assert_eq!(changed(TEXT, &after), TEXT, "nothing is changed");
        after["command"] = "other".into();
        assert_eq!(changed(TEXT, &after), TEXT.replace("command: run", "command: other"));
        after["args"] = json!(["three"]);
        after["timeouts"] = json!({ "call": "5s" });
        after.as_object_mut().unwrap().remove("start");
        let text = changed(TEXT, &after);
        assert_eq!(
            text,
            "# what it is for\nname: a # it\n\n# where it is\ncommand: other # old\n\nargs: [three]\n\n# the end\ntimeouts:\n  call: \"5s\"\n"
        );
    }

    #[test]
    fn what_only_looks_like_a_comment_goes_with_its_value() {
        let text = "name: a\ncommand: \"run # not\" # one # two\n";
        let after = json!({ "name": "a", "command": "x" });
        assert_eq!(changed(text, &after), "name: a\ncommand: x # one # two\n");
        assert_eq!(changed("name: a\ncommand: 'a # b'\n", &after), "name: a\ncommand: x\n");
    }

    #[test]
    fn a_text_of_another_form_is_rewritten() {
        let after = json!({ "name": "a", "command": "x" });
        for text in
            ["{name: a, command: run} # c\n", "\"name\": a\n'command': run\n", "? name\n: a\n", "name: a\n...\n"]
        {
            let text = changed(text, &after);
            assert!(text.ends_with("command: x\n") && !text.contains('{'), "{text}");
        }
    }
}
