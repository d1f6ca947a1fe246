//! Services that outlive the process, and how the next one finds them.

use super::*;

fn store() -> Store {
    Store::in_memory(toolcrib_store::Config::default()).unwrap()
}

const ASKED: &str =
    "lifecycleTools:\n  start: {tool: up, outputs: {id: id}}\n  stop: {tool: down}\n  status: {tool: look}\n";

impl World {
    /// The process ends as by kill -9, and another begins with the same files and the same state.
    async fn begin_again(self) -> Self {
        self.scope.close(Duration::ZERO).await;
        let World { home, records, .. } = self;
        let world = Self::over(home, &[], records);
        pass(Duration::from_millis(100)).await;
        world
    }

    fn service(&self, service: &str, class: &str, more: &str) {
        write(
            &self.home,
            &format!("services/{service}.yaml"),
            &format!("name: {service}\nserviceClassName: {class}\n{more}"),
        );
        assert!(self.load().is_empty());
    }
}

fn world(classes: &[(&str, &str)]) -> World {
    World::over(tempfile::tempdir().unwrap(), classes, Some(store().services()))
}

#[tokio::test(start_paused = true)]
async fn what_ran_is_asked_and_never_believed() {
    for (does, state, health) in
        [(ToolScript::Says(json!({})), "running", "healthy"), (ToolScript::Fails("gone"), "failed", "unhealthy")]
    {
        let world = world(&[("web", ASKED)]);
        world.service("a", "web", "");
        world.start("a").await.unwrap();
        let world = world.begin_again().await;
        world.assert_life("a", "running", "healthy");
        world.tool("look", does);
        let records = world.records.clone();
        let world = World { records, ..world }.begin_again_with_look(health).await;
        world.assert_life("a", state, health);
        assert_eq!(world.table.entry("a").unwrap().life().kept["start"], json!({"id": "up"}));
        assert!(!world.called().contains(&"up".to_owned()));
    }
}

impl World {
    /// As [`World::begin_again`], with a status tool that says this from the beginning.
    async fn begin_again_with_look(self, health: &str) -> Self {
        self.scope.close(Duration::ZERO).await;
        let World { home, records, .. } = self;
        let file = home.path().join("services/a.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let world = Self::over(home, &[], records);
        if health == "unhealthy" {
            world.tool("look", ToolScript::Fails("gone"));
        }
        write(&world.home, "services/a.yaml", &text);
        world.load();
        pass(Duration::from_millis(100)).await;
        world
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_determined_is_unknown() {
    let world = world(&[("web", PLAIN)]);
    world.service("a", "web", "");
    world.start("a").await.unwrap();
    let world = world.begin_again().await;
    let (state, health, error) = world.life("a");
    assert_eq!((state.as_str(), health.as_str()), ("unknown", "unknown"));
    assert!(error.unwrap().contains("neither a status nor a healthCheck tool"));
    assert!(world.called().is_empty());
    // It can be started and stopped as ever.
    world.start("a").await.unwrap();
    world.order("a", Order::Stop).await.unwrap();
    let world = world.begin_again().await;
    world.assert_life("a", "stopped", "unknown");
}

#[tokio::test(start_paused = true)]
async fn what_shall_start_with_the_gateway_does_once_its_tools_are_there() {
    let world = world(&[("db", &PLAIN.replace("up", "late")), ("web", &format!("{PLAIN}dependencies: [db]\n"))]);
    world.service("db1", "db", "");
    world.service("web1", "web", "autoStart: true\nprofile: night\n");
    world.service("late1", "db", "autoStart: true\n");
    world.until("late1", "waiting").await;
    // What it needs cannot be started yet.
    world.until("web1", "waiting").await;
    let (_, _, error) = world.life("late1");
    assert_eq!(error.as_deref(), Some("missing required tools: late"));
    world.tool("late", ToolScript::Says(json!({})));
    world.shop.0.changes.send_modify(|count| *count += 1);
    world.until("late1", "running").await;
    world.until("web1", "running").await;
    let owners = world.shop.0.owners.lock().unwrap().clone();
    let night = owners.iter().find(|owner| owner.profile.as_str() == "night").unwrap();
    assert!(night.role == toolcrib_base::Role::Member, "a file without a record gives no privilege");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_was_cut_off_is_found_out_about() {
    let world = world(&[("web", ASKED)]);
    world.service("a", "web", "");
    world.tool("up", ToolScript::Hangs);
    {
        let start = world.start("a");
        tokio::pin!(start);
        let cut = tokio::time::timeout(Duration::from_secs(1), &mut start).await;
        assert!(cut.is_err());
        world.assert_life("a", "starting", "unknown");
    }
    let world = world.begin_again().await;
    world.assert_life("a", "running", "healthy");
    assert_eq!(world.called(), ["look"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_goes_takes_its_service_along() {
    let world = world(&[("web", PLAIN)]);
    world.service("a", "web", "");
    world.start("a").await.unwrap();
    assert_eq!(world.records.as_ref().unwrap().all().unwrap().len(), 1);
    std::fs::remove_file(world.home.path().join("services/a.yaml")).unwrap();
    world.load();
    assert!(world.table.entry("a").is_none());
    assert!(world.records.as_ref().unwrap().all().unwrap().is_empty());
    let told = world.shop.0.told.lock().unwrap().clone();
    let last = told.iter().rev().find(|it| it.kind == ObjectKind::ServiceInstance && it.reason == "Deleted").unwrap();
    assert!(last.warning && last.message.contains("its stop tool was not called"), "{last:?}");
    assert_eq!(world.called(), ["up"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_counts_from_the_next_tool_on() {
    let config = "lifecycleTools:\n  start: {tool: up, args: {size: \"{{ .size }}\"}}\n  stop: {tool: down}\n";
    let world = world(&[("web", config)]);
    world.service("a", "web", "args: {size: 1}\n");
    world.start("a").await.unwrap();
    world.service("a", "web", "args: {size: 2}\n");
    world.order("a", Order::Restart).await.unwrap();
    let called = world.shop.0.called.lock().unwrap().clone();
    assert_eq!((&called[0].1, &called[2].1), (&json!({"size": 1}), &json!({"size": 2})));
    world.assert_life("a", "running", "healthy");
}
