//! What `init` does once all is agreed: definitions, verification, clients, the closing words. Told to end it stops
//! between two steps, and what is done by then is whole.

use std::collections::BTreeSet;
use std::process::ExitCode;

use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_call::LiveEvents;
use toolcrib_catalog::Start;

use super::complain;
use super::known;
use super::question::Prompter;
use super::sample::{self, Sample};
use crate::clients::join::NewEntry;
use crate::clients::take::{ImportPlan, write_definition};
use crate::command::home_gateway::HomeGateway;
use crate::command::service;
use crate::command::verify::many::Verification;
use crate::compose::End;
use crate::config::Config;
use crate::home::{Environment, Home};
use crate::output::print;
use crate::text;

/// The server that comes where there is none.
const EXAMPLE: &str = "units";

/// What was agreed.
pub(super) struct SetupPlan {
    pub(super) home: Home,
    pub(super) environment: Environment,
    pub(super) asker: Prompter,
    /// Servers to import.
    pub(super) taking: Option<ImportPlan>,
    /// Whether the example server is added.
    pub(super) with_example: bool,
    /// Whether the gateway becomes a service.
    pub(super) with_service: bool,
    pub(super) joinings: Vec<NewEntry>,
    /// Whether there is a client at all.
    pub(super) has_clients: bool,
    /// Whether something could not be read.
    pub(super) has_problems: bool,
}

/// The outcome.
#[derive(Debug, Default)]
struct SetupSummary {
    servers: usize,
    tools: u64,
    verified: usize,
    failed: usize,
    /// Those that want a login.
    logins: usize,
    /// Those that are still being installed.
    unfinished: usize,
    sample: Option<Sample>,
    /// Whether a gateway runs on.
    gateway_runs: bool,
}

