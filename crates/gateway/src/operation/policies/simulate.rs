//! `core_policy_simulate`: what policies would have decided of the calls that are on record.
//!
//! A record does not say all that policies may ask for. Where that would matter, the row says so: arguments of which
//! only a hash is kept, groups of the principal, and what led to the call.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolcrib_base::{Identity, PrincipalId, Problem, ProfileName, Proof, Role, ServerName, Timestamp, ToolId};
use toolcrib_policy::{Act, LabelTable, Moment, Outlook, Policies, Reference, Subject};
use toolcrib_protocol::method;
use toolcrib_store::{AuditFilter, AuditOrder, AuditRecord};

use super::{hints_of, word};
use crate::gateway::Gateway;

/// How many events are played at most, from the oldest on.
const EVENTS: usize = 100_000;
/// How many rows are answered.
const ROWS: usize = 1_000;
/// How many events are read at a time.
const PAGE: usize = 1_000;

/// Plays events against policies.
pub(super) struct Simulation<'a> {
    gateway: &'a Gateway,
    policies: Policies,
    labels: LabelTable,
    /// All groups that policies name, to see whether they would matter.
    groups: Vec<(String, String)>,
}

/// A difference between the record and the policies.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    principal: String,
    target: String,
    from: &'static str,
    to: String,
    by: String,
}

/// How often, and where the record has it first.
struct Occurrence {
    count: usize,
    seq: u64,
    at: Timestamp,
}

// === impl Simulation ===

impl<'a> Simulation<'a> {
    pub(super) fn new(gateway: &'a Gateway, policies: Policies) -> Self {
        let labels = crate::policies::labels(&gateway.loaded());
        let of_issuer = |id: &str| id.split_once('/').map(|(issuer, name)| (issuer.to_owned(), name.to_owned()));
        let named = policies.subjects_named();
        let groups = named.iter().filter(|it| it.of_type == "Group").filter_map(|it| of_issuer(&it.id)).collect();
        Self { gateway, policies, labels, groups }
    }

    /// Plays what is on record since a moment.
    pub(super) fn play(&self, since: Timestamp) -> Result<Value, Problem> {
        let log = self.gateway.path.store.audit();
        let mut found = BTreeMap::<Difference, Occurrence>::new();
        let (mut played, mut same, mut skipped, mut after) = (0, 0, 0, 0);
        loop {
            let order = AuditOrder::OldestFirst { after };
            let filter = AuditFilter { since: Some(since), order, limit: PAGE, ..AuditFilter::default() };
            let events = log.list(&filter)?;
            let Some(last) = events.last().map(|event| event.seq) else { break };
            after = last;
            for event in &events {
                match self.difference(event) {
                    None => skipped += 1,
                    Some(difference) if difference.from == difference.to => (played, same) = (played + 1, same + 1),
                    Some(difference) => {
                        played += 1;
                        let first = Occurrence { count: 0, seq: event.seq, at: event.at };
                        found.entry(difference).or_insert(first).count += 1;
                    }
                }
            }
            if events.len() < PAGE || played + skipped >= EVENTS {
                break;
            }
        }
        let is_whole = found.len() <= ROWS && played + skipped < EVENTS;
        let rows: Vec<Value> = found.iter().take(ROWS).map(|(difference, found)| row(difference, found)).collect();
        Ok(json!({
            "played": played, "same": same, "skipped": skipped, "changes": rows, "truncated": !is_whole,
        }))
    }

    /// What was decided and what would be; `None` for what policies had no part in, or what is no longer known.
    fn difference(&self, event: &AuditRecord) -> Option<Difference> {
        let from = recorded(event)?;
        let act = self.act(event)?;
        let (to, by) = self.outcome(event, &act)?;
        Some(Difference { principal: event.principal.clone(), target: event.target.clone(), from, to, by })
    }

