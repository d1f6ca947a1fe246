//! `core_model_test`: asks a model a few small questions and says what works. Each question is one request, which costs
//! what it costs; nothing is called.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_agent::Failure;
use toolcrib_base::Problem;
use toolcrib_model::{
    Answer, Conversation, Delta, Json, Money, Options, OutputSchema, Tool, ToolChoice, ToolResult, Usage,
};

use super::OperationCall;
use crate::agent::models::{ModelEntry, Place};

/// How long one answer may take here; a definition may allow more.
const ANSWER: Duration = Duration::from_secs(120);
/// Tokens of an answer: a model that reasons needs more than its answer has.
const OUTPUT: u64 = 1_024;
/// The tool that the model is offered.
const ADD: &str = "add_numbers";
const ADD_SCHEMA: &str = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}"#;
const CITY_SCHEMA: &str = r#"{"type":"object","properties":{"city":{"type":"string"},"country":{"type":"string"}},"required":["city","country"],"additionalProperties":false}"#;
/// What is asked again to see whether it comes from the cache: providers keep nothing shorter than 1,024 tokens. Each
/// word is a token or two for every tokenizer, which digits are not.
const CACHED_WORDS: usize = 1_800;
const WORDS: [&str; 11] =
    ["red", "house", "river", "stone", "green", "paper", "road", "wind", "blue", "table", "north"];
/// Tokens of that text, at most.
const CACHED_TOKENS: u64 = 4_096;

/// Whether one thing works.
enum Verdict {
    Works(String),
    Fails(String),
    /// It cannot be said.
    Unknown(String),
}

use Verdict::{Fails, Unknown, Works};

/// The questions to one model.
struct ModelTest<'a> {
    asking: &'a OperationCall,
    entry: &'a ModelEntry,
    checks: Vec<Value>,
    usage: Usage,
    /// How many answers said what they used, of how many.
    counted: usize,
    answers: usize,
}

pub(super) async fn run(asking: &OperationCall) -> Result<Value, Problem> {
    let entry = asking.inner.bridge.models.wanted(asking.given.text("name")?)?;
    let mut test =
        ModelTest { asking, entry: &entry, checks: Vec::new(), usage: Usage::default(), counted: 0, answers: 0 };
    let answers = test.answers().await;
    let is_there = matches!(answers, Works(_));
    test.say("answers", answers);
    if is_there {
        let stream = test.stream().await;
        test.say("stream", stream);
        test.tools().await;
        let forced = test.forced().await;
        test.say("forced tool", forced);
        let schema = test.schema().await;
        test.say("output by schema", schema);
        let cache = test.cache().await;
        test.say("cache", cache);
        let usage = test.usage();
        test.say("usage", usage);
        let window = test.window().await;
        test.say("window", window);
    }
    Ok(test.report())
}

// === impl ModelTest ===

