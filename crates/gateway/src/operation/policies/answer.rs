//! What becomes of a request in words: the decision of profile, role and policies, which policies had a part in it, and
//! what else would be needed.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, Role};
use toolcrib_call::{CallOrigin, Halt};
use toolcrib_policy::{
    Caller, ClassRules, Demand, Denial, Effect as PolicyEffect, Moment, Policies, Reason, Request, Rules, Subject, Why,
};
use toolcrib_session::Principal;

use super::question::Question;
use super::rule;
use crate::gateway::Gateway;

pub(super) fn answer(gateway: &Gateway, policies: Option<&Policies>, question: &Question) -> Result<Value, Problem> {
    let Question { principal, role, identity, profile, act, arguments, bridge, chain, at, .. } = question;
    let at = at.unwrap_or_else(|| gateway.path.clock.now());
    let (actor, bridge) = (identity.actors.first().map(|it| &**it), bridge.as_deref());
    let moment = Moment { at, arguments: arguments.as_ref().map(String::as_bytes), actor, bridge, chain: Some(chain) };
    let rules = rules_of(gateway, policies, question, *role)?;
    let labels = crate::policies::labels(&gateway.loaded());
    let class = policies.map(|it| it.class(&subject(question, *role)));
    let is_known = arguments.is_some() || question.says_when();
    let why = class.map(|it| it.explain(act, &labels, is_known.then_some(&moment))).unwrap_or_default();
    let parts: Vec<Value> = why.iter().map(part).collect();
    if let Some(halt) = halt_of(gateway, question) {
        let needed = [format!("an end of the halt `{}`: `toolcrib halt lift {}`", halt.id, halt.id)];
        let reason = halt.problem().message;
        return Ok(json!({
            "decision": "deny", "by": null, "reason": reason, "policies": parts, "needed": needed,
        }));
    }
    let request = Request { caller: Caller { principal, role: *role }, act };
    let outcome = rules.decide(&request, &moment);
    let is_hidden = outcome.as_ref().is_err_and(|denial| denial.hidden) || !rules.visible(&request);
    let by_call =
        |denial: &Denial| matches!(denial.reason, Reason::PolicyForbids | Reason::PolicyAsks | Reason::ProfileAsks);
    let open: Vec<&Why> = why.iter().filter(|it| it.counts.is_none() && !it.rule.records_only).collect();
    if !is_hidden && !open.is_empty() && outcome.as_ref().map_or_else(by_call, |_| true) {
        let names: Vec<String> = open.iter().map(|it| named(it)).collect();
        let what =
            if question.says_when() { "the arguments of the call" } else { "the arguments of the call and its time" };
        let needed = [format!("{what}, which {} look at", names.join(", "))];
        return Ok(json!({
            "decision": "open", "by": null, "reason": null, "policies": parts, "needed": needed,
        }));
    }
    let denial = match outcome {
        Ok(permit) => {
            let by = permit.policy().map(|it| &**it);
            return Ok(json!({
                "decision": "permit", "by": by, "reason": null, "policies": parts, "needed": [],
            }));
        }
        Err(denial) => denial,
    };
    let mut needed = needed(&denial, &why);
    let is_final = !matches!(denial.reason, Reason::PolicyAsks | Reason::ProfileAsks);
    if is_final {
        for higher in Role::ALL.into_iter().filter(|it| it > role) {
            let rules = rules_of(gateway, policies, question, higher)?;
            let request = Request { caller: Caller { principal, role: higher }, act };
            let helps = rules.decide(&request, &moment).map_or_else(|denial| denial.demand.is_some(), |_| true);
            if helps {
                needed.push(format!("or the role `{higher}` in profile `{profile}`"));
                break;
            }
        }
    }
    let decision = match &denial {
        _ if is_hidden => "hidden",
        _ if is_final => "deny",
        denial if is_approval(denial, &why) => "approve",
        _ => "confirm",
    };
    let reason = denial.said.as_ref().unwrap_or(&denial.rule);
    Ok(json!({
        "decision": decision, "by": denial.policy.as_deref(), "reason": reason, "policies": parts, "needed": needed,
    }))
}

