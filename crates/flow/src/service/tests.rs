//! Services with a fake host, scripted tools and a manual clock.

#![allow(clippy::unwrap_used, reason = "these are tests, their fixtures included")]

mod depending;
mod living;
mod restarting;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, ManualClock, PrincipalId, Problem, ProfileName, Role, Timestamp};
use toolcrib_catalog::{Catalog, ObjectName, ServiceClassDefinition};
use toolcrib_gateway::ObjectEvent;
use toolcrib_store::{Services as Records, Store};
use toolcrib_testkit::pass;
use toolcrib_view::ObjectKind;

use super::class::Answer;
use super::host::{Owner, ServiceHost, ToolCaller};
use super::life::Life;
use super::subject::Subject;
use super::table::{Entry, Servers, Table};
use super::task::{Order, OrderOutcome};

/// What a tool does.
#[derive(Debug, Clone)]
enum ToolScript {
    Says(Value),
    Fails(&'static str),
    Hangs,
    /// It starts the service that it is to start.
    Starts(Entry),
}

/// The tools, what was called with what, and what was reported.
#[derive(Debug)]
struct Workshop {
    tools: Mutex<BTreeMap<String, ToolScript>>,
    called: Mutex<Vec<(String, Value)>>,
    told: Mutex<Vec<ObjectEvent>>,
    owners: Mutex<Vec<Owner>>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Clone)]
struct Shop(Arc<Workshop>);

impl ServiceHost for Shop {
    fn hands(&self, owner: &Owner, _: &str) -> Option<Arc<dyn ToolCaller>> {
        self.0.owners.lock().unwrap().push(owner.clone());
        Some(Arc::new(self.clone()))
    }

    fn emit(&self, event: ObjectEvent) {
        self.0.told.lock().unwrap().push(event);
    }

    fn is_settled(&self) -> bool {
        *self.0.changes.borrow() > 0
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }
}

impl ToolCaller for Shop {
    fn call<'a>(&'a self, tool: &'a str, arguments: &'a Value) -> BoxFuture<'a, Result<Answer, Problem>> {
        self.0.called.lock().unwrap().push((tool.to_owned(), arguments.clone()));
        let does = self.0.tools.lock().unwrap().get(tool).cloned();
        Box::pin(async move {
            match does {
                Some(ToolScript::Says(value)) => Ok(Answer { text: value.to_string(), value, is_error: false }),
                Some(ToolScript::Fails(text)) => {
                    Ok(Answer { value: text.into(), is_error: true, text: text.to_owned() })
                }
                Some(ToolScript::Hangs) => std::future::pending().await,
                Some(ToolScript::Starts(entry)) => {
                    entry.order(Order::Start, Arc::new(self.clone())).await?;
                    panic!("it waits for itself");
                }
                None => Err(Problem::new(Kind::UnknownTool, format!("tool not found: {tool}"))),
            }
        })
    }

    fn missing(&self, tools: &[&str]) -> Vec<String> {
        let there = self.0.tools.lock().unwrap();
        tools.iter().filter(|tool| !there.contains_key(**tool)).map(|&tool| tool.to_owned()).collect()
    }
}

impl Servers for Shop {
    fn state(&self, server: &str) -> Option<String> {
        match server {
            "disk" => Some("ready".to_owned()),
            "tape" => Some("stopped".to_owned()),
            _ => None,
        }
    }
}

/// A table of services in a temporary home.
struct World {
    home: tempfile::TempDir,
    shop: Shop,
    clock: Arc<ManualClock>,
    scope: Scope,
    table: Arc<Table>,
    records: Option<Records>,
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

impl World {
    /// With these classes; each needs `serviceConfig`'s lines only.
    fn new(classes: &[(&str, &str)]) -> Self {
        Self::over(tempfile::tempdir().unwrap(), classes, None)
    }

