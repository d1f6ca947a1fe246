//! `toolcrib init`: everything set up in one go. First all that is to be asked, then all that is to be done: servers of
//! other clients are imported and verified, clients are connected, and one question shows that it works.
//!
//! What is found and asked is here; [`work`] does it, by a gateway of the home where servers are verified.

mod known;
mod lock;
pub(crate) mod question;
mod sample;
mod work;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use toolcrib_auth::KeyPreference;
use toolcrib_base::Problem;
use toolcrib_catalog::clients::{CLIENTS, Client};

use self::question::Prompter;
use self::work::SetupPlan;
use crate::clients::join::{self, ConnectRequest, Plan};
use crate::clients::take::{ImportPlan, ImportSources, PlaceholderAnswers, gather_with};
use crate::clients::{Flags, named, places};
use crate::config::Config;
use crate::home::{Environment, Home};
use crate::output::print;
use crate::text;

/// What that gateway says on stderr by default: errors of servers are printed here.
const LOG: &str = "off";
/// How long what it runs may take to end: no one is served, and a person waits.
const GRACE: &str = "1s";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Ask no questions: import every server, connect every client found
    #[arg(short, long)]
    yes: bool,
    /// Only this client, such as `cursor`; repeatable [default: every client found]
    #[arg(long = "client", value_name = "CLIENT", value_parser = named)]
    clients: Vec<&'static Client>,
    /// Also install the background service, which starts when you log in; `--yes` alone does not
    #[arg(long)]
    service: bool,
    /// Keep the key of a new vault in a file even if there is a keyring
    #[arg(long)]
    key_file: bool,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    let asker = match Prompter::new(arguments.yes) {
        Ok(asker) => asker,
        Err(problem) => {
            complain(&problem);
            return Ok(ExitCode::from(super::USAGE));
        }
    };
    let home = Home::find(arguments.home.as_deref(), environment)?;
    // Invalid settings are reported before any question.
    let config = arguments.config(&home, environment)?;
    let job = arguments.job(asker, &home, environment)?;
    // Two at a time would write over each other; what the first one did, the second one sees.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().context("start the runtime")?;
    let claim = runtime.block_on(lock::claim(&home, lock::LONGEST))?;
    let job = if claim.has_waited { arguments.job(asker, &home, environment)? } else { job };
    super::run_gateway(&config.clone(), |events| work::run(job, config, events))
}

/// Tells what went wrong with a part; the others continue.
fn warn(warning: &str) {
    // A warning that cannot be written is not missed.
    let _ = writeln!(std::io::stderr().lock(), "{}", text::line(warning));
}

fn complain(problem: &Problem) {
    let hint = problem.hint.iter().map(|hint| format!("hint: {}\n", text::block(hint))).collect::<String>();
    // Nothing is printed where no terminal listens.
    let _ = write!(std::io::stderr().lock(), "error: {}\n{hint}", text::block(&problem.message));
}

// === impl Arguments ===

impl Arguments {
    fn config(&self, home: &Home, environment: &Environment) -> Result<Config, Problem> {
        Config::for_a_command(home.path(), LOG, [("grace", GRACE.into())], environment)
    }

