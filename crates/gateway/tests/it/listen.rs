//! Subscriptions of clients of both eras to servers of both eras.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use toolcrib_base::ProfileName;
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Id, Raw, Revision, RpcError};
use toolcrib_session::{Introduction, Principal};
use toolcrib_testgateway::{Client, TestGateway, profile, server, stopped};
use toolcrib_testkit::eventually;

const DIRECT: &str = "exposure: direct";
const KEY: &str = "io.modelcontextprotocol/subscriptionId";
const UPDATED: &str = "notifications/resources/updated";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// A stream of a modern client.
struct Listen {
    id: Value,
    queue: mpsc::Receiver<Bytes>,
    task: JoinHandle<Option<Result<Raw, RpcError>>>,
}

impl Listen {
    /// Begins one; nothing of it is read yet.
    fn begin(scope: &Scope, client: &Client, id: &'static str, filter: &Value, room: usize) -> Self {
        let (sender, queue) = mpsc::channel(room);
        let (client, params) = (client.clone(), Raw::from_value(&json!({ "notifications": filter })));
        let number = Id::from_raw(Raw::from_value(&serde_json::from_str::<Value>(id).unwrap())).unwrap();
        let task =
            scope.spawn(async move { client.with_id(number, "subscriptions/listen", params, Some(sender)).await });
        Self { id: serde_json::from_str(id).unwrap(), queue, task }
    }

    /// Begins one and gives what was acknowledged.
    async fn open(scope: &Scope, client: &Client, id: &'static str, filter: &Value) -> (Self, Value) {
        let mut listen = Self::begin(scope, client, id, filter, 64);
        let (method, params) = listen.next().await;
        assert_eq!(method, ACKNOWLEDGED);
        (listen, params["notifications"].clone())
    }

    /// The next message: its method and its parameters.
    async fn next(&mut self) -> (String, Value) {
        let message = eventually("a message on the stream", self.queue.recv()).await.expect("the stream goes on");
        let (method, params) = parts(&message);
        assert_eq!(params["_meta"][KEY], self.id, "{params}");
        (method, params)
    }

    async fn update(&mut self) -> String {
        let (method, params) = self.next().await;
        assert_eq!(method, UPDATED);
        params["uri"].as_str().unwrap().to_owned()
    }

    /// How it ended.
    async fn end(self) -> Result<Raw, RpcError> {
        eventually("the end", self.task).await.unwrap().unwrap()
    }
}

fn parts(message: &Bytes) -> (String, Value) {
    let message: Value = serde_json::from_slice(message).unwrap();
    (message["method"].as_str().unwrap().to_owned(), message["params"].clone())
}

async fn touch(client: &Client, uris: &[&str]) {
    assert_eq!(client.text("alpha_touch", &json!({ "uris": uris })).await, "touched");
}

/// What the server is asked to watch, over whichever era.
async fn watched(client: &Client) -> BTreeSet<String> {
    let seen: Value = serde_json::from_str(&client.text("alpha_watched", &json!({})).await).unwrap();
    let streams = seen["streams"].as_array().unwrap();
    assert!(streams.len() <= 2, "one stream, and one that takes its place: {streams:?}");
    let modern = streams.last().map(|filter| filter["resourceSubscriptions"].clone()).unwrap_or_default();
    let all = [&seen["subscribed"], &modern].map(|list| list.as_array().cloned().unwrap_or_default()).concat();
    all.iter().map(|uri| uri.as_str().unwrap().to_owned()).collect()
}

async fn until_watched(client: &Client, wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
    let waiting = async {
        while watched(client).await != wanted {
            tokio::task::yield_now().await;
        }
    };
    eventually("what the server is asked", waiting).await;
}

/// A house with a server of each era in turn.
async fn houses() -> Vec<TestGateway> {
    let mut houses = Vec::new();
    for flags in [&["--touches"][..], &["--touches", "--modern"]] {
        houses.push(TestGateway::settled(&[server("alpha", flags), profile("default", DIRECT)]).await);
    }
    houses
}

