//! Everything that a run compares, started beside each other, and the paths through it.

use std::path::Path as FilePath;

use crate::backend::tools::QUERIES;
use crate::child::Role;
use crate::client::Manner;
use crate::gateway::{Gateway, Home};
use crate::load::{Ask, listed_name};
use crate::process::Process;

use super::Run;

/// As many tools as an ordinary server has.
pub(super) const SMALL: usize = 25;
/// Size of the `text` result less what a proxy may leave out around it.
const TEXT_AT_LEAST: usize = 97_000;
const BIG_AT_LEAST: usize = 10_000_000;

pub(super) const DIRECT: &str = "direct";
pub(super) const FORWARDER: &str = "byte forwarder";
pub(super) const SDK_HTTP: &str = "SDK proxy → HTTP";
pub(super) const SDK_STDIO: &str = "SDK proxy → stdio";
pub(super) const GATEWAY_HTTP: &str = "Toolcrib → HTTP";
pub(super) const GATEWAY_STDIO: &str = "Toolcrib → stdio";
pub(super) const GATEWAY_CALL_TOOL: &str = "Toolcrib → HTTP, `call_tool`";
pub(super) const GATEWAY_MODERN_CLIENT: &str = "Toolcrib → HTTP, modern → legacy";
pub(super) const GATEWAY_ASKABLE: &str = "Toolcrib → HTTP, modern → legacy, client can be asked";
pub(super) const MODERN_DIRECT: &str = "direct, modern";
pub(super) const MODERN_FORWARDER: &str = "byte forwarder, modern";
pub(super) const GATEWAY_MODERN: &str = "Toolcrib → HTTP, modern → modern";
pub(super) const GATEWAY_MODERN_STDIO: &str = "Toolcrib → stdio, modern → modern";
pub(super) const GATEWAY_LEGACY_CLIENT: &str = "Toolcrib → HTTP, legacy → modern";

/// Another gateway, run by someone else.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    name: String,
    url: String,
    process: Option<Process>,
}

pub(super) fn parse_peer(text: &str) -> Result<Peer, String> {
    let (name, rest) = text.split_once('=').ok_or("expected NAME=URL or NAME=URL,PID")?;
    let (url, pid) = rest.split_once(',').map_or((rest, None), |(url, pid)| (url, Some(pid)));
    crate::wire::split_url(url).map_err(|error| error.to_string())?;
    let process = pid.map(|pid| pid.parse().map(Process).map_err(|_| format!("`{pid}` is no process id")));
    Ok(Peer { name: name.to_owned(), url: url.to_owned(), process: process.transpose()? })
}

/// One way from the load generator to the backend's tools.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) manner: Manner,
    pub(super) process: Option<Process>,
    /// Whether a modern backend is at its end.
    to_modern: bool,
    /// The server whose tools are meant, for paths that lead to several.
    server: &'static str,
    by_call_tool: bool,
}

/// What a call brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    Echo,
    Text,
    Big,
}

impl Payload {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Echo => "echo, 0.2 KB",
            Self::Text => "text, 98 KB",
            Self::Big => "text, 10 MiB",
        }
    }
}

/// Names of rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Yardsticks {
    pub(super) direct: &'static str,
    pub(super) forwarder: &'static str,
    pub(super) sdk: &'static str,
}

impl Path {
    /// Whether results larger than `echo` are measured here; the variants of the gateway's path would repeat
    /// themselves.
    pub(super) fn serves_large(&self) -> bool {
        !self.by_call_tool && self.manner.is_modern() == self.to_modern
    }

    /// Whether lists are measured here.
    pub(super) fn serves_lists(&self) -> bool {
        !self.by_call_tool && self.manner != Manner::Askable
    }

    /// The rows to compare this path with: those that lead to a backend of the same kind. The SDK's proxy stands in
    /// front of the legacy ones only.
    pub(super) fn yardsticks(&self) -> Yardsticks {
        if self.to_modern {
            return Yardsticks { direct: MODERN_DIRECT, forwarder: MODERN_FORWARDER, sdk: "" };
        }
        let sdk = if self.name.contains("stdio") { SDK_STDIO } else { SDK_HTTP };
        Yardsticks { direct: DIRECT, forwarder: FORWARDER, sdk }
    }