    fn over(home: tempfile::TempDir, classes: &[(&str, &str)], records: Option<Records>) -> Self {
        for (class, config) in classes {
            write(&home, &format!("service-classes/{class}.yaml"), &class_text(class, config));
        }
        let tools =
            ["up", "down", "again", "look"].map(|tool| (tool.to_owned(), ToolScript::Says(json!({"id": tool}))));
        let shop = Shop(Arc::new(Workshop {
            tools: Mutex::new(BTreeMap::from(tools)),
            called: Mutex::default(),
            told: Mutex::default(),
            owners: Mutex::default(),
            changes: watch::Sender::new(0),
        }));
        let (clock, scope) = (Arc::new(ManualClock::at(Timestamp(1_000))), Scope::new());
        let house: Arc<dyn ServiceHost> = Arc::new(shop.clone());
        let table = Arc::new(Table::new(house, Arc::clone(&clock) as _, records.clone(), &scope, home.path()));
        let world = Self { home, shop, clock, scope, table, records };
        let problems = world.load();
        assert!(problems.is_empty(), "{problems:?}");
        world
    }

    /// Reads the files again; what is wrong with them beside what their readers find.
    fn load(&self) -> Vec<String> {
        let loaded: Catalog = toolcrib_catalog::load(self.home.path());
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        self.table.apply(&Arc::new(loaded)).iter().map(ToString::to_string).collect()
    }

    fn tool(&self, tool: &str, does: ToolScript) {
        self.shop.0.tools.lock().unwrap().insert(tool.to_owned(), does);
    }

    /// Adds a service that is in no file and never ran.
    fn add(&self, service: &str, class: &str) -> Entry {
        self.add_with(service, class, Map::new())
    }

    fn add_with(&self, service: &str, class: &str, args: Map<String, Value>) -> Entry {
        let subject = Subject {
            name: name(service),
            class: name(class),
            description: None,
            args,
            auto_start: false,
            dependencies: Vec::new(),
            persists: false,
            owner: ann(),
            created: Timestamp(1_000),
        };
        self.table.add(subject, Life::new(Timestamp(1_000))).unwrap()
    }

    async fn start(&self, service: &str) -> Result<OrderOutcome, Problem> {
        self.table.start(&name(service), Arc::new(self.shop.clone()), &self.shop, Vec::new()).await
    }

    async fn order(&self, service: &str, order: Order) -> Result<OrderOutcome, Problem> {
        self.table.entry(service).unwrap().order(order, Arc::new(self.shop.clone())).await
    }

    /// Its state, its health, and its error.
    fn life(&self, service: &str) -> (String, String, Option<String>) {
        let life = self.table.entry(service).unwrap().life();
        (life.state.as_str().to_owned(), life.health.as_str().to_owned(), life.error.clone())
    }

    fn assert_life(&self, service: &str, state: &str, health: &str) {
        let (now, well, error) = self.life(service);
        assert_eq!((now.as_str(), well.as_str()), (state, health), "{service}: {error:?}");
    }

    /// The tools that were called since this was last asked.
    fn called(&self) -> Vec<String> {
        self.shop.0.called.lock().unwrap().drain(..).map(|(tool, _)| tool).collect()
    }

    /// The reasons of what was told of services, without those of single tools.
    fn reasons(&self) -> Vec<String> {
        let told = self.shop.0.told.lock().unwrap().clone();
        let told = told.iter().filter(|it| it.kind == ObjectKind::ServiceInstance);
        told.map(|it| it.reason.to_owned()).filter(|reason| !reason.starts_with("ToolExecution")).collect()
    }

    /// Lets time pass; every task does what it has to do in the meantime.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(1_000);
            pass(Duration::from_secs(1)).await;
        }
    }

    /// Waits until a service is in a state.
    async fn until(&self, service: &str, state: &str) {
        for _ in 0..6_000 {
            if self.table.entry(service).is_some_and(|entry| entry.life().state.as_str() == state) {
                return;
            }
            pass(Duration::from_millis(10)).await;
        }
        panic!("{service} is {:?}, not {state}", self.life(service));
    }
}

fn ann() -> Owner {
    Owner { principal: PrincipalId::new("ann"), role: Role::Admin, profile: ProfileName::new("work").unwrap() }
}

