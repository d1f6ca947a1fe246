//! A small MCP client over Streamable HTTP: our own commands speak to the gateway over the wire like any client.

mod failure;
mod locate;
mod login;
mod modern;
mod plain;
mod questions;
mod rest;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use serde_json::{Value, json};
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_catalog::Period;
use toolcrib_protocol::inventory::Listing;
use toolcrib_protocol::json::{Outline, Rules};
use toolcrib_protocol::raw::{Edit, Writer};
use toolcrib_protocol::{Notification, Raw, Request, Revision, RpcError, meta, method, own_meta};
use toolcrib_transport::http::client::{Endpoint, HttpClient};
use toolcrib_transport::http::link::{Bounds, HttpLink};
use toolcrib_transport::{CallHandler, CallOptions, Inbox, Link};
use toolcrib_transport::{LinkError, Reply};

use crate::home::Environment;
use crate::output::{Format, Output};

pub(crate) use failure::for_a_shell;
pub(crate) use locate::{ClientAddress, GatewayAddress, address, is_endpoint, is_of_this_home, locate};
use login::ClientLogin;
pub(crate) use modern::Declares;
pub(crate) use plain::CallObservation;
pub(crate) use questions::Answer;
pub(crate) use rest::{Rest, encoded};

/// How long opening the connection may take.
const OPEN: Duration = Duration::from_secs(10);
/// How long an answer may take by default: the verification of a server ends at its own deadlines.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How long the farewell may take.
const CLOSE: Duration = Duration::from_secs(2);
/// What the gateway may answer. Deeper JSON our own library refuses to read.
const BOUNDS: Bounds = Bounds { bytes: 64 << 20, depth: 120, is_own: true };
/// How many pages of a list are read.
const PAGES: usize = 1_000;

/// What every command that speaks to a gateway takes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Gateway and output")]
pub(crate) struct ClientFlags {
    /// The format of the result [default: the context's, else table]
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<Format>,
    /// Leave out the headers of tables
    #[arg(long)]
    no_headers: bool,
    /// Print the result only, no notes, no progress
    #[arg(short, long)]
    quiet: bool,
    /// The gateway's URL [env: TOOLCRIB_ENDPOINT] [default: the running gateway of the home folder]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The context to use, of `toolcrib context list` [env: TOOLCRIB_CONTEXT] [default: the current one]
    #[arg(long, value_name = "CONTEXT", conflicts_with = "endpoint")]
    context: Option<String>,
    /// The profile to use [default: the URL's]
    #[arg(long, value_name = "PROFILE")]
    profile: Option<ProfileName>,
    /// A file with the token [env: TOOLCRIB_TOKEN, the token itself]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Timeout of a request
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = period)]
    timeout: Duration,
    /// Send no token, like other clients of this machine.
    #[arg(skip)]
    without_token: bool,
}

/// An open session with the gateway.
#[derive(Debug)]
pub(crate) struct Client {
    link: Link,
    scope: Scope,
    located: GatewayAddress,
    deadline: Duration,
    /// What the gateway said of itself when the session was opened.
    server: Raw,
    /// What each request declares, where there was no handshake that did.
    declares: Option<Raw>,
    /// Who answers what servers ask during a call.
    person: Option<Arc<dyn Answer>>,
    /// The names in `tools/list`, once someone has asked for them.
    menu: tokio::sync::OnceCell<Vec<String>>,
}

/// What a tool answered.
#[derive(Debug, Clone)]
pub(crate) struct ToolResult(pub(crate) Raw);

fn period(text: &str) -> Result<Duration, String> {
    text.parse::<Period>().map(Period::duration).map_err(|error| error.to_string())
}

// === impl ClientFlags ===

impl ClientFlags {
    /// The home folder that the person named.
    pub(crate) fn home(&self) -> Option<&std::path::Path> {
        self.home.as_deref()
    }

