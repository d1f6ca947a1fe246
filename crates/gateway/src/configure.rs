//! Entries of the registry become servers because someone loads their tools: the definition is written, the server is
//! started and listed, and only then is it seen.
//!
//! A caller who wants an entry has a [`Claim`] on its run; all claims on an entry share one run. When the last one is
//! given up and no one has loaded a tool, the definition is taken back. Nothing that a client says gets into a
//! definition: the entry says it all, and the profile's `registry` is the administrator's permission for exactly these
//! entries.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_catalog::{Answers, ConfigureError, DefinitionId, NewDefinition, RegistryEntry};
use toolcrib_upstream::State;

use toolcrib_call::admission::closing_problem;

use crate::entry_runs::{EntryRun, RunOutcome};
use crate::gateway::Gateway;

/// What a start may take beside the deadlines of the definition.
const MARGIN: Duration = Duration::from_secs(30);

/// A claim on an entry that becomes a server. Dropping it gives the claim up.
#[derive(Debug)]
pub(crate) struct Claim {
    gateway: Arc<Gateway>,
    server: ServerName,
    outcome: watch::Receiver<RunOutcome>,
    kept: bool,
}

/// The definition that an entry comes to by itself.
pub(crate) fn definition_of(entry: &RegistryEntry) -> Result<NewDefinition, Problem> {
    entry.to_definition(&Answers::default()).map_err(|error| match &error {
        ConfigureError::Missing { variables, .. } => missing(entry, variables),
        _ => {
            let problem = Problem::from(&error);
            Problem { kind: Kind::Unavailable, ..problem }
        }
    })
}

/// What has to be known before: each variable, where to get it, and how an administrator says it.
fn missing(entry: &RegistryEntry, variables: &[String]) -> Problem {
    let (mut needs, mut secrets, mut settings) = (Vec::new(), Vec::new(), Vec::new());
    for name in variables {
        let Some(variable) = entry.authorization.variable(name) else { continue };
        let link = variable.help_url.as_ref().or(entry.authorization.help_url.as_ref());
        let about = [variable.title.clone(), link.map(|link| format!("see {}", link.as_str()))];
        let about: Vec<String> = about.into_iter().flatten().collect();
        let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
        needs.push(format!("`{name}`{about}"));
        if variable.secret {
            secrets.push(format!("`toolcrib secret set {name}`"));
            settings.push(format!(" --set {name}=vault:{name}"));
        } else {
            settings.push(format!(" --set {name}=VALUE"));
        }
    }
    let before = if secrets.is_empty() { String::new() } else { format!("{}, then ", secrets.join(", ")) };
    let message = format!("entry `{}` requires values before it can start: {}", entry.name, needs.join(", "));
    Problem::new(Kind::Unavailable, message).hint(format!(
        "An admin can set it up: {before}`toolcrib registry add {}{}`.",
        entry.name,
        settings.concat()
    ))
}

// === impl Claim ===

impl Claim {
    /// Waits until the server works or does not.
    pub(crate) async fn ended(&mut self) -> Result<(), Problem> {
        let ended = self.outcome.wait_for(Option::is_some).await;
        ended.ok().and_then(|outcome| outcome.clone()).unwrap_or_else(|| Err(closing_problem()))
    }

