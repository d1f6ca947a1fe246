//! A mock server over stdio, spoken to as a client does.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::time::timeout;
use toolcrib_scenario::{Mock, serve_stdio};
use toolcrib_testkit::pass;

const FILE: &str = "
tools:
- name: say
  responses:
  - condition: {slow: true}
    response: late
    delay: 300ms
  - response: '{{ .text }}'
";

struct Client {
    input: WriteHalf<DuplexStream>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
}

impl Client {
    async fn send(&mut self, message: &str) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn call(&mut self, id: u64, arguments: &Value) {
        let params = json!({ "name": "say", "arguments": arguments });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()).await;
    }

    async fn next(&mut self) -> Value {
        let line = timeout(Duration::from_secs(10), self.output.next_line()).await.expect("an answer in time");
        serde_json::from_str(&line.unwrap().expect("a line")).unwrap()
    }
}

/// Runs `talk` with a mock that reads `file`; the mock ends when its input does.
async fn with_mock(file: &Path, talk: impl AsyncFnOnce(&mut Client)) {
    std::fs::write(file, FILE).unwrap();
    let mock = Mock::read(file, FILE).unwrap();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reading, writing) = tokio::io::split(theirs);
    let (output, input) = tokio::io::split(ours);
    let mut client = Client { input, output: BufReader::new(output).lines() };
    let talking = async {
        talk(&mut client).await;
        client.input.shutdown().await.unwrap();
    };
    let served = serve_stdio(mock, Some(file.to_owned()), reading, writing);
    let (served, ()) = timeout(Duration::from_secs(30), async { tokio::join!(served, talking) }).await.unwrap();
    served.unwrap();
}

#[tokio::test]
async fn calls_are_answered_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    with_mock(&folder.path().join("mock.yaml"), async |client| {
        client
            .send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#)
            .await;
        assert_eq!(client.next().await["result"]["protocolVersion"], "2025-06-18");
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        client.call(2, &json!({ "slow": true })).await;
        client.call(3, &json!({ "text": "quick" })).await;
        let (first, second) = (client.next().await, client.next().await);
        assert_eq!((&first["id"], &first["result"]["content"][0]["text"]), (&json!(3), &json!("quick")));
        assert_eq!((&second["id"], &second["result"]["content"][0]["text"]), (&json!(2), &json!("late")));
    })
    .await;
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    with_mock(&folder.path().join("mock.yaml"), async |client| {
        for (message, code) in [
            ("{", -32_700),
            (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, -32_601),
            (r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"none"}}"#, -32_602),
        ] {
            client.send(message).await;
            assert_eq!(client.next().await["error"]["code"], code, "{message}");
        }
        client.send("").await;
        client.send(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).await;
        assert_eq!(client.next().await["result"], json!({}));
    })
    .await;
}

/// Writes so many seconds after it is now: what is written at once could look as old as what was there.
fn write_later(file: &Path, text: &str, seconds: u64) {
    std::fs::write(file, text).unwrap();
    let written = std::fs::File::options().write(true).open(file).unwrap();
    written.set_modified(SystemTime::now() + Duration::from_secs(seconds)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_changes_the_tools() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mock.yaml");
    with_mock(&file, async |client| {
        // A file that is wrong changes nothing, one that is right does.
        write_later(&file, "tools: [{nam: x}]", 1);
        pass(Duration::from_secs(1)).await;
        client.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
        assert_eq!(client.next().await["result"]["tools"][0]["name"], "say");
        write_later(&file, "tools: [{name: other}]", 2);
        assert_eq!(client.next().await["method"], "notifications/tools/list_changed");
        client.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#).await;
        assert_eq!(client.next().await["result"]["tools"][0]["name"], "other");
    })
    .await;
}