    /// How to print: as the person says, else as the context does.
    pub(crate) fn output(&self, environment: &Environment) -> Result<Output, Problem> {
        let format = match self.output {
            Some(format) => format,
            None => {
                locate::context(self, environment)?.and_then(|(context, _)| context.output).unwrap_or(Format::Table)
            }
        };
        Ok(Output { format, headers: !self.no_headers, quiet: self.quiet })
    }

    /// The flags of someone who names the endpoint and nothing else.
    pub(crate) fn of_endpoint(url: &str) -> Self {
        Self {
            output: None,
            no_headers: false,
            quiet: false,
            endpoint: Some(url.to_owned()),
            context: None,
            profile: None,
            token_file: None,
            home: None,
            timeout: OPEN,
            without_token: false,
        }
    }

    /// The same where the rest is found as for every command.
    pub(crate) fn of_bridge(
        endpoint: Option<String>,
        profile: Option<ProfileName>,
        token_file: Option<PathBuf>,
        home: Option<PathBuf>,
    ) -> Self {
        Self { endpoint, profile, token_file, home, ..Self::of_endpoint("") }
    }

    /// The flags of someone who knows a gateway and its token, and is patient.
    pub(crate) fn of_gateway(url: &str, token_file: PathBuf, home: PathBuf) -> Self {
        let (token_file, home) = (Some(token_file), Some(home));
        Self { token_file, home, timeout: TIMEOUT, ..Self::of_endpoint(url) }
    }

    /// The flags that were written on a command line that is not finished.
    pub(crate) fn of_completion(
        endpoint: Option<String>,
        context: Option<String>,
        profile: Option<ProfileName>,
        token_file: Option<PathBuf>,
        home: Option<PathBuf>,
    ) -> Self {
        Self { context, ..Self::of_bridge(endpoint, profile, token_file, home) }
    }

    /// The same for someone who waits so long.
    pub(crate) fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The context that was named.
    pub(crate) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// The same at another context.
    pub(crate) fn at_context(self, context: &str) -> Self {
        Self { endpoint: None, context: Some(context.to_owned()), ..self }
    }

    /// The flags that name the gateway, as they are written.
    pub(crate) fn written(&self) -> Vec<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        [
            ("--endpoint", self.endpoint.clone()),
            ("--context", self.context.clone()),
            ("--profile", self.profile.as_ref().map(ToString::to_string)),
            ("--token-file", path(&self.token_file)),
            ("--home", path(&self.home)),
        ]
        .into_iter()
        .filter_map(|(flag, value)| value.map(|value| format!("{flag}={value}")))
        .collect()
    }

    /// The same through a profile.
    pub(crate) fn through(self, profile: Option<ProfileName>) -> Self {
        Self { profile, ..self }
    }

    /// The same without any token.
    pub(crate) fn without_token(self) -> Self {
        Self { without_token: true, ..self }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self { endpoint: None, ..Self::of_endpoint("") }
    }
}

// === impl Client ===

impl Client {
    /// Finds the gateway and shakes hands.
    pub(crate) async fn open(flags: &ClientFlags, environment: &Environment) -> anyhow::Result<Self> {
        Self::open_as(flags, environment, None).await
    }

    /// The same for a person who answers what servers ask. A gateway that does not know the revision in which this is
    /// possible is spoken to as by [`open`](Self::open).
    pub(crate) async fn open_answering(
        flags: &ClientFlags,
        environment: &Environment,
        person: Arc<dyn Answer>,
    ) -> anyhow::Result<Self> {
        match Self::open_as(flags, environment, Some(Declares::Questions)).await {
            Ok(client) => Ok(Self { person: Some(person), ..client }),
            // Whatever it was, the handshake meets it too and tells it in the usual words.
            Err(_) => Self::open(flags, environment).await,
        }
    }

