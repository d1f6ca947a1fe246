//! What lies within a key, changed with its comments kept: the keys of a map, and the items of a list, each of them as a
//! text of its own. Whatever is written in another way than one line after the other is for the caller to rewrite.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::super::render::render;

/// Members that tell items of a list apart.
const IDENTITIES: [&str; 2] = ["id", "name"];

/// Makes a text that says the one map say the other.
pub(super) type Amend<'a> = &'a dyn Fn(&str, [&Map<String, Value>; 2]) -> Option<String>;

/// One item of a list: its lines, and how far it is indented.
struct Item {
    lines: Range<usize>,
    indent: usize,
}

/// The lines of a key, whose value changes from the one to the other.
pub(super) fn amend_block(
    block: &[String],
    key: &str,
    [was, now]: [&Value; 2],
    amend: Amend<'_>,
) -> Option<Vec<String>> {
    let first = block.first()?;
    let rest = first.strip_prefix(key)?.strip_prefix(':')?;
    if !rest.trim().is_empty() && comment_of_key(first, key).is_empty() {
        return None;
    }
    match (was, now) {
        (Value::Object(was), Value::Object(now)) => {
            let mut lines = vec![first.clone()];
            lines.extend(amend_map(&block[1..], [was, now], amend)?);
            Some(lines)
        }
        (Value::Array(was), Value::Array(now)) => amend_list(block, [was, now], amend),
        _ => None,
    }
}

fn amend_map(lines: &[String], [was, now]: [&Map<String, Value>; 2], amend: Amend<'_>) -> Option<Vec<String>> {
    let indent = lines.iter().find(|line| says_something(line)).map(|line| indent_of(line)).filter(|it| *it > 0)?;
    let text = lines.iter().map(|line| without_indent(line, indent)).collect::<Option<Vec<_>>>()?.join("\n") + "\n";
    let amended = amend(&text, [was, now])?;
    Some(amended.lines().map(|line| with_indent(line, indent)).collect())
}

/// Items keep their lines where they stay, are changed line by line where they can be told apart, and are written
/// behind the item before them where they are new. `None` where no item stays.
fn amend_list(block: &[String], [was, now]: [&[Value]; 2], amend: Amend<'_>) -> Option<Vec<String>> {
    let places = items_of(block);
    if places.len() != was.len() {
        return None;
    }
    let pairs = pairs_of(was, now);
    let indent = pairs.iter().flatten().next().map(|index| places[*index].indent)?;
    let is_gone = |index: &usize| !pairs.contains(&Some(*index));
    let gone: Vec<&Item> = (0..was.len()).filter(is_gone).map(|index| &places[index]).collect();
    // Comments between items stay where the items around them go.
    let between = |lines: Range<usize>| {
        let kept = lines.filter(|line| !gone.iter().any(|item| item.lines.contains(line)));
        kept.map(|line| block[line].clone()).collect::<Vec<_>>()
    };
    let mut out = vec![block[0].clone()];
    let mut at = 1;
    for (item, pair) in now.iter().zip(&pairs) {
        let Some(index) = *pair else {
            out.extend(written(item, indent));
            continue;
        };
        let place = &places[index];
        out.extend(between(at..place.lines.start));
        at = place.lines.end;
        let lines = &block[place.lines.clone()];
        match &was[index] == item {
            true => out.extend_from_slice(lines),
            false => {
                let changed = amend_item(lines, place.indent, [&was[index], item], amend);
                out.extend(changed.unwrap_or_else(|| written(item, indent)));
            }
        }
    }
    out.extend(between(at..block.len()));
    Some(out)
}

/// For each item that there is to be, the one before that it comes from; in the same order.
fn pairs_of(was: &[Value], now: &[Value]) -> Vec<Option<usize>> {
    let is_alike = |one: &Value, other: &Value| {
        let is_named = |key: &str| one[key].is_string() && one[key] == other[key];
        one == other || IDENTITIES.into_iter().any(is_named)
    };
    let mut next = 0;
    let mut pairs = Vec::with_capacity(now.len());
    for item in now {
        let found = (next..was.len()).find(|index| is_alike(&was[*index], item));
        next = found.map_or(next, |index| index + 1);
        pairs.push(found);
    }
    pairs
}

fn amend_item(lines: &[String], indent: usize, [was, now]: [&Value; 2], amend: Amend<'_>) -> Option<Vec<String>> {
    let (Value::Object(was), Value::Object(now)) = (was, now) else { return None };
    let dash = " ".repeat(indent) + "-";
    let first = lines.first()?.strip_prefix(&dash)?;
    let inner = indent + 1 + (first.len() - first.trim_start().len());
    let mut text = first.trim_start().to_owned() + "\n";
    for line in &lines[1..] {
        text += without_indent(line, inner)?;
        text.push('\n');
    }
    let amended = amend(&text, [was, now])?;
    let mut out: Vec<String> = amended.lines().map(|line| with_indent(line, inner)).collect();
    let first = out.first_mut().filter(|line| says_something(line))?;
    *first = dash + &" ".repeat(inner - indent - 1) + first.trim_start();
    Some(out)
}

/// An item as its lines.
fn written(item: &Value, indent: usize) -> Vec<String> {
    render(&json!([item])).lines().map(|line| with_indent(line, indent)).collect()
}

