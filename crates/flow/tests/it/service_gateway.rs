//! A gateway with services, and someone who asks for operations.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{PrincipalId, Problem, ProfileName};
use toolcrib_call::ProfileSnapshot;
use toolcrib_call::Source;
use toolcrib_flow::service::Services;
use toolcrib_protocol::{Id, Raw, Request, RequestTrace, Revision};
use toolcrib_session::{Caller, Principal};
use toolcrib_store::Door;
use toolcrib_testgateway::{File, Setup, TestGateway, server_with};
use toolcrib_testkit::eventually;

/// The definition of a fake server.
pub(crate) fn server(name: &str) -> File {
    server_with(name, &[], "start: eager\n")
}

/// A gateway whose one source are services.
pub(crate) struct ServiceGateway(TestGateway);

impl Deref for ServiceGateway {
    type Target = TestGateway;

    fn deref(&self) -> &TestGateway {
        &self.0
    }
}

// === impl ServiceGateway ===

impl ServiceGateway {
    /// A gateway of these files, whose servers have all been listed.
    pub(crate) async fn new(files: &[File]) -> Self {
        Self::over(files, Setup::default()).await
    }

    /// The process ends, and another one begins with the same home and the same state.
    pub(crate) async fn begin_again(self) -> Self {
        let home = self.home_folder();
        let store = self.0.close().await;
        Self::over(&[], Setup { home, store, ..Setup::default() }).await
    }

    async fn over(files: &[File], setup: Setup) -> Self {
        let services = Services::new(setup.home.path(), setup.store.services(), Arc::clone(&setup.clock), &setup.scope);
        let sources = Arc::new([Arc::clone(&services) as Arc<dyn Source>]);
        let gateway = TestGateway::open(files, Setup { sources, ..setup });
        services.enter(&gateway.gateway);
        gateway.settle().await;
        Self(gateway)
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
            principal: Principal::restored(
                PrincipalId::new("ann"),
                if is_admin { toolcrib_base::Role::Admin } else { toolcrib_base::Role::Member },
            ),
            profile: ProfileName::new("default").unwrap(),
            door: Door::MCP,
            revision: Revision::LATEST,
            session: None,
            meta: None,
            trace: RequestTrace::default(),
            chain: None,
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
}