    /// The same as a client of the revision that has no handshake, where it is told what one declares.
    pub(crate) async fn open_as(
        flags: &ClientFlags,
        environment: &Environment,
        declares: Option<Declares>,
    ) -> anyhow::Result<Self> {
        let located = locate::locate(flags, environment)?;
        let mut headers = HeaderMap::new();
        if let Some(token) = &located.token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose())).context("use the token")?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut endpoint = Endpoint { uri: located.uri.clone(), headers, proof: HeaderMap::new() };
        let scope = Scope::new();
        let http = located.http_client().context("start the HTTP client")?;
        let (declares, deadline) = (declares.map(Declares::capabilities), OPEN.min(flags.timeout));
        let open = async |http: HttpClient, endpoint: Endpoint| {
            let link = HttpLink::new(http, endpoint, Arc::new(NotificationSink), scope.clone(), BOUNDS);
            let opened = match &declares {
                None => shake_hands(&link, deadline).await,
                Some(capabilities) => {
                    let id = Link::Http(Arc::clone(&link)).next_id();
                    modern::discover(&link, id, capabilities, deadline).await
                }
            };
            (link, opened)
        };
        let (link, opened) = match ClientLogin::find(&located, &http, flags, environment) {
            None => Box::pin(open(http, endpoint)).await,
            Some(login) => {
                let http = login.proving(&http);
                endpoint.proof = login.headers().await?;
                let mut tried = Box::pin(open(http.clone(), endpoint.clone())).await;
                if let Err(OpenError::Link(LinkError::Status { status: 401, challenge, .. })) = &tried.1
                    && login.is_renewed(&endpoint.proof, challenge.as_deref()).await?
                {
                    endpoint.proof = login.headers().await?;
                    tried = Box::pin(open(http, endpoint)).await;
                }
                login.close().await;
                tried
            }
        };
        let server = opened.map_err(|error| error.into_problem(&located))?;
        let menu = tokio::sync::OnceCell::new();
        Ok(Self {
            link: Link::Http(link),
            scope,
            located,
            deadline: flags.timeout,
            server,
            declares,
            person: None,
            menu,
        })
    }

    /// The gateway's place and how we come to it.
    pub(crate) fn located(&self) -> &GatewayAddress {
        &self.located
    }

    /// The gateway's own version.
    pub(crate) fn server_version(&self) -> Option<String> {
        self.server.get("serverInfo")?.text("version")
    }

    /// Ends the session.
    pub(crate) async fn close(self) {
        self.link.close(CLOSE).await;
        self.scope.close(CLOSE).await;
    }

    /// Ends the session after a call was cancelled, so that the gateway learns of that first.
    pub(crate) async fn abandon(self) {
        self.scope.close(CLOSE).await;
    }

    /// Calls one tool of the gateway. A result that is an error is `Ok` here.
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: &Raw,
        handler: Option<Arc<dyn CallHandler>>,
    ) -> Result<ToolResult, Problem> {
        let params = plain::named(name, arguments);
        let send = async |params: Raw| {
            let id = self.link.next_id();
            let options = CallOptions { handler: handler.clone(), ..CallOptions::within(self.deadline) };
            let token = json!({ meta::PROGRESS_TOKEN: id }).to_string();
            let said = if handler.is_some() { params.edit(&[("_meta", Edit::Set(&token))]) } else { params };
            self.request(id, method::TOOLS_CALL, said, options).await
        };
        questions::answered(self.person.as_ref(), params, send).await.map(ToolResult)
    }

    /// Whether questions of servers are answered.
    pub(crate) fn answers(&self) -> bool {
        self.person.is_some()
    }

    /// Calls any tool by its plain name, as the profile's clients may call it.
    pub(crate) async fn run(
        &self,
        name: &str,
        arguments: &Raw,
        handler: Option<Arc<dyn CallHandler>>,
    ) -> Result<ToolResult, Problem> {
        if self.wraps().await? {
            return self.call_wrapped(name, arguments, handler).await;
        }
        let mut wanted = Writer::object(64);
        wanted.text("name", name);
        wanted.member("arguments", arguments.as_str());
        self.call("call_tool", &wanted.finish(), handler).await
    }

    /// Calls a tool of the gateway itself and gives its structured result.
    pub(crate) async fn ask(&self, name: &str, arguments: &Value) -> Result<Raw, Problem> {
        let result = self.call_plain(name, &Raw::from_value(arguments), self.deadline).await.outcome?;
        if result.is_error() {
            return Err(self.refused(&result));
        }
        result.structured().ok_or_else(|| unstructured(name))
    }

    /// Asks for an operation, which only those with a token may do.
    pub(crate) async fn operate(&self, name: &str, arguments: &Value) -> Result<Raw, Problem> {
        self.ask(name, arguments).await.map_err(|problem| self.hidden(problem))
    }

    /// The same where the answer need not be an object: JSON of any kind, else the text.
    pub(crate) async fn obtain(&self, name: &str, arguments: &Value) -> Result<Raw, Problem> {
        self.act(name, arguments).await.map(|result| result.value())
    }

    /// The same where the answer holds entries: an object with a list in it, or a bare list.
    pub(crate) async fn obtain_list(&self, name: &str, arguments: &Value) -> Result<Raw, Problem> {
        let answer = self.obtain(name, arguments).await?;
        if matches!(answer.outline(), Outline::Scalar(_)) { Err(unstructured(name)) } else { Ok(answer) }
    }

    /// The same with all that was answered.
    pub(crate) async fn act(&self, name: &str, arguments: &Value) -> Result<ToolResult, Problem> {
        let seen = self.call_plain(name, &Raw::from_value(arguments), self.deadline).await;
        let result = seen.outcome.map_err(|problem| self.hidden(problem))?;
        if result.is_error() {
            return Err(self.hidden(self.refused(&result)));
        }
        Ok(result)
    }

    /// To a client without a token an operation does not exist.
    fn hidden(&self, problem: Problem) -> Problem {
        let is_hidden = matches!(problem.kind, Kind::UnknownTool | Kind::NotFound | Kind::InvalidParams);
        if is_hidden && !self.located.has_credential() {
            return Problem { kind: Kind::Unauthenticated, ..problem }.hint(failure::hint_of_token(&self.located));
        }
        problem
    }

    /// Asks for a method of MCP itself.
    pub(crate) async fn method(&self, method: &str, params: &Value) -> Result<Raw, Problem> {
        let options = CallOptions::within(self.deadline);
        self.request(self.link.next_id(), method, Raw::from_value(params), options).await
    }

    /// Every entry of a list, page by page.
    pub(crate) async fn list(&self, listing: Listing) -> Result<Vec<Raw>, Problem> {
        let mut entries = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let id = self.link.next_id();
            let options = CallOptions::within(self.deadline);
            let result = self.request(id, listing.method(), Raw::from_value(&params), options).await?;
            if let Some(list) = result.get(listing.member())
                && let Outline::Array(items) = list.outline()
            {
                entries.extend(items.into_iter().map(|item| list.part(item)));
            }
            cursor = result.text("nextCursor");
            if cursor.is_none() {
                return Ok(entries);
            }
        }
        Err(Problem::new(Kind::BadServer, format!("`{}` has more than {PAGES} pages", listing.method())))
    }

    /// The problem that a tool's error reports.
    pub(crate) fn refused(&self, result: &ToolResult) -> Problem {
        // Only the gateway writes this key: it takes it out of what servers send. Whatever else the result says is the
        // tool's.
        let named = result.0.get("_meta").and_then(|meta| meta.text(own_meta::ERROR));
        let kind = failure::kind(named.as_deref(), Kind::NotFound.row().code);
        let error = RpcError::new(kind.row().code, result.text());
        failure::of_rpc(&error.with_data(&json!({ "kind": kind.name() })), &self.located)
    }

    async fn request(&self, id: u64, method: &str, params: Raw, options: CallOptions) -> Result<Raw, Problem> {
        let params = self.with_meta(id, params);
        let outcome = self.link.call(id, method, params, options).await;
        let outcome = outcome.map_err(|error| failure::of_link(error, &self.located))?;
        outcome.map_err(|error| failure::of_rpc(&error, &self.located))
    }
}

