//! What surrounds the steps of one scenario: its home, mock servers, gateway and sessions.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use toolcrib_base::task::Scope;
use toolcrib_base::{Secret, random};

use crate::drive::{Drive, Place, Session, Speaker};
use crate::gateway::{self, Gateway};
use crate::home::{self, GatewayIssuer, Reach};
use crate::mock::{Guard, HttpMock, Mock, Protection};
use crate::outcome::{Outcome, Verdict};
use crate::provider::{Provider, ProviderSettings};
use crate::scenario::{Scenario, Server, Transport};

use super::Config;
use super::people::People;

/// What the provider is called that the runner adds where users call and no provider of the scenario is the gateway's.
const OWN_PROVIDER: &str = "scenario-users";
/// The gateway's client at its provider.
const INTROSPECTOR: &str = "toolcrib-gateway";
/// The certificates of the providers, in the home.
const AUTHORITIES: &str = "scenario-authorities.pem";
/// How often another port is tried when someone else has taken the one that was free.
const PORTS: usize = 3;

/// The surroundings.
pub(crate) struct World {
    home: TempDir,
    gateway: Gateway,
    doors: Doors,
    /// What each mock does now.
    mocks: HashMap<String, Mock>,
    /// What mock servers ask of their callers.
    protections: HashMap<String, Protection>,
    pub(crate) people: People,
    /// The provider whose tokens open the gateway, where there is one.
    front: Option<Arc<Provider>>,
    /// Tokens that steps minted, by their names.
    pub(crate) tokens: HashMap<String, String>,
    sessions: HashMap<SessionKey, Box<dyn Session>>,
    drive: Arc<dyn Drive>,
}

/// Whose session, through which profile, by which kind of client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    /// `None` is who was there first.
    pub(crate) user: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) speaker: Speaker,
}

/// The mock servers and providers that listen in this process.
#[derive(Default)]
struct Doors {
    /// With their URLs.
    servers: HashMap<String, (HttpMock, String)>,
    providers: Vec<Arc<Provider>>,
    settings: Option<String>,
}

impl Reach for Doors {
    fn url(&self, server: &str) -> Option<String> {
        self.servers.get(server).map(|(_, url)| url.clone())
    }

    fn provider(&self, name: &str) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.name() == name).map(|provider| &**provider)
    }

    fn settings(&self) -> Option<String> {
        self.settings.clone()
    }
}

// === impl Doors ===

impl Doors {
    async fn open(scenario: &Scenario, scope: &Scope) -> Result<Self, String> {
        let mut doors = Self::default();
        let setup = &scenario.setup;
        let mut settings = setup.identity.providers.clone();
        if setup.identity.has_users && !settings.iter().any(|provider| provider.is_of_gateway) {
            settings.push(ProviderSettings {
                name: OWN_PROVIDER.to_owned(),
                is_of_gateway: true,
                lifetime: crate::provider::LIFETIME,
                ..ProviderSettings::default()
            });
        }
        for settings in settings {
            let name = settings.name.clone();
            let provider = Provider::start(settings, scope).await;
            let provider = provider.map_err(|error| format!("cannot start the mock provider `{name}`: {error}"))?;
            doors.providers.push(provider);
        }
        for provider in &doors.providers {
            provider.meet(&doors.providers);
        }
        let in_here = |server: &&Server| server.transport != Transport::Stdio && !server.is_real;
        for server in setup.servers.iter().filter(in_here) {
            let guard = |origin| doors.guard(server, origin);
            let mock = HttpMock::start(server.mock.clone(), guard, scope).await;
            let mock = mock.map_err(|error| format!("cannot start the mock server `{}`: {error}", server.name))?;
            let url = if server.transport == Transport::Sse { mock.sse_url() } else { mock.url() };
            doors.servers.insert(server.name.clone(), (mock, url));
        }
        Ok(doors)
    }

    fn guard(&self, server: &Server, origin: String) -> Option<Guard> {
        let protection = server.protection.as_ref()?;
        let named = |name: &Option<String>| {
            let name = name.as_ref()?;
            self.providers.iter().find(|provider| provider.name() == *name).cloned()
        };
        Some(Guard {
            provider: named(&protection.provider),
            trusted: named(&protection.trusted),
            scopes: protection.scopes.clone(),
            audience: protection.audience.clone(),
            origin,
            path: if server.transport == Transport::Sse { "/sse" } else { "/mcp" },
        })
    }