impl ModelTest<'_> {
    fn say(&mut self, check: &str, verdict: Verdict) {
        let (works, detail) = match verdict {
            Works(detail) => (json!(true), detail),
            Fails(detail) => (json!(false), detail),
            Unknown(detail) => (Value::Null, detail),
        };
        self.checks.push(json!({ "check": check, "works": works, "detail": detail }));
    }

    fn report(self) -> Value {
        let failed = self.checks.iter().filter(|check| check["works"] == false).count();
        let money = self.entry.prices.map(|prices| prices.cost(self.usage));
        let mut report = json!({
            "name": self.entry.name, "model": self.entry.target.model, "wire": self.entry.target.wire.name(),
            "works": failed == 0, "checks": self.checks, "tokens": self.usage.total(),
        });
        if let Some(money) = money.filter(|money| *money > Money::default()) {
            report["money"] = money.to_string().into();
        }
        report
    }

    /// One answer, with the number of pieces in which its text came.
    async fn ask(&mut self, conversation: &Conversation) -> Result<(Answer, usize), String> {
        let body = toolcrib_model::render(conversation, &self.entry.target).map_err(|error| error.to_string())?;
        let pieces = AtomicUsize::new(0);
        let shown = |delta: &Delta| {
            pieces.fetch_add(usize::from(matches!(delta, Delta::Text(_))), Ordering::Relaxed);
        };
        let work = async {
            let _place = self.entry.places.acquire().await;
            self.asking.inner.bridge.answer(self.entry, body, &shown).await
        };
        let limit = self.entry.timeout.min(ANSWER);
        let answer = match tokio::time::timeout(limit, work).await {
            Err(_) => return Err(format!("no answer within {} s", limit.as_secs())),
            Ok(Err(failure)) => return Err(in_words(&failure)),
            Ok(Ok(answer)) => answer,
        };
        self.answers += 1;
        if let Some(usage) = answer.usage {
            self.counted += 1;
            self.usage = self.usage.plus(usage);
        }
        Ok((answer, pieces.into_inner()))
    }

    /// A question with tools or without.
    fn question(&self, text: &str, offers_tool: bool) -> Conversation {
        let mut conversation = Conversation::default();
        if offers_tool {
            conversation.tools.push(Tool {
                name: ADD.to_owned(),
                description: "Adds two numbers.".to_owned(),
                input_schema: Json::parse(ADD_SCHEMA).expect("it is JSON"),
                deferred: false,
            });
        }
        conversation.say(text);
        conversation.options =
            Options { max_output_tokens: Some(self.entry.max_output.min(OUTPUT)), ..Options::default() };
        conversation
    }

    async fn answers(&mut self) -> Verdict {
        let asked = self.question("Answer with the one word: ready", false);
        match self.ask(&asked).await {
            Err(why) => Fails(why),
            Ok((answer, _)) if !answer.text.trim().is_empty() => {
                let by = answer.model.map(|model| format!(" as `{}`", short(&model))).unwrap_or_default();
                Works(format!("it answers{by}"))
            }
            Ok((answer, _)) => Fails(format!("its answer has no text and ends by `{}`", answer.finish.name())),
        }
    }

    async fn stream(&mut self) -> Verdict {
        let mut asked = self.question("Count from one to five in words.", false);
        asked.options.stream = true;
        match self.ask(&asked).await {
            Err(why) => Fails(why),
            Ok((_, 0)) => Fails("the answer came as a whole".to_owned()),
            Ok((_, pieces)) => Works(format!("{pieces} pieces")),
        }
    }

    /// Whether it calls a tool by itself, and goes on with the result.
    async fn tools(&mut self) {
        let mut asked = self.question(&format!("Use the tool {ADD} to add 17 and 25."), true);
        let answer = match self.ask(&asked).await {
            Ok((answer, _)) => answer,
            Err(why) => return self.say("tools", Fails(why)),
        };
        let called = called(&answer);
        let is_called = matches!(called, Works(_));
        self.say("tools", called);
        if !is_called {
            return;
        }
        asked.answered(self.entry.target.origin.clone(), &answer);
        asked.results(answer.calls.iter().map(|call| ToolResult::text(call.id.clone(), "42")).collect());
        let went_on = match self.ask(&asked).await {
            Err(why) => Fails(why),
            Ok((answer, _)) if answer.calls.is_empty() => Works("it goes on with the result".to_owned()),
            Ok(_) => Unknown("it calls again".to_owned()),
        };
        self.say("results", went_on);
    }

    async fn forced(&mut self) -> Verdict {
        let mut asked = self.question("Hello! Numbers: 3 and 4.", true);
        // It is the only tool. llama.cpp ignores the name of one.
        asked.options.tool_choice = ToolChoice::Any;
        match self.ask(&asked).await {
            Err(why) => Fails(why),
            Ok((answer, _)) => called(&answer),
        }
    }

    async fn schema(&mut self) -> Verdict {
        let mut asked =
            self.question("Which city is the capital of France? Answer as JSON with `city` and `country`.", false);
        let schema = Json::parse(CITY_SCHEMA).expect("it is JSON");
        asked.options.output = Some(OutputSchema { name: "capital".to_owned(), schema });
        match self.ask(&asked).await {
            Err(why) => Fails(why),
            Ok((answer, _)) => match serde_json::from_str::<Value>(answer.text.trim()) {
                Ok(value) if value["city"].is_string() && value["country"].is_string() => {
                    Works("its answer fits the schema".to_owned())
                }
                Ok(_) => Fails("its answer is JSON and does not fit the schema; runs ask again, twice".to_owned()),
                Err(_) => Fails("its answer is no JSON; runs ask again, twice".to_owned()),
            },
        }
    }

    /// A long conversation that goes on: the second time its beginning should come from the cache.
    async fn cache(&mut self) -> Verdict {
        if self.entry.window.is_some_and(|window| window < 2 * CACHED_TOKENS) {
            return Unknown("its window is too small to see".to_owned());
        }
        let mut asked = self.question("Answer with the one word: ready", false);
        asked.instructions = WORDS.iter().copied().cycle().take(CACHED_WORDS).collect::<Vec<_>>().join(" ");
        match self.ask(&asked).await {
            Err(why) => return Fails(why),
            Ok((answer, _)) => asked.answered(self.entry.target.origin.clone(), &answer),
        }
        asked.say("Once more, please.");
        let last = match self.ask(&asked).await {
            Err(why) => return Fails(why),
            Ok((answer, _)) => answer.usage,
        };
        match last {
            None => Unknown("it does not say what it uses".to_owned()),
            Some(usage) if usage.cached > 0 => Works(format!("{} of {} tokens", usage.cached, usage.input)),
            Some(_) => {
                Fails("it reports nothing from the cache: every round pays for the whole conversation".to_owned())
            }
        }
    }

    fn usage(&self) -> Verdict {
        if self.counted == self.answers {
            return Works(format!("{} tokens in {} answers", self.usage.total(), self.answers));
        }
        let why = format!("{} of {} answers say what they used; runs estimate the others", self.counted, self.answers);
        Fails(why)
    }

    /// What the engine has loaded, beside what the definition says: an engine with less cuts the beginning of a
    /// conversation away and says nothing (ollama #18107).
    async fn window(&self) -> Verdict {
        let configured = self.entry.window;
        let Some(loaded) = self.loaded().await else {
            return match configured {
                Some(window) => Unknown(format!("{window} tokens by its definition; the server does not say its own")),
                None => Unknown("neither its definition nor the server says it: add `window`".to_owned()),
            };
        };
        match configured {
            Some(window) if window > loaded => Fails(format!(
                "the server has loaded {loaded} tokens, and the definition says {window}: longer conversations lose \
                 their beginning. Load more (Ollama: `OLLAMA_CONTEXT_LENGTH`, llama.cpp: `--ctx-size`), or write \
                 `window: {loaded}`"
            )),
            Some(window) => Works(format!("{window} tokens of {loaded} that the server has loaded")),
            None => Fails(format!("the server has loaded {loaded} tokens: add `window: {loaded}`")),
        }
    }

    /// What the server says that it has loaded, where it does.
    async fn loaded(&self) -> Option<u64> {
        let Place::Server(definition) = &self.entry.place else { return None };
        for path in ["/props", "/api/ps", "/api/v0/models", "/v1/models"] {
            let Some(body) = self.asking.inner.bridge.send.look(definition, path).await else { continue };
            let Ok(answer) = serde_json::from_slice::<Value>(&body) else { continue };
            if let Some(loaded) = loaded_of(path, &answer, &self.entry.target.model) {
                return Some(loaded);
            }
        }
        None
    }
}