#[tokio::test]
async fn an_update_reaches_every_client_that_asked_for_it_and_no_one_else() {
    for house in houses().await {
        let (scope, [modern, legacy]) = (Scope::new(), house.both("default"));
        let other = house.legacy("default");
        let (mut notifications, mut quiet) = (legacy.stream(), other.stream());
        let filter = json!({"resourceSubscriptions": ["fake://text", "fake://item/7"], "futureChanged": true});
        let (mut first, granted) = Listen::open(&scope, &modern, "\"a\"", &filter).await;
        assert_eq!(granted, json!({"resourceSubscriptions": ["fake://item/7", "fake://text"]}));
        let (mut second, _) =
            Listen::open(&scope, &modern, "7", &json!({"resourceSubscriptions": ["fake://text"]})).await;
        let (third, granted) = Listen::open(&scope, &modern, "8", &json!({"toolsListChanged": true})).await;
        assert_eq!(granted, json!({"toolsListChanged": true}));
        for _ in 0..2 {
            let subscribed = legacy.ask("resources/subscribe", &json!({"uri": "fake://text"})).await;
            assert_eq!(subscribed, Ok(json!({})));
        }
        until_watched(&modern, &["fake://text", "fake://item/7"]).await;
        touch(&modern, &["fake://binary", "fake://text/part", "other:x"]).await;
        assert_eq!(first.update().await, "fake://text/part");
        assert_eq!(second.update().await, "fake://text/part");
        let told = parts(&eventually("news", notifications.recv()).await.unwrap());
        assert_eq!(told, (UPDATED.to_owned(), json!({"uri": "fake://text/part"})));
        touch(&modern, &["fake://item/7"]).await;
        assert_eq!(first.update().await, "fake://item/7");
        // Whoever leaves is forgotten, and what nobody watches is not asked for any more.
        first.task.abort();
        until_watched(&modern, &["fake://text"]).await;
        drop(second.queue);
        assert!(matches!(eventually("the end", second.task).await.unwrap(), Some(Err(_))));
        assert_eq!(legacy.ask("resources/unsubscribe", &json!({"uri": "fake://text"})).await, Ok(json!({})));
        until_watched(&modern, &[]).await;
        assert!(notifications.try_recv().is_none() && quiet.try_recv().is_none());
        assert!(third.queue.is_empty());
    }
}

#[tokio::test]
async fn what_is_hidden_is_as_what_does_not_exist() {
    let files = [
        server("alpha", &["--touches"]),
        server("beta", &[]),
        profile("some", "exposure: direct\nservers: [gamma]"),
        stopped("gamma", &["one"], ""),
        profile("default", DIRECT),
    ];
    let house = TestGateway::settled(&files).await;
    let (scope, [modern, legacy]) = (Scope::new(), house.both("some"));
    let filter = json!({"resourceSubscriptions": ["fake://text", "fake://none", "alpha+fake://text"]});
    let (_listen, granted) = Listen::open(&scope, &modern, "1", &filter).await;
    assert_eq!(granted, json!({}));
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let ask = async |uri: &str| legacy.ask(method, &json!({ "uri": uri })).await.unwrap_err();
        let (hidden, unknown) = (ask("fake://text").await, ask("fake://none").await);
        assert_eq!((hidden.code, unknown.code), (-32_002, -32_002));
        assert_eq!(hidden.message.replace("fake://text", "fake://none"), unknown.message);
        assert_eq!(hidden.data.unwrap().to_value(), json!({"uri": "fake://text"}));
    }
    assert_eq!(watched(&house.modern("default")).await, BTreeSet::new(), "nobody asked the server");
    // Two servers offer the same: each profile's own name for it is what is heard.
    let all = house.modern("default");
    let filter = json!({"resourceSubscriptions": ["beta+fake://text", "alpha+fake://text", "fake://text"]});
    let (mut listen, granted) = Listen::open(&scope, &all, "1", &filter).await;
    assert_eq!(granted["resourceSubscriptions"], json!(["beta+fake://text", "fake://text"]));
    touch(&all, &["fake://text"]).await;
    assert_eq!(listen.update().await, "fake://text");
    assert!(listen.queue.is_empty());
}