fn class_text(class: &str, config: &str) -> String {
    format!("name: {class}\nserviceConfig:\n{}", config.lines().map(|line| format!("  {line}\n")).collect::<String>())
}

fn write(home: &tempfile::TempDir, path: &str, text: &str) {
    let path = home.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A class that starts with `up` and stops with `down`.
const PLAIN: &str = "lifecycleTools:\n  start: {tool: up}\n  stop: {tool: down}\n";

#[test]
fn a_class_is_checked_when_it_is_loaded() {
    let check = |config: &str, expected: &str| {
        let text = class_text("web", config);
        let file = std::path::Path::new("service-classes/web.yaml");
        let definition = Arc::new(ServiceClassDefinition::parse(file, &name("web"), &text).unwrap());
        let faults = super::class::Class::new(&definition).unwrap_err();
        assert!(
            faults.iter().any(|fault| format!("{}: {}", fault.field, fault.message).contains(expected)),
            "{faults:?}"
        );
    };
    let with = |start: &str| format!("lifecycleTools:\n  start: {{tool: up, {start}}}\n  stop: {{tool: down}}\n");
    check(&with("args: {a: [\"{{ .x\"]}"), "serviceConfig.lifecycleTools.start.args");
    check(&with("condition: \"{{ .x | nothing }}\""), "serviceConfig.lifecycleTools.start.condition");
    check(&with("outputs: {id: \"a..b\"}"), "expected a JSON path such as `result.id`, got `a..b`");
    check(&with("expect: {jsonPath: {\"a[\": 1}}"), "serviceConfig.lifecycleTools.start.expect");
    check(&format!("{PLAIN}outputs: {{x: \"{{{{ .\"}}"), "serviceConfig.outputs");
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_a_class_is_reported_once() {
    let world = World::new(&[("web", PLAIN), ("late", &PLAIN.replace("up", "late"))]);
    let available = super::availability::Availability::default();
    let look = || {
        world.shop.0.told.lock().unwrap().clear();
        available.look(&world.table);
        let told = world.shop.0.told.lock().unwrap().clone();
        told.iter().map(|it| format!("{} {}", it.name, it.reason)).collect::<Vec<_>>()
    };
    assert_eq!(look(), ["web Available"], "while servers are being listed nothing is missing");
    assert_eq!(look(), [""; 0]);
    world.shop.0.changes.send_modify(|count| *count += 1);
    assert_eq!(look(), ["late ToolsMissing", "late Unavailable"]);
    world.tool("late", ToolScript::Says(json!({})));
    assert_eq!(look(), ["late ToolsRestored", "late Available"]);
    world.shop.0.tools.lock().unwrap().remove("up");
    assert_eq!(look(), ["web ToolsMissing", "web Unavailable"]);
    assert_eq!(look(), [""; 0]);
    write(&world.home, "service-classes/web.yaml", &class_text("web", &format!("{PLAIN}serviceType: page\n")));
    world.shop.0.told.lock().unwrap().clear();
    world.load();
    std::fs::remove_file(world.home.path().join("service-classes/late.yaml")).unwrap();
    world.load();
    let told = world.shop.0.told.lock().unwrap().clone();
    let told: Vec<_> = told.iter().map(|it| format!("{} {}", it.name, it.reason)).collect();
    assert_eq!(told, ["web Updated", "late Deleted"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_in_a_class_is_reported_with_its_line_and_the_class_cannot_be_used() {
    let world = World::new(&[]);
    let text = class_text("web", &PLAIN.replace("{tool: up}", "{tool: up, args: {a: \"{{ .x\"}}"));
    write(&world.home, "service-classes/web.yaml", &text);
    let problems = world.load();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("service-classes/web.yaml:4:"), "{problems:?}");
    world.add("a", "web");
    let problem = world.start("a").await.unwrap_err();
    assert_eq!(problem.kind, Kind::Definition);
    assert!(
        problem.message.contains("service class `web` is not valid: `serviceConfig.lifecycleTools.start.args`"),
        "{problem}"
    );
}
