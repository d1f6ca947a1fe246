//! The store at its public edge, on a real disk.

#![allow(clippy::unwrap_used, reason = "clippy allows it in test functions, not in what they share")]

mod agent_runs;
mod audit;
mod authorization;
mod call_approvals;
mod checkpoints;
mod kill;
mod logins;
mod open;
mod repositories;
mod runs;
mod tamper;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use toolcrib_base::{
    CredentialName, Identity, Kind, ManualClock, PrincipalId, ProfileName, Proof, Role, ServerName, Timestamp, ToolId,
};
use toolcrib_store::{AuditEvent, Config, Custody, Decision, Door, Outcome, Store};

/// A state folder that is gone after the test.
struct Home {
    _temporary: TempDir,
    state: PathBuf,
    clock: Arc<ManualClock>,
}

impl Home {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let state = temporary.path().join("home").join("state");
        Self { _temporary: temporary, state, clock: Arc::new(ManualClock::at(Timestamp(50_000))) }
    }

    fn open(&self) -> Store {
        Store::open(&self.state, self.config()).unwrap()
    }

    fn config(&self) -> Config {
        Config { clock: Arc::<ManualClock>::clone(&self.clock), ..Config::default() }
    }

    fn database(&self) -> PathBuf {
        self.state.join("toolcrib.db")
    }

    fn clock_now(&self) -> Timestamp {
        toolcrib_base::Clock::now(&*self.clock)
    }

    /// Sets the clock, forward or back.
    fn turn_clock(&self, to: Timestamp) {
        self.clock.advance(to.0 - self.clock_now().0);
    }

    /// The database as someone with a SQLite shell sees it.
    fn shell(&self) -> Connection {
        assert!(Path::exists(&self.database()));
        Connection::open(self.database()).unwrap()
    }
}

fn server(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

fn profile(name: &str) -> ProfileName {
    ProfileName::new(name).unwrap()
}

fn tool(id: &str) -> ToolId {
    ToolId::parse(id).unwrap()
}

/// A custody with all that there can be.
fn custody() -> Custody {
    let identity = Identity {
        issuer: Some("acme".into()),
        client: Some("desktop".into()),
        credential: Some(CredentialName::of_hash(&[7; 32])),
        user: Some(PrincipalId::new("user:acme/ann")),
        actors: vec!["agent-2".into(), "agent-1".into()],
        ..Identity::by(Proof::AccessToken)
    };
    Custody {
        identity: Some(identity.into()),
        role: Some(Role::Member),
        client: Some("desktop 1.2.3".into()),
        bridge: Some("toolcrib 0.1.0".into()),
    }
}

/// Events that differ in every field from one number to the next.
fn event(number: u64) -> AuditEvent {
    let odd = number % 2 == 1;
    AuditEvent {
        at: Timestamp(i64::try_from(1_000 * number).unwrap()),
        principal: PrincipalId::new(if odd { "alice" } else { "bob" }),
        profile: odd.then(|| profile("default")),
        door: if odd { Door::MCP } else { Door::REST },
        method: if odd { "tools/call" } else { "resources/read" }.into(),
        target: format!("{}/tool_{number}", if odd { "files" } else { "time" }).into(),
        args_hash: None,
        arguments: odd.then(|| format!("{{\"n\":{number}}}")),
        decision: if odd { Decision::Permit("profile".into()) } else { Decision::Deny("not_allowed".into()) },
        outcome: if odd { Outcome::Error(Kind::Timeout) } else { Outcome::Denied },
        duration: Duration::from_micros(number),
        request_id: number.to_string(),
        session: odd.then(|| "s".into()),
        credential: odd.then_some("forwarded"),
        address: odd.then_some(std::net::IpAddr::from([192, 0, 2, 7])),
        guard: odd.then(|| "result github-token 1 recorded".to_owned()),
        custody: if odd { custody() } else { Custody::default() },
        policies: odd.then(|| "prod/only-reads, night".to_owned()),
        approval: odd.then(|| "apr_1".to_owned()),
        approver: odd.then(|| PrincipalId::new("bob")),
        halt: odd.then(|| "hlt_1".to_owned()),
        canary: odd.then(|| "cnr_1".to_owned()),
    }
}

async fn record(store: &Store, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let mut event = event(number);
        event.args_hash = Some(store.audit().hash_arguments(&number.to_be_bytes()));
        store.audit().reserve().await.unwrap().record(event);
    }
}
