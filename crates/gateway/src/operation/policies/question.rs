//! A question of an administrator: what would become of this request? Read from the arguments of `core_policy_explain` and
//! from the cases of `core_policy_test`.

use serde_json::Value;
use toolcrib_base::{CallChain, Identity, Kind, PrincipalId, Problem, ProfileName, Proof, Role, ServerName, ToolId};
use toolcrib_base::{Timestamp, nearest::nearest};
use toolcrib_policy::{Act, Annotations, Reference};

use super::{EXPLAIN_INPUT, hints_of};
use crate::gateway::Gateway;

/// The doors that requests come by.
const DOORS: [&str; 5] = ["mcp", "rest", "page", "errand", "service"];
/// What can be done, by the argument that names what it is done to.
const ACTS: [&str; 8] = ["tool", "operation", "resource", "prompt", "approve", "complete", "forward", "configure"];
/// What a case has beside the arguments of `core_policy_explain`.
const OF_CASES: [&str; 2] = ["name", "expect"];

/// What is asked.
pub(super) struct Question {
    pub(super) principal: PrincipalId,
    pub(super) role: Role,
    pub(super) identity: Identity,
    pub(super) profile: ProfileName,
    pub(super) door: &'static str,
    pub(super) act: Act,
    pub(super) arguments: Option<String>,
    pub(super) bridge: Option<String>,
    pub(super) chain: CallChain,
    pub(super) at: Option<Timestamp>,
}

// === impl Question ===

impl Question {
    /// That of a case: a key that means nothing would make the case say less than it seems to.
    pub(super) fn of_case(gateway: &Gateway, value: &Value) -> Result<Self, Problem> {
        let schema: Value = serde_json::from_str(EXPLAIN_INPUT).expect("it is a constant that a test reads");
        let properties = schema["properties"].as_object().into_iter().flat_map(|it| it.keys());
        let known: Vec<&str> = properties.map(String::as_str).filter(|key| *key != "files").chain(OF_CASES).collect();
        if let Some(key) = value.as_object().into_iter().flat_map(|it| it.keys()).find(|key| !known.contains(&&***key))
        {
            let problem = invalid(format!("`{key}` is no key of a case"));
            return Err(match nearest(key, known.iter().copied()) {
                Some(near) => problem.hint(format!("Did you mean `{near}`?")),
                None => problem.hint(format!("There are {}.", known.join(", "))),
            });
        }
        Self::read(gateway, value)
    }

    pub(super) fn read(gateway: &Gateway, value: &Value) -> Result<Self, Problem> {
        let text = |key: &str| value[key].as_str();
        let principal = text("as").ok_or_else(|| invalid("`as` is missing: name a principal".to_owned()))?;
        let role = text("role").unwrap_or("member");
        let role: Role = role.parse().map_err(|error| invalid(format!("role `{role}` is unknown: {error}")))?;
        let profile = text("profile").unwrap_or("default");
        let profile = ProfileName::new(profile).map_err(|error| invalid(error.to_string()))?;
        let door = text("door").unwrap_or(DOORS[0]);
        let door = DOORS.into_iter().find(|it| *it == door).ok_or_else(|| one_of("door", door, DOORS))?;
        let chain = CallChain {
            workflow: text("workflow").map(Into::into),
            run: text("run").map(Into::into),
            labels: texts(value, "labels")?.into_iter().collect(),
        };
        let no_time = |at: &str| {
            invalid(format!("`at: {at}` is no time")).hint("Write RFC 3339, such as `2026-11-20T12:00:00Z`.")
        };
        let at = text("at").map(|at| Timestamp::parse(at).ok_or_else(|| no_time(at))).transpose()?;
        let principal = PrincipalId::new(principal);
        Ok(Self {
            role,
            identity: identity(gateway, &principal, value)?,
            profile,
            door,
            act: act(gateway, value)?,
            bridge: text("bridge").map(str::to_owned),
            chain,
            arguments: value.get("arguments").filter(|it| it.is_object()).map(Value::to_string),
            at,
            principal,
        })
    }

    /// Whether something is known of the call but its arguments.
    pub(super) fn says_when(&self) -> bool {
        self.at.is_some() || self.chain != CallChain::default() || self.bridge.is_some()
    }
}

