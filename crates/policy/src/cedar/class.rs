//! What policies make of one class of principals: worked out once for each shape of resource, and finished at the call.
//!
//! A policy that refuses counts also when it fails, and one that permits does not: an argument of an odd type, or one
//! that is missing, never gets more than a good one.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use cedar_policy::{Context, Entities, Request};
use toolcrib_base::{ServerName, ToolId};

use super::argument::Arguments;
use super::demand::Demand;
use super::moment::Moment;
use super::policies::CompiledSet;
use super::policy::{Ask, CompiledPolicy, Effect, Outcome, PolicyRule};
use super::resource::{LabelTable, Shape, Target};
use super::subject::ClassKey;
use crate::{Act, Annotations};

/// How many shapes are kept of a class. Policies that look at names make one of each tool.
const SHAPES: usize = 16_384;

/// All principals whom no policy tells apart.
pub struct Class {
    compiled: Arc<CompiledSet>,
    key: ClassKey,
    known: RwLock<HashMap<Shape, Arc<Judgement>>>,
}

/// What policies say of one shape, as far as it does not depend on the call.
#[derive(Default)]
struct Judgement {
    /// Those that count whatever the call is, by their places.
    permit: Option<usize>,
    forbid: Option<usize>,
    asks: Vec<usize>,
    recorded: Vec<usize>,
    /// Those that the call decides.
    open: Vec<usize>,
    /// What the open ones are evaluated with.
    entities: Option<Entities>,
}

/// What policies say of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// Yes, by this policy; `None` for what policies do not decide.
    Permit(Option<Arc<str>>),
    /// No.
    Deny {
        /// The policy that refuses; `None` where none permits.
        by: Option<PolicyRule>,
        /// Whether the thing must look as if it were not there.
        hidden: bool,
    },
    /// Not until somebody has said yes.
    Ask {
        /// The policy that asks.
        by: PolicyRule,
        /// Who is asked.
        ask: Ask,
    },
}

/// What one policy has to do with a request, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The policy.
    pub rule: PolicyRule,
    /// Whether it counts; `None` where only the call decides and there is none.
    pub counts: Option<bool>,
    /// Whether it failed, as an argument has another type than it expects.
    pub failed: bool,
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Class").field("key", &self.key).finish_non_exhaustive()
    }
}

// === impl Class ===

impl Class {
    pub(super) fn new(compiled: Arc<CompiledSet>, key: ClassKey) -> Self {
        Self { compiled, key, known: RwLock::default() }
    }

    /// Decides one request.
    pub fn decide(&self, act: &Act, labels: &LabelTable, moment: &Moment<'_>) -> PolicyVerdict {
        let Some(judgement) = self.judgement(act, labels) else { return PolicyVerdict::Permit(None) };
        if !self.is_permitted_by_any(&judgement) {
            return PolicyVerdict::Deny { by: None, hidden: can_be_hidden(act) };
        }
        if let Some(forbid) = judgement.forbid {
            let hidden = self.hides(forbid) && can_be_hidden(act);
            return PolicyVerdict::Deny { by: Some(self.rule(forbid).clone()), hidden };
        }
        let (mut permit, mut ask) = (judgement.permit, judgement.asks.first().copied());
        if !judgement.open.is_empty() {
            let mut evaluation = self.evaluation(act, labels, Some(moment), judgement.entities.as_ref());
            for place in judgement.open.iter().copied() {
                let rule = self.rule(place);
                let is_needed = !rule.records_only && (rule.effect != Effect::Permit || permit.is_none());
                if !is_needed || !rule.counts(evaluation.of(place)) {
                    continue;
                }
                match &rule.effect {
                    Effect::Permit => permit = Some(place),
                    // What only some calls refuse is there.
                    Effect::Forbid { .. } => return PolicyVerdict::Deny { by: Some(rule.clone()), hidden: false },
                    Effect::Ask(_) => ask = self.stronger(ask, place),
                }
            }
        }
        match (permit, ask.map(|ask| (self.rule(ask), &self.rule(ask).effect))) {
            (None, _) => PolicyVerdict::Deny { by: None, hidden: false },
            (Some(_), Some((by, Effect::Ask(ask)))) => PolicyVerdict::Ask { by: by.clone(), ask: ask.clone() },
            (Some(permit), _) => PolicyVerdict::Permit(Some(Arc::clone(&self.rule(permit).id))),
        }
    }

    /// All that asks before a request that [`Class::decide`] asks for; `None` where nothing does.
    pub fn demand(&self, act: &Act, labels: &LabelTable, moment: &Moment<'_>) -> Option<Demand> {
        let judgement = self.judgement(act, labels)?;
        let mut asking = judgement.asks.clone();
        let asks =
            |place: &usize| matches!(self.rule(*place).effect, Effect::Ask(_)) && !self.rule(*place).records_only;
        let open: Vec<usize> = judgement.open.iter().copied().filter(asks).collect();
        if !open.is_empty() {
            let mut evaluation = self.evaluation(act, labels, Some(moment), judgement.entities.as_ref());
            asking.extend(open.into_iter().filter(|place| self.rule(*place).counts(evaluation.of(*place))));
        }
        // In the order of the files, whatever decides about each.
        asking.sort_unstable();
        Demand::of_policies(asking.into_iter().map(|place| self.rule(place)), &self.compiled.revision)
    }

