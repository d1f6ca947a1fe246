//! The definition of a model: `models/<name>.yaml`, where one is asked and what it costs. Not here: how it is asked,
//! which the crate `model` knows.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};

use crate::define::{self, Definition};
use crate::dollars::TokenPrice;
use crate::endpoint::Endpoint;
use crate::kind::DefinitionKind;
use crate::object_name::ObjectName;
use crate::period::Period;
use crate::private::{MASK, is_secret_name, is_secret_value};
use crate::problem::DefinitionProblem;
use crate::reader::{Cursor, Fields, choice};
use crate::secret::SecretRef;
use crate::server::{ADDRESS_PATTERN, misplaced};

/// The model that is built in: scripted, without a key and without a file.
pub const DEMO_MODEL: &str = "demo";

/// Tokens of an answer without the key.
const MAX_OUTPUT: u32 = 4_096;
/// No model has a larger window.
const WINDOW_MAX: u32 = 100_000_000;
/// No model writes a longer answer.
const OUTPUT_MAX: u32 = 10_000_000;
/// Requests at a time without the key.
const PARALLEL: u32 = 4;
/// More would each be a connection to one provider.
const PARALLEL_MAX: u32 = 1_024;

/// A model that agents may ask.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelDefinition {
    pub name: ObjectName,
    pub description: Option<String>,
    /// How it is asked.
    pub wire: ModelWire,
    /// Where: without `wire: script` always there. See [`ModelDefinition::base`].
    pub url: Option<Endpoint>,
    /// What the provider calls it.
    pub model: String,
    /// Where its key is; never the key itself.
    pub key: Option<SecretRef>,
    /// Headers of every request beside the key's. None of them names a secret of single principals.
    pub headers: BTreeMap<String, SecretRef>,
    /// Tokens that a request and its answer may have together.
    pub window: Option<u32>,
    /// Tokens that an answer may have.
    pub max_output: u32,
    pub prices: Option<ModelPrices>,
    /// Requests that may run at a time.
    pub parallel: u32,
    /// How long one answer may take.
    pub timeout: Period,
    pub differs: ModelDifferences,
    /// With `wire: script`: what it answers, as the crate `model` reads it.
    pub script: Option<Value>,
    /// What the file says, as it is written.
    pub spec: Map<String, Value>,
}

choice! {
    /// The form of requests and answers.
    ModelWire {
        /// OpenAI chat completions, which local engines and Gemini speak as well.
        Chat = "chat",
        /// OpenAI Responses.
        Responses = "responses",
        /// Anthropic Messages.
        Messages = "messages",
        /// No provider: the answers are in the file.
        Script = "script",
    }
}

/// What a model costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPrices {
    /// Input that is neither from the cache nor written to it.
    pub input: TokenPrice,
    /// Input from the cache; without the key that of other input.
    pub cached: TokenPrice,
    /// Input that is written to the cache; without the key that of other input.
    pub cache_write: TokenPrice,
    /// Input that is written to the cache for an hour; without the key that of other writes.
    pub cache_write_hour: TokenPrice,
    /// Output, reasoning included.
    pub output: TokenPrice,
}

/// In what an engine differs from others of its wire; `None` is what the wire's provider does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelDifferences {
    /// Whether `max_completion_tokens` bounds the answer, and not `max_tokens`.
    pub max_completion_tokens: Option<bool>,
    /// Whether `strict` is sent with schemas that fit.
    pub strict: Option<bool>,
    /// Whether a stream is asked for its usage.
    pub stream_usage: Option<bool>,
    /// Whether encrypted reasoning is asked for.
    pub encrypted_reasoning: Option<bool>,
}

// === impl ModelDefinition ===

impl ModelDefinition {
    /// Reads a definition that lies in no file, such as one that is about to be written.
    pub fn of_text(name: &str, text: &str) -> Result<Self, Vec<DefinitionProblem>> {
        define::read(Path::new(&format!("models/{name}.yaml")), name, text)
    }

    /// The base of its addresses, without a slash at the end: `http://127.0.0.1:11434/v1`.
    pub fn base(&self) -> Option<&str> {
        self.url.as_ref().map(|url| url.expose().trim_end_matches('/'))
    }

    /// What the file says, for anyone who may look at it: plain values of headers are `****`, and secrets stay references.
    pub fn to_shown_value(&self) -> Value {
        let mut value = Value::Object(self.spec.clone());
        let headers = value.get_mut("headers").and_then(Value::as_object_mut);
        for (name, text) in headers.into_iter().flatten() {
            if let Some(SecretRef::Literal(_)) = self.headers.get(name) {
                *text = MASK.into();
            }
        }
        value
    }
}

