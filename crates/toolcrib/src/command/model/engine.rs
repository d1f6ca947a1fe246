//! Model servers on this machine: what listens at an address, which models it has and how much they read at a time.
//! Whatever answers there is a program that no one has vouched for: its answers are bounded and its names are checked.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Uri};
use serde_json::{Value, json};
use toolcrib_catalog::ObjectName;
use toolcrib_transport::http::client::HttpClient;

use crate::text::is_steering;

/// How long one question may take: a server on this machine answers at once or not at all.
const QUESTION: Duration = Duration::from_secs(3);
/// The largest answer that is read.
const ANSWER_MAX: usize = 4 << 20;
/// How many models of one server are looked at.
const MODELS_MAX: usize = 100;
/// The longest name of a model.
const ID_MAX: usize = 200;
/// What Ollama loads of a model where no one says otherwise.
const OLLAMA_WINDOW: u32 = 4_096;
/// Bounds of what a definition takes.
const WINDOWS: std::ops::RangeInclusive<u64> = 256..=100_000_000;

/// Where servers listen by default.
pub(super) const ADDRESSES: [&str; 4] = ["127.0.0.1:11434", "127.0.0.1:8080", "127.0.0.1:1234", "127.0.0.1:8000"];

/// A model of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocalModel {
    pub(super) engine: &'static str,
    /// The base of the API.
    pub(super) url: String,
    /// What the server calls it.
    pub(super) id: String,
    /// How many tokens it is asked with at most: what the server has loaded or would load.
    pub(super) window: Option<u32>,
    /// How many the model itself could read.
    pub(super) trained: Option<u32>,
    /// Whether it calls tools, where the server says so.
    pub(super) tools: Option<bool>,
}

/// A server that is asked.
struct ModelServer<'a> {
    http: &'a HttpClient,
    root: String,
}

/// The models of all servers that answer at these addresses, in their order.
pub(super) async fn find(http: &HttpClient, addresses: &[String]) -> Vec<LocalModel> {
    let servers = addresses.iter().map(|address| ModelServer { http, root: format!("http://{address}") });
    let servers: Vec<ModelServer<'_>> = servers.collect();
    join_all(servers.iter().map(ModelServer::models)).await.into_iter().flatten().collect()
}

// === impl LocalModel ===

impl LocalModel {
    /// A name for its definition: its own without the tag that says nothing.
    pub(super) fn name(&self) -> ObjectName {
        let short = self.id.strip_suffix(":latest").unwrap_or(&self.id);
        let short = short.rsplit('/').next().unwrap_or(short);
        let short = short.strip_suffix(".gguf").unwrap_or(short);
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let name: String = short.chars().map(|c| if fits(c) { c } else { '-' }).collect();
        let name: String = name.trim_start_matches(['.', '_', '-']).chars().take(63).collect();
        ObjectName::new(&name).unwrap_or_else(|_| ObjectName::new("local").expect("`local` is a name"))
    }
}

// === impl ModelServer ===

