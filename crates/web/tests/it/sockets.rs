//! The WebSocket of agents: runs on it, what it refuses, and clients that break the protocol or do not read.

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolcrib_testgateway::{File, profile, server};
use toolcrib_testkit::eventually;

use crate::keys::{key, with};
use crate::served::{Ask, ServedGateway, TOKEN};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn model(name: &str, script: &Value) -> File {
    (format!("models/{name}.yaml"), json!({"name": name, "wire": "script", "script": script}).to_string())
}

fn agent(name: &str, more: &str) -> File {
    (format!("agents/{name}.yaml"), format!("name: {name}\nmodel: {name}\ntools_shown: all\ntools: ['fake/*']\n{more}"))
}

async fn house(more: &[File]) -> ServedGateway {
    let calls = json!([{"name": "fake_echo", "arguments": {"text": "one"}}]);
    let said = json!({"turns": [{"say": "I look.", "calls": calls}, {"say": "It is one."}]});
    let mut files = vec![server("fake", &[]), model("helper", &said), agent("helper", "")];
    files.extend_from_slice(more);
    ServedGateway::settled(&files).await
}

/// A client of a WebSocket, as raw as it needs to be.
struct Socket {
    stream: TcpStream,
    head: String,
    rest: Vec<u8>,
}

/// A frame that the gateway has sent.
#[derive(Debug)]
struct Frame {
    opcode: u8,
    payload: Vec<u8>,
}

impl Socket {
    /// Sends a handshake with these lines beside the usual ones, and reads the head of the answer.
    async fn handshake(house: &ServedGateway, path: &str, more: &str) -> Self {
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        let host = house.address;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: {KEY}\r\n{more}\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            let read = eventually("a head", stream.read_buf(&mut bytes)).await.unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&bytes));
        };
        let rest = bytes.split_off(end + 4);
        Self { stream, head: String::from_utf8(bytes).unwrap().to_lowercase(), rest }
    }

    async fn open(house: &ServedGateway, agent: &str) -> Self {
        let socket = Self::handshake(house, &format!("/api/v1/agents/{agent}/ws"), "").await;
        assert!(socket.head.starts_with("http/1.1 101"), "{}", socket.head);
        socket
    }

    async fn frame(&mut self, first: u8, payload: &[u8]) {
        let mut bytes = vec![first];
        match payload.len() {
            size @ 0..126 => bytes.push(0x80 | u8::try_from(size).unwrap()),
            size @ 126..65_536 => {
                bytes.push(0x80 | 126);
                bytes.extend(u16::try_from(size).unwrap().to_be_bytes());
            }
            size => {
                bytes.push(0x80 | 127);
                bytes.extend((size as u64).to_be_bytes());
            }
        }
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(payload);
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn say(&mut self, message: &Value) {
        self.frame(0x81, message.to_string().as_bytes()).await;
    }

    async fn fill(&mut self, size: usize) -> bool {
        while self.rest.len() < size {
            match eventually("more bytes", self.stream.read_buf(&mut self.rest)).await {
                Ok(0) | Err(_) => return false,
                Ok(_) => {}
            }
        }
        true
    }

    /// The next frame; `None` at the end of the connection.
    async fn next(&mut self) -> Option<Frame> {
        if !self.fill(2).await {
            return None;
        }
        assert_eq!(self.rest[1] & 0x80, 0, "servers do not mask");
        let (head, size) = match self.rest[1] {
            126 => {
                self.fill(4).await;
                (4, usize::from(u16::from_be_bytes([self.rest[2], self.rest[3]])))
            }
            127 => {
                self.fill(10).await;
                (10, usize::try_from(u64::from_be_bytes(self.rest[2..10].try_into().unwrap())).unwrap())
            }
            size => (2, usize::from(size)),
        };
        assert!(self.fill(head + size).await);
        let opcode = self.rest[0] & 0x0F;
        let payload = self.rest[head..head + size].to_vec();
        self.rest.drain(..head + size);
        Some(Frame { opcode, payload })
    }

    /// The next message.
    async fn hear(&mut self) -> Value {
        loop {
            let frame = self.next().await.expect("a message");
            if frame.opcode == 1 {
                return serde_json::from_slice(&frame.payload).unwrap();
            }
        }
    }

    /// All messages up to the end of a run.
    async fn until_done(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let message = self.hear().await;
            let is_end = matches!(message["type"].as_str(), Some("done" | "error"));
            all.push(message);
            if is_end {
                return all;
            }
        }
    }

    /// The code that the gateway closes the connection with.
    async fn closed(&mut self) -> Option<u16> {
        loop {
            let frame = self.next().await?;
            if frame.opcode == 8 {
                let code = u16::from_be_bytes(frame.payload[..2].try_into().unwrap());
                assert!(self.next().await.is_none(), "nothing follows a close");
                return Some(code);
            }
        }
    }
}

