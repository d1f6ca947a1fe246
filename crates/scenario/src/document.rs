//! A YAML document as a tree in which every value knows its line. Bounded in depth, values and text, also where aliases
//! multiply them.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Number, Value};

/// How deep lists and maps may nest.
const DEPTH: usize = 64;
/// How many values a file may hold, those that aliases repeat included.
const VALUES: usize = 100_000;
/// How the parser calls a line that stands too far left.
const INDENTATION: &str = "invalid indentation";
/// How many brackets of a file are moved right.
const FIXED: usize = 50;
/// The key that brings the entries of other maps.
const MERGE: &str = "<<";
/// The largest file, in bytes, and the most text that aliases may make of it.
pub(crate) const BYTES: usize = 4 * 1024 * 1024;

/// A value and its line.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(crate) content: Content,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    Null,
    Flag(bool),
    /// With the text as it was written.
    Number(Number, String),
    Text(String),
    List(Vec<Node>),
    /// In the file's order, no key twice.
    Map(Vec<(String, Node)>),
}

/// Why there is no tree: the line and what is wrong in it.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) line: u32,
    pub(crate) message: String,
}

// === impl Node ===

impl Node {
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let Content::Map(entries) = &self.content else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value).filter(|value| !value.is_null())
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.content, Content::Null)
    }

    pub(crate) fn entries(&self) -> &[(String, Node)] {
        if let Content::Map(entries) = &self.content { entries } else { &[] }
    }

    pub(crate) fn items(&self) -> &[Node] {
        if let Content::List(items) = &self.content { items } else { &[] }
    }

    /// A scalar as it was written.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.content {
            Content::Text(text) | Content::Number(_, text) => Some(text.clone()),
            Content::Flag(flag) => Some(flag.to_string()),
            Content::Null | Content::List(_) | Content::Map(_) => None,
        }
    }

    pub(crate) fn value(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Flag(flag) => Value::Bool(*flag),
            Content::Number(number, _) => Value::Number(number.clone()),
            Content::Text(text) => Value::String(text.clone()),
            Content::List(items) => Value::Array(items.iter().map(Node::value).collect()),
            Content::Map(entries) => {
                Value::Object(entries.iter().map(|(key, value)| (key.clone(), value.value())).collect())
            }
        }
    }

    /// What is there, for "expected …, got …".
    pub(crate) fn describe(&self) -> String {
        match &self.content {
            Content::Null => "nothing".to_owned(),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a map".to_owned(),
            _ => format!("`{}`", self.text().unwrap_or_default().chars().take(60).collect::<String>()),
        }
    }

    /// How many values and bytes of text a copy is.
    fn weight(&self) -> (usize, usize) {
        let sum = |nodes: &mut dyn Iterator<Item = (usize, &Node)>| {
            nodes.fold((1, 0), |(values, text), (key, node)| {
                let (more, bytes) = node.weight();
                (values + more, text + bytes + key)
            })
        };
        match &self.content {
            Content::List(items) => sum(&mut items.iter().map(|item| (0, item))),
            Content::Map(entries) => sum(&mut entries.iter().map(|(key, value)| (key.len(), value))),
            _ => (1, self.text().map_or(0, |text| text.len())),
        }
    }
}

/// Reads a document; nothing at all is `Null`.
pub(crate) fn parse(text: &str) -> Result<Node, Broken> {
    if text.len() > BYTES {
        return Err(Broken { line: 1, message: format!("the file has more than {BYTES} bytes") });
    }
    let mut lines: Vec<String> = Vec::new();
    let mut result = parse_strictly(text);
    for _ in 0..FIXED {
        let Err(broken) = &result else { break };
        if !broken.message.ends_with(INDENTATION) {
            break;
        }
        if lines.is_empty() {
            lines = text.split_inclusive('\n').map(str::to_owned).collect();
        }
        // YAML 1.2 (section 7.4) wants a closing bracket to stand further right than the key that its list belongs to.
        // The readers of Go and C do not ask for that, and muster's own scenarios are written so.
        let line = usize::try_from(broken.line).ok().and_then(|line| lines.get_mut(line - 1));
        let Some(line) = line.filter(|line| line.trim_start().starts_with([']', '}'])) else { break };
        line.insert(0, ' ');
        result = parse_strictly(&lines.concat());
    }
    result
}

fn parse_strictly(text: &str) -> Result<Node, Broken> {
    let mut builder = Builder { stack: Vec::new(), anchors: HashMap::new(), values: 0, text: 0, root: None };
    for event in Parser::new_from_str(text.strip_prefix('\u{FEFF}').unwrap_or(text)) {
        match event {
            Ok((event, span)) => {
                let line = line(span.start.line());
                builder.take(event, line).map_err(|message| Broken { line, message })?;
            }
            Err(error) => {
                let message = format!("not valid YAML: {}", error.info());
                return Err(Broken { line: line(error.marker().line()), message });
            }
        }
    }
    Ok(builder.root.unwrap_or(Node { line: 1, content: Content::Null }))
}

fn line(line: usize) -> u32 {
    u32::try_from(line.max(1)).unwrap_or(u32::MAX)
}

struct Builder {
    stack: Vec<(u32, usize, Open)>,
    anchors: HashMap<usize, Node>,
    values: usize,
    text: usize,
    root: Option<Node>,
}

enum Open {
    List(Vec<Node>),
    Map(Vec<(String, Node)>, Option<(String, u32)>),
}

// === impl Builder ===

