//! A gateway with one scripted server, and a client that speaks to it in bytes.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::ProfileName;
use toolcrib_gateway::duplex::{Duplex, OUT, Terms};
use toolcrib_protocol::RequestTrace;
use toolcrib_protocol::json::Rules;
use toolcrib_session::Principal;
use toolcrib_testgateway::{TestGateway, profile, server};
use toolcrib_testkit::eventually;
use toolcrib_testkit::script::{ScriptedServer, Speaks};

/// A gateway in front of this server, whose lists have been read.
pub(crate) async fn gateway_of(scripted: &ScriptedServer, stdio: bool) -> TestGateway {
    let definition = if stdio {
        server("script", &["--relay", &scripted.relay()])
    } else {
        ("servers/script.yaml".to_owned(), format!("name: script\ntransport: http\nurl: {}\n", scripted.url()))
    };
    TestGateway::settled(&[definition, profile("default", "exposure: direct\nprefix: none\n")]).await
}

/// A client on its own connection, as over stdio.
pub(crate) struct Wire {
    duplex: Duplex,
    heard: mpsc::Receiver<Bytes>,
    speaks: Speaks,
    capabilities: Value,
    next: u64,
}

impl Wire {
    pub(crate) async fn open(gateway: &TestGateway, speaks: Speaks, capabilities: Value) -> Self {
        let (out, heard) = mpsc::channel(OUT);
        let principal = Principal::member("local");
        let snapshot = gateway.gateway.snapshot(&ProfileName::new("default").unwrap()).unwrap();
        let rules = Rules::strict(64);
        let terms = Terms { principal, snapshot, is_owner: false, rules, takes_modern: true };
        let duplex = Duplex::new(Arc::clone(&gateway.gateway), terms, out);
        let mut wire = Self { duplex, heard, speaks, capabilities, next: 0 };
        if speaks == Speaks::Legacy {
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": wire.capabilities, "clientInfo": {"name": "t", "version": "1"},
            });
            wire.begin("initialize", params).await;
            wire.next().await;
        }
        wire
    }

    pub(crate) async fn say(&self, message: &str) {
        eventually("room", self.duplex.take(&Bytes::from(message.to_owned()), RequestTrace::default())).await;
    }

    /// Sends a request; gives what was sent.
    pub(crate) async fn begin(&mut self, method: &str, mut params: Value) -> String {
        self.next += 1;
        if self.speaks == Speaks::Modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            params["_meta"]["io.modelcontextprotocol/logLevel"] = "debug".into();
        }
        let message = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}).to_string();
        self.say(&message).await;
        message
    }

    pub(crate) async fn next(&mut self) -> String {
        let message = eventually("a message", self.heard.recv()).await.expect("the line is open");
        String::from_utf8(message.to_vec()).unwrap()
    }
}
