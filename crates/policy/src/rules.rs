//! A profile's rules, compiled: the one function that decides what may be called and what is listed.

use std::collections::HashSet;
use std::sync::Arc;

use toolcrib_base::{Glob, ProfileName, Role, ServerName, ToolId};

use crate::{
    Act, Annotations, AskingTools, Class, Demand, Denial, LabelTable, Labels, Moment, Permit, PolicyVerdict, Reason,
    Reference, Request, Rule,
};

/// What a profile says about who may do what. An empty list matches nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The profile that says so.
    pub profile: ProfileName,
    /// `servers`: patterns over server names. They bind tools, resources, prompts, completion and forwarded methods.
    pub servers: Vec<Glob>,
    /// `registry`: patterns over entries that may become servers. With them an administrator permits exactly these.
    pub registry: Vec<Glob>,
    /// `tools.allow`: patterns over `server/tool`.
    pub allow: Vec<Glob>,
    /// `tools.deny`: patterns over `server/tool`; they win over `allow`.
    pub deny: Vec<Glob>,
    /// `read_only`: only tools that say `readOnlyHint: true`.
    pub read_only: bool,
    /// What `changed_tools: hold` holds back at this moment; nothing in a profile that allows changes.
    pub held: Arc<HeldItems>,
}

/// What differs from what was approved of its server. As with patterns, anyone who compiles rules knows the names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldItems {
    /// Tools.
    pub tools: HashSet<ToolId>,
    /// Prompts, by server and the server's name for them.
    pub prompts: HashSet<ToolId>,
    /// Templates of resources, by server and as the server spells them.
    pub templates: HashSet<ToolId>,
}

/// A profile's rules, and what policies make of those who ask, where there are policies.
#[derive(Debug, Clone)]
pub struct Rules {
    settings: Arc<Settings>,
    /// What the profile itself asks for; `None` for nothing.
    asking: Option<Arc<AskingTools>>,
    policies: Option<ClassRules>,
}

/// What policies make of one class of principals.
#[derive(Debug, Clone)]
pub struct ClassRules {
    /// The class.
    pub class: Arc<Class>,
    /// The labels of servers.
    pub labels: Arc<LabelTable>,
}

/// Why not, with the pattern that decided where one did.
struct Refusal<'a> {
    reason: Reason,
    pattern: Option<&'a Glob>,
}

impl From<Reason> for Refusal<'_> {
    fn from(reason: Reason) -> Self {
        Self { reason, pattern: None }
    }
}

// === impl HeldItems ===

impl HeldItems {
    /// How many they are, of all kinds.
    pub fn count(&self) -> usize {
        self.tools.len() + self.prompts.len() + self.templates.len()
    }
}

// === impl Rules ===

impl Rules {
    /// Compiles settings. Lists with a `*` in them are cut down to it, so that the common case is one comparison.
    pub fn new(mut settings: Settings) -> Self {
        for patterns in [&mut settings.servers, &mut settings.registry, &mut settings.allow, &mut settings.deny] {
            if patterns.iter().any(Glob::is_everything) {
                patterns.retain(Glob::is_everything);
                patterns.truncate(1);
            }
        }
        Self { settings: Arc::new(settings), asking: None, policies: None }
    }

    /// The same rules that ask for a yes before calls of some tools.
    #[must_use]
    pub fn asking(mut self, tools: AskingTools) -> Self {
        self.asking = (tools != AskingTools::default()).then(|| Arc::new(tools));
        self
    }

    /// The same rules for principals of a class: all that they permit must be permitted by policies as well.
    #[must_use]
    pub fn with_policies(mut self, policies: Option<ClassRules>) -> Self {
        self.policies = policies;
        self
    }

    /// The profile whose rules these are.
    pub fn profile(&self) -> &ProfileName {
        &self.settings.profile
    }

    /// The key of the profile's file whose value refuses the request, and which of its patterns; `None` when nothing
    /// does, or no key of a file.
    pub fn refusing_key(&self, request: &Request<'_>) -> Option<(&'static str, Option<&Glob>)> {
        let refusal = self.judge(request).err()?;
        let key = match refusal.reason {
            Reason::ServerNotAllowed => "servers",
            Reason::EntryNotAllowed => "registry",
            Reason::ToolDenied => "tools.deny",
            Reason::ToolNotAllowed => "tools.allow",
            Reason::NotReadOnly => "read_only",
            Reason::Held => "changed_tools",
            Reason::NeedsAdmin
            | Reason::ViewerOnlyReads
            | Reason::PolicyHides
            | Reason::NeedsOperator
            | Reason::PolicyForbids
            | Reason::PolicyAsks
            | Reason::ProfileAsks => return None,
        };
        Some((key, refusal.pattern))
    }

    /// Decides one request: the profile first, then policies. Allocates only for a denial.
    pub fn decide(&self, request: &Request<'_>, moment: &Moment<'_>) -> Result<Permit, Denial> {
        self.decide_by(request, moment, None)
    }

    /// The same after somebody has said yes to `given`: what asks for exactly that yes, and for nothing more, is content.
    pub fn decide_given(&self, request: &Request<'_>, moment: &Moment<'_>, given: &Demand) -> Result<Permit, Denial> {
        self.decide_by(request, moment, Some(given))
    }

