//! Explains why a tool is visible or hidden: the way from a definition to a profile's tools, step by step, for
//! administrators.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolcrib_base::nearest::similar;
use toolcrib_base::{Identity, Kind, PrincipalId, Problem, ProfileName, Proof, Role, ToolId};
use toolcrib_catalog::pin::{Item, Part};
use toolcrib_catalog::{ChangedTools, DefinitionId};
use toolcrib_policy::{Act, Annotations, Caller, Moment, Outlook, PolicyVerdict, Request, Subject};
use toolcrib_protocol::inventory::Entry;
use toolcrib_upstream::{State, stderr_apart};
use toolcrib_view::ServerEntry;
use toolcrib_view::view::{View, annotations, digest};

use crate::advice::{advice, remedy};
use crate::gateway::Gateway;
use crate::operation;
use toolcrib_view::resolve;

/// One step of the way.
struct Step {
    what: &'static str,
    ok: bool,
    text: String,
    /// Where the rule stands that hides it, if a key of the profile does.
    rule: Option<RulePlace>,
}

/// Where a rule of a profile stands.
struct RulePlace {
    profile: ProfileName,
    key: &'static str,
    /// None for a profile that is built in.
    file: Option<PathBuf>,
    /// None where the file does not have the key, so that its default counts.
    line: Option<u32>,
}

impl Step {
    /// The tool gets past it.
    fn passed(what: &'static str, text: impl Into<String>) -> Self {
        Self { what, ok: true, text: text.into(), rule: None }
    }

    /// It hides the tool.
    fn stopped(what: &'static str, text: impl Into<String>) -> Self {
        Self { what, ok: false, text: text.into(), rule: None }
    }
}

impl RulePlace {
    fn to_value(&self) -> Value {
        let mut value = json!({ "key": self.key });
        if let Some(file) = &self.file {
            value["file"] = file.display().to_string().into();
        }
        if let Some(line) = self.line {
            value["line"] = line.into();
        }
        value
    }
}

impl fmt::Display for RulePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (None, _) => write!(f, "the built-in profile `{}`", self.profile),
            (Some(file), Some(line)) => write!(f, "{}:{line}", file.display()),
            (Some(file), None) => write!(f, "{} has no `{}`, so the default applies", file.display(), self.key),
        }
    }
}

impl Gateway {
    /// Walks the way of a tool to a profile and names what hides it. `name` is an exact id or a name of the profile. Reads
    /// the profile's file for the line: not for the thread of an async runtime.
    ///
    /// # Errors
    /// There is no such profile.
    pub fn explain(&self, profile: &str, name: &str) -> Result<Value, Problem> {
        let view = self.view(profile).ok_or_else(|| {
            let shown: String = profile.chars().take(128).collect();
            Problem::new(Kind::NotFound, format!("no profile `{shown}`")).hint("see all with `toolcrib list profiles`")
        })?;
        let shown: String = name.chars().take(256).collect();
        let mut steps = Vec::new();
        let id = self.walk(&view, name, &mut steps);
        let visible = steps.iter().all(|step| step.ok);
        let stopped = steps.iter().find(|step| !step.ok);
        let hidden_by = stopped.map(|step| step.text.clone());
        let rule = stopped.and_then(|step| step.rule.as_ref()).map(RulePlace::to_value);
        let steps: Vec<Value> =
            steps.iter().map(|step| json!({ "step": step.what, "ok": step.ok, "text": step.text })).collect();
        let near: Vec<String> = if visible || id.is_some() {
            Vec::new()
        } else {
            let table = self.path.servers.table();
            let ids: Vec<String> = table
                .values()
                .flat_map(|running| {
                    let inventory = running.server.inventory();
                    let ids = inventory.tools.iter().map(|tool| format!("{}/{}", running.definition.name, tool.key));
                    ids.collect::<Vec<_>>()
                })
                .collect();
            similar(name, ids.iter().map(String::as_str)).into_iter().map(str::to_owned).collect()
        };
        Ok(json!({
            "tool": id.map_or(shown, |id| id.to_string()), "profile": profile, "visible": visible,
            "hiddenBy": hidden_by, "rule": rule, "steps": steps, "nearest": near,
        }))
    }

