//! Two users, a key and the owner do anything at random, each with what it knows of the others: names, uris, ids, states,
//! cursors, handles, runs, questions, events. Nothing that one is answered, or is told, has a word of another's in it.

mod further;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};
use toolcrib_protocol::task;
use toolcrib_session::Reader;
use toolcrib_testgateway::Client;
use toolcrib_view::{Method, Operation};

use super::world::{PEOPLE, SERVERS, Wallet, World, secrets_of};

/// How many interleavings there are in all, and how many steps each of the two has in one.
const INTERLEAVINGS: u64 = 10_000;
const STEPS: usize = 2;
/// How many gateways they are shared by, a test for each: it must also hold at the beginning, and a test has two minutes.
const GATEWAYS: u64 = 20;

/// A sequence that is the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// What everyone has got hold of, whoever got it first: the others try it too.
#[derive(Debug, Default)]
struct Loot(Mutex<HashMap<&'static str, Vec<Value>>>);

/// How many of a kind are kept.
const LOOT: usize = 64;

impl Loot {
    fn keep(&self, kind: &'static str, what: &Value) {
        if what.is_null() {
            return;
        }
        let mut loot = self.0.lock().unwrap();
        let of_kind = loot.entry(kind).or_default();
        if of_kind.len() >= LOOT {
            of_kind.remove(0);
        }
        of_kind.push(what.clone());
    }

    fn any(&self, kind: &'static str, random: &mut Random) -> Value {
        let loot = self.0.lock().unwrap();
        loot.get(kind).filter(|all| !all.is_empty()).map_or(json!("none"), |all| random.pick(all).clone())
    }
}

/// One person with its clients.
struct Person {
    number: usize,
    name: &'static str,
    modern: Client,
    legacy: Client,
    meta: Client,
    news: Mutex<Reader>,
    /// A legacy client that can be asked, and where it is.
    asked: Client,
    questions: tokio::sync::Mutex<Reader>,
}

/// One run.
struct Run {
    world: World,
    people: Vec<Person>,
    loot: Loot,
    operations: Vec<&'static Operation>,
    seed: u64,
}

/// All texts in a value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().flat_map(texts).collect(),
        Value::Object(all) => all.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

fn declared() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {task::EXTENSION: {}}, "elicitation": {"form": {}}},
    })
}

impl Run {
    async fn open(seed: u64) -> Self {
        let wallet = Arc::<Wallet>::default();
        let world = World::open(&wallet).await;
        let gateway = &world.gateway;
        let people = PEOPLE.iter().enumerate().map(|(number, (name, principal))| {
            let legacy = gateway.legacy_of(principal, "default");
            let news = Mutex::new(legacy.stream());
            let (modern, meta) = (gateway.modern_of(principal, "default"), gateway.legacy_of(principal, "meta"));
            let asked = gateway.legacy_asked_of(principal, "default", &json!({"elicitation": {}}));
            let questions = tokio::sync::Mutex::new(asked.stream());
            Person { number, name, modern, legacy, meta, news, asked, questions }
        });
        let people = people.collect();
        let operations = gateway.gateway.operations.iter();
        let operations = operations.filter(|it| it.method == Method::Get).collect();
        for server in SERVERS {
            for person in 0..PEOPLE.len() {
                world.log_in(server, person, 0);
            }
        }
        for person in 0..PEOPLE.len() {
            world.until_shown("mod", person, true).await;
        }
        Self { world, people, loot: Loot::default(), operations, seed }
    }

    /// Nothing in what a person is told is another's, beside the words that this one has said itself.
    fn check(&self, person: &Person, asked: &Value, answered: &str) {
        let mut told = answered.to_owned();
        texts(asked).into_iter().filter(|text| !text.is_empty()).for_each(|text| told = told.replace(text, ""));
        for (other, _) in PEOPLE.iter().filter(|(other, _)| *other != person.name) {
            for secret in secrets_of(other) {
                let (seed, name) = (self.seed, person.name);
                assert!(!told.contains(&secret), "seed {seed}: {name} reads `{secret}`: {asked} gave {answered}");
            }
        }
    }

