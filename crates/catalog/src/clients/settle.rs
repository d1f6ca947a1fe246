//! Names for drafts: a definition that is there is never overwritten, and what is there already is not written twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use toolcrib_base::{Secret, ServerName};

use super::draft::{Draft, SecretReference, words};
use crate::problem::DefinitionProblem;
use crate::server::ServerDefinition;

/// How many names are tried for one draft.
const NAMES_MAX: usize = 1_000;

/// A draft and what becomes of it.
#[derive(Debug, Clone)]
pub struct ImportDecision {
    pub draft: Draft,
    pub outcome: Outcome,
}

/// What becomes of a draft.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// A new definition.
    New { name: ServerName, text: String, secrets: Vec<SecretReference> },
    /// A definition, or an earlier draft, says the same.
    Present { name: ServerName },
    /// No definition can be made of it.
    Impossible { problems: Vec<DefinitionProblem> },
}

/// Settles drafts one after the other. `is_taken` tells whether some file has a name, `present` are the definitions
/// that are right, `refer` gives the reference for the name of a secret, `stored` the secret that is kept for a server under
/// a name; one that this server may not have is given as an empty one.
pub fn settle(
    drafts: Vec<Draft>,
    present: &BTreeMap<ServerName, Arc<ServerDefinition>>,
    is_taken: &dyn Fn(&ServerName) -> bool,
    refer: &dyn Fn(&str) -> String,
    stored: &dyn Fn(&ServerName, &str) -> Option<Secret>,
) -> Vec<ImportDecision> {
    let mut known: BTreeMap<ServerName, Arc<ServerDefinition>> = present.clone();
    let mut kept: BTreeMap<String, Option<Secret>> = BTreeMap::new();
    let mut settled = Vec::new();
    for draft in drafts {
        // The same server under another name is taken once.
        let is_twin = |there: &ServerName, known: &ServerDefinition| {
            let same_secrets = || {
                draft.secrets(there).iter().all(|wanted| {
                    kept.get(&wanted.name).cloned().unwrap_or_else(|| stored(there, &wanted.name)) == wanted.value
                })
            };
            draft.runs_as(known) && draft.definition(there, refer).is_ok_and(|twin| twin == *known) && same_secrets()
        };
        // In muster a name is part of the names of tools, which workflows and prompts say.
        let is_named = draft.origin.client == "muster";
        let twin = known.iter().find(|(there, known)| !is_named && **there != draft.name && is_twin(there, known));
        let mut outcome = twin.map(|(there, _)| Outcome::Present { name: there.clone() });
        for name in names(&draft).take(if outcome.is_some() { 0 } else { NAMES_MAX }) {
            let secrets = draft.secrets(&name);
            // Two servers that differ in nothing but a secret are two, and a secret that is kept stays what it is.
            let other_secret = |wanted: &SecretReference| {
                let kept = kept.get(&wanted.name).cloned().unwrap_or_else(|| stored(&name, &wanted.name));
                wanted.value.is_some() && kept.is_some() && kept != wanted.value
            };
            let other_secret = secrets.iter().any(other_secret);
            match (known.get(&name), draft.definition(&name, refer)) {
                (_, Err(problems)) => outcome = Some(Outcome::Impossible { problems }),
                (_, Ok(_)) if other_secret => {}
                (Some(there), Ok(definition)) if **there == definition => outcome = Some(Outcome::Present { name }),
                (Some(_), Ok(_)) => {}
                (None, Ok(definition)) if !is_taken(&name) => {
                    kept.extend(secrets.iter().map(|wanted| (wanted.name.clone(), wanted.value.clone())));
                    known.insert(name.clone(), Arc::new(definition));
                    outcome = Some(Outcome::New { text: draft.text(&name, refer), name, secrets });
                }
                (None, Ok(_)) => {}
            }
            if outcome.is_some() {
                break;
            }
        }
        let outcome = outcome.unwrap_or(Outcome::Impossible { problems: Vec::new() });
        settled.push(ImportDecision { draft, outcome });
    }
    settled
}

/// `github`, `github-cursor`, `github-cursor-2`, …
fn names(draft: &Draft) -> impl Iterator<Item = ServerName> {
    let client = words(draft.origin.client);
    let stem = draft.name.as_str();
    let stem = stem[..stem.len().min(40)].trim_end_matches('-').to_owned();
    let with_client = format!("{stem}-{client}");
    let numbered = (2..).map({
        let with_client = with_client.clone();
        move |number| format!("{with_client}-{number}")
    });
    let mut seen = BTreeSet::new();
    std::iter::once(draft.name.as_str().to_owned())
        .chain(std::iter::once(with_client))
        .chain(numbered)
        .filter(move |name| seen.len() > NAMES_MAX || seen.insert(name.clone()))
        .filter_map(|name| ServerName::new(&name).ok())
}
