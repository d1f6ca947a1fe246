//! The commands that ask a running gateway and are no verb for every kind.
//!
//! To add one: a file with `Arguments` and `run`, and a line in [`RemoteCommand`] and in [`run`].

use std::process::ExitCode;

use super::decide::{self, Decision};
use super::login::place::LoginGateway;
use super::{
    api, approval, audit, auth, call, canary, describe, doctor, explain, figures, find, halt, learning, login, logout,
    on_this_thread, policy, profile, registry, run as agent_run, server, status, tokens, ui, until_interrupted, verify,
    version, with_gateway, with_own_interrupts, with_rest, with_session,
};
use crate::client::Rest;
use crate::home::Environment;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum RemoteCommand {
    /// Show the state of the gateway and its servers, and what to fix
    Status(status::Arguments),
    /// Find tools for a task described in plain words
    Find(find::Arguments),
    /// Show a tool and its parameters, or another object and its events
    Describe(describe::Arguments),
    /// Call a tool
    Call(call::Arguments),
    /// Give a task to an agent or a model, and follow it; list, show and resume runs
    Run(Box<agent_run::Arguments>),
    /// Browse the registry, add servers from it, check definition files
    Registry(registry::Arguments),
    /// Add, show, start and stop servers
    Server(server::Arguments),
    /// Add, show and use profiles; create and revoke their keys
    Profile(profile::Arguments),
    /// Compare what servers offer with what was approved
    Verify(verify::Arguments),
    /// Approve changed tools of a server
    Approve(decide::Arguments),
    /// Reject changed tools of a server, so that they stay on hold
    Reject(decide::Arguments),
    /// Explain why a tool is visible or hidden
    Explain(explain::Arguments),
    /// Diagnose servers: what failed and how to fix it
    Doctor(doctor::Arguments),
    /// Count the tokens that tools cost a model
    Tokens(tokens::Arguments),
    /// Show, clear or export what search learned from use
    Learning(learning::Arguments),
    /// List, show, approve and deny calls that wait for a yes
    Approval(approval::Arguments),
    /// Show, check, explain and test policies
    Policy(policy::Arguments),
    /// Open the pages of the web user interface in the browser
    Ui(ui::Arguments),
    /// Halt principals, clients, sessions, profiles and runs, and lift halts
    Halt(halt::Arguments),
    /// Mint, list and remove canaries: tokens that halt anyone who sends one
    Canary(canary::Arguments),
    /// Show how many calls there were, how they ended and how long they took
    Figures(figures::Arguments),
    /// List, verify or prove audit events
    Audit(audit::Arguments),
    /// Call any operation of the control API
    Api(api::Arguments),
    /// Log in to a server that needs it
    Login(login::Arguments),
    /// End the login at a server
    Logout(logout::Arguments),
    /// Show and renew logins at servers, and how commands reach the gateway
    Auth(auth::Arguments),
    /// Print the versions of this program and of the gateway
    Version(version::Arguments),
}