fn unstructured(name: &str) -> Problem {
    Problem::new(Kind::BadServer, format!("the response of `{name}` has no structured content"))
        .hint("check that the endpoint is a Toolcrib gateway of the same version with `toolcrib version`")
}

/// Why the session could not be opened.
enum OpenError {
    Link(LinkError),
    Refused(RpcError),
}

impl OpenError {
    fn into_problem(self, located: &GatewayAddress) -> Problem {
        match self {
            OpenError::Link(error) => failure::of_link(error, located),
            OpenError::Refused(error) => failure::of_rpc(&error, located),
        }
    }
}

/// Who we say that we are.
fn client_info() -> Raw {
    Raw::from_value(&json!({
        "name": "toolcrib-cli", "title": "Toolcrib's command line", "version": env!("CARGO_PKG_VERSION"),
    }))
}

async fn shake_hands(link: &Arc<HttpLink>, deadline: Duration) -> Result<Raw, OpenError> {
    let params = Raw::from_value(&json!({
        "protocolVersion": Revision::LATEST_LEGACY.as_str(),
        "capabilities": {},
        "clientInfo": client_info().to_value(),
    }));
    let opening = Link::Http(Arc::clone(link));
    let (outcome, session) = link.initialize(opening.next_id(), params, deadline).await.map_err(OpenError::Link)?;
    let result = outcome.map_err(OpenError::Refused)?;
    let date = result.text("protocolVersion").unwrap_or_default();
    let Some(revision) = Revision::parse(&date) else {
        let reason = format!("`initialize` chose the unknown revision `{date}`");
        return Err(OpenError::Link(LinkError::NotMcp(reason)));
    };
    link.set_session(session, revision);
    opening.notify(Notification::new(method::INITIALIZED, Raw::empty_object())).await.map_err(OpenError::Link)?;
    Ok(result)
}

