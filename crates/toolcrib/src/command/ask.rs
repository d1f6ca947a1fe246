//! The commands that ask a running gateway and are no verb for every kind.
//!
//! To add one: a file with `Arguments` and `run`, and a line in [`Ask`] and in [`run`].

use std::process::ExitCode;

use super::decide::{self, Decision};
use super::{
    alone, api, audit, auth, call, describe, doctor, explain, find, learning, profile, registry, server, status,
    tokens, verify, version, with_gateway, with_rest, with_session,
};
use crate::home::Environment;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Ask {
    /// Show how the gateway and its servers are, and what to do
    Status(status::Arguments),
    /// Find tools for a purpose told in plain words
    Find(find::Arguments),
    /// Describe a tool and its parameters, or another thing and what happened to it
    Describe(describe::Arguments),
    /// Call a tool
    Call(call::Arguments),
    /// See what could become a server, make one of it, and check definitions
    Registry(registry::Arguments),
    /// Add, show, start and stop servers
    Server(server::Arguments),
    /// Add, show and use profiles; make and revoke their keys
    Profile(profile::Arguments),
    /// Start a server beside what runs and show what differs from what was approved
    Verify(verify::Arguments),
    /// Approve what differs, so that profiles that hold it show it
    Approve(decide::Arguments),
    /// Turn down what differs; it stays held
    Reject(decide::Arguments),
    /// Explain why a tool is there or not
    Explain(explain::Arguments),
    /// Tell how servers are, what failed and what to do
    Doctor(doctor::Arguments),
    /// Count what the tools cost a model in tokens
    Tokens(tokens::Arguments),
    /// Show, forget or export what searches learned from use
    Learning(learning::Arguments),
    /// Read or verify the audit log
    Audit(audit::Arguments),
    /// Do any operation of the control API
    Api(api::Arguments),
    /// Show how we come to the gateway and what that allows
    Auth(auth::Arguments),
    /// Print the versions of this program and of the gateway
    Version(version::Arguments),
}

pub(super) fn run(command: Ask, environment: &Environment) -> anyhow::Result<ExitCode> {
    match command {
        Ask::Status(arguments) if arguments.is_of_one() => {
            with_gateway(&arguments.client, environment, async |client, output| {
                status::one(&arguments, client, output).await
            })
        }
        Ask::Status(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| status::run(&arguments, rest, output).await)
        }
        Ask::Find(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            find::run(&arguments, client, output).await
        }),
        Ask::Describe(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            describe::run(&arguments, client, output).await
        }),
        Ask::Call(arguments) => {
            let (given, person) = (arguments.gather()?, arguments.person()?);
            with_session(&arguments.client, environment, person, async |client, output| {
                call::run(&arguments, &given, client, output).await
            })
        }
        Ask::Registry(arguments) => match &arguments.action {
            registry::Action::Local(action) => registry::run(action, environment).map(|()| ExitCode::SUCCESS),
            registry::Action::Add(add) => {
                let request = add.request()?;
                with_rest(&add.client, environment, async |rest, output| {
                    registry::add::run(&request, rest, output).await
                })
            }
        },
        Ask::Server(arguments) => {
            let request = arguments.request()?;
            with_rest(arguments.client(), environment, async |rest, output| {
                server::run(&arguments, &request, rest, output).await
            })
        }
        Ask::Profile(arguments) => match &arguments.action {
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
        Ask::Verify(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| verify::run(&arguments, rest, output).await)
        }
        Ask::Approve(arguments) => with_rest(&arguments.client, environment, async |rest, output| {
            decide::run(Decision::Approve, &arguments, rest, output).await
        }),
        Ask::Reject(arguments) => with_rest(&arguments.client, environment, async |rest, output| {
            decide::run(Decision::Reject, &arguments, rest, output).await
        }),
        Ask::Explain(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| explain::run(&arguments, rest, output).await)
        }
        Ask::Doctor(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| doctor::run(&arguments, rest, output).await)
        }
        Ask::Tokens(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| tokens::run(rest, output).await)
        }
        Ask::Learning(arguments) => with_rest(arguments.client(), environment, async |rest, output| {
            learning::run(&arguments, rest, output).await
        }),
        Ask::Audit(arguments) => match &arguments.action {
            audit::Action::List(action) => with_gateway(&action.client, environment, async |client, output| {
                audit::list(action, client, output).await
            }),
            audit::Action::Verify(action) => {
                with_gateway(&action.client, environment, async |client, output| audit::verify(client, output).await)
            }
        },
        Ask::Api(arguments) => {
            let given = arguments.gather()?;
            with_rest(&arguments.client, environment, async |rest, output| {
                api::run(&arguments, &given, rest, output).await
            })
        }
        Ask::Auth(arguments) => {
            arguments.refuse()?;
            with_rest(arguments.client(), environment, async |rest, output| {
                auth::run(&arguments, rest, environment, output).await
            })
        }
        Ask::Version(arguments) => alone(async {
            let output = arguments.client.output(environment)?;
            version::run(&arguments, environment, output).await
        }),
    }
}