    /// Asks the path for the name under which it lists the tool; `None` when the path does not serve this payload.
    pub(super) async fn ask(&self, payload: Payload) -> anyhow::Result<Option<Ask>> {
        if self.by_call_tool {
            let tool = format!("{}/echo", self.server);
            return Ok((payload == Payload::Echo).then_some(Ask::EchoByCallTool { tool }));
        }
        let named = |wanted| listed_name(&self.url, self.manner, wanted, self.server);
        Ok(Some(match payload {
            Payload::Echo => Ask::Echo { tool: named("echo").await? },
            Payload::Text => Ask::Text { tool: named("text").await?, at_least: TEXT_AT_LEAST },
            Payload::Big => Ask::Text { tool: named("big").await?, at_least: BIG_AT_LEAST },
        }))
    }
}

/// A backend of one era, and what stands in front of it whatever its era.
#[derive(Debug)]
struct Lane {
    backend: Role,
    forwarder: Role,
    gateway: Option<Gateway>,
    /// Holds the definitions as long as the gateway runs.
    _home: Home,
}

/// All that is compared. Each backend has its own gateway, so that each has as many servers as the other.
#[derive(Debug)]
pub(super) struct Yard {
    legacy: Lane,
    modern: Lane,
    sdk_http: Option<Role>,
    sdk_stdio: Option<Role>,
    peers: Vec<Peer>,
    /// Whether the servers over stdio are there.
    small: bool,
}

impl Lane {
    async fn start(run: &Run, program: Option<&FilePath>, tools: usize, modern: bool) -> anyhow::Result<Self> {
        let small = tools == SMALL;
        let tools = tools.to_string();
        let mut arguments = vec!["backend-http", "--tools", &tools];
        if modern {
            arguments.push("--modern");
        } else if small {
            arguments.extend(["--listen", &run.backend_listen]);
        }
        let backend = Role::start(&arguments).await?;
        let forwarder = Role::start(&["forwarder", "--backend", &backend.url]).await?;
        let home = home(&backend.url, small, modern)?;
        let gateway = match program {
            Some(program) => Some(Gateway::start(program, &home).await?),
            None => None,
        };
        Ok(Self { backend, forwarder, gateway, _home: home })
    }

    async fn stop(self) -> anyhow::Result<()> {
        match self.gateway {
            Some(gateway) => gateway.stop().await,
            None => Ok(()),
        }
    }
}

impl Yard {
    /// Starts all paths to backends of `tools` tools. The small ones have three servers behind each gateway.
    pub(super) async fn start(run: &Run, program: Option<&FilePath>, tools: usize) -> anyhow::Result<Self> {
        let small = tools == SMALL;
        let legacy = Lane::start(run, program, tools, false).await?;
        let modern = Lane::start(run, program, tools, true).await?;
        let (mut sdk_http, mut sdk_stdio) = (None, None);
        if cfg!(feature = "sdk") {
            sdk_http = Some(Role::start(&["sdk-proxy", "--backend", &legacy.backend.url]).await?);
            if small {
                sdk_stdio = Some(Role::start(&["sdk-proxy"]).await?);
            }
        }
        let peers = if small { run.peer.clone() } else { Vec::new() };
        Ok(Self { legacy, modern, sdk_http, sdk_stdio, peers, small })
    }

    /// The gateway in front of the legacy backends, when there is one.
    pub(super) fn gateway(&self) -> Option<&Gateway> {
        self.legacy.gateway.as_ref()
    }

