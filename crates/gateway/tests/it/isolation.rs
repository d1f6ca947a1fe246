//! Principals with credentials of their own at servers: each sees and uses what its credential shows, and no one else's.

mod driver;
mod world;

use std::sync::Arc;

use serde_json::json;
use toolcrib_base::ProfileName;
use toolcrib_session::Principal;
use toolcrib_store::Door;
use toolcrib_testgateway::{method_of, text_of};
use toolcrib_testkit::eventually;

use world::{PEOPLE, SERVERS, Wallet, World, everything, secrets_of};

const ANN: usize = 0;
const BOB: usize = 1;
const OWNER: usize = 3;

#[tokio::test]
async fn tools_are_shown_to_whom_they_were_listed_for() {
    let world = World::open(&Arc::default()).await;
    for (person, principal) in PEOPLE {
        let all = everything(&world, principal).await;
        assert!(!all.contains("Searches"), "{person} has not logged in: {all}");
    }
    for server in SERVERS {
        world.log_in(server, ANN, 1);
        world.until_shown(server, ANN, true).await;
    }
    let [mark, only] = secrets_of("ann");
    let all = everything(&world, PEOPLE[ANN].1).await;
    assert!(all.contains(&mark) && all.contains(&only), "{all}");
    let ann = world.gateway.modern_of(PEOPLE[ANN].1, "default");
    for server in SERVERS {
        let called = ann.call(&format!("{server}/{only}"), &json!({})).await;
        assert!(text_of(&called).contains(&mark), "{server}: the owner has not logged in, {called}");
    }
    for server in SERVERS {
        world.log_in(server, OWNER, 1);
        world.until_shown(server, OWNER, true).await;
    }
    for (person, principal) in PEOPLE {
        let all = everything(&world, principal).await;
        for (other, _) in PEOPLE.iter().filter(|(other, _)| *other != person) {
            assert!(secrets_of(other).iter().all(|secret| !all.contains(secret)), "{person} sees {other}: {all}");
        }
        assert_eq!(all.contains("Searches"), ["ann", "own"].contains(&person), "{person}: {all}");
    }
    assert_eq!(*world.wallet.crossed.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn without_a_credential_the_owner_s_is_not_used() {
    let wallet = Arc::<Wallet>::default();
    SERVERS.iter().for_each(|server| wallet.give(server, "local", "own", 1));
    let world = World::open(&wallet).await;
    let owner = world.gateway.modern("default");
    let bob = world.gateway.modern_of(PEOPLE[BOB].1, "default");
    let mark = &secrets_of("own")[0];
    for server in SERVERS {
        let called = owner.call(&format!("{server}/search"), &json!({})).await;
        assert!(text_of(&called).contains(mark), "{server}: {called}");
        let refused = bob.ask("tools/call", &json!({"name": format!("{server}/search")})).await;
        assert!(!format!("{refused:?}").contains(mark), "{server}: {refused:?}");
        // Nor does the connection give it away that is there: the view is not what keeps it.
        let client = toolcrib_upstream::Client { principal: Some(PEOPLE[BOB].1.into()), ..Default::default() };
        let call = toolcrib_upstream::Call { client, ..Default::default() };
        let params = toolcrib_protocol::Raw::from_value(&json!({"name": "search", "arguments": {}}));
        let outcome = world.gateway.server(server).call("tools/call", &params, call).await;
        assert!(outcome.is_err(), "{server}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_login_is_notified_and_a_logout_removes_what_it_showed() {
    let world = World::open(&Arc::default()).await;
    let (ann, bob) =
        (world.gateway.legacy_of(PEOPLE[ANN].1, "default"), world.gateway.legacy_of(PEOPLE[BOB].1, "default"));
    let (mut heard, mut others) = (ann.stream(), bob.stream());
    world.gateway.gateway.rebuild();
    world.log_in("leg", ANN, 1);
    world.until_shown("leg", ANN, true).await;
    let first = eventually("news", heard.recv()).await.unwrap();
    assert!(method_of(&first).ends_with("list_changed"), "{first:?}");
    let listed = ann.listed().await;
    assert!(listed.contains(&"leg_onlyann".to_owned()), "{listed:?}");

    world.log_out("leg", ANN).await;
    assert!(ann.listed().await.iter().all(|name| !name.starts_with("leg_")), "gone at once");
    let kept = world.gateway.gateway.store().own_snapshots();
    assert!(kept.of_server(&"leg".parse().unwrap()).unwrap().is_empty());
    world.log_in("mod", BOB, 1);
    world.until_shown("mod", BOB, true).await;
    let theirs = eventually("news", others.recv()).await.unwrap();
    assert!(method_of(&theirs).ends_with("list_changed"), "{theirs:?}");
    assert!(bob.listed().await.contains(&"mod_onlybob".to_owned()));
}

#[tokio::test]
async fn a_lapsed_login_keeps_its_owner_s_last_tools() {
    let world = World::open(&Arc::default()).await;
    world.log_in("leg", ANN, 1);
    world.until_shown("leg", ANN, true).await;
    world.wallet.expire("leg", PEOPLE[ANN].1);
    world.changed("leg", PEOPLE[ANN].1);
    let lapsed = |view: &toolcrib_view::View| view.tool("leg/onlyann").is_some_and(|it| it.state() == "needs-login");
    world.until_seen("the login lapses", PEOPLE[ANN].1, lapsed).await;
    let bob = everything(&world, PEOPLE[BOB].1).await;
    assert!(!bob.contains("onlyann"), "{bob}");
    world.log_in("leg", ANN, 2);
    let ready = |view: &toolcrib_view::View| view.tool("leg/onlyann").is_some_and(|it| it.state() == "ready");
    world.until_seen("it is back", PEOPLE[ANN].1, ready).await;
}

#[tokio::test]
async fn what_only_one_is_shown_is_approved_by_one_who_is_shown_it() {
    let world = World::open(&Arc::default()).await;
    for person in [ANN, BOB] {
        world.log_in("leg", person, 1);
        world.until_shown("leg", person, true).await;
    }
    let strict = |person: usize| world.gateway.modern_of(PEOPLE[person].1, "strict");
    let admin = |principal: &str| world.gateway.modern_of(principal, "default").admin();
    let held = strict(ANN).listed().await;
    assert!(held.iter().all(|name| !name.starts_with("leg_")), "{held:?}");
    let approve = async |principal: &str, arguments: &serde_json::Value| {
        let decided = admin(principal).call("core_mcpserver_approve", arguments).await;
        assert_ne!(decided["isError"], true, "{decided}");
    };
    let changes = async |principal: &str| {
        let changes = admin(principal).call("core_mcpserver_changes", &json!({"name": "leg"})).await;
        assert_ne!(changes["isError"], true, "{changes}");
        changes.to_string()
    };
    // Who approves sees what is its own, and what everyone sees; nothing of others.
    let (of_ann, of_owner) = (changes(PEOPLE[ANN].1).await, changes("local").await);
    assert!(of_ann.contains("onlyann") && !of_ann.contains("onlybob"), "{of_ann}");
    assert!(!of_owner.contains("onlyann") && !of_owner.contains("onlybob"), "{of_owner}");
    approve(PEOPLE[ANN].1, &json!({"name": "leg", "tools": ["onlyann", "search"]})).await;
    assert_eq!(strict(ANN).listed().await.iter().filter(|name| name.starts_with("leg_")).count(), 2);
    let only = strict(ANN).call("leg/onlyann", &json!({})).await;
    assert!(text_of(&only).contains("mk-ann-km"), "{only}");
    // The very same is approved for whoever is shown it; what others are shown alone is not.
    assert_eq!(strict(BOB).listed().await, ["leg_search"]);
    // It is not gone because others are not shown it.
    assert!(!changes(PEOPLE[BOB].1).await.contains("onlyann"));
    approve("local", &json!({"name": "leg"})).await;
    approve(PEOPLE[BOB].1, &json!({"name": "leg"})).await;
    assert!(strict(ANN).listed().await.contains(&"leg_onlyann".to_owned()));
    assert!(strict(BOB).listed().await.contains(&"leg_onlybob".to_owned()));
}

#[tokio::test]
async fn each_hears_of_changes_of_its_own_resources_with_its_own_credential() {
    let world = World::open(&Arc::default()).await;
    for server in ["mod", "leg"] {
        for person in [ANN, BOB] {
            world.log_in(server, person, 1);
            world.until_shown(server, person, true).await;
        }
    }
    let mut heard = Vec::new();
    for (person, (name, principal)) in PEOPLE.iter().enumerate().take(2) {
        let client = world.gateway.legacy_of(principal, "default");
        let news = client.stream();
        let only = &secrets_of(name)[1];
        // Of two servers with one URI the second has its name before it.
        for prefix in ["", "mod+"] {
            let uri = json!({"uri": format!("{prefix}note://{only}/a")});
            assert_eq!(client.ask("resources/subscribe", &uri).await, Ok(json!({})), "{name}: {uri}");
        }
        let other = &secrets_of(PEOPLE[1 - person].0)[1];
        let refused = client.ask("resources/subscribe", &json!({"uri": format!("note://{other}/a")})).await;
        assert!(refused.is_err(), "{name}: {refused:?}");
        heard.push((client, news));
    }
    let told = async |news: &mut toolcrib_session::Reader| {
        let mut uris = Vec::new();
        while uris.len() < 2 {
            let message = eventually("news", news.recv()).await.unwrap();
            if method_of(&message) == "notifications/resources/updated" {
                let message: serde_json::Value = serde_json::from_slice(&message).unwrap();
                uris.push(message["params"]["uri"].as_str().unwrap().to_owned());
            }
        }
        uris.sort();
        uris
    };
    for (person, (name, _)) in PEOPLE.iter().enumerate().take(2) {
        world.wallet.tell(name);
        let only = &secrets_of(name)[1];
        let uris = told(&mut heard[person].1).await;
        assert_eq!(uris, [format!("mod+note://{only}/a/part"), format!("note://{only}/a/part")]);
        assert!(
            heard[1 - person]
                .1
                .try_recv()
                .is_none_or(|message| method_of(&message) != "notifications/resources/updated")
        );
    }
    // Nothing more after the logout.
    world.log_out("leg", ANN).await;
    world.log_out("mod", ANN).await;
    world.wallet.tell("ann");
    world.wallet.tell("bob");
    told(&mut heard[1].1).await;
    let late =
        std::iter::from_fn(|| heard[0].1.try_recv()).find(|it| method_of(it) == "notifications/resources/updated");
    assert_eq!(late, None);
    assert_eq!(*world.wallet.crossed.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn equal_inventories_are_one_view() {
    let world = World::open(&Arc::default()).await;
    let principals: Vec<String> = (0..20).map(|index| format!("user:acme/p{index}")).collect();
    for principal in &principals {
        // To the server they are all the same person.
        world.wallet.give("mod", principal, "ann", 1);
        world.changed("mod", principal);
    }
    let profile = ProfileName::new("default").unwrap();
    for principal in &principals {
        world.until_seen("its tool", principal, |view| view.tool("mod/onlyann").is_some()).await;
    }
    let view = |principal: &str| {
        world.gateway.gateway.path.views.seen_by(&profile, &Principal::member(principal), Door::MCP).unwrap()
    };
    assert!(principals.iter().all(|principal| Arc::ptr_eq(&view(principal), &view(&principals[0]))));
    let none = (view("user:acme/none"), view("user:acme/other"));
    assert!(Arc::ptr_eq(&none.0, &none.1) && !Arc::ptr_eq(&none.0, &view(&principals[0])));
}
