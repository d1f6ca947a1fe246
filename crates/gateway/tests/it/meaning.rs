//! A model behind `find_tools`: it reads each text once, and where it does not answer the embedded table does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use toolcrib_search::{QueryVectors, TextKey, ToolVectors};
use toolcrib_testgateway::{Setup, TestGateway, profile, stopped, text_of};
use toolcrib_view::Embed;

/// To this model every query means `c_three` and nothing else.
#[derive(Debug)]
struct Fake {
    tools: Mutex<ToolVectors>,
    read: Mutex<Vec<String>>,
    answers: AtomicBool,
}

impl Fake {
    fn vector(text: &str) -> [f32; 2] {
        if text.contains("three") { [0.0, 1.0] } else { [1.0, 0.0] }
    }
}

impl Embed for Fake {
    fn learn(&self, texts: Vec<(TextKey, String)>) {
        let mut tools = self.tools.lock().unwrap();
        for (key, text) in texts {
            assert!(tools.insert(key, &Self::vector(&text)));
            self.read.lock().unwrap().push(text);
        }
    }

    fn tools(&self) -> Arc<ToolVectors> {
        Arc::new(self.tools.lock().unwrap().clone())
    }

    fn query(&self, texts: Vec<String>, _: Duration) -> Option<QueryVectors> {
        assert!(!texts.is_empty());
        self.answers.load(Ordering::SeqCst).then(|| QueryVectors::new([&Self::vector("three")[..]]))
    }
}

impl Fake {
    fn ground() -> Setup {
        let tools = Mutex::new(ToolVectors::new(2));
        let fake = Self { tools, read: Mutex::default(), answers: AtomicBool::new(true) };
        Setup { embed: Some(Arc::new(fake)), ..Setup::default() }
    }
}

/// The ids or names that a door gives for a query, best first.
async fn through(house: &TestGateway, door: &str, query: &str) -> Vec<String> {
    let (of, name) = door.split_once('/').unwrap();
    let result = house.modern(of).call(name, &json!({"query": query})).await;
    assert_ne!(result["isError"], true, "{door}: {result}");
    let value = match &result["structuredContent"] {
        serde_json::Value::Null => serde_json::from_str(&text_of(&result)).unwrap(),
        value => value.clone(),
    };
    let tools = value["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

const DOORS: [&str; 4] =
    ["default/find_tools", "muster/filter_tools", "default/core_tool_find", "scooter/scooter_find"];

#[tokio::test]
async fn every_door_asks_the_model() {
    let files = [
        stopped("s", &["a_one", "b_two"], ""),
        stopped("t", &["c_three"], ""),
        profile("muster", "dialect: muster"),
        profile("scooter", "dialect: scooter"),
    ];
    for (ground, wanted) in [(Fake::ground(), true), (Setup::default(), false)] {
        let house = TestGateway::open(&files, ground);
        house.settle().await;
        for door in DOORS {
            let first = through(&house, door, "one or two parcels").await.remove(0);
            let is_of_model = first.contains("three") || first == "t";
            assert_eq!(is_of_model, wanted, "{door}: {first}");
        }
        let asked = json!({"query": "one or two parcels", "explain": true});
        let told = house.modern("default").call("core_tool_find", &asked).await;
        let part = &told["structuredContent"]["tools"][0]["explanation"]["model"];
        assert_eq!(part["share"].as_f64().is_some_and(|share| share > 0.0), wanted, "{told}");
        house.close().await;
    }
}

#[tokio::test]
async fn every_door_raises_what_was_learned_and_the_filters_teach() {
    let files = [
        toolcrib_testgateway::server("alpha", &[]),
        toolcrib_testgateway::server("beta", &[]),
        profile("default", "learn: true"),
        profile("muster", "dialect: muster\nlearn: true"),
        profile("scooter", "dialect: scooter\nlearn: true\nrequire_load: false"),
    ];
    let query = "returns the given text";
    let house = TestGateway::settled(&files).await;
    for (door, call) in [
        ("default/find_tools", "call_tool"),
        ("muster/filter_tools", "call_tool"),
        ("scooter/scooter_find", "scooter_call"),
    ] {
        let at = |names: &[String]| names.iter().position(|name| name.contains("beta")).unwrap();
        let before = through(&house, door, query).await;
        let client = house.modern(door.split_once('/').unwrap().0);
        let arguments = json!({"name": "beta/echo", "arguments": {"text": "x"}});
        let done = client.call(call, &arguments).await;
        assert_ne!(done["isError"], true, "{door}: {done}");
        // Equal tools are one hit where a door folds them: the one that was called stands for both then.
        let after = through(&house, door, query).await;
        let folded = !before.iter().any(|name| name.contains("beta"));
        assert!(folded || at(&after) < at(&before), "{door}: {before:?} {after:?}");
        assert!(after[0].contains("beta"), "{door}: {after:?}");
    }
    let asked = json!({"query": query, "explain": true, "limit": 2});
    let told = house.modern("default").call("core_tool_find", &asked).await;
    let hit = &told["structuredContent"]["tools"][0];
    assert_eq!(hit["id"], "beta/echo", "{told}");
    assert!(hit["explanation"]["learned"].as_f64().is_some_and(|learned| learned > 0.0), "{told}");
    house.close().await;
}

#[tokio::test]
async fn find_asks_the_model_and_does_without_it() {
    let fake = Arc::new(Fake {
        tools: Mutex::new(ToolVectors::new(2)),
        read: Mutex::default(),
        answers: AtomicBool::new(true),
    });
    let ground = Setup { embed: Some(Arc::clone(&fake) as Arc<dyn Embed>), ..Setup::default() };
    let house = TestGateway::open(&[stopped("s", &["a_one", "b_two", "c_three"], "")], ground);
    house.settle().await;
    let first = async |house: &TestGateway| {
        let client = house.modern("default");
        let result = client.call("find_tools", &json!({"query": "something to count parcels"})).await;
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"]["tools"][0]["id"].as_str().map(str::to_owned)
    };
    assert_eq!(first(&house).await.as_deref(), Some("s/c_three"));
    let read = fake.read.lock().unwrap().len();
    assert_eq!(read, 3);
    fake.answers.store(false, Ordering::SeqCst);
    let without = first(&house).await;
    assert_ne!(without.as_deref(), Some("s/c_three"));
    // Neither asking nor connecting made it read anything again.
    assert_eq!(fake.read.lock().unwrap().len(), read);
}