    /// Every path, in the order of the table.
    pub(super) fn paths(&self) -> Vec<Path> {
        let (backend, forwarder) = (&self.legacy.backend, &self.legacy.forwarder);
        let mut paths = vec![Path::of_role(DIRECT, backend), Path::of_role(FORWARDER, forwarder)];
        paths.extend(self.sdk_http.as_ref().map(|role| Path::of_role(SDK_HTTP, role)));
        paths.extend(self.sdk_stdio.as_ref().map(|role| Path::of_role(SDK_STDIO, role)));
        if let Some(gateway) = &self.legacy.gateway {
            let [http, stdio] = direct_paths(gateway, [GATEWAY_HTTP, GATEWAY_STDIO]);
            paths.push(http.clone());
            if self.small {
                paths.push(stdio);
            }
            let (url, name) = (gateway.url.clone(), GATEWAY_CALL_TOOL.to_owned());
            paths.push(Path { name, url, by_call_tool: true, ..http.clone() });
            paths.push(http.by_modern_client(GATEWAY_MODERN_CLIENT));
            paths.push(Path { name: GATEWAY_ASKABLE.to_owned(), manner: Manner::Askable, ..http });
        }
        paths.extend(self.modern_paths());
        paths.extend(self.peers.iter().map(|peer| Path::new(&peer.name, &peer.url, peer.process)));
        paths
    }

    fn modern_paths(&self) -> Vec<Path> {
        let modern = |path: Path| Path { manner: Manner::Modern, to_modern: true, ..path };
        let of_role = |name: &str, role: &Role| modern(Path::of_role(name, role));
        let mut paths =
            vec![of_role(MODERN_DIRECT, &self.modern.backend), of_role(MODERN_FORWARDER, &self.modern.forwarder)];
        if let Some(gateway) = &self.modern.gateway {
            let [http, stdio] = direct_paths(gateway, [GATEWAY_MODERN, GATEWAY_MODERN_STDIO]);
            paths.push(modern(http.clone()));
            if self.small {
                paths.push(modern(stdio));
            }
            paths.push(Path { name: GATEWAY_LEGACY_CLIENT.to_owned(), to_modern: true, ..http });
        }
        paths
    }

    /// The search of the gateway, when there is one.
    pub(super) fn find(&self) -> Option<(&Gateway, Ask)> {
        Some((self.gateway()?, Ask::Find { queries: &QUERIES }))
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let (legacy, modern) = (self.legacy.stop().await, self.modern.stop().await);
        legacy.and(modern)
    }
}

/// By name through the profile that exposes everything: the server over HTTP, and one over stdio.
pub(super) fn direct_paths(gateway: &Gateway, [http, stdio]: [&str; 2]) -> [Path; 2] {
    let url = gateway.profile("direct");
    let path = |name, server| Path { server, ..Path::new(name, &url, Some(gateway.process)) };
    [path(http, "bench-http"), path(stdio, "bench-stdio")]
}

impl Path {
    fn new(name: &str, url: &str, process: Option<Process>) -> Self {
        let (name, url, manner) = (name.to_owned(), url.to_owned(), Manner::Legacy);
        Self { name, url, manner, process, to_modern: false, server: "", by_call_tool: false }
    }

    pub(super) fn of_role(name: &str, role: &Role) -> Self {
        Self::new(name, &role.url, Some(role.process))
    }

    /// The same path under another name, called by a client of revision 2026-07-28.
    pub(super) fn by_modern_client(&self, name: &str) -> Self {
        Self { name: name.to_owned(), manner: Manner::Modern, ..self.clone() }
    }
}

/// A home with one server, or with the three that "idle with 3 servers" means.
pub(super) fn home(backend: &str, three: bool, modern: bool) -> anyhow::Result<Home> {
    let home = Home::new()?;
    home.http_server("bench-http", backend)?;
    if three {
        home.stdio_server("bench-stdio", SMALL, modern)?;
        home.stdio_server("bench-third", SMALL, modern)?;
    }
    Ok(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_a_name_an_address_and_perhaps_a_process() {
        let peer = parse_peer("other=http://127.0.0.1:3000/mcp,42").unwrap();
        assert_eq!((peer.name.as_str(), peer.url.as_str()), ("other", "http://127.0.0.1:3000/mcp"));
        assert_eq!(peer.process, Some(Process(42)));
        assert_eq!(parse_peer("other=http://127.0.0.1:3000/mcp").unwrap().process, None);
        assert!(parse_peer("http://127.0.0.1:3000/mcp").is_err());
        assert!(parse_peer("other=http://127.0.0.1:3000/mcp,x").is_err());
    }
}
