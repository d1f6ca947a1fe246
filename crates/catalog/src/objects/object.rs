//! One document: an object, or a list of some.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::nearest::nearest;

use super::kind::{self, DocumentKind};
use super::source::called;
use super::{Object, ObjectForm, ObjectPlace, ObjectProblem, Objects, SkippedObject, server};
use crate::kind::DefinitionKind;
use crate::private::masked_path;
use crate::problem::{DefinitionProblem, Findings, Position, Sink, shown};
use crate::reader::{Cursor, UNKNOWN_KEY};
use crate::readers::reader;
use crate::yaml::{Content, Entry, Node};

/// How deep lists may stand in lists.
const DEPTH_MAX: usize = 4;
/// The keys of an object of Kubernetes, and those of its `metadata`; most of them mean something to a cluster only.
const OF_OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
const OF_METADATA: [&str; 14] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
];
/// Keys that only muster's servers have.
const OF_MUSTER: [&str; 3] = ["type", "toolPrefix", "autoStart"];

/// What the caller says of documents that do not say it themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct DocumentDefaults<'a> {
    pub(super) kind: Option<DefinitionKind>,
    pub(super) name: Option<&'a str>,
}

/// A map of a document, with its place.
#[derive(Debug, Clone, Copy)]
struct Mapping<'n> {
    at: Position,
    entries: &'n [Entry],
}

/// Reads one document of a file.
pub(super) struct Reader<'a> {
    pub(super) file: &'a Path,
    pub(super) document: Option<usize>,
    pub(super) text: &'a str,
    pub(super) objects: Objects,
}

// === impl Reader ===

impl Reader<'_> {
    pub(super) fn document(&mut self, root: &Node, said: &DocumentDefaults<'_>) {
        self.object(root, said, 0);
    }

    fn problem(&mut self, at: Position, field: &str, message: impl Into<String>, hint: &str) {
        let place = self.place(at);
        self.objects.problems.push(place.problem(field, message, hint));
    }

    fn place(&self, at: Position) -> ObjectPlace {
        ObjectPlace { file: self.file.to_owned(), at, document: self.document }
    }

    /// One object, or each of a list.
    fn object(&mut self, node: &Node, said: &DocumentDefaults<'_>, depth: usize) {
        let Content::Map(entries) = &node.content else {
            let message = format!("expected a map of keys and values, got {}", node.describe_at(""));
            return self.problem(node.at, "", message, "each document tells of one thing");
        };
        let (version, word) = (text(entries, "apiVersion"), text(entries, "kind"));
        let own_name = match get(entries, "metadata") {
            Some(metadata) => member(metadata, "name").and_then(Node::as_text).map(|name| &**name),
            None => text(entries, "name"),
        };
        let kind = match kind::document_kind(version, word) {
            DocumentKind::Kind(kind)
                if said.kind.is_some_and(|wanted| wanted != kind) && depth == 0 && version.is_none() =>
            {
                return self.problem(node.at, "kind", format!("it is a {kind}, as its `kind` says"), "name that kind");
            }
            DocumentKind::Kind(kind) => kind,
            DocumentKind::List if depth < DEPTH_MAX => return self.list(node, entries, said, depth),
            DocumentKind::List => {
                return self.problem(node.at, "", "lists within lists", "give their items as documents");
            }
            DocumentKind::Other(why) if version.is_some() => {
                let (place, what) = (self.place(node.at), called(word.unwrap_or_default(), own_name));
                return self.objects.skipped.push(SkippedObject { place, what, why });
            }
            DocumentKind::Other(_) => {
                let message = format!("`kind: {}` cannot be written", shown(word.unwrap_or_default()));
                return self.problem(node.at, "kind", message, KINDS);
            }
            DocumentKind::Unsaid => match said.kind.or_else(|| kind::of_keys(|key| get(entries, key).is_some())) {
                Some(kind) => kind,
                None => return self.problem(node.at, "", "which kind of thing it is stands nowhere", KINDS),
            },
        };
        let name = match (said.name, own_name) {
            (Some(given), Some(own)) if given != own => {
                let message = format!("it is called `{}`, not `{}`", shown(own), shown(given));
                return self.problem(node.at, "name", message, "leave the name out, or give the one that it has");
            }
            (given, own) => own.or(given),
        };
        let Some(name) = name else {
            return self.problem(node.at, "", "it has no name", "write `name: …` or give the name behind the kind");
        };
        self.one(Mapping { at: node.at, entries }, kind, name, depth);
    }

    fn list(&mut self, node: &Node, entries: &[Entry], said: &DocumentDefaults<'_>, depth: usize) {
        match get(entries, "items").map(|items| &items.content) {
            Some(Content::List(items)) => {
                items.iter().for_each(|item| self.object(item, &DocumentDefaults { name: None, ..*said }, depth + 1));
            }
            _ => self.problem(node.at, "items", "expected a list of objects", "add `items: [{kind: MCPServer, …}]`"),
        }
    }

    /// Warns of keys of an object and of its `metadata` that are neither Kubernetes' nor ours.
    fn unknown_outside(&mut self, entries: &[Entry]) {
        let metadata = get(entries, "metadata").map(|metadata| &metadata.content);
        let within: &[Entry] = if let Some(Content::Map(metadata)) = metadata { metadata } else { &[] };
        for (path, entries, known) in [("", entries, &OF_OBJECT[..]), ("metadata.", within, &OF_METADATA[..])] {
            for entry in entries.iter().filter(|entry| !known.contains(&&*entry.key)) {
                let field = format!("{path}{}", shown(&entry.key));
                let warning = self.place(entry.at).problem(&masked_path(&field), UNKNOWN_KEY, "");
                let hint = nearest(&entry.key, known.iter().copied()).map(|word| format!("did you mean `{word}`?"));
                let problem = DefinitionProblem { hint, ..warning.problem };
                self.objects.warnings.push(ObjectProblem { problem, ..warning });
            }
        }
    }

    /// One object of a known kind and name.
    fn one(&mut self, object: Mapping<'_>, kind: DefinitionKind, name: &str, depth: usize) {
        let entries = object.entries;
        let has = |key: &str| get(entries, key).is_some();
        let is_wrapped = has("apiVersion") || has("spec") || has("metadata") && kind != DefinitionKind::ServiceClass;
        let is_muster = is_wrapped || kind == DefinitionKind::Server && OF_MUSTER.iter().any(|key| has(key));
        let body = match (is_wrapped, get(entries, "spec")) {
            (false, _) => Ok(object),
            (true, Some(Node { at, content: Content::Map(spec) })) => Ok(Mapping { at: *at, entries: spec }),
            (true, Some(spec)) => Err((spec.at, "`spec` is not a map")),
            (true, None) => Err((object.at, "it has no `spec`")),
        };
        let body = match body {
            Ok(body) => body,
            Err((at, message)) => return self.problem(at, "spec", message, "write what it is below `spec:`"),
        };
        let labels = get(entries, "metadata").and_then(|metadata| member(metadata, "labels"));
        let labels = labels.filter(|labels| !labels.is_null() && takes_labels(kind));
        let plain = plain(body, name, labels);
        let sink = Sink::new(self.file);
        let root = Cursor::root(&plain, &sink);
        let value = root.value();
        match (kind, is_muster) {
            (DefinitionKind::Server, true) => server::check(root),
            _ => drop(reader(kind)(name, root)),
        }
        let prefix = if is_wrapped { "spec." } else { "" };
        let Findings { problems, warnings, .. } = sink.findings();
        let document = self.document;
        let whole = |problem: DefinitionProblem| {
            let field = if problem.field.is_empty() { String::new() } else { format!("{prefix}{}", problem.field) };
            ObjectProblem { document, problem: DefinitionProblem { field, ..problem } }
        };
        if !problems.is_empty() {
            self.objects.problems.extend(problems.into_iter().map(whole));
            return;
        }
        self.objects.warnings.extend(warnings.into_iter().map(whole));
        if is_wrapped {
            self.unknown_outside(entries);
        }
        let Value::Object(mut value) = value else { return };
        value.shift_remove("name");
        // The file of a definition is what its loader reads: the plain form has no `kind`, and JSON has another reader.
        let is_json = self.file.extension().is_some_and(|extension| extension == "json");
        let is_file = depth == 0
            && !is_json
            && match (kind, is_wrapped) {
                (DefinitionKind::Server | DefinitionKind::Profile, _) => !is_muster && !has("kind") && has("name"),
                (_, true) => has("apiVersion"),
                (_, false) => !has("kind") && has("name"),
            };
        let read = Object {
            place: self.place(object.at),
            kind,
            form: if is_muster { ObjectForm::Muster } else { ObjectForm::Own },
            name: name.to_owned(),
            value,
            text: is_file.then(|| self.text.to_owned()),
        };
        self.objects.objects.push(read);
    }
}

