//! The repositories: what was put is there after a restart, and what is not there is `None`.

use toolcrib_base::{PrincipalId, Role, Timestamp, ToolId};
use toolcrib_store::{
    ActiveTool, Facts, Names, PinChange, Pins, ServiceRecord, Services, Snapshot, Snapshots, StoreError, TaskRecord,
    Tasks,
};

use crate::{Home, profile, server, tool};

fn snapshot(name: &str, taken_at: i64, inventory: &str) -> Snapshot {
    let taken_at = Timestamp(taken_at);
    Snapshot { server: server(name), taken_at, definition_hash: "d".into(), inventory: inventory.into() }
}

#[test]
fn snapshots_are_kept_per_server() {
    let home = Home::new();
    let store = home.open();
    let snapshots = store.snapshots();
    assert_eq!(snapshots.get(&server("files")).unwrap(), None);
    assert!(!snapshots.remove(&server("files")).unwrap());
    snapshots.put(&snapshot("time", 1, "{\"tools\": [ ]}")).unwrap();
    snapshots.put(&snapshot("files", 2, "{}")).unwrap();
    snapshots.put(&snapshot("files", 3, "{\"tools\":[1]}")).unwrap();
    store.close_blocking().unwrap();
    drop((snapshots, store));

    let store = home.open();
    let (files, time) = (snapshot("files", 3, "{\"tools\":[1]}"), snapshot("time", 1, "{\"tools\": [ ]}"));
    assert_eq!(store.snapshots().get(&server("files")).unwrap(), Some(files.clone()));
    assert_eq!(store.snapshots().all().unwrap(), [files, time.clone()]);
    assert!(store.snapshots().remove(&server("files")).unwrap());
    assert_eq!(store.snapshots().all().unwrap(), [time]);
}

#[test]
fn too_large_values_are_refused() {
    let home = Home::new();
    let store = home.open();
    let large = snapshot("files", 1, &"x".repeat(Snapshots::INVENTORY_MAX + 1));
    assert!(matches!(store.snapshots().put(&large), Err(StoreError::TooLarge { .. })));
    let large = "x".repeat(Facts::VALUE_MAX + 1);
    assert!(matches!(store.facts().put("era", "files", &large), Err(StoreError::TooLarge { .. })));
    assert_eq!(store.snapshots().all().unwrap(), []);
    assert_eq!(store.facts().get("era", "files").unwrap(), None);
}

#[test]
fn a_row_with_a_name_that_is_none_harms_no_other() {
    let home = Home::new();
    let store = home.open();
    store.snapshots().put(&snapshot("files", 1, "{}")).unwrap();
    let kept = ActiveTool { tool: tool("files/a"), last_used: Timestamp(1) };
    store.active_sets().put(&PrincipalId::new("p"), &profile("default"), &[kept]).unwrap();
    let rows = "INSERT INTO snapshot VALUES ('../x', 1, 'd', '{}');
                INSERT INTO active_tool VALUES ('p', 'default', '../x', 'a', 1);
                INSERT INTO active_tool VALUES ('p', '../x', 'files', 'a', 1);
                INSERT INTO name VALUES ('default', 'a', '../x', 'a', 1);";
    home.shell().execute_batch(rows).unwrap();
    assert_eq!(store.snapshots().all().unwrap().len(), 1);
    assert_eq!(store.active_sets().all().unwrap().len(), 1);
    assert_eq!(store.names().all(&profile("default")).unwrap(), []);
    // The name counts as free.
    assert_eq!(store.names().claim(&profile("default"), &[("a", &tool("files/a"))]).unwrap(), [tool("files/a")]);
    assert_eq!(store.names().all(&profile("default")).unwrap()[0].owner, tool("files/a"));
}

#[test]
fn the_first_owner_keeps_a_name() {
    let home = Home::new();
    let store = home.open();
    let (files, git) = (tool("files/search"), tool("git/search"));
    let claims = [("search", &files), ("search", &git), ("git_search", &git)];
    let owners = store.names().claim(&profile("default"), &claims).unwrap();
    assert_eq!(owners, [files.clone(), files.clone(), git.clone()]);
    let elsewhere = store.names().claim(&profile("other"), &[("search", &git)]).unwrap();
    assert_eq!(elsewhere, std::slice::from_ref(&git));
    store.close_blocking().unwrap();
    drop(store);

    let store = home.open();
    let again = store.names().claim(&profile("default"), &[("search", &git)]).unwrap();
    assert_eq!(again, std::slice::from_ref(&files));
    let names = store.names().all(&profile("default")).unwrap();
    let names: Vec<_> = names.into_iter().map(|name| (name.exposed, name.owner, name.remembered_at.0)).collect();
    assert_eq!(names, [("git_search".to_owned(), git, 50_000), ("search".to_owned(), files, 50_000)]);
}

