//! kill -9 between any two steps: what was begun goes on, or a new login works. Nothing is left but the rows.

use toolcrib_login::{LoginError, LoginState};
use toolcrib_testkit::provider::RemoteRules;

use crate::world::{World, owner};

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
    use toolcrib_login::CredentialRow;
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