    async fn ask(&self, person: &Person, client: &Client, method: &str, params: Value) -> Option<Value> {
        let answered = client.ask(method, &params).await;
        let text = match &answered {
            Ok(result) => result.to_string(),
            Err(error) => format!("{error:?}"),
        };
        self.check(person, &params, &text);
        answered.ok()
    }

    async fn call(&self, person: &Person, client: &Client, name: &str, arguments: Value) -> Option<Value> {
        let params = if client.caller.session.is_none() {
            json!({"name": name, "arguments": arguments, "_meta": declared()})
        } else {
            json!({"name": name, "arguments": arguments})
        };
        self.ask(person, client, "tools/call", params).await
    }

    /// Keeps what leads back to a call that asks something.
    fn keep_asked(&self, server: &str, given: &Value) {
        if given["requestState"].is_string() {
            self.loot.keep("asked", &json!([server, given["requestState"], given["inputRequests"]]));
        }
    }

    fn hear(&self, person: &Person) {
        let mut news = person.news.lock().unwrap();
        // After a lost connection each resource that it has asked about is told as changed, by the very URI that it said.
        let wanted = self.world.wallet.wanted.lock().unwrap();
        let own = wanted.iter().filter(|(name, _)| name == person.name).map(|(_, uri)| json!(format!("\"{uri}\"")));
        let own = Value::Array(own.collect());
        drop(wanted);
        while let Poll::Ready(Some(event)) = news.poll_event(&mut Context::from_waker(Waker::noop())) {
            self.check(person, &own, &String::from_utf8_lossy(&event.data));
            self.loot.keep("event", &json!([person.number, event.id]));
        }
    }

    /// A task and the first pages of each person, so that the others have them to try from the beginning.
    async fn seed_loot(&self) {
        for person in &self.people {
            let given = self.call(person, &person.modern, "mod/job", json!({})).await.unwrap_or_default();
            self.loot.keep("task", &given["taskId"]);
            for method in ["tools/list", "resources/list", "prompts/list"] {
                let page = self.ask(person, &person.modern, method, json!({})).await.unwrap_or_default();
                self.loot.keep(method, &page["nextCursor"]);
            }
        }
    }

