//! A call of a tool whose server is still being listed for the first time waits for that server, and only for that one.
//! What is listed for one principal alone is waited for in `own`.

mod own;

use std::time::Duration;

use toolcrib_base::Problem;
use toolcrib_protocol::{Raw, Request, method};
use toolcrib_session::Caller;
use toolcrib_upstream::{Server, State, Status};
use toolcrib_view::view::View;

use crate::path::CallPath;
use crate::snapshot::ProfileSnapshot;

/// The longest wait for a first listing: clients give up not much later.
const LONGEST: Duration = Duration::from_secs(20);
/// How long a view may take to be built once its server was listed.
const BUILD: Duration = Duration::from_secs(2);

impl CallPath {
    /// The snapshot by which a request is answered that was admitted by `taken`: mostly that one.
    ///
    /// # Errors
    /// Its profile is gone by now, or the caller has lost it.
    pub async fn awaited_snapshot(
        &self,
        taken: &ProfileSnapshot,
        caller: &Caller,
        request: &Request,
    ) -> Result<ProfileSnapshot, Problem> {
        let taken = &taken.seen_by(&caller.principal, caller.door);
        if let Some(awaited) = self.own_snapshot(taken, caller, request).await {
            return awaited;
        }
        let view = taken.view();
        if view.is_complete || request.method != method::TOOLS_CALL {
            return Ok(taken.clone());
        }
        let Some(server) = self.awaited(view, &request.params) else { return Ok(taken.clone()) };
        let mut builds = self.views.watch_builds();
        let timeouts = server.config().timeouts;
        let mut status = server.watch_status();
        // A server that fails, or never ends, is answered for by the view as it is.
        let ended = |it: &Status| it.listed || it.state == State::Stopped;
        let listing = async { status.wait_for(ended).await.is_ok() };
        let listed = tokio::time::timeout((timeouts.connect + timeouts.list).min(LONGEST), listing).await;
        if listed.is_ok() {
            let shown = async {
                while !self.views.shows(&server) {
                    if builds.changed().await.is_err() {
                        break;
                    }
                }
            };
            // Whatever is shown by then is what the answer is made from.
            let _ = tokio::time::timeout(BUILD, shown).await;
        }
        taken.renewed(&self.views.snapshot(&caller.profile)?, &caller.principal, caller.door)
    }

    /// The server that a call names, directly or through a meta-tool, and that is still being listed.
    fn awaited(&self, view: &View, params: &Raw) -> Option<Server> {
        let arguments = params.get("arguments");
        let inner = |key: &str| arguments.as_ref().and_then(|arguments| arguments.text(key));
        let names = [params.text("name"), inner("name"), inner("tool")];
        let mut unknown = names.iter().flatten().filter(|name| view.tool(name).is_none());
        unknown.find_map(|name| {
            view.servers
                .iter()
                .find(|(definition, server)| {
                    let prefix = definition.prefix.as_deref().unwrap_or(definition.name.as_str());
                    let rest = name.strip_prefix("x_").unwrap_or(name).strip_prefix(prefix);
                    rest.is_some_and(|rest| rest.starts_with(['/', '_'])) && self.is_listing(server)
                })
                .map(|(_, server)| server.clone())
        })
    }

    /// Whether there will soon be more of a server than is shown now. One that is stopped has no one who lists it.
    fn is_listing(&self, server: &Server) -> bool {
        let status = server.status();
        status.state != State::Stopped && (!status.listed || !self.views.shows(server))
    }
}
