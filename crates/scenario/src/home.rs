//! Writes the home of a scenario's gateway: definitions in the gateway's own layout.

use std::io;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::scenario::{Form, Scenario, Server, Transport};

/// Where the files of mock servers over stdio lie in the home.
const MOCKS: &str = "mocks";

/// How the mock servers of a scenario are reached.
pub(crate) trait Reach {
    /// The URL of one that speaks HTTP.
    fn url(&self, server: &str) -> Option<String>;
}

/// The file from which a mock over stdio takes its tools.
pub(crate) fn mock_file(home: &Path, server: &str) -> PathBuf {
    home.join(MOCKS).join(format!("{server}.json"))
}

/// Writes everything that the scenario wants to be there.
pub(crate) fn write(home: &Path, scenario: &Scenario, program: &Path, reach: &dyn Reach) -> io::Result<()> {
    for (name, keys) in profiles(scenario) {
        put(home, &definition("profiles", &name)?, &Value::Object(keys).to_string())?;
    }
    for server in &scenario.setup.servers {
        let path = definition("servers", &server.name)?;
        if server.transport == Transport::Stdio {
            put(home, &format!("{MOCKS}/{}.json", server.name), &server.mock.to_file())?;
        }
        put(home, &path, &server_definition(home, server, program, reach).to_string())?;
    }
    for (folder, name, value) in &scenario.setup.definitions {
        put(home, &definition(folder, name)?, &value.to_string())?;
    }
    for (path, text) in &scenario.setup.files {
        put(home, path, text)?;
    }
    Ok(())
}

/// The scenario's own profiles, and a default one in the dialect of its form.
fn profiles(scenario: &Scenario) -> Vec<(String, Map<String, Value>)> {
    // In MCP Scooter a server's tools are listed once it is active.
    let (dialect, exposure) = match scenario.form {
        Form::Muster => ("muster", "meta"),
        Form::Scooter => ("scooter", "dynamic"),
    };
    let mut profiles = scenario.setup.profiles.clone();
    if !profiles.iter().any(|(name, _)| name == "default") {
        profiles.push(("default".to_owned(), Map::new()));
    }
    for (name, keys) in &mut profiles {
        keys.insert("name".to_owned(), name.clone().into());
        keys.entry("dialect").or_insert_with(|| dialect.into());
        keys.entry("exposure").or_insert_with(|| exposure.into());
        if name == "default" && !scenario.needs.registry.is_empty() {
            keys.entry("registry").or_insert_with(|| json!(scenario.needs.registry));
        }
    }
    profiles
}

/// A mock server's definition: started at once, so that it is there when the gateway is ready.
fn server_definition(home: &Path, server: &Server, program: &Path, reach: &dyn Reach) -> Value {
    let mut keys = match server.transport {
        Transport::Stdio => json!({
            "transport": "stdio",
            "command": program,
            "args": ["test", "--mock-mcp-server", "--mock-config", mock_file(home, &server.name)],
        }),
        Transport::Http => json!({ "transport": "http", "url": reach.url(&server.name) }),
        Transport::Sse => json!({ "transport": "sse", "url": reach.url(&server.name) }),
    };
    keys["name"] = server.name.as_str().into();
    keys["start"] = "eager".into();
    keys["session"] = "shared".into();
    let optional = [("prefix", &server.prefix), ("description", &server.description)];
    for (key, value) in optional.into_iter().filter_map(|(key, value)| Some((key, value.clone()?))) {
        keys[key] = value.into();
    }
    if let Some(family) = &server.family {
        keys["family"] = family.clone();
    }
    for (key, value) in &server.definition {
        keys[key.as_str()] = value.clone();
    }
    keys
}

/// Where a definition lies. Its name comes from the scenario and must not lead out of the folder.
fn definition(folder: &str, name: &str) -> io::Result<String> {
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
        return Err(io::Error::other(format!("`{name}` cannot be the name of a file")));
    }
    Ok(format!("{folder}/{name}.yaml"))
}

fn put(home: &Path, path: &str, text: &str) -> io::Result<()> {
    let relative = Path::new(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(io::Error::other(format!("`{path}` does not lie in the home")));
    }
    let file = home.join(relative);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(file, text)
}
