//! A YAML document as a tree in which every value knows its place. Bounded: depth, values, and text, also when
//! aliases multiply them.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};
use serde_json::{Number, Value};

use crate::private::{is_private, looks_secret};
use crate::problem::{DefinitionProblem, Position, Sink, shown};

/// How deep lists and maps may nest.
const DEPTH_MAX: usize = 64;
/// How many values a file may hold, those that aliases repeat included. A snapshot of a thousand tools has some 50,000.
const VALUES_MAX: usize = 200_000;
/// How much text those values may hold, in bytes.
const TEXT_MAX: usize = 8 * 1024 * 1024;

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Node {
    pub at: Position,
    pub content: Content,
}

/// What stands at a place.
#[derive(Debug, Clone)]
pub enum Content {
    /// The text as it was written; `plain` when it had no quotes, so that it may be a number, a boolean or nothing.
    Scalar {
        text: Arc<str>,
        plain: bool,
    },
    List(Vec<Node>),
    /// In the file's order, no key twice.
    Map(Vec<Entry>),
}

/// A key of a map and its value.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: Arc<str>,
    /// The place of the key.
    pub at: Position,
    pub value: Node,
}

// === impl Node ===

impl Node {
    /// Whether it says nothing.
    pub fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar { text, plain: true } if matches!(&**text, "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Whether it is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.content, Content::List(_))
    }

    /// Whether it is a map.
    pub fn is_map(&self) -> bool {
        matches!(self.content, Content::Map(_))
    }

