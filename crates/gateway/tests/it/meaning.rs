//! A model behind `find_tools`: it reads each text once, and where it does not answer the embedded table does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use toolcrib_gateway::Embed;
use toolcrib_search::{QueryVectors, TextKey, ToolVectors};

use crate::house::{Ground, House, stopped};

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

#[tokio::test]
async fn find_asks_the_model_and_does_without_it() {
    let fake = Arc::new(Fake {
        tools: Mutex::new(ToolVectors::new(2)),
        read: Mutex::default(),
        answers: AtomicBool::new(true),
    });
    let ground = Ground { embed: Some(Arc::clone(&fake) as Arc<dyn Embed>), ..Ground::default() };
    let house = House::open(&[stopped("s", &["a_one", "b_two", "c_three"], "")], ground);
    house.settle().await;
    let first = async |house: &House| {
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