    /// The provider whose tokens open the gateway.
    fn front(&self) -> Option<&Arc<Provider>> {
        self.providers.iter().find(|provider| provider.settings().is_of_gateway)
    }

    /// For whom a token of a user is: the gateway, and each server to which it is passed on.
    fn audiences(&self, scenario: &Scenario, origin: &str) -> Vec<String> {
        let mut all = vec![origin.to_owned()];
        for server in &scenario.setup.servers {
            let Some(protection) = server.protection.as_ref().filter(|protection| protection.forwards) else {
                continue;
            };
            all.extend(protection.audience.clone().or_else(|| self.url(&server.name)));
        }
        all
    }

    /// The variable with which a gateway trusts the certificates of the providers.
    fn trust(&self, home: &Path) -> Result<Vec<(String, Secret)>, String> {
        let authorities: String = self.providers.iter().filter_map(|provider| provider.authority()).collect();
        if authorities.is_empty() {
            return Ok(Vec::new());
        }
        let file = home.join(AUTHORITIES);
        std::fs::write(&file, authorities).map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
        Ok(vec![("SSL_CERT_FILE".to_owned(), Secret::new(file.to_string_lossy()))])
    }

    /// The settings of a gateway at this address, and the secret with which it asks about tokens.
    fn write_settings(&mut self, scenario: &Scenario, home: &Path, address: SocketAddr) -> Result<(), String> {
        let origin = format!("http://{address}");
        let brokered = &scenario.setup.identity.brokered;
        let mut issuers = Vec::new();
        for provider in &self.providers {
            let broker = brokered.iter().find(|issuer| issuer.provider == provider.name());
            if !provider.settings().is_of_gateway && broker.is_none() {
                continue;
            }
            let mut issuer = GatewayIssuer {
                name: provider.name().to_owned(),
                issuer: provider.issuer().to_owned(),
                audiences: broker.map(|issuer| issuer.audiences.clone()).unwrap_or_default(),
                introspection: None,
            };
            let is_asked = issuers.iter().all(|other: &GatewayIssuer| other.introspection.is_none());
            if provider.settings().is_of_gateway && is_asked {
                keep_secret(home, home::SECRET, &provider.add_client(INTROSPECTOR))?;
                issuer.introspection = Some(INTROSPECTOR.to_owned());
            }
            issuers.push(issuer);
        }
        let mut settings = home::settings(&origin, &issuers, &home::profile_names(scenario));
        if !brokered.is_empty() {
            keep_secret(home, home::BROKER_SECRET, random::token().expose())?;
            settings += &home::broker();
        }
        self.settings = Some(settings);
        Ok(())
    }
}

/// Writes a secret into the home.
fn keep_secret(home: &Path, path: &str, secret: &str) -> Result<(), String> {
    let file = home.join(path);
    let written = std::fs::create_dir_all(file.parent().unwrap_or(home)).and_then(|()| home::private(&file, secret));
    written.map_err(|error| format!("cannot write `{}`: {error}", file.display()))
}

/// An address of this machine that is free right now.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).map_err(|error| format!("no port is free: {error}"))
}

// === impl World ===

impl World {
    /// Starts everything that the scenario wants to be there.
    pub(crate) async fn build(scenario: &Scenario, config: &Config, scope: &Scope) -> Result<Self, String> {
        let home = super::folder(&scenario.name).map_err(|error| format!("cannot make a temporary home: {error}"))?;
        let mut doors = Doors::open(scenario, scope).await?;
        let mut tries = 0;
        let gateway = loop {
            tries += 1;
            // A gateway with an issuer has to know its own URL beforehand.
            let listen = doors.front().map(|_| free_address()).transpose()?;
            if let Some(address) = listen {
                doors.write_settings(scenario, home.path(), address)?;
            }
            let written = home::write(home.path(), scenario, &config.program, &doors);
            written.map_err(|error| format!("cannot write the home: {error}"))?;
            let place = gateway::Place {
                program: config.program.clone(),
                guarded: config.guarded,
                home: home.path().to_owned(),
                listen,
                env: doors.trust(home.path())?,
                scope: scope.clone(),
            };
            match place.start().await {
                Ok(gateway) => break gateway,
                Err(reason) if tries < PORTS && listen.is_some() && reason.contains("in use") => {}
                Err(reason) if config.keep_home => return Err(format!("{reason}\nhome: {}", home.keep().display())),
                Err(reason) => return Err(reason),
            }
        };
        if let (Some(front), Some(origin)) = (doors.front(), gateway.url.strip_suffix("/mcp")) {
            front.serve_audiences(doors.audiences(scenario, origin));
        }
        let servers = &scenario.setup.servers;
        let mocks = servers.iter().filter(|server| !server.is_real);
        let protections = servers.iter().filter_map(|server| Some((server.name.clone(), server.protection.clone()?)));
        Ok(Self {
            mocks: mocks.map(|server| (server.name.clone(), server.mock.clone())).collect(),
            protections: protections.collect(),
            people: People::new(home.path()),
            front: doors.front().cloned(),
            tokens: HashMap::new(),
            home,
            gateway,
            doors,
            sessions: HashMap::new(),
            drive: Arc::clone(&config.drive),
        })
    }