fn types(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_client_gives_tasks_and_sees_their_runs() {
    let house = house(&[]).await;
    let mut socket = Socket::open(&house, "helper").await;
    assert!(socket.head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{}", socket.head);
    for number in 0..2 {
        socket.say(&json!({"type": "message", "content": "look", "request_id": number})).await;
        let all = socket.until_done().await;
        assert!(all.iter().all(|message| message["request_id"] == number && message["run_id"].is_string()), "{all:?}");
        assert!(types(&all).contains(&"tool_executed") && types(&all)[0] == "runtime_event", "{all:?}");
        let text: String =
            all.iter().filter(|it| it["type"] == "chunk").map(|it| it["content"].as_str().unwrap()).collect();
        assert_eq!((text.as_str(), &all.last().unwrap()["content"]), ("I look.It is one.", &json!("It is one.")));
        // The same run again, after an entry that was seen.
        let seen = all.iter().filter_map(|it| it["id"].as_str()).nth(2).unwrap();
        socket.say(&json!({"type": "resume", "last_event_id": seen})).await;
        let again = socket.until_done().await;
        let ids = |all: &[Value]| all.iter().filter_map(|it| it["id"].as_str().map(str::to_owned)).collect::<Vec<_>>();
        assert_eq!(ids(&again), ids(&all)[3..], "{again:?}");
    }
    socket.frame(0x89, b"there?").await;
    let pong = socket.next().await.unwrap();
    assert_eq!((pong.opcode, &pong.payload[..]), (10, &b"there?"[..]));
    socket.say(&json!({"type": "ping"})).await;
    assert_eq!(socket.hear().await["type"], "pong");
    socket.frame(0x88, &1000u16.to_be_bytes()).await;
    assert_eq!(socket.closed().await, Some(1000));
    assert_eq!(house.ask(Ask::get("/api/v1/runs").admin()).await.json()["total"], 2);
}

#[tokio::test]
async fn what_is_wrong_with_a_message_is_told_and_the_socket_stays() {
    let house = house(&[]).await;
    let mut socket = Socket::open(&house, "helper").await;
    for (message, part) in [
        (json!([1]), "must be a JSON object"),
        (json!({}), "`type` is missing"),
        (json!({"type": 1}), "`type` must be a string"),
        (json!({"type": "mesage", "content": "x"}), "unknown type `mesage`"),
        (json!({"type": "message"}), "neither `content` nor `messages`"),
        (json!({"type": "message", "contnet": "x"}), "`contnet`"),
        (json!({"type": "message", "content": "x", "request_id": {}}), "`request_id`"),
        (json!({"type": "resume"}), "`run_id` or `last_event_id` is missing"),
        (json!({"type": "resume", "run": "x"}), "`run` is unknown here"),
        (json!({"type": "resume", "run_id": "none"}), "run `none` not found"),
        (json!({"type": "resume", "last_event_id": "x:y"}), "`Last-Event-ID`"),
        (json!({"type": "cancel"}), "no run is followed here"),
    ] {
        socket.say(&message).await;
        let told = socket.hear().await;
        assert!(told["type"] == "error" && told["message"].as_str().unwrap().contains(part), "{message}: {told}");
    }
    socket.frame(0x81, b"{\"type\": ").await;
    assert_eq!(socket.hear().await["type"], "error");
    socket.say(&json!({"type": "mesage"})).await;
    assert_eq!(socket.hear().await["hint"], "Did you mean `message`?");
    socket.say(&json!({"type": "message", "content": "look"})).await;
    assert_eq!(socket.until_done().await.last().unwrap()["type"], "done");
}

#[tokio::test]
async fn frames_that_break_the_protocol_end_the_connection_by_their_code() {
    let house = house(&[]).await;
    for (bytes, code) in [
        (vec![0x81, 1, b'x'], 1002),
        (vec![0xF1, 0x80, 0, 0, 0, 0], 1002),
        (vec![0x80, 0x80, 0, 0, 0, 0], 1002),
        (vec![0x89, 0xFE, 0, 200], 1002),
        (vec![0x82, 0x80, 0, 0, 0, 0], 1003),
        (vec![0x81, 0x81, 0, 0, 0, 0, 0xFF], 1007),
        (vec![0x81, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], 1009),
        (vec![0x81, 0xFF, 0, 0, 0, 0, 0, 0x10, 0, 1], 1009),
    ] {
        let mut socket = Socket::open(&house, "helper").await;
        socket.stream.write_all(&bytes).await.unwrap();
        assert_eq!(socket.closed().await, Some(code), "{bytes:?}");
    }
    // Half of a frame, and the client is gone: nothing is left of it.
    let mut socket = Socket::open(&house, "helper").await;
    socket.stream.write_all(&[0x81, 0xFE, 0]).await.unwrap();
    drop(socket);
    assert_eq!(house.ask(Ask::get("/api/v1/runs").admin()).await.json()["total"], 0);
}

#[tokio::test]
async fn a_handshake_goes_through_the_guard() {
    let ann = key("ann");
    let locked = profile("work", &format!("keys:\n{}", ann.line));
    let house = house(&[locked]).await;
    let status = async |path: &str, more: &str| Socket::handshake(&house, path, more).await.head[9..12].to_owned();
    let (own, work) = ("/api/v1/agents/helper/ws", "/api/v1/agents/helper/ws?profile=work");
    assert_eq!(status(own, "origin: https://evil.example\r\n").await, "403");
    assert_eq!(status(own, "origin: https://app.example.com\r\n").await, "101");
    assert_eq!(status(work, "").await, "401");
    assert_eq!(status(work, "authorization: Bearer wrong\r\n").await, "401");
    assert_eq!(status(work, &format!("authorization: Bearer {}\r\n", ann.secret)).await, "101");
    let page = format!("sec-websocket-protocol: toolcrib, bearer.{}\r\n", ann.secret);
    let socket = Socket::handshake(&house, work, &page).await;
    assert!(socket.head.starts_with("http/1.1 101") && socket.head.contains("sec-websocket-protocol: toolcrib\r\n"));
    assert!(!socket.head.contains(&ann.secret.to_lowercase()), "a credential is not sent back");
    assert_eq!(status(work, "sec-websocket-protocol: bearer.wrong\r\n").await, "401");
    assert_eq!(status(work, &format!("authorization: Bearer {TOKEN}\r\n{page}")).await, "401");
    assert_eq!(status("/api/v1/agents/hepler/ws", "").await, "404");
    assert_eq!(status("/api/v1/agents/helper/ws?x=1", "").await, "400");
    for wrong in ["upgrade", "connection", "sec-websocket-version"] {
        let ask = Ask::get(own).header("connection", "upgrade").header("upgrade", "websocket");
        let ask = ask.header("sec-websocket-version", "13").header("sec-websocket-key", KEY).without(wrong);
        let reply = house.ask(ask).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.headers["sec-websocket-version"]),
            (426, &"13".parse().unwrap()),
            "{wrong}"
        );
    }
    let ask = Ask::get(own).header("connection", "upgrade").header("upgrade", "websocket");
    let ask = ask.header("sec-websocket-version", "13").header("sec-websocket-key", "short");
    house.ask(ask).await.problem(400);
    assert_eq!(house.ask(Ask::new(Method::POST, own, "{}")).await.status, 405);
}

