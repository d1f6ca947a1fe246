//! `core_policy_matrix`: who may call which tool of a profile, by the profile, the role and policies together.
//!
//! Principals are those that policies can tell apart, as `core_policy_diff` compares them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Role, Timestamp};
use toolcrib_policy::{Act, Caller, Class, Denial, LabelTable, Moment, Policies, Request, Subject, SubjectName};
use toolcrib_view::view::View;

use super::diff::{Person, ThingDecision};
use super::digest_of;
use crate::gateway::Gateway;
use crate::operation::Words;

/// How many principals stand beside one another at most.
const PRINCIPALS: usize = 24;
/// How many decisions are made for one answer: some seconds of work.
const LOOKS: usize = 200_000;

/// What is asked for.
pub(super) struct MatrixQuery {
    pub(super) words: Words,
    /// Only tools that have this decision for someone.
    pub(super) decision: Option<String>,
    /// Only principals whose words hold this.
    pub(super) who: String,
    pub(super) limit: usize,
    pub(super) offset: usize,
}

/// Someone, and what policies make of that one, where there are policies.
struct Judge {
    person: Person,
    class: Option<Arc<Class>>,
}

/// The table of a profile.
pub(super) fn matrix(gateway: &Gateway, view: &View, query: &MatrixQuery) -> Value {
    let policies = gateway.policies.policies();
    let labels = crate::policies::labels(&gateway.loaded());
    let people = people(policies.as_ref(), &query.who);
    let total_people = people.len();
    let judges: Vec<Judge> = people
        .into_iter()
        .take(PRINCIPALS)
        .map(|person| Judge { class: class_of(view, policies.as_ref(), &person), person })
        .collect();
    let looks_at_digests = policies.as_ref().is_some_and(Policies::look_at_digests);
    let fits = |tool: &&Arc<toolcrib_view::Tool>| {
        let title = tool.entry.title.as_deref().unwrap_or_default();
        query.words.fit(&[&tool.id.to_string(), title])
    };
    let row = |tool: &Arc<toolcrib_view::Tool>| {
        let mut act = tool.act();
        if let (true, Act::CallTool { tool, annotations }) = (looks_at_digests, &mut act) {
            annotations.digest = digest_of(gateway, tool);
        }
        judges.iter().map(|judge| judge.decide(view, &act, &labels)).collect::<Vec<_>>()
    };
    let found = view.tools.iter().filter(fits);
    let (mut rows, mut total, mut looks, mut is_whole) = (Vec::new(), 0, 0, true);
    for tool in found {
        let is_shown = |total: usize| total >= query.offset && rows.len() < query.limit;
        let decisions = match &query.decision {
            // Only what is shown is decided.
            None if !is_shown(total) => Vec::new(),
            _ if looks >= LOOKS => {
                is_whole = false;
                break;
            }
            _ => row(tool),
        };
        looks += decisions.len();
        if query
            .decision
            .as_ref()
            .is_some_and(|wanted| decisions.iter().all(|(decision, _)| *decision != wanted.as_str()))
        {
            continue;
        }
        if is_shown(total) {
            let decisions: Vec<Value> =
                decisions.iter().map(|(decision, by)| json!({ "decision": decision, "by": by })).collect();
            rows.push(json!({ "tool": tool.id.to_string(), "decisions": decisions }));
        }
        total += 1;
    }
    let principals = judges.iter().map(|judge| {
        let Person { words, principal, role, identity } = &judge.person;
        // Someone of whom only a group, a client or a tenant is known, as `core_policy_explain` is asked.
        let name = match &identity.issuer {
            Some(issuer) if principal.as_str() == "user:" => format!("user:{issuer}/anyone"),
            _ => principal.to_string(),
        };
        json!({
            "who": words, "principal": name, "role": role.as_str(), "groups": identity.groups,
            "client": identity.client, "tenant": identity.tenant,
        })
    });
    json!({
        "profile": view.profile.name.as_str(), "inForce": policies.is_some(),
        "principals": principals.collect::<Vec<_>>(), "principalsTotal": total_people, "tools": rows, "total": total,
        "truncated": !is_whole,
    })
}

/// Each role, and each principal that policies name as a member.
fn people(policies: Option<&Policies>, who: &str) -> Vec<Person> {
    let roles = [Role::Viewer, Role::Member, Role::Operator, Role::Admin];
    let named: BTreeSet<SubjectName> = policies.into_iter().flat_map(Policies::subjects_named).collect();
    let people = roles.map(Person::of_role).into_iter();
    let people = people.chain(named.iter().filter_map(|name| Person::named(Role::Member, name)));
    let who = who.to_lowercase();
    people.filter(|person| person.words.to_lowercase().contains(&who)).collect()
}

fn class_of(view: &View, policies: Option<&Policies>, person: &Person) -> Option<Arc<Class>> {
    let Person { principal, role, identity, .. } = person;
    let profile = &view.profile.name;
    let subject = Subject { principal, role: *role, identity, profile, door: "mcp" };
    policies.map(|policies| policies.class(&subject))
}

// === impl Judge ===

impl Judge {
    /// The decision in a word, and the policy that it is by.
    fn decide(&self, view: &View, act: &Act, labels: &LabelTable) -> (&'static str, String) {
        let Self { person, class } = self;
        let request = Request { caller: Caller { principal: &person.principal, role: person.role }, act };
        let of_profile = view.rules.decide(&request, &Moment::at(Timestamp(0))).err();
        let of_policies = class.as_ref().map(|class| ThingDecision::of(class, act, labels));
        match (of_profile, of_policies) {
            (Some(denial), _) if denial.demand.is_none() => (word_of_denial(&denial), String::new()),
            // The profile asks for a yes; whom policies refuse, a yes does not help.
            (Some(denial), None) => (word_of_denial(&denial), String::new()),
            (Some(denial), Some(outlook)) if matches!(outlook.decision, "permit" | "open") => {
                (word_of_denial(&denial), outlook.by)
            }
            (_, Some(outlook)) => (outlook.decision, outlook.by),
            (None, None) => ("permit", String::new()),
        }
    }
}

fn word_of_denial(denial: &Denial) -> &'static str {
    match &denial.demand {
        _ if denial.hidden => "hidden",
        Some(demand) if demand.needs_approval => "approve",
        Some(_) => "confirm",
        None => "deny",
    }
}
