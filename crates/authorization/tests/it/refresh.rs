//! Refresh tokens: the next one each time, the same answer for a moment, and the end for one that was stolen.

use crate::world::{World, text};

#[tokio::test]
async fn each_refresh_token_is_followed_by_the_next() {
    let world = World::of_team();
    let first = world.tokens().await;
    world.clock.advance(600_000);
    let second = world.refreshed(&text(&first, "refresh_token")).await.unwrap();
    let world = world.restarted();
    world.clock.advance(600_000);
    let third = world.refreshed(&text(&second, "refresh_token")).await.unwrap();
    let tokens = [&first, &second, &third].map(|answer| text(answer, "refresh_token"));
    assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2]);
    world.proves(&text(&third, "access_token"), "work").await.unwrap();
    world.clock.advance(30 * 24 * 3_600_000);
    assert!(world.refreshed(&tokens[2]).await.is_err(), "the session has ended by itself");
}

#[tokio::test]
async fn who_did_not_hear_the_answer_gets_it_again_for_a_moment() {
    let world = World::of_team();
    let first = text(&world.tokens().await, "refresh_token");
    let answer = world.refreshed(&first).await.unwrap();
    world.clock.advance(29_999);
    let world = world.restarted();
    assert_eq!(world.refreshed(&first).await.unwrap(), answer);
    let next = world.refreshed(&text(&answer, "refresh_token")).await.unwrap();
    world.proves(&text(&next, "access_token"), "work").await.unwrap();
}

#[tokio::test]
async fn a_refresh_token_that_comes_again_later_ends_its_session() {
    for later in [30_000, -3_600_000] {
        let world = World::of_team();
        let first = text(&world.tokens().await, "refresh_token");
        let answer = world.refreshed(&first).await.unwrap();
        world.clock.advance(later);
        assert_eq!(world.refreshed(&first).await.unwrap_err().code.as_str(), "invalid_grant");
        assert!(world.refreshed(&text(&answer, "refresh_token")).await.is_err(), "its successor, too");
        let world = world.restarted();
        assert!(world.proves(&text(&answer, "access_token"), "work").await.is_err());
    }
}

#[tokio::test]
async fn an_old_refresh_token_ends_its_session_however_old_it_is() {
    let world = World::of_team();
    let first = text(&world.tokens().await, "refresh_token");
    let second = text(&world.refreshed(&first).await.unwrap(), "refresh_token");
    let third = text(&world.refreshed(&second).await.unwrap(), "refresh_token");
    assert!(world.refreshed(&first).await.is_err());
    assert!(world.refreshed(&third).await.is_err());
}

#[tokio::test]
async fn one_that_was_made_up_ends_nothing() {
    let world = World::of_team();
    let token = text(&world.tokens().await, "refresh_token");
    let (rest, tag) = token.rsplit_once('.').unwrap();
    let (session, _) = rest.rsplit_once('.').unwrap();
    for forged in [
        format!("{session}.{}.{tag}", "0".repeat(64)),
        format!("{rest}.{}", tag.replace(|_: char| true, "A")),
        session.to_owned(),
        format!("{token}.x"),
        String::from("x"),
    ] {
        assert!(world.refreshed(&forged).await.is_err(), "{forged}");
    }
    world.refreshed(&token).await.unwrap();
}

#[tokio::test]
async fn a_refresh_token_is_its_clients_and_gives_no_more() {
    let world = World::of_team();
    let token = text(&world.tokens().await, "refresh_token");
    let body = |more: &str| format!("grant_type=refresh_token&refresh_token={token}&{more}");
    for (more, expected) in [
        ("client_id=https%3A%2F%2Fhosted.example%2Fclient.json", "invalid_grant"),
        ("client_id=editor&resource=https%3A%2F%2Ftools.example.com", "invalid_target"),
        ("client_id=editor&scope=tools+admin", "invalid_scope"),
        ("client_id=editor&client_id=editor", "invalid_request"),
    ] {
        assert_eq!(world.token(&body(more)).await.unwrap_err().code.as_str(), expected, "{more}");
    }
    world.token(&body("client_id=editor&scope=tools")).await.unwrap();
}
