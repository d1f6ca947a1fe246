//! What templates are rendered with: roots, and the members below them.
//!
//! A loop may render ten thousand times over ten thousand results, so nothing here is copied for a rendering: members
//! are shared, and each is made ready for the engine at most once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use minijinja::Value as Cell;
use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use serde_json::{Map, Value};
use toolcrib_base::Timestamp;

use super::path::{MissingKey, Path, Step};

/// Older words for roots, where no one has a root of that name.
const OLDER_WORDS: [(&str, &str); 1] = [("context", "results")];
/// How many members are looked at to say what there is instead of a missing one.
const TOLD: usize = 9;

/// The root that an older word means; every other word means itself.
pub(super) fn newer_word(name: &str) -> &str {
    OLDER_WORDS.iter().find(|(older, _)| *older == name).map_or(name, |(_, now)| now)
}

/// The roots of templates.
#[derive(Debug, Clone, Default)]
pub struct Context {
    roots: BTreeMap<String, Root>,
    over: Option<Overlay>,
    /// The moment that `now` means.
    now: Option<Timestamp>,
}

/// A value that is seen before those below a root, so that no one copies these to show one more.
#[derive(Debug, Clone)]
struct Overlay {
    root: String,
    names: Vec<String>,
    item: Arc<Item>,
}

#[derive(Debug, Clone)]
enum Root {
    Members(Arc<Members>),
    One(Arc<Item>),
}

type Members = BTreeMap<String, Arc<Item>>;

/// A value, and the same for the engine as soon as that has asked for it.
#[derive(Debug)]
struct Item {
    value: Value,
    /// Where members are looked for that the value lacks.
    beside: Option<Value>,
    cell: OnceLock<Cell>,
}

// === impl Item ===

impl Item {
    fn new(value: Value) -> Arc<Self> {
        Self::beside(value, None)
    }

    fn beside(value: Value, beside: Option<Value>) -> Arc<Self> {
        Arc::new(Self { value, beside, cell: OnceLock::new() })
    }

    fn cell(&self) -> &Cell {
        self.cell.get_or_init(|| {
            let value = Cell::from_serialize(&self.value);
            match &self.beside {
                None => value,
                Some(beside) => Cell::from_object(FallbackValue { value, beside: Cell::from_serialize(beside) }),
            }
        })
    }

    /// What is left of a path from that step on, in the value or beside it.
    fn walk(&self, path: &Path, from: usize) -> Result<&Value, MissingKey> {
        let found = path.walk_from(&self.value, from);
        match &self.beside {
            Some(beside) if found.is_err() => path.walk_from(beside, from).or(found),
            _ => found,
        }
    }
}

// === impl Context ===

impl From<&Value> for Context {
    /// The members of a map as roots.
    fn from(value: &Value) -> Self {
        let root = |value: &Value| match value {
            Value::Object(members) => {
                Root::Members(Arc::new(members.iter().map(|(key, it)| (key.clone(), Item::new(it.clone()))).collect()))
            }
            one => Root::One(Item::new(one.clone())),
        };
        let roots = value.as_object().into_iter().flatten();
        Self { roots: roots.map(|(name, value)| (name.clone(), root(value))).collect(), over: None, now: None }
    }
}

