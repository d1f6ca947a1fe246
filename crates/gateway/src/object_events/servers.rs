//! Events of servers, derived from their definitions, states and inventories.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_base::ServerName;
use toolcrib_catalog::ServerDefinition;
use toolcrib_store::Facts;
use toolcrib_upstream::{Inventory, State, Status};
use toolcrib_view::ObjectKind;

use super::ObjectEvent;
use super::digest::{digest, is_comparable};

/// The facts that say which definitions were known, so that what changed while no one ran is told too.
const DEFINED: &str = "defined";

/// The state that was last reported of each server.
#[derive(Debug)]
pub(crate) struct ServerEvents {
    facts: Facts,
    /// A digest of each definition; read from the facts at the start.
    defined: Mutex<BTreeMap<String, String>>,
    states: Mutex<BTreeMap<ServerName, ReportedState>>,
}

/// The state of one server, as it was last reported.
#[derive(Debug, Clone)]
struct ReportedState {
    state: State,
    /// It failed and has not been ready since, with the last reason.
    outage: Option<String>,
    tools: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn normal(server: &str, reason: &'static str, message: String) -> ObjectEvent {
    ObjectEvent::normal(ObjectKind::McpServer, server, reason, message)
}

fn warning(server: &str, reason: &'static str, message: String) -> ObjectEvent {
    ObjectEvent::warning(ObjectKind::McpServer, server, reason, message)
}

// === impl ServerEvents ===

impl ServerEvents {
    /// Reads which definitions were known. Blocks.
    pub(crate) fn new(facts: Facts) -> Self {
        let known = facts.all(DEFINED).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the list of defined servers");
            Vec::new()
        });
        let defined = known.into_iter().map(|(name, fact)| (name, fact.value)).collect();
        Self { facts, defined: Mutex::new(defined), states: Mutex::default() }
    }

    /// Compares the definitions with those of before. Blocks: it remembers them.
    pub(crate) fn of_definitions(&self, servers: &BTreeMap<ServerName, Arc<ServerDefinition>>) -> Vec<ObjectEvent> {
        let mut defined = lock(&self.defined);
        let mut events = Vec::new();
        let gone: Vec<String> = defined.keys().filter(|name| !servers.contains_key(name.as_str())).cloned().collect();
        for name in gone {
            defined.remove(&name);
            lock(&self.states).remove(name.as_str());
            events.push(normal(&name, "Deleted", format!("server `{name}` was removed")));
            self.remember(&name, None);
        }
        for (name, definition) in servers {
            let digest = digest(definition);
            let name = name.as_str();
            match defined.get(name) {
                Some(before) if *before == digest => continue,
                // Written by an earlier version, in a way that says nothing now.
                Some(before) if !is_comparable(before) => {}
                Some(_) => events.push(normal(name, "Updated", format!("the definition of server `{name}` changed"))),
                None => {
                    let kind = definition.transport.kind();
                    events.push(normal(name, "Created", format!("server `{name}` ({kind}) was defined")));
                }
            }
            self.remember(name, Some(&digest));
            defined.insert(name.to_owned(), digest);
        }
        events
    }

    fn remember(&self, name: &str, digest: Option<&str>) {
        let kept = match digest {
            Some(digest) => self.facts.put(DEFINED, name, digest),
            None => self.facts.remove(DEFINED, name).map(|_| ()),
        };
        if let Err(error) = kept {
            tracing::warn!(server = name, %error, "failed to save the list of defined servers");
        }
    }

    /// What a new state means. A server that cannot be reached for hours tells each new reason once.
    pub(crate) fn of_state(&self, server: &ServerName, status: &Status) -> Vec<ObjectEvent> {
        if !self.is_defined(server) {
            return Vec::new();
        }
        let mut states = lock(&self.states);
        let first = ReportedState { state: State::Idle, outage: None, tools: 0 };
        let before = states.entry(server.clone()).or_insert(first);
        let (name, was) = (server.as_str(), before.state);
        if was == status.state {
            return Vec::new();
        }
        before.state = status.state;
        let why = status.last_error.as_deref().unwrap_or("no reason was given");
        match status.state {
            State::Starting if before.outage.is_some() => Vec::new(),
            State::Starting if was == State::Ready => {
                vec![normal(name, "Restarting", format!("server `{name}` is being restarted"))]
            }
            State::Starting => vec![normal(name, "Starting", format!("server `{name}` is being started"))],
            State::Installing if before.outage.is_some() => Vec::new(),
            State::Installing => {
                let message = format!("server `{name}` is started for the first time and is downloaded");
                vec![normal(name, "Installing", message)]
            }
            State::NeedsLogin => {
                before.outage = None;
                vec![warning(
                    name,
                    "LoginRequired",
                    format!("server `{name}` requires a login: `toolcrib login {name}`"),
                )]
            }
            State::Ready => {
                let mut events = vec![normal(name, "Started", format!("server `{name}` is ready"))];
                if before.outage.take().is_some() {
                    events.push(normal(name, "RecoverySucceeded", format!("server `{name}` is back")));
                }
                events
            }
            State::Failed => failed(name, was, before, why),
            State::Idle if was == State::Ready => {
                vec![normal(name, "Stopped", format!("server `{name}` was stopped because it was idle"))]
            }
            State::Idle => Vec::new(),
            State::Stopped => {
                before.outage = None;
                vec![normal(name, "Stopped", format!("server `{name}` was stopped"))]
            }
        }
    }

    /// What a server says after it was removed is no news.
    fn is_defined(&self, server: &ServerName) -> bool {
        lock(&self.defined).contains_key(server.as_str())
    }

    /// What a new inventory means.
    pub(crate) fn of_inventory(&self, server: &ServerName, inventory: &Inventory) -> Vec<ObjectEvent> {
        if !self.is_defined(server) {
            return Vec::new();
        }
        let (name, tools) = (server.as_str(), inventory.tools.len());
        let mut states = lock(&self.states);
        let known =
            states.entry(server.clone()).or_insert(ReportedState { state: State::Idle, outage: None, tools: 0 });
        let before = std::mem::replace(&mut known.tools, tools);
        if tools == 0 && before > 0 {
            return vec![warning(name, "ToolsUnavailable", format!("server `{name}` has no tools any more"))];
        }
        if inventory.is_own {
            // How many there are, only their owner sees.
            return vec![normal(name, "ToolsDiscovered", format!("server `{name}` offers tools to its owner"))];
        }
        vec![normal(name, "ToolsDiscovered", format!("server `{name}` offers {tools} tools"))]
    }
}