    /// Gives the id when there is such a tool.
    fn walk(&self, view: &View, name: &str, steps: &mut Vec<Step>) -> Option<ToolId> {
        let by_name = view.tool(name).map(|tool| tool.id.clone());
        let Some(id) = by_name.clone().or_else(|| self.guess(name)) else {
            steps.push(Step::stopped("name", "no server has a tool of this id, and the profile none of this name"));
            return None;
        };
        let table = self.path.servers.table();
        let Some(running) = table.get(&id.server) else {
            steps.push(Step::stopped("definition", self.undefined(view, &id)));
            return None;
        };
        let file = format!("servers/{}.yaml", id.server);
        steps.push(Step::passed("definition", format!("server `{}` is defined in {file}", id.server)));
        steps.push(state(running));
        let inventory = running.server.inventory();
        let Some(entry) = inventory.tools.iter().find(|tool| *tool.key == *id.tool) else {
            steps.push(Step::stopped("snapshot", missing(running, &id)));
            // A tool of the gateway's own for sessions has no entry.
            return by_name;
        };
        let status = running.server.status();
        let seen = if status.state == State::Ready { "lists it" } else { "listed it when it was last seen" };
        steps.push(Step::passed("snapshot", format!("server `{}` {seen}", id.server)));
        let passes = self.rules(view, &id, entry, steps);
        if passes {
            steps.push(self.held(view, running, entry));
            steps.extend(self.by_policies(view, &id, entry));
        }
        if passes && by_name.is_none() && view.tool_by_id(&id).is_none() && steps.iter().all(|step| step.ok) {
            let why = "the view omits it: no client could call its definition (see the log)";
            steps.push(Step::stopped("view", why));
        }
        if let Some(tool) = view.tool_by_id(&id) {
            steps.push(exposure(view, tool));
        }
        steps.extend(limits(view, running, &id));
        Some(id)
    }

    /// The id that a text stands for when the profile has no such name: exact, or `server_tool`.
    fn guess(&self, name: &str) -> Option<ToolId> {
        let table = self.path.servers.table();
        if let Some(id) = ToolId::parse(name) {
            return Some(id);
        }
        table.values().find_map(|running| {
            let prefix = running.definition.prefix.as_deref().unwrap_or(running.definition.name.as_str());
            let tool = name.strip_prefix(prefix)?.strip_prefix('_')?;
            let known = running.server.inventory().tools.iter().any(|it| *it.key == *tool);
            known.then(|| ToolId::new(running.definition.name.clone(), tool))
        })
    }

    fn undefined(&self, view: &View, id: &ToolId) -> String {
        if !view.available.of_server(id.server.as_str()).is_empty() {
            let load = resolve::how_to_load(view, id);
            return format!("the entry `{}` is not set up yet; set it up with {load}", id.server);
        }
        let file = format!("servers/{}.yaml", id.server);
        let loaded = self.loaded();
        let stem = Path::new("servers").join(id.server.as_str());
        let problem = loaded.problems.iter().find(|problem| problem.file.with_extension("") == stem);
        match problem {
            Some(problem) => format!("the definition is bad: {problem}"),
            None => format!("no server `{}` is defined: there is no {file}", id.server),
        }
    }

    fn rules(&self, view: &View, id: &ToolId, entry: &Entry, steps: &mut Vec<Step>) -> bool {
        let unnamed = PrincipalId::new("");
        let act = Act::CallTool { tool: id.clone(), annotations: annotations(entry) };
        let request = Request { caller: Caller { principal: &unnamed, role: Role::Member }, act: &act };
        let mut text = view.rules.explain(&request);
        let moment = Moment::at(self.path.clock.now());
        match view.rules.decide(&request, &moment) {
            Err(denial) if denial.reason == toolcrib_policy::Reason::Held => {
                steps.push(Step::passed("rules", "its other rules allow it"));
                true
            }
            Err(_) => {
                let key = view.rules.refusing_key(&request);
                let (key, pattern) = key.unzip();
                let pattern = pattern.flatten().map(toolcrib_base::Glob::as_str);
                let rule = self.place(&view.profile.name, key.unwrap_or_default(), pattern);
                text.push_str(&format!(" ({rule})"));
                steps.push(Step { rule: Some(rule), ..Step::stopped("rules", text) });
                false
            }
            Ok(_) => {
                steps.push(Step::passed("rules", text));
                true
            }
        }
    }

