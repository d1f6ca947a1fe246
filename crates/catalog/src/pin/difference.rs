//! What differs between two sets of definitions, as data and as a text for people.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use serde_json::{Value, json};
use toolcrib_protocol::Raw;
use toolcrib_protocol::json as scanner;
use toolcrib_protocol::raw::Edit;

use super::digest::canonical;
use super::{Digest, Offer, Part, visible};

/// How many characters of one side of one change are shown.
const SHOWN: usize = 20_000;
/// How many entries of one kind the text shows.
const ENTRIES: usize = 500;
/// From how many lines on two texts are shown whole instead of line by line: comparing costs their product.
const LINES: usize = 1_000;

/// Names a definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// What it is.
    pub part: Part,
    /// Its name or URI template; nothing for instructions.
    pub name: String,
}

/// A definition that has another name now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRename {
    /// What it is.
    pub part: Part,
    /// The name that was approved.
    pub from: String,
    /// The name now.
    pub to: String,
}

/// A definition that says something else under the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemChange {
    /// Which.
    pub item: Item,
    /// What of it, by member.
    pub fields: Vec<Field>,
}

/// A member that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The member's key; nothing where the whole is no object.
    pub member: String,
    /// Its value before.
    pub before: Option<Raw>,
    /// Its value now.
    pub after: Option<Raw>,
}

/// What differs between two sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// Not there before.
    pub added: Vec<Item>,
    /// Not there any more.
    pub removed: Vec<Item>,
    /// There under another name.
    pub renamed: Vec<ItemRename>,
    /// There with another definition.
    pub changed: Vec<ItemChange>,
}

// === impl Item ===

impl Item {
    /// The thing of this name.
    pub fn new(part: Part, name: &str) -> Self {
        Self { part, name: name.to_owned() }
    }

    /// For people: ``tool `read` ``.
    pub fn words(&self) -> String {
        match self.part {
            Part::Instructions => "instructions".to_owned(),
            part => format!("{} `{}`", part.as_str(), visible(&self.name)),
        }
    }
}

// === impl Field ===

impl Field {
    /// The member as people call it.
    pub fn words(&self) -> String {
        match self.member.as_str() {
            "" => "text".to_owned(),
            "inputSchema" => "input schema".to_owned(),
            "outputSchema" => "output schema".to_owned(),
            other => visible(other),
        }
    }
}

// === impl Difference ===

impl Difference {
    /// Compares what was with what is.
    pub fn between(before: &Offer, after: &Offer) -> Self {
        let mut difference = Self::default();
        for (item, now) in after.items() {
            match before.get(item) {
                None => difference.added.push(item.clone()),
                Some(then) => {
                    let fields = fields(then, now);
                    if !fields.is_empty() {
                        difference.changed.push(ItemChange { item: item.clone(), fields });
                    }
                }
            }
        }
        difference.removed =
            before.items().map(|(item, _)| item).filter(|item| after.get(item).is_none()).cloned().collect();
        difference.find_renamed(before, after);
        difference
    }

    /// What was added as another was removed, and is the same but for its name, or says and takes the same.
    fn find_renamed(&mut self, before: &Offer, after: &Offer) {
        for likeness in [Likeness::Whole, Likeness::Gist] {
            let mut gone: HashMap<(Part, Digest), Vec<Item>> = HashMap::new();
            for item in self.removed.iter().rev() {
                if let Some(digest) = before.get(item).and_then(|raw| likeness.of(item.part, raw)) {
                    gone.entry((item.part, digest)).or_default().push(item.clone());
                }
            }
            let mut pairs = BTreeMap::new();
            for item in &self.added {
                let digest = after.get(item).and_then(|raw| likeness.of(item.part, raw));
                let from = digest.and_then(|digest| gone.get_mut(&(item.part, digest))).and_then(Vec::pop);
                if let Some(from) = from {
                    pairs.insert(item.clone(), from);
                }
            }
            self.added.retain(|item| !pairs.contains_key(item));
            let froms: std::collections::HashSet<&Item> = pairs.values().collect();
            self.removed.retain(|item| !froms.contains(item));
            let renamed = pairs.iter().map(|(to, from)| ItemRename {
                part: to.part,
                from: from.name.clone(),
                to: to.name.clone(),
            });
            self.renamed.extend(renamed);
        }
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.renamed.is_empty() && self.changed.is_empty()
    }

