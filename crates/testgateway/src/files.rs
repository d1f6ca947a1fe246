//! Files of a home folder: definitions of fake servers and of profiles, and how they get there.

use std::path::Path;

use serde_json::{Value, json};
use toolcrib_catalog::Catalog;

/// A file of the home folder: its path and its text.
pub type File = (String, String);

/// The definition of a fake server with these flags.
pub fn server(name: &str, flags: &[&str]) -> File {
    server_with(name, flags, "")
}

/// As [`server`], with further lines of YAML.
pub fn server_with(name: &str, flags: &[&str], more: &str) -> File {
    let program = toolcrib_testkit::fake_server();
    let text = format!("name: {name}\ncommand: {}\nargs: {}\n{more}", json!(program), json!(flags));
    (format!("servers/{name}.yaml"), text)
}

/// The definition of a server that is never started and has just these tools.
pub fn stopped(name: &str, tools: &[&str], more: &str) -> File {
    let tools: Vec<Value> = tools.iter().map(|tool| json!({"name": tool, "inputSchema": {"type": "object"}})).collect();
    let text = format!("name: {name}\ncommand: never-started\nstart: manual\ntools: {}\n{more}", json!(tools));
    (format!("servers/{name}.yaml"), text)
}

/// The definition of a profile.
pub fn profile(name: &str, lines: &str) -> File {
    (format!("profiles/{name}.yaml"), format!("name: {name}\n{lines}"))
}

/// Writes files with their folders; an empty text removes the file.
pub(crate) fn write(home: &Path, files: &[File]) {
    for (path, text) in files {
        let path = home.join(path);
        let folder = path.parent().expect("a file lies in a folder");
        let written = if text.is_empty() {
            std::fs::remove_file(&path)
        } else {
            std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text))
        };
        written.unwrap_or_else(|error| panic!("`{}`: {error}", path.display()));
    }
}

/// What the files say; all of them must be good.
pub(crate) fn load(home: &Path) -> Catalog {
    let loaded = toolcrib_catalog::load(home);
    assert!(loaded.problems.is_empty(), "expected good files; problems: {:?}", loaded.problems);
    loaded
}