    /// One step of one person.
    async fn step(&self, person: &Person, random: &mut Random) {
        let server = *random.pick(&SERVERS);
        let (whose, _) = *random.pick(&PEOPLE);
        let only = &secrets_of(whose)[1];
        let client = if random.below(2) == 0 { &person.modern } else { &person.legacy };
        match random.below(30) {
            0 => drop(self.ask(person, client, "tools/list", json!({})).await),
            1 => drop(
                self.call(person, &person.meta, "find_tools", json!({"query": format!("ledger of {server}")})).await,
            ),
            2 => {
                let tool = [format!("{server}/{only}"), format!("{server}_{only}"), format!("{server}_onl")];
                drop(self.call(person, &person.meta, "describe_tool", json!({"name": random.pick(&tool)})).await);
            }
            3 | 4 => {
                let tools = ["search", "ask", "job", only, "onlyx"];
                let tool = random.pick(&tools);
                let names = [format!("{server}/{tool}"), format!("{server}_{tool}"), format!("x_{server}_{tool}")];
                let name = random.pick(&names);
                let given = self.call(person, client, name, json!({})).await.unwrap_or_default();
                self.keep_asked(server, &given);
                self.loot.keep("task", &given["taskId"]);
            }
            5 => {
                let arguments = json!({"name": format!("{server}/{only}"), "arguments": {}});
                drop(self.call(person, &person.meta, "call_tool", arguments).await);
            }
            6 => drop(self.ask(person, client, "resources/list", json!({})).await),
            7 => drop(self.ask(person, client, "resources/templates/list", json!({})).await),
            8 => {
                let uris =
                    [format!("note://{only}/a"), format!("note://{only}/b"), format!("{server}+note://{only}/a")];
                drop(self.ask(person, client, "resources/read", json!({"uri": random.pick(&uris)})).await);
            }
            9 => drop(self.ask(person, client, "prompts/list", json!({})).await),
            10 => {
                let name = format!("{server}_{only}");
                drop(self.ask(person, client, "prompts/get", json!({"name": name})).await);
            }
            11 => {
                let reference = if random.below(2) == 0 {
                    json!({"type": "ref/prompt", "name": format!("{server}_{only}")})
                } else {
                    json!({"type": "ref/resource", "uri": format!("note://{only}/{{x}}")})
                };
                let params = json!({"ref": reference, "argument": {"name": "x", "value": ""}});
                drop(self.ask(person, client, "completion/complete", params).await);
            }
            12 => {
                let method = *random.pick(&["tasks/get", "tasks/cancel", "tasks/update"]);
                let id = self.loot.any("task", random);
                let params = json!({"taskId": id, "inputResponses": {}, "_meta": declared()});
                drop(self.ask(person, &person.modern, method, params).await);
            }
            13 => {
                let asked = self.loot.any("asked", random);
                let mut params = json!({"name": format!("{}/ask", asked[0].as_str().unwrap_or("mod")), "arguments": {},
                    "requestState": asked[1], "inputResponses": {}, "_meta": declared()});
                for key in asked[2].as_object().into_iter().flat_map(|all| all.keys()) {
                    params["inputResponses"][key] = further::answer_of(person);
                }
                drop(self.ask(person, &person.modern, "tools/call", params).await);
            }
            14 => self.use_handle(person, client, random).await,
            15 => {
                let method = *random.pick(&["tools/list", "resources/list", "prompts/list"]);
                let cursor = self.loot.any(method, random);
                let params = if random.below(2) == 0 { json!({}) } else { json!({"cursor": cursor}) };
                let page = self.ask(person, client, method, params).await.unwrap_or_default();
                self.loot.keep(method, &page["nextCursor"]);
            }
            16 => {
                let uri = format!("note://{only}/a");
                let method = *random.pick(&["resources/subscribe", "resources/unsubscribe"]);
                let wanted = (PEOPLE[person.number].0.to_owned(), uri.clone());
                self.world.wallet.wanted.lock().unwrap().insert(wanted);
                drop(self.ask(person, &person.legacy, method, json!({"uri": uri})).await);
            }
            17 => {
                let tool = format!("{server}/{only}");
                let name = *random.pick(&["load_tools", "unload_tools", "list_active_tools"]);
                drop(self.call(person, &person.meta, name, json!({"names": [tool]})).await);
            }
            18 => {
                let operation = *random.pick(&self.operations);
                let known = [format!("{server}/{only}"), server.to_owned(), "default".to_owned()];
                let given = random.pick(&known);
                let arguments = json!({"name": given, "server": server, "tool": given, "profile": "default"});
                drop(self.call(person, client, operation.tool, arguments).await);
            }
            19 if random.below(2) == 0 => self.world.wallet.tell(whose),
            19 if random.below(2) == 0 => self.change(person, server, random).await,
            20 => drop(self.ask(person, client, "x/unknown", json!({"name": only})).await),
            21 => self.hear(person),
            _ => self.further_step(person, client, random).await,
        }
    }

    /// Opens a session at a server, and uses or closes one of anyone's.
    async fn use_handle(&self, person: &Person, client: &Client, random: &mut Random) {
        let given = self.call(person, client, "named_open_session", json!({})).await.unwrap_or_default();
        self.loot.keep("handle", &given["structuredContent"]["session"]);
        let handle = self.loot.any("handle", random);
        drop(self.call(person, client, "named/search", json!({"session": handle})).await);
        if random.below(3) == 0 {
            drop(self.call(person, client, "named_close_session", json!({"session": handle})).await);
        }
    }