    /// Looks around and asks. Nothing is written.
    fn job(&self, asker: Prompter, home: &Home, environment: &Environment) -> anyhow::Result<SetupPlan> {
        let all: Vec<&'static Client> =
            if self.clients.is_empty() { CLIENTS.iter().collect() } else { self.clients.clone() };
        let asking = PlaceholderAnswers { asks: matches!(asker, Prompter::Terminal), ..PlaceholderAnswers::default() };
        let mut gathered = gather_with(&all, None, home, environment, asking)?;
        let (mut problems, warnings) = (std::mem::take(&mut gathered.problems), std::mem::take(&mut gathered.warnings));
        let found = detect_clients(&all, &gathered, environment);
        if found.is_empty() && problems.is_empty() {
            let titles: Vec<&str> = all.iter().map(|client| client.title).collect();
            print(&format!("No client was found. Looked for {}.\n", titles.join(", ")))?;
        } else {
            print(&text::block(&listed(&found, &problems)))?;
        }
        let preference = if self.key_file { KeyPreference::File } else { KeyPreference::Keyring };
        let taking = ImportPlan::plan(gathered, home, environment, preference)?;
        let take = offer_servers(asker, &taking)?;
        let has_servers = !toolcrib_catalog::load(home.path()).servers.is_empty();
        let with_example = !has_servers && !take && {
            print(
                "\nThere is no server yet. Toolcrib includes an example, `units`, which converts units and \
                     calculates.\n",
            )?;
            asker.yes("Add it?")?
        };
        let flags = Flags { preview: false, yes: self.yes, file: None, home: self.home.clone() };
        let mut joinings = Vec::new();
        let mut connected = Vec::new();
        for client in found.iter().map(|found| found.client).filter(|client| client.is_written()) {
            match join::plan(client, &ConnectRequest::default(), &flags, environment) {
                Ok(Plan::New(joining)) => joinings.push((client, joining)),
                Ok(Plan::Already(_)) => connected.push(client),
                Err(problem) if problems.contains(&problem) => {}
                Err(problem) => problems.push(problem),
            }
        }
        if !connected.is_empty() {
            print(&format!("\nAlready connected: {}.\n", titles(&connected)))?;
        }
        if !joinings.is_empty() {
            print("\nConnecting a client adds Toolcrib to its settings. Planned changes:\n")?;
            for (_, joining) in &joinings {
                print(&text::block(&joining.preview()))?;
            }
            let wanted = asker.which(&joinings.iter().map(|(client, _)| *client).collect::<Vec<_>>())?;
            joinings.retain(|(client, _)| wanted.contains(client));
        }
        let offers_service = !self.yes && !self.service && super::service::is_offered(home, environment);
        let with_service = self.service
            || offers_service && {
                print(
                    "\nClients need a running gateway. It can run in the background, now and whenever you log in.\n",
                )?;
                asker.yes("Install it as a service?")?
            };
        warnings.iter().for_each(|warning| warn(warning));
        problems.iter().for_each(complain);
        let joinings = joinings.into_iter().map(|(_, joining)| *joining).collect();
        let taking = take.then_some(taking);
        Ok(SetupPlan {
            home: home.clone(),
            environment: environment.clone(),
            asker,
            taking,
            with_example,
            with_service,
            joinings,
            has_clients: !found.is_empty(),
            has_problems: !problems.is_empty(),
        })
    }
}

/// A client of this person.
struct ClientSummary {
    client: &'static Client,
    /// Where its settings are, as people write it.
    place: String,
    /// How many servers it has; none where there is no file yet.
    servers: Option<usize>,
}

/// Clients with settings, and those whose folder is there, so that they were started before.
fn detect_clients(
    clients: &[&'static Client],
    gathered: &ImportSources,
    environment: &Environment,
) -> Vec<ClientSummary> {
    let places = places(environment);
    let own_folder = places.home();
    let mut all = Vec::new();
    for client in clients {
        let mut read = gathered.files.iter().filter(|(of, ..)| of.name == client.name).peekable();
        let unreadable = client.files(&places).iter().any(|(_, path)| path.exists());
        let place = read.peek().map(|(_, path, _)| path.clone());
        let servers = place.is_some().then(|| read.map(|(_, _, servers)| servers).sum());
        // The person's own folder is there for everyone.
        let was_started = |path: &PathBuf| {
            path.parent().is_some_and(|folder| folder.is_dir() && Some(folder) != own_folder.as_deref())
        };
        let to_write = || client.file_to_write(&places).map(|(_, path)| path).filter(was_started);
        let place = place.or_else(|| if unreadable { None } else { to_write() });
        if let Some(place) = place {
            all.push(ClientSummary { client, place: places.shown(&place), servers });
        }
    }
    all
}

fn listed(found: &[ClientSummary], problems: &[Problem]) -> String {
    let one = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let width = found.iter().map(|found| found.client.title.len()).max().unwrap_or(0);
    let mut text = format!("Found {}:\n", one(found.len(), "client"));
    for ClientSummary { client, place, servers } in found {
        let servers = servers.map_or("no settings yet".to_owned(), |servers| one(servers, "server"));
        text.push_str(&format!("  {:width$}  {servers:<15}  {place}\n", client.title));
    }
    if !problems.is_empty() {
        text.push_str(&format!("  and {} that cannot be read (see below)\n", one(problems.len(), "file")));
    }
    text
}

/// Shows what could be imported and asks; whether it is to be.
fn offer_servers(asker: Prompter, taking: &ImportPlan) -> anyhow::Result<bool> {
    let new = taking.new_names().len();
    if new == 0 {
        if taking.has_left_out() {
            print("\n")?;
            taking.show(false)?;
        } else if taking.present() > 0 {
            print("\nAll of their servers are already imported.\n")?;
        }
        return Ok(false);
    }
    print("\nTheir servers as Toolcrib definitions (secrets go into its encrypted vault):\n")?;
    taking.show(false)?;
    let question = if new == 1 { "Import this server?".to_owned() } else { format!("Import these {new} servers?") };
    asker.yes(&question)
}

fn titles(clients: &[&Client]) -> String {
    clients.iter().map(|client| client.title).collect::<Vec<_>>().join(", ")
}