    /// The secret of the client that exchanges tokens at the gateway, where there is one.
    pub(crate) fn broker_secret(&self) -> Option<Secret> {
        let secret = std::fs::read_to_string(self.home.path().join(home::BROKER_SECRET)).ok()?;
        Some(Secret::new(secret))
    }

    /// The key of a step's session.
    pub(crate) fn key(
        &self,
        user: Option<&str>,
        profile: Option<&str>,
        speaker: Speaker,
    ) -> Result<SessionKey, String> {
        Ok(SessionKey { user: self.people.meant(user)?, profile: profile.map(str::to_owned), speaker })
    }

    /// A session; opened at its first use.
    pub(crate) async fn session(&mut self, key: &SessionKey) -> Result<&dyn Session, String> {
        if !self.sessions.contains_key(key) {
            let token_file = self.people.user(&key.user).token_file.clone();
            let place = Place {
                url: self.gateway.url.clone(),
                token_file: token_file.unwrap_or_else(|| self.gateway.token_file.clone()),
                home: self.home.path().to_owned(),
                profile: key.profile.clone(),
                speaker: key.speaker,
            };
            let session = self.drive.open(place).await;
            let session = session.map_err(|error| format!("cannot open a session with the gateway: {error}"))?;
            self.sessions.insert(key.clone(), session);
        }
        Ok(&*self.sessions[key])
    }

    /// Has a user send another token from now on: its sessions are opened again.
    pub(crate) async fn send_token(&mut self, user: &Option<String>, token: &str) -> Result<(), String> {
        self.people.give(user, token).map_err(|error| format!("cannot keep the token: {error}"))?;
        let own: Vec<SessionKey> = self.sessions.keys().filter(|key| key.user == *user).cloned().collect();
        for key in own {
            if let Some(session) = self.sessions.remove(&key) {
                session.close().await;
            }
        }
        Ok(())
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

    /// `http://host:port` of the gateway.
    pub(crate) fn origin(&self) -> &str {
        self.gateway.url.strip_suffix("/mcp").unwrap_or(&self.gateway.url)
    }

    /// What a mock server does.
    pub(crate) fn mock(&self, server: &str) -> Option<Mock> {
        self.mocks.get(server).cloned()
    }

    /// Where a mock server listens in this process.
    pub(crate) fn server_url(&self, server: &str) -> Option<String> {
        self.doors.url(server)
    }

    /// What a server asks of its callers.
    pub(crate) fn protection(&self, server: &str) -> Option<&Protection> {
        self.protections.get(server)
    }

    /// The mock providers of the scenario; the runner's own is none of them.
    pub(crate) fn providers(&self) -> impl Iterator<Item = &Arc<Provider>> {
        self.doors.providers.iter().filter(|provider| provider.name() != OWN_PROVIDER)
    }

    /// One of them.
    pub(crate) fn provider(&self, name: &str) -> Option<Arc<Provider>> {
        self.providers().find(|provider| provider.name() == name).cloned()
    }

    /// The provider that asks at an address.
    pub(crate) fn provider_at(&self, url: &url::Url) -> Option<Arc<Provider>> {
        self.doors.providers.iter().find(|provider| provider.asks_at(url)).cloned()
    }

    /// The provider whose tokens open the gateway.
    pub(crate) fn front(&self) -> Option<Arc<Provider>> {
        self.front.clone()
    }

    /// Lets a mock server do something else from now on.
    pub(crate) fn replace_mock(&mut self, server: &str, mock: Mock) -> std::io::Result<()> {
        match self.doors.servers.get(server) {
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