    /// Truth values of YAML 1.2; `yes` and `on` are texts.
    pub fn as_flag(&self) -> Option<bool> {
        match &self.content {
            Content::Scalar { text, plain: true } => match &**text {
                "true" | "True" | "TRUE" => Some(true),
                "false" | "False" | "FALSE" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// Every text except nothing: `8080` is the text `8080`.
    pub fn as_text(&self) -> Option<&Arc<str>> {
        match &self.content {
            Content::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// The value of a key that says something.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let entry = self.entries().iter().find(|entry| *entry.key == *key)?;
        Some(&entry.value).filter(|value| !value.is_null())
    }

    /// The entries of a map; empty for anything else.
    pub fn entries(&self) -> &[Entry] {
        if let Content::Map(entries) = &self.content { entries } else { &[] }
    }

    /// The items of a list; empty for anything else.
    pub fn items(&self) -> &[Node] {
        if let Content::List(items) = &self.content { items } else { &[] }
    }

    /// Every text except nothing, as [`Node::as_text`], for anyone who keeps it.
    pub fn text(&self) -> Option<String> {
        self.as_text().map(std::string::ToString::to_string)
    }

    /// A number, as JSON has them: `0x10`, `.5`, `.inf` and `007` are texts.
    pub fn as_number(&self) -> Option<Number> {
        match &self.content {
            Content::Scalar { text, plain: true } => serde_json::from_str(text).ok(),
            _ => None,
        }
    }

    /// The same without places.
    pub fn value(&self) -> Value {
        match &self.content {
            _ if self.is_null() => Value::Null,
            Content::List(items) => items.iter().map(Node::value).collect(),
            Content::Map(entries) => {
                Value::Object(entries.iter().map(|entry| (entry.key.to_string(), entry.value.value())).collect())
            }
            Content::Scalar { text, .. } => match (self.as_flag(), self.as_number()) {
                (Some(flag), _) => Value::Bool(flag),
                (None, Some(number)) => Value::Number(number),
                (None, None) => Value::String(text.to_string()),
            },
        }
    }

    /// What is at `path`, for "expected …, got …". Of what may be a secret only its kind.
    pub(crate) fn describe_at(&self, path: &str) -> String {
        match self.as_text() {
            Some(text) if is_private(path) || looks_secret(text) => "a text".to_owned(),
            _ => self.describe(),
        }
    }

    /// What is there, for "expected …, got …", where nothing is a secret.
    pub fn describe(&self) -> String {
        match &self.content {
            _ if self.is_null() => "nothing".to_owned(),
            Content::Scalar { text, .. } => format!("`{}`", shown(text)),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a map".to_owned(),
        }
    }
}

/// Reads one document; `file` is named in the problem. Nothing at all is nothing.
///
/// # Errors
/// The first thing that is wrong with it as YAML.
pub fn parse(file: &Path, text: &str) -> Result<Node, DefinitionProblem> {
    let sink = Sink::new(file);
    let nothing = || Node { at: Position::START, content: Content::Scalar { text: "".into(), plain: true } };
    let root = build(text, &sink).ok().map(|root| root.unwrap_or_else(nothing));
    match (root, sink.finish().into_iter().next()) {
        (Some(root), None) => Ok(root),
        (_, problem) => Err(problem.unwrap_or_else(|| DefinitionProblem::of_file(file, "not valid YAML"))),
    }
}

/// Reads one document. `None` when there is no tree to look at; the problem is then in `sink`.
pub(crate) fn parse_into(text: &str, sink: &Sink) -> Option<Node> {
    let root = build(text, sink).ok()?.filter(|root| !root.is_null());
    if root.is_none() {
        sink.add(Position::START, "", "expected a definition, got nothing: the file is empty", None);
    }
    root
}

/// The tree of a text, if it says anything. What is wrong goes to the sink.
fn build(text: &str, sink: &Sink) -> Result<Option<Node>, Stop> {
    let mut builder =
        Builder { sink, stack: Vec::new(), anchors: HashMap::new(), weight: Weight::default(), root: None };
    for event in Parser::new_from_str(text.strip_prefix('\u{FEFF}').unwrap_or(text)) {
        match event {
            Ok((event, span)) => builder.take(event, position(&span.start))?,
            Err(error) => {
                let message = format!("not valid YAML: {}", shown(error.info()));
                sink.add(position(error.marker()), &builder.path(), message, None);
                return Err(Stop);
            }
        }
    }
    Ok(builder.root)
}

fn position(marker: &Marker) -> Position {
    let one_based = |zero_based: usize| u32::try_from(zero_based).unwrap_or(u32::MAX).saturating_add(1);
    Position { line: one_based(marker.line().saturating_sub(1)), column: one_based(marker.col()) }
}

/// Stops the reading; the problem is in the sink.
struct Stop;

struct Builder<'a> {
    sink: &'a Sink,
    stack: Vec<Frame>,
    /// What anchors stand for. A copy each, which the weight counts.
    anchors: HashMap<usize, Node>,
    weight: Weight,
    root: Option<Node>,
}

/// A list or a map that is not closed yet.
struct Frame {
    at: Position,
    anchor: usize,
    open: Open,
}

enum Open {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, keys: HashSet<Arc<str>>, pending: Option<(Arc<str>, Position)> },
}

#[derive(Default, Clone, Copy)]
struct Weight {
    values: usize,
    text: usize,
    depth: usize,
}

// === impl Builder ===

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, at: Position) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(self.stop(at, "expected one document, got a second one after `---`"))
            }
            Event::Scalar(text, style, anchor, tag) => {
                let tagged = self.check_tag(tag.as_deref(), at);
                self.weigh(Weight { values: 1, text: text.len(), depth: 0 }, at)?;
                let plain = style == ScalarStyle::Plain && !tagged;
                self.place(Node { at, content: Content::Scalar { text: text.into(), plain } }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), at);
                self.open(Frame { at, anchor, open: Open::List(Vec::new()) })
            }
            Event::MappingStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), at);
                let open = Open::Map { entries: Vec::new(), keys: HashSet::new(), pending: None };
                self.open(Frame { at, anchor, open })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.stack.pop() else { return Ok(()) };
                let content = match frame.open {
                    Open::List(items) => Content::List(items),
                    Open::Map { entries, .. } => Content::Map(entries),
                };
                self.place(Node { at: frame.at, content }, frame.anchor)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(self.stop(at, "expected an alias to something above, got one to itself"));
                };
                self.weigh(weight_of(node), at)?;
                // The copy stands where the alias does, what is in it keeps the anchor's place.
                let node = Node { at, content: self.anchors[&anchor].content.clone() };
                self.place(node, 0)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    fn open(&mut self, frame: Frame) -> Result<(), Stop> {
        self.weigh(Weight { values: 1, text: 0, depth: 1 }, frame.at)?;
        self.stack.push(frame);
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        if anchor != 0 {
            self.weigh(Weight { depth: 0, ..weight_of(&node) }, node.at)?;
            self.anchors.insert(anchor, node.clone());
        }
        let is_absent = matches!(&node.content, Content::Scalar { text, plain: true } if text.is_empty());
        match self.stack.last_mut().map(|frame| &mut frame.open) {
            None => {
                self.root = Some(node);
                Ok(())
            }
            Some(Open::List(items)) => {
                items.push(node);
                Ok(())
            }
            Some(Open::Map { entries, keys, pending }) => match pending.take() {
                None => self.key(&node),
                Some((key, at)) => {
                    // The first of two equal keys stays; the second one was reported when its key came.
                    if keys.insert(key.clone()) {
                        // What is not there has no place of its own: it is the key that one looks at.
                        let value = if is_absent { Node { at, ..node } } else { node };
                        entries.push(Entry { key, at, value });
                    }
                    Ok(())
                }
            },
        }
    }

    /// A value in the place of a key.
    fn key(&mut self, node: &Node) -> Result<(), Stop> {
        let Some(text) = node.as_text().cloned() else {
            return Err(self.stop(node.at, format!("expected a key, got {}", node.describe_at(&self.path()))));
        };
        let Some(Frame { open: Open::Map { entries, keys, pending }, .. }) = self.stack.last_mut() else {
            return Ok(());
        };
        let is_told = keys.contains(&text) && !self.sink.is_full();
        let earlier = is_told.then(|| entries.iter().find(|entry| entry.key == text)).flatten();
        let earlier = earlier.map(|entry| entry.at.line);
        *pending = Some((text, node.at));
        if let Some(line) = earlier {
            let hint = "keep one of the two".to_owned();
            let message = format!("expected each key once, got it again (first on line {line})");
            self.sink.add(node.at, &self.path(), message, Some(hint));
        }
        Ok(())
    }

    /// Whether a tag makes the scalar a text. Others than YAML's own are refused: they would mean nothing.
    fn check_tag(&self, tag: Option<&Tag>, at: Position) -> bool {
        let Some(tag) = tag else { return false };
        if !tag.is_yaml_core_schema() {
            let message = "expected a plain value, got one with a tag";
            self.sink.add(at, &self.path(), message, Some("remove the tag".to_owned()));
        }
        tag.suffix == "str"
    }

    fn weigh(&mut self, more: Weight, at: Position) -> Result<(), Stop> {
        self.weight.values = self.weight.values.saturating_add(more.values);
        self.weight.text = self.weight.text.saturating_add(more.text);
        if self.stack.len() + more.depth > DEPTH_MAX {
            return Err(self.stop(at, format!("expected at most {DEPTH_MAX} levels of lists and maps, got more")));
        }
        if self.weight.values > VALUES_MAX || self.weight.text > TEXT_MAX {
            return Err(self.stop(at, format!("expected at most {VALUES_MAX} values, aliases included, got more")));
        }
        Ok(())
    }

    fn stop(&self, at: Position, message: impl Into<String>) -> Stop {
        self.sink.add(at, &self.path(), message, None);
        Stop
    }

    /// The path of the value that is being read.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in &self.stack {
            match &frame.open {
                Open::List(items) => path = item_path(&path, items.len()),
                Open::Map { pending: Some((key, _)), .. } => path = key_path(&path, key),
                Open::Map { pending: None, .. } => {}
            }
        }
        path
    }
}

/// The path of a key in the map at `path`. What was meant as `NAME=value` and became a key shows its name only.
pub(crate) fn key_path(path: &str, key: &str) -> String {
    let key = key.split_once('=').map_or_else(|| shown(key), |(name, _)| format!("{}=****", shown(name)));
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// The path of an item in the list at `path`; items count from 0.
pub(crate) fn item_path(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// What a copy of a value costs. Its depth is bounded, as everything that was built is.
fn weight_of(node: &Node) -> Weight {
    let mut sum = Weight { values: 1, text: 0, depth: 0 };
    let mut add = |inner: Weight| {
        sum.values += inner.values;
        sum.text += inner.text;
        sum.depth = sum.depth.max(inner.depth);
    };
    match &node.content {
        Content::Scalar { text, .. } => return Weight { text: text.len(), ..sum },
        Content::List(items) => items.iter().for_each(|item| add(weight_of(item))),
        Content::Map(entries) => entries.iter().for_each(|entry| {
            add(Weight { values: 1, text: entry.key.len(), depth: 0 });
            add(weight_of(&entry.value));
        }),
    }
    Weight { depth: sum.depth + 1, ..sum }
}

#[cfg(test)]
mod tests;
