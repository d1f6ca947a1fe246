//! A gateway with one scripted server, and a client that speaks to it in bytes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Limits, PrincipalId, ProfileName, SystemClock};
use toolcrib_call::Servers;
use toolcrib_catalog::LocalSecrets;
use toolcrib_gateway::Gateway;
use toolcrib_gateway::duplex::{Duplex, OUT, Terms};
use toolcrib_protocol::RequestTrace;
use toolcrib_protocol::json::Rules;
use toolcrib_session::{Principal, Sessions};
use toolcrib_store::Store;
use toolcrib_testkit::eventually;
use toolcrib_testkit::script::{ScriptedServer, Speaks};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_upstream::ServerDeps;
use toolcrib_view::metrics::Metrics;

/// A running gateway.
pub(crate) struct House {
    gateway: Arc<Gateway>,
    _home: tempfile::TempDir,
    _scope: Scope,
}

impl House {
    /// In front of this server, whose lists have been read.
    pub(crate) async fn before(server: &ScriptedServer, stdio: bool) -> Self {
        let home = tempfile::tempdir().unwrap();
        let place = if stdio {
            let args = json!(["--relay", server.relay()]);
            format!("command: {}\nargs: {args}", json!(toolcrib_testkit::fake_server()))
        } else {
            format!("transport: http\nurl: {}", server.url())
        };
        for (path, text) in [
            ("servers/script.yaml", format!("name: script\n{place}\n")),
            ("profiles/default.yaml", "name: default\nexposure: direct\nprefix: none\n".to_owned()),
        ] {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let scope = Scope::new();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (events, happened) = mpsc::channel(64);
        let deps = ServerDeps {
            client: HttpClient::new().unwrap(),
            clock: Arc::clone(&clock),
            events,
            guard: None,
            credentials: None,
            limits: Limits::default(),
            grace: Duration::from_millis(500),
            starts: toolcrib_upstream::StartPlaces::default(),
        };
        let metrics = Arc::new(Metrics::new());
        let store = Store::in_memory(toolcrib_store::Config::default()).unwrap();
        let secrets = Arc::new(LocalSecrets::new(home.path()));
        let servers = Servers::new(deps, secrets, &store, scope.clone());
        let sessions = Sessions::new(100, Duration::from_secs(60), Arc::clone(&clock));
        let loaded = Arc::new(toolcrib_catalog::load(home.path()));
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        let gateway = Gateway::builder(store, clock, servers, sessions).loaded(loaded).metrics(metrics).start();
        scope.spawn(Arc::clone(&gateway).keep_in_step(happened, scope.stop_signal()));
        for running in gateway.servers().table().values() {
            let mut status = running.server.watch_status();
            eventually("a listing", status.wait_for(|status| status.listed)).await.unwrap();
        }
        let mut builds = gateway.watch_builds();
        eventually("views in step", async {
            while !gateway.is_in_step() {
                builds.changed().await.unwrap();
            }
        })
        .await;
        Self { gateway, _home: home, _scope: scope }
    }
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
    pub(crate) async fn open(house: &House, speaks: Speaks, capabilities: Value) -> Self {
        let (out, heard) = mpsc::channel(OUT);
        let principal = Principal { id: PrincipalId::new("local"), is_admin: false };
        let snapshot = house.gateway.snapshot(&ProfileName::new("default").unwrap()).unwrap();
        let rules = Rules::strict(64);
        let terms = Terms { principal, snapshot, is_owner: false, rules, takes_modern: true };
        let duplex = Duplex::new(Arc::clone(&house.gateway), terms, out);
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