    /// What policies make of it for members of whom nothing else is known, and which of them.
    fn by_policies(&self, view: &View, id: &ToolId, entry: &Entry) -> Option<Step> {
        let policies = self.policies.policies()?;
        let labels = crate::policies::labels(&self.loaded());
        let annotations = Annotations { digest: Some(digest(entry)), ..annotations(entry) };
        let act = Act::CallTool { tool: id.clone(), annotations };
        let (principal, identity) = (PrincipalId::new("user:"), Identity::by(Proof::AccessToken));
        let profile = &view.profile.name;
        let subject = Subject { principal: &principal, role: Role::Member, identity: &identity, profile, door: "mcp" };
        let more = "`toolcrib policy explain` says it for others";
        Some(match policies.class(&subject).outlook(&act, &labels, None) {
            Outlook::Settled(PolicyVerdict::Permit(by)) => {
                let by =
                    by.map(|by| format!("policy `{by}` permits")).unwrap_or_else(|| "no policy is about".to_owned());
                Step::passed("policies", format!("{by} it for members; {more}"))
            }
            Outlook::Settled(PolicyVerdict::Deny { by, hidden }) => {
                let by = by.map_or_else(|| "no policy permits it".to_owned(), |by| format!("{by} refuses it"));
                match hidden {
                    true => Step::stopped("policies", format!("{by} and hides it from members; {more}")),
                    false => Step::passed("policies", format!("{by} with words for members; {more}")),
                }
            }
            Outlook::Settled(PolicyVerdict::Ask { by, .. }) => {
                Step::passed("policies", format!("{by} refuses it for members until somebody says yes; {more}"))
            }
            Outlook::Open(open) => {
                let by: Vec<String> = open.iter().map(|it| it.rule.to_string()).collect();
                Step::passed("policies", format!("for members it depends on the call, by {}; {more}", by.join(", ")))
            }
        })
    }

    /// The file and the line of a key of a profile.
    fn place(&self, profile: &ProfileName, key: &'static str, pattern: Option<&str>) -> RulePlace {
        let written = self.files.read(&DefinitionId::Profile(profile.clone())).ok().flatten();
        let line = written.as_ref().and_then(|it| toolcrib_catalog::place_of(it.text(), key, pattern));
        RulePlace { profile: profile.clone(), key, file: written.map(|it| it.file), line: line.map(|at| at.line) }
    }

    fn held(&self, view: &View, running: &ServerEntry, entry: &Entry) -> Step {
        let server = &running.definition.name;
        let item = Item::new(Part::Tool, &entry.key);
        let pin = self.path.pins.of(&running.definition);
        let approved = pin.as_ref().filter(|pin| pin.approved.is_some());
        let is_same = approved.is_some_and(|pin| pin.approves(&item, &entry.raw));
        let rejected = pin.as_ref().and_then(|pin| pin.rejection(&item, &entry.raw));
        let how = match (approved, is_same, rejected) {
            (_, _, Some((at, by))) => format!("it was rejected by `{by}` at {at}"),
            (None, ..) => format!("server `{server}` was never verified: `toolcrib verify {server}`"),
            (_, true, _) => "it is as it was approved".to_owned(),
            _ => format!("it is not as it was approved: `toolcrib verify {server}`, then `toolcrib approve {server}`"),
        };
        match view.profile.changed_tools {
            ChangedTools::Allow => Step::passed("pin", format!("the profile allows changed tools; {how}")),
            ChangedTools::Hold if is_same => Step::passed("pin", how),
            ChangedTools::Hold => {
                let rule = self.place(&view.profile.name, "changed_tools", None);
                let text = format!("held by `changed_tools: hold` ({rule}): {how}");
                Step { rule: Some(rule), ..Step::stopped("pin", text) }
            }
        }
    }

    /// How a server is, since when, what failed, the end of its stderr, and what to do. All servers when none is named.
    ///
    /// # Errors
    /// There is no such server.
    pub fn doctor(&self, server: Option<&str>) -> Result<Value, Problem> {
        let all: Vec<ServerEntry> = match server {
            Some(name) => vec![self.running(name)?],
            None => self.path.servers.table().values().cloned().collect(),
        };
        let patients: Vec<Value> = all.iter().map(|running| self.examine(running)).collect();
        let well = patients.iter().filter(|it| it["ok"] == true).count();
        let problems: Vec<Value> = self.loaded().problems.iter().map(operation::problem).collect();
        let warnings = self.configuration.warnings();
        Ok(json!({
            "servers": patients, "total": patients.len(), "well": well, "problems": problems, "warnings": warnings,
        }))
    }

    fn examine(&self, running: &ServerEntry) -> Value {
        let (status, name) = (running.server.status(), running.definition.name.as_str());
        let (_, difference) = self.standing(running, None);
        let pin = self.path.pins.of(&running.definition);
        let error = status.last_error.unwrap_or_default();
        let (what, stderr) = stderr_apart(&error);
        let mut value = json!({
            "name": name, "state": status.state.as_str(), "since": status.since.to_string(),
            "ok": matches!(status.state, State::Ready | State::Idle), "restarts": status.restarts,
            "tools": running.server.inventory().tools.len(), "advice": advice(running),
            "verifiedAt": pin.as_ref().and_then(|pin| pin.verified_at).map(|at| at.to_string()),
            "changes": pin.filter(|pin| pin.approved.is_some()).map(|_| difference.summary()),
        });
        if !what.is_empty() {
            value["failed"] = what.into();
            value["remedy"] = remedy(running).into();
        }
        let unanswered = operation::unanswered(running);
        if !unanswered.is_empty() {
            value["unanswered"] = unanswered.into();
        }
        let limited = operation::limited(running);
        if !limited.is_empty() {
            value["limited"] = limited.into();
        }
        let missing = missing_variables(running);
        if !missing.is_empty() {
            value["environment"] = json!(missing);
        }
        if !stderr.is_empty() {
            value["stderr"] = json!(stderr);
        }
        if let Some(note) = status.note {
            value["note"] = note.into();
        }
        if let Some(half) = status.half_written {
            value["halfWritten"] = json!({ "path": half.path.display().to_string(), "why": half.why });
        }
        if let Some(next) = status.next_retry {
            value["nextRetry"] = next.to_string().into();
        }
        value
    }
}