    /// Whether a thing is listed, found and described: if some call of it could pass, or would be refused with words.
    pub fn shows(&self, act: &Act, labels: &LabelTable) -> bool {
        if !can_be_hidden(act) {
            return true;
        }
        let Some(judgement) = self.judgement(act, labels) else { return true };
        self.is_permitted_by_any(&judgement) && !judgement.forbid.is_some_and(|forbid| self.hides(forbid))
    }

    /// Whether something of a server could be shown: some tool, resource or prompt that nothing is known of.
    pub fn shows_server(&self, server: &ServerName, labels: &LabelTable) -> bool {
        let tool = |read_only| {
            let annotations = Annotations { read_only: Some(read_only), ..Annotations::default() };
            Act::CallTool { tool: ToolId::new(server.clone(), ""), annotations }
        };
        let resource = || Act::ReadResource { server: server.clone(), uri: "".into() };
        let prompt = || Act::GetPrompt { server: server.clone(), name: "".into() };
        [tool(true), tool(false), resource(), prompt()].iter().any(|act| !self.hides_all_like(act, server, labels))
    }

    /// Whether everything of a server that is like this is hidden, whatever its name.
    fn hides_all_like(&self, act: &Act, server: &ServerName, labels: &LabelTable) -> bool {
        let Some(judgement) = self.judgement(act, labels) else { return false };
        let policies = &self.compiled.policies;
        match judgement.forbid {
            Some(forbid) if self.hides(forbid) && !policies[forbid].look.at_names() => true,
            _ => {
                // A permit that looks at names, or names something of the server, may show what this one does not have.
                let could_permit = |it: &CompiledPolicy| it.rule.effect == Effect::Permit && it.look.at_names();
                !self.is_permitted_by_any(&judgement)
                    && !policies.iter().any(could_permit)
                    && !self.compiled.resource_words.names_of(server)
            }
        }
    }

    /// The policies that would refuse or ask if they did more than record.
    pub fn recorded(&self, act: &Act, labels: &LabelTable, moment: &Moment<'_>) -> Vec<Arc<str>> {
        let judgement = self.compiled.records.then(|| self.judgement(act, labels)).flatten();
        let Some(judgement) = judgement else { return Vec::new() };
        let mut found = judgement.recorded.clone();
        let open: Vec<usize> = judgement.open.iter().copied().filter(|it| self.rule(*it).records_only).collect();
        if !open.is_empty() {
            let mut evaluation = self.evaluation(act, labels, Some(moment), judgement.entities.as_ref());
            found.extend(open.into_iter().filter(|place| self.rule(*place).counts(evaluation.of(*place))));
        }
        found.into_iter().map(|place| Arc::clone(&self.rule(place).id)).collect()
    }

    /// Every policy whose head fits, with what becomes of it. Without a moment, those that the call decides are open.
    pub fn explain(&self, act: &Act, labels: &LabelTable, moment: Option<&Moment<'_>>) -> Vec<Why> {
        let Some(target) = Target::of(act, labels, &self.compiled.resource_words) else { return Vec::new() };
        let entities = self.entities(&target);
        let mut evaluation = self.evaluation(act, labels, moment, entities.as_ref());
        let why = |place: usize| {
            let rule = self.rule(place).clone();
            if self.compiled.policies[place].look.needs_call() && moment.is_none() {
                return Why { rule, counts: None, failed: false };
            }
            let outcome = evaluation.of(place);
            Why { counts: Some(rule.counts(outcome)), failed: outcome == Outcome::Failed, rule }
        };
        self.fitting(&target).map(why).collect()
    }

