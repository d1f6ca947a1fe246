//! `toolcrib model add` beside servers that answer as local engines do, and as hostile programs might.

use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, Reply, Request};

use crate::toolcrib::run;

/// A server that answers these paths, and 404 to all others.
fn engine(answers: Vec<(&'static str, Value)>) -> HttpServer {
    HttpServer::start(move |request: &Request, reply: &mut Reply<'_>| {
        match answers.iter().find(|(path, _)| *path == request.target) {
            Some((_, answer)) => reply.json(&[], answer),
            None => reply.full(404, &[], "not found"),
        }
    })
}

/// Ollama with a chat model that is loaded with less than it has, one that is not loaded, and one for vectors.
fn ollama() -> HttpServer {
    HttpServer::start(|request: &Request, reply: &mut Reply<'_>| {
        match request.target.as_str() {
        "/api/version" => reply.json(&[], &json!({ "version": "0.12.6" })),
        "/api/tags" => reply.json(
            &[],
            &json!({ "models": [{"name": "llama3.2:latest"}, {"name": "qwen3:8b"}, {"name": "nomic-embed-text:latest"}] }),
        ),
        "/api/ps" => {
            reply.json(&[], &json!({ "models": [{"name": "llama3.2:latest", "context_length": 8192}] }));
        }
        "/api/show" => match request.json()["model"].as_str() {
            Some("llama3.2:latest") => reply.json(
                &[],
                &json!({ "capabilities": ["completion", "tools"], "model_info": {"llama.context_length": 131_072} }),
            ),
            Some("qwen3:8b") => reply.json(
                &[],
                &json!({
                    "capabilities": ["completion"], "parameters": "stop \"x\"\nnum_ctx    16384",
                    "model_info": {"qwen3.context_length": 40_960},
                }),
            ),
            _ => reply.json(&[], &json!({ "capabilities": ["embedding"] })),
        },
        _ => reply.full(404, &[], "not found"),
    }
    })
}

