//! A server's definition in muster's form: flat arguments, as its `core_mcpserver_create` takes them. What they say is
//! written as a definition of ours; what belongs to another transport is left out, and reported.

use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::DefinitionId;
use toolcrib_protocol::Raw;

/// The arguments of muster's form beside `name`, as properties of a schema.
macro_rules! flat_properties {
    () => {
        r#""type":{"type":"string","description":"stdio, streamable-http or sse"},"command":{"type":"string","description":"The program to start (stdio)"},"args":{"type":"array","items":{"type":"string"},"description":"Its arguments (stdio)"},"env":{"type":"object","additionalProperties":{"type":"string"},"description":"Its environment (stdio): texts, or references such as env:KEY and vault:KEY"},"url":{"type":"string","description":"The address (streamable-http, sse)"},"headers":{"type":"object","additionalProperties":{"type":"string"},"description":"Headers of every request (streamable-http, sse): texts or references"},"timeout":{"type":"integer","minimum":1,"maximum":300,"description":"Seconds for connecting and for one call"},"toolPrefix":{"type":"string","description":"Stands before the names of its tools in place of its own name"},"family":{"type":"object","properties":{"name":{"type":"string"},"instanceArg":{"type":"string"}},"required":["name","instanceArg"],"additionalProperties":false,"description":"Servers with the same tools, shown as one"},"description":{"type":"string","maxLength":500},"autoStart":{"type":"boolean","description":"true: started with the gateway; otherwise when somebody says so"},"auth":{"type":"object","description":"How callers are proven to a remote server","properties":{"type":{"type":"string","enum":["oauth","teleport","none","client_credentials","enterprise","workload"]},"client_id":{"type":"string","description":"A client that was registered by hand"},"client_secret":{"type":"string","description":"Its secret: a reference such as vault:KEY"},"redirect_uri":{"type":"string"},"scopes":{"type":["array","string"],"items":{"type":"string"},"description":"A list, or words with spaces in between"},"issuer":{"type":"string"},"private":{"type":"boolean","description":"true: the issuer may have a private address"},"share":{"type":"array","items":{"type":"string"},"description":"Profiles whose keys use the owner's login"},"forwardToken":{"type":"boolean"},"fallbackToOwnAuth":{"type":"boolean"},"requiredAudiences":{"type":"array","items":{"type":"string"}},"anyAudience":{"type":"boolean"},"token_endpoint":{"type":"string"},"private_key":{"type":"string","description":"A reference such as vault:KEY"},"key_id":{"type":"string"},"assertion":{"type":"string","description":"A reference such as file:/var/run/token"},"identityProvider":{"type":"object","properties":{"tokenEndpoint":{"type":"string"},"clientId":{"type":"string"},"clientSecret":{"type":"string"},"idToken":{"type":"string"}},"additionalProperties":false},"teleport":{"type":"object","properties":{"appName":{"type":"string"},"identityDir":{"type":"string"},"identitySecretName":{"type":"string"},"identitySecretNamespace":{"type":"string"}},"additionalProperties":false},"tokenExchange":{"type":"object","properties":{"enabled":{"type":"boolean"},"dexTokenEndpoint":{"type":"string"},"expectedIssuer":{"type":"string"},"connectorId":{"type":"string"},"connectorID":{"type":"string"},"clientId":{"type":"string"},"clientSecret":{"type":"string"},"scopes":{"type":"string"},"clientCredentialsSecretRef":{"type":"object","properties":{"name":{"type":"string"},"namespace":{"type":"string"},"clientIdKey":{"type":"string"},"clientSecretKey":{"type":"string"}},"additionalProperties":false}},"additionalProperties":false},"authorizationServer":{"type":"object","properties":{"issuer":{"type":"string"},"scopes":{"type":"string"}},"additionalProperties":false}},"additionalProperties":false}"#
    };
}
pub(super) use flat_properties;

/// The arguments of muster's form.
const KEYS: [&str; 12] = [
    "type",
    "command",
    "args",
    "env",
    "url",
    "headers",
    "timeout",
    "toolPrefix",
    "family",
    "description",
    "autoStart",
    "auth",
];
/// What only programs have, in our words.
const OF_PROGRAMS: [&str; 5] = ["command", "args", "env", "inherit_env", "cwd"];
/// What only remote servers have.
const OF_REMOTES: [&str; 3] = ["url", "headers", "auth"];
/// Headers that the protocol sets itself; others send them along, and they change nothing.
const HARMLESS: [&str; 2] = ["accept", "content-type"];

/// A definition that was made of flat arguments.
#[derive(Debug)]
pub(super) struct Flat {
    /// The text of the file.
    pub(super) text: String,
    /// The arguments that say nothing for a server of this type.
    pub(super) ignored: Vec<String>,
}