impl Context {
    /// The same roots at a moment, which `now` means.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        Self { now: Some(now), ..self }
    }

    /// The moment that `now` means.
    pub(super) fn now(&self) -> Option<Timestamp> {
        self.now
    }

    /// Puts a value below a root, under each of these names. Members that it lacks are looked for in `beside`.
    pub fn set(&mut self, root: &str, names: &[&str], value: Value, beside: Option<Value>) {
        let item = Item::beside(value, beside);
        let members = self.roots.entry(root.to_owned()).or_insert_with(|| Root::Members(Arc::default()));
        if let Root::One(_) = members {
            *members = Root::Members(Arc::default());
        }
        if let Root::Members(members) = members {
            let members = Arc::make_mut(members);
            members.extend(names.iter().map(|name| ((*name).to_owned(), Arc::clone(&item))));
        }
    }

    /// The same roots with one value more.
    pub fn with(&self, root: &str, names: &[&str], value: Value, beside: Option<Value>) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let over = Overlay { root: root.to_owned(), names, item: Item::beside(value, beside) };
        Self { roots: self.roots.clone(), over: Some(over), now: self.now }
    }

    /// Takes a value away.
    pub fn remove(&mut self, root: &str, name: &str) {
        if let Some(Root::Members(members)) = self.roots.get_mut(root) {
            Arc::make_mut(members).remove(name);
        }
    }

    /// The value of that name below a root, and what is looked at beside it.
    pub fn get(&self, root: &str, name: &str) -> Option<(&Value, Option<&Value>)> {
        match self.roots.get(root)? {
            Root::Members(members) => members.get(name).map(|item| (&item.value, item.beside.as_ref())),
            Root::One(_) => None,
        }
    }

    /// The root that a name means.
    fn named<'n>(&self, name: &'n str) -> &'n str {
        if self.roots.contains_key(name) { name } else { newer_word(name) }
    }

    fn over(&self, root: &str) -> Option<&Overlay> {
        self.over.as_ref().filter(|over| over.root == root)
    }

    /// A root with what is seen before its members.
    fn root(&self, name: &str) -> Option<Root> {
        let name = self.named(name);
        match (self.roots.get(name)?, self.over(name)) {
            (Root::Members(members), Some(over)) => {
                let mut members = Members::clone(members);
                members.extend(over.names.iter().map(|name| (name.clone(), Arc::clone(&over.item))));
                Some(Root::Members(Arc::new(members)))
            }
            (root, _) => Some(root.clone()),
        }
    }

    /// The value at a path.
    pub(super) fn find(&self, path: &Path) -> Result<Cow<'_, Value>, MissingKey> {
        let Some(first) = path.steps.first() else {
            let roots = self.roots.keys().filter_map(|name| Some((name.clone(), self.root(name)?.to_value())));
            return Ok(Cow::Owned(Value::Object(roots.collect())));
        };
        match self.begin(path, first)? {
            PathStart::Whole(members) => Ok(Cow::Owned(of_members(&members))),
            PathStart::In(item, from) => item.walk(path, from).map(Cow::Borrowed),
        }
    }

    /// The same for the engine.
    pub(super) fn cell(&self, path: &Path) -> Result<Cell, MissingKey> {
        let Some(first) = path.steps.first() else { return self.find(path).map(|value| Cell::from_serialize(&*value)) };
        let (item, from) = match self.begin(path, first)? {
            PathStart::Whole(members) => return Ok(Cell::from_object(SharedValue(members))),
            PathStart::In(item, from) => (item, from),
        };
        if item.beside.is_some() && path.steps.len() == from {
            return Ok(item.cell().clone());
        }
        let value = item.walk(path, from)?;
        if !value.is_array() && !value.is_object() {
            return Ok(Cell::from_serialize(value));
        }
        // Lists and maps are parts of what was made ready once.
        let within = path.steps[from..].iter().try_fold(item.cell().clone(), |at, step| part(&at, step));
        Ok(within.unwrap_or_else(|| Cell::from_serialize(value)))
    }

    /// A whole root for the engine.
    pub(super) fn root_cell(&self, name: &str) -> Option<Cell> {
        self.root(name).map(|root| match root {
            Root::Members(members) => Cell::from_object(SharedValue(members)),
            Root::One(item) => item.cell().clone(),
        })
    }

    fn begin(&self, path: &Path, first: &Step) -> Result<PathStart<'_>, MissingKey> {
        let first = first.key();
        let name = self.named(&first);
        let root = self.roots.get(name).ok_or_else(|| path.missing(0, &some_of(self.roots.keys())))?;
        match (root, path.steps.get(1)) {
            (Root::One(item), _) => Ok(PathStart::In(item, 1)),
            (Root::Members(members), Some(second)) => {
                let second = second.key();
                let over = self.over(name).filter(|over| over.names.iter().any(|name| *name == *second));
                let item = over.map(|over| &over.item).or_else(|| members.get(&*second));
                Ok(PathStart::In(item.ok_or_else(|| path.missing(1, &some_of(members.keys())))?, 2))
            }
            (Root::Members(members), None) => match self.root(name) {
                Some(Root::Members(all)) => Ok(PathStart::Whole(all)),
                _ => Ok(PathStart::Whole(Arc::clone(members))),
            },
        }
    }
}