/// Only the name: what the file says may hold secrets.
impl fmt::Debug for ModelDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelDefinition").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Definition for ModelDefinition {
    const KIND: DefinitionKind = DefinitionKind::Model;
    type Name = ObjectName;

    fn name(&self) -> &ObjectName {
        &self.name
    }

    fn read(stem: &str, root: Cursor<'_>) -> Option<Self> {
        let body = define::body(root, stem, "Model")?;
        if body.name.as_ref().is_some_and(|name| name.as_str() == DEMO_MODEL) {
            let hint = "choose another name, and rename the file to it".to_owned();
            let message = format!("expected another name: the model `{DEMO_MODEL}` is built in");
            body.fields.problem("name", message, Some(hint));
        }
        read(body.name, body.fields)
    }
}

fn read(name: Option<ObjectName>, fields: Fields<'_>) -> Option<ModelDefinition> {
    let spec = fields.whole().value();
    let hint = "add `wire: chat`, which most engines speak".to_owned();
    let wire = fields.require("wire", "how the model is asked", hint).and_then(|cursor| cursor.choice());
    let place = place(&fields, wire);
    let is_named = name.is_some();
    let name = name.or_else(|| ObjectName::new("unnamed").ok())?;
    let window = fields.get("window").and_then(|cursor| cursor.number(256, WINDOW_MAX));
    let max_output = max_output(&fields, window);
    let model = fields.get("model").map(|cursor| cursor.word("the provider's name of the model"));
    let read = ModelDefinition {
        description: fields.text("description"),
        wire: wire.unwrap_or(ModelWire::Chat),
        model: model.flatten().unwrap_or_else(|| name.to_string()),
        url: place.url,
        key: place.key,
        headers: place.headers,
        script: place.script,
        window,
        max_output,
        prices: fields.get("prices").and_then(prices),
        parallel: fields.get("parallel").and_then(|cursor| cursor.number(1, PARALLEL_MAX)).unwrap_or(PARALLEL),
        timeout: fields.get("timeout").and_then(|cursor| cursor.parsed()).unwrap_or(Period::seconds(600)),
        differs: fields.get("differs").and_then(differs).unwrap_or_default(),
        spec: define::named_first(&name, spec),
        name,
    };
    fields.finish();
    (is_named && wire.is_some()).then_some(read)
}

/// Where a model is asked, or what it answers.
#[derive(Debug, Default)]
struct ModelPlace {
    url: Option<Endpoint>,
    key: Option<SecretRef>,
    headers: BTreeMap<String, SecretRef>,
    script: Option<Value>,
}

fn place(fields: &Fields<'_>, wire: Option<ModelWire>) -> ModelPlace {
    match wire {
        Some(ModelWire::Script) => {
            misplaced(fields, &["url", "key", "headers", "differs"], "belongs to a provider, this is `wire: script`");
            let hint = "add `script: {turns: [{say: Hello.}]}`".to_owned();
            let script = fields.require("script", "what the model answers", hint);
            ModelPlace { script: script.and_then(|cursor| script_of(&cursor)), ..ModelPlace::default() }
        }
        Some(wire) => {
            misplaced(fields, &["script"], &format!("belongs to `wire: script`, this is `{wire}`"));
            let hint = "add a line such as `url: http://127.0.0.1:11434/v1`".to_owned();
            let url = fields.require("url", "the address of the model's API", hint).and_then(|cursor| address(&cursor));
            let key = fields.get("key").and_then(|cursor| key(&cursor));
            let headers = fields.get("headers").map(|cursor| headers(&cursor)).unwrap_or_default();
            if key.is_some() {
                let twice = headers.keys().find(|name| carries_key(name));
                if let Some(name) = twice {
                    let hint = format!("remove the header `{name}`, or `key`");
                    fields.problem("headers", format!("expected no `{name}` beside `key`, which sets it"), Some(hint));
                }
            }
            if key.is_some() && url.as_ref().is_some_and(is_open) {
                let hint = "write `https://` if the provider has it".to_owned();
                fields.warn("url", "sends the key over an unencrypted connection", Some(hint));
            }
            ModelPlace { url, key, headers, script: None }
        }
        None => {
            // No one knows which keys belong here, so all of them are let pass.
            for key in ["url", "key", "headers", "script", "differs"] {
                fields.get(key);
            }
            ModelPlace::default()
        }
    }
}

/// Whether a header is one that carries keys.
fn carries_key(name: &str) -> bool {
    ["authorization", "x-api-key"].iter().any(|header| name.eq_ignore_ascii_case(header))
}

/// Whether others can read what is sent to an address.
pub(crate) fn is_open(url: &Endpoint) -> bool {
    let is_plain = url.expose().get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let host = url.host().unwrap_or_default();
    let is_local = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_plain && !is_local
}

