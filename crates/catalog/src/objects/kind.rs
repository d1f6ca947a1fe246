//! What a document says that it is, and whose.

use crate::kind::DefinitionKind;
use crate::problem::shown;

/// Kinds of muster that are no definitions.
const RECORDS: [&str; 3] = ["workflowexecution", "workflowexecutions", "wfe"];

/// Whose objects of an `apiVersion` are; all versions of a group are read alike.
const GROUPS: [&str; 2] = ["muster.giantswarm.io", "muster.io"];

/// What a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DocumentKind {
    Kind(DefinitionKind),
    /// Each of its `items` is an object.
    List,
    /// None of ours, with the reason.
    Other(String),
    /// It says no kind.
    Unsaid,
}

/// The kind of a word such as `MCPServer` or `service-class`.
pub fn kind_named(word: &str) -> Option<DefinitionKind> {
    let word: String = word.chars().filter(|c| !matches!(c, '-' | '_')).collect::<String>().to_ascii_lowercase();
    DefinitionKind::ALL.iter().find(|kind| kind.row().aliases.contains(&word.as_str())).copied()
}

/// What is meant by `apiVersion` and `kind`.
pub(super) fn document_kind(api_version: Option<&str>, kind: Option<&str>) -> DocumentKind {
    let group = api_version.map(|version| version.split('/').next().unwrap_or_default());
    let is_ours = group.is_none_or(|group| GROUPS.contains(&group));
    let Some(word) = kind else { return DocumentKind::Unsaid };
    // `v1` has the list of whatever there is; groups have lists of one kind.
    let lower = word.to_ascii_lowercase();
    if lower == "list" || is_ours && lower.strip_suffix("list").is_some_and(|kind| kind_named(kind).is_some()) {
        return DocumentKind::List;
    }
    match (is_ours, kind_named(word)) {
        (true, Some(kind)) => DocumentKind::Kind(kind),
        (true, None) if RECORDS.contains(&lower.as_str()) => {
            DocumentKind::Other("it is the record of a run; runs are not carried over".to_owned())
        }
        (true, None) => DocumentKind::Other("Toolcrib has no such kind".to_owned()),
        (false, _) => {
            let version = shown(api_version.unwrap_or_default());
            DocumentKind::Other(format!("objects of `{version}` are not Toolcrib's and not muster's"))
        }
    }
}

/// The kind that a folder's name says, ours or muster's.
pub(super) fn of_folder(name: &str) -> Option<DefinitionKind> {
    DefinitionKind::ALL.iter().find(|kind| kind.row().document_folders.contains(&name)).copied()
}

/// The kind that the keys of a document say which has no `kind`.
pub(super) fn of_keys(has: impl Fn(&str) -> bool) -> Option<DefinitionKind> {
    let one = |keys: &[&str]| keys.iter().any(|key| has(key));
    if one(&["serviceConfig", "service_config"]) {
        Some(DefinitionKind::ServiceClass)
    } else if one(&["serviceClassName", "service_class_name"]) {
        Some(DefinitionKind::Service)
    } else if has("steps") {
        Some(DefinitionKind::Workflow)
    } else if has("wire") {
        Some(DefinitionKind::Model)
    } else if one(&["instructions", "models", "tool_allowlist"]) {
        Some(DefinitionKind::Agent)
    } else if one(&["command", "url"]) {
        Some(DefinitionKind::Server)
    } else {
        None
    }
}
