//! What a service is, apart from how it is, and how both are written down.

use serde_json::{Map, Value, json};
use toolcrib_base::{PrincipalId, ProfileName, Role, Timestamp};
use toolcrib_catalog::{ObjectName, ServiceDefinition};
use toolcrib_store::ServiceRecord;

use super::host::Owner;
use super::life::{Life, State};

/// What a service is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Subject {
    pub(super) name: ObjectName,
    pub(super) class: ObjectName,
    pub(super) description: Option<String>,
    /// As its class asks for them, defaults included.
    pub(super) args: Map<String, Value>,
    pub(super) auto_start: bool,
    /// Beside those of its class.
    pub(super) dependencies: Vec<ObjectName>,
    /// Whether it has a file and is there again after a restart.
    pub(super) persists: bool,
    pub(super) owner: Owner,
    pub(super) created: Timestamp,
}

impl Subject {
    /// What its file says; who made it, and when, is what was written down of it.
    pub(super) fn of_file(
        definition: &ServiceDefinition,
        args: Map<String, Value>,
        record: Option<&ServiceRecord>,
        now: Timestamp,
    ) -> Self {
        let unowned = || Owner {
            // A file without a record was written by hand: its tools are called without any privilege.
            principal: PrincipalId::new("local"),
            role: Role::Member,
            profile: ProfileName::new("default").expect("`default` is a name"),
        };
        let recorded = |record: &ServiceRecord| Owner {
            principal: record.principal.clone(),
            role: record.role,
            profile: record.profile.clone(),
        };
        let mut owner = record.map_or_else(unowned, recorded);
        if let Some(profile) = &definition.profile {
            owner.profile = profile.clone();
        }
        Self {
            name: definition.name.clone(),
            class: definition.class.clone(),
            description: definition.description.clone(),
            args,
            auto_start: definition.auto_start,
            dependencies: definition.dependencies.clone(),
            persists: true,
            owner,
            created: record.map_or(now, |record| record.created_at),
        }
    }

    /// The definition for its file.
    pub(super) fn definition(&self) -> ServiceDefinition {
        ServiceDefinition {
            name: self.name.clone(),
            class: self.class.clone(),
            description: self.description.clone(),
            args: self.args.clone(),
            auto_start: self.auto_start,
            dependencies: self.dependencies.clone(),
            profile: Some(self.owner.profile.clone()),
        }
    }

    /// How it is now, to be written down.
    pub(super) fn record(&self, life: &Life) -> ServiceRecord {
        let body = json!({
            "class": self.class.as_str(), "kept": life.kept, "outputs": life.outputs, "error": life.error,
            "updated": life.updated, "checked": life.checked,
        });
        ServiceRecord {
            name: self.name.to_string(),
            principal: self.owner.principal.clone(),
            role: self.owner.role,
            profile: self.owner.profile.clone(),
            state: life.state.as_str().to_owned(),
            body: body.to_string(),
            created_at: self.created,
            updated_at: life.updated,
        }
    }
}

/// What a record reports a life, seen by a later process.
pub(super) fn remembered(record: &ServiceRecord, now: Timestamp) -> Life {
    let body: Value = serde_json::from_str(&record.body).unwrap_or_default();
    let map = |key: &str| body[key].as_object().cloned().unwrap_or_default();
    let time = |key: &str| body[key].as_i64().map(Timestamp);
    let life = Life {
        state: State::of(&record.state).unwrap_or(State::Unknown),
        error: body["error"].as_str().map(str::to_owned),
        kept: map("kept"),
        outputs: map("outputs"),
        updated: time("updated").unwrap_or(now),
        checked: time("checked"),
        ..Life::new(now)
    };
    life.after_restart()
}