/// Where a path leads to at first: to all members of a root, or into a value from that step on.
enum PathStart<'a> {
    Whole(Arc<Members>),
    In(&'a Item, usize),
}

impl Root {
    fn to_value(&self) -> Value {
        match self {
            Self::Members(members) => of_members(members),
            Self::One(item) => item.value.clone(),
        }
    }
}

fn of_members(members: &Members) -> Value {
    Value::Object(members.iter().map(|(key, item)| (key.clone(), item.value.clone())).collect())
}

/// A map with some of these keys, to say what there is.
fn some_of<'k>(keys: impl Iterator<Item = &'k String>) -> Value {
    Value::Object(keys.take(TOLD).map(|key| (key.clone(), Value::Null)).collect::<Map<_, _>>())
}

fn part(of: &Cell, step: &Step) -> Option<Cell> {
    let found = match (of.kind(), step.key().parse::<usize>()) {
        (ValueKind::Seq, Ok(index)) => of.get_item_by_index(index).ok()?,
        _ => of.get_item(&Cell::from(&*step.key())).ok()?,
    };
    (!found.is_undefined()).then_some(found)
}

/// All members of a root, as the engine sees them.
#[derive(Debug)]
struct SharedValue(Arc<Members>);

impl Object for SharedValue {
    fn get_value(self: &Arc<Self>, key: &Cell) -> Option<Cell> {
        self.0.get(key.as_str()?).map(|item| item.cell().clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.keys().map(|key| Cell::from(key.as_str())).collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }
}

/// A value with another beside it, in which members are looked for that it lacks. It is shown as the value alone.
#[derive(Debug)]
struct FallbackValue {
    value: Cell,
    beside: Cell,
}

impl Object for FallbackValue {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.value.kind() {
            ValueKind::Seq => ObjectRepr::Seq,
            ValueKind::Map => ObjectRepr::Map,
            _ => ObjectRepr::Plain,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Cell) -> Option<Cell> {
        let of = |value: &Cell| value.get_item(key).ok().filter(|found| !found.is_undefined());
        of(&self.value).or_else(|| of(&self.beside))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match self.value.kind() {
            ValueKind::Seq => Enumerator::Seq(self.value.len().unwrap_or(0)),
            ValueKind::Map => {
                self.value.try_iter().map_or(Enumerator::Empty, |keys| Enumerator::Values(keys.collect()))
            }
            _ => Enumerator::NonEnumerable,
        }
    }

    fn render(self: &Arc<Self>, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_there_is_made_ready_once_and_shared() {
        let mut context = Context::from(&json!({"results": {"big": {"items": [{"n": 1}, {"n": 2}]}}}));
        let path = |text: &str| Path::parse(text).unwrap();
        let item = |context: &Context| match context.root("results") {
            Some(Root::Members(members)) => Arc::clone(&members["big"]),
            other => panic!("{other:?}"),
        };
        let before = item(&context);
        assert!(before.cell.get().is_none(), "the engine was not asked yet");
        assert_eq!(*context.find(&path("results.big.items[1].n")).unwrap(), json!(2));
        context.cell(&path("results.big.items[1].n")).unwrap();
        assert!(before.cell.get().is_none(), "a number needs no list to be made ready");
        assert_eq!(context.cell(&path("results.big.items")).unwrap().len(), Some(2));
        let other = context.clone();
        context.set("results", &["more", "again"], json!([1]), None);
        assert!(Arc::ptr_eq(&before, &item(&context)) && Arc::ptr_eq(&before, &item(&other)));
        assert!(before.cell.get().is_some() && context.get("results", "again") == Some((&json!([1]), None)));
        assert_eq!(other.get("results", "more"), None);
        let more = other.with("results", &["big", "big_0"], json!("new"), None);
        for (text, expected) in [
            ("results.big", json!("new")),
            ("context.big_0", json!("new")),
            ("results", json!({"big": "new", "big_0": "new"})),
        ] {
            assert_eq!(*more.find(&path(text)).unwrap(), expected, "{text}");
        }
        assert_eq!(more.root_cell("results").unwrap().len(), Some(2));
        assert!(other.find(&path("results.big_0")).is_err());
    }
}
