//! A gateway composed from its parts over a temporary home, and clients of both eras that talk to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Limits, PrincipalId, ProfileName, SystemClock};
use toolcrib_call::Servers;
use toolcrib_call::Sources;
use toolcrib_catalog::LocalSecrets;
use toolcrib_gateway::{Gateway, KeepSecrets};
use toolcrib_protocol::meta::{self, RequestMeta};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Era, Id, Notification, Raw, Request, RequestTrace, Revision, RpcError};
use toolcrib_session::{Caller, Channel, Introduction, Principal, Reader, Session, Sessions};
use toolcrib_store::{AuditFilter, AuditOrder, AuditRecord, Door, Store};
use toolcrib_testkit::eventually;
use toolcrib_transport::http::client::HttpClient;
use toolcrib_upstream::{Server, ServerDeps, Status};
use toolcrib_view::Embed;
use toolcrib_view::metrics::Metrics;

/// A file of the home folder: its path and its text.
pub(crate) type File = (String, String);

/// The definition of a fake server with these flags.
pub(crate) fn server(name: &str, flags: &[&str]) -> File {
    server_with(name, flags, "")
}

/// As [`server`], with further lines of YAML.
pub(crate) fn server_with(name: &str, flags: &[&str], more: &str) -> File {
    let program = toolcrib_testkit::fake_server();
    let text = format!("name: {name}\ncommand: {}\nargs: {}\n{more}", json!(program), json!(flags));
    (format!("servers/{name}.yaml"), text)
}

/// The definition of a server that is never started and has just these tools.
pub(crate) fn stopped(name: &str, tools: &[&str], more: &str) -> File {
    let tools: Vec<Value> = tools.iter().map(|tool| json!({"name": tool, "inputSchema": {"type": "object"}})).collect();
    let text = format!("name: {name}\ncommand: never-started\nstart: manual\ntools: {}\n{more}", json!(tools));
    (format!("servers/{name}.yaml"), text)
}

/// The definition of a profile.
pub(crate) fn profile(name: &str, lines: &str) -> File {
    (format!("profiles/{name}.yaml"), format!("name: {name}\n{lines}"))
}

/// What a house is built with beside its files.
pub(crate) struct Ground {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) vault: Option<Arc<dyn KeepSecrets>>,
    pub(crate) embed: Option<Arc<dyn Embed>>,
    pub(crate) sources: Sources,
}

impl Default for Ground {
    fn default() -> Self {
        Self::with_queue(1_024)
    }
}

impl Ground {
    /// With so many places in the audit log's queue.
    pub(crate) fn with_queue(audit_queue: usize) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let config =
            toolcrib_store::Config { clock: Arc::clone(&clock), audit_queue, ..toolcrib_store::Config::default() };
        Self { store: Store::in_memory(config).unwrap(), clock, vault: None, embed: None, sources: Arc::new([]) }
    }
}

/// A running gateway.
pub(crate) struct House {
    home: tempfile::TempDir,
    pub(crate) gateway: Arc<Gateway>,
    scope: Scope,
}

// === impl House ===

impl House {
    /// A gateway of these files, whose servers have all been listed, well or badly.
    pub(crate) async fn settled(files: &[File]) -> Self {
        let house = Self::open(files, Ground::default());
        house.settle().await;
        house
    }

