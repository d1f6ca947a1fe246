//! What policies make of one class of principals: worked out once for each shape of resource, and finished at the call.
//!
//! A policy that refuses counts also when it fails, and one that permits does not: an argument of an odd type, or one
//! that is missing, never gets more than a good one.

mod outlook;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use cedar_policy::{Context, Entities, EntityUid, Request};
use toolcrib_base::{ServerName, ToolId};

use super::argument::Arguments;
use super::demand::Demand;
use super::label::LabelTable;
use super::moment::{ContextWords, Moment};
use super::policies::CompiledSet;
use super::policy::{Ask, CompiledPolicy, Effect, Outcome, PolicyRule};
use super::resource::{Shape, Target};
use super::subject::ClassKey;
use crate::{Act, Annotations};

pub use outlook::{OpenPolicy, Outlook};

/// How many shapes are kept of a class. Policies that look at names make one of each tool.
const SHAPES: usize = 16_384;

/// What a tool may say of itself, as far as policies tell it apart.
const EVERY_HINT: [Annotations; 12] = {
    const fn hints(destructive: bool, idempotent: bool, open_world: bool) -> Annotations {
        let (idempotent, open_world) = (Some(idempotent), Some(open_world));
        Annotations { read_only: None, destructive: Some(destructive), idempotent, open_world, digest: None }
    }
    const fn reads(idempotent: bool, open_world: bool) -> Annotations {
        Annotations { read_only: Some(true), ..hints(false, idempotent, open_world) }
    }
    [
        hints(true, true, true),
        hints(true, true, false),
        hints(true, false, true),
        hints(true, false, false),
        hints(false, true, true),
        hints(false, true, false),
        hints(false, false, true),
        hints(false, false, false),
        reads(true, true),
        reads(true, false),
        reads(false, true),
        reads(false, false),
    ]
};

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
    things: Option<RequestEntities>,
    words: ContextWords,
    /// Those that the time alone decides, and which of them count in a second.
    timed: Vec<usize>,
    at: RwLock<Option<SecondOutcome>>,
}

/// Which of the policies that look at the time count in a second.
#[derive(Clone)]
struct SecondOutcome {
    second: i64,
    counting: Arc<[usize]>,
}

/// What policies about a shape are evaluated with.
struct RequestEntities {
    action: EntityUid,
    resource: EntityUid,
    entities: Entities,
}