/// Whether the arguments are in muster's form. One that mixes both forms is told so.
pub(super) fn is_flat(arguments: &Raw) -> Result<bool, Problem> {
    let given = |keys: &[&'static str]| keys.iter().copied().find(|key| arguments.get(key).is_some());
    match (given(&["definition", "yaml"]), given(&KEYS)) {
        (Some(ours), Some(flat)) => {
            Err(Problem::new(Kind::InvalidParams, format!("`{ours}` and `{flat}` are mutually exclusive"))
                .hint("Give the whole definition, or `type` with `command` or `url`."))
        }
        (Some(_), None) => Ok(false),
        (None, _) => Ok(true),
    }
}

/// A new definition.
pub(super) fn new(which: &DefinitionId, arguments: &Raw) -> Result<Flat, Problem> {
    let given = arguments.to_value();
    if given.get("type").is_none() {
        return Err(Problem::new(Kind::InvalidParams, "required field `type` is missing")
            .hint("Give `type` (stdio, streamable-http, sse), or the whole `definition` or `yaml`."));
    }
    write(which, Map::new(), &given)
}

/// The definition as it is, with what the arguments say.
pub(super) fn changed(which: &DefinitionId, before: Value, arguments: &Raw) -> Result<Flat, Problem> {
    if KEYS.iter().all(|key| arguments.get(key).is_none()) {
        return Err(Problem::new(Kind::InvalidParams, "nothing to change")
            .hint("Give `type`, `command`, `url` …, or the whole `definition` or `yaml` with its `revision`."));
    }
    let Value::Object(before) = before else {
        return Err(Problem::new(Kind::Definition, format!("the definition of `{}` is not a map", which.name())));
    };
    write(which, before, &arguments.to_value())
}

fn write(which: &DefinitionId, mut definition: Map<String, Value>, given: &Value) -> Result<Flat, Problem> {
    let transport = transport(&definition, given)?;
    let is_remote = transport != "stdio";
    definition.insert("transport".to_owned(), transport.into());
    let (own, foreign): (&[&str], &[&str]) =
        if is_remote { (&OF_REMOTES, &OF_PROGRAMS) } else { (&OF_PROGRAMS, &OF_REMOTES) };
    definition.retain(|key, _| !foreign.contains(&key.as_str()));
    let mut ignored: Vec<String> = foreign
        .iter()
        .filter(|key| **key != "auth" && given.get(**key).is_some())
        .map(|key| (*key).to_owned())
        .collect();
    for key in own.iter().filter(|key| **key != "auth") {
        if let Some(value) = given.get(*key) {
            definition.insert((*key).to_owned(), value.clone());
        }
    }
    if let Some(headers) = definition.get_mut("headers").and_then(Value::as_object_mut) {
        let harmless = |name: &String| HARMLESS.contains(&name.to_ascii_lowercase().as_str());
        ignored.extend(headers.keys().filter(|name| harmless(name)).map(|name| format!("headers.{name}")));
        headers.retain(|name, _| !harmless(name));
    }
    needs(&definition, if is_remote { "url" } else { "command" }, given, transport)?;
    settings(&mut definition, given);
    if let Some(wanted) = given.get("auth") {
        let is_none = wanted["type"] == "none" && wanted.as_object().is_some_and(|members| members.len() == 1);
        match is_none {
            true => definition.remove("auth"),
            false => definition.insert("auth".to_owned(), wanted.clone()),
        };
    }
    Ok(Flat { text: which.text_of(&Value::Object(definition)), ignored })
}

/// The transport in our word: what is said, else what is there.
fn transport(definition: &Map<String, Value>, given: &Value) -> Result<&'static str, Problem> {
    let word = match given.get("type").and_then(Value::as_str) {
        Some(word) => word,
        None => definition.get("transport").and_then(Value::as_str).unwrap_or("stdio"),
    };
    match word {
        "stdio" => Ok("stdio"),
        "streamable-http" | "http" => Ok("http"),
        "sse" => Ok("sse"),
        other => {
            let shown: String = other.chars().take(64).collect();
            let message = format!("`type` is invalid: `{shown}`; expected `stdio`, `streamable-http` or `sse`");
            Err(Problem::new(Kind::InvalidParams, message))
        }
    }
}

/// What its transport cannot do without.
fn needs(definition: &Map<String, Value>, key: &str, given: &Value, transport: &str) -> Result<(), Problem> {
    if definition.get(key).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty()) {
        return Ok(());
    }
    let kind = given["type"].as_str().unwrap_or(transport);
    Err(Problem::new(Kind::InvalidParams, format!("`{key}` is required for type `{kind}`")))
}

/// What every server may have.
fn settings(definition: &mut Map<String, Value>, given: &Value) {
    for (theirs, ours) in [("description", "description"), ("toolPrefix", "prefix")] {
        match given.get(theirs).and_then(Value::as_str) {
            Some("") => drop(definition.remove(ours)),
            Some(text) => drop(definition.insert(ours.to_owned(), text.into())),
            None => {}
        }
    }
    if let Some(family) = given.get("family") {
        let family = json!({ "name": family["name"], "instance_arg": family["instanceArg"] });
        definition.insert("family".to_owned(), family);
    }
    if let Some(seconds) = given.get("timeout").and_then(Value::as_u64) {
        let period = Value::from(format!("{seconds}s"));
        let timeouts = definition.entry("timeouts").or_insert_with(|| json!({}));
        timeouts["connect"] = period.clone();
        timeouts["call"] = period;
    }
    let is_new = !definition.contains_key("start");
    match given.get("autoStart").and_then(Value::as_bool) {
        Some(true) => drop(definition.insert("start".to_owned(), "eager".into())),
        Some(false) => drop(definition.insert("start".to_owned(), "manual".into())),
        // In muster a server that no one said to start is not started.
        None if is_new => drop(definition.insert("start".to_owned(), "manual".into())),
        None => {}
    }
    if definition.get("start").is_some_and(|start| start != "lazy") {
        definition.remove("idle");
    }
}