#[tokio::test]
async fn what_a_server_refuses_is_not_acknowledged() {
    for house in houses().await {
        let (scope, [modern, legacy]) = (Scope::new(), house.both("default"));
        let filter = json!({"resourceSubscriptions": ["fake://none", "fake://text"]});
        let (_listen, granted) = Listen::open(&scope, &modern, "1", &filter).await;
        assert_eq!(granted, json!({"resourceSubscriptions": ["fake://text"]}));
        let undeclared = json!({"notifications": {"taskIds": ["somebody's"]}});
        let mut queue = mpsc::channel(8);
        let id = Id::from_number(9);
        let refused = modern.with_id(id, "subscriptions/listen", Raw::from_value(&undeclared), Some(queue.0)).await;
        assert_eq!(refused.unwrap().unwrap_err().code, -32_021);
        assert!(queue.1.try_recv().is_err(), "nothing was acknowledged");
        let error = legacy.ask("resources/subscribe", &json!({"uri": "fake://none"})).await.unwrap_err();
        assert!(error.message.contains("fake://none"), "{error:?}");
        until_watched(&modern, &["fake://text"]).await;
        let odd = legacy.ask("resources/subscribe", &json!({})).await.unwrap_err();
        assert_eq!(odd.code, -32_602);
    }
}

#[tokio::test]
async fn a_slow_reader_misses_repetitions_and_nothing_else() {
    let house = TestGateway::settled(&[server("alpha", &["--touches"]), profile("default", DIRECT)]).await;
    let (scope, modern) = (Scope::new(), house.modern("default"));
    let filter = json!({"resourceSubscriptions": ["fake://item/"], "toolsListChanged": true});
    let mut listen = Listen::begin(&scope, &modern, "1", &filter, 1);
    until_watched(&modern, &["fake://item/"]).await;
    let uris: Vec<String> = (0..2_000).map(|number| format!("fake://item/{number}")).collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    touch(&modern, &uris).await;
    touch(&modern, &["fake://item/last"]).await;
    house.apply(&[stopped("gamma", &["one"], "")]).await;
    assert_eq!(listen.next().await.0, ACKNOWLEDGED);
    let (mut seen, mut lists) = (Vec::new(), 0);
    while lists == 0 || !seen.iter().any(|uri| uri == "fake://item/" || uri == "fake://item/last") {
        match listen.next().await {
            (method, params) if method == UPDATED => seen.push(params["uri"].as_str().unwrap().to_owned()),
            (method, _) => {
                assert_eq!(method, "notifications/tools/list_changed");
                lists += 1;
            }
        }
    }
    assert!(seen.len() < 1_000, "{}", seen.len());
    assert_eq!(lists, 1);
    assert_eq!(modern.text("alpha_echo", &json!({"text": "a"})).await, "a");
}