#[test]
fn a_server_that_invents_names_fills_no_disk() {
    let home = Home::new();
    let store = home.open();
    let most = usize::try_from(Names::PER_SERVER_MAX).unwrap();
    let tools: Vec<ToolId> = (0..most + 5).map(|number| tool(&format!("hostile/{number}"))).collect();
    let claims: Vec<(&str, &ToolId)> = tools.iter().map(|tool| (&*tool.tool, tool)).collect();
    assert_eq!(store.names().claim(&profile("default"), &claims).unwrap(), tools);
    assert_eq!(store.names().all(&profile("default")).unwrap().len(), most);
    let other = tool("files/read");
    store.names().claim(&profile("default"), &[("read", &other)]).unwrap();
    assert_eq!(store.names().all(&profile("default")).unwrap().len(), most + 1, "others are not in its way");
}

#[test]
fn facts_are_kept_by_scope_and_key() {
    let home = Home::new();
    let store = home.open();
    let facts = store.facts();
    assert_eq!(facts.get("era", "files").unwrap(), None);
    facts.put("era", "files", "\"legacy\"").unwrap();
    home.clock.advance(1);
    facts.put("era", "files", "\"modern\"").unwrap();
    facts.put("era", "a", "1").unwrap();
    facts.put("other", "files", "null").unwrap();
    let fact = facts.get("era", "files").unwrap().unwrap();
    assert_eq!((fact.value.as_str(), fact.updated_at), ("\"modern\"", Timestamp(50_001)));
    let keys: Vec<String> = facts.all("era").unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["a", "files"]);
    assert!(facts.remove("era", "files").unwrap());
    assert!(!facts.remove("era", "files").unwrap());
    assert_eq!(facts.get("other", "files").unwrap().unwrap().value, "null");
}

#[test]
fn active_sets_belong_to_a_principal_and_a_profile_and_are_there_after_a_restart() {
    let home = Home::new();
    let store = home.open();
    let (alice, bob) = (PrincipalId::new("alice"), PrincipalId::new("bob"));
    let active = |id, at| ActiveTool { tool: tool(id), last_used: Timestamp(at) };
    let sets = store.active_sets();
    assert_eq!(sets.all().unwrap(), []);
    sets.put(&alice, &profile("default"), &[active("files/read", 5), active("git/log", 6)]).unwrap();
    sets.put(&bob, &profile("default"), &[active("time/now", 4)]).unwrap();
    sets.put(&alice, &profile("other"), &[active("time/now", 1)]).unwrap();
    sets.put(&alice, &profile("default"), &[active("files/read", 7), active("files/a/b", 3)]).unwrap();
    sets.put(&alice, &profile("other"), &[]).unwrap();
    store.close_blocking().unwrap();
    drop((sets, store));

    let all = home.open().active_sets().all().unwrap();
    let expected = [
        (alice.clone(), profile("default"), active("files/a/b", 3)),
        (bob, profile("default"), active("time/now", 4)),
        (alice, profile("default"), active("files/read", 7)),
    ];
    assert_eq!(all, expected, "whatever was used longest ago comes first");
}

fn task(id: &str, principal: &str, created_at: i64, expires_at: i64) -> TaskRecord {
    TaskRecord {
        id: id.into(),
        principal: PrincipalId::new(principal),
        profile: profile("default"),
        target: "core_audit_verify".into(),
        ended: true,
        body: r#"{"taskId": "x", "n": 1.0}"#.into(),
        created_at: Timestamp(created_at),
        expires_at: Timestamp(expires_at),
    }
}

#[test]
fn tasks_are_kept_until_they_expire_or_are_too_many() {
    let home = Home::new();
    let store = home.open();
    let (later, one) = (i64::MAX, PrincipalId::new("one"));
    let running = TaskRecord { ended: false, ..task("running", "one", 1, later) };
    store.tasks().put(&running).unwrap();
    for (id, principal, created) in [("a", "one", 2), ("b", "one", 3), ("c", "one", 4), ("d", "two", 0)] {
        store.tasks().put(&task(id, principal, created, later)).unwrap();
    }
    store.tasks().put(&task("expired", "two", 1, 2)).unwrap();
    assert_eq!(store.tasks().get("expired").unwrap(), None, "it is gone before anybody sweeps");
    store.close_blocking().unwrap();
    drop(store);

    let store = home.open();
    assert_eq!(store.tasks().get("a").unwrap(), Some(task("a", "one", 2, later)));
    assert_eq!(store.tasks().prune(&one, 2).unwrap(), 2, "the expired one, and the oldest that has ended");
    assert_eq!(store.tasks().get("running").unwrap(), Some(running.clone()), "what runs is never forgotten for others");
    assert_eq!(store.tasks().get("a").unwrap(), None);
    for kept in ["b", "c", "d"] {
        assert!(store.tasks().get(kept).unwrap().is_some(), "{kept}");
    }
    store.tasks().put(&TaskRecord { ended: true, ..running }).unwrap();
    assert!(store.tasks().get("running").unwrap().unwrap().ended, "a later state takes the place of the earlier");
    let large = TaskRecord { body: "x".repeat(Tasks::BODY_MAX + 1), ..task("large", "one", 1, later) };
    assert!(matches!(store.tasks().put(&large), Err(StoreError::TooLarge { .. })));
}

