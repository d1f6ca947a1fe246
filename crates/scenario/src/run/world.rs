//! What surrounds the steps of one scenario: its home, mock servers, gateway and sessions.

use std::collections::HashMap;

use tempfile::TempDir;
use toolcrib_base::task::Scope;

use crate::drive::{Place, Session, Speaker};
use crate::gateway::{self, Gateway};
use crate::home::{self, Reach};
use crate::mock::{HttpMock, Mock};
use crate::outcome::{Outcome, Verdict};
use crate::scenario::{Scenario, Server, Transport};

use super::Config;

/// The surroundings.
pub(crate) struct World {
    home: TempDir,
    gateway: Gateway,
    doors: Doors,
    /// What each mock does now.
    mocks: HashMap<String, Mock>,
    /// By profile and kind of client.
    sessions: HashMap<(String, Speaker), Box<dyn Session>>,
    drive: std::sync::Arc<dyn crate::drive::Drive>,
}

/// The mock servers that listen in this process, with their URLs.
struct Doors(HashMap<String, (HttpMock, String)>);

impl Reach for Doors {
    fn url(&self, server: &str) -> Option<String> {
        self.0.get(server).map(|(_, url)| url.clone())
    }
}

// === impl World ===

impl World {
    /// Starts everything that the scenario wants to be there.
    pub(crate) async fn build(scenario: &Scenario, config: &Config, scope: &Scope) -> Result<Self, String> {
        let home = super::folder(&scenario.name).map_err(|error| format!("cannot make a temporary home: {error}"))?;
        let mut doors = Doors(HashMap::new());
        let in_here = |server: &&Server| server.transport != Transport::Stdio && !server.is_real;
        for server in scenario.setup.servers.iter().filter(in_here) {
            let mock = HttpMock::start(server.mock.clone(), scope).await;
            let mock = mock.map_err(|error| format!("cannot start the mock server `{}`: {error}", server.name))?;
            let url = if server.transport == Transport::Sse { mock.sse_url() } else { mock.url() };
            doors.0.insert(server.name.clone(), (mock, url));
        }
        let written = home::write(home.path(), scenario, &config.program, &doors);
        written.map_err(|error| format!("cannot write the home: {error}"))?;
        let place = gateway::Place {
            program: config.program.clone(),
            guarded: config.guarded,
            home: home.path().to_owned(),
            scope: scope.clone(),
        };
        let gateway = match place.start().await {
            Ok(gateway) => gateway,
            Err(reason) if config.keep_home => return Err(format!("{reason}\nhome: {}", home.keep().display())),
            Err(reason) => return Err(reason),
        };
        let mocks = scenario.setup.servers.iter().filter(|server| !server.is_real);
        let mocks = mocks.map(|server| (server.name.clone(), server.mock.clone())).collect();
        let drive = std::sync::Arc::clone(&config.drive);
        Ok(Self { home, gateway, doors, mocks, sessions: HashMap::new(), drive })
    }

    /// The session of a kind of client through a profile; opened at its first use.
    pub(crate) async fn session(&mut self, profile: Option<&str>, speaker: Speaker) -> Result<&dyn Session, String> {
        let key = (profile.unwrap_or_default().to_owned(), speaker);
        if !self.sessions.contains_key(&key) {
            let place = Place {
                url: self.gateway.url.clone(),
                token_file: self.gateway.token_file.clone(),
                home: self.home.path().to_owned(),
                profile: profile.map(str::to_owned),
                speaker,
            };
            let session = self.drive.open(place).await;
            let session = session.map_err(|error| format!("cannot open a session with the gateway: {error}"))?;
            self.sessions.insert(key.clone(), session);
        }
        Ok(&*self.sessions[&key])
    }

    /// Ends the gateway and starts it again on the same home; tells whether at the same address. Sessions end with it:
    /// the next step opens its own.
    pub(crate) async fn restart(&mut self, kill: bool) -> Result<bool, String> {
        if !kill {
            for (_, session) in self.sessions.drain() {
                session.close().await;
            }
        }
        self.sessions.clear();
        self.gateway.restart(kill).await
    }

    /// What a mock server does.
    pub(crate) fn mock(&self, server: &str) -> Option<Mock> {
        self.mocks.get(server).cloned()
    }

    /// Lets a mock server do something else from now on.
    pub(crate) fn replace_mock(&mut self, server: &str, mock: Mock) -> std::io::Result<()> {
        match self.doors.0.get(server) {
            Some((door, _)) => door.live().replace(mock.clone()),
            None => {
                // By rename: the mock must not read half a file.
                let file = home::mock_file(self.home.path(), server);
                let new = file.with_extension("new");
                std::fs::write(&new, mock.to_file())?;
                std::fs::rename(new, file)?;
            }
        }
        self.mocks.insert(server.to_owned(), mock);
        Ok(())
    }

    /// Ends everything.
    pub(crate) async fn end(mut self, config: &Config, outcome: &mut Outcome) {
        for (_, session) in self.sessions.drain() {
            session.close().await;
        }
        if outcome.verdict != Verdict::Passed {
            outcome.log = self.gateway.log();
        }
        self.gateway.end(config.keep_home).await;
        if config.keep_home {
            outcome.home = Some(self.home.keep());
        }
    }
}
