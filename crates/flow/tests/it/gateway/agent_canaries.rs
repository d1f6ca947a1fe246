//! Canaries in what models answer: in text, reasoning, refusals and calls, in every encoding, whole and in the pieces of
//! a stream. Who has the run is halted, the run ends, and nothing after the hit is shown, kept or called.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolcrib_base::Secret;
use toolcrib_catalog::ModelDefinition;
use toolcrib_flow::agent::{ModelBody, ModelResponse, SendError, SendRequest};
use toolcrib_model::Wire;
use toolcrib_store::ActivityFilter;
use toolcrib_testgateway::{File, profile, server};
use toolcrib_testkit::{eventually_finds, eventually_holds};

use super::{Mill, asked};

const TOKEN: &str = "k3q7zd9xw5mtb2ra6hcvy4ne";
const MODEL: &str = "name: m\nwire: chat\nurl: http://127.0.0.1:9/v1\n";

/// A model that streams what its table has for the task, each piece once it may.
#[derive(Debug)]
struct StreamedModel {
    answers: HashMap<String, Vec<Value>>,
    /// One permit for each piece; closed, all may go.
    pieces: Arc<Semaphore>,
    asked: AtomicUsize,
    /// Pieces that were taken.
    taken: Arc<AtomicUsize>,
}

struct Pieces {
    left: std::vec::IntoIter<Value>,
    pieces: Arc<Semaphore>,
    taken: Arc<AtomicUsize>,
    is_over: bool,
}

#[async_trait::async_trait]
impl ModelBody for Pieces {
    async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        if let Ok(permit) = self.pieces.acquire().await {
            permit.forget();
        }
        let Some(piece) = self.left.next() else {
            let end = (!std::mem::replace(&mut self.is_over, true)).then_some("data: [DONE]\n\n");
            return Ok(end.map(Bytes::from));
        };
        self.taken.fetch_add(1, Ordering::SeqCst);
        Ok(Some(format!("data: {piece}\n\n").into()))
    }
}

#[async_trait::async_trait]
impl SendRequest for StreamedModel {
    async fn send(&self, _: &Arc<ModelDefinition>, _: Wire, body: Bytes) -> Result<ModelResponse, SendError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let request: Value = serde_json::from_slice(&body).unwrap();
        let messages = request["messages"].as_array().unwrap();
        let task = messages.iter().rev().find(|it| it["role"] == "user").unwrap()["content"].as_str().unwrap();
        let left = self.answers.get(task).unwrap_or_else(|| panic!("no answer for {task}")).clone().into_iter();
        let body = Pieces { left, pieces: Arc::clone(&self.pieces), taken: Arc::clone(&self.taken), is_over: false };
        Ok(ModelResponse { status: 200, is_stream: true, retry_after: None, body: Box::new(body) })
    }

    async fn look(&self, _: &Arc<ModelDefinition>, _: &'static str) -> Option<Bytes> {
        None
    }
}

impl StreamedModel {
    fn new(answers: impl IntoIterator<Item = (String, Vec<Value>)>) -> Arc<Self> {
        Arc::new(Self {
            answers: answers.into_iter().collect(),
            pieces: Arc::new(Semaphore::new(0)),
            asked: AtomicUsize::new(0),
            taken: Arc::default(),
        })
    }
}

fn delta(key: &str, text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {key: text}}]})
}

fn call(arguments: &str) -> Vec<Value> {
    let call =
        json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "fake_echo", "arguments": arguments}});
    vec![
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ]
}

fn stop() -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
}

/// A text as a stream brings it, in pieces of so many characters.
fn streamed(key: &str, text: &str, each: usize) -> Vec<Value> {
    let letters: Vec<char> = text.chars().collect();
    let pieces = letters.chunks(each).map(|piece| delta(key, &piece.iter().collect::<String>()));
    pieces.chain([delta("content", " and goes on."), stop()]).collect()
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32, place: u32| char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]);
    let groups = text.as_bytes().chunks_exact(3);
    groups
        .flat_map(|group| {
            let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            (0..4).map(move |place| digit(bits, place))
        })
        .collect()
}

fn each(write: impl Fn(u8) -> String) -> String {
    TOKEN.bytes().map(write).collect()
}

/// The token in the forms that the guide lists.
fn encodings() -> Vec<(&'static str, String)> {
    let hex = each(|byte| format!("{byte:02x}"));
    vec![
        ("plain", TOKEN.to_owned()),
        ("upper case", TOKEN.to_uppercase()),
        ("reversed", TOKEN.chars().rev().collect()),
        ("spaced", each(|byte| format!("{} ", byte as char))),
        ("a line each", each(|byte| format!("- {}\n", byte as char))),
        ("dashed", TOKEN.as_bytes().chunks(4).map(|part| String::from_utf8_lossy(part).into_owned() + "-").collect()),
        ("base64", base64(TOKEN)),
        ("base64 of base64", base64(&base64(TOKEN))),
        ("hexadecimal", hex.clone()),
        ("base64 of hexadecimal", base64(&hex)),
        ("percent", each(|byte| format!("%{byte:02X}"))),
        ("unicode escapes", each(|byte| format!("\\u{byte:04x}"))),
        ("character references", each(|byte| format!("&#{byte};"))),
    ]
}