/// What conditions are evaluated with: the entities, and the parts of the context that count.
#[derive(Clone, Copy)]
struct Material<'a> {
    things: Option<&'a RequestEntities>,
    words: ContextWords,
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
        let mut evaluation = self.evaluation(act, Some(moment), judgement.material());
        let timed = self.counting_now(&judgement, act, labels, moment);
        let open = judgement.open.iter().map(|place| (*place, false));
        for (place, counts) in timed.iter().map(|place| (*place, true)).chain(open) {
            let rule = self.rule(place);
            let is_needed = !rule.records_only && (rule.effect != Effect::Permit || permit.is_none());
            if !is_needed || !(counts || rule.counts(evaluation.of(place))) {
                continue;
            }
            match &rule.effect {
                Effect::Permit => permit = Some(place),
                // What only some calls refuse is there.
                Effect::Forbid { .. } => return PolicyVerdict::Deny { by: Some(rule.clone()), hidden: false },
                Effect::Ask(_) => ask = self.stronger(ask, place),
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
        asking.extend(self.counting_now(&judgement, act, labels, moment).iter().filter(|place| asks(place)));
        let open: Vec<usize> = judgement.open.iter().copied().filter(asks).collect();
        if !open.is_empty() {
            let mut evaluation = self.evaluation(act, Some(moment), judgement.material());
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
        let tool = |annotations| Act::CallTool { tool: ToolId::new(server.clone(), ""), annotations };
        let resource = || Act::ReadResource { server: server.clone(), uri: "".into() };
        let prompt = || Act::GetPrompt { server: server.clone(), name: "".into() };
        let shows = |act: &Act| !self.hides_all_like(act, server, labels);
        EVERY_HINT.iter().any(|annotations| shows(&tool(*annotations))) || shows(&resource()) || shows(&prompt())
    }

    /// Whether everything of a server that is like this is hidden, whatever its name.
    fn hides_all_like(&self, act: &Act, server: &ServerName, labels: &LabelTable) -> bool {
        let Some(target) = Target::of(act, labels, &self.compiled.resource_words) else { return false };
        let differ = matches!(act, Act::CallTool { .. }) && labels.differ_by_tool(server);
        let at_single = |it: &CompiledPolicy| it.look.at_single_tools(differ);
        let Some(judgement) = self.judgement(act, labels) else { return false };
        let policies = &self.compiled.policies;
        let hides_all = |place: usize| self.hides(place) && !at_single(&policies[place]);
        if judgement.forbid.is_some_and(hides_all) {
            return true;
        }
        if judgement.forbid.is_some() && differ {
            // Behind the one that is known there may be one that no label of a tool lifts.
            let things = self.things(&target);
            let mut evaluation =
                self.evaluation(act, None, Material { things: things.as_ref(), words: ContextWords::default() });
            let counts = |place: usize| {
                let rule = self.rule(place);
                let refuses = matches!(rule.effect, Effect::Forbid { .. }) && !rule.records_only;
                refuses && !policies[place].look.needs_call() && hides_all(place) && rule.counts(evaluation.of(place))
            };
            return self.fitting(&target).any(counts);
        }
        // A permit that looks at names, or names something of the server, may show what this one does not have.
        let could_permit = |it: &CompiledPolicy| it.rule.effect == Effect::Permit && at_single(it);
        !self.is_permitted_by_any(&judgement)
            && !policies.iter().any(could_permit)
            && !self.compiled.resource_words.names_of(server)
    }

    /// The policies that would refuse or ask if they did more than record.
    pub fn recorded(&self, act: &Act, labels: &LabelTable, moment: &Moment<'_>) -> Vec<Arc<str>> {
        let judgement = self.compiled.records.then(|| self.judgement(act, labels)).flatten();
        let Some(judgement) = judgement else { return Vec::new() };
        let mut found = judgement.recorded.clone();
        found.extend(
            self.counting_now(&judgement, act, labels, moment).iter().filter(|it| self.rule(**it).records_only),
        );
        let open: Vec<usize> = judgement.open.iter().copied().filter(|it| self.rule(*it).records_only).collect();
        if !open.is_empty() {
            let mut evaluation = self.evaluation(act, Some(moment), judgement.material());
            found.extend(open.into_iter().filter(|place| self.rule(*place).counts(evaluation.of(*place))));
        }
        found.sort_unstable();
        found.into_iter().map(|place| Arc::clone(&self.rule(place).id)).collect()
    }

    /// Every policy whose head fits, with what becomes of it. Without a moment, those that the call decides are open; with
    /// one without arguments, those that look at arguments.
    pub fn explain(&self, act: &Act, labels: &LabelTable, moment: Option<&Moment<'_>>) -> Vec<Why> {
        let Some(target) = Target::of(act, labels, &self.compiled.resource_words) else { return Vec::new() };
        let things = self.things(&target);
        let mut evaluation =
            self.evaluation(act, moment, Material { things: things.as_ref(), words: ContextWords::ALL });
        let why = |place: usize| {
            let rule = self.rule(place).clone();
            let look = &self.compiled.policies[place].look;
            let is_open = match moment {
                None => look.needs_call(),
                Some(moment) => moment.arguments.is_none() && look.needs_arguments(),
            };
            if is_open {
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

    /// Whether some policy looks at digests of tools.
    pub(crate) fn looks_at_digests(&self) -> bool {
        self.compiled.resource_words.digests
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
        let things = self.things(&target);
        let mut judgement = Judgement::default();
        let mut evaluation =
            self.evaluation(act, None, Material { things: things.as_ref(), words: ContextWords::default() });
        for place in self.fitting(&target) {
            let rule = self.rule(place);
            let look = &self.compiled.policies[place].look;
            if look.needs_time_alone() {
                judgement.timed.push(place);
            } else if look.needs_call() {
                judgement.open.push(place);
                judgement.words = judgement.words.and(ContextWords::of(look));
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
        judgement.things = things.filter(|_| !judgement.open.is_empty());
        Some(judgement)
    }

    /// Which of the policies that look only at the time count now. They are evaluated once a second.
    fn counting_now(&self, judgement: &Judgement, act: &Act, labels: &LabelTable, now: &Moment<'_>) -> Arc<[usize]> {
        if judgement.timed.is_empty() {
            return Arc::default();
        }
        let second = now.second();
        if let Some(known) = &*judgement.at.read().unwrap_or_else(PoisonError::into_inner)
            && known.second == second
        {
            return Arc::clone(&known.counting);
        }
        let target = Target::of(act, labels, &self.compiled.resource_words);
        let things = target.and_then(|target| self.things(&target));
        let mut evaluation =
            self.evaluation(act, Some(now), Material { things: things.as_ref(), words: ContextWords::TIME });
        let counts = |place: &usize| self.rule(*place).counts(evaluation.of(*place));
        let counting: Arc<[usize]> = judgement.timed.iter().copied().filter(counts).collect();
        let known = SecondOutcome { second, counting: Arc::clone(&counting) };
        *judgement.at.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
        counting
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

    fn things(&self, target: &Target) -> Option<RequestEntities> {
        let principal = [self.key.entity()];
        let entities = Entities::from_entities(target.entities().into_iter().chain(principal), None).ok()?;
        Some(RequestEntities { action: target.action.uid.clone(), resource: target.resource.uid.clone(), entities })
    }

    fn evaluation<'a>(
        &'a self,
        act: &'a Act,
        moment: Option<&'a Moment<'a>>,
        material: Material<'a>,
    ) -> Evaluation<'a> {
        let Material { things, words } = material;
        Evaluation { class: self, act, moment, things, words, requests: Vec::new() }
    }

    /// Whether some call of the thing could be permitted.
    fn is_permitted_by_any(&self, judgement: &Judgement) -> bool {
        let permits = |place: &usize| self.rule(*place).effect == Effect::Permit && !self.rule(*place).records_only;
        judgement.permit.is_some() || judgement.open.iter().chain(&judgement.timed).any(permits)
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

// === impl Judgement ===

impl Judgement {
    /// What the open policies are evaluated with.
    fn material(&self) -> Material<'_> {
        Material { things: self.things.as_ref(), words: self.words }
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
    moment: Option<&'a Moment<'a>>,
    things: Option<&'a RequestEntities>,
    words: ContextWords,
    /// One for each way to read the arguments; `Err` where Cedar refuses the values. Empty until the first question.
    requests: Vec<Option<Result<Request, ()>>>,
}

// === impl Evaluation ===

impl Evaluation<'_> {
    /// What becomes of a policy whose head fits.
    fn of(&mut self, place: usize) -> Outcome {
        let compiled = &self.class.compiled;
        let policy = &compiled.policies[place];
        let reading = policy.reading;
        if self.requests.is_empty() {
            self.requests.resize_with(compiled.arguments.len(), || None);
        }
        if self.requests[reading].is_none() {
            self.requests[reading] = Some(self.request(&compiled.arguments[reading]).ok_or(()));
        }
        match (&self.requests[reading], self.things) {
            (Some(Ok(request)), Some(things)) => policy.evaluate(&compiled.authorizer, request, &things.entities),
            _ => Outcome::Failed,
        }
    }

    fn request(&self, arguments: &Arguments) -> Option<Request> {
        let things = self.things?;
        let mut pairs = self.class.key.context();
        pairs.extend(self.moment.into_iter().flat_map(|moment| moment.context(self.act, arguments, self.words)));
        let context = Context::from_pairs(pairs).ok()?;
        let (action, resource) = (things.action.clone(), things.resource.clone());
        Request::new(self.class.key.principal.clone(), action, resource, context, None).ok()
    }
}
