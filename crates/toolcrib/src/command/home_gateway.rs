//! The gateway of a home for commands that need one for a moment: the one that runs already, or one in this process that
//! ends with the command. Either is spoken to over the wire.

use std::time::Duration;

use tokio::time::timeout;
use toolcrib_call::LiveEvents;

use crate::client::{ClientFlags, Rest};
use crate::compose::HttpGateway;
use crate::config::Config;
use crate::home::{Environment, Home};
use crate::ready;

/// How long a gateway that runs may take to say that it does.
const ALIVE: Duration = Duration::from_secs(10);

/// A gateway of this home.
pub(super) struct HomeGateway {
    rest: Rest,
    own: Option<HttpGateway>,
}

/// The way to the gateway that runs in this home, if one does and answers.
pub(super) async fn running(home: &Home, environment: &Environment) -> anyhow::Result<Option<Rest>> {
    let Some(running) = ready::read(&home.serve_file()).filter(ready::ReadyFile::is_alive) else { return Ok(None) };
    let flags = ClientFlags::of_gateway(&running.url, running.token_file, home.path().to_owned());
    let rest = Rest::open(&flags, environment)?;
    // A file that was left behind may name the process of someone else.
    let answers = timeout(ALIVE, rest.get("/status")).await.is_ok_and(|answer| answer.is_ok());
    Ok(answers.then_some(rest))
}

// === impl HomeGateway ===

impl HomeGateway {
    /// Finds the gateway, or starts one.
    pub(super) async fn open(config: Config, events: LiveEvents, environment: &Environment) -> anyhow::Result<Self> {
        if let Some(rest) = running(&config.home, environment).await? {
            return Ok(Self { rest, own: None });
        }
        let home = config.home.path().to_owned();
        let serving = HttpGateway::start(config, events).await?;
        let flags = ClientFlags::of_gateway(&serving.url, serving.token_file.clone(), home);
        match Rest::open(&flags, environment) {
            Ok(rest) => Ok(Self { rest, own: Some(serving) }),
            Err(error) => {
                // Nothing was called yet, and what went wrong first is what to act on.
                let _ = serving.end().await;
                Err(error)
            }
        }
    }

    /// Whether it runs on when we end.
    pub(super) fn stays(&self) -> bool {
        self.own.is_none()
    }

    /// The way to speak to it.
    pub(super) fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Ends the gateway if it is ours, with all that it started.
    pub(super) async fn end(self) {
        if let Some(serving) = self.own
            && let Err(error) = serving.end().await
        {
            tracing::error!("{error}");
        }
    }
}
