//! The YAML of scenarios: the tree of definitions, with what muster's own files need beside it. Not here: keys and what
//! they mean.

use std::path::Path;

use toolcrib_catalog::yaml::{self, Content, Entry, Node};

use crate::wrong::Wrong;

/// How the parser calls a line that stands too far left.
const INDENTATION: &str = "invalid indentation";
/// How many brackets of a file are moved right.
const FIXED: usize = 50;
/// The key that brings the entries of other maps.
const MERGE: &str = "<<";
/// The largest file, in bytes.
pub(crate) const BYTES: usize = 4 * 1024 * 1024;

/// Reads a document; nothing at all is nothing (`null`). A value stands where its key does: anyone who looks for a
/// value looks for its key.
///
/// # Errors
/// The first thing that is wrong with it as YAML.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Node, Wrong> {
    let wrong = |line, path, message| Wrong { file: file.to_owned(), line, path, message, hint: None };
    if text.len() > BYTES {
        return Err(wrong(1, String::new(), format!("the file has more than {BYTES} bytes")));
    }
    let mut lines: Vec<String> = Vec::new();
    let mut result = yaml::parse(file, text);
    for _ in 0..FIXED {
        let Err(problem) = &result else { break };
        if !problem.message.ends_with(INDENTATION) {
            break;
        }
        if lines.is_empty() {
            lines = text.split_inclusive('\n').map(str::to_owned).collect();
        }
        // YAML 1.2 (section 7.4) wants a closing bracket to stand further right than the key that its list belongs to. The
        // readers of Go and C do not ask for that, and muster's own scenarios are written so.
        let line = problem.at.and_then(|at| usize::try_from(at.line).ok()).and_then(|line| lines.get_mut(line - 1));
        let Some(line) = line.filter(|line| line.trim_start().starts_with([']', '}'])) else { break };
        line.insert(0, ' ');
        result = yaml::parse(file, &lines.concat());
    }
    let mut root = result.map_err(|problem| {
        let line = problem.at.map_or(1, |at| at.line);
        Wrong { hint: problem.hint, ..wrong(line, problem.field, problem.message) }
    })?;
    settle(&mut root).map_err(|(line, message)| wrong(line, String::new(), message))?;
    Ok(root)
}

/// Merges maps (`<<`) and moves every value to its key.
fn settle(node: &mut Node) -> Result<(), (u32, String)> {
    match &mut node.content {
        Content::Scalar { .. } => Ok(()),
        Content::List(items) => items.iter_mut().try_for_each(settle),
        Content::Map(entries) => {
            for entry in entries.iter_mut() {
                entry.value.at = entry.at;
                settle(&mut entry.value)?;
            }
            merge(entries)
        }
    }
}

/// The entries of a map with those that `<<` brings: what stands in the map itself counts, then what came first.
fn merge(entries: &mut Vec<Entry>) -> Result<(), (u32, String)> {
    let Some(place) = entries.iter().position(|entry| &*entry.key == MERGE) else { return Ok(()) };
    let source = entries.remove(place).value;
    let maps = match source.content {
        Content::List(items) => items,
        _ => vec![source],
    };
    for map in maps {
        let (line, shown) = (map.at.line, map.describe());
        let Content::Map(more) = map.content else {
            return Err((line, format!("`{MERGE}` takes a map or a list of maps, got {shown}")));
        };
        for entry in more {
            if !entries.iter().any(|own| own.key == entry.key) {
                entries.push(entry);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Node, Wrong> {
        parse(Path::new("a.yaml"), text)
    }

    #[test]
    fn values_keep_their_types_and_lines() {
        let node = read("a: 1\nb: '1'\nc: [true, ~, 1.5, 007]\nd: &x\n  k: v\ne: *x\n").unwrap();
        let expected = json!({"a": 1, "b": "1", "c": [true, null, 1.5, "007"], "d": {"k": "v"}, "e": {"k": "v"}});
        assert_eq!(node.value(), expected);
        assert_eq!(node.get("d").unwrap().at.line, 4);
        assert!(read("").unwrap().is_null());
    }

    #[test]
    fn a_bracket_may_close_below_its_key() {
        let node = read("a:\n  b: [\n    1, 2\n  ]\n  c: {\n    d: 1\n  }\ne: |\n  ]\n").unwrap();
        assert_eq!(node.value(), json!({"a": {"b": [1, 2], "c": {"d": 1}}, "e": "]\n"}));
        assert_eq!(node.get("e").unwrap().at.line, 8);
        assert!(read("a: 1\n]\n").is_err());
    }

    #[test]
    fn maps_are_merged() {
        let text = "
a: &a {x: 1, y: 1}
b: &b {y: 2, z: 2}
own: {<<: *a, x: 0}
both:
  <<: [*b, *a]
  w: 3
";
        let value = read(text).unwrap().value();
        assert_eq!(value["own"], json!({"x": 0, "y": 1}));
        assert_eq!(value["both"], json!({"w": 3, "y": 2, "z": 2, "x": 1}));
        for text in ["a: {<<: 1}", "a: {<<: [1]}", "a: {<<: {x: 1}, <<: {y: 1}}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hostile_files_end_in_an_error() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let inner = format!("*a{}, ", level - 1).repeat(10);
            bomb += &format!("a{level}: &a{level} [{}]\n", inner.trim_end_matches(", "));
        }
        for (text, line, part) in [
            (bomb.as_str(), 5, "values"),
            (&"[".repeat(200), 1, "levels of lists"),
            ("a: 1\nb: 2\na: 3\n", 3, "each key once"),
            ("a: 1\n---\nb: 1\n", 2, "one document"),
            ("a: [1\nb: 2\n", 2, "not valid YAML"),
            ("? [a]\n: 1\n", 1, "expected a key"),
        ] {
            let wrong = read(text).unwrap_err();
            assert!(wrong.message.contains(part), "{}", wrong.message);
            assert!(wrong.line.abs_diff(line) <= 1, "{} instead of {line}: {}", wrong.line, wrong.message);
        }
    }
}