pub(super) fn run(command: RemoteCommand, environment: &Environment) -> anyhow::Result<ExitCode> {
    match command {
        RemoteCommand::Status(arguments) if arguments.is_of_one() => {
            with_gateway(&arguments.client, environment, async |client, output| {
                status::one(&arguments, client, output).await
            })
        }
        RemoteCommand::Status(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| status::run(&arguments, rest, output).await)
        }
        RemoteCommand::Find(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            find::run(&arguments, client, output).await
        }),
        RemoteCommand::Describe(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            describe::run(&arguments, client, output).await
        }),
        RemoteCommand::Call(arguments) => {
            let (given, person) = (arguments.gather()?, arguments.person()?);
            with_session(&arguments.client, environment, person, async |client, output| {
                call::run(&arguments, &given, client, output).await
            })
        }
        RemoteCommand::Run(arguments) => with_own_interrupts(arguments.client(), environment, async |rest, output| {
            agent_run::run(&arguments, rest, output).await
        }),
        RemoteCommand::Registry(arguments) => match &arguments.action {
            registry::Action::Local(action) => registry::run(action, environment).map(|()| ExitCode::SUCCESS),
            registry::Action::Add(add) => {
                let (request, output) = (add.request()?, add.client.output(environment)?);
                on_this_thread(async {
                    let rest = Rest::open(&add.client, environment)?;
                    let gateway = LoginGateway::new(&rest);
                    gateway
                        .until_interrupted(async |gateway| add.run(&request, gateway, environment, output).await)
                        .await
                })
            }
        },
        RemoteCommand::Server(arguments) => {
            let request = arguments.request()?;
            with_rest(arguments.client(), environment, async |rest, output| {
                server::run(&arguments, &request, rest, output).await
            })
        }
        RemoteCommand::Profile(arguments) => match &arguments.action {
            profile::Action::Key(action) => profile::key::run(action, environment).map(|()| ExitCode::SUCCESS),
            profile::Action::Export(action) => profile::bundle::export(action, environment),
            profile::Action::Import(action) => profile::bundle::import(action, environment),
            profile::Action::Wire(action) => {
                let request = action.request()?;
                with_rest(action.client(), environment, async |rest, output| {
                    profile::run(action, &request, rest, output).await
                })
            }
        },
        RemoteCommand::Verify(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| verify::run(&arguments, rest, output).await)
        }
        RemoteCommand::Approve(arguments) => with_rest(&arguments.client, environment, async |rest, output| {
            decide::run(Decision::Approve, &arguments, rest, output).await
        }),
        RemoteCommand::Reject(arguments) => with_rest(&arguments.client, environment, async |rest, output| {
            decide::run(Decision::Reject, &arguments, rest, output).await
        }),
        RemoteCommand::Explain(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| explain::run(&arguments, rest, output).await)
        }
        RemoteCommand::Figures(arguments) => figures::start(&arguments, environment),
        RemoteCommand::Doctor(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| doctor::run(&arguments, rest, output).await)
        }
        RemoteCommand::Tokens(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| tokens::run(rest, output).await)
        }
        RemoteCommand::Learning(arguments) => with_rest(arguments.client(), environment, async |rest, output| {
            learning::run(&arguments, rest, output).await
        }),
        RemoteCommand::Approval(arguments) => with_rest(arguments.client(), environment, async |rest, output| {
            approval::run(&arguments, rest, output).await
        }),
        RemoteCommand::Ui(arguments) => ui::start(&arguments, environment),
        RemoteCommand::Halt(arguments) => halt::start(&arguments, environment),
        RemoteCommand::Canary(arguments) => canary::start(&arguments, environment),
        RemoteCommand::Policy(arguments) => policy::start(&arguments, environment),
        RemoteCommand::Audit(arguments) => audit_action(&arguments.action, environment),
        RemoteCommand::Api(arguments) => {
            let given = arguments.gather()?;
            with_rest(&arguments.client, environment, async |rest, output| {
                api::run(&arguments, &given, rest, output).await
            })
        }
        RemoteCommand::Login(arguments) => login::run(&arguments, environment),
        RemoteCommand::Logout(arguments) => logout::run(&arguments, environment),
        RemoteCommand::Auth(arguments) => auth::run(&arguments, environment),
        RemoteCommand::Version(arguments) => until_interrupted(async {
            let output = arguments.client.output(environment)?;
            version::run(&arguments, environment, output).await
        }),
    }
}

fn audit_action(action: &audit::Action, environment: &Environment) -> anyhow::Result<ExitCode> {
    match action {
        audit::Action::List(action) => {
            with_gateway(&action.client, environment, async |client, output| audit::list(action, client, output).await)
        }
        audit::Action::Export(action) => with_gateway(&action.client, environment, async |client, output| {
            audit::export::run(action, client, environment, output).await
        }),
        audit::Action::Verify(action) if action.is_offline() => {
            until_interrupted(async { audit::verify_proof(action, action.client.output(environment)?) })
        }
        audit::Action::Verify(action) => with_gateway(&action.client, environment, async |client, output| {
            audit::verify(action, client, output).await
        }),
        audit::Action::Prove(action) => {
            with_gateway(&action.client, environment, async |client, output| audit::prove(action, client, output).await)
        }
        audit::Action::Checkpoints(action) => with_gateway(&action.client, environment, async |client, output| {
            audit::checkpoints(action, client, output).await
        }),
        audit::Action::Key(action) => {
            with_gateway(&action.client, environment, async |client, output| audit::key(action, client, output).await)
        }
    }
}
