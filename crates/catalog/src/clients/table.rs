//! The table of clients: one row each, with where the facts are documented.

use std::path::PathBuf;

use super::place::{Place, Places, Root};
use crate::server::TransportKind;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON; comments and trailing commas are let pass, also where the client itself is strict.
    Json,
    Toml,
    /// A folder of YAML files with servers and other objects, or one such file.
    YamlFolder,
}

/// One file that a client keeps servers in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Where it may be, the best first.
    pub places: &'static [Place],
    /// The ways from the top of the file to a map of servers; `*` stands for any key. Ours goes into the first.
    pub servers: &'static [&'static [&'static str]],
    /// Whether `connect` may write there; others are only read.
    pub is_written: bool,
}

/// What an entry for us looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transports {
    /// The client speaks Streamable HTTP.
    Http {
        /// The key of the address.
        url: &'static str,
        /// What `type` must say, where it is needed.
        kind: Option<&'static str>,
        /// What `type` must say for a program, where it is needed.
        stdio_kind: Option<&'static str>,
    },
    /// It only starts programs.
    StdioOnly,
    /// It is only read.
    ImportOnly,
}

/// A client of another maker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What its maker calls it.
    pub title: &'static str,
    /// Where its maker documents the facts of its row.
    pub documentation: &'static str,
    pub format: Format,
    pub sources: &'static [Source],
    pub transports: Transports,
    /// How a `url` is spoken to that comes without a type.
    pub bare_url: TransportKind,
    /// Whether `$NAME` stands for a variable as well as `${NAME}`.
    pub dollar_variables: bool,
    /// What a number in `timeout` counts, in milliseconds.
    pub timeout_unit: u64,
    /// What to do so that the client sees a change.
    pub reload: &'static str,
}

impl Client {
    /// Whether it is a gateway like ours, whose servers say more than how they are reached.
    pub(super) fn is_muster(&self) -> bool {
        self.format == Format::YamlFolder
    }
}

const MCP_SERVERS: &[&[&str]] = &[&["mcpServers"]];

const fn source(places: &'static [Place], servers: &'static [&'static [&'static str]]) -> Source {
    Source { places, servers, is_written: true }
}

const fn read_only(places: &'static [Place], servers: &'static [&'static [&'static str]]) -> Source {
    Source { places, servers, is_written: false }
}

const fn http(url: &'static str) -> Transports {
    Transports::Http { url, kind: None, stdio_kind: None }
}

/// A client with what most have in common.
const fn row(name: &'static str, title: &'static str, documentation: &'static str) -> Client {
    Client {
        name,
        title,
        documentation,
        format: Format::Json,
        sources: &[],
        transports: http("url"),
        bare_url: TransportKind::Http,
        dollar_variables: false,
        timeout_unit: 1_000,
        reload: "restart it",
    }
}

