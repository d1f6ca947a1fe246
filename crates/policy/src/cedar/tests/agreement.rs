//! Random policies and requests: what is worked out by classes and shapes is what plain Cedar says of all policies at once.

use std::collections::{BTreeMap, HashSet};

use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityUid, Policy, PolicySet, Request, RestrictedExpression,
};
use toolcrib_base::Role;

use super::*;

/// How many requests are made in all, if `TOOLCRIB_AGREEMENT` does not say another number.
const REQUESTS: usize = 2_100;
const REQUESTS_OF_ONE_SET: usize = 300;

/// Random numbers that are the same each time (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).expect("31 bits") % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

const PRINCIPALS: [&str; 7] = [
    "principal",
    "principal in Role::\"member\"",
    "principal in Role::\"admin\"",
    "principal in Group::\"acme/dev\"",
    "principal == User::\"acme/ann\"",
    "principal is User in Group::\"acme/ops\"",
    "principal in Profile::\"work\"",
];
const ACTIONS: [&str; 5] = [
    "action",
    "action == Action::\"call\"",
    "action in [Action::\"call\", Action::\"run\"]",
    "action in Action::\"operate\"",
    "action == Action::\"server_list\"",
];
const RESOURCES: [&str; 6] = [
    "resource",
    "resource in Server::\"prod\"",
    "resource == Tool::\"prod/delete\"",
    "resource is Tool in Server::\"files\"",
    "resource in Label::\"env=prod\"",
    "resource is Workflow",
];
/// Those that can stand in a policy about any call or run of a workflow.
const CONDITIONS: [&str; 17] = [
    "resource.readOnly",
    "resource.destructive && !resource.readOnly",
    "resource.name like \"del*\"",
    "resource.labels.contains(\"env=prod\")",
    "resource in Server::\"prod\" || resource == Tool::\"files/read\"",
    "principal in Group::\"acme/dev\" && !(principal in Role::\"admin\")",
    "principal == User::\"acme/bob\"",
    "context.door == \"rest\"",
    "context.arguments has amount && context.arguments.amount > 100",
    "context.arguments has path && context.arguments.path like \"/data/*\"",
    "context.arguments has force && context.arguments.force",
    "context.time.toTime() > duration(\"11h\") || context.proof == \"key\"",
    "resource.risks.contains(\"external_writes\") || resource in Label::\"team=ops\"",
    "context.time.toTime() > duration(\"11h\") && resource.destructive",
    "context.chain has workflow && context.chain.workflow == \"nightly\"",
    "context.chain has actor || context.labels.contains(\"secret\")",
    "context.arguments has amount && context.arguments.amount > 50 && context.chain has run",
];

fn policy(dice: &mut Dice, number: usize) -> String {
    let about_calls = dice.roll(2) == 0;
    let action = if about_calls { ACTIONS[1 + dice.roll(2)] } else { dice.pick(&ACTIONS) };
    let mut resource = dice.pick(&RESOURCES);
    if action.contains("operate") || action.contains("server_list") {
        resource = "resource";
    } else if action == ACTIONS[1] && resource.contains("Workflow") {
        resource = RESOURCES[1];
    }
    if number == 0 && dice.roll(2) == 0 {
        return "@id(\"p0\") permit (principal, action, resource);\n".to_owned();
    }
    let (effect, annotation) = match dice.roll(8) {
        0..=3 => ("permit", ""),
        4 => ("forbid", ""),
        5 => ("forbid", "@deny(\"said\") "),
        _ => ("forbid", dice.pick(&["@confirm(\"\") ", "@approve(\"ops\") ", "@mode(\"record\") "])),
    };
    let mut text =
        format!("@id(\"p{number}\") {annotation}{effect} ({}, {action}, {resource})", dice.pick(&PRINCIPALS));
    if about_calls {
        for _ in 0..dice.roll(3) {
            text += &format!(" {} {{ {} }}", dice.pick(&["when", "unless"]), dice.pick(&CONDITIONS));
        }
    }
    text + ";\n"
}