/// The halt that would keep the principal from it, also of its session or of the run whose step it is.
fn halt_of(gateway: &Gateway, question: &Question) -> Option<Arc<Halt>> {
    let Question { principal, role, identity, profile, door, act, chain, .. } = question;
    let principal = Principal { id: principal.clone(), role: *role, identity: Arc::new(identity.clone()) };
    let origin =
        CallOrigin { principal: &principal, profile, session: identity.session.as_deref(), run: chain.run.as_deref() };
    gateway.path.halts.of_question(&origin, act, door)
}

fn subject(question: &Question, role: Role) -> Subject<'_> {
    let Question { principal, identity, profile, door, .. } = question;
    Subject { principal, role, identity, profile, door }
}

/// The rules by which a call is decided: those of the profile, with the policies in question.
fn rules_of(gateway: &Gateway, policies: Option<&Policies>, question: &Question, role: Role) -> Result<Rules, Problem> {
    let profile = &question.profile;
    let view = gateway.view(profile.as_str());
    let view = view.ok_or_else(|| Problem::new(Kind::InvalidParams, format!("no profile `{profile}`")))?;
    let labels = Arc::new(crate::policies::labels(&gateway.loaded()));
    let class = policies.map(|it| ClassRules { class: it.class(&subject(question, role)), labels });
    Ok(view.rules.clone().with_policies(class))
}

fn is_approval(denial: &Denial, why: &[Why]) -> bool {
    let by_policy = || {
        let rule = why.iter().find(|it| Some(&it.rule.id) == denial.policy.as_ref());
        rule.is_some_and(|it| matches!(it.rule.effect, PolicyEffect::Ask(toolcrib_policy::Ask::Approve { .. })))
    };
    denial.demand.as_ref().map_or_else(by_policy, |demand| demand.needs_approval)
}

/// What would have to be otherwise for a refused request to pass.
fn needed(denial: &Denial, why: &[Why]) -> Vec<String> {
    match (denial.reason, &denial.demand) {
        (_, Some(demand)) => vec![yes(demand)],
        (Reason::PolicyAsks | Reason::ProfileAsks, None) => {
            vec!["another policy, as only calls of tools can wait for a yes".to_owned()]
        }
        (Reason::PolicyHides | Reason::PolicyForbids, None) if denial.policy.is_some() => {
            let forbids = |it: &&Why| matches!(it.rule.effect, PolicyEffect::Forbid { .. }) && !it.rule.records_only;
            let counting = why.iter().filter(|it| it.counts != Some(false)).filter(forbids);
            counting.map(|it| format!("a request that {} does not forbid", named(it))).collect()
        }
        (Reason::PolicyHides | Reason::PolicyForbids, None) => {
            let permits = why.iter().filter(|it| it.rule.effect == PolicyEffect::Permit && !it.rule.records_only);
            let mut needed = vec!["a policy that permits it".to_owned()];
            needed.extend(permits.map(|it| format!("or what {} permits", named(it))));
            needed
        }
        _ => vec![format!("a request that passes {}", denial.rule)],
    }
}

/// Whose yes is needed, until when, and which rules ask for it.
fn yes(demand: &Demand) -> String {
    let seconds = |words: &str, time: Option<std::time::Duration>| {
        time.map(|time| format!(", {words} {} s", time.as_secs())).unwrap_or_default()
    };
    let (expires, remember) = (seconds("within", demand.expires), seconds("which then counts for", demand.remember));
    let by: Vec<String> = demand.by.iter().map(|it| format!("`{it}`")).collect();
    format!("a yes: {}{expires}{remember} (asked for by {})", demand.words(), by.join(", "))
}

fn named(why: &Why) -> String {
    format!("policy `{}` ({}:{})", why.rule.id, why.rule.file, why.rule.line)
}

fn part(why: &Why) -> Value {
    let mut value = rule(&why.rule);
    value["counts"] = match (why.counts, why.failed) {
        (None, _) => "depends on the call".into(),
        (Some(true), true) => "yes, as its conditions do not fit the arguments".into(),
        (Some(false), true) => "no, as its conditions do not fit the arguments".into(),
        (Some(true), false) => "yes".into(),
        (Some(false), false) => "no".into(),
    };
    value
}
