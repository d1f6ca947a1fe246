//! The verbs that fit every kind of thing, in kubectl's manner. What a verb does to a kind is in the table of
//! kinds.
//!
//! To add one: a file with `Arguments` and `run`, a line in [`Verbs`] and in [`run`], and the column in `kind/rows.rs`.

use std::process::ExitCode;

use super::{apply, check, create, delete, events, get, list, prompt, start, with_gateway};
use crate::home::Environment;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verbs {
    /// List objects of a kind: tools, servers, profiles …
    List(list::Arguments),
    /// Show objects by name, with all details
    Get(get::Arguments),
    /// Create an object, or everything that a file defines
    Create(create::Create),
    /// Create or update everything that files define
    Apply(apply::Arguments),
    /// Update an object, or everything that a file defines
    Update(create::Update),
    /// Delete objects by name
    Delete(delete::Arguments),
    /// Start servers or services, or run a workflow
    Start(start::Start),
    /// Stop servers, services or workflow runs
    Stop(start::Stop),
    /// Restart servers or services
    Restart(start::Restart),
    /// Check whether an object can be used
    Check(check::Arguments),
    /// Print events, past or live
    Events(events::Arguments),
    /// Print the messages of a prompt
    Prompt(prompt::Arguments),
}

pub(super) fn run(verb: Verbs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let local = match &verb {
        Verbs::List(arguments) if arguments.is_local() => Some(list::run_local(arguments, environment)),
        Verbs::Get(arguments) => {
            let listed = arguments.as_list().filter(list::Arguments::is_local);
            listed.map(|arguments| list::run_local(&arguments, environment))
        }
        Verbs::Delete(arguments) => arguments.refuse_local().err().map(|problem| Err(problem.into())),
        _ => None,
    };
    if let Some(done) = local {
        return done.map(|()| ExitCode::SUCCESS);
    }
    match verb {
        Verbs::List(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            list::run(&arguments, client, environment, output).await
        }),
        Verbs::Get(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            get::run(&arguments, client, environment, output).await
        }),
        Verbs::Create(arguments) => {
            let manifests = arguments.manifests()?;
            with_gateway(&arguments.client, environment, async |client, output| {
                create::run(&manifests, client, output).await
            })
        }
        Verbs::Apply(arguments) => {
            let manifests = arguments.manifests()?;
            with_gateway(&arguments.client, environment, async |client, output| {
                apply::run(&manifests, client, output).await
            })
        }
        Verbs::Update(arguments) => {
            let manifests = arguments.manifests()?;
            with_gateway(&arguments.client, environment, async |client, output| {
                create::run(&manifests, client, output).await
            })
        }
        Verbs::Delete(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            delete::run(&arguments, client, output).await
        }),
        Verbs::Start(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            start::start(&arguments, client, output).await
        }),
        Verbs::Stop(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            start::stop(&arguments, client, output).await
        }),
        Verbs::Restart(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            start::restart(&arguments, client, output).await
        }),
        Verbs::Check(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            check::run(&arguments, client, output).await
        }),
        Verbs::Events(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            events::run(&arguments, client, environment, output).await
        }),
        Verbs::Prompt(arguments) => {
            let given = arguments.gather()?;
            with_gateway(&arguments.client, environment, async |client, output| {
                prompt::run(&arguments, &given, client, output).await
            })
        }
    }
}