#[test]
fn decisions_are_kept_with_who_made_them() {
    let home = Home::new();
    let store = home.open();
    let (pins, files) = (store.pins(), server("files"));
    assert!(pins.all().unwrap().is_empty());
    let text = |text: &str| text.to_owned();
    let approve = |name: &str, definition: &str| (text("tool"), text(name), text(definition));
    let first = PinChange { approve: vec![approve("a", "{}"), approve("b", "{\"x\": 1}")], ..PinChange::default() };
    pins.decide(&files, &first, &PrincipalId::new("ann")).unwrap();
    let second = PinChange {
        forget: vec![(text("tool"), text("b"))],
        reject: vec![(text("tool"), text("a"), text("d1")), (text("prompt"), text("p"), text("d2"))],
        ..PinChange::default()
    };
    pins.decide(&files, &second, &PrincipalId::new("bob")).unwrap();
    pins.verified(&files, "all").unwrap();
    store.close_blocking().unwrap();
    drop((pins, store));

    let store = home.open();
    let all = store.pins().all().unwrap();
    let record = &all[&files];
    let pinned: Vec<_> = record.pinned.iter().map(|it| (&*it.name, &*it.definition, it.decided_by.as_str())).collect();
    assert_eq!(pinned, [("a", "{}", "ann")]);
    let rejected: Vec<_> = record.rejected.iter().map(|it| (&*it.name, &*it.digest, it.decided_by.as_str())).collect();
    assert_eq!(rejected, [("p", "d2", "bob"), ("a", "d1", "bob")]);
    assert_eq!(record.verified.as_ref().unwrap().1, "all");
    // Approving takes the refusal back.
    let third = PinChange { approve: vec![approve("a", "[]")], ..PinChange::default() };
    store.pins().decide(&files, &third, &PrincipalId::new("ann")).unwrap();
    let record = store.pins().all().unwrap().remove(&files).unwrap();
    assert_eq!((record.pinned[0].definition.as_str(), record.rejected.len()), ("[]", 1));
}

#[test]
fn a_decision_is_kept_whole_or_not_at_all() {
    let home = Home::new();
    let store = home.open();
    let approve = |name: &str, definition: String| ("tool".to_owned(), name.to_owned(), definition);
    let large = approve("b", "x".repeat(Pins::DEFINITION_MAX + 1));
    let change = PinChange { approve: vec![approve("a", "{}".into()), large], ..PinChange::default() };
    let error = store.pins().decide(&server("files"), &change, &PrincipalId::new("ann")).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }));
    home.shell().execute_batch("INSERT INTO pin VALUES ('../x', 'tool', 'a', '{}', 1, 'ann')").unwrap();
    assert!(store.pins().all().unwrap().is_empty(), "a server's name that is none harms no other");
}

#[test]
fn services_outlive_the_process() {
    let home = Home::new();
    let store = home.open();
    let service = |name: &str, state: &str| ServiceRecord {
        name: name.to_owned(),
        principal: PrincipalId::new("ann"),
        role: Role::Operator,
        profile: profile("work"),
        state: state.to_owned(),
        body: "{\"outputs\": {}}".to_owned(),
        created_at: Timestamp(5),
        updated_at: Timestamp(0),
    };
    store.services().put(&service("web", "starting")).unwrap();
    store.services().put(&service("web", "running")).unwrap();
    store.services().put(&service("db", "stopped")).unwrap();
    let large = ServiceRecord { body: "x".repeat(Services::BODY_MAX + 1), ..service("db", "running") };
    assert!(matches!(store.services().put(&large), Err(StoreError::TooLarge { .. })));
    let odd = "INSERT INTO service (name, principal, profile, state, body, created_at, updated_at) \
                   VALUES ('odd', 'a', '../x', 'running', '{}', 1, 1)";
    home.shell().execute_batch(odd).unwrap();
    home.shell().execute_batch("UPDATE service SET role = 'of a later version' WHERE name = 'db'").unwrap();
    store.close_blocking().unwrap();
    drop(store);

    let store = home.open();
    let all = store.services().all().unwrap();
    let states: Vec<_> = all.iter().map(|record| (record.name.as_str(), record.state.as_str())).collect();
    assert_eq!(states, [("db", "stopped"), ("web", "running")], "a row that no program of ours wrote harms no other");
    assert_eq!((all[1].role, all[1].created_at), (Role::Operator, Timestamp(5)));
    assert_eq!(all[0].role, Role::Viewer, "a role that is not known is the least");
    assert!(store.services().remove("web").unwrap() && !store.services().remove("web").unwrap());
}
