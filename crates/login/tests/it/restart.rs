//! kill -9 between any two steps: what was begun goes on, or a new login works. Nothing is left but the rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolcrib_base::{ManualClock, ServerName, Timestamp};
use toolcrib_login::{
    CredentialRow, LoginError, LoginRows, LoginState, MemoryRows, Owner, PendingRow, RegistrationRow, RowError,
};
use toolcrib_testkit::provider::RemoteRules;

use crate::world::{World, owner};

/// The rows of a process that is killed: after so many writes nothing reaches them.
#[derive(Debug, Default)]
struct KilledRows {
    rows: MemoryRows,
    left: AtomicUsize,
}

impl KilledRows {
    fn write<T>(&self, act: impl FnOnce(&MemoryRows) -> Result<T, RowError>) -> Result<T, RowError> {
        let take = |left: usize| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => act(&self.rows),
            Err(_) => Err(RowError("killed".to_owned())),
        }
    }
}

impl LoginRows for KilledRows {
    fn credential(&self, server: &ServerName, owner: &Owner) -> Result<Option<CredentialRow>, RowError> {
        self.rows.credential(server, owner)
    }
    fn put_credential(&self, row: &CredentialRow) -> Result<(), RowError> {
        self.write(|rows| rows.put_credential(row))
    }
    fn remove_credential(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.write(|rows| rows.remove_credential(server, owner))
    }
    fn pending(&self) -> Result<Vec<PendingRow>, RowError> {
        self.rows.pending()
    }
    fn put_pending(&self, row: &PendingRow) -> Result<(), RowError> {
        self.write(|rows| rows.put_pending(row))
    }
    fn remove_pending(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.write(|rows| rows.remove_pending(server, owner))
    }
    fn registration(&self, server: &ServerName, issuer: &str, to: &str) -> Result<Option<RegistrationRow>, RowError> {
        self.rows.registration(server, issuer, to)
    }
    fn put_registration(&self, row: &RegistrationRow) -> Result<(), RowError> {
        self.write(|rows| rows.put_registration(row))
    }
    fn remove_registration(&self, server: &ServerName, issuer: &str, to: &str) -> Result<(), RowError> {
        self.write(|rows| rows.remove_registration(server, issuer, to))
    }
}

/// A login, a renewal because of time and one because of a refusal; whatever stops it stops it.
async fn live(world: &World) -> Result<(), LoginError> {
    let begin = toolcrib_login::Begin::New;
    let ticket = world.logins.begin(&world.server, &owner(), None, begin).await?.ticket;
    let answer = world.agree(&world.open(&ticket).await?);
    world.complete(&answer).await?;
    world.advance(3_601);
    let token = world.token().await?;
    let sent = token.map(|token| [(http::header::AUTHORIZATION, token.parse().unwrap())].into_iter().collect());
    world.logins.rejected(&world.server, &owner(), sent.as_ref(), None).await?;
    world.logins.logout(&world.server, &owner()).await.map(drop)
}

#[tokio::test]
async fn a_kill_after_any_write_leaves_a_login_that_works_or_the_need_for_one() {
    let clock = Arc::new(ManualClock::at(Timestamp(1_795_132_800_000)));
    let (mut writes, mut ended) = (0, false);
    while !ended {
        let rows = Arc::<KilledRows>::default();
        rows.left.store(writes, Ordering::SeqCst);
        let mut world = World::on(Arc::clone(&rows) as Arc<dyn LoginRows>, &clock, RemoteRules::default());
        ended = live(&world).await.is_ok();
        // The next process: what it holds works, or it says that somebody has to log in.
        rows.left.store(usize::MAX, Ordering::SeqCst);
        world.restart();
        world.advance(3_601);
        match world.token().await.unwrap() {
            Some(token) => assert_eq!(world.call(Some(&token)).await.0, 200, "after {writes} writes"),
            None => {
                let state = &world.logins.status(&owner()).await.unwrap()[0].state;
                let is_said = matches!(state, LoginState::LoggedOut | LoginState::NeedsLogin { .. });
                assert!(is_said, "after {writes} writes: {state:?}");
            }
        }
        world.log_in().await;
        let token = world.token().await.unwrap();
        assert_eq!(world.call(token.as_deref()).await.0, 200, "after {writes} writes");
        writes += 1;
    }
    // Its link, its client, its page, its answer, its token, its client's confirmation, two renewals, its end.
    assert_eq!(writes, 10);
}

#[tokio::test]
async fn every_step_of_a_login_survives_a_restart() {
    let mut world = World::new(RemoteRules::default());
    let ticket = world.ticket().await;
    world.restart();
    let url = world.open(&ticket).await.unwrap();
    world.restart();
    assert_eq!(world.open(&ticket).await, Err(LoginError::Ticket));
    let answer = world.agree(&url);
    world.restart();
    world.complete(&answer).await.unwrap();
    world.restart();
    assert_eq!(world.complete(&answer).await, Err(LoginError::State));
    let token = world.token().await.unwrap();
    assert_eq!(world.call(token.as_deref()).await.0, 200);
    world.advance(3_601);
    world.restart();
    let renewed = world.token().await.unwrap();
    assert_ne!(renewed, token);
    world.restart();
    assert_eq!(world.token().await.unwrap(), renewed);
    assert_eq!(world.remote.refreshes(), 1);
    world.logins.logout(&world.server, &owner()).await.unwrap();
    world.restart();
    assert_eq!(world.token().await, Ok(None));
}

#[tokio::test]
async fn a_kill_between_the_answer_and_its_row_needs_a_login() {
    // The provider has given tokens that nobody has stored: for a login and for a renewal.
    let mut world = World::new(RemoteRules::default());
    let answer = world.answer().await;
    let pending = world.rows.pending().unwrap();
    world.complete(&answer).await.unwrap();
    world.rows.remove_credential(&world.server, &owner()).unwrap();
    pending.iter().for_each(|row| world.rows.put_pending(row).unwrap());
    world.restart();
    // The code was used up at the provider.
    assert!(matches!(world.complete(&answer).await, Err(LoginError::Refused { .. })));
    assert_eq!(world.token().await, Ok(None));
    world.log_in().await;
    let before = world.rows.credential(&world.server, &owner()).unwrap().unwrap();
    world.advance(3_601);
    world.token().await.unwrap();
    world.rows.put_credential(&before).unwrap();
    world.restart();
    assert_eq!(world.token().await, Ok(None));
    let status = world.logins.status(&owner()).await.unwrap();
    assert!(matches!(&status[0].state, LoginState::NeedsLogin { reason } if reason.starts_with("invalid_grant")));
    world.log_in().await;
    assert!(world.token().await.unwrap().is_some());
}

#[tokio::test]
async fn rows_that_this_program_did_not_write_are_no_credentials() {
    use toolcrib_base::Secret;
    let mut world = World::new(RemoteRules::default());
    world.log_in().await;
    let row = world.rows.credential(&world.server, &owner()).unwrap().unwrap();
    for wrong in [
        CredentialRow { content: Secret::new("{}"), ..row.clone() },
        CredentialRow { content: Secret::new(""), ..row.clone() },
        CredentialRow { issuer: "https://other.example".into(), ..row.clone() },
        CredentialRow { client_id: "other".into(), ..row.clone() },
    ] {
        world.rows.put_credential(&wrong).unwrap();
        world.restart();
        assert_eq!(world.token().await, Ok(None));
    }
    world.rows.put_credential(&row).unwrap();
    world.restart();
    assert!(world.token().await.unwrap().is_some());
}