async fn until_halted(mill: &Mill, who: &str) {
    let halts = || mill.house.gateway.path.halts.list();
    eventually_holds(&format!("the halt of {who}"), || halts().iter().any(|it| it.subject.name() == who)).await;
}

/// The house with an agent `clerk` on the model, and the canary.
async fn mill(model: &Arc<StreamedModel>) -> Mill {
    let files: Vec<File> = vec![
        server("fake", &[]),
        profile("default", "exposure: direct\n"),
        ("models/m.yaml".to_owned(), MODEL.to_owned() + "parallel: 100\n"),
        ("agents/clerk.yaml".to_owned(), "name: clerk\nmodel: m\n".to_owned()),
    ];
    let mill = Mill::asking(&files, Arc::clone(model) as Arc<dyn SendRequest>).await;
    mill.house.gateway.path.canaries.look_for(&[("can_1".into(), Secret::new(TOKEN))]);
    mill
}

async fn run_ended(mill: &Mill, id: &str) -> Value {
    let admin = mill.admin();
    eventually_finds("the end of the run", async || {
        let run = asked(&admin, "core_run_get", &json!({"run": id})).await;
        if run["status"] == "ended" { Ok(run) } else { Err(run) }
    })
    .await
}

#[tokio::test]
async fn a_canary_in_a_models_text_halts_in_every_form_whole_and_in_pieces() {
    let mut cases = Vec::new();
    for (form, text) in encodings() {
        for (place, pieces) in [
            ("text", vec![delta("content", &format!("It is {text}")), stop()]),
            ("text in pieces", streamed("content", &format!("It is {text}"), 3)),
            ("reasoning", streamed("reasoning_content", &format!("I think {text}"), 1_000)),
            ("reasoning in pieces", streamed("reasoning_content", &text, 5)),
            ("refusal", streamed("refusal", &text, 4)),
            ("call", call(&json!({"text": text}).to_string())),
        ] {
            cases.push((format!("{form}, {place}"), pieces));
        }
    }
    let count = cases.len();
    let model = StreamedModel::new(cases.iter().map(|(name, pieces)| (name.clone(), pieces.clone())));
    model.pieces.close();
    let mill = mill(&model).await;
    let runs = join_all(cases.iter().enumerate().map(async |(number, (name, _))| {
        let who = format!("p{number}");
        let client = mill.house.modern_of(&who, "default");
        let run = asked(&client, "core_run_start", &json!({"agent": "clerk", "task": name})).await;
        until_halted(&mill, &who).await;
        (name, run_ended(&mill, run["run"].as_str().unwrap()).await)
    }))
    .await;
    for (name, run) in &runs {
        assert_eq!(run["end"], "cancelled", "{name}: {run}");
        assert!(run["output"].as_str().unwrap().starts_with("halt `hlt_"), "{name}: {run}");
    }
    assert_eq!(model.asked.load(Ordering::SeqCst), count, "no answer was asked for again");
    let audited = mill.house.audited().await;
    let filter = ActivityFilter { methods: vec!["security.flagged"], limit: 1_000, ..ActivityFilter::default() };
    let flagged = mill.store().audit().activity(&filter).unwrap();
    assert_eq!(flagged.len(), count);
    assert!(flagged.iter().all(|it| it.canary.as_deref() == Some("can_1") && it.halt.is_some()), "{flagged:?}");
    assert!(flagged.iter().all(|it| it.target == "agent/clerk" && !it.request_id.is_empty()), "{flagged:?}");
    assert!(!audited.iter().any(|it| it.target == "fake/echo"), "no call was made");
    let forms: Vec<String> = encodings().into_iter().map(|(_, text)| text).collect();
    let admin = mill.admin();
    for (name, run) in &runs {
        let journal = asked(&admin, "core_run_export", &json!({"run": run["run"], "format": "json"})).await.to_string();
        assert!(!forms.iter().any(|form| journal.contains(form.as_str())), "{name}: {journal}");
    }
    assert!(!format!("{audited:?}").contains(TOKEN), "it is in no record");
}

