//! The gateway that a login happens at: the one that the flags name; else that of the home, and where none runs, one in
//! this process that listens where it would, so that the redirect URL is always the same.

use std::cell::Cell;
use std::process::ExitCode;

use toolcrib_base::{Kind, Problem};

use crate::client::{ClientFlags, Rest, locate};
use crate::command::home_gateway::{self, HomeGateway};
use crate::command::{INTERRUPTED, on_this_thread, run_gateway};
use crate::compose::End;
use crate::config::Config;
use crate::home::{Environment, Home};
use crate::output::report;

/// What a gateway of this process says on stderr by default: what concerns the login is printed here.
const LOG: &str = "off";
/// How long what it runs may take to end: no one is served, and a person waits.
const GRACE: &str = "1s";

/// The gateway of a login.
pub(in crate::command) struct LoginGateway<'a> {
    pub(in crate::command) rest: &'a Rest,
    /// Whether it ends with this command.
    is_own: bool,
    /// Whether a link waits for someone.
    link_waits: Cell<bool>,
}

// === impl LoginGateway ===

impl<'a> LoginGateway<'a> {
    pub(in crate::command) fn new(rest: &'a Rest) -> Self {
        Self { rest, is_own: false, link_waits: Cell::new(false) }
    }

    /// Whether it ends with this command.
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Takes note of whether a link waits for someone.
    pub(super) fn set_link(&self, waits: bool) {
        self.link_waits.set(waits);
    }

    /// Works until it ends or someone interrupts, who reads what stays.
    pub(in crate::command) async fn until_interrupted(
        &self,
        work: impl AsyncFnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        let mut end = End::listen()?;
        tokio::select! {
            biased;
            () = end.wait() => {
                if self.link_waits.get() {
                    report(&self.interruption().into());
                }
                Ok(ExitCode::from(INTERRUPTED))
            }
            done = work(self) => done.map(|()| ExitCode::SUCCESS),
        }
    }

    fn interruption(&self) -> Problem {
        let problem = Problem::new(Kind::Cancelled, "interrupted before anyone logged in");
        if self.is_own {
            return problem.hint("the gateway ended with this command: run it again for a new link");
        }
        problem.hint("the link stays valid: within 10 minutes it can still be opened, and the login completed")
    }
}

/// Runs what needs a gateway for a login.
pub(in crate::command) fn at_gateway(
    flags: &ClientFlags,
    environment: &Environment,
    work: impl AsyncFnOnce(&LoginGateway<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let is_named = match locate(flags, environment) {
        Ok(located) => located.is_named,
        // Its port is chosen at its start.
        Err(problem) if problem.kind == Kind::Unavailable => false,
        Err(problem) => return Err(problem.into()),
    };
    let home = || Home::find(flags.home(), environment);
    let runs = is_named || {
        let home = home()?;
        on_this_thread(async { Ok(home_gateway::running(&home, environment).await?.is_some()) })?
    };
    if runs {
        return on_this_thread(async {
            let rest = Rest::open(flags, environment)?;
            LoginGateway::new(&rest).until_interrupted(work).await
        });
    }
    let config = Config::for_a_moment(home()?.path(), LOG, [("grace", GRACE.into())], environment)?;
    config.check_listen()?;
    let address = config.listen;
    run_gateway(&config.clone(), |events| async move {
        let opened = HomeGateway::open(config, events, environment).await;
        let gateway = opened.map_err(|error| match error.downcast::<Problem>() {
            Ok(problem) if problem.kind == Kind::Address => taken(problem, address.port()).into(),
            Ok(problem) => problem.into(),
            Err(error) => error,
        })?;
        let login = LoginGateway { is_own: !gateway.stays(), ..LoginGateway::new(gateway.rest()) };
        let done = login.until_interrupted(work).await;
        gateway.end().await;
        done
    })
}

/// Why no gateway could be started for a login: the answers of providers come to its address.
fn taken(problem: Problem, port: u16) -> Problem {
    let hint = format!(
        "no gateway of this home is running, and logins come back to port {port}: stop that program (if it is another \
         `toolcrib login`, complete that one first), or set another `listen` in `config.toml`"
    );
    Problem { hint: None, ..problem }.hint(hint)
}