#[tokio::test]
async fn a_session_that_reads_nothing_hears_the_news_once_it_reads() {
    let house = TestGateway::settled(&[server("alpha", &["--touches"]), profile("default", DIRECT)]).await;
    let legacy = house.legacy("default");
    assert_eq!(legacy.ask("resources/subscribe", &json!({"uri": "fake://text"})).await, Ok(json!({})));
    touch(&legacy, &["fake://text"]).await;
    let mut notifications = legacy.stream();
    assert_eq!(parts(&eventually("news", notifications.recv()).await.unwrap()).1, json!({"uri": "fake://text"}));
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_subscriptions() {
    for house in houses().await {
        let [modern, legacy] = house.both("default");
        for uri in ["fake://text", "fake://item/1"] {
            assert_eq!(legacy.ask("resources/subscribe", &json!({ "uri": uri })).await, Ok(json!({})));
        }
        until_watched(&modern, &["fake://text", "fake://item/1"]).await;
        house.gateway.sessions.close(legacy.caller.session.as_ref().unwrap());
        until_watched(&modern, &[]).await;
        let late = legacy.ask("resources/subscribe", &json!({"uri": "fake://item/2"})).await;
        assert!(late.is_err(), "{late:?}");
        until_watched(&modern, &[]).await;
    }
}

#[tokio::test]
async fn only_lists_that_were_asked_for_are_told() {
    let house =
        TestGateway::settled(&[server("alpha", &[]), profile("default", DIRECT), profile("work", DIRECT)]).await;
    let (scope, modern) = (Scope::new(), house.modern("default"));
    let (mut all, granted) = Listen::open(
        &scope,
        &modern,
        "1",
        &json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}),
    )
    .await;
    assert_eq!(granted.as_object().unwrap().len(), 3);
    let (mut prompts, _) = Listen::open(&scope, &modern, "2", &json!({"promptsListChanged": true})).await;
    let (mut work, _) = Listen::open(&scope, &house.modern("work"), "3", &json!({"toolsListChanged": true})).await;
    let (nothing, granted) = Listen::open(&scope, &modern, "4", &json!({"toolsListChanged": false})).await;
    assert_eq!(granted, json!({}));
    house.apply(&[profile("default", "exposure: direct\ntools: {deny: [\"*/echo\"]}")]).await;
    assert_eq!(all.next().await.0, "notifications/tools/list_changed");
    house.apply(&[server("beta", &[])]).await;
    let mut heard = BTreeSet::new();
    while heard.len() < 3 {
        heard.insert(all.next().await.0);
    }
    assert_eq!(prompts.next().await.0, "notifications/prompts/list_changed");
    assert_eq!(work.next().await.0, "notifications/tools/list_changed");
    assert!(nothing.queue.is_empty());
}

#[tokio::test]
async fn a_server_that_is_replaced_or_hidden_is_followed() {
    let house = TestGateway::settled(&[server("alpha", &["--touches"]), profile("default", DIRECT)]).await;
    let (scope, modern) = (Scope::new(), house.modern("default"));
    let filter = json!({"resourceSubscriptions": ["fake://text"]});
    let (mut listen, _) = Listen::open(&scope, &modern, "1", &filter).await;
    house.apply(&[server("alpha", &["--touches", "--page", "2"])]).await;
    assert_eq!(listen.update().await, "fake://text", "what happened between the two nobody knows");
    until_watched(&modern, &["fake://text"]).await;
    touch(&modern, &["fake://text"]).await;
    assert_eq!(listen.update().await, "fake://text");
    // Hidden from this profile now, while another still watches.
    house.apply(&[profile("work", DIRECT), profile("default", "exposure: direct\nservers: [gamma]")]).await;
    let work = house.modern("work");
    let (mut other, granted) = Listen::open(&scope, &work, "1", &filter).await;
    assert_eq!(granted, filter);
    touch(&work, &["fake://text"]).await;
    assert_eq!(other.update().await, "fake://text");
    assert!(listen.queue.is_empty());
    house.apply(&[(profile("work", "").0, String::new())]).await;
    assert!(other.end().await.is_ok(), "its profile is gone");
}

#[tokio::test]
async fn streams_end_with_a_result_when_the_gateway_does() {
    let house = TestGateway::settled(&[server("alpha", &["--touches"]), profile("default", DIRECT)]).await;
    let (scope, modern) = (Scope::new(), house.modern("default"));
    let (listen, _) = Listen::open(&scope, &modern, "\"x\"", &json!({"resourceSubscriptions": ["fake://text"]})).await;
    // One that reads nothing does not hold the end up.
    let slow = Listen::begin(&scope, &modern, "2", &json!({"toolsListChanged": true}), 1);
    house.gateway.end_subscriptions();
    let result = listen.end().await.unwrap().to_value();
    assert_eq!((&result["resultType"], &result["_meta"][KEY]), (&json!("complete"), &json!("x")));
    let _ended = slow.end().await;
    let late = Listen::begin(&scope, &modern, "3", &json!({"toolsListChanged": true}), 1);
    assert_eq!(late.end().await.unwrap_err().code, -31_003);
}