#[tokio::test]
async fn nothing_of_a_canary_or_behind_it_is_shown_while_it_streams() {
    let pieces = ["The word is ", "k3q7", "zd9x", "w5mt", "b2ra6hcvy4ne", ", and then more."];
    let deltas: Vec<Value> = pieces.iter().map(|piece| delta("content", piece)).chain([stop()]).collect();
    // The same without the canary: what looked like a piece of one is shown with the whole answer.
    let innocent: Vec<Value> =
        ["See ", "k3q7zd9", "oo", " there."].iter().map(|piece| delta("content", piece)).chain([stop()]).collect();
    let model = StreamedModel::new([("tell".to_owned(), deltas), ("look".to_owned(), innocent)]);
    let mill = mill(&model).await;
    let client = mill.house.modern_of("ann", "default");
    let admin = mill.admin();
    let run = asked(&client, "core_run_start", &json!({"agent": "clerk", "task": "tell"})).await;
    let id = run["run"].clone();
    let shown = async |count: usize| {
        model.pieces.add_permits(1);
        eventually_holds("the piece to be taken", || model.taken.load(Ordering::SeqCst) == count).await;
        let answer = asked(&admin, "core_run_entries", &json!({"run": id})).await;
        answer["partial"].as_str().unwrap_or_default().to_owned()
    };
    shown(1).await;
    eventually_finds("the first piece to be shown", async || {
        let answer = asked(&admin, "core_run_entries", &json!({"run": id})).await;
        if answer["partial"] == pieces[0] { Ok(()) } else { Err(answer) }
    })
    .await;
    for number in 2..4 {
        // Four characters may be anything; the next four are a piece.
        let seen = shown(number).await;
        assert!("The word is k3q7".starts_with(&seen), "{seen}");
    }
    model.pieces.add_permits(1);
    until_halted(&mill, "ann").await;
    let ended = run_ended(&mill, id.as_str().unwrap()).await;
    assert_eq!(ended["end"], "cancelled", "{ended}");
    assert_eq!(model.taken.load(Ordering::SeqCst), 4, "the rest of the stream was not waited for");
    let entries = asked(&admin, "core_run_entries", &json!({"run": id})).await.to_string();
    assert!(!entries.contains("k3q7") && !entries.contains("then more"), "{entries}");
    // An innocent answer is shown whole, and halts no one.
    model.pieces.close();
    let bob = mill.house.modern_of("bob", "default");
    let run = asked(&bob, "core_run_start", &json!({"agent": "clerk", "task": "look", "wait": true})).await;
    assert_eq!((&run["end"], &run["output"]), (&json!("done"), &json!("See k3q7zd9oo there.")), "{run}");
    assert_eq!(mill.house.gateway.path.halts.list().len(), 1);
}

#[tokio::test]
async fn the_canaries_of_an_agents_definition_are_looked_for_like_minted_ones() {
    let said = |text: &str| vec![delta("content", text), stop()];
    let model = StreamedModel::new([
        ("short".to_owned(), said("It is canary 7F3A91.")),
        ("long".to_owned(), said(&format!("It is {}", base64(TOKEN)))),
        ("call".to_owned(), call(r#"{"text":"CANARY-7f3a91"}"#)),
        ("none".to_owned(), said("It is CANARY-7f3a9.")),
    ]);
    model.pieces.close();
    let agent = format!("name: clerk\nmodel: m\ncanary_tokens: [CANARY-7f3a91, {TOKEN}]\n");
    let files: Vec<File> = vec![
        server("fake", &[]),
        profile("default", "exposure: direct\n"),
        ("models/m.yaml".to_owned(), MODEL.to_owned()),
        ("agents/clerk.yaml".to_owned(), agent),
    ];
    let mill = Mill::asking(&files, Arc::clone(&model) as Arc<dyn SendRequest>).await;
    for task in ["short", "long", "call"] {
        let client = mill.house.modern_of(task, "default");
        let run = asked(&client, "core_run_start", &json!({"agent": "clerk", "task": task})).await;
        until_halted(&mill, task).await;
        let run = run_ended(&mill, run["run"].as_str().unwrap()).await;
        assert!(run["output"].as_str().unwrap().starts_with("halt `hlt_"), "{task}: {run}");
    }
    let audited = mill.house.audited().await;
    let named = audited.iter().filter(|it| it.canary.as_deref() == Some("agent/clerk")).count();
    assert!(named >= 3 && !audited.iter().any(|it| it.target == "fake/echo"), "{audited:?}");
    let client = mill.house.modern_of("innocent", "default");
    let run = asked(&client, "core_run_start", &json!({"agent": "clerk", "task": "none", "wait": true})).await;
    assert_eq!(run["output"], "It is CANARY-7f3a9.", "{run}");
    // A definition without them counts as soon as it is read.
    mill.house.apply(&[("agents/clerk.yaml".to_owned(), "name: clerk\nmodel: m\n".to_owned())]).await;
    let client = mill.house.modern_of("later", "default");
    let run = asked(&client, "core_run_start", &json!({"agent": "clerk", "task": "short", "wait": true})).await;
    assert_eq!(run["output"], "It is canary 7F3A91.", "{run}");
}