    /// A gateway of these files, at its very beginning.
    pub(crate) fn open(files: &[File], ground: Ground) -> Self {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), files);
        let loaded = toolcrib_catalog::load(home.path());
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        let scope = Scope::new();
        let (events, happened) = mpsc::channel(64);
        let deps = ServerDeps {
            client: HttpClient::new().unwrap(),
            clock: Arc::clone(&ground.clock),
            events,
            guard: None,
            credentials: None,
            limits: Limits::default(),
            grace: Duration::from_millis(500),
            starts: toolcrib_upstream::StartPlaces::default(),
        };
        let metrics = Arc::new(Metrics::new());
        let secrets = Arc::new(LocalSecrets::new(home.path()));
        let servers = Servers::new(deps, secrets, &ground.store, scope.clone()).at_home(home.path());
        let idle = Duration::from_secs(60);
        let sessions = Sessions::new(100, idle, Arc::clone(&ground.clock));
        let mut builder = Gateway::builder(ground.store, ground.clock, servers, sessions)
            .loaded(Arc::new(loaded))
            .metrics(metrics)
            .embed(ground.embed);
        if let Some(vault) = ground.vault {
            builder = builder.vault(vault);
        }
        for source in ground.sources.iter() {
            builder = builder.source(Arc::clone(source));
        }
        let gateway = builder.start();
        scope.spawn(Arc::clone(&gateway).keep_in_step(happened, scope.stop_signal()));
        Self { home, gateway, scope }
    }

    /// Waits until every server's first listing has ended and the views show it.
    pub(crate) async fn settle(&self) {
        let table = self.gateway.servers().table();
        for running in table.values().filter(|running| running.definition.start != toolcrib_catalog::Start::Manual) {
            let mut status = running.server.watch_status();
            let listed = async { status.wait_for(|status| status.listed).await.map(|_| ()) };
            eventually("a listing", listed).await.unwrap();
        }
        self.until("views in step", |gateway| gateway.is_in_step()).await;
    }

    /// Waits for a server's status.
    pub(crate) async fn until_status(&self, server: &str, wanted: impl FnMut(&Status) -> bool) -> Status {
        let mut status = self.server(server).watch_status();
        eventually("a status", status.wait_for(wanted)).await.unwrap().clone()
    }

    /// Waits until something holds after a build of views.
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut(&Arc<Gateway>) -> bool) {
        let mut builds = self.gateway.watch_builds();
        let waiting = async {
            while !holds(&self.gateway) {
                builds.changed().await.unwrap();
            }
        };
        eventually(what, waiting).await;
    }

    pub(crate) fn server(&self, name: &str) -> Server {
        self.gateway.servers().table().get(name).unwrap().server.clone()
    }

    /// Where its files are.
    pub(crate) fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    /// Writes files and takes nothing anew.
    pub(crate) fn write(&self, files: &[File]) {
        write(self.home.path(), files);
    }

    /// Writes files (an empty text removes) and takes all definitions anew.
    pub(crate) async fn apply(&self, files: &[File]) {
        write(self.home.path(), files);
        let loaded = toolcrib_catalog::load(self.home.path());
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        self.gateway.apply(Arc::new(loaded));
        self.settle().await;
    }

    /// The text of a file of the home folder, if it is there.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.home.path().join(path)).ok()
    }

    /// Ends everything; the store lives on.
    pub(crate) async fn close(self) -> Store {
        self.scope.close(Duration::from_secs(10)).await;
        self.gateway.store().clone()
    }

    pub(crate) fn modern(&self, profile: &str) -> Client {
        Client::new(self, profile, Revision::LATEST, None)
    }

    /// A modern client of another principal.
    pub(crate) fn modern_of(&self, principal: &str, profile: &str) -> Client {
        let mut client = self.modern(profile);
        client.caller.principal.id = PrincipalId::new(principal);
        client
    }

    /// A legacy client of an older revision.
    pub(crate) fn older(&self, profile: &str, revision: Revision) -> Client {
        let who = Principal { id: PrincipalId::new("local"), is_admin: false };
        let session = self.gateway.sessions.open(who, ProfileName::new(profile).unwrap(), revision).unwrap();
        Client::new(self, profile, revision, Some(session))
    }

    pub(crate) fn legacy(&self, profile: &str) -> Client {
        self.legacy_of("local", profile)
    }

    pub(crate) fn legacy_of(&self, principal: &str, profile: &str) -> Client {
        let who = Principal { id: PrincipalId::new(principal), is_admin: false };
        let name = ProfileName::new(profile).unwrap();
        let session = self.gateway.sessions.open(who, name, Revision::LATEST_LEGACY).unwrap();
        Client::new(self, profile, Revision::LATEST_LEGACY, Some(session))
    }

    /// A legacy client whose session an administrator opened.
    pub(crate) fn legacy_admin(&self, profile: &str) -> Client {
        let who = Principal { id: PrincipalId::new("admin"), is_admin: true };
        let name = ProfileName::new(profile).unwrap();
        let session = self.gateway.sessions.open(who, name, Revision::LATEST_LEGACY).unwrap();
        Client::new(self, profile, Revision::LATEST_LEGACY, Some(session))
    }

    /// A legacy client that says who it is.
    pub(crate) fn legacy_named(&self, client: &str, profile: &str) -> Client {
        let who = Principal { id: PrincipalId::new("local"), is_admin: false };
        let name = ProfileName::new(profile).unwrap();
        let params = Raw::from_value(&json!({"clientInfo": {"name": client, "version": "1"}}));
        let introduction = Introduction::read(&params, Revision::LATEST_LEGACY);
        let session = self.gateway.sessions.open(who, name, introduction).unwrap();
        Client::new(self, profile, Revision::LATEST_LEGACY, Some(session))
    }

    /// A client of each era.
    pub(crate) fn both(&self, profile: &str) -> [Client; 2] {
        [self.modern(profile), self.legacy(profile)]
    }

    /// The audit log so far, oldest first.
    pub(crate) async fn audited(&self) -> Vec<AuditRecord> {
        audited(self.gateway.store()).await
    }
}

/// The audit log so far, oldest first.
pub(crate) async fn audited(store: &Store) -> Vec<AuditRecord> {
    eventually("the audit log", store.audit().flush()).await.unwrap();
    let filter = AuditFilter { order: AuditOrder::OldestFirst { after: 0 }, limit: 1_000, ..AuditFilter::default() };
    store.audit().list(&filter).unwrap()
}

fn write(home: &std::path::Path, files: &[File]) {
    for (path, text) in files {
        let path = home.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if text.is_empty() {
            std::fs::remove_file(&path).unwrap();
        } else {
            std::fs::write(&path, text).unwrap();
        }
    }
}