    /// What differs, each once, under its name now (its name before where it is gone).
    pub fn items(&self) -> Vec<Item> {
        let renamed = self.renamed.iter().map(|it| Item::new(it.part, &it.to));
        let changed = self.changed.iter().map(|it| it.item.clone());
        self.added.iter().chain(&self.removed).cloned().chain(renamed).chain(changed).collect()
    }

    /// In one line: `2 added, 1 changed`.
    pub fn summary(&self) -> String {
        let counts = [
            (self.added.len(), "added"),
            (self.removed.len(), "removed"),
            (self.renamed.len(), "renamed"),
            (self.changed.len(), "changed"),
        ];
        let words: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        if words.is_empty() { "no differences".to_owned() } else { words.join(", ") }
    }

    /// For people: one paragraph for each thing, `-` what was and `+` what is, hidden characters made visible.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut each = |word: &str, count: usize, write: &dyn Fn(&mut String, usize)| {
            (0..count.min(ENTRIES)).for_each(|index| write(&mut out, index));
            if count > ENTRIES {
                let _ = writeln!(out, "… and {} more {word}", count - ENTRIES);
            }
        };
        each("added", self.added.len(), &|out, index| {
            let _ = writeln!(out, "added {}", self.added[index].words());
        });
        each("removed", self.removed.len(), &|out, index| {
            let _ = writeln!(out, "removed {}", self.removed[index].words());
        });
        each("renamed", self.renamed.len(), &|out, index| {
            let ItemRename { part, from, to } = &self.renamed[index];
            let _ = writeln!(out, "renamed {} `{}` to `{}`", part.as_str(), visible(from), visible(to));
        });
        each("changed", self.changed.len(), &|out, index| {
            let changed = &self.changed[index];
            let _ = writeln!(out, "changed {}", changed.item.words());
            for field in &changed.fields {
                let _ = writeln!(out, "  {}", field.words());
                let (before, after) = shown(field);
                lines(out, &before, &after);
            }
        });
        out
    }

    /// As data. Texts are as the server wrote them.
    pub fn to_value(&self) -> Value {
        let item = |item: &Item| json!({ "kind": item.part.as_str(), "name": item.name });
        let side = |raw: &Option<Raw>| raw.as_ref().map_or(Value::Null, Raw::to_value);
        let renamed = |it: &ItemRename| json!({ "kind": it.part.as_str(), "from": it.from, "to": it.to });
        let changed = |it: &ItemChange| {
            let field =
                |it: &Field| json!({ "field": it.words(), "before": side(&it.before), "after": side(&it.after) });
            json!({
                "kind": it.item.part.as_str(), "name": it.item.name,
                "fields": it.fields.iter().map(field).collect::<Vec<_>>(),
            })
        };
        json!({
            "added": self.added.iter().map(item).collect::<Vec<_>>(),
            "removed": self.removed.iter().map(item).collect::<Vec<_>>(),
            "renamed": self.renamed.iter().map(renamed).collect::<Vec<_>>(),
            "changed": self.changed.iter().map(changed).collect::<Vec<_>>(),
        })
    }
}

/// By what a renamed thing is known again.
#[derive(Clone, Copy)]
enum Likeness {
    /// All but the name.
    Whole,
    /// What it says it does and what it takes.
    Gist,
}

impl Likeness {
    fn of(self, part: Part, definition: &Raw) -> Option<Digest> {
        if !definition.is_object() {
            return None;
        }
        match self {
            Self::Whole => Some(Digest::of(&definition.edit(&[(part.key(), Edit::Remove)]))),
            Self::Gist => {
                // Two tools without a description are not one.
                definition.text("description").filter(|text| !text.is_empty())?;
                let takes = if part == Part::Prompt { "arguments" } else { "inputSchema" };
                let parts = ["description", takes].map(|key| definition.get(key));
                let parts = parts.iter().map(|part| part.as_ref().map_or("null", Raw::as_str));
                Some(Digest::of(&toolcrib_protocol::raw::array(parts)))
            }
        }
    }
}

