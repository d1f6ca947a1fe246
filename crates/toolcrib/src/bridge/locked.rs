//! What the client is answered while the gateway lets no one in without a login: a server of one tool, which begins the
//! login. As soon as someone has logged in, the client reads that the lists have changed, and everything goes through.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::Uri;
use http::header::HeaderMap;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::subscription::{self, Filter};
use toolcrib_protocol::{Answer, Id, Message, Notification, Raw, Request, Revision, RpcError, meta, method};

use super::exchange::{Call, ExchangeError};
use super::{Bridge, note};
use crate::endpoint_login::{AwaitedLogin, StartedLogin};

/// What the bridge calls itself while it speaks for the gateway.
const NAME: &str = "toolcrib-bridge";
/// The tool's name in the dialect of muster, whose clients read JSON.
const MUSTER: &str = "authenticate_muster";

/// That there is no way without a login.
pub(super) fn needs_login() -> Problem {
    Problem::new(Kind::Unauthenticated, "the gateway requires a login; the request did not run")
        .hint("list the tools again and call the one that logs in")
}

// === impl Bridge ===

impl Bridge {
    /// From now on the client sees the tool to log in.
    pub(super) async fn locked(self: &Arc<Self>) {
        note(&format!("the gateway requires a login: the client can call the tool `{}`", self.login.options.tool));
        self.watch_other_bridges();
        if self.session.held().is_some() {
            self.notify_all_lists_changed().await;
        }
    }

    /// Whoever logs in does it for all bridges of this home.
    fn watch_other_bridges(self: &Arc<Self>) {
        let (bridge, mut stop) = (Arc::clone(self), self.background.stop_signal());
        self.background.spawn(async move {
            tokio::select! {
                () = bridge.login.until_stored() => bridge.unlock().await,
                () = stop.stopped() => {}
            }
        });
    }

    /// Someone has logged in.
    async fn unlock(self: &Arc<Self>) {
        if !self.login.unlock() {
            return;
        }
        note("logged in");
        if let Err(failed) = self.open_owed().await {
            note(&format!("the session is opened with the next request: {failed:?}"));
        }
        if self.has_legacy_client() && !self.login.is_locked() {
            self.notify_all_lists_changed().await;
        }
    }

    /// Answers a request in place of the gateway.
    pub(super) async fn answer_locked(self: &Arc<Self>, call: &Call) {
        let [id] = &call.ids[..] else {
            return self.refuse(&call.ids, &needs_login()).await;
        };
        let Ok(Message::Request(request)) = Message::parse(&call.line, Rules::relayed(self.limits.depth)) else {
            return self.refuse(&call.ids, &needs_login()).await;
        };
        if call.is_initialize {
            self.session.owe();
        }
        let is_modern = call.modern.is_some();
        self.spoke_modern.fetch_or(is_modern, Ordering::Relaxed);
        if is_modern && request.method == method::LISTEN {
            return self.listen_locked(&request).await;
        }
        let answer = match self.result(&request).await {
            Ok(mut result) => {
                if is_modern {
                    complete(&mut result, &request.method);
                }
                Answer::ok(id.clone(), Raw::from_value(&result))
            }
            Err(error) => Answer::error(Some(id.clone()), error),
        };
        self.say(answer.to_bytes()).await;
    }

    async fn result(self: &Arc<Self>, request: &Request) -> Result<Map<String, Value>, RpcError> {
        let tool = self.login.options.tool;
        let instructions =
            format!("This server requires a login. Call the tool `{tool}`; its other tools appear after the login.");
        let capabilities = json!({
            "tools": {"listChanged": true}, "prompts": {"listChanged": true}, "resources": {"listChanged": true}
        });
        let result = match request.method.as_str() {
            method::INITIALIZE => {
                let date = request.params.text("protocolVersion").unwrap_or_default();
                json!({
                    "protocolVersion": Revision::negotiate_legacy(&date).as_str(),
                    "capabilities": capabilities,
                    "serverInfo": server_info(),
                    "instructions": instructions,
                })
            }
            method::DISCOVER => {
                let versions: Vec<&str> = Revision::ALL.iter().rev().map(|revision| revision.as_str()).collect();
                json!({"supportedVersions": versions, "capabilities": capabilities, "instructions": instructions})
            }
            method::PING | method::SET_LEVEL => json!({}),
            method::TOOLS_LIST => json!({"tools": [{
                "name": tool,
                "title": "Log in",
                "description": "Begins the login that this server requires and returns a link. Show the link to the \
                                user, who opens it in a browser. After the login the other tools appear.",
                "inputSchema": {"type": "object", "properties": {}},
                "annotations": {"readOnlyHint": true, "openWorldHint": true},
            }]}),
            method::PROMPTS_LIST => json!({"prompts": []}),
            method::RESOURCES_LIST => json!({"resources": []}),
            method::RESOURCE_TEMPLATES_LIST => json!({"resourceTemplates": []}),
            method::TOOLS_CALL if request.params.text("name").as_deref() == Some(tool) => self.authenticate().await,
            _ => return Err(RpcError::from(&needs_login())),
        };
        let Value::Object(result) = result else { return Err(RpcError::from(Kind::Internal)) };
        Ok(result)
    }