/// A failure: the first of an outage is told whole, later ones where they say something new.
fn failed(name: &str, was: State, told: &mut ReportedState, why: &str) -> Vec<ObjectEvent> {
    let before = told.outage.replace(why.to_owned());
    match (before, was) {
        (Some(before), _) if before == why => Vec::new(),
        (Some(_), _) => vec![warning(name, "RecoveryFailed", format!("server `{name}` is still away: {why}"))],
        (None, State::Ready) => {
            let mut events = vec![warning(name, "HealthCheckFailed", format!("server `{name}` was lost: {why}"))];
            if told.tools > 0 {
                let message = format!("the {} tools of server `{name}` do not answer", told.tools);
                events.push(warning(name, "ToolsUnavailable", message));
            }
            events.push(normal(name, "RecoveryStarted", format!("server `{name}` is being started again")));
            events
        }
        (None, _) => vec![
            warning(name, "Failed", format!("server `{name}` failed: {why}")),
            normal(name, "RecoveryStarted", format!("server `{name}` is being started again")),
        ],
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::Timestamp;
    use toolcrib_store::{Config, Store};

    use super::*;

    fn reasons(events: &[ObjectEvent]) -> Vec<&str> {
        events.iter().map(|it| it.reason).collect()
    }

    #[test]
    fn each_change_of_state_is_reported_and_an_outage_once() {
        let store = Store::in_memory(Config::default()).unwrap();
        let events = ServerEvents::new(store.facts());
        let server = ServerName::new("a").unwrap();
        lock(&events.defined).insert("a".to_owned(), String::new());
        let check = |state: State, error: Option<&str>, expect: &[&str]| {
            let last_error = error.map(str::to_owned);
            let (since, next_retry) = (Timestamp(0), None);
            let status = Status {
                state,
                since,
                last_error,
                timed_out: false,
                next_retry,
                restarts: 0,
                listed: true,
                note: None,
                half_written: None,
            };
            let told = events.of_state(&server, &status);
            assert_eq!(reasons(&told), expect, "{state:?} {error:?}");
            told
        };
        check(State::Idle, None, &[]);
        check(State::Starting, None, &["Starting"]);
        let told = check(State::Failed, Some("no program"), &["Failed", "RecoveryStarted"]);
        assert!(told[0].warning && told[0].message.contains("no program"));
        for _ in 0..3 {
            check(State::Starting, Some("no program"), &[]);
            check(State::Failed, Some("no program"), &[]);
        }
        check(State::Starting, Some("no program"), &[]);
        check(State::Failed, Some("no answer"), &["RecoveryFailed"]);
        check(State::Starting, Some("no answer"), &[]);
        check(State::Ready, None, &["Started", "RecoverySucceeded"]);
        check(State::Ready, None, &[]);
        check(State::Failed, Some("it crashed"), &["HealthCheckFailed", "RecoveryStarted"]);
        check(State::Stopped, None, &["Stopped"]);
        check(State::Starting, None, &["Starting"]);
        check(State::Ready, None, &["Started"]);
        check(State::Starting, None, &["Restarting"]);
        check(State::Ready, None, &["Started"]);
        check(State::Idle, None, &["Stopped"]);
        lock(&events.defined).clear();
        check(State::Stopped, None, &[]);
    }

    #[test]
    fn definitions_are_compared_with_those_of_the_last_start() {
        let store = Store::in_memory(Config::default()).unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("servers")).unwrap();
        let file = |name: &str| home.path().join(format!("servers/{name}.yaml"));
        let servers = || toolcrib_catalog::load(home.path()).servers;
        let check = |expect: &[(&str, &str)]| {
            // Each time as after a start.
            let events = ServerEvents::new(store.facts());
            let told = events.of_definitions(&servers());
            let told: Vec<_> = told.iter().map(|it| (it.name.as_str(), it.reason)).collect();
            assert_eq!(told, expect);
            assert!(events.of_definitions(&servers()).is_empty(), "and only once");
        };
        check(&[]);
        std::fs::write(file("a"), "name: a\ncommand: run\n").unwrap();
        std::fs::write(file("b"), "name: b\ncommand: run\n").unwrap();
        check(&[("a", "Created"), ("b", "Created")]);
        std::fs::write(file("a"), "name: a\ncommand: walk\n").unwrap();
        check(&[("a", "Updated")]);
        store.facts().put(DEFINED, "a", "the digest of an earlier version").unwrap();
        check(&[]);
        std::fs::remove_file(file("b")).unwrap();
        check(&[("b", "Deleted")]);
    }
}
