//! What is asked for, as policies see it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cedar_policy::{Entity, EntityUid, RestrictedExpression};
use toolcrib_base::ServerName;

use super::label::{LabelTable, Labels, WORKFLOWS, risks};
use super::schema::{OPERATE, entity};
use super::scope::EntityPlace;
use crate::{Act, Annotations, Reference, ToolDigest};

/// The longest id, in bytes, with which a shape is kept.
const ID_MAX: usize = 512;

/// The hints that are attributes.
pub(super) const HINTS: [&str; 4] = ["readOnly", "destructive", "idempotent", "openWorld"];

/// What of resources policies look at, beyond their servers and hints.
#[derive(Debug, Clone, Default)]
pub(super) struct ResourceWords {
    /// The ids that some policy names, of each type.
    pub(super) named: HashMap<&'static str, HashSet<String>>,
    /// Whether some policy looks at names or URIs, or at a resource as itself.
    pub(super) itself: bool,
    /// Whether some policy looks at digests.
    pub(super) digests: bool,
    /// Which of [`HINTS`] some policy looks at.
    pub(super) hints: [bool; 4],
}

/// All that tells resources apart for policies. Resources of one shape are decided alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    action: &'static str,
    of_type: &'static str,
    server: Option<ServerName>,
    /// Its id, where it counts.
    id: Option<Arc<str>>,
    hints: [bool; 4],
    administrative: bool,
    labels: Option<Labels>,
    digest: Option<ToolDigest>,
}

/// A thing that is asked for.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) action: EntityPlace,
    pub(super) resource: EntityPlace,
    attributes: Vec<(String, RestrictedExpression)>,
}

// === impl ResourceWords ===

impl ResourceWords {
    /// Whether some policy names something of a server.
    pub(super) fn names_of(&self, server: &ServerName) -> bool {
        let is_of = |id: &String| id.split_once('/').is_some_and(|(of, _)| of == server.as_str());
        ["Tool", "Resource", "Prompt"].iter().filter_map(|of| self.named.get(of)).flatten().any(is_of)
    }

    /// Whether a resource counts as itself, and not only by its shape.
    fn counts(&self, act: &Act, of_type: &str) -> bool {
        // Of these there are few, and their names are what policies are about.
        let is_small = matches!(act, Act::Operation { .. } | Act::Configure { .. }) || of_type == "Workflow";
        is_small || self.itself || self.named.get(of_type).is_some_and(|named| named.contains(&*id(act)))
    }
}

// === impl Shape ===

impl Shape {
    /// Whether it is worth keeping: a client may ask for URIs of any length.
    pub(super) fn is_short(&self) -> bool {
        self.id.as_ref().is_none_or(|id| id.len() <= ID_MAX)
    }

    pub(super) fn of(act: &Act, labels: &LabelTable, words: &ResourceWords) -> Option<Self> {
        let (action, of_type) = kind(act)?;
        let server = act.server().filter(|_| of_type != "Workflow" && of_type != "Entry");
        let (hints, administrative) = match act {
            Act::CallTool { annotations, .. } | Act::Approve { annotations, .. } => (hints(*annotations), false),
            Act::Operation { annotations, needs_admin, .. } => (hints(*annotations), *needs_admin),
            _ => (hints(Annotations::default()), false),
        };
        Some(Self {
            action,
            of_type,
            id: words.counts(act, of_type).then(|| id(act)),
            hints: std::array::from_fn(|at| hints[at] && words.hints[at]),
            administrative,
            labels: labels.of(act),
            digest: digest(act).filter(|_| words.digests),
            server: server.cloned(),
        })
    }
}

// === impl Target ===

