//! The stage for the real-server tests: two homes with definitions, a folder, a repository, and the file that tells
//! the suites where everything is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::backend::{self, Backend, Places};
use crate::child;
use crate::process::MARK;
use crate::workspace::Workspace;

const DEADLINE: Duration = Duration::from_secs(60);

/// The servers that a profile has which does not name its own.
const SERVERS: &str = "servers: [everything, everything-http, files, memory, time, git, odd]\n";

/// One row per profile: its name and the lines that differ from the default. Beside these, each server that takes part
/// in the comparison of releases has a profile of its own name.
const PROFILES: [(&str, &str); 9] = [
    ("default", ""),
    ("direct", "exposure: direct\n"),
    ("pinned", "exposure: pinned\npinned: [\"everything/echo\", \"time/*\"]\n"),
    ("dynamic", "exposure: dynamic\n"),
    ("one", "servers: [everything]\nprefix: none\n"),
    ("narrow", "exposure: direct\nservers: [files]\ntools: {allow: [\"files/read_*\", \"files/list_*\"], deny: []}\n"),
    ("muster", "dialect: muster\n"),
    ("go-ent", "dialect: go-ent\n"),
    ("scooter", "dialect: scooter\nprefix: none\n"),
];

/// How a profile shows a server as it is.
const ALONE: &str = "exposure: direct\nprefix: none\n";

/// Servers that show some of their tools only to clients that can be asked.
const ASKING: [&str; 7] = [
    "everything-asks",
    "everything-asks-http",
    "everything-asks-sse",
    "everything-2025-08-sse",
    "everything-2025-08",
    "everything-2025-08-http",
    "everything-2025-03",
];

/// The folders of one run.
#[derive(Debug)]
pub struct Stage {
    pub root: PathBuf,
    pub mark: String,
    servers: Vec<(&'static str, Value)>,
    /// What the clients of each age do with each server.
    scripts: PathBuf,
    _backends: Vec<Backend>,
}

// === impl Stage ===

impl Stage {
    /// Creates the folders and the things in them, and starts the servers that run over HTTP.
    pub fn new(workspace: &Workspace, places: &Places<'_>) -> Result<Self> {
        let mark = format!("run-{}", std::process::id());
        let root = workspace.target()?.join("acceptance").join(&mark);
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("failed to empty `{}`", root.display()))?;
        }
        let backends = backend::start(places, &root.join("servers"))?;
        let mut servers: Vec<_> = backends.iter().map(|backend| (backend.name, backend.definition.clone())).collect();
        // The same server once more, listed with the tools that it shows to clients that can be asked.
        let everything = backends.iter().find(|backend| backend.name == "everything-http");
        servers.extend(everything.map(|backend| ("everything-asks-http", backend.definition.clone())));
        let scripts = places.suites.join("scripts.json");
        let mut stage = Self { root, mark, servers, scripts, _backends: backends };
        for folder in
            ["files", "repository", "home/servers", "home/profiles", "stdio-home/servers", "stdio-home/profiles"]
        {
            fs::create_dir_all(stage.root.join(folder))?;
        }
        stage.fill_files()?;
        stage.fill_repository()?;
        let programs = stage.programs(places);
        stage.servers.extend(programs);
        for (_, server) in stage.servers.iter_mut().filter(|(name, _)| ASKING.contains(name)) {
            server["declares"] = json!(["elicitation", "sampling", "roots"]);
        }
        // Over HTTP the ready file waits for the eager ones. Over stdio each test starts its own gateway, which
        // should start only what the test uses.
        for (home, start) in [("home", "eager"), ("stdio-home", "lazy")] {
            stage.write_definitions(home, start)?;
        }
        stage.write_single_homes()?;
        Ok(stage)
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The definition of a server, with the variables that its program is to have.
    pub fn server(&self, name: &str) -> Option<Value> {
        let found = self.servers.iter().find(|(known, _)| *known == name);
        found.map(|(_, server)| self.marked(server))
    }

    /// How the suites reach a gateway: the one that serves at `url`, and its program over stdio.
    pub fn gateway(&self, url: &str, binary: &Path) -> Value {
        let arguments = json!(["stdio", "--home", self.root.join("stdio-home")]);
        json!({"url": url, "stdio": {"command": binary, "args": arguments, "env": {MARK: self.mark}}})
    }

    /// Writes the file that the suites read. Without a gateway only the straight tests run.
    pub fn write_setting(&self, gateway: Option<&Value>) -> Result<PathBuf> {
        let servers: serde_json::Map<String, Value> =
            self.servers.iter().map(|(name, server)| ((*name).to_owned(), server.clone())).collect();
        let setting = json!({
            "gateway": gateway,
            "servers": servers,
            "files": self.root.join("files"),
            "repository": self.root.join("repository"),
            "single_homes": self.root.join("single-homes"),
            "scripts": self.scripts,
        });
        let path = self.root.join("setting.json");
        fs::write(&path, format!("{setting:#}\n"))?;
        Ok(path)
    }

    fn fill_files(&self) -> Result<()> {
        let files = self.root.join("files");
        fs::write(files.join("hello.txt"), "hello from a real file\n")?;
        fs::write(files.join("picture.png"), [b"\x89PNG\r\n\x1a\n".as_slice(), &[0x2a; 300]].concat())?;
        fs::write(files.join("sound.wav"), b"RIFF\x24\0\0\0WAVEfmt ")?;
        // Beside the allowed folder: reading it is refused by the server.
        fs::write(self.root.join("outside.txt"), "not for tools\n")?;
        Ok(())
    }

