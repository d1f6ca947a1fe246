//! The owner approves a client by the code that its page shows.

use toolcrib_authorization::{ApprovalGrant, AuthorizeRefusal, ReturnStep};
use toolcrib_base::{Kind, ProfileName, Role};

use crate::world::{World, parameter, text};

async fn code(world: &World, name: &toolcrib_base::Secret) -> String {
    match world.resumed(name, None).await.unwrap() {
        ReturnStep::Approve { code, client_name } => {
            assert_eq!(client_name, "Editor");
            code.expose().to_owned()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_owner_reads_what_a_code_approves_and_approves_it() {
    let world = World::of_owner();
    let name = world.allowed(&[]).await;
    let shown = code(&world, &name).await;
    let world = world.restarted();
    assert_eq!(code(&world, &name).await, shown, "the page shows the same one");
    let description = world.server.describe(&shown.to_lowercase().replace('-', " ")).await.unwrap();
    assert_eq!((description.client_name.as_str(), description.address.as_str()), ("Editor", "192.0.2.1"));
    assert_eq!(description.profile, Some(ProfileName::new("work").unwrap()));
    let grant = ApprovalGrant { role: Some(Role::Operator), profiles: Vec::new() };
    world.server.approve(&shown, grant.clone()).await.unwrap();
    assert_eq!(world.server.approve(&shown, grant).await.unwrap_err().kind, Kind::NotFound, "once");
    let Ok(ReturnStep::Return(url)) = world.resumed(&name, None).await else { panic!() };
    let tokens = world.redeemed(&parameter(&url, "code").unwrap(), &[]).await.unwrap();
    let known = world.proves(&text(&tokens, "access_token"), "work").await.unwrap();
    let work = ProfileName::new("work").unwrap();
    assert_eq!((known.id.as_str(), known.role_in(&work)), ("local", Some(Role::Operator)));
}

#[tokio::test]
async fn a_code_opens_nothing_in_another_browser() {
    let world = World::of_owner();
    let name = world.allowed(&[]).await;
    let shown = code(&world, &name).await;
    world.server.approve(&shown, ApprovalGrant::default()).await.unwrap();
    let other = toolcrib_base::Secret::new("toolcrib-consent-7=7");
    assert!(matches!(world.resumed_in(&name, None, &other).await, Err(AuthorizeRefusal::Page(_))));
}

#[tokio::test]
async fn the_owner_refuses_a_client() {
    let world = World::of_owner();
    let name = world.allowed(&[]).await;
    let shown = code(&world, &name).await;
    world.server.deny(&shown).await.unwrap();
    let Ok(ReturnStep::Return(url)) = world.resumed(&name, None).await else { panic!() };
    assert_eq!(parameter(&url, "error").as_deref(), Some("access_denied"));
}

#[tokio::test]
async fn who_asks_for_the_whole_gateway_gets_named_profiles() {
    let world = World::of_owner();
    let name = world.allowed(&[("resource", "")]).await;
    let shown = code(&world, &name).await;
    let error = world.server.approve(&shown, ApprovalGrant::default()).await.unwrap_err();
    assert_eq!(error.kind, Kind::InvalidParams);
    let profiles = vec![ProfileName::new("home").unwrap()];
    world.server.approve(&shown, ApprovalGrant { role: None, profiles }).await.unwrap();
    let Ok(ReturnStep::Return(url)) = world.resumed(&name, None).await else { panic!() };
    let tokens = world.redeemed(&parameter(&url, "code").unwrap(), &[]).await.unwrap();
    let known = world.proves(&text(&tokens, "access_token"), "home").await.unwrap();
    assert_eq!(known.role_in(&ProfileName::new("work").unwrap()), None);
}

#[tokio::test]
async fn codes_end_and_cannot_be_guessed_without_end() {
    let world = World::of_owner();
    let name = world.allowed(&[]).await;
    let shown = code(&world, &name).await;
    for _ in 0..10 {
        assert_eq!(world.server.describe("BBBB-BBBB").await.unwrap_err().kind, Kind::NotFound);
    }
    assert_eq!(world.server.approve(&shown, ApprovalGrant::default()).await.unwrap_err().kind, Kind::Busy);
    world.clock.advance(60_000);
    world.server.describe(&shown).await.unwrap();
    world.clock.advance(540_001);
    assert_eq!(world.server.describe(&shown).await.unwrap_err().kind, Kind::NotFound);
    assert!(matches!(world.resumed(&name, None).await, Err(AuthorizeRefusal::Page(_))));
}

#[tokio::test]
async fn where_there_is_a_provider_no_code_is_approved() {
    let world = World::of_team();
    let name = world.allowed(&[]).await;
    assert_eq!(world.resumed(&name, None).await.unwrap(), ReturnStep::SignIn("acme".into()));
}