fn anyone(dice: &mut Dice) -> (Asker, &'static str) {
    let role = Role::ALL[dice.roll(5)];
    let id = dice.pick(&["user:acme/ann", "user:acme/bob", "key:work/ci", "local", "service:acme/app"]);
    let groups: Vec<&str> = ["dev", "ops", "other"].into_iter().filter(|_| dice.roll(2) == 0).collect();
    let mut who = who(id, role, &groups);
    who.identity.proof = if dice.roll(2) == 0 { Proof::Key } else { Proof::AccessToken };
    who.profile = ProfileName::new(dice.pick(&["work", "home"])).expect("a name");
    (who, dice.pick(&["mcp", "rest"]))
}

/// What led to the call: who acts, the workflow with its run, and what was seen.
fn led_by(dice: &mut Dice) -> (Option<&'static str>, CallChain) {
    let workflow = (dice.roll(3) == 0).then(|| Box::from(dice.pick(&["nightly", "hourly"])));
    let run = workflow.as_ref().map(|_| Box::from("r1"));
    let labels = (dice.roll(3) == 0).then(|| Box::from(dice.pick(&["secret", "public"])));
    let actor = (dice.roll(4) == 0).then_some("agent");
    (actor, CallChain { workflow, run, labels: labels.into_iter().collect() })
}

/// The labels of tools, as `labels` of these tests says them.
fn labels_of(tool: &str) -> &'static [&'static str] {
    match tool {
        "prod/delete" | "prod/read" | "workflow/nightly" => &["env=prod"],
        "mixed/post_dev" => &["env=dev", "risk=external_writes", "team=web"],
        "mixed/send_two" => &["env=prod", "risk=channel_sends", "team=ops"],
        "mixed/other" => &["env=prod", "team=web"],
        _ => &[],
    }
}

fn anything(dice: &mut Dice) -> (Act, String) {
    let annotations = Annotations {
        read_only: [None, Some(true), Some(false)][dice.roll(3)],
        destructive: [None, Some(true), Some(false)][dice.roll(3)],
        ..Annotations::default()
    };
    let tools = [
        "prod/delete",
        "prod/read",
        "files/read",
        "files/delete",
        "mail/send",
        "workflow/nightly",
        "mixed/post_dev",
        "mixed/send_two",
        "mixed/other",
    ];
    let act = match dice.roll(6) {
        0 => Act::Operation { name: dice.pick(&OPERATIONS).into(), needs_admin: dice.roll(2) == 0, annotations },
        _ => Act::CallTool { tool: ToolId::parse(dice.pick(&tools)).expect("an id"), annotations },
    };
    let mut arguments = Vec::new();
    if dice.roll(2) == 0 {
        arguments.push(format!("\"amount\": {}", dice.roll(200)));
    }
    if dice.roll(2) == 0 {
        arguments.push(format!("\"path\": \"{}\"", dice.pick(&["/data/a", "/etc/b"])));
    }
    if dice.roll(2) == 0 {
        arguments.push(format!("\"force\": {}", dice.pick(&["true", "false"])));
    }
    (act, format!("{{{}}}", arguments.join(", ")))
}