    /// Its tools are loaded: the definition stays.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut runs = self.gateway.entry_runs.lock();
        let Some(run) = runs.get_mut(&self.server) else { return };
        run.kept |= self.kept;
        run.claims -= 1;
        if run.claims > 0 {
            return;
        }
        let Some(EntryRun { kept: false, written: Some(revision), .. }) = runs.remove(&self.server) else { return };
        drop(runs);
        // Without a runtime the process is ending, and the definition stays.
        if tokio::runtime::Handle::try_current().is_ok() {
            let (gateway, server) = (Arc::clone(&self.gateway), self.server.clone());
            self.gateway.path.servers.scope().spawn(async move { gateway.take_back(server, revision).await });
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// A claim on the run of an entry, which begins unless it is under way.
    pub(crate) fn claim(self: &Arc<Self>, configured: NewDefinition) -> Claim {
        let server = configured.name.clone();
        let mut runs = self.entry_runs.lock();
        if let Some(run) = runs.get_mut(&server) {
            return self.join(server, run);
        }
        let (tell, outcome) = watch::channel(None);
        let run = EntryRun { outcome, claims: 0, kept: false, hidden: true, written: None };
        let run = runs.entry(server.clone()).or_insert(run);
        let (claim, own) = (self.join(server.clone(), run), self.join(server, run));
        drop(runs);
        let (gateway, scope) = (Arc::clone(self), self.path.servers.scope());
        let mut stop = scope.stop_signal();
        scope.spawn(async move {
            let ended = tokio::select! {
                () = stop.stopped() => Err(closing_problem()),
                ended = gateway.configure(&configured) => ended,
            };
            tell.send_replace(Some(ended));
            // What no one waits for any more is taken back.
            drop(own);
        });
        claim
    }

    /// Whether an entry is becoming a server, or is still being taken back into the entries.
    pub fn is_configuring(&self) -> bool {
        !self.entry_runs.lock().is_empty()
    }

    /// A claim on a run of which someone may still give the last claim up.
    pub(crate) fn claim_if_running(self: &Arc<Self>, server: &ServerName) -> Option<Claim> {
        let mut runs = self.entry_runs.lock();
        let run = runs.get_mut(server)?;
        Some(self.join(server.clone(), run))
    }

    fn join(self: &Arc<Self>, server: ServerName, run: &mut EntryRun) -> Claim {
        run.claims += 1;
        Claim { gateway: Arc::clone(self), server, outcome: run.outcome.clone(), kept: false }
    }

    /// Writes the definition, starts the server, and has the views show it. What does not work leaves nothing behind.
    async fn configure(self: &Arc<Self>, configured: &NewDefinition) -> Result<(), Problem> {
        let _place = self.entry_runs.places.acquire().await;
        let (gateway, which, text) =
            (Arc::clone(self), DefinitionId::Server(configured.name.clone()), configured.text.clone());
        let wrote = tokio::task::spawn_blocking(move || {
            if gateway.files.home().as_os_str().is_empty() {
                return Err(Problem::new(Kind::Conflict, "this gateway has no home folder to write to"));
            }
            let written = gateway.files.create(&which, &text)?;
            if let Some(run) = gateway.entry_runs.lock().get_mut(which.name()) {
                run.written = Some(written.revision.clone());
            }
            gateway.take_in();
            Ok(written.revision)
        });
        let worked = match wrote.await {
            Ok(Ok(revision)) => match self.until_ready(&configured.name).await {
                Ok(()) => Ok(()),
                Err(problem) => {
                    self.take_back(configured.name.clone(), revision).await;
                    Err(problem)
                }
            },
            Ok(Err(problem)) => Err(problem),
            Err(error) => Err(Problem::new(Kind::Internal, error.to_string())),
        };
        if let Some(run) = self.entry_runs.lock().get_mut(&configured.name) {
            run.hidden = false;
            if worked.is_err() {
                run.written = None;
            }
        }
        let gateway = Arc::clone(self);
        // A panic while building leaves the views that were there.
        let _ = tokio::task::spawn_blocking(move || gateway.rebuild()).await;
        worked
    }

    /// Starts a server and waits until its tools are listed.
    async fn until_ready(&self, name: &ServerName) -> Result<(), Problem> {
        let mut until = None;
        loop {
            let running = self.path.servers.table().get(name).cloned();
            let removed =
                || Problem::new(Kind::Cancelled, format!("the definition of `{name}` was removed in the meantime"));
            let running = running.ok_or_else(removed)?;
            let config = running.server.config();
            let longest = config.longest_start() + config.timeouts.list + MARGIN;
            let until = *until.get_or_insert_with(|| Instant::now() + longest);
            let mut status = running.server.watch_status();
            running.server.order_start();
            let ended = status.wait_for(|it| it.state.has_settled());
            let Ok(ended) = tokio::time::timeout_at(until, ended).await else {
                return Err(failed(name, Kind::Timeout, "it was not listed in time"));
            };
            let state = ended.map(|status| (status.state, status.last_error.clone()));
            // Another one may stand in its place by now.
            let now = self.path.servers.table().get(name).map(|now| now.server.is_same(&running.server));
            match (state, now) {
                (Ok((State::Ready, _)), Some(true)) => return Ok(()),
                (Ok((_, why)), Some(true)) => {
                    return Err(failed(name, Kind::Unavailable, why.as_deref().unwrap_or("it did not start")));
                }
                (Err(_), Some(true)) => return Err(closing_problem()),
                (_, Some(false) | None) => {}
            }
        }
    }

    /// Removes the definition that was written, if it is still the one.
    async fn take_back(self: &Arc<Self>, server: ServerName, revision: String) {
        let gateway = Arc::clone(self);
        let work = move || {
            if let Err(error) = gateway.files.remove(&DefinitionId::Server(server.clone()), Some(&revision)) {
                tracing::warn!(%server, %error, "failed to remove its definition, although none of its tools was \
                                                 loaded");
            }
            gateway.take_in();
        };
        // A panic while applying leaves what was in force.
        let _ = tokio::task::spawn_blocking(work).await;
    }
}

fn failed(server: &ServerName, kind: Kind, why: &str) -> Problem {
    Problem::new(kind, format!("server `{server}` could not be started and is not set up: {why}"))
        .hint(format!("To see what it requires, run `toolcrib registry show {server}`; then try again."))
}
