//! `core_policy_diff`: who gains or loses what if files became the policies, over all tools, operations, prompts, resources
//! and entries of the registry.
//!
//! Principals are compared by what policies can tell apart: in each profile each role, alone and with each principal,
//! group, tenant and client that the policies before or after name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Identity, PrincipalId, ProfileName, Proof, Role};
use toolcrib_policy::{
    Act, Caller, Class, LabelTable, Moment, Outlook, Policies, PolicyVerdict, Request, Rules, Subject, SubjectName,
};

use toolcrib_view::view::View;

use super::{digest_of, word};
use crate::gateway::Gateway;

/// How many things are looked at for principals: some seconds of work.
const LOOKS: usize = 2_000_000;
/// How many resources are compared in a profile. There may be millions, and policies seldom tell them apart.
const RESOURCES: usize = 10_000;
/// How many names a row holds; the rest is a number.
const SHOWN: usize = 50;

/// The policies before and after.
pub(super) struct Change {
    pub(super) before: Option<Policies>,
    pub(super) after: Policies,
}

/// Someone whom policies may tell apart from others.
pub(super) struct Person {
    pub(super) words: String,
    pub(super) principal: PrincipalId,
    pub(super) role: Role,
    pub(super) identity: Identity,
}

/// What decides beside policies, and what they read.
#[derive(Clone, Copy)]
struct Standards<'a> {
    rules: &'a Rules,
    labels: &'a LabelTable,
}

/// What is decided of a thing, in a word, by which policies, and what they say where the call decides.
#[derive(PartialEq, Eq)]
pub(super) struct ThingDecision {
    pub(super) decision: &'static str,
    pub(super) by: String,
    texts: Vec<String>,
}

/// How the standing of things changes for someone.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone)]
struct DecisionChange {
    from: &'static str,
    to: &'static str,
    by: String,
}

// === impl Change ===

impl Change {
    /// Who gains or loses what, in the profiles that fit.
    pub(super) fn rows(&self, gateway: &Gateway, profile: Option<&ProfileName>) -> Value {
        let loaded = gateway.loaded();
        let labels = crate::policies::labels(&loaded);
        let mut rows = BTreeMap::<(DecisionChange, Vec<String>), Vec<String>>::new();
        let (mut looks, mut is_whole, mut persons, mut things) = (0, true, 0, BTreeSet::new());
        for (name, view) in gateway.views() {
            if profile.is_some_and(|wanted| *wanted != name) {
                continue;
            }
            let mut acts: Vec<Act> = view.tools.iter().map(|tool| self.with_digest(gateway, tool.act())).collect();
            acts.extend(gateway.operations.iter().map(toolcrib_view::Operation::act));
            let tools = acts.len();
            acts.extend(loaded.registry.keys().map(|entry| Act::Configure { entry: entry.clone() }));
            is_whole &= offers(&view, &mut acts);
            for person in self.persons() {
                // Where it is too much, resources go first.
                let acts = if looks + acts.len() > LOOKS { &acts[..tools] } else { &acts[..] };
                looks += acts.len();
                is_whole &= acts.len() > tools;
                if looks > LOOKS {
                    break;
                }
                persons += 1;
                things.extend(acts.iter().map(target));
                for (step, targets) in
                    self.steps(&person, &name, acts, &Standards { rules: &view.rules, labels: &labels })
                {
                    let who = format!("{} in profile {name}", person.words);
                    rows.entry((step, targets)).or_default().push(who);
                }
            }
        }
        let rows: Vec<Value> = rows.into_iter().map(|((step, targets), who)| row(&step, &targets, &who)).collect();
        let count = |effect: &str| rows.iter().filter(|row| row["effect"] == effect).count();
        json!({
            "gains": count("gains"), "loses": count("loses"), "changes": rows, "principals": persons,
            "things": things.len(), "truncated": !is_whole,
        })
    }

    fn with_digest(&self, gateway: &Gateway, act: Act) -> Act {
        let looks = [self.before.as_ref(), Some(&self.after)].into_iter().flatten().any(Policies::look_at_digests);
        match act {
            Act::CallTool { tool, mut annotations } if looks => {
                annotations.digest = digest_of(gateway, &tool);
                Act::CallTool { tool, annotations }
            }
            act => act,
        }
    }

    /// Each role, alone and with each name of the policies.
    fn persons(&self) -> Vec<Person> {
        let all = [self.before.as_ref(), Some(&self.after)];
        let named: BTreeSet<SubjectName> = all.into_iter().flatten().flat_map(Policies::subjects_named).collect();
        let mut persons = Vec::new();
        for role in Role::ALL {
            persons.push(Person::of_role(role));
            persons.extend(named.iter().filter_map(|name| Person::named(role, name)));
        }
        persons
    }

