//! The operations of the real binary: muster's are all there with its arguments, and the configuration does what it
//! says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const TIMEOUT: Duration = Duration::from_secs(120);

impl GatewayFixture {
    /// What an operation answers, or says on stderr.
    async fn operate(&self, operation: &str, arguments: Value) -> Result<Value, String> {
        let ran = run(self.home(), &["api", operation, "--json", &arguments.to_string()], &[]).await;
        if ran.code != 0 {
            return Err(ran.stderr);
        }
        Ok(serde_json::from_str(&ran.stdout).unwrap())
    }

    pub(crate) async fn document(&self) -> Value {
        let mut stream = TcpStream::connect(self.address()).await.unwrap();
        let ask = format!("GET /api/v1/openapi.json HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address());
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(TIMEOUT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body:.200}"))
    }
}

/// The arguments of each operation with their schemas.
fn arguments(document: &Value) -> BTreeMap<String, BTreeMap<String, Value>> {
    let methods =
        document["paths"].as_object().unwrap().values().flat_map(|methods| methods.as_object().unwrap().values());
    let of = |entry: &Value| {
        let parameters = entry["parameters"].as_array().into_iter().flatten();
        let named = parameters.map(|it| (it["name"].as_str().unwrap().to_owned(), it["schema"].clone()));
        let body = entry.pointer("/requestBody/content/application~1json/schema/properties");
        let body = body.and_then(Value::as_object).into_iter().flatten();
        named.chain(body.map(|(name, schema)| (name.clone(), schema.clone()))).collect()
    };
    methods.map(|entry| (entry["operationId"].as_str().unwrap().to_owned(), of(entry))).collect()
}

/// Whether what fits their type fits ours. Their numbers are counts, so whole ones are enough.
fn takes(ours: &Value, theirs: &Value) -> bool {
    let types = |schema: &Value| -> Vec<String> {
        let of = &schema["type"];
        let words = of.as_array().cloned().unwrap_or_else(|| vec![of.clone()]);
        words.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (ours, theirs) = (types(ours), types(theirs));
    let has = |kind: &str| ours.iter().any(|own| own == kind);
    let is_number = |kind: &str| matches!(kind, "number" | "integer") && (has("number") || has("integer"));
    ours.is_empty() || theirs.iter().all(|kind| has(kind) || is_number(kind))
}

#[tokio::test]
async fn every_core_tool_of_muster_is_there_and_takes_its_arguments() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/acceptance");
    let folder = std::env::var_os("TOOLCRIB_ACCEPTANCE").map_or(beside, PathBuf::from);
    let file = folder.join("muster-core-tools.schema.json");
    let Ok(text) = std::fs::read_to_string(&file) else {
        eprintln!("SKIPPED: no `{}`: set TOOLCRIB_ACCEPTANCE to the folder of acceptance data", file.display());
        return;
    };
    let schema: Value = serde_json::from_str(&text).unwrap();
    let theirs = schema.pointer("/properties/tools/properties").unwrap().as_object().unwrap();
    assert_eq!(theirs.len(), 39);
    let ours = arguments(&GatewayFixture::start(&[]).await.document().await);
    let mut faults = Vec::new();
    for (tool, schema) in theirs {
        let Some(ours) = ours.get(tool) else {
            faults.push(format!("{tool} is missing"));
            continue;
        };
        for (name, schema) in schema["properties"].as_object().unwrap() {
            match ours.get(name) {
                None => faults.push(format!("{tool} does not take `{name}`")),
                Some(own) if !takes(own, schema) => faults.push(format!("{tool}: `{name}` is {own}, not {schema}")),
                Some(_) => {}
            }
        }
    }
    assert_eq!(faults, [""; 0]);
}

#[tokio::test]
async fn the_configuration_is_shown_changed_saved_and_read_again() {
    let serving = GatewayFixture::start(&[]).await;
    std::fs::write(serving.home().join("config.toml"), "# mine\nlog = \"warn\" # quiet\n").unwrap();
    let port: u16 = serving.address().rsplit(':').next().unwrap().parse().unwrap();
    let shown = serving.operate("config_get", json!({})).await.unwrap();
    assert_eq!(
        (&shown["Aggregator"]["Host"], &shown["Aggregator"]["MusterPrefix"]),
        (&json!("127.0.0.1"), &json!("x"))
    );
    assert_eq!(shown["settings"]["listen"]["from"], "flag `--listen`");
    assert!(!shown.to_string().contains(std::fs::read_to_string(serving.home().join("state/token")).unwrap().trim()));
    let aggregator = serving.operate("config_get_aggregator", json!({})).await.unwrap();
    assert_eq!(aggregator["Transport"], "streamable-http");
    let nothing = serving.operate("config_save", json!({})).await.unwrap();
    assert!(nothing["message"].as_str().unwrap().contains("nothing was changed"), "{nothing}");
    for (wanted, words) in [
        (json!({ "port": 70_000 }), "65535"),
        (json!({ "port": "x" }), "wrong type"),
        (json!({ "host": "nowhere" }), "`nowhere`"),
        (json!({ "host": "0.0.0.0" }), "other machines"),
        (json!({ "transport": "stdio" }), "cannot be changed"),
        (json!({ "musterPrefix": "y" }), "cannot be changed"),
        (json!({ "oauth": {} }), "`aggregator.oauth`"),
    ] {
        let told = serving.operate("config_update_aggregator", json!({ "aggregator": wanted })).await.unwrap_err();
        assert!(told.contains(words), "{wanted}: {told}");
    }
    let missing = serving.operate("config_update_aggregator", json!({})).await.unwrap_err();
    assert!(missing.contains("aggregator") && missing.contains("required"), "{missing}");
    let changed = json!({ "aggregator": { "Port": 9_999, "host": "localhost", "musterPrefix": "x" } });
    let pending = serving.operate("config_update_aggregator", changed.clone()).await.unwrap();
    assert_eq!(pending["pending"], json!({ "listen": "127.0.0.1:9999" }));
    // Reading again forgets what was not saved.
    serving.operate("config_reload", json!({})).await.unwrap();
    let shown = serving.operate("config_get", json!({})).await.unwrap();
    assert!(shown.get("pending").is_none(), "{shown}");
    assert_eq!(shown["Aggregator"]["Port"], port);
    serving.operate("config_update_aggregator", changed).await.unwrap();
    serving.operate("config_save", json!({})).await.unwrap();
    let text = std::fs::read_to_string(serving.home().join("config.toml")).unwrap();
    assert_eq!(text, "listen = \"127.0.0.1:9999\"\n# mine\nlog = \"warn\" # quiet\n");
    let reloaded = serving.operate("config_reload", json!({})).await.unwrap();
    assert_eq!(reloaded["restart_needed"], json!(["listen"]));
}

#[tokio::test]
async fn a_bare_list_is_an_answer_too() {
    let serving = GatewayFixture::start(&[]).await;
    let of = |name: &str| json!({ "limit": 5, "resourceName": name });
    assert_eq!(serving.operate("core_events", of("nobody")).await.unwrap(), json!([]));
    let given = json!({ "name": "never", "type": "stdio", "command": "never-started" });
    serving.operate("core_mcpserver_create", given).await.unwrap();
    let listed = serving.operate("core_events", of("never")).await.unwrap();
    assert_eq!((&listed[0]["resource_name"], &listed[0]["reason"]), (&json!("never"), &json!("MCPServerCreated")));
    let told = serving.operate("core_events", json!({ "limit": 0 })).await.unwrap_err();
    assert!(told.contains("`/limit`") && !told.contains("not a Toolcrib control API"), "{told}");
}
