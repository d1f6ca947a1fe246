//! The stage for the real-server tests: two homes with definitions, a folder, a repository, and the file that tells
//! the suites where everything is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::child;
use crate::need::Installed;
use crate::process::MARK;
use crate::workspace::Workspace;

const DEADLINE: Duration = Duration::from_secs(60);

/// One row per profile: its name and the lines that differ from the default.
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

/// The folders of one run.
#[derive(Debug)]
pub struct Stage {
    pub root: PathBuf,
    pub mark: String,
    servers: Vec<(&'static str, Value)>,
}

// === impl Stage ===

impl Stage {
    /// Creates the folders and the things in them; `everything_url` is the server that runs over HTTP.
    pub fn new(workspace: &Workspace, installed: &Installed, everything_url: &str) -> Result<Self> {
        let mark = format!("run-{}", std::process::id());
        let root = workspace.target()?.join("acceptance").join(&mark);
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("failed to empty `{}`", root.display()))?;
        }
        let mut stage = Self { root, mark, servers: Vec::new() };
        for folder in
            ["files", "repository", "home/servers", "home/profiles", "stdio-home/servers", "stdio-home/profiles"]
        {
            fs::create_dir_all(stage.root.join(folder))?;
        }
        stage.fill_files()?;
        stage.fill_repository()?;
        stage.servers = stage.servers(workspace, installed, everything_url);
        // Over HTTP the ready file waits for the eager ones. Over stdio each test starts a gateway of its own, which
        // should start only what the test uses.
        for (home, start) in [("home", "eager"), ("stdio-home", "lazy")] {
            stage.write_definitions(home, start)?;
        }
        Ok(stage)
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Writes the file that the suites read. Without a gateway only the straight tests run.
    pub fn write_setting(&self, gateway: Option<(&str, &Path)>) -> Result<PathBuf> {
        let gateway = gateway.map(|(url, binary)| {
            let arguments = json!(["stdio", "--home", self.root.join("stdio-home")]);
            json!({"url": url, "stdio": {"command": binary, "args": arguments, "env": {MARK: self.mark}}})
        });
        let servers: serde_json::Map<String, Value> =
            self.servers.iter().map(|(name, server)| ((*name).to_owned(), server.clone())).collect();
        let setting = json!({
            "gateway": gateway,
            "servers": servers,
            "files": self.root.join("files"),
            "repository": self.root.join("repository"),
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

    fn servers(&self, workspace: &Workspace, installed: &Installed, everything: &str) -> Vec<(&'static str, Value)> {
        let node = |package: &str, arguments: &[&str]| {
            let program = installed.node_folder.join("node_modules/@modelcontextprotocol").join(package);
            let mut all = vec![json!(program.join("dist/index.js"))];
            all.extend(arguments.iter().map(|argument| json!(argument)));
            json!({"command": installed.node, "args": all})
        };
        let python =
            |program: &str, arguments: Value| json!({"command": installed.python_bin.join(program), "args": arguments});
        let mut memory = node("server-memory", &[]);
        memory["env"] = json!({"MEMORY_FILE_PATH": self.root.join("memory.jsonl")});
        let files = self.root.join("files").to_string_lossy().into_owned();
        vec![
            ("everything", node("server-everything", &["stdio"])),
            ("everything-http", json!({"url": everything})),
            ("files", node("server-filesystem", &[&files])),
            ("memory", memory),
            ("time", python("mcp-server-time", json!(["--local-timezone", "UTC"]))),
            ("git", python("mcp-server-git", json!(["--repository", self.root.join("repository")]))),
            ("odd", python("python", json!([workspace.root.join("acceptance/python/odd_server.py")]))),
        ]
    }

    fn write_definitions(&self, home: &str, start: &str) -> Result<()> {
        let home = self.root.join(home);
        for (name, server) in &self.servers {
            let mut server = server.clone();
            if server["command"].is_string() {
                server["env"][MARK] = json!(self.mark);
                server["env"]["PYTHONDONTWRITEBYTECODE"] = json!("1");
            }
            fs::write(home.join(format!("servers/{name}.yaml")), definition(name, &server, start))?;
        }
        for (name, lines) in PROFILES {
            fs::write(home.join(format!("profiles/{name}.yaml")), format!("name: {name}\n{lines}"))?;
        }
        Ok(())
    }
}

/// A server definition; its values are JSON, which YAML reads as it is.
fn definition(name: &str, server: &Value, start: &str) -> String {
    let transport = if server["url"].is_string() { "http" } else { "stdio" };
    let mut text = format!("name: {name}\ntransport: {transport}\nstart: {start}\n");
    for key in ["command", "args", "env", "url"] {
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
        assert!(definition("far", &json!({"url": "http://x"}), "eager").contains("transport: http"));
    }
}
