//! Several services: what is started first, what may not be stopped, circles.

use super::*;

fn needing(of: &str) -> String {
    format!("{PLAIN}dependencies: {of}\n").replace("tool: up}", "tool: up, args: {who: \"{{ .name }}\"}}")
}

/// Who was started, in order.
fn started(world: &World) -> Vec<String> {
    let called = std::mem::take(&mut *world.shop.0.called.lock().unwrap());
    called
        .iter()
        .filter(|(tool, _)| tool == "up")
        .map(|(_, args)| args["who"].as_str().unwrap_or("?").to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_needed_is_started_first() {
    let world = World::new(&[
        ("disk-class", &needing("[]")),
        ("db-class", &needing("[disk-class]")),
        ("web-class", &needing("[db-class, disk-class, disk]")),
    ]);
    for (service, class) in [("web1", "web-class"), ("db1", "db-class"), ("disk1", "disk-class")] {
        world.add(service, class);
    }
    world.start("web1").await.unwrap();
    assert_eq!(started(&world), ["disk1", "db1", "web1"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_needed_and_not_there_is_named() {
    let world = World::new(&[
        ("empty", PLAIN),
        ("a", &needing("[empty]")),
        ("b", &needing("[nobody]")),
        ("c", &needing("[tape]")),
        ("d", &needing("[broken1]")),
        ("broken", &PLAIN.replace("tool: up", "tool: crash")),
    ]);
    world.tool("crash", ToolScript::Fails("no such disk"));
    world.add("broken1", "broken");
    for (class, expected) in [
        ("a", "service `a1` needs `empty`: no service of the class `empty` exists"),
        ("b", "service `b1` needs `nobody`: no service class, service or server has that name"),
        ("c", "service `c1` needs `tape`: the server is stopped"),
        ("d", "service `d1` needs `broken1`: `crash`: no such disk"),
    ] {
        let service = format!("{class}1");
        world.add(&service, class);
        let problem = world.start(&service).await.unwrap_err();
        assert_eq!(problem.message, expected);
        world.assert_life(&service, "stopped", "unknown");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_needed_is_not_stopped() {
    let world = World::new(&[("db", PLAIN), ("web", &needing("[db]")), ("by-name", &needing("[db1, disk]"))]);
    for (service, class) in [("db1", "db"), ("web1", "web"), ("named1", "by-name")] {
        world.add(service, class);
        world.start(service).await.unwrap();
    }
    let names = |name: &str| world.table.dependents(name).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names("db1"), ["named1", "web1"]);
    assert_eq!(names("disk"), ["named1"]);
    assert!(names("web1").is_empty());
    let problem = world.table.check_unneeded("db1", "stopped").unwrap_err();
    assert_eq!(problem.kind, Kind::Conflict);
    assert!(
        problem.message.contains("cannot be stopped: the running services `named1`, `web1` depend on it"),
        "{problem}"
    );
    // Another one of the class is as good for those who need the class.
    world.add("db2", "db");
    world.start("db2").await.unwrap();
    assert_eq!(names("db1"), ["named1"]);
    world.order("named1", Order::Stop).await.unwrap();
    world.table.check_unneeded("db1", "stopped").unwrap();
}

#[tokio::test(start_paused = true)]
async fn circles_are_named_and_start_nothing() {
    let home = tempfile::tempdir().unwrap();
    for (class, config) in [("a", needing("[b]")), ("b", needing("[c]")), ("c", needing("[a]")), ("d", needing("[d1]"))]
    {
        write(&home, &format!("service-classes/{class}.yaml"), &class_text(class, &config));
    }
    let world = World::new(&[]);
    let world = World { home, ..world };
    let problems = world.load();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(
        problems[0]
            .contains("service-classes/a.yaml: `serviceConfig.dependencies`: dependency cycle: a -> b -> c -> a")
    );
    for (service, class) in [("a1", "a"), ("b1", "b"), ("c1", "c"), ("d1", "d")] {
        world.add(service, class);
    }
    assert_eq!(world.start("a1").await.unwrap_err().message, "dependency cycle: a1 -> b1 -> c1 -> a1");
    assert_eq!(world.start("d1").await.unwrap_err().message, "dependency cycle: d1 -> d1");
    assert!(world.called().is_empty());
    let text = class_text("c", &needing("[a]"));
    let file = std::path::Path::new("service-classes/c.yaml");
    let definition = ServiceClassDefinition::parse(file, &name("c"), &text).unwrap();
    assert_eq!(world.table.check_class(definition).unwrap_err().message, "dependency cycle: c -> a -> b -> c");
}