impl ModelServer<'_> {
    /// What it has; nothing where no model server answers.
    async fn models(&self) -> Vec<LocalModel> {
        // llama.cpp also speaks a part of Ollama's API, so it is asked for first.
        if let Some(window) = self.get("/props").await.and_then(|props| loaded_by_llama(&props)) {
            return self.listed("llama.cpp", Some(window)).await;
        }
        if self.get("/api/version").await.is_some_and(|answer| answer["version"].is_string()) {
            return self.of_ollama().await;
        }
        let of_studio = self.get("/api/v0/models").await;
        if let Some(models) = of_studio.as_ref().and_then(|answer| answer["data"].as_array()) {
            return self.of_studio(models);
        }
        self.listed("", None).await
    }

    /// The list that every server with OpenAI's API has.
    async fn listed(&self, engine: &'static str, loaded: Option<u32>) -> Vec<LocalModel> {
        let Some(answer) = self.get("/v1/models").await else { return Vec::new() };
        let models = answer["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let read = |model: &Value| {
            let engine = match (engine, model["owned_by"].as_str()) {
                ("", Some("vllm")) => "vLLM",
                ("", _) => "OpenAI API",
                (engine, _) => engine,
            };
            let own = window(&model["max_model_len"]);
            let trained = window(&model["meta"]["n_ctx_train"]).or(own);
            Some(LocalModel { window: loaded.or(own), trained, ..self.model(engine, &model["id"])? })
        };
        models.iter().take(MODELS_MAX).filter_map(read).collect()
    }

    async fn of_ollama(&self) -> Vec<LocalModel> {
        let Some(answer) = self.get("/api/tags").await else { return Vec::new() };
        let running = self.get("/api/ps").await.unwrap_or_default();
        let running = running["models"].as_array().map(Vec::as_slice).unwrap_or_default();
        let models = answer["models"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut found = Vec::new();
        for model in models.iter().take(MODELS_MAX) {
            let id = &model["name"];
            let shown = self.post("/api/show", &json!({ "model": id })).await.unwrap_or_default();
            let capabilities = shown["capabilities"].as_array();
            let can = |what: &str| capabilities.map(|all| all.iter().any(|one| one == what));
            // A model that only makes vectors answers nothing.
            if can("completion") == Some(false) {
                continue;
            }
            let trained = shown["model_info"].as_object().and_then(|all| {
                let length = all.iter().find(|(key, _)| key.ends_with(".context_length"));
                length.and_then(|(_, value)| window(value))
            });
            let is_it = |one: &&Value| one["name"] == *id || one["model"] == *id;
            let loaded = running.iter().find(is_it).and_then(|one| window(&one["context_length"]));
            let set = shown["parameters"].as_str().and_then(own_context);
            let usual = trained.map_or(OLLAMA_WINDOW, |trained| trained.min(OLLAMA_WINDOW));
            let window = loaded.or(set).unwrap_or(usual);
            let known = self.model("Ollama", id);
            found.extend(known.map(|it| LocalModel { window: Some(window), trained, tools: can("tools"), ..it }));
        }
        found
    }

    fn of_studio(&self, models: &[Value]) -> Vec<LocalModel> {
        let read = |model: &Value| {
            if model["type"] == "embeddings" {
                return None;
            }
            let trained = window(&model["max_context_length"]);
            let loaded = window(&model["loaded_context_length"]);
            let capabilities = model["capabilities"].as_array();
            let tools = capabilities.map(|all| all.iter().any(|one| one == "tool_use"));
            Some(LocalModel { window: loaded, trained, tools, ..self.model("LM Studio", &model["id"])? })
        };
        models.iter().take(MODELS_MAX).filter_map(read).collect()
    }

    /// A model with a name that may stand in a definition and on a terminal.
    fn model(&self, engine: &'static str, id: &Value) -> Option<LocalModel> {
        let id = id.as_str().filter(|id| !id.trim().is_empty() && id.len() <= ID_MAX)?;
        let url = format!("{}/v1", self.root);
        let is_plain = !id.chars().any(is_steering);
        is_plain.then(|| LocalModel { engine, url, id: id.to_owned(), window: None, trained: None, tools: None })
    }

    async fn get(&self, path: &str) -> Option<Value> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    async fn post(&self, path: &str, body: &Value) -> Option<Value> {
        self.ask(Method::POST, path, body.to_string().into()).await
    }

    /// The JSON that it answers in time.
    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Option<Value> {
        let uri: Uri = format!("{}{path}", self.root).parse().ok()?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let answer = async {
            let response = self.http.send(method, &uri, headers, body).await.ok()?;
            let is_success = response.status.is_success();
            response.body.collect(ANSWER_MAX).await.ok().filter(|_| is_success)
        };
        let bytes = tokio::time::timeout(QUESTION, answer).await.ok()??;
        serde_json::from_slice(&bytes).ok()
    }
}

/// What llama.cpp has loaded, of its properties.
fn loaded_by_llama(props: &Value) -> Option<u32> {
    window(&props["default_generation_settings"]["n_ctx"])
}

/// `num_ctx` of the parameters that a model was made with in Ollama.
fn own_context(parameters: &str) -> Option<u32> {
    let lines = parameters.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
    let mut lengths = lines.filter(|(key, _)| *key == "num_ctx").filter_map(|(_, value)| value.trim().parse().ok());
    lengths.next().and_then(bounded)
}

fn window(value: &Value) -> Option<u32> {
    value.as_u64().and_then(bounded)
}

fn bounded(tokens: u64) -> Option<u32> {
    u32::try_from(tokens).ok().filter(|_| WINDOWS.contains(&tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(id: &str) -> String {
        let (engine, url) = ("Ollama", String::new());
        LocalModel { engine, url, id: id.to_owned(), window: None, trained: None, tools: None }.name().to_string()
    }

    #[test]
    fn names_fit_into_a_definition() {
        for (id, name) in [
            ("llama3.2:latest", "llama3.2"),
            ("qwen3:8b", "qwen3-8b"),
            ("Qwen/Qwen3-8B", "Qwen3-8B"),
            ("/models/SmolLM2-135M.gguf", "SmolLM2-135M"),
            ("../../etc/passwd", "passwd"),
            ("...", "local"),
            ("名前", "local"),
        ] {
            assert_eq!(named(id), name, "{id}");
        }
        assert_eq!(named(&"x".repeat(200)).len(), 63);
    }

    #[test]
    fn the_context_of_a_model_file_is_read() {
        assert_eq!(own_context("stop  \"<eos>\"\nnum_ctx                8192\ntemperature 1"), Some(8_192));
        for none in ["", "num_ctx", "num_ctx many", "num_ctx 12", "num_ctx 99999999999999999999", "my_num_ctx 8192"] {
            assert_eq!(own_context(none), None, "{none}");
        }
    }
}