/// A client in one profile.
#[derive(Clone)]
pub(crate) struct Client {
    gateway: Arc<Gateway>,
    pub(crate) caller: Caller,
    next: Arc<AtomicU64>,
}

// === impl Client ===

impl Client {
    fn new(house: &House, profile: &str, revision: Revision, session: Option<Arc<Session>>) -> Self {
        let principal = session.as_ref().map_or_else(
            || Principal { id: PrincipalId::new("local"), is_admin: false },
            |session| session.principal.clone(),
        );
        let profile = ProfileName::new(profile).unwrap();
        let caller = Caller {
            principal,
            profile,
            door: Door::MCP,
            revision,
            session,
            meta: None,
            trace: RequestTrace::default(),
        };
        Self { gateway: Arc::clone(&house.gateway), caller, next: Arc::default() }
    }

    /// The same client, administering.
    pub(crate) fn admin(mut self) -> Self {
        self.caller.principal.is_admin = true;
        self
    }

    /// Asks, and gives the outcome as raw JSON.
    pub(crate) async fn raw(&self, method: &str, params: &Raw) -> Result<Raw, RpcError> {
        let id = Id::from_number(self.next.fetch_add(1, Ordering::Relaxed));
        self.with_id(id, method, params.clone(), None).await.expect("nobody has cancelled it")
    }

    /// Asks under a chosen id, with a place for progress. `None` when it was cancelled: then there is no answer.
    pub(crate) async fn with_id(
        &self,
        id: Id,
        method: &str,
        params: Raw,
        progress: Option<mpsc::Sender<Bytes>>,
    ) -> Option<Result<Raw, RpcError>> {
        let request = Request { id: id.clone(), method: method.to_owned(), params };
        let snapshot = match self.gateway.snapshot(&self.caller.profile) {
            Ok(snapshot) => snapshot,
            // What every door answers before the gateway is asked.
            Err(problem) => return Some(Err(RpcError::from(&problem))),
        };
        let caller = Caller { meta: self.declared(&request.params), ..self.caller.clone() };
        let asked = self.gateway.request(&snapshot, &caller, request, progress.map(Channel::new));
        let answer = eventually(method, Box::pin(asked)).await?;
        assert_eq!(answer.id, Some(id), "every answer carries the id of its request");
        Some(answer.outcome)
    }

    /// What a modern client says of itself in a request, with what every door requires of it.
    fn declared(&self, params: &Raw) -> Option<Arc<RequestMeta>> {
        let meta = params.get("_meta").unwrap_or_else(Raw::empty_object);
        let date = Raw::from_value(&Revision::LATEST.as_str());
        let required =
            [(meta::PROTOCOL_VERSION, Edit::Add(date.as_str())), (meta::CLIENT_CAPABILITIES, Edit::Add("{}"))];
        let is_modern = self.caller.revision.era() == Era::Modern;
        is_modern.then(|| Arc::new(meta::read(Some(meta.edit(&required))).expect("all that is required")))
    }

    /// Asks.
    pub(crate) async fn ask(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        self.raw(method, &Raw::from_value(params)).await.map(|result| result.to_value())
    }

    /// Calls a tool by a name and expects a result, be it an error of the tool.
    pub(crate) async fn call(&self, name: &str, arguments: &Value) -> Value {
        let asked = self.ask("tools/call", &json!({"name": name, "arguments": arguments})).await;
        asked.unwrap_or_else(|error| panic!("{name}: {error:?}"))
    }

    /// Calls a tool by a name and expects an error of the protocol.
    pub(crate) async fn refused(&self, name: &str, arguments: &Value) -> RpcError {
        let asked = self.ask("tools/call", &json!({"name": name, "arguments": arguments})).await;
        asked.expect_err(name)
    }

    /// Calls a tool and gives the text of its first block.
    pub(crate) async fn text(&self, name: &str, arguments: &Value) -> String {
        let result = self.call(name, arguments).await;
        assert_ne!(result["isError"], true, "{name}: {result}");
        text_of(&result)
    }

    /// The listed names, in order.
    pub(crate) async fn listed(&self) -> Vec<String> {
        let result = self.ask("tools/list", &json!({})).await.unwrap();
        strings(&result["tools"], "name")
    }

    /// The ids of `find_tools` for a query.
    pub(crate) async fn found(&self, arguments: &Value) -> Vec<String> {
        let result = self.call("find_tools", arguments).await;
        strings(&result["structuredContent"]["tools"], "id")
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &str, params: &Value) {
        self.gateway.notification(&self.caller, &Notification::new(method, Raw::from_value(params)));
    }

    /// The stream on which a legacy client hears news.
    pub(crate) fn stream(&self) -> Reader {
        self.caller.session.as_ref().unwrap().open_stream().unwrap()
    }
}

/// The text of the first block.
pub(crate) fn text_of(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}")).to_owned()
}

/// One member of each entry.
pub(crate) fn strings(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
}

/// The method of a message on a stream.
pub(crate) fn method_of(message: &Bytes) -> String {
    let message: Value = serde_json::from_slice(message).unwrap();
    message["method"].as_str().unwrap().to_owned()
}