// === impl ToolResult ===

impl ToolResult {
    /// Whether the tool says that it failed.
    pub(crate) fn is_error(&self) -> bool {
        self.0.get("isError").is_some_and(|flag| flag.as_str() == "true")
    }

    /// The blocks of the content.
    pub(crate) fn blocks(&self) -> Vec<Raw> {
        let Some(content) = self.0.get("content") else { return Vec::new() };
        match content.outline() {
            Outline::Array(items) => items.into_iter().map(|item| content.part(item)).collect(),
            Outline::Object(_) | Outline::Scalar(_) => Vec::new(),
        }
    }

    /// The texts among the blocks, one below the other.
    pub(crate) fn text(&self) -> String {
        let is_text = |block: &&Raw| block.text("type").as_deref() == Some("text");
        let texts: Vec<String> = self.blocks().iter().filter(is_text).filter_map(|block| block.text("text")).collect();
        texts.join("\n")
    }

    /// `structuredContent`; where there is none, the only text block when that is a JSON object.
    pub(crate) fn structured(&self) -> Option<Raw> {
        self.0.get("structuredContent").filter(Raw::is_object).or_else(|| {
            let [block] = &self.blocks()[..] else { return None };
            let text = block.text("text")?;
            Raw::parse(text.into_bytes().into(), Rules::relayed(BOUNDS.depth)).ok().filter(Raw::is_object)
        })
    }
}

impl ToolResult {
    /// What was answered as a value: the structured content, a text that is JSON, else the texts as one string.
    pub(crate) fn value(&self) -> Raw {
        let Some(structured) = self.structured() else {
            let text = self.text();
            let rules = Rules::relayed(BOUNDS.depth);
            return Raw::parse(text.clone().into_bytes().into(), rules)
                .unwrap_or_else(|_| Raw::from_value(&Value::from(text)));
        };
        // Structured content is an object, so a bare list stands in one there.
        match structured.outline() {
            Outline::Object(members) if members.len() == 1 && members[0].key == "items" => {
                structured.part(members[0].value)
            }
            _ => structured,
        }
    }
}

/// No one listens for what the gateway says on its own.
#[derive(Debug)]
struct NotificationSink;

impl Inbox for NotificationSink {
    fn notification(&self, _: Notification) {}

    fn request(&self, request: Request, reply: Reply) {
        reply.send_default(&request);
    }

    fn oddity(&self, _: &str) {}

    fn closed(&self) {}
}