    /// What changes for one, each step with the things that it holds for.
    fn steps(
        &self,
        person: &Person,
        profile: &ProfileName,
        acts: &[Act],
        standards: &Standards<'_>,
    ) -> BTreeMap<DecisionChange, Vec<String>> {
        let Standards { rules, labels } = *standards;
        let Person { principal, role, identity, .. } = person;
        let subject = Subject { principal, role: *role, identity, profile, door: "mcp" };
        let before = self.before.as_ref().map(|policies| policies.class(&subject));
        let after = self.after.class(&subject);
        let moment = Moment::at(toolcrib_base::Timestamp(0));
        let mut steps = BTreeMap::<DecisionChange, Vec<String>>::new();
        for act in acts {
            let request = Request { caller: Caller { principal, role: *role }, act };
            if rules.decide(&request, &moment).is_err() {
                // The profile or the role refuses it, whatever policies say.
                continue;
            }
            let from = before.as_ref().map_or_else(ThingDecision::free, |class| ThingDecision::of(class, act, labels));
            let to = ThingDecision::of(&after, act, labels);
            let is_same = from.decision == to.decision && (to.decision != "open" || from.texts == to.texts);
            if !is_same {
                let by = if rank(to.decision) > rank(from.decision) { from.by } else { to.by };
                let step = DecisionChange { from: from.decision, to: to.decision, by };
                steps.entry(step).or_default().push(target(act));
            }
        }
        steps
    }
}

// === impl Person ===

impl Person {
    pub(super) fn of_role(role: Role) -> Self {
        let principal = PrincipalId::new("user:");
        Self { words: format!("role {role}"), principal, role, identity: Identity::by(Proof::AccessToken) }
    }

    /// `None` for what is no one: roles and profiles are there by themselves.
    pub(super) fn named(role: Role, name: &SubjectName) -> Option<Self> {
        let SubjectName { of_type, id } = name;
        let mut person = Self::of_role(role);
        let (issuer, rest) = id.split_once('/').unwrap_or(("", id));
        match &of_type[..] {
            "User" => person.principal = PrincipalId::new(&format!("user:{id}")),
            "Service" => person.principal = PrincipalId::new(&format!("service:{id}")),
            "Key" => person.principal = PrincipalId::new(&format!("key:{id}")),
            "Certificate" => person.principal = PrincipalId::new(&format!("cert:{id}")),
            "Local" => person.principal = PrincipalId::new(id),
            "Group" => person.identity.groups = vec![rest.into()],
            "Tenant" => person.identity.tenant = Some(rest.into()),
            "Client" => person.identity.client = Some(rest.into()),
            _ => return None,
        }
        person.identity.issuer = (!issuer.is_empty()).then(|| issuer.into());
        person.words = format!("{of_type}::\"{id}\" with role {role}");
        Some(person)
    }
}

// === impl ThingDecision ===

impl ThingDecision {
    /// Where there are no policies.
    fn free() -> Self {
        Self { decision: "permit", by: String::new(), texts: Vec::new() }
    }

    pub(super) fn of(class: &Arc<Class>, act: &Act, labels: &LabelTable) -> Self {
        match class.outlook(act, labels, None) {
            Outlook::Settled(verdict) => {
                let by = match &verdict {
                    PolicyVerdict::Permit(_) | PolicyVerdict::Deny { by: None, .. } => String::new(),
                    PolicyVerdict::Deny { by: Some(by), .. } | PolicyVerdict::Ask { by, .. } => by.id.to_string(),
                };
                Self { decision: word(&verdict), by, texts: Vec::new() }
            }
            Outlook::Open(open) => {
                let ids: Vec<&str> = open.iter().map(|it| &*it.rule.id).collect();
                let by = ids.join(", ");
                Self { decision: "open", by, texts: open.into_iter().map(|it| it.text).collect() }
            }
        }
    }
}

/// Adds the prompts and resources of a profile; whether all of them fit.
fn offers(view: &View, acts: &mut Vec<Act>) -> bool {
    for (definition, server) in &view.servers {
        let prompts = &server.inventory().prompts;
        acts.extend(
            prompts.iter().map(|it| Act::GetPrompt { server: definition.name.clone(), name: it.key.as_str().into() }),
        );
    }
    let mut left = RESOURCES;
    for (definition, server) in &view.servers {
        let resources = &server.inventory().resources;
        let of_server = resources.iter().take(left);
        acts.extend(
            of_server.map(|it| Act::ReadResource { server: definition.name.clone(), uri: it.key.as_str().into() }),
        );
        if resources.len() > left {
            return false;
        }
        left -= resources.len();
    }
    true
}

/// How much one may, as more or less.
fn rank(decision: &str) -> usize {
    const ORDER: [&str; 6] = ["hidden", "deny", "approve", "confirm", "open", "permit"];
    ORDER.iter().position(|it| *it == decision).unwrap_or(ORDER.len())
}

fn target(act: &Act) -> String {
    match act {
        Act::CallTool { tool, .. } => tool.to_string(),
        Act::Operation { name, .. } => format!("operation {name}"),
        Act::GetPrompt { server, name } => format!("prompt {server}/{name}"),
        Act::ReadResource { server, uri } => format!("resource {server} {uri}"),
        Act::Configure { entry } => format!("entry {entry}"),
        other => other.to_string(),
    }
}

fn row(step: &DecisionChange, targets: &[String], who: &[String]) -> Value {
    let DecisionChange { from, to, by } = step;
    let effect = match rank(to).cmp(&rank(from)) {
        std::cmp::Ordering::Greater => "gains",
        std::cmp::Ordering::Less => "loses",
        std::cmp::Ordering::Equal => "changes",
    };
    let first = |of: &[String]| of.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    json!({
        "effect": effect, "from": from, "to": to, "by": by, "who": first(who), "whoTotal": who.len(),
        "targets": first(targets), "targetsTotal": targets.len(),
    })
}