    fn decide_by(&self, request: &Request<'_>, moment: &Moment<'_>, given: Option<&Demand>) -> Result<Permit, Denial> {
        let rule = self.judge(request).map_err(|refusal| {
            let reason = refusal.reason;
            Denial {
                rule: self.words(&refusal),
                hidden: reason.is_hidden(),
                said: None,
                policy: None,
                demand: None,
                reason,
            }
        })?;
        let permit = |policy| {
            let principal = request.caller.principal.clone();
            Permit::new(principal, self.settings.profile.clone(), request.act.clone(), rule).by_policy(policy)
        };
        let (policy, asked) = match &self.policies {
            None => (None, None),
            Some(ClassRules { class, labels }) => match class.decide(request.act, labels, moment) {
                PolicyVerdict::Permit(policy) => (policy, None),
                PolicyVerdict::Deny { by, hidden } => return Err(Denial::by_policy(by, hidden)),
                PolicyVerdict::Ask { by, ask } => (None, Some((by, ask))),
            },
        };
        if asked.is_none() && self.asking.is_none() {
            return Ok(permit(policy));
        }
        let demand = self.demand(request, moment, asked.is_some());
        match (demand, asked) {
            (None, None) => Ok(permit(policy)),
            (Some(demand), asked) if given == Some(&demand) => Ok(permit(asked.map(|(by, _)| by.id).or(policy))),
            (demand, Some((by, ask))) => Err(Denial { demand: demand.map(Box::new), ..Denial::until_asked(by, &ask) }),
            (Some(demand), None) => {
                Err(Denial { demand: Some(Box::new(demand.clone())), ..Denial::by_profile(&demand) })
            }
        }
    }

    /// All that asks before a request: policies, if they do, and the profile. `None` for what no one can say yes to, as
    /// only calls of tools wait.
    fn demand(&self, request: &Request<'_>, moment: &Moment<'_>, policies_ask: bool) -> Option<Demand> {
        let Act::CallTool { tool, .. } = request.act else { return None };
        let policies = self.policies.as_ref().filter(|_| policies_ask);
        let of_policies = policies.and_then(|it| it.class.demand(request.act, &it.labels, moment));
        match &self.asking {
            Some(asking) => asking.demand(self.settings.profile.as_str(), tool, of_policies),
            None => of_policies,
        }
    }

    /// The policies in record mode that would refuse or ask.
    pub fn recorded(&self, request: &Request<'_>, moment: &Moment<'_>) -> Vec<Arc<str>> {
        let policies = self.policies.as_ref();
        policies.map(|it| it.class.recorded(request.act, &it.labels, moment)).unwrap_or_default()
    }

    /// The labels of what is asked for; none where there are no policies.
    pub fn labels(&self, act: &Act) -> Option<Labels> {
        self.policies.as_ref().and_then(|it| it.labels.of(act))
    }

    /// Whether the thing is listed, found and described: unless [`Rules::decide`] would answer a hidden denial.
    pub fn visible(&self, request: &Request<'_>) -> bool {
        let of_profile = self.judge(request).map_or_else(|refusal| !refusal.reason.is_hidden(), |_| true);
        of_profile && self.policies.as_ref().is_none_or(|it| it.class.shows(request.act, &it.labels))
    }

    /// Whether policies look at digests of tools, which acts then have to carry.
    pub fn look_at_digests(&self) -> bool {
        self.policies.as_ref().is_some_and(|it| it.class.looks_at_digests())
    }

    /// Whether the server is among those that the profile shows.
    pub fn shows_server(&self, server: &ServerName) -> bool {
        self.lists_server(server) && self.policies.as_ref().is_none_or(|it| it.class.shows_server(server, &it.labels))
    }

    fn lists_server(&self, server: &ServerName) -> bool {
        self.settings.servers.iter().any(|pattern| pattern.matches(server.as_str()))
    }

    /// In words for an administrator: what the rules make of the request, and which of them.
    pub fn explain(&self, request: &Request<'_>) -> String {
        let act = request.act;
        match self.judge(request) {
            Ok(rule) => format!("{act} is allowed in profile `{}` ({})", self.settings.profile, rule.name()),
            Err(refusal) if refusal.reason.is_hidden() => format!("{act} is hidden by {}", self.words(&refusal)),
            Err(refusal) => format!("{act} is denied by {}", self.words(&refusal)),
        }
    }

