//! Names in policies that nothing has: a rule about a misspelt server never counts, and no one notices.

use std::collections::BTreeSet;

use cedar_policy::EntityUid;
use toolcrib_base::nearest::nearest;

use super::label::is_risk_class;
use super::policies::Policies;
use super::policy::{Ask, Effect, PolicyRule};
use super::text::Fault;

/// The names that there are. `None`: they are not known, and nothing is said of them.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// Servers.
    pub servers: Option<BTreeSet<String>>,
    /// Tools, as `server/tool`.
    pub tools: Option<BTreeSet<String>>,
    /// Workflows.
    pub workflows: Option<BTreeSet<String>>,
    /// Labels, as `key=value`.
    pub labels: Option<BTreeSet<String>>,
    /// Profiles.
    pub profiles: Option<BTreeSet<String>>,
    /// Groups that settings name, as `issuer/group`. There are others that no one has named here, so only what is nearly
    /// one of these is spoken of.
    pub groups: Option<BTreeSet<String>>,
    /// The names of issuers.
    pub issuers: Option<BTreeSet<String>>,
    /// Entries of the registry.
    pub entries: Option<BTreeSet<String>>,
    /// Operations.
    pub operations: Option<BTreeSet<String>>,
    /// Keys, as `profile/key`.
    pub keys: Option<BTreeSet<String>>,
}

/// The names in policies that nothing has, each with the nearest that there is. They are warnings: what is named may
/// come later.
pub fn check(policies: &Policies, known: &Vocabulary) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut said = BTreeSet::new();
    for (rule, uid) in policies.named() {
        let (of_type, id) = (uid.type_name().basename().to_owned(), uid.id().unescaped().to_owned());
        let server_of_resource = id.split_once([' ', '/']).map_or(&*id, |(server, _)| server).to_owned();
        let issuer = id.split_once('/').map_or("", |(issuer, _)| issuer).to_owned();
        let (what, name, names) = match &of_type[..] {
            "Server" => ("server", &id, &known.servers),
            "Tool" => ("tool", &id, &known.tools),
            "Workflow" => ("workflow", &id, &known.workflows),
            "Label" => ("label", &id, &known.labels),
            "Profile" => ("profile", &id, &known.profiles),
            "Key" => ("key", &id, &known.keys),
            "Entry" => ("entry", &id, &known.entries),
            "Operation" => ("operation", &id, &known.operations),
            "Group" if is_known(&known.issuers, &issuer) => ("group", &id, &known.groups),
            "User" | "Service" | "Tenant" | "Client" | "Group" => ("issuer", &issuer, &known.issuers),
            // What a server has of these is seen by some principals only; whether there is such a server is known.
            "Resource" => ("server", &server_of_resource, &known.servers),
            "Prompt" => ("server", &issuer, &known.servers),
            _ => continue,
        };
        let Some(names) = names else { continue };
        // The shipped policies name each risk class, whether something has it or not.
        let is_class = of_type == "Label" && is_risk_class(name);
        let near = nearest(name, names.iter().map(String::as_str));
        let is_open = what == "group" && near.is_none();
        if is_class || is_open || names.contains(name) || !said.insert((rule.id.clone(), of_type.clone(), id.clone())) {
            continue;
        }
        let message = match what {
            "issuer" => {
                format!("policy `{}`: `{of_type}::\"{id}\"` names the issuer `{issuer}`, which does not exist", rule.id)
            }
            "group" => format!("policy `{}`: the settings name no group `{name}`", rule.id),
            _ => format!("policy `{}`: {what} `{name}` does not exist", rule.id),
        };
        let fault = Fault::new(&rule.file, Some(rule.line), message);
        faults.push(match near {
            Some(near) => fault.hint(format!("Did you mean `{near}`?")),
            None if what == "issuer" => fault.hint("Issuers are named in `[identity]` of the settings."),
            None => fault,
        });
    }
    for (rule, actions) in policies.actions() {
        faults.extend(unknown_approvers(rule, known));
        faults.extend(unasked(rule, &actions));
    }
    faults
}

/// Whether a name is one of those that there are; yes where they are not known.
fn is_known(names: &Option<BTreeSet<String>>, name: &str) -> bool {
    names.as_ref().is_none_or(|names| names.contains(name))
}

/// A group without members never approves. Which groups there are only issuers know, so what is said is what is nearly
/// one that settings name.
fn unknown_approvers(rule: &PolicyRule, known: &Vocabulary) -> Option<Fault> {
    let Effect::Ask(Ask::Approve { group, .. }) = &rule.effect else { return None };
    let groups = known.groups.as_ref().filter(|_| !group.is_empty())?;
    // A group may be written without its issuer.
    let names = groups.iter().flat_map(|it| [Some(&**it), it.split_once('/').map(|(_, name)| name)]).flatten();
    if names.clone().any(|it| it == group) {
        return None;
    }
    let near = nearest(group, names)?;
    let message = format!("policy `{}`: the settings name no group `{group}`", rule.id);
    Some(Fault::new(&rule.file, Some(rule.line), message).hint(format!("Did you mean `{near}`?")))
}

/// Only calls and runs wait for a yes: whatever else asks for one stays refused.
fn unasked(rule: &PolicyRule, actions: &[EntityUid]) -> Option<Fault> {
    let annotation = match &rule.effect {
        Effect::Ask(Ask::Approve { .. }) => "@approve",
        Effect::Ask(Ask::Confirm { .. }) => "@confirm",
        Effect::Permit | Effect::Forbid { .. } => return None,
    };
    let action =
        actions.iter().map(|uid| uid.id().unescaped()).find(|name| !["call", "run"].contains(name))?.to_owned();
    let message = format!("policy `{}`: `{annotation}` asks no one about `{action}`, which stays refused", rule.id);
    Some(Fault::new(&rule.file, Some(rule.line), message).hint("Only `call` and `run` can wait for an answer."))
}