#[tokio::test]
async fn streams_are_bounded_and_odd_wishes_refused() {
    let house = TestGateway::settled(&[stopped("alpha", &["one"], "")]).await;
    let (scope, [modern, legacy]) = (Scope::new(), house.both("default"));
    let filter = json!({"toolsListChanged": true});
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(Listen::open(&scope, &modern, "1", &filter).await.0);
    }
    let beyond = Listen::begin(&scope, &modern, "65", &filter, 8);
    assert_eq!(beyond.end().await.unwrap_err().code, -31_007);
    let ended = open.pop().unwrap();
    drop(ended.queue);
    assert!(eventually("the end", ended.task).await.unwrap().unwrap().is_err());
    let (_again, _) = Listen::open(&scope, &modern, "1", &filter).await;
    for odd in [json!(null), json!({"toolsListChanged": 1}), json!({"taskIds": vec!["t"; 1_001]})] {
        assert_eq!(Listen::begin(&scope, &modern, "1", &odd, 8).end().await.unwrap_err().code, -32_602, "{odd}");
    }
    let long: Vec<String> = (0..100).map(|number| format!("a:{number}{}", "x".repeat(8_000))).collect();
    let long = Listen::begin(&scope, &modern, "1", &json!({"resourceSubscriptions": long}), 8);
    assert_eq!(long.end().await.unwrap_err().code, -32_600);
    let whole = modern.ask("subscriptions/listen", &json!({"notifications": filter})).await.unwrap_err();
    assert_eq!(whole.code, -32_600, "there is no stream");
    // Each era has its own way.
    assert_eq!(legacy.ask("subscriptions/listen", &json!({"notifications": filter})).await.unwrap_err().code, -32_601);
    assert_eq!(modern.ask("resources/subscribe", &json!({"uri": "a:"})).await.unwrap_err().code, -32_601);
}

#[tokio::test]
async fn subscriptions_are_audited() {
    let house = TestGateway::settled(&[server("alpha", &["--touches"]), profile("default", DIRECT)]).await;
    let (scope, [modern, legacy]) = (Scope::new(), house.both("default"));
    let filter = json!({"resourceSubscriptions": ["fake://text"]});
    let (_listen, _) = Listen::open(&scope, &modern, "1", &filter).await;
    legacy.ask("resources/subscribe", &json!({"uri": "fake://none"})).await.unwrap_err();
    let events = house.audited().await;
    let of = |method: &str| events.iter().find(|event| event.method == method).unwrap();
    let listen = of("subscriptions/listen");
    assert_eq!((listen.target.as_str(), listen.outcome.as_str()), ("alpha/fake://text", "ok"));
    assert_ne!(of("resources/subscribe").outcome, "ok");
}

#[tokio::test]
async fn changed_roots_are_told_to_the_session_s_own_servers() {
    let house = TestGateway::settled(&[server("alpha", &["--touches"]), profile("default", DIRECT)]).await;
    let other = house.legacy("default");
    let mut client = house.legacy("default");
    let capabilities = Raw::from_value(&json!({"roots": {"listChanged": true}}));
    let introduction =
        Introduction { revision: Revision::LATEST_LEGACY, capabilities, client_info: None, address: None };
    let who = Principal::member("local");
    let session = house.gateway.sessions.open(who, ProfileName::new("default").unwrap(), introduction).unwrap();
    client.caller.session = Some(session);
    let roots = async |client: &Client| {
        let seen: Value = serde_json::from_str(&client.text("alpha_watched", &json!({})).await).unwrap();
        seen["roots"].as_u64().unwrap()
    };
    assert_eq!(roots(&client).await, 0);
    other.notify("notifications/roots/list_changed", &json!({}));
    client.notify("notifications/roots/list_changed", &json!({}));
    let waiting = async {
        while roots(&client).await == 0 {
            tokio::task::yield_now().await;
        }
    };
    eventually("the server hears it", waiting).await;
    assert_eq!(roots(&other).await, 0, "another connection");
}