/// Everything that is known of a request, as plain Cedar wants it, written without the code that is tested.
fn plain_request(who: &Asker, door: &str, act: &Act, moment: &Moment<'_>) -> (Request, Entities) {
    let arguments = std::str::from_utf8(moment.arguments.expect("they are rolled")).expect("a text");
    let uid = |text: String| -> EntityUid { text.parse().expect("an entity") };
    let (of_type, id) = match who.principal.as_str().split_once(':') {
        Some(("user", id)) => ("User", id),
        Some(("key", id)) => ("Key", id),
        Some((_, id)) => ("Service", id),
        None => ("Local", who.principal.as_str()),
    };
    let principal = uid(format!("{of_type}::\"{id}\""));
    let roles = Role::ALL.into_iter().filter(|role| *role <= who.role).map(|role| format!("Role::\"{role}\""));
    let groups = who.identity.groups.iter().map(|group| format!("Group::\"acme/{group}\""));
    let profile = [format!("Profile::\"{}\"", who.profile)];
    let parents: HashSet<EntityUid> = roles.chain(groups).chain(profile).map(uid).collect();
    let text = |value: &str| RestrictedExpression::new_string(value.to_owned());
    let flag = RestrictedExpression::new_bool;
    let (action, resource, parents_of_resource, attributes) = match act {
        Act::Operation { name, needs_admin, annotations } => {
            let attributes = [
                ("name", text(name)),
                ("readOnly", flag(annotations.read_only == Some(true))),
                ("administrative", flag(*needs_admin)),
            ];
            (&**name, uid(format!("Operation::\"{name}\"")), HashSet::new(), attributes.to_vec())
        }
        Act::CallTool { tool, annotations } => {
            let labels = labels_of(&tool.to_string());
            let risks = labels.iter().filter_map(|label| label.strip_prefix("risk=")).map(text);
            let reads = annotations.read_only == Some(true);
            let mut attributes = vec![
                ("name", text(&tool.tool)),
                ("labels", RestrictedExpression::new_set(labels.iter().map(|label| text(label)))),
                ("risks", RestrictedExpression::new_set(risks)),
                ("readOnly", flag(reads)),
                ("destructive", flag(!reads && annotations.destructive != Some(false))),
                ("idempotent", flag(false)),
                ("openWorld", flag(true)),
            ];
            let mut of: HashSet<EntityUid> = labels.iter().map(|label| uid(format!("Label::\"{label}\""))).collect();
            if tool.server.as_str() == "workflow" {
                ("run", uid(format!("Workflow::\"{}\"", tool.tool)), of, attributes)
            } else {
                attributes.push(("server", text(tool.server.as_str())));
                of.insert(uid(format!("Server::\"{}\"", tool.server)));
                ("call", uid(format!("Tool::\"{tool}\"")), of, attributes)
            }
        }
        other => unreachable!("{other} is not rolled"),
    };
    let action = uid(format!("Action::\"{action}\""));
    let groups = matches!(act, Act::Operation { .. }).then(|| uid("Action::\"operate\"".to_owned()));
    let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let entities = Entities::from_entities(
        [
            Entity::new_no_attrs(principal.clone(), parents),
            Entity::new(resource.clone(), attributes, parents_of_resource).expect("plain values"),
            Entity::new_no_attrs(action.clone(), groups.into_iter().collect()),
        ],
        None,
    )
    .expect("no circle");
    let values: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments).expect("an object");
    let value = |value: &serde_json::Value| match value {
        serde_json::Value::Bool(it) => flag(*it),
        serde_json::Value::String(it) => text(it),
        other => RestrictedExpression::new_long(other.as_i64().expect("a whole number")),
    };
    let arguments = values.iter().map(|(name, it)| (name.clone(), value(it)));
    let proof = if who.identity.proof == Proof::Key { "key" } else { "access-token" };
    let chain = moment.chain.expect("it is rolled");
    let links = [("actor", moment.actor), ("workflow", chain.workflow.as_deref()), ("run", chain.run.as_deref())];
    let links = links.into_iter().filter_map(|(name, value)| Some((name.to_owned(), text(value?))));
    let seen = chain.labels.iter().map(|label| text(label));
    let context = Context::from_pairs([
        ("door".to_owned(), text(door)),
        ("proof".to_owned(), text(proof)),
        ("time".to_owned(), RestrictedExpression::new_datetime(moment.at.to_string())),
        ("chain".to_owned(), RestrictedExpression::new_record(links).expect("no key twice")),
        ("labels".to_owned(), RestrictedExpression::new_set(seen)),
        ("arguments".to_owned(), RestrictedExpression::new_record(arguments).expect("no key twice")),
    ]);
    let context = context.expect("plain values");
    (Request::new(principal, action, resource, context, None).expect("no schema"), entities)
}