impl Builder {
    fn take(&mut self, event: Event<'_>, line: u32) -> Result<(), String> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err("expected one document, got a second one after `---`".to_owned())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                self.count(1, text.len())?;
                let content = if is_text { Content::Text(text.into_owned()) } else { plain(&text) };
                self.place(Node { line, content }, anchor)
            }
            Event::SequenceStart(anchor, _) => self.open(line, anchor, Open::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.open(line, anchor, Open::Map(Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some((line, anchor, open)) = self.stack.pop() else { return Ok(()) };
                let content = match open {
                    Open::List(items) => Content::List(items),
                    Open::Map(entries, _) => Content::Map(merged(entries)?),
                };
                self.place(Node { line, content }, anchor)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).ok_or("expected an alias to something above")?.clone();
                let (values, text) = node.weight();
                self.count(values, text)?;
                self.place(Node { line, ..node }, 0)
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, values: usize, text: usize) -> Result<(), String> {
        self.values += values;
        self.text += text;
        if self.values > VALUES || self.text > BYTES {
            return Err(format!("more than {VALUES} values or {BYTES} bytes of text, aliases included"));
        }
        Ok(())
    }

    fn open(&mut self, line: u32, anchor: usize, open: Open) -> Result<(), String> {
        self.count(1, 0)?;
        if self.stack.len() >= DEPTH {
            return Err(format!("lists and maps nest deeper than {DEPTH}"));
        }
        self.stack.push((line, anchor, open));
        Ok(())
    }

    fn place(&mut self, node: Node, anchor: usize) -> Result<(), String> {
        if anchor != 0 {
            let (values, text) = node.weight();
            self.count(values, text)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some((_, _, Open::List(items))) => items.push(node),
            Some((_, _, Open::Map(entries, pending))) => match pending.take() {
                // Anyone who looks for a value looks for its key.
                Some((key, line)) => entries.push((key, Node { line, ..node })),
                None => {
                    let key = node.text().ok_or_else(|| format!("expected a key, got {}", node.describe()))?;
                    if let Some((_, first)) = entries.iter().find(|(name, _)| *name == key) {
                        return Err(format!(
                            "the key `{key}` stands here a second time (first on line {})",
                            first.line
                        ));
                    }
                    *pending = Some((key, node.line));
                }
            },
        }
        Ok(())
    }
}

/// The entries of a map with those that `<<` brings: what stands in the map itself counts, then what came first.
fn merged(mut entries: Vec<(String, Node)>) -> Result<Vec<(String, Node)>, String> {
    let Some(place) = entries.iter().position(|(key, _)| key == MERGE) else { return Ok(entries) };
    let (_, brought) = entries.remove(place);
    let maps = match brought.content {
        Content::List(items) => items,
        _ => vec![brought],
    };
    for map in maps {
        let told = map.describe();
        let Content::Map(more) = map.content else {
            return Err(format!("`{MERGE}` takes a map or a list of maps, got {told}"));
        };
        for (key, value) in more {
            if !entries.iter().any(|(own, _)| *own == key) {
                entries.push((key, value));
            }
        }
    }
    Ok(entries)
}

/// A scalar without quotes. What JSON would not call a number (`0x10`, `.5`, `007`) is a text.
fn plain(text: &str) -> Content {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Content::Null,
        "true" | "True" | "TRUE" => Content::Flag(true),
        "false" | "False" | "FALSE" => Content::Flag(false),
        _ => match serde_json::from_str::<Number>(text) {
            Ok(number) => Content::Number(number, text.to_owned()),
            Err(_) => Content::Text(text.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_their_types_and_lines() {
        let node = parse("a: 1\nb: '1'\nc: [true, ~, 1.5, 007]\nd: &x {k: v}\ne: *x\n").unwrap();
        let expected = json!({"a": 1, "b": "1", "c": [true, null, 1.5, "007"], "d": {"k": "v"}, "e": {"k": "v"}});
        assert_eq!(node.value(), expected);
        assert_eq!(node.get("d").unwrap().line, 4);
        assert!(parse("").unwrap().is_null());
    }

    #[test]
    fn a_bracket_may_close_below_its_key() {
        let node = parse("a:\n  b: [\n    1, 2\n  ]\n  c: {\n    d: 1\n  }\ne: |\n  ]\n").unwrap();
        assert_eq!(node.value(), json!({"a": {"b": [1, 2], "c": {"d": 1}}, "e": "]\n"}));
        assert_eq!(node.get("e").unwrap().line, 8);
        assert!(parse("a: 1\n]\n").is_err());
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
        let value = parse(text).unwrap().value();
        assert_eq!(value["own"], json!({"x": 0, "y": 1}));
        assert_eq!(value["both"], json!({"w": 3, "y": 2, "z": 2, "x": 1}));
        for text in ["a: {<<: 1}", "a: {<<: [1]}", "a: {<<: {x: 1}, <<: {y: 1}}"] {
            assert!(parse(text).is_err(), "{text}");
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
            (&"[".repeat(200), 1, "nest deeper"),
            ("a: 1\nb: 2\na: 3\n", 3, "second time"),
            ("a: 1\n---\nb: 1\n", 2, "one document"),
            ("a: [1\nb: 2\n", 2, "not valid YAML"),
            ("? [a]\n: 1\n", 1, "expected a key"),
        ] {
            let broken = parse(text).unwrap_err();
            assert!(broken.message.contains(part), "{}", broken.message);
            assert!(broken.line.abs_diff(line) <= 1, "{} instead of {line}: {}", broken.line, broken.message);
        }
    }
}
