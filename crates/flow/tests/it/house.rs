//! A gateway with the sources of this crate over a temporary home, and someone who asks for operations.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Limits, PrincipalId, Problem, ProfileName, SystemClock};
use toolcrib_call::Source;
use toolcrib_call::{ProfileSnapshot, Servers};
use toolcrib_catalog::LocalSecrets;
use toolcrib_flow::service::Services;
use toolcrib_gateway::Gateway;
use toolcrib_protocol::{Id, Raw, Request, RequestTrace, Revision};
use toolcrib_session::{Caller, Principal, Sessions};
use toolcrib_store::{Door, Store};
use toolcrib_testkit::eventually;
use toolcrib_transport::http::client::HttpClient;
use toolcrib_upstream::ServerDeps;
use toolcrib_view::metrics::Metrics;

/// How long a test waits for something that must happen before it gives up.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A file of the home folder: its path and its text.
pub(crate) type File = (String, String);

/// The definition of a fake server.
pub(crate) fn server(name: &str) -> File {
    let program = toolcrib_testkit::fake_server();
    (format!("servers/{name}.yaml"), format!("name: {name}\ncommand: {}\nstart: eager\n", json!(program)))
}

/// A running gateway.
pub(crate) struct House {
    pub(crate) home: Arc<tempfile::TempDir>,
    pub(crate) store: Store,
    pub(crate) gateway: Arc<Gateway>,
    scope: Scope,
}

// === impl House ===

impl House {
    /// A gateway of these files, whose servers have all been listed.
    pub(crate) async fn new(files: &[File]) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        for (path, text) in files {
            write(home.path(), path, text);
        }
        Self::over(home, Store::in_memory(toolcrib_store::Config::default()).unwrap()).await
    }

    /// The process ends, and another one begins with the same home and the same state.
    pub(crate) async fn begin_again(self) -> Self {
        self.scope.close(Duration::from_secs(10)).await;
        Self::over(self.home, self.store).await
    }

    async fn over(home: Arc<tempfile::TempDir>, store: Store) -> Self {
        let loaded = toolcrib_catalog::load(home.path());
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        let (scope, clock) = (Scope::new(), Arc::new(SystemClock) as Arc<dyn Clock>);
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
        let secrets = Arc::new(LocalSecrets::new(home.path()));
        let services = Services::new(home.path(), store.services(), Arc::clone(&clock), &scope);
        let gateway = Gateway::builder(
            store.clone(),
            Arc::clone(&clock),
            Servers::new(deps, secrets, &store, scope.clone()).at_home(home.path()),
            Sessions::new(100, TIMEOUT, Arc::clone(&clock)),
        )
        .loaded(Arc::new(loaded))
        .metrics(metrics)
        .source(Arc::clone(&services) as Arc<dyn Source>)
        .start();
        services.enter(&gateway);
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
        Self { home, store, gateway, scope }
    }

    /// Someone who administers.
    pub(crate) fn admin(&self) -> Caller {
        self.caller(true)
    }

    /// What decides about a caller's request now.
    pub(crate) fn snapshot(&self, caller: &Caller) -> ProfileSnapshot {
        self.gateway.snapshot(&caller.profile).unwrap()
    }

    pub(crate) fn caller(&self, is_admin: bool) -> Caller {
        Caller {
            principal: Principal { id: PrincipalId::new("ann"), is_admin },
            profile: ProfileName::new("default").unwrap(),
            door: Door::MCP,
            revision: Revision::LATEST,
            session: None,
            meta: None,
            trace: RequestTrace::default(),
        }
    }

    /// Does an operation as REST and the command line do.
    pub(crate) async fn operate(&self, tool: &str, arguments: Value) -> Result<Value, Problem> {
        let operation = self.gateway.operations.by_tool(tool).unwrap_or_else(|| panic!("no operation {tool}"));
        let admin = self.admin();
        let snapshot = self.snapshot(&admin);
        let done = self.gateway.operate(operation, Some(&snapshot), &admin, Raw::from_value(&arguments));
        eventually(tool, Box::pin(done)).await.map(|raw| raw.to_value())
    }

    /// The same where it must go well.
    pub(crate) async fn must(&self, tool: &str, arguments: Value) -> Value {
        let shown = arguments.to_string();
        self.operate(tool, arguments).await.unwrap_or_else(|problem| panic!("{tool} {shown}: {problem}"))
    }

    /// The same where it must not, with all of these words in the error.
    pub(crate) async fn refused(&self, tool: &str, arguments: Value, words: &[&str]) -> Problem {
        let shown = arguments.to_string();
        let problem = match self.operate(tool, arguments).await {
            Ok(value) => panic!("{tool} {shown}: {value}"),
            Err(problem) => problem,
        };
        let text = problem.to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "{tool} {shown}: {text}, without {word}"));
        problem
    }

    /// Calls a tool as a client does; the result.
    pub(crate) async fn call(&self, caller: &Caller, tool: &str, arguments: &Value) -> Value {
        let params = Raw::from_value(&json!({"name": tool, "arguments": arguments}));
        let request = Request { id: Id::from_number(1), method: "tools/call".to_owned(), params };
        let answer = eventually(tool, Box::pin(self.gateway.request(&self.snapshot(caller), caller, request, None)))
            .await
            .unwrap();
        match answer.outcome {
            Ok(result) => result.to_value(),
            Err(error) => json!({"isError": true, "content": [{"type": "text", "text": error.message}]}),
        }
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.home.path().join(path)).ok()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        write(self.home.path(), path, text);
    }
}

fn write(home: &Path, path: &str, text: &str) {
    let path = home.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