const KINDS: &str = "write `kind: server`, `profile`, `model`, `agent`, `workflow`, `serviceclass` or `service`, or name the kind before the file";

/// Whether the definitions of a kind have labels.
fn takes_labels(kind: DefinitionKind) -> bool {
    matches!(kind, DefinitionKind::Server | DefinitionKind::Workflow)
}

/// An object in the plain form: its body with its name.
fn plain(body: Mapping<'_>, name: &str, labels: Option<&Node>) -> Node {
    let is_outer = |key: &str| matches!(key, "kind" | "name" | "apiVersion" | "status");
    let Mapping { at, entries: body } = body;
    let scalar = |text: &str| Content::Scalar { text: Arc::from(text), plain: false };
    let name = Node { at, content: scalar(name) };
    let mut entries = vec![Entry { key: Arc::from("name"), at, value: name }];
    entries.extend(body.iter().filter(|entry| !is_outer(&entry.key)).cloned());
    if let Some(labels) = labels.filter(|_| body.iter().all(|entry| &*entry.key != "labels")) {
        entries.push(Entry { key: Arc::from("labels"), at: labels.at, value: labels.clone() });
    }
    Node { at, content: Content::Map(entries) }
}

fn get<'n>(entries: &'n [Entry], key: &str) -> Option<&'n Node> {
    entries.iter().find(|entry| &*entry.key == key).map(|entry| &entry.value)
}

fn member<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    match &node.content {
        Content::Map(entries) => get(entries, key),
        _ => None,
    }
}

fn text<'n>(entries: &'n [Entry], key: &str) -> Option<&'n str> {
    get(entries, key)?.as_text().map(|text| &**text)
}
