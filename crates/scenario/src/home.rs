//! Writes the home of a scenario's gateway: definitions in the gateway's own layout.

mod identity;

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::provider::Provider;
use crate::scenario::{Form, Scenario, Server, Transport};

pub(crate) use identity::{BROKER, BROKER_SECRET, GatewayIssuer, SECRET, broker, settings};

/// Where the files of mock servers over stdio are in the home.
const MOCKS: &str = "mocks";
/// The settings in the home.
const SETTINGS: &str = "config.toml";

/// How the mock servers of a scenario are reached.
pub(crate) trait Reach {
    /// The URL of one that speaks HTTP.
    fn url(&self, server: &str) -> Option<String>;

    /// A mock provider.
    fn provider(&self, name: &str) -> Option<&Provider>;

    /// The settings of the gateway, where the scenario needs any.
    fn settings(&self) -> Option<String>;
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
        if let Some(protection) = &server.protection {
            let exchange = protection.exchange.as_ref().and_then(|exchange| exchange.provider.as_ref());
            for (provider, ending) in [(protection.provider.as_ref(), ""), (exchange, identity::OF_EXCHANGE)] {
                let provider = provider.and_then(|name| reach.provider(name));
                if let Some(secret) = provider.and_then(|provider| provider.settings().client_secret.as_ref()) {
                    let folder = home.join(identity::SECRETS);
                    std::fs::create_dir_all(&folder)?;
                    private(&folder.join(format!("{}{ending}", server.name)), secret)?;
                }
            }
        }
    }
    for (folder, name, value) in &scenario.setup.definitions {
        put(home, &definition(folder, name)?, &value.to_string())?;
    }
    for (path, text) in &scenario.setup.files {
        put(home, path, text)?;
    }
    if let Some(settings) = reach.settings() {
        // What the scenario sets itself stands before it.
        let own = scenario.setup.files.iter().find(|(path, _)| path == SETTINGS).map(|(_, text)| text.as_str());
        put(home, SETTINGS, &format!("{}{settings}", own.unwrap_or_default()))?;
    }
    Ok(())
}

/// The names of all profiles.
pub(crate) fn profile_names(scenario: &Scenario) -> Vec<String> {
    profiles(scenario).into_iter().map(|(name, _)| name).collect()
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
        Transport::Stdio if server.is_real => json!({ "transport": "stdio" }),
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
        let argument = family.get("instanceArg").or_else(|| family.get("instance_arg"));
        keys["family"] = json!({ "name": family["name"], "instance_arg": argument });
    }
    if let Some(protection) = &server.protection {
        keys["auth"] = identity::auth(&server.name, protection, reach).into();
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

/// Writes a file that only its owner reads.
pub(crate) fn private(file: &Path, text: &str) -> io::Result<()> {
    let mut open = std::fs::OpenOptions::new();
    open.write(true).create(true).truncate(true).mode(0o600).open(file)?.write_all(text.as_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Nowhere;

    impl Reach for Nowhere {
        fn url(&self, _: &str) -> Option<String> {
            None
        }

        fn provider(&self, _: &str) -> Option<&Provider> {
            None
        }

        fn settings(&self) -> Option<String> {
            None
        }
    }

    fn home(text: &str) -> Result<tempfile::TempDir, String> {
        let scenario = crate::scenario::read(Path::new("s.yaml"), text).unwrap();
        let home = tempfile::tempdir().unwrap();
        write(home.path(), &scenario, Path::new("/bin/toolcrib"), &Nowhere).map_err(|error| error.to_string())?;
        Ok(home)
    }

    fn value(home: &tempfile::TempDir, path: &str) -> Value {
        serde_json::from_str(&std::fs::read_to_string(home.path().join(path)).unwrap()).unwrap()
    }

    #[test]
    fn everything_stands_where_the_gateway_looks() {
        let home = home(
            "
name: n
pre_configuration:
  mcp_servers: [{name: m, config: {toolPrefix: p, tools: [{name: t}], definition: {start: lazy}}}]
  workflows: [{name: w, config: {steps: [{id: a, tool: t}], required: [x]}}]
  service_classes: [{name: c, serviceConfig: {serviceType: x}}]
  services: [{name: s, serviceClassName: c}]
  profiles: [{name: other, config: {read_only: true}}]
  files: {registry/r.yaml: 'name: r'}
steps: [{tool: t}]
",
        )
        .unwrap();
        let server = value(&home, "servers/m.yaml");
        assert_eq!((&server["prefix"], &server["start"]), (&json!("p"), &json!("lazy")));
        assert_eq!(server["args"][1], "--mock-mcp-server");
        assert_eq!(value(&home, "mocks/m.json")["tools"][0]["name"], "t");
        assert_eq!(value(&home, "workflows/w.yaml"), json!({"steps": [{"id": "a", "tool": "t"}], "name": "w"}));
        assert_eq!(value(&home, "service-classes/c.yaml")["serviceConfig"]["serviceType"], "x");
        assert_eq!(value(&home, "services/s.yaml")["serviceClassName"], "c");
        assert_eq!(value(&home, "profiles/default.yaml")["dialect"], "muster");
        let other = value(&home, "profiles/other.yaml");
        assert_eq!((&other["dialect"], &other["read_only"]), (&json!("muster"), &json!(true)));
        assert_eq!(std::fs::read_to_string(home.path().join("registry/r.yaml")).unwrap(), "name: r");
    }

    #[test]
    fn a_scenario_writes_nowhere_else() {
        for (what, part) in [
            ("mcp_servers: [{name: ../x, config: {tools: []}}]", "cannot be the name"),
            ("workflows: [{name: a/b, config: {}}]", "cannot be the name"),
            ("services: [{name: .hidden}]", "cannot be the name"),
            ("files: {../x: y}", "does not lie in the home"),
            ("files: {/etc/x: y}", "does not lie in the home"),
        ] {
            let error = home(&format!("name: n\npre_configuration: {{{what}}}\nsteps: [{{tool: t}}]\n")).unwrap_err();
            assert!(error.contains(part), "{what}: {error}");
        }
    }

    #[test]
    fn scooter_s_profile_finds_what_the_scenario_requires() {
        let text = "name: n\nrequires: {registry: [clock]}\nsteps: [{action: initialize}]\n";
        let profile = value(&home(text).unwrap(), "profiles/default.yaml");
        assert_eq!((&profile["dialect"], &profile["exposure"]), (&json!("scooter"), &json!("dynamic")));
        assert_eq!(profile["registry"], json!(["clock"]));
    }
}