impl Target {
    /// `None` for what policies do not decide: finding and describing is no act of its own.
    pub(super) fn of(act: &Act, labels: &LabelTable, words: &ResourceWords) -> Option<Self> {
        let (action, of_type) = kind(act)?;
        let text = |name: &str, value: &str| (name.to_owned(), RestrictedExpression::new_string(value.to_owned()));
        let flag = |name: &str, value: bool| (name.to_owned(), RestrictedExpression::new_bool(value));
        let labels = labels.of(act);
        let mut parents: HashSet<EntityUid> =
            labels.iter().flat_map(|it| it.iter()).map(|label| entity("Label", label)).collect();
        let mut attributes = Vec::new();
        if let Some(server) = act.server().filter(|_| !matches!(of_type, "Workflow" | "Entry" | "Server")) {
            parents.insert(entity("Server", server.as_str()));
            attributes.push(text("server", server.as_str()));
        }
        if !matches!(act, Act::Operation { .. } | Act::Configure { .. }) {
            let labels = labels.iter().flat_map(|it| it.iter());
            attributes.push(set("labels", labels.map(|label| &**label)));
        }
        match act {
            Act::CallTool { tool, annotations } | Act::Approve { tool, annotations } => {
                attributes.push(text("name", &tool.tool));
                attributes.extend(hint_attributes(*annotations));
                attributes.push(set("risks", risks(labels.as_ref())));
                attributes.extend(annotations.digest.map(|digest| text("digest", &digest.to_string())));
            }
            Act::ReadResource { uri, .. } | Act::Complete { of: Reference::Resource, name: uri, .. } => {
                attributes.push(text("uri", uri));
            }
            Act::GetPrompt { name, .. } | Act::Complete { name, .. } => attributes.push(text("name", name)),
            Act::Forward { server, .. } => attributes.push(text("name", server.as_str())),
            Act::Configure { entry } => attributes.push(text("name", entry.as_str())),
            Act::Operation { name, needs_admin, annotations } => {
                let reads = annotations.read_only == Some(true);
                attributes.extend([text("name", name), flag("readOnly", reads), flag("administrative", *needs_admin)]);
            }
            Act::MetaTool { .. } => return None,
        }
        let action = match act {
            Act::Operation { name, .. } => {
                EntityPlace { uid: entity("Action", name), parents: HashSet::from([entity("Action", OPERATE)]) }
            }
            _ => EntityPlace { uid: entity("Action", action), parents: HashSet::new() },
        };
        // All resources of one shape are the same one for policies.
        let uid = if words.counts(act, of_type) { entity(of_type, &id(act)) } else { entity(of_type, "") };
        Some(Self { action, resource: EntityPlace { uid, parents }, attributes })
    }

    pub(super) fn entities(&self) -> Vec<Entity> {
        let resource = &self.resource;
        let attributes = self.attributes.iter().cloned().collect();
        let entity = Entity::new(resource.uid.clone(), attributes, resource.parents.clone())
            .expect("attributes are plain values");
        vec![entity, Entity::new_no_attrs(self.action.uid.clone(), self.action.parents.clone())]
    }
}

/// The action and the type of the resource.
fn kind(act: &Act) -> Option<(&'static str, &'static str)> {
    Some(match act {
        Act::CallTool { tool, .. } if tool.server.as_str() == WORKFLOWS => ("run", "Workflow"),
        Act::CallTool { .. } => ("call", "Tool"),
        Act::Approve { tool, .. } if tool.server.as_str() == WORKFLOWS => ("approve", "Workflow"),
        Act::Approve { .. } => ("approve", "Tool"),
        Act::ReadResource { .. } => ("read", "Resource"),
        Act::GetPrompt { .. } => ("get", "Prompt"),
        Act::Complete { of: Reference::Resource, .. } => ("complete", "Resource"),
        Act::Complete { of: Reference::Prompt, .. } => ("complete", "Prompt"),
        Act::Forward { .. } => ("forward", "Server"),
        Act::Configure { .. } => ("configure", "Entry"),
        Act::Operation { .. } => (OPERATE, "Operation"),
        Act::MetaTool { .. } => return None,
    })
}

fn id(act: &Act) -> Arc<str> {
    match act {
        Act::CallTool { tool, .. } | Act::Approve { tool, .. } if tool.server.as_str() == WORKFLOWS => {
            Arc::clone(&tool.tool)
        }
        Act::CallTool { tool, .. } | Act::Approve { tool, .. } => tool.to_string().into(),
        Act::ReadResource { server, uri: name }
        | Act::GetPrompt { server, name }
        | Act::Complete { server, name, .. } => format!("{server}/{name}").into(),
        Act::Forward { server, .. } => server.as_str().into(),
        Act::Configure { entry } => entry.as_str().into(),
        Act::Operation { name, .. } | Act::MetaTool { name } => Arc::clone(name),
    }
}

fn digest(act: &Act) -> Option<ToolDigest> {
    match act {
        Act::CallTool { annotations, .. } | Act::Approve { annotations, .. } => annotations.digest,
        _ => None,
    }
}

fn set<'a>(name: &str, texts: impl Iterator<Item = &'a str>) -> (String, RestrictedExpression) {
    let texts = texts.map(|text| RestrictedExpression::new_string(text.to_owned()));
    (name.to_owned(), RestrictedExpression::new_set(texts))
}

/// What MCP says that a tool is which says nothing (`ToolAnnotations`): it may destroy, and reach anything.
fn hints(annotations: Annotations) -> [bool; 4] {
    let read_only = annotations.read_only.unwrap_or(false);
    let destructive = !read_only && annotations.destructive.unwrap_or(true);
    [read_only, destructive, annotations.idempotent.unwrap_or(false), annotations.open_world.unwrap_or(true)]
}

fn hint_attributes(annotations: Annotations) -> impl Iterator<Item = (String, RestrictedExpression)> {
    let named = HINTS.into_iter().zip(hints(annotations));
    named.map(|(name, value)| (name.to_owned(), RestrictedExpression::new_bool(value)))
}