/// The window of a model in what a server says at one of its paths.
fn loaded_of(path: &str, answer: &Value, model: &str) -> Option<u64> {
    if path == "/props" {
        return answer["default_generation_settings"]["n_ctx"].as_u64();
    }
    let (list, names, window) = match path {
        "/api/ps" => ("models", ["name", "model"], "context_length"),
        "/api/v0/models" => ("data", ["id", "id"], "loaded_context_length"),
        _ => ("data", ["id", "id"], "max_model_len"),
    };
    // Ollama takes a name without a tag for that with `latest`.
    let is_it = |name: &Value| {
        name.as_str()
            .is_some_and(|name| name == model || name.strip_suffix(":latest").is_some_and(|name| name == model))
    };
    let models = answer[list].as_array()?;
    models.iter().find(|one| names.iter().any(|key| is_it(&one[*key])))?[window].as_u64()
}

/// Whether an answer calls the tool with arguments that fit.
fn called(answer: &Answer) -> Verdict {
    let Some(call) = answer.calls.first() else {
        return Fails(format!("it calls no tool, and ends by `{}`", answer.finish.name()));
    };
    if call.name != ADD {
        return Fails(format!("it calls `{}`, which it was not offered", short(&call.name)));
    }
    match serde_json::from_str::<Value>(&call.arguments) {
        Ok(arguments) if arguments["a"].is_number() && arguments["b"].is_number() => {
            Works("it calls the tool with arguments that fit".to_owned())
        }
        Ok(_) => Fails("it calls the tool with arguments that do not fit its schema".to_owned()),
        Err(_) => Fails("it calls the tool with arguments that are no JSON".to_owned()),
    }
}

fn in_words(failure: &Failure) -> String {
    let text: String = failure.message.chars().filter(|c| !c.is_control()).take(300).collect();
    match failure.kind {
        toolcrib_agent::FailureKind::Unauthorized => format!("{text}: check `key`"),
        toolcrib_agent::FailureKind::Network => format!("{text}: check `url`, and that the server runs"),
        _ => text,
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_engines_have_loaded_is_read() {
        let props = json!({ "default_generation_settings": {"n_ctx": 4096} });
        let ps =
            json!({ "models": [{"name": "other", "context_length": 9}, {"name": "m:latest", "context_length": 8192}] });
        let studio = json!({ "data": [{"id": "m", "loaded_context_length": 2048, "max_context_length": 99_999}] });
        let vllm = json!({ "data": [{"id": "m", "max_model_len": 32_768}] });
        for (path, answer, expected) in [
            ("/props", &props, Some(4_096)),
            ("/api/ps", &ps, Some(8_192)),
            ("/api/v0/models", &studio, Some(2_048)),
            ("/v1/models", &vllm, Some(32_768)),
            ("/api/ps", &json!({ "models": [] }), None),
            ("/api/ps", &json!({ "models": [{"name": "m"}] }), None),
            ("/props", &json!([1]), None),
            ("/v1/models", &json!("x"), None),
        ] {
            assert_eq!(loaded_of(path, answer, "m"), expected, "{path} {answer}");
        }
    }
}