/// Every client that is known, in the order of their names.
pub const CLIENTS: &[Client] = &[
    // The file holds programs only; remote servers are added as connectors in its own window.
    Client {
        sources: &[source(&[Place::new(Root::Settings, "Claude/claude_desktop_config.json")], MCP_SERVERS)],
        transports: Transports::StdioOnly,
        ..row("claude-desktop", "Claude Desktop", "https://modelcontextprotocol.io/docs/develop/connect-local-servers")
    },
    // `mcpServers` at the top is the scope `user`, below `projects` it is `local`. A project's own `.mcp.json` has the
    // same form: name it with `--file`.
    Client {
        sources: &[source(
            &[Place::new(Root::Variable("CLAUDE_CONFIG_DIR"), ".claude.json"), Place::new(Root::Home, ".claude.json")],
            &[&["mcpServers"], &["projects", "*", "mcpServers"]],
        )],
        transports: Transports::Http { url: "url", kind: Some("http"), stdio_kind: None },
        reload: "start a new session",
        ..row("claude-code", "Claude Code", "https://code.claude.com/docs/en/mcp")
    },
    // The extension in Visual Studio Code, then the command line.
    Client {
        sources: &[
            source(
                &[Place::new(
                    Root::Settings,
                    "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                )],
                MCP_SERVERS,
            ),
            source(&[Place::new(Root::Home, ".cline/data/settings/cline_mcp_settings.json")], MCP_SERVERS),
        ],
        transports: Transports::Http { url: "url", kind: Some("streamableHttp"), stdio_kind: None },
        // Without a type it is the older form.
        bare_url: TransportKind::Sse,
        reload: "it sees the change by itself",
        ..row("cline", "Cline", "https://docs.cline.bot/mcp/mcp-overview")
    },
    // `bearer_token_env_var`, `http_headers`, `env_http_headers` and `env_vars` are its own keys.
    Client {
        format: Format::Toml,
        sources: &[source(
            &[Place::new(Root::Variable("CODEX_HOME"), "config.toml"), Place::new(Root::Home, ".codex/config.toml")],
            &[&["mcp_servers"]],
        )],
        reload: "start a new session",
        ..row("codex", "Codex", "https://developers.openai.com/codex/mcp")
    },
    Client {
        sources: &[source(&[Place::new(Root::Home, ".cursor/mcp.json")], MCP_SERVERS)],
        reload: "it sees the change by itself; if not, restart it",
        ..row("cursor", "Cursor", "https://cursor.com/docs/mcp")
    },
    // `httpUrl` is Streamable HTTP, `url` the older form; texts may name variables as `$NAME`.
    Client {
        sources: &[source(&[Place::new(Root::Home, ".gemini/settings.json")], MCP_SERVERS)],
        transports: http("httpUrl"),
        bare_url: TransportKind::Sse,
        dollar_variables: true,
        timeout_unit: 1,
        reload: "start a new session",
        ..row("gemini-cli", "Gemini CLI", "https://geminicli.com/docs/tools/mcp-server")
    },
    // Its objects are those of a cluster; on disk there is one file for each.
    Client {
        format: Format::YamlFolder,
        sources: &[read_only(&[Place { root: Root::Home, path: ".config/muster", on_windows: None }], &[])],
        transports: Transports::ImportOnly,
        ..row("muster", "muster", "https://github.com/giantswarm/muster")
    },
    // `servers` in `mcp.json`; until mid-2025 it was `mcp.servers` in the settings.
    Client {
        sources: &[
            source(&[Place::new(Root::Settings, "Code/User/mcp.json")], &[&["servers"]]),
            read_only(
                &[Place::new(Root::Settings, "Code/User/settings.json")],
                &[&["mcp", "servers"], &["mcp.servers"]],
            ),
        ],
        transports: Transports::Http { url: "url", kind: Some("http"), stdio_kind: Some("stdio") },
        reload: "it asks whether to trust and start the server",
        ..row("vscode", "VS Code", "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration")
    },
    // The editor, then its plugins for other editors.
    Client {
        sources: &[
            source(&[Place::new(Root::Home, ".codeium/windsurf/mcp_config.json")], MCP_SERVERS),
            source(&[Place::new(Root::Home, ".codeium/mcp_config.json")], MCP_SERVERS),
        ],
        transports: http("serverUrl"),
        reload: "press the refresh button of its MCP panel",
        ..row("windsurf", "Windsurf", "https://docs.windsurf.com/windsurf/cascade/mcp")
    },
    Client {
        sources: &[source(
            &[Place::new(Root::Config, "zed/settings.json").on_windows("Zed/settings.json")],
            &[&["context_servers"]],
        )],
        reload: "it sees the change by itself",
        ..row("zed", "Zed", "https://zed.dev/docs/ai/mcp")
    },
];

/// The client of a name.
pub fn client(name: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.name == name)
}

// === impl Client ===

impl Client {
    /// Every file that it may keep servers in, with its source; of one source only the best place.
    pub fn files(&self, places: &Places<'_>) -> Vec<(&'static Source, PathBuf)> {
        let best = |source: &'static Source| {
            let mut paths: Vec<PathBuf> = source.places.iter().filter_map(|place| places.path(place)).collect();
            let present = paths.iter().position(|path| path.exists()).unwrap_or(0);
            (present < paths.len()).then(|| (source, paths.swap_remove(present)))
        };
        self.sources.iter().filter_map(best).collect()
    }

    /// The source and the file that `connect` writes: one that is there, else one whose folder is there, else the first.
    pub fn file_to_write(&self, places: &Places<'_>) -> Option<(&'static Source, PathBuf)> {
        let mut files = self.files(places);
        files.retain(|(source, _)| source.is_written);
        let has_folder = |path: &PathBuf| path.parent().is_some_and(std::path::Path::is_dir);
        let at = files.iter().position(|(_, path)| path.exists());
        let at = at.or_else(|| files.iter().position(|(_, path)| has_folder(path))).unwrap_or(0);
        (at < files.len()).then(|| files.swap_remove(at))
    }

    /// Whether `connect` can write its settings.
    pub fn is_written(&self) -> bool {
        self.transports != Transports::ImportOnly
    }

    /// Whether it can be reached by HTTP.
    pub fn speaks_http(&self) -> bool {
        matches!(self.transports, Transports::Http { .. })
    }
}