    /// A login, a logout, an expiry, a refresh or a reload.
    async fn change(&self, person: &Person, server: &str, random: &mut Random) {
        match random.below(8) {
            0 => self.world.log_out(server, person.number).await,
            1 => {
                self.world.wallet.expire(server, PEOPLE[person.number].1);
                self.world.changed(server, PEOPLE[person.number].1);
            }
            2 => {
                let gateway = Arc::clone(&self.world.gateway.gateway);
                tokio::task::spawn_blocking(move || gateway.rebuild()).await.unwrap();
            }
            _ => self.world.log_in(server, person.number, random.next()),
        }
    }

    /// Two of them at once.
    async fn interleave(&self, number: u64) {
        let mut random = Random(self.seed ^ number.wrapping_mul(0xA24B_AED4_963E_E407));
        let (one, other) = (random.below(PEOPLE.len()), random.below(PEOPLE.len()));
        let act = async |person: usize, mut random: Random| {
            for _ in 0..STEPS {
                for _ in 0..random.below(3) {
                    tokio::task::yield_now().await;
                }
                self.step(&self.people[person], &mut random).await;
            }
        };
        tokio::join!(act(one, Random(random.next())), act(other, Random(random.next())));
    }
}

/// The interleavings of one gateway.
async fn interleave_in(gateway: u64) {
    let seed = std::env::var("TOOLCRIB_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let run = Run::open(seed).await;
    if !gateway.is_multiple_of(4) {
        // Lists of several pages, for their cursors.
        let gateway = Arc::clone(&run.world.gateway.gateway);
        tokio::task::spawn_blocking(move || gateway.list_in_pages_of(2)).await.unwrap();
    }
    run.seed_loot().await;
    let each = INTERLEAVINGS / GATEWAYS;
    for number in gateway * each..(gateway + 1) * each {
        run.interleave(number).await;
    }
    run.people.iter().for_each(|person| run.hear(person));
    assert_eq!(*run.world.wallet.crossed.lock().unwrap(), Vec::<String>::new(), "seed {seed}");
    let loot = run.loot.0.lock().unwrap();
    for kind in ["asked", "event", "handle", "question", "run", "task"] {
        assert!(loot.get(kind).is_some_and(|all| all.len() > 1), "seed {seed}: no `{kind}` was there to be tried");
    }
    let cursors = ["tools/list", "resources/list", "prompts/list"].iter().any(|method| loot.contains_key(method));
    assert!(cursors || gateway.is_multiple_of(4), "seed {seed}: no cursor was there to be tried");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_one_reads_what_is_another_s_in_any_interleaving() {
    interleave_in(0).await;
}

/// The same for each further gateway.
macro_rules! gateways {
    ($($name:ident: $number:literal),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                interleave_in($number).await;
            }
        )*

        #[test]
        fn every_interleaving_is_that_of_one_gateway() {
            let all: Vec<u64> = vec![0, $($number),*];
            assert_eq!(all, (0..GATEWAYS).collect::<Vec<_>>());
            assert_eq!(INTERLEAVINGS % GATEWAYS, 0);
        }
    };
}

gateways! {
    nor_in_gateway_1: 1, nor_in_gateway_2: 2, nor_in_gateway_3: 3, nor_in_gateway_4: 4, nor_in_gateway_5: 5,
    nor_in_gateway_6: 6, nor_in_gateway_7: 7, nor_in_gateway_8: 8, nor_in_gateway_9: 9, nor_in_gateway_10: 10,
    nor_in_gateway_11: 11, nor_in_gateway_12: 12, nor_in_gateway_13: 13, nor_in_gateway_14: 14,
    nor_in_gateway_15: 15, nor_in_gateway_16: 16, nor_in_gateway_17: 17, nor_in_gateway_18: 18,
    nor_in_gateway_19: 19,
}