/// The members that differ.
fn fields(before: &Raw, after: &Raw) -> Vec<Field> {
    if before == after || Digest::of(before) == Digest::of(after) {
        return Vec::new();
    }
    if !before.is_object() || !after.is_object() {
        return vec![Field { member: String::new(), before: Some(before.clone()), after: Some(after.clone()) }];
    }
    let mut keys: Vec<String> = Vec::new();
    for member in before.members().iter().chain(&after.members()) {
        if !keys.iter().any(|key| *key == member.key) {
            keys.push(member.key.to_string());
        }
    }
    let field = |member: String| {
        let (before, after) = (before.get(&member), after.get(&member));
        let same = before.as_ref().map(Digest::of) == after.as_ref().map(Digest::of);
        (!same).then_some(Field { member, before, after })
    };
    let fields: Vec<Field> = keys.into_iter().filter_map(field).collect();
    if fields.is_empty() {
        // Keys that are spelled another way, or that stand twice: no reader may be fooled by them.
        return vec![Field { member: String::new(), before: Some(before.clone()), after: Some(after.clone()) }];
    }
    fields
}

/// Both sides as people read them; as they are written where they read the same.
fn shown(field: &Field) -> (String, String) {
    let read = |raw: &Option<Raw>| raw.as_ref().map_or_else(String::new, readable);
    let written = |raw: &Option<Raw>| raw.as_ref().map_or_else(String::new, |raw| raw.as_str().to_owned());
    let (before, after) = (read(&field.before), read(&field.after));
    if before == after { (written(&field.before), written(&field.after)) } else { (before, after) }
}

/// A text as it is, anything else as JSON on several lines with its keys in order.
fn readable(raw: &Raw) -> String {
    if let Some(text) = scanner::text(raw.as_str()) {
        return text.into_owned();
    }
    let mut ordered = String::new();
    canonical(raw.as_str(), &mut ordered);
    let value: Result<Value, _> = serde_json::from_str(&ordered);
    value.ok().and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or(ordered)
}

/// Appends the lines that differ.
fn lines(out: &mut String, before: &str, after: &str) {
    let split = |text: &str| -> Vec<String> {
        if text.is_empty() {
            return Vec::new();
        }
        text.split('\n').map(visible).collect()
    };
    let (before, after) = (split(before), split(after));
    let (mut gone, mut new) = (vec![true; before.len()], vec![true; after.len()]);
    if before.len() <= LINES && after.len() <= LINES {
        for (old, now) in common(&before, &after) {
            (gone[old], new[now]) = (false, false);
        }
    }
    for (mark, lines, differs) in [('-', before, gone), ('+', after, new)] {
        let mut left = SHOWN;
        let mut cut = 0;
        for line in lines.iter().zip(differs).filter(|(_, differs)| *differs).map(|(line, _)| line) {
            let length = line.chars().count();
            let shown: String = line.chars().take(left).collect();
            if left > 0 {
                let _ = writeln!(out, "    {mark} {shown}");
            }
            cut += length.saturating_sub(left);
            left = left.saturating_sub(length.max(1));
        }
        if cut > 0 {
            let _ = writeln!(out, "    {mark} … ({cut} more characters; `--output json` shows all)");
        }
    }
}

/// Pairs of lines that stay, by the longest common subsequence.
fn common(before: &[String], after: &[String]) -> Vec<(usize, usize)> {
    let width = after.len() + 1;
    let mut longest = vec![0_u32; (before.len() + 1) * width];
    for old in (0..before.len()).rev() {
        for now in (0..after.len()).rev() {
            longest[old * width + now] = if before[old] == after[now] {
                longest[(old + 1) * width + now + 1] + 1
            } else {
                longest[(old + 1) * width + now].max(longest[old * width + now + 1])
            };
        }
    }
    let (mut old, mut now, mut pairs) = (0, 0, Vec::new());
    while old < before.len() && now < after.len() {
        if before[old] == after[now] {
            pairs.push((old, now));
            (old, now) = (old + 1, now + 1);
        } else if longest[(old + 1) * width + now] >= longest[old * width + now + 1] {
            old += 1;
        } else {
            now += 1;
        }
    }
    pairs
}