/// What its program is known to need of the environment and does not get.
fn missing_variables(running: &ServerEntry) -> Vec<String> {
    let toolcrib_catalog::Transport::Stdio(program) = &running.definition.transport else { return Vec::new() };
    let is_given = |name: &str| program.env.contains_key(name);
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    toolcrib_catalog::missing_variables(&program.command, &program.args, &is_given, &is_set)
}

fn state(running: &ServerEntry) -> Step {
    let status = running.server.status();
    let mut text = format!("server `{}` is {} since {}", running.definition.name, status.state.as_str(), status.since);
    if let Some(error) = &status.last_error {
        text.push_str(&format!(", last error: {error}"));
    }
    // Whether it runs hides nothing: its last known tools are shown.
    Step::passed("server", text)
}

fn missing(running: &ServerEntry, id: &ToolId) -> String {
    let inventory = running.server.inventory();
    let status = running.server.status();
    let server = &id.server;
    if !status.listed {
        return format!("server `{server}` was not listed yet");
    }
    let close = similar(&id.tool, inventory.tools.iter().map(|tool| tool.key.as_str()));
    let close: Vec<String> = close.iter().map(|name| format!("`{server}/{name}`")).collect();
    let near = if close.is_empty() { String::new() } else { format!("; nearest: {}", close.join(", ")) };
    format!("server `{server}` has {} tools, none of this name{near}", inventory.tools.len())
}

/// Which limits calls of a tool meet, where any are set; they hide nothing.
fn limits(view: &View, running: &ServerEntry, id: &ToolId) -> Option<Step> {
    let mut said = Vec::new();
    let mut say = |of: &str, limits: [(&str, Option<String>); 5]| {
        let set = limits.into_iter().filter_map(|(key, value)| Some(format!("{key}: {}", value?)));
        let set: Vec<String> = set.collect();
        if !set.is_empty() {
            said.push(format!("{of} {{{}}}", set.join(", ")));
        }
    };
    fn text<T: ToString>(value: Option<T>) -> Option<String> {
        value.map(|value| value.to_string())
    }
    let of = &view.profile.limits;
    say(
        &format!("profile `{}`", view.profile.name),
        [
            ("concurrent", text(of.concurrent)),
            ("queue", None),
            ("per_minute", text(of.per_minute)),
            ("argument_bytes", text(of.argument_bytes)),
            ("result_bytes", text(of.result_bytes)),
        ],
    );
    let of = &running.definition.limits;
    say(
        &format!("server `{}`", id.server),
        [
            ("concurrent", text(of.concurrent)),
            ("queue", text(of.queue)),
            ("per_minute", text(of.per_minute)),
            ("argument_bytes", text(of.argument_bytes)),
            ("result_bytes", text(of.result_bytes)),
        ],
    );
    for of in running.definition.limits.of_tool(&id.tool) {
        say(
            &format!("its tools `{}`", of.pattern.as_str()),
            [
                ("concurrent", text(of.concurrent)),
                ("queue", text(of.queue)),
                ("per_minute", text(of.per_minute)),
                ("argument_bytes", text(of.argument_bytes)),
                ("result_bytes", text(of.result_bytes)),
            ],
        );
    }
    (!said.is_empty()).then(|| Step::passed("limits", format!("calls are held to those of {}", said.join(", of "))))
}

fn exposure(view: &View, tool: &toolcrib_view::view::Tool) -> Step {
    let exposure = view.profile.exposure.as_str();
    let own = tool.entry.key.as_str();
    let mut text = if view.lists(tool) {
        format!("listed as `{}` (`exposure: {exposure}`)", tool.name)
    } else {
        format!("not in `tools/list` with `exposure: {exposure}`; found, described and called as `{}`", tool.name)
    };
    let plain = view.profile.prefix == toolcrib_catalog::Prefix::None;
    if plain && *tool.name != *own {
        text.push_str(", as another tool had the plain name first, or it fits no client");
    }
    Step::passed("exposure", text)
}
