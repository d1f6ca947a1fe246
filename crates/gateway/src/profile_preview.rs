//! Who would see what if a profile said something else. Nothing is remembered of it, least of all names.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use toolcrib_base::{Identity, PrincipalId, Proof, Role, ToolId};
use toolcrib_catalog::{ChangedTools, ProfileDefinition};
use toolcrib_policy::{Caller, ClassRules, Request, Subject};
use toolcrib_view::view::{View, VisibilityRules};

use crate::economy;
use crate::gateway::Gateway;
use crate::policies::labels;
use toolcrib_call::pins::Quarantine;

/// How many tools are named that come or go.
const NAMED: usize = 100;
/// For how many keys it is said what they see.
const KEYS: usize = 50;

/// Someone who may use a profile.
struct Person {
    words: String,
    principal: PrincipalId,
    role: Role,
    proof: Proof,
}

impl Gateway {
    /// What a profile would show, compared with what one of its name shows now. Blocks: it counts tokens.
    pub(crate) fn profile_preview(&self, profile: ProfileDefinition) -> Value {
        let name = profile.name.to_string();
        let people = people(&profile);
        let takes_key = profile.keys.is_some();
        let (before, after) = (self.view(&name), self.rehearsed_view(&Arc::new(profile)));
        let ids = |view: &View| view.tools.iter().map(|tool| tool.id.clone()).collect::<BTreeSet<ToolId>>();
        let then = ids(&after);
        let now = before.as_deref().map(ids).unwrap_or_default();
        let named = |ids: &BTreeSet<ToolId>, others: &BTreeSet<ToolId>| -> (Vec<String>, usize) {
            let all = ids.difference(others);
            (all.clone().take(NAMED).map(ToString::to_string).collect(), all.count())
        };
        let ((comes, comes_total), (goes, goes_total)) = (named(&then, &now), named(&now, &then));
        let who: Vec<Value> = people
            .iter()
            .map(|person| {
                let count = |view: &View| self.tools_of(view, person);
                json!({ "who": person.words, "tools": count(&after), "before": before.as_deref().map(count) })
            })
            .collect();
        json!({
            "name": name, "before": before.as_deref().map(counted), "after": counted(&after),
            "comes": comes, "comesTotal": comes_total, "goes": goes, "goesTotal": goes_total, "who": who,
            "takesKey": takes_key,
        })
    }

    fn rehearsed_view(&self, profile: &Arc<ProfileDefinition>) -> View {
        let builder = {
            let building = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
            building.0.clone().rehearsing()
        };
        let servers = self.entry_runs.seen(self.path.servers.table());
        let holds = profile.changed_tools == ChangedTools::Hold;
        let held = if holds { Quarantine::default().update(&servers, &self.path.pins) } else { Arc::default() };
        builder.view(profile, &servers, &VisibilityRules { held, policies: None })
    }

    /// How many tools of a view someone sees, by the rules of the profile and by policies.
    fn tools_of(&self, view: &View, person: &Person) -> usize {
        let Person { principal, role, proof, .. } = person;
        let identity = Identity::by(*proof);
        let profile = &view.profile.name;
        let subject = Subject { principal, role: *role, identity: &identity, profile, door: "mcp" };
        let rules = self
            .policies
            .policies()
            .map(|policies| ClassRules { class: policies.class(&subject), labels: Arc::new(labels(&self.loaded())) });
        let rules = view.rules.clone().with_policies(rules);
        let shows = |tool: &toolcrib_view::Tool| {
            let act = tool.act();
            rules.visible(&Request { caller: Caller { principal, role: *role }, act: &act })
        };
        view.tools.iter().filter(|tool| shows(tool)).count()
    }
}

/// The roles that may use a profile, and its keys.
fn people(profile: &ProfileDefinition) -> Vec<Person> {
    let of_role = |role: Role| Person {
        words: format!("role {role}"),
        principal: PrincipalId::new("user:"),
        role,
        proof: Proof::AccessToken,
    };
    let mut people: Vec<Person> = [Role::Viewer, Role::Member, Role::Operator, Role::Admin].map(of_role).into();
    people.extend(profile.keys.iter().flatten().take(KEYS).map(|key| Person {
        words: format!("key {}, role {}", key.name, key.role),
        principal: PrincipalId::new(&format!("key:{}/{}", profile.name, key.name)),
        role: key.role,
        proof: Proof::Key,
    }));
    people
}

/// How many tools a view has, and the tokens that a client loads of them.
fn counted(view: &View) -> Value {
    let costs = economy::costs(view);
    json!({
        "tools": view.tools.len(), "servers": view.servers.len(), "exposure": view.profile.exposure.as_str(),
        "listed": costs.listed, "everything": costs.everything,
    })
}
