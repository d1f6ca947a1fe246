//! Advice for a server that does not answer: what its administrator can do, and what its caller reads.

use toolcrib_call::servers::registry_entry_of;
use toolcrib_catalog::{SecretRef, ServerDefinition, Transport};
use toolcrib_upstream::{State, Status, stderr_apart};
use toolcrib_view::ServerEntry;

/// What a person can do about a server.
pub(crate) fn advice(running: &ServerEntry) -> String {
    if running.server.status().state == State::Ready && !running.server.unanswered().is_empty() {
        let name = &running.definition.name;
        return format!(
            "its tools answer, but calls that were given up may still run in it: `toolcrib server restart {name}` ends them"
        );
    }
    advice_for(&running.definition, &running.server.status(), toolcrib_call::servers::install::runner(running))
}

/// The same of a definition and a status; `runner` installs its program.
fn advice_for(definition: &ServerDefinition, status: &Status, runner: Option<&str>) -> String {
    let name = &definition.name;
    match status.state {
        State::Ready => "nothing: its tools answer".to_owned(),
        State::Idle => "nothing: it starts at the next call".to_owned(),
        State::Starting => "wait: it is being started".to_owned(),
        State::Installing => {
            let runner = runner.unwrap_or("its program");
            format!("wait: {runner} downloads it, which may take minutes")
        }
        State::Stopped => format!("start it with `toolcrib server start {name}`"),
        // It goes on by itself with the credential.
        State::NeedsLogin => login(definition),
        State::Failed => {
            let remedy = remedy_for(definition, status);
            format!("{remedy}, then `toolcrib server restart {name}`; it said more in `state/logs/{name}.log`")
        }
    }
}

/// What removes the reason why a server failed last, whatever it is doing now.
pub(crate) fn remedy(running: &ServerEntry) -> String {
    remedy_for(&running.definition, &running.server.status())
}

fn remedy_for(definition: &ServerDefinition, status: &Status) -> String {
    let name = &definition.name;
    let (failed, _) = stderr_apart(status.last_error.as_deref().unwrap_or_default());
    if status.state == State::NeedsLogin {
        return login(definition);
    }
    if status.half_written.is_some() {
        return "remove the incomplete installation with `toolcrib doctor --fix`".to_owned();
    }
    if failed.contains("not set") || failed.contains("secret") {
        return format!("give the secret that `servers/{name}.yaml` refers to");
    }
    if matches!(definition.transport, Transport::Stdio(_)) {
        let is_missing = failed.contains("no such program") || failed.contains("cannot run");
        return if is_missing {
            format!("install its program, or correct `command` in `servers/{name}.yaml`")
        } else {
            format!("fix `servers/{name}.yaml` or the program it runs")
        };
    }
    if failed.contains("cannot be resolved") {
        return format!("check the host in `url` in `servers/{name}.yaml`, and this machine's network");
    }
    if failed.contains("HTTP status 401") || failed.contains("HTTP status 403") {
        return credential(definition);
    }
    format!("check that its address answers, and its headers in `servers/{name}.yaml`")
}

/// What to do about a server that refuses us without asking for a login.
fn credential(definition: &ServerDefinition) -> String {
    let name = &definition.name;
    let (Transport::Http(remote) | Transport::Sse(remote)) = &definition.transport else { return String::new() };
    if remote.headers.is_empty() {
        return format!(
            "it requires a credential, but `servers/{name}.yaml` has none: set one with `toolcrib secret set \
             {name}-key` \
             and write `headers: {{Authorization: \"vault:{name}-key\"}}`"
        );
    }
    if remote.user_headers().next().is_some() {
        return format!(
            "it does not accept a value that you gave for its headers: delete it with `toolcrib logout {name}`, and give \
             another with `toolcrib login {name}`"
        );
    }
    let headers: Vec<String> = remote.headers.keys().map(|header| format!("`{header}`")).collect();
    let references: Vec<String> = remote.headers.values().filter_map(reference).collect();
    let from = if references.is_empty() { String::new() } else { format!(" (from {})", references.join(", ")) };
    format!("it does not accept the credential in {}{from} of `servers/{name}.yaml`: renew it", headers.join(", "))
}

/// Where a secret lies, as the definition writes it.
fn reference(secret: &SecretRef) -> Option<String> {
    (!matches!(secret, SecretRef::Literal(_))).then(|| format!("`{secret}`"))
}

/// What to do about a server that wants a login; the second way is a key, as the registry knows it.
fn login(definition: &ServerDefinition) -> String {
    let name = &definition.name;
    let keys = registry_entry_of(definition).into_iter().flat_map(|entry| &entry.authorization.variables);
    let ways: Vec<String> = keys
        .filter_map(|key| {
            let header = key.header.as_ref()?;
            let link = key.help_url.as_ref().map(|link| format!(" (see {})", link.as_str())).unwrap_or_default();
            Some(format!("`{header}: \"vault:{}\"`{link}", key.name))
        })
        .collect();
    if ways.is_empty() {
        return format!(
            "log in with `toolcrib login {name}`; if its service gives out keys, you can write one under `headers` in \
             `servers/{name}.yaml` instead"
        );
    }
    let ways = ways.join(" or ");
    format!("log in with `toolcrib login {name}`, or write {ways} under `headers` in `servers/{name}.yaml`")
}

#[cfg(test)]
mod tests;