/// Plain Cedar over all policies.
struct Plain {
    rules: PolicySet,
    asks: PolicySet,
}

impl Plain {
    fn new(text: &str) -> Self {
        let all: PolicySet = text.parse().expect("good policies");
        let is_ask = |it: &&Policy| it.annotation("confirm").is_some() || it.annotation("approve").is_some();
        let decides = |it: &&Policy| it.annotation("mode").is_none();
        let of = |asks: bool| all.policies().filter(decides).filter(move |it| is_ask(it) == asks).cloned();
        let [rules, asks] = [false, true].map(|asks| PolicySet::from_policies(of(asks)).expect("no id twice"));
        Self { rules, asks }
    }

    /// Yes, no, or ask.
    fn decide(&self, request: &Request, entities: &Entities) -> &'static str {
        let answer = |set: &PolicySet| {
            let answer = Authorizer::new().is_authorized(request, set, entities);
            let fails_closed = answer.diagnostics().errors().any(|error| {
                let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
                set.policy(error.policy_id()).expect("it is of the set").effect() == cedar_policy::Effect::Forbid
            });
            (answer, fails_closed)
        };
        let (rules, fails_closed) = answer(&self.rules);
        if rules.decision() == Decision::Deny || fails_closed {
            return "no";
        }
        let (asks, fails_closed) = answer(&self.asks);
        if asks.diagnostics().reason().next().is_some() || fails_closed { "ask" } else { "yes" }
    }
}

#[test]
fn classes_and_plain_cedar_agree() {
    let wanted = std::env::var("TOOLCRIB_AGREEMENT").ok().and_then(|it| it.parse().ok()).unwrap_or(REQUESTS);
    let mut dice = Dice(0x5eed_1e55_0dd5_0001);
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut made = 0;
    while made < wanted {
        let count = 4 + dice.roll(16);
        let policies: String = (0..count).map(|number| policy(&mut dice, number)).collect();
        let none = SHIPPED.map(|(file, _)| (file, ""));
        let texts = none.into_iter().chain([("team.cedar", &policies[..])]);
        let texts: Vec<PolicyText> =
            texts.map(|(file, text)| PolicyText { file: file.to_owned(), text: text.to_owned() }).collect();
        let compiled = Policies::compile(&texts, &operations()).unwrap_or_else(|it| panic!("{policies}\n{it:?}"));
        let plain = Plain::new(&policies);
        for _ in 0..REQUESTS_OF_ONE_SET {
            let ((who, door), (act, arguments)) = (anyone(&mut dice), anything(&mut dice));
            let at = Timestamp(NOON.0 - 3_600_000 * i64::try_from(dice.roll(3)).expect("small"));
            let (actor, chain) = led_by(&mut dice);
            let moment = Moment { actor, chain: Some(&chain), arguments: Some(arguments.as_bytes()), ..Moment::at(at) };
            let subject = Subject { door, ..who.subject() };
            let class = compiled.class(&subject);
            let ruling = class.decide(&act, &labels(), &moment);
            let is_hidden = matches!(ruling, PolicyVerdict::Deny { hidden: true, .. });
            assert_eq!(class.shows(&act, &labels()), !is_hidden, "{policies}\n{who:?} {door} {act} {arguments}");
            let found = match ruling {
                PolicyVerdict::Permit(_) => "yes",
                PolicyVerdict::Deny { .. } => "no",
                PolicyVerdict::Ask { .. } => "ask",
            };
            let (request, entities) = plain_request(&who, door, &act, &moment);
            assert_eq!(found, plain.decide(&request, &entities), "{policies}\n{who:?} {door} {act} {arguments} {at}");
            *seen.entry(found).or_default() += 1;
            made += 1;
        }
    }
    // Each answer is among them often enough to mean something.
    assert!(seen.values().all(|count| *count * 50 > made) && seen.len() == 3, "{seen:?}");
}