    fn fill_repository(&self) -> Result<()> {
        let repository = self.root.join("repository");
        fs::write(repository.join("readme.txt"), "a small repository\n")?;
        let person = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"];
        for arguments in
            [["init", "--quiet", "."].as_slice(), &["add", "."], &["commit", "--quiet", "-m", "the first commit"]]
        {
            let mut git = Command::new("git");
            git.current_dir(&repository).args(person).args(arguments);
            let outcome = child::quiet(&mut git, DEADLINE)?;
            ensure!(outcome.success, "`git {}` failed: {}", arguments.join(" "), outcome.lines.join("\n"));
        }
        Ok(())
    }

    /// The servers that are programs over stdio, started by the gateway.
    fn programs(&self, places: &Places<'_>) -> Vec<(&'static str, Value)> {
        let Places { installed, suites, fixture } = places;
        let node = |program: &str, arguments: &[&str]| {
            let mut all = vec![json!(installed.node_folder.join(program))];
            all.extend(arguments.iter().map(|argument| json!(argument)));
            json!({"command": installed.node, "args": all})
        };
        let official = |package: &str, arguments: &[&str]| {
            node(&format!("node_modules/@modelcontextprotocol/{package}/dist/index.js"), arguments)
        };
        let python =
            |program: &str, arguments: Value| json!({"command": installed.python_bin.join(program), "args": arguments});
        let mut memory = official("server-memory", &[]);
        memory["env"] = json!({"MEMORY_FILE_PATH": self.root.join("memory.jsonl")});
        let files = self.root.join("files").to_string_lossy().into_owned();
        let old_server = json!([suites.join("python-old/old_server.py"), "stdio"]);
        let rust = |pin: &str| json!({"command": fixture, "args": ["--stdio", "--pin", pin]});
        vec![
            ("everything", official("server-everything", &["stdio"])),
            ("files", official("server-filesystem", &[&files])),
            ("memory", memory),
            ("time", python("mcp-server-time", json!(["--local-timezone", "UTC"]))),
            ("git", python("mcp-server-git", json!(["--repository", self.root.join("repository")]))),
            ("odd", python("python", json!([suites.join("python/odd_server.py")]))),
            ("everything-asks", official("server-everything", &["stdio"])),
            ("everything-2025-08", node("node_modules/everything-2025-08/dist/index.js", &["stdio"])),
            ("everything-2025-03", node("node_modules/everything-2025-03/dist/index.js", &[])),
            ("typescript", node("modern_server.mjs", &["stdio"])),
            ("python", python("python", json!([suites.join("python/modern_server.py"), "stdio"]))),
            ("python-old", json!({"command": installed.old_python_bin.join("python"), "args": old_server})),
            ("rust-legacy", rust("legacy")),
            ("rust-modern", rust("modern")),
        ]
    }

    fn write_definitions(&self, home: &str, start: &str) -> Result<()> {
        let home = self.root.join(home);
        for (name, server) in &self.servers {
            let server = self.marked(server);
            fs::write(home.join(format!("servers/{name}.yaml")), definition(name, &server, start))?;
        }
        for (name, lines) in PROFILES {
            let servers = if lines.contains("servers:") { "" } else { SERVERS };
            fs::write(home.join(format!("profiles/{name}.yaml")), format!("name: {name}\n{servers}{lines}"))?;
        }
        for (name, _) in &self.servers {
            let lines = format!("name: {name}\nservers: [{name}]\n{ALONE}");
            fs::write(home.join(format!("profiles/{name}.yaml")), lines)?;
        }
        Ok(())
    }

    /// Over stdio a gateway is started for each client, so each server has a home where it is alone.
    fn write_single_homes(&self) -> Result<()> {
        for (name, server) in &self.servers {
            let home = self.root.join("single-homes").join(name);
            fs::create_dir_all(home.join("servers"))?;
            fs::create_dir_all(home.join("profiles"))?;
            fs::write(home.join(format!("servers/{name}.yaml")), definition(name, &self.marked(server), "lazy"))?;
            fs::write(home.join("profiles/default.yaml"), format!("name: default\n{ALONE}"))?;
        }
        Ok(())
    }

    /// The definition with the variables that a program is to have.
    fn marked(&self, server: &Value) -> Value {
        let mut server = server.clone();
        if server["command"].is_string() {
            server["env"][MARK] = json!(self.mark);
            server["env"]["PYTHONDONTWRITEBYTECODE"] = json!("1");
        }
        server
    }
}

/// A server definition; its values are JSON, which YAML reads as it is.
pub fn definition(name: &str, server: &Value, start: &str) -> String {
    let transport = server["transport"].as_str().unwrap_or("stdio");
    let mut text = format!("name: {name}\ntransport: {transport}\nstart: {start}\n");
    for key in ["command", "args", "env", "url", "declares"] {
        if !server[key].is_null() {
            text += &format!("{key}: {}\n", server[key]);
        }
    }
    // The machine may be busy with everything else that runs at the same time.
    text += "timeouts: {connect: 60s, list: 30s, call: 60s}\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_flat_yaml() {
        let server = json!({"command": "/bin/x", "args": ["a b"], "env": {"K": "v"}});
        let text = definition("time", &server, "lazy");
        assert!(text.starts_with("name: time\ntransport: stdio\nstart: lazy\ncommand: \"/bin/x\"\nargs: [\"a b\"]\n"));
        assert!(definition("far", &json!({"url": "http://x", "transport": "sse"}), "eager").contains("transport: sse"));
    }
}