    #[cfg(test)]
    pub(super) fn shapes(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn rule(&self, place: usize) -> &PolicyRule {
        &self.compiled.policies[place].rule
    }

    fn judgement(&self, act: &Act, labels: &LabelTable) -> Option<Arc<Judgement>> {
        let shape = Shape::of(act, labels, &self.compiled.resource_words)?;
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&shape) {
            return Some(Arc::clone(known));
        }
        let judgement = Arc::new(self.work_out(act, labels)?);
        if !shape.is_short() {
            return Some(judgement);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= SHAPES {
            known.clear();
        }
        known.insert(shape, Arc::clone(&judgement));
        Some(judgement)
    }

    fn work_out(&self, act: &Act, labels: &LabelTable) -> Option<Judgement> {
        let target = Target::of(act, labels, &self.compiled.resource_words)?;
        let entities = self.entities(&target);
        let mut judgement = Judgement::default();
        let mut evaluation = self.evaluation(act, labels, None, entities.as_ref());
        for place in self.fitting(&target) {
            let rule = self.rule(place);
            if self.compiled.policies[place].look.needs_call() {
                judgement.open.push(place);
            } else if rule.counts(evaluation.of(place)) {
                match &rule.effect {
                    Effect::Permit if rule.records_only => {}
                    _ if rule.records_only => judgement.recorded.push(place),
                    Effect::Permit => _ = judgement.permit.get_or_insert(place),
                    Effect::Ask(_) => judgement.asks.push(place),
                    // One that hides is not made less of by one that says why.
                    Effect::Forbid { .. } if judgement.forbid.is_none_or(|known| !self.hides(known)) => {
                        judgement.forbid = Some(place);
                    }
                    Effect::Forbid { .. } => {}
                }
            }
        }
        // Somebody else's yes comes before one's own.
        judgement.asks.sort_by_key(|place| !self.asks_somebody_else(*place));
        judgement.entities = entities.filter(|_| !judgement.open.is_empty());
        Some(judgement)
    }

    /// The policies whose heads fit.
    fn fitting(&self, target: &Target) -> impl Iterator<Item = usize> {
        let principal = self.key.placed();
        let fits = move |policy: &CompiledPolicy| {
            let scope = &policy.scope;
            scope.fits_action(&target.action)
                && scope.fits_principal(&principal)
                && scope.fits_resource(&target.resource)
        };
        self.compiled.policies.iter().enumerate().filter(move |(_, policy)| fits(policy)).map(|(place, _)| place)
    }

    fn entities(&self, target: &Target) -> Option<Entities> {
        let principal = [self.key.entity()];
        Entities::from_entities(target.entities().into_iter().chain(principal), None).ok()
    }

    fn evaluation<'a>(
        &'a self,
        act: &'a Act,
        labels: &'a LabelTable,
        moment: Option<&'a Moment<'a>>,
        entities: Option<&'a Entities>,
    ) -> Evaluation<'a> {
        let requests = vec![None; self.compiled.arguments.len()];
        Evaluation { class: self, act, labels, moment, entities, requests }
    }

    /// Whether some call of the thing could be permitted.
    fn is_permitted_by_any(&self, judgement: &Judgement) -> bool {
        let permits = |place: &usize| self.rule(*place).effect == Effect::Permit && !self.rule(*place).records_only;
        judgement.permit.is_some() || judgement.open.iter().any(permits)
    }

    /// Whether a policy that refuses every call makes the thing look as if it were not there.
    fn hides(&self, place: usize) -> bool {
        self.rule(place).effect != Effect::Forbid { hidden: Some(false) }
    }

    fn asks_somebody_else(&self, place: usize) -> bool {
        matches!(self.rule(place).effect, Effect::Ask(Ask::Approve { .. }))
    }

    /// Of two policies that ask, the one that asks somebody else.
    fn stronger(&self, known: Option<usize>, next: usize) -> Option<usize> {
        known.filter(|known| self.asks_somebody_else(*known) || !self.asks_somebody_else(next)).or(Some(next))
    }
}

/// Operations are known to everyone who reads the documents: their refusal is always said.
fn can_be_hidden(act: &Act) -> bool {
    !matches!(act, Act::Operation { .. })
}

/// The conditions of policies for one request, evaluated as they are asked for.
struct Evaluation<'a> {
    class: &'a Class,
    act: &'a Act,
    labels: &'a LabelTable,
    moment: Option<&'a Moment<'a>>,
    entities: Option<&'a Entities>,
    /// One for each way to read the arguments; `Err` where Cedar refuses the values.
    requests: Vec<Option<Result<Request, ()>>>,
}

// === impl Evaluation ===

impl Evaluation<'_> {
    /// What becomes of a policy whose head fits.
    fn of(&mut self, place: usize) -> Outcome {
        let compiled = &self.class.compiled;
        let policy = &compiled.policies[place];
        let reading = policy.reading;
        if self.requests[reading].is_none() {
            self.requests[reading] = Some(self.request(&compiled.arguments[reading]).ok_or(()));
        }
        match (&self.requests[reading], self.entities) {
            (Some(Ok(request)), Some(entities)) => policy.evaluate(&compiled.authorizer, request, entities),
            _ => Outcome::Failed,
        }
    }

    fn request(&self, arguments: &Arguments) -> Option<Request> {
        let target = Target::of(self.act, self.labels, &self.class.compiled.resource_words)?;
        let mut pairs = self.class.key.context();
        pairs.extend(self.moment.into_iter().flat_map(|moment| moment.context(self.act, arguments)));
        let context = Context::from_pairs(pairs).ok()?;
        let (action, resource) = (target.action.uid, target.resource.uid);
        Request::new(self.class.key.principal.clone(), action, resource, context, None).ok()
    }
}
