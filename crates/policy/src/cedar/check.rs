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
    /// Groups that settings name, as `issuer/group`.
    pub groups: Option<BTreeSet<String>>,
    /// The names of issuers.
    pub issuers: Option<BTreeSet<String>>,
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
            "Group" if known.groups.is_some() => ("group", &id, &known.groups),
            "User" | "Service" | "Tenant" | "Client" | "Group" => ("issuer", &issuer, &known.issuers),
            // What a server has of these is seen by some principals only; whether there is such a server is known.
            "Resource" => ("server", &server_of_resource, &known.servers),
            "Prompt" => ("server", &issuer, &known.servers),
            _ => continue,
        };
        let Some(names) = names else { continue };
        // The shipped policies name each risk class, whether something has it or not.
        let is_class = of_type == "Label" && is_risk_class(name);
        if is_class || names.contains(name) || !said.insert((rule.id.clone(), of_type.clone(), id.clone())) {
            continue;
        }
        let message = match what {
            "issuer" => {
                format!("policy `{}`: `{of_type}::\"{id}\"` names the issuer `{issuer}`, which does not exist", rule.id)
            }
            _ => format!("policy `{}`: {what} `{name}` does not exist", rule.id),
        };
        let fault = Fault::new(&rule.file, Some(rule.line), message);
        faults.push(match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => fault.hint(format!("Did you mean `{near}`?")),
            None => fault,
        });
    }
    for (rule, actions) in policies.actions() {
        faults.extend(unknown_approvers(rule, known));
        faults.extend(unasked(rule, &actions));
    }
    faults
}

/// A group without members never approves.
fn unknown_approvers(rule: &PolicyRule, known: &Vocabulary) -> Option<Fault> {
    let Effect::Ask(Ask::Approve { group, .. }) = &rule.effect else { return None };
    let groups = known.groups.as_ref().filter(|_| !group.is_empty())?;
    // A group may be written without its issuer.
    let is_known = |it: &String| it == group || it.split_once('/').is_some_and(|(_, name)| name == group);
    if groups.iter().any(is_known) {
        return None;
    }
    let fault =
        Fault::new(&rule.file, Some(rule.line), format!("policy `{}`: group `{group}` does not exist", rule.id));
    let names = groups.iter().flat_map(|it| [Some(&**it), it.split_once('/').map(|(_, name)| name)]).flatten();
    Some(match nearest(group, names) {
        Some(near) => fault.hint(format!("Did you mean `{near}`?")),
        None => fault,
    })
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