/// The items of a key's list. Comments and blank lines after the last word of an item are not its own.
fn items_of(block: &[String]) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for (number, line) in block.iter().enumerate().skip(1) {
        if !says_something(line) {
            continue;
        }
        let indent = indent_of(line);
        let begins = line.trim_start().starts_with("- ") && items.first().is_none_or(|item| item.indent == indent);
        match items.last_mut() {
            _ if begins => items.push(Item { lines: number..number + 1, indent }),
            Some(item) => item.lines.end = number + 1,
            None => {}
        }
    }
    items
}

/// The comment behind a key whose value stands on the lines below.
pub(super) fn comment_of_key<'a>(line: &'a str, key: &str) -> &'a str {
    let rest = line.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')).unwrap_or_default();
    if rest.trim_start().starts_with('#') && rest.starts_with(' ') { rest } else { "" }
}

fn says_something(line: &str) -> bool {
    let text = line.trim_start();
    !text.is_empty() && !text.starts_with('#')
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn without_indent(line: &str, indent: usize) -> Option<&str> {
    match line.strip_prefix(&" ".repeat(indent)) {
        Some(rest) => Some(rest),
        None if says_something(line) => None,
        None => Some(line.trim_start()),
    }
}

fn with_indent(line: &str, indent: usize) -> String {
    if line.is_empty() { String::new() } else { " ".repeat(indent) + line }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::{amend, parse};
    use super::*;

    const FLOW: &str = "name: w # it\nsteps:\n  # reads first\n  - id: one # the first\n    tool: a/read\n    args:\n      # where\n      path: /a # here\n      limit: 3\n\n  # then writes\n  - id: two\n    tool: a/write\n    retry: {count: 3}\n# the end\ntimeout: 5m\n";

    fn says(text: &str) -> Option<Value> {
        parse(std::path::Path::new("a.yaml"), text).ok().map(|node| node.value())
    }

    fn changed(text: &str, change: impl FnOnce(&mut Value)) -> String {
        let before = says(text).unwrap();
        let mut after = before.clone();
        change(&mut after);
        let amended = amend(text, before.as_object().unwrap(), after.as_object().unwrap(), &says).expect("it is kept");
        assert_eq!(says(&amended), Some(after), "{amended}");
        amended
    }

    #[test]
    fn a_value_deep_within_changes_alone() {
        let text = changed(FLOW, |it| it["steps"][0]["args"]["path"] = "/b".into());
        assert_eq!(text, FLOW.replace("path: /a", "path: /b"));
        let text = changed(FLOW, |it| it["steps"][1]["tool"] = "a/put".into());
        assert_eq!(text, FLOW.replace("a/write", "a/put"));
        let text = changed(FLOW, |it| it["steps"][1]["retry"]["count"] = 4.into());
        assert_eq!(text, FLOW.replace("retry: {count: 3}", "retry:\n      count: 4"));
    }

    #[test]
    fn items_and_keys_come_and_go_around_comments() {
        let text = changed(FLOW, |it| {
            it["steps"][0]["store"] = true.into();
            it["steps"].as_array_mut().unwrap().insert(1, json!({"id": "half", "tool": "a/half"}));
        });
        let expected =
            FLOW.replace("      limit: 3\n", "      limit: 3\n    store: true\n  - id: half\n    tool: a/half\n");
        assert_eq!(text, expected);
        let text = changed(FLOW, |it| drop(it["steps"].as_array_mut().unwrap().remove(0)));
        let first = FLOW.find("  - id: one").unwrap()..FLOW.find("\n  # then").unwrap();
        assert_eq!(text, FLOW[..first.start].to_owned() + &FLOW[first.end..], "its comment above stays");
        let text = changed(FLOW, |it| it["steps"].as_array_mut().unwrap().reverse());
        assert!(
            text.contains("# then writes") && text.contains("# the end") && text.contains("name: w # it"),
            "{text}"
        );
    }

    /// Any value with what YAML could mistake.
    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop::sample::select(vec![
            "",
            "a",
            "- x",
            "# no",
            "a: b",
            "true",
            "1.0",
            "line\nline\n",
            " x ",
            "é",
            "{{ .input.x }}",
            "*a",
        ]);
        let leaf = prop_oneof![
            text.prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let key = prop::sample::select(vec!["id", "name", "tool", "args", "a b", "steps"]);
            let members = prop::collection::btree_map(key, inner.clone(), 0..4);
            prop_oneof![
                members.prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
                prop::collection::vec(inner, 0..4).prop_map(Value::Array),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_amended_says_just_what_it_is_to_say(one in any_value(), other in any_value(), third in any_value()) {
            let before = json!({ "name": "w", "steps": one, "kept": third });
            let after = json!({ "name": "w", "steps": other, "kept": third });
            let text = "# first\n".to_owned() + &render(&before).replace("\nkept:", "\n# kept\nkept:");
            prop_assert_eq!(says(&text), Some(before.clone()));
            if let Some(text) = amend(&text, before.as_object().unwrap(), after.as_object().unwrap(), &says) {
                prop_assert!(text.starts_with("# first\n") && text.contains("# kept\nkept:"), "{}", text);
                prop_assert_eq!(says(&text), Some(after));
            }
        }
    }
}