    /// What would be decided and by which policy; `depends on …` where the record does not say enough.
    fn outcome(&self, event: &AuditRecord, act: &Act) -> Option<(String, String)> {
        let profile = ProfileName::new(event.profile.as_deref().unwrap_or("default")).ok()?;
        // A restored or local principal has no role on record before roles were recorded: what they do least.
        let role = event.role.as_deref().and_then(|role| role.parse().ok()).unwrap_or(Role::Member);
        let principal = PrincipalId::new(&event.principal);
        let identity = identity(event);
        let of_issuer = |(issuer, name): &(String, String)| {
            (identity.issuer.as_deref() == Some(&issuer[..])).then(|| Box::from(&name[..]))
        };
        let everywhere = Identity { groups: self.groups.iter().filter_map(of_issuer).collect(), ..identity.clone() };
        let mut outcomes = Vec::new();
        for identity in [&identity, &everywhere] {
            let subject = Subject { principal: &principal, role, identity, profile: &profile, door: &event.door };
            let class = self.policies.class(&subject);
            outcomes.push(match (class.outlook(act, &self.labels, Some(event.at)), &event.arguments) {
                (Outlook::Settled(verdict), _) => (word(&verdict).to_owned(), by(&verdict)),
                (Outlook::Open(_), Some(arguments)) => {
                    let arguments = Some(arguments.as_bytes());
                    let actor = identity.actors.first().map(|it| &**it);
                    let moment = Moment { arguments, actor, bridge: event.bridge.as_deref(), ..Moment::at(event.at) };
                    let verdict = class.decide(act, &self.labels, &moment);
                    (word(&verdict).to_owned(), by(&verdict))
                }
                (Outlook::Open(open), None) => {
                    let ids: Vec<&str> = open.iter().map(|it| &*it.rule.id).collect();
                    ("depends on arguments".to_owned(), ids.join(", "))
                }
            });
        }
        let with_all = outcomes.pop()?;
        let with_none = outcomes.pop()?;
        match with_none.0 == with_all.0 {
            true => Some(with_none),
            false => {
                Some(("depends on groups".to_owned(), format!("{} {}", with_none.1, with_all.1).trim().to_owned()))
            }
        }
    }

    /// What was asked for; `None` where it is no longer there.
    fn act(&self, event: &AuditRecord) -> Option<Act> {
        let target = &event.target;
        let of_server = || {
            let (server, name) = target.split_once('/')?;
            Some((ServerName::new(server).ok()?, std::sync::Arc::<str>::from(name)))
        };
        match &event.method[..] {
            method::TOOLS_CALL => match self.gateway.operations.iter().find(|operation| *operation.tool == **target) {
                Some(operation) => Some(operation.act()),
                None => {
                    let tool = ToolId::parse(target)?;
                    let annotations = hints_of(self.gateway, &tool)?;
                    Some(Act::CallTool { tool, annotations })
                }
            },
            method::RESOURCES_READ => of_server().map(|(server, uri)| Act::ReadResource { server, uri }),
            method::PROMPTS_GET => of_server().map(|(server, name)| Act::GetPrompt { server, name }),
            method::COMPLETE => {
                let (server, name) = of_server()?;
                let table = self.gateway.path.servers.table();
                let inventory = table.get(&server)?.server.inventory();
                let is_prompt = inventory.prompts.iter().any(|prompt| *prompt.key == *name);
                let of = if is_prompt { Reference::Prompt } else { Reference::Resource };
                Some(Act::Complete { server, of, name })
            }
            _ => None,
        }
    }
}

/// What policies decided; `None` where the profile or the role refused before they were asked.
fn recorded(event: &AuditRecord) -> Option<&'static str> {
    let decision = &event.decision;
    let is =
        |name: &str| decision.strip_prefix("deny:").is_some_and(|it| it == name || it.starts_with(&format!("{name}:")));
    match () {
        () if event.approval.is_some() => Some("approve"),
        () if decision.starts_with("permit:") => Some("permit"),
        () if is("policy-hides") => Some("hidden"),
        () if is("policy-forbids") => Some("deny"),
        () if is("policy-asks") => Some("approve"),
        () => None,
    }
}

fn identity(event: &AuditRecord) -> Identity {
    let proof = event.proof.as_deref().and_then(Proof::named).unwrap_or(Proof::Nothing);
    let mut identity = Identity::by(proof);
    identity.issuer = event.issuer.as_deref().map(Into::into);
    identity.client = event.oauth_client.as_deref().map(Into::into);
    identity.actors = event.actor.as_deref().map(Into::into).into_iter().collect();
    identity
}

fn by(verdict: &toolcrib_policy::PolicyVerdict) -> String {
    use toolcrib_policy::PolicyVerdict::{Ask, Deny, Permit};
    match verdict {
        Permit(by) => by.as_deref().unwrap_or_default().to_owned(),
        Deny { by, .. } => by.as_ref().map(|rule| rule.id.to_string()).unwrap_or_default(),
        Ask { by, .. } => by.id.to_string(),
    }
}

fn row(difference: &Difference, found: &Occurrence) -> Value {
    let Difference { principal, target, from, to, by } = difference;
    json!({
        "principal": principal, "target": target, "from": from, "to": to, "by": by, "count": found.count,
        "seq": found.seq, "at": found.at.to_string(),
    })
}
