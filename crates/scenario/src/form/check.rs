//! Compares a document with the tables: unknown, missing, repeated and mistyped keys, all of them with their lines.

use std::path::Path;

use toolcrib_base::nearest::nearest;
use toolcrib_catalog::yaml::{Content, Entry, Node};

use crate::time;
use crate::wrong::Wrong;

use super::{Key, Shape, Table};

/// How many faults of one file are reported.
const MOST: usize = 50;

/// What is wrong with `node` as a map of these keys.
pub(crate) fn check(node: &Node, table: &'static Table, file: &Path) -> Vec<Wrong> {
    check_at(node, table, file, "")
}

/// The same of a map somewhere in the file.
pub(crate) fn check_at(node: &Node, table: &'static Table, file: &Path, path: &str) -> Vec<Wrong> {
    let mut check = Check { file, found: Vec::new() };
    check.map(node, table, path);
    check.found
}

struct Check<'a> {
    file: &'a Path,
    found: Vec<Wrong>,
}

// === impl Check ===

impl Check<'_> {
    fn add(&mut self, line: u32, path: &str, message: impl Into<String>, hint: Option<String>) {
        if self.found.len() < MOST {
            let (file, path, message) = (self.file.to_owned(), path.to_owned(), message.into());
            self.found.push(Wrong { file, line, path, message, hint });
        }
    }

    fn expected(&mut self, node: &Node, path: &str, what: &str) {
        self.add(node.at.line, path, format!("expected {what}, got {}", node.describe()), None);
    }

    fn map(&mut self, node: &Node, table: &'static Table, path: &str) {
        let Content::Map(entries) = &node.content else {
            return self.expected(node, path, "a map of keys and values");
        };
        for Entry { key: name, value, .. } in entries {
            let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            match table.keys.iter().find(|key| *key.name == **name) {
                Some(key) => self.value(value, key, &path),
                None if table.open => {}
                None => {
                    let known = || table.keys.iter().map(|key| key.name);
                    // Long keys in the other spelling are further away than a slip.
                    let plain = |word: &str| word.replace(['_', '-'], "").to_lowercase();
                    let meant = known().find(|word| plain(word) == plain(name)).or_else(|| nearest(name, known()));
                    let hint = meant.map_or_else(
                        || format!("known keys are {}", known().collect::<Vec<_>>().join(", ")),
                        |word| format!("did you mean `{word}`?"),
                    );
                    self.add(value.at.line, &path, "is not a known key", Some(hint));
                }
            }
        }
        for key in table.keys.iter().filter(|key| key.required && node.get(key.name).is_none()) {
            self.add(node.at.line, path, format!("lacks the key `{}`", key.name), None);
        }
    }

    fn value(&mut self, node: &Node, key: &Key, path: &str) {
        // A key with nothing behind it counts as left out.
        if node.is_null() {
            return;
        }
        match key.shape {
            Shape::Any | Shape::Ignored => {}
            Shape::Text => {
                if node.text().is_none() {
                    self.expected(node, path, "a text");
                }
            }
            Shape::Flag => {
                if node.as_flag().is_none() {
                    self.expected(node, path, "`true` or `false`");
                }
            }
            Shape::Number(least, most) => {
                let number = node.as_number().and_then(|number| number.as_f64());
                if !number.is_some_and(|number| (least..=most).contains(&number)) {
                    self.expected(node, path, &format!("a number from {least} to {most}"));
                }
            }
            Shape::Whole(least, most) => {
                let number = node.as_number().and_then(|number| number.as_u64());
                if !number.is_some_and(|number| (u64::from(least)..=u64::from(most)).contains(&number)) {
                    self.expected(node, path, &format!("a whole number from {least} to {most}"));
                }
            }
            Shape::Time => {
                if node.text().and_then(|text| time::parse(&text)).is_none() {
                    self.expected(node, path, "a time such as `30s` or `1m30s`");
                }
            }
            Shape::Texts => self.texts(node, path, "a list of texts"),
            Shape::ObjectOrTexts(table) => match &node.content {
                Content::Map(_) => self.map(node, table, path),
                _ => self.texts(node, path, "a map or a list of texts"),
            },
            Shape::TextMap => {
                if !node.is_map() {
                    return self.expected(node, path, "a map of texts");
                }
                for entry in node.entries().iter().filter(|entry| entry.value.text().is_none()) {
                    self.expected(&entry.value, &format!("{path}.{}", entry.key), "a text");
                }
            }
            Shape::Words(words) => {
                let text = node.text().unwrap_or_default();
                if !words.contains(&text.as_str()) {
                    let hint = nearest(&text, words.iter().copied()).map(|word| format!("did you mean `{word}`?"));
                    let message = format!("expected one of {}, got {}", words.join(", "), node.describe());
                    self.add(node.at.line, path, message, hint);
                }
            }
            Shape::Map => {
                if !node.is_map() {
                    self.expected(node, path, "a map");
                }
            }
            Shape::List => {
                if !node.is_list() {
                    self.expected(node, path, "a list");
                }
            }
            Shape::Object(table) => self.map(node, table, path),
            Shape::Objects(table) => {
                let Content::List(items) = &node.content else { return self.expected(node, path, "a list") };
                for (index, item) in items.iter().enumerate() {
                    self.map(item, table, &format!("{path}[{index}]"));
                }
            }
        }
    }

    /// One text, or a list of them.
    fn texts(&mut self, node: &Node, path: &str, what: &str) {
        let items = node.is_list().then(|| node.items());
        if node.text().is_none() && !items.is_some_and(|items| items.iter().all(|item| item.text().is_some())) {
            self.expected(node, path, what);
        }
    }
}