    /// The one path. The order is fixed: the server, what is denied, what is allowed, what only reads, what is held.
    fn judge(&self, request: &Request<'_>) -> Result<Rule, Refusal<'_>> {
        let is_approval = matches!(request.act, Act::Approve { .. });
        if let Some(server) = request.act.server().filter(|_| !is_approval)
            && !self.lists_server(server)
        {
            return Err(Reason::ServerNotAllowed.into());
        }
        let role = request.caller.role;
        match request.act {
            Act::CallTool { tool, annotations } => {
                let matching = |pattern: &&Glob| pattern.matches_id(tool.server.as_str(), &tool.tool);
                if let Some(pattern) = self.settings.deny.iter().find(matching) {
                    return Err(Refusal { reason: Reason::ToolDenied, pattern: Some(pattern) });
                }
                if !self.settings.allow.iter().any(|pattern| matching(&pattern)) {
                    return Err(Reason::ToolNotAllowed.into());
                }
                self.check_reading(*annotations)?;
                if self.settings.held.tools.contains(tool) {
                    return Err(Reason::Held.into());
                }
                check_role(role, *annotations)?;
                Ok(if self.settings.read_only { Rule::ReadOnlyToolAllowed } else { Rule::ToolAllowed })
            }
            Act::GetPrompt { server, name } | Act::Complete { server, of: Reference::Prompt, name }
                if self.holds_prompt(server, name) =>
            {
                Err(Reason::Held.into())
            }
            Act::ReadResource { .. } | Act::GetPrompt { .. } | Act::Complete { .. } => Ok(Rule::ServerAllowed),
            // It is not known what an unknown method does, so it has said nothing about only reading.
            Act::Forward { .. } => {
                self.check_reading(Annotations::default())?;
                check_role(role, Annotations::default())?;
                Ok(Rule::ServerAllowed)
            }
            Act::Configure { entry } => match self.settings.registry.iter().any(|it| it.matches(entry.as_str())) {
                true => check_role(role, Annotations::default()).map(|()| Rule::EntryAllowed),
                false => Err(Reason::EntryNotAllowed.into()),
            },
            Act::MetaTool { .. } => Ok(Rule::MetaTool),
            // Where there are policies, they say who approves.
            Act::Approve { .. } if self.policies.is_some() || role >= Role::Operator => Ok(Rule::Approver),
            Act::Approve { .. } => Err(Reason::NeedsOperator.into()),
            Act::Operation { needs_admin, annotations, .. } => {
                self.check_reading(*annotations)?;
                match needs_admin {
                    false => check_role(role, *annotations).map(|()| Rule::OpenOperation),
                    true if role.administers() => Ok(Rule::AdminOperation),
                    true if role == Role::Operator && annotations.read_only == Some(true) => Ok(Rule::OperatorReads),
                    true => Err(Reason::NeedsAdmin.into()),
                }
            }
        }
    }

    fn holds_prompt(&self, server: &ServerName, name: &Arc<str>) -> bool {
        let held = &self.settings.held.prompts;
        !held.is_empty() && held.contains(&ToolId { server: server.clone(), tool: Arc::clone(name) })
    }

    fn check_reading(&self, annotations: Annotations) -> Result<(), Refusal<'static>> {
        if self.settings.read_only && annotations.read_only != Some(true) {
            return Err(Reason::NotReadOnly.into());
        }
        Ok(())
    }

    fn words(&self, refusal: &Refusal<'_>) -> String {
        let profile = &self.settings.profile;
        match (refusal.reason, refusal.pattern) {
            (Reason::ServerNotAllowed, _) => {
                format!("`servers: {}` of profile `{profile}`", list(&self.settings.servers))
            }
            (Reason::EntryNotAllowed, _) => {
                format!("`registry: {}` of profile `{profile}`", list(&self.settings.registry))
            }
            (Reason::ToolDenied, Some(pattern)) => format!("`tools.deny: {pattern}` of profile `{profile}`"),
            (Reason::ToolDenied, None) => format!("`tools.deny` of profile `{profile}`"),
            (Reason::ToolNotAllowed, _) => {
                format!("`tools.allow: {}` of profile `{profile}`", list(&self.settings.allow))
            }
            (Reason::NotReadOnly, _) => {
                format!("`read_only: true` of profile `{profile}`, because it does not have `readOnlyHint: true`")
            }
            (Reason::Held, _) => {
                format!("`changed_tools: hold` of profile `{profile}`, because it differs from what was approved")
            }
            (Reason::ViewerOnlyReads, _) => {
                "the role `viewer`, because it does not have `readOnlyHint: true`".to_owned()
            }
            (Reason::NeedsAdmin, _) => "the rule that only admins can do it".to_owned(),
            (Reason::NeedsOperator, _) => "the rule that operators approve".to_owned(),
            (Reason::ProfileAsks, _) => "`tools.confirm` or `tools.approve`".to_owned(),
            (Reason::PolicyHides | Reason::PolicyForbids | Reason::PolicyAsks, _) => "a policy".to_owned(),
        }
    }
}

/// A viewer calls what says that it only reads.
fn check_role(role: Role, annotations: Annotations) -> Result<(), Refusal<'static>> {
    match role {
        Role::Viewer if annotations.read_only != Some(true) => Err(Reason::ViewerOnlyReads.into()),
        _ => Ok(()),
    }
}

/// A few patterns as they are in the file.
fn list(patterns: &[Glob]) -> String {
    const SHOWN: usize = 5;
    let mut words: Vec<&str> = patterns.iter().take(SHOWN).map(Glob::as_str).collect();
    if patterns.len() > SHOWN {
        words.push("…");
    }
    format!("[{}]", words.join(", "))
}

#[cfg(test)]
mod tests;