    /// Begins a login. An error is a result, so that the model reads it.
    async fn authenticate(self: &Arc<Self>) -> Value {
        let started = match self.login.begin().await {
            Ok(started) => started,
            Err(problem) => {
                let hint = problem.hint.as_ref().map(|hint| format!(". {hint}")).unwrap_or_default();
                let text = format!("the login cannot begin: {}{hint}", problem.message);
                return json!({"content": [{"type": "text", "text": text}], "isError": true});
            }
        };
        let StartedLogin { url, is_opened, work } = started;
        self.await_login(work);
        let message = match is_opened {
            true => "The login page was opened in the browser. If it does not show, open the link.",
            false => "Open the link in a browser on this machine to log in.",
        };
        let text = match self.login.options.tool {
            MUSTER => json!({"status": "auth_required", "auth_url": url, "clickable_url": url, "message": message})
                .to_string(),
            _ => format!("{message} It is valid for 10 minutes: {url}"),
        };
        json!({"content": [{"type": "text", "text": text}], "isError": false})
    }

    /// Takes the answer to a login in the background.
    fn await_login(self: &Arc<Self>, work: Option<AwaitedLogin>) {
        let Some(work) = work else { return };
        let (bridge, mut stop) = (Arc::clone(self), self.background.stop_signal());
        self.background.spawn(async move {
            tokio::select! {
                is_in = work.run(&bridge.background) => if is_in { bridge.unlock().await },
                () = stop.stopped() => {}
            }
        });
    }

    /// Begins a login for more scopes, where the gateway has refused a request for want of them. Everything else goes on:
    /// the link is in the error of that request.
    pub(super) async fn step_up(
        self: &Arc<Self>,
        uri: &Uri,
        proof: &HeaderMap,
        challenge: Option<&str>,
    ) -> Result<(), ExchangeError> {
        let Some(begun) = self.login.step_up(uri, proof, challenge).await else { return Ok(()) };
        let message = "the login at the gateway does not permit this request; it did not run";
        let problem = Problem::new(Kind::Forbidden, message);
        let hint = match begun {
            Ok(StartedLogin { url, work, .. }) => {
                self.await_login(work);
                format!("open {url} in a browser on this machine to allow it, then send the request again")
            }
            Err(why) => format!("no login for more can begin: {}", why.message),
        };
        Err(ExchangeError::NeedsScopes(problem.hint(hint)))
    }

    /// Holds a modern client's stream until someone has logged in; then its client opens it again, at the gateway.
    async fn listen_locked(self: &Arc<Self>, request: &Request) {
        let filter = match Filter::read(&request.params) {
            Ok(filter) => filter,
            Err(error) => return self.say(Answer::error(Some(request.id.clone()), error).to_bytes()).await,
        };
        self.say(subscription::acknowledged(&request.id, &filter).to_bytes()).await;
        self.login.until_unlocked().await;
        for changed in [method::TOOLS_CHANGED, method::PROMPTS_CHANGED, method::RESOURCES_CHANGED] {
            let notification = Notification::new(changed, Raw::empty_object());
            if filter.admits(&notification) {
                self.say(subscription::tag(&notification, &request.id).to_bytes()).await;
            }
        }
        let ended = subscription::ended(&request.id, &Raw::from_value(&server_info()));
        self.say(Answer::ok(Id::clone(&request.id), ended).to_bytes()).await;
    }
}

fn server_info() -> Value {
    json!({"name": NAME, "version": env!("CARGO_PKG_VERSION")})
}

/// What a result has on top since 2026-07-28.
fn complete(result: &mut Map<String, Value>, method: &str) {
    result.insert("resultType".to_owned(), "complete".into());
    if method::is_cacheable(method) {
        result.insert("ttlMs".to_owned(), 0.into());
        result.insert("cacheScope".to_owned(), "private".into());
    }
    result.insert("_meta".to_owned(), json!({meta::SERVER_INFO: server_info()}));
}