pub(super) async fn run(mut job: SetupPlan, config: Config, events: LiveEvents) -> anyhow::Result<ExitCode> {
    let mut ended = End::listen()?;
    let has_new = job.write_servers()?;
    let mut has_problems = job.has_problems;
    let verified = {
        let mut opening = std::pin::pin!(HomeGateway::open(config, events, &job.environment));
        let opened = tokio::select! {
            biased;
            () = ended.wait() => {
                // What has begun to start is ended cleanly.
                if let Ok(gateway) = opening.await {
                    gateway.end().await;
                }
                return Ok(interrupted());
            }
            opened = &mut opening => opened,
        };
        match opened {
            Ok(gateway) => {
                let verified = tokio::select! {
                    biased;
                    () = ended.wait() => None,
                    verified = verify(&gateway, &job.home, job.asker.is_person()) => Some(verified),
                };
                gateway.end().await;
                let Some(verified) = verified else { return Ok(interrupted()) };
                verified
            }
            Err(error) => Err(error),
        }
    };
    let mut done = verified.unwrap_or_else(|error| {
        has_problems = true;
        complain(&not_verified(error));
        SetupSummary::default()
    });
    if job.with_service {
        match service::install_for(&job.home, &job.environment).await {
            Ok(told) => {
                done.gateway_runs = true;
                print(&text::block(&format!("\n{told}")))?;
            }
            Err(problem) => {
                has_problems = true;
                complain(&problem);
            }
        }
    }
    let mut connected = 0;
    if !done.works() && !job.joinings.is_empty() && !job.connects_all_the_same()? {
        job.joinings.clear();
    }
    for joining in &job.joinings {
        match joining.write() {
            Ok(done) => {
                connected += 1;
                print(&text::block(&format!("{}{}", if connected == 1 { "\n" } else { "" }, done.text)))?;
            }
            Err(problem) => {
                has_problems = true;
                complain(&problem);
            }
        }
    }
    print(&text::block(&closing(&done, has_new, connected, &job)))?;
    if !done.is_well() {
        has_problems = true;
        complain(&crate::command::not_working(done.servers - done.well(), done.servers));
    }
    Ok(if has_problems { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

// === impl SetupSummary ===

impl SetupSummary {
    /// How many servers answer.
    fn well(&self) -> usize {
        self.servers.saturating_sub(self.failed + self.logins + self.unfinished)
    }

    /// Whether all of them do.
    fn is_well(&self) -> bool {
        self.well() == self.servers
    }

    /// Whether there is something for a client to use; also where nothing is known.
    fn works(&self) -> bool {
        self.servers == 0 || self.well() > 0 || self.unfinished > 0
    }
}

fn interrupted() -> ExitCode {
    complain(
        &Problem::new(Kind::Cancelled, "interrupted; no client was connected")
            .hint("imported servers are kept; run `toolcrib init` to continue"),
    );
    ExitCode::from(super::super::INTERRUPTED)
}

fn not_verified(error: anyhow::Error) -> Problem {
    let problem =
        error.downcast::<Problem>().unwrap_or_else(|error| Problem::new(Kind::Internal, format!("{error:#}")));
    let message = format!("the servers could not be verified: {}", problem.message);
    let hint = problem.hint.map(|hint| format!("{hint}; then run `toolcrib init` again"));
    Problem::new(problem.kind, message).hint(hint.unwrap_or_else(|| "run `toolcrib init` again".to_owned()))
}

// === impl SetupPlan ===

impl SetupPlan {
    /// Asks whether clients are connected to a gateway of which no server works. Without a person to ask, they are not.
    fn connects_all_the_same(&self) -> anyhow::Result<bool> {
        if self.asker.no("\nNone of the servers works. Connect the clients anyway?")? {
            return Ok(true);
        }
        complain(&Problem::new(Kind::Unavailable, "no client was connected, because none of the servers works").hint(
            "fix the errors above, then run `toolcrib init` again; to connect one client, run `toolcrib connect NAME`",
        ));
        Ok(false)
    }

    /// Writes what is new; whether something is.
    fn write_servers(&mut self) -> anyhow::Result<bool> {
        if let Some(taking) = &mut self.taking {
            taking.write()?;
            let folder = text::line(&taking.folder().to_string_lossy()).into_owned();
            print(&format!("\nImported {}: {folder}\n", number(taking.new_names().len(), "server")))?;
        }
        if self.with_example {
            let program = std::env::current_exe()?;
            let program = program.to_str().ok_or_else(|| anyhow::anyhow!("the path of this program is not UTF-8"))?;
            let name = ServerName::new(EXAMPLE)?;
            // A JSON string is a YAML string.
            let command = serde_json::json!(program);
            let text = format!(
                "# An example server: remove this file when you have your own servers.\n\
                 name: {name}\ntitle: Units and numbers\ncommand: {command}\nargs: [example, {name}]\n"
            );
            let folder = self.home.path().join("servers");
            write_definition(&folder, &name, &text)?;
            let file = folder.join(format!("{name}.yaml"));
            print(&format!("\nAdded the example server: {}\n", text::line(&file.to_string_lossy())))?;
        }
        Ok(self.taking.is_some() || self.with_example)
    }
}

/// Verifies the servers that no one verified yet, reports each as it is done, and looks for an example.
async fn verify(gateway: &HomeGateway, home: &Home, asks: bool) -> anyhow::Result<SetupSummary> {
    let path = home.path().to_owned();
    let loaded = tokio::task::spawn_blocking(move || toolcrib_catalog::load(&path)).await?;
    // Anyone who switched a server off does not want it started.
    let starts = loaded.servers.values().filter(|server| matches!(server.start, Start::Eager | Start::Lazy));
    let wanted: BTreeSet<ServerName> = starts.map(|server| server.name.clone()).collect();
    let known = known::summaries(gateway.rest(), &wanted).await?;
    let is_verified = |name: &ServerName| known.get(name).is_some_and(|known| known.is_verified);
    let pending: Vec<ServerName> = wanted.iter().filter(|name| !is_verified(name)).cloned().collect();
    let mut done = SetupSummary { servers: wanted.len(), gateway_runs: gateway.stays(), ..SetupSummary::default() };
    done.tools = wanted.iter().filter(|name| is_verified(name)).map(|name| known[name].tools).sum();
    if !pending.is_empty() {
        print(&format!(
            "\nVerifying {}: each is started, its tools are listed, and it is stopped.\n",
            number(pending.len(), "server")
        ))?;
        let verification = Verification { rest: gateway.rest(), servers: &pending, write: false, asks };
        let outcome = verification.run().await?;
        done.verified = outcome.verified;
        done.failed = outcome.failed;
        done.logins = outcome.logins;
        done.unfinished = outcome.unfinished;
        done.tools += outcome.tools;
    }
    done.sample = sample::pick(gateway.rest()).await;
    Ok(done)
}

fn number(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What is there now, and what to do next.
fn closing(done: &SetupSummary, has_new: bool, connected: usize, job: &SetupPlan) -> String {
    let mut text = String::from("\n");
    if !has_new && connected == 0 && done.verified == 0 && done.failed == 0 && !job.has_problems {
        text.push_str("Everything is already set up; nothing was changed.\n");
    }
    if done.servers > 0 {
        let well = done.well();
        text.push_str(&format!("{} with {} answered", number(well, "server"), tools(done.tools)));
        let others =
            [(done.failed, "failed"), (done.logins, "requires a login"), (done.unfinished, "is still being installed")];
        for (number, what) in others.into_iter().filter(|(number, _)| *number > 0) {
            let what = if number > 1 {
                what.replace("requires", "require").replace("is still", "are still")
            } else {
                what.to_owned()
            };
            text.push_str(&format!("; {number} {what}"));
        }
        let next = if done.failed + done.unfinished == 0 {
            ". Other servers are unaffected: log in with the commands above"
        } else {
            ". Other servers are unaffected: fix the errors above, then run `toolcrib init` again"
        };
        text.push_str(if done.is_well() { "" } else { next });
        text.push_str(".\n");
    }
    if has_new && job.taking.is_some() && connected > 0 {
        text.push_str(
            "Your clients still have their own entries for these servers, so tools appear twice; once \
                       everything works, remove them with `toolcrib connect NAME --move`.\n",
        );
    }
    if !done.gateway_runs {
        let clients = if job.has_clients { "; your clients connect to it" } else { "" };
        text.push_str(&format!("\nStart the gateway and leave it running{clients}:\n  toolcrib serve\n"));
    }
    match &done.sample {
        Some(Sample { question, tool }) => text.push_str(&format!(
            "\nThen try it:\n  toolcrib find \"{question}\"\nIt finds `{tool}`. Or ask your agent:\n  Find a tool for \
             this, and tell me what it needs: {question}\n"
        )),
        None => text.push_str("\nTo see how it works: `toolcrib demo`.\n"),
    }
    if job.with_example || done.servers == 0 {
        text.push_str("\nTo see servers you can add: `toolcrib registry list`.");
        text.push_str(if job.has_clients { "\n" } else { " To connect a client: `toolcrib connect NAME`.\n" });
    }
    text
}

fn tools(tools: u64) -> String {
    number(usize::try_from(tools).unwrap_or(usize::MAX), "tool")
}