#[tokio::test]
async fn a_run_that_waits_is_busy_goes_on_and_can_be_cancelled() {
    let ann = key("ann");
    let lines = format!("keys:\n{}tools: {{approve: [fake/echo]}}\n", ann.line);
    let house = house(&[profile("work", &lines)]).await;
    let bearer = format!("authorization: Bearer {}\r\n", ann.secret);
    let mut socket = Socket::handshake(&house, "/api/v1/agents/helper/ws?profile=work", &bearer).await;
    socket.say(&json!({"type": "message", "content": "look"})).await;
    let until_held = async |socket: &mut Socket| loop {
        let message = socket.hear().await;
        if message["type"] == "approval_required" {
            return message["approval_id"].as_str().unwrap().to_owned();
        }
    };
    let approval = until_held(&mut socket).await;
    socket.say(&json!({"type": "message", "content": "another", "request_id": 7})).await;
    let busy = loop {
        let message = socket.hear().await;
        if message["type"] == "error" {
            break message;
        }
    };
    assert!(busy["request_id"] == 7 && busy["hint"].as_str().unwrap().contains("cancel"), "{busy}");
    let decide = Ask::new(Method::POST, &format!("/api/v1/approvals/{approval}/approve"), "{}").admin();
    assert_eq!(house.ask(decide).await.status, 200);
    assert_eq!(socket.until_done().await.last().unwrap()["type"], "done");

    socket.say(&json!({"type": "message", "content": "look"})).await;
    until_held(&mut socket).await;
    socket.say(&json!({"type": "cancel"})).await;
    let end = socket.until_done().await;
    assert_eq!(end.last().unwrap()["code"], "cancelled", "{end:?}");

    // Its key is revoked: the socket ends, though nothing is said on it.
    let other = key("other");
    house.apply(&[profile("work", &format!("keys:\n{}", other.line))]).await;
    assert_eq!(socket.closed().await, Some(1008));
    let stale = with(Ask::get("/api/v1/runs?profile=work"), &ann);
    house.ask(stale).await.problem(401);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_itself_only() {
    let long = "long ".repeat(150_000);
    let files = [model("talker", &json!({"turns": [{"say": long}]})), agent("talker", "")];
    let house = house(&files).await;
    let mut mute = Socket::open(&house, "talker").await;
    mute.say(&json!({"type": "message", "content": "talk"})).await;
    // It reads nothing, and goes on asking.
    for _ in 0..100 {
        mute.say(&json!({"type": "ping"})).await;
    }
    let mut other = Socket::open(&house, "helper").await;
    other.say(&json!({"type": "message", "content": "look"})).await;
    assert_eq!(other.until_done().await.last().unwrap()["type"], "done");
    let is_over = async {
        loop {
            let runs = house.ask(Ask::get("/api/v1/runs?agent=talker").admin()).await.json();
            if runs["runs"][0]["status"] == "ended" {
                return runs["runs"][0]["end"].clone();
            }
        }
    };
    assert_eq!(eventually("the end of its run", is_over).await, "done");
    // And what it missed is there when it reads.
    let all = mute.until_done().await;
    let text: usize =
        all.iter().filter(|it| it["type"] == "chunk").map(|it| it["content"].as_str().unwrap().len()).sum();
    assert_eq!(text, long.len());
}