fn identity(gateway: &Gateway, principal: &PrincipalId, value: &Value) -> Result<Identity, Problem> {
    let text = |key: &str| value[key].as_str();
    let proof = match text("proof") {
        Some(proof) => Proof::named(proof).ok_or_else(|| one_of("proof", proof, Proof::ALL.map(Proof::as_str)))?,
        None => usual_proof(principal),
    };
    let issuer =
        ["user:", "service:"].iter().find_map(|prefix| principal.as_str().strip_prefix(prefix)?.split_once('/'));
    Ok(Identity {
        issuer: issuer.map(|(issuer, _)| issuer.into()),
        groups: texts(value, "groups")?,
        client: text("client").map(Into::into),
        tenant: text("tenant").map(Into::into),
        session: text("session").map(Into::into),
        // A key is halted with the user that its profile says it belongs to.
        user: Some(crate::operation::approvals::user_of(gateway, principal)).filter(|user| user != principal),
        actors: text("actor").map(Into::into).into_iter().collect(),
        ..Identity::by(proof)
    })
}

/// How a principal of this kind is proven, if nothing else is said.
fn usual_proof(principal: &PrincipalId) -> Proof {
    let kinds = [
        ("key:", Proof::Key),
        ("cert:", Proof::Certificate),
        ("user:", Proof::AccessToken),
        ("service:", Proof::AccessToken),
    ];
    match principal.as_str() {
        "admin" => Proof::GatewayToken,
        "local" => Proof::Loopback,
        name => kinds.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map_or(Proof::AccessToken, |(_, it)| it),
    }
}

fn act(gateway: &Gateway, value: &Value) -> Result<Act, Problem> {
    let named: Vec<(&str, &str)> = ACTS.into_iter().filter_map(|key| Some((key, value[key].as_str()?))).collect();
    let [(key, target)] = named[..] else {
        return Err(invalid(format!("name one of `{}`", ACTS.join("`, `"))));
    };
    let server = |name: &str| ServerName::new(name).map_err(|error| invalid(error.to_string()));
    let split = |at: char, shape: &str| {
        target.split_once(at).ok_or_else(|| invalid(format!("`{key}: {target}` does not say which: write `{shape}`")))
    };
    Ok(match key {
        "tool" => {
            let (tool, annotations) = tool(gateway, target)?;
            Act::CallTool { tool, annotations }
        }
        "approve" => {
            let (tool, annotations) = tool(gateway, target)?;
            Act::Approve { tool, annotations }
        }
        "operation" => {
            let name = target.trim_start_matches("core_");
            let known = gateway.operations.iter().find(|it| it.tool.trim_start_matches("core_") == name);
            known.ok_or_else(|| invalid(format!("operation `{name}` does not exist")))?.act()
        }
        "resource" => {
            let (name, uri) = split(' ', "server uri")?;
            Act::ReadResource { server: server(name)?, uri: uri.into() }
        }
        "prompt" => {
            let (name, prompt) = split('/', "server/prompt")?;
            Act::GetPrompt { server: server(name)?, name: prompt.into() }
        }
        // The name of a server has no space in it, and that of a prompt may have a slash.
        "complete" if target.contains(' ') && target.find(' ') < target.find('/') => {
            let (name, uri) = split(' ', "server uri")?;
            Act::Complete { server: server(name)?, of: Reference::Resource, name: uri.into() }
        }
        "complete" => {
            let (name, prompt) = split('/', "server/prompt` or `server uri")?;
            Act::Complete { server: server(name)?, of: Reference::Prompt, name: prompt.into() }
        }
        "forward" => {
            let (name, method) = split(' ', "server method")?;
            Act::Forward { server: server(name)?, method: method.into() }
        }
        _ => {
            let loaded = gateway.loaded();
            let entry = loaded.registry.keys().find(|it| it.as_str() == target);
            let missing = || {
                invalid(format!("entry `{target}` does not exist")).hint("Find its name with `toolcrib registry list`.")
            };
            Act::Configure { entry: entry.ok_or_else(missing)?.clone() }
        }
    })
}

fn tool(gateway: &Gateway, id: &str) -> Result<(ToolId, Annotations), Problem> {
    let tool = ToolId::parse(id).ok_or_else(|| invalid(format!("`{id}` is no id: write `server/tool`")))?;
    let annotations = hints_of(gateway, &tool)
        .ok_or_else(|| invalid(format!("tool `{id}` does not exist")).hint("Find its id with `toolcrib find`."))?;
    Ok((tool, annotations))
}

fn texts(value: &Value, key: &str) -> Result<Vec<Box<str>>, Problem> {
    match &value[key] {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => {
            let texts: Option<Vec<Box<str>>> = items.iter().map(|it| it.as_str().map(Into::into)).collect();
            texts.ok_or_else(|| invalid(format!("`{key}` must be a list of texts")))
        }
        _ => Err(invalid(format!("`{key}` must be a list of texts"))),
    }
}

fn one_of<const N: usize>(what: &str, name: &str, known: [&str; N]) -> Problem {
    invalid(format!("{what} `{name}` is unknown")).hint(format!("There are {}.", known.join(", ")))
}

fn invalid(message: String) -> Problem {
    Problem::new(Kind::InvalidParams, message)
}