#[tokio::test]
async fn local_servers_are_found_and_their_models_added() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let ollama = ollama();
    // llama.cpp speaks a part of Ollama's API, too.
    let llama = engine(vec![
        ("/props", json!({ "default_generation_settings": {"n_ctx": 4096} })),
        ("/api/tags", json!({ "models": [] })),
        (
            "/v1/models",
            json!({ "data": [{"id": "/models/SmolLM2-135M.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 8192}}] }),
        ),
    ]);
    let studio = engine(vec![(
        "/api/v0/models",
        json!({ "data": [
            {"id": "google/gemma-3", "type": "vlm", "max_context_length": 131_072, "loaded_context_length": 4096, "capabilities": ["tool_use"]},
            {"id": "bge", "type": "embeddings"},
        ] }),
    )]);
    let vllm = engine(vec![(
        "/v1/models",
        json!({ "data": [{"id": "Qwen/Qwen3-8B", "owned_by": "vllm", "max_model_len": 32_768}] }),
    )]);
    let places = [&ollama, &llama, &studio, &vllm].map(|server| server.address().to_string());
    let at: Vec<&str> = places.iter().flat_map(|place| ["--at", place.as_str()]).collect();
    let with = |more: &[&'static str]| [&["model", "add"], more, at.as_slice()].concat();

    let found = run(home, &with(&["--json"]), &[]).await;
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let rows = found["models"].as_array().unwrap();
    let row = |row: &Value| json!([row["name"], row["engine"], row["window"], row["trained"], row["tools"]]);
    assert_eq!(
        rows.iter().map(row).collect::<Vec<_>>(),
        [
            json!(["llama3.2", "Ollama", 8192, 131_072, true]),
            json!(["qwen3-8b", "Ollama", 16_384, 40_960, false]),
            json!(["SmolLM2-135M", "llama.cpp", 4096, 8192, null]),
            json!(["gemma-3", "LM Studio", 4096, 131_072, true]),
            json!(["Qwen3-8B", "vLLM", 32_768, 32_768, null]),
        ]
    );
    let text = run(home, &with(&[]), &[]).await;
    assert_eq!((text.code, text.stderr.as_str()), (0, ""));
    assert!(text.stdout.contains("8192 of 131072"), "{}", text.stdout);
    assert!(text.stdout.contains(&format!("toolcrib model add gemma-3 --at {}", studio.address())), "{}", text.stdout);

    // The command of each works as it is printed.
    let command = rows[3]["command"].as_str().unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let ran = run(home, &words, &[]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "added `gemma-3`: models/gemma-3.yaml\n"));
    assert_eq!(ran.stderr, "an agent asks it with `model: gemma-3`; `toolcrib model test gemma-3` says what works\n");
    let file = std::fs::read_to_string(home.join("models/gemma-3.yaml")).unwrap();
    let expected = format!(
        "name: gemma-3\nwire: chat\nurl: \"http://{}/v1\"\nmodel: google/gemma-3\nwindow: 4096\ndiffers:\n  max_completion_tokens: false\n",
        studio.address()
    );
    assert_eq!(file, expected);
    run(home, &with(&["gemma-3"]), &[]).await.prints("`gemma-3` is defined already\n");
    let all = run(home, &with(&["--all"]), &[]).await;
    assert_eq!(all.stdout.lines().count(), 4, "{}", all.stdout);
    run(home, &with(&["--all"]), &[]).await.prints("all of them are defined already\n");
    run(home, &with(&["gpt"]), &[]).await.fails(1, &["no local server has a model `gpt`", "`llama3.2`", "--url URL"]);
}

#[tokio::test]
async fn a_model_of_a_provider_is_added_by_its_address() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let add = ["model", "add", "big", "--url", "https://api.example.com/v1", "--wire", "messages", "--model", "big-5"];
    let ran = run(home, &[&add[..], &["--key", "vault:provider", "--window", "200000"]].concat(), &[]).await;
    assert_eq!(ran.stdout, "added `big`: models/big.yaml\n");
    let file = std::fs::read_to_string(home.join("models/big.yaml")).unwrap();
    assert_eq!(
        file,
        "name: big\nwire: messages\nurl: https://api.example.com/v1\nmodel: big-5\nkey: \"vault:provider\"\nwindow: 200000\n"
    );
    run(home, &add, &[]).await.fails(1, &["model `big` already exists", "toolcrib delete model big"]);
}

#[tokio::test]
async fn what_is_no_model_is_refused_with_the_next_step() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let add = |rest: &[&'static str]| [&["model", "add"], rest].concat();
    let url = "https://api.example.com/v1";
    for (rest, parts) in [
        (&["x", "--url", url, "--key", "hunter2"][..], &["a reference to the key, got a value", "secret set NAME"][..]),
        (&["x", "--url", "https://ann:hunter2@example.com"], &["without a user or a password"]),
        (&["x", "--url", url, "--wire", "chatt"], &["`chatt`", "did you mean `chat`?"]),
        (&["demo", "--url", url], &["the model `demo` is built in"]),
        (&["a/b", "--url", url], &["is not a name"]),
        (&["--at", "127.0.0.1"], &["`127.0.0.1` is no address", "--at 127.0.0.1:8081"]),
        (&["--at", "ann@127.0.0.1:80"], &["is no address"]),
    ] {
        let ran = run(home, &add(rest), &[]).await;
        ran.fails(1, parts);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
    for rest in [&["--url", url][..], &["--model", "x"], &["x", "--all"], &["x", "--url", url, "--at", "127.0.0.1:1"]] {
        run(home, &add(rest), &[]).await.fails(64, &["Usage: toolcrib model add"]);
    }
    assert!(!home.join("models").exists());
}

#[tokio::test]
async fn hostile_servers_get_nothing_written_and_nothing_printed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let nothing = engine(Vec::new());
    let odd = engine(vec![(
        "/v1/models",
        json!({ "data": [{"id": "a\u{1b}[2Jb"}, {"id": 5}, {"id": ""}, {"id": "x".repeat(300)}] }),
    )]);
    let endless = HttpServer::start(|_, reply| {
        reply.head(200, &["content-type: application/json"]);
        let block = vec![b' '; 1 << 20];
        for _ in 0..16 {
            reply.chunk(&block);
        }
        reply.end();
    });
    let silent = HttpServer::start(|_, reply| reply.hang());
    for server in [&nothing, &odd, &endless, &silent] {
        let place = server.address().to_string();
        let ran = run(home, &["model", "add", "--all", "--at", &place], &[]).await;
        ran.fails(1, &[&format!("no model server answers at {place}"), "start Ollama"]);
        assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
    }
    // Names of files stay in their folder, whatever a model is called.
    let climbing = engine(vec![("/v1/models", json!({ "data": [{"id": "../../../etc/passwd"}, {"id": ".."}] }))]);
    let place = climbing.address().to_string();
    let ran = run(home, &["model", "add", "--all", "--at", &place], &[]).await;
    assert_eq!(ran.stdout, "added `passwd`: models/passwd.yaml\nadded `local`: models/local.yaml\n");
}

#[tokio::test]
async fn a_path_is_a_model_for_search() {
    let home = tempfile::tempdir().unwrap();
    let server = engine(vec![("/v1/models", json!({ "data": [{"id": "m"}] }))]);
    let place = server.address().to_string();
    let ran = run(home.path(), &["model", "add", "./minilm", "--at", &place], &[]).await;
    ran.fails(1, &["no local server has a model `./minilm`", "toolcrib embedding add PATH"]);
    run(home.path(), &["embedding", "list"], &[])
        .await
        .prints("no model; add one with `toolcrib embedding add PATH`\n");
}
