//! Lists of programs: drained, read again when they change, and odd entries left out.

use toolcrib_testkit::eventually_holds;

use crate::world::{World, fake};

#[tokio::test]
async fn pages_are_drained_in_order() {
    let world = World::ready(fake(&["--tools", "25", "--page", "10"])).await;
    let numbers: Vec<_> = world.tools().iter().map(|name| name.rsplit('_').next().unwrap().to_owned()).collect();
    assert_eq!(numbers, (0..25).map(|number| number.to_string()).collect::<Vec<_>>());
    let world = World::ready(fake(&["--page", "1"])).await;
    let inventory = world.server.inventory();
    assert_eq!((inventory.resources.len(), inventory.templates.len(), inventory.prompts.len()), (2, 1, 2));
    assert_eq!(inventory.warnings, [""; 0]);
}

#[tokio::test]
async fn odd_entries_leave_a_warning_and_the_others() {
    let world = World::ready(fake(&["--bad-tool", "--duplicate-tools"])).await;
    let tools = world.tools();
    assert_eq!(tools.iter().filter(|name| *name == "echo").count(), 1);
    assert!(tools.contains(&"no_schema".to_owned()) && tools.contains(&"bad_schema".to_owned()));
    let inventory = world.server.inventory();
    assert_eq!(inventory.warnings.len(), 4, "{:?}", inventory.warnings);
    assert_eq!(inventory.tools[0].description.as_deref(), Some("Returns the text it is given"));
}

#[tokio::test]
async fn a_changed_list_is_read_again_and_told_once() {
    let mut world = World::ready(fake(&["--list-changed-after", "1"])).await;
    assert_eq!(world.inventories(), 1);
    world.echo().await;
    eventually_holds("the new tool is there", || world.tools().contains(&"late".to_owned())).await;
    world.echo().await;
    assert_eq!(world.inventories(), 1);
}

#[tokio::test]
async fn a_list_that_is_read_again_without_a_change_is_not_told() {
    let mut world = World::ready(fake(&[])).await;
    let before = world.server.inventory();
    assert_eq!(world.inventories(), 1);
    world.server.order_refresh();
    eventually_holds("it was listed again", || !std::sync::Arc::ptr_eq(&before, &world.server.inventory())).await;
    world.echo().await;
    assert_eq!(world.inventories(), 0);
}