/// A base to which paths are added: nothing after its path, and no secrets anywhere. What is wrong is not repeated
/// where it may hold one.
fn address(cursor: &Cursor<'_>) -> Option<Endpoint> {
    let text = cursor.text()?;
    cursor.fits(ADDRESS_PATTERN);
    let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
    if after_scheme.split(['/', '?', '#']).next().unwrap_or_default().contains('@') {
        let hint = "remove what stands before `@`, and write `key: vault:NAME`".to_owned();
        cursor.problem("expected an address without a user or a password", Some(hint));
        return None;
    }
    if text.contains("${") || text.contains('?') || text.contains('#') {
        let hint =
            "write the base of the API such as `https://api.example.com/v1`, and secrets as `key` or in `headers`";
        cursor.problem("expected an address without a query or references", Some(hint.to_owned()));
        return None;
    }
    match text.parse::<Endpoint>() {
        Ok(url) => Some(url),
        Err(_) => {
            let got = cursor.describe();
            cursor.problem(format!("expected an address such as `http://127.0.0.1:11434/v1`, got {got}"), None);
            None
        }
    }
}

/// A reference to one key for everyone, never the key itself.
fn key(cursor: &Cursor<'_>) -> Option<SecretRef> {
    let reference = define::secret(cursor)?;
    match reference {
        SecretRef::Literal(_) => {
            cursor.problem("expected a reference to the key, got a value", Some(by_reference("key")));
            None
        }
        SecretRef::User(_) => {
            let hint = "write `key: vault:NAME`".to_owned();
            cursor.problem("expected one key for all runs, got one of each principal", Some(hint));
            None
        }
        reference => Some(reference),
    }
}

/// How a secret comes into a definition.
pub(crate) fn by_reference(what: &str) -> String {
    format!("store it with `toolcrib secret set NAME`, and write `{what}: vault:NAME`")
}

fn headers(cursor: &Cursor<'_>) -> BTreeMap<String, SecretRef> {
    let headers = define::headers(cursor);
    if headers.is_empty() {
        return headers;
    }
    cursor.map(|name, value| {
        match headers.get(name) {
            Some(SecretRef::Literal(text)) if is_secret_name(name) || is_secret_value(text.expose()) => {
                value.problem("expected a reference to a secret, got a value", Some(by_reference(name)));
            }
            Some(SecretRef::User(_)) => {
                let hint = "write `vault:NAME`".to_owned();
                value.problem("expected one value for all runs, got one of each principal", Some(hint));
            }
            _ => {}
        }
        Some(())
    });
    headers
}

fn max_output(fields: &Fields<'_>, window: Option<u32>) -> u32 {
    let Some(cursor) = fields.get("max_output") else {
        return window.map_or(MAX_OUTPUT, |window| MAX_OUTPUT.min(window / 2));
    };
    let max = cursor.number(1, OUTPUT_MAX).unwrap_or(MAX_OUTPUT);
    if let Some(window) = window.filter(|window| *window <= max) {
        let hint = "leave room for the question".to_owned();
        cursor.problem(format!("expected less than the `window` of {window} tokens, got `{max}`"), Some(hint));
    }
    max
}

fn prices(cursor: Cursor<'_>) -> Option<ModelPrices> {
    let fields = cursor.fields()?;
    let hint = |key: &str| format!("add `{key}:` with dollars for a million tokens, or remove `prices`");
    let input = fields.require("input", "the price of input", hint("input")).and_then(|cursor| cursor.parsed());
    let output = fields.require("output", "the price of output", hint("output")).and_then(|cursor| cursor.parsed());
    let price = |key| fields.get(key).and_then(|cursor| cursor.parsed::<TokenPrice>());
    let (cached, write, hour) = (price("cached"), price("cache_write"), price("cache_write_hour"));
    fields.finish();
    let input = input?;
    let cache_write = write.unwrap_or(input);
    Some(ModelPrices {
        input,
        cached: cached.unwrap_or(input),
        cache_write,
        cache_write_hour: hour.unwrap_or(cache_write),
        output: output?,
    })
}

fn differs(cursor: Cursor<'_>) -> Option<ModelDifferences> {
    let fields = cursor.fields()?;
    let flag = |key| fields.get(key).and_then(|cursor| cursor.flag());
    let differs = ModelDifferences {
        max_completion_tokens: flag("max_completion_tokens"),
        strict: flag("strict"),
        stream_usage: flag("stream_usage"),
        encrypted_reasoning: flag("encrypted_reasoning"),
    };
    fields.finish();
    Some(differs)
}

/// What it says in detail, the crate `model` reads.
fn script_of(cursor: &Cursor<'_>) -> Option<Value> {
    if !cursor.node().is_map() {
        cursor.expected("a map such as `{turns: [{say: Hello.}]}`");
        return None;
    }
    Some(cursor.value())
}

#[cfg(test)]
mod tests;
