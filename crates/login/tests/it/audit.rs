//! Logins, their renewals and their ends are on record; a token never is.

use toolcrib_store::{AuditFilter, AuditOrder, Store};
use toolcrib_testkit::provider::RemoteRules;

use crate::world::{World, owner};

#[tokio::test]
async fn logins_renewals_and_ends_are_on_record() {
    let mut world = World::new(RemoteRules::default());
    let store = Store::in_memory(toolcrib_store::Config::default()).unwrap();
    world.record_in(store.audit());
    world.log_in().await;
    let first = world.token().await.unwrap().unwrap();
    assert_eq!(world.logins.renew(&world.server, &owner()).await, Ok(true));
    let second = world.token().await.unwrap().unwrap();
    assert_eq!(world.logins.logout(&world.server, &owner()).await, Ok(true));
    store.audit().flush().await.unwrap();
    let order = AuditOrder::OldestFirst { after: 0 };
    let rows = store.audit().list(&AuditFilter { order, limit: 10, ..AuditFilter::default() }).unwrap();
    let row =
        |row: &toolcrib_store::AuditRecord| format!("{} {} {} {}", row.method, row.target, row.principal, row.outcome);
    let expect = ["login/complete sim owner ok", "login/refresh sim owner ok", "login/end sim owner ok"];
    assert_eq!(rows.iter().map(row).collect::<Vec<_>>(), expect);
    let texts = format!("{rows:?}");
    assert!(!texts.contains(&first) && !texts.contains(&second));
}
