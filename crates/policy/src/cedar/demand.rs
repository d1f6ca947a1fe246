//! What a call waits for: whose yes, and which rules ask for it.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_base::{Glob, ToolId};

use super::policy::{Ask, Effect, PolicyRule};

/// The yes that a call needs, by all rules that ask for one. It counts for the same demand only: rules that ask for
/// more, for others, or that were changed, make another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Whether somebody else is asked; else the caller's own person.
    pub needs_approval: bool,
    /// The rules that ask, as records name them.
    pub by: Vec<Arc<str>>,
    /// In each of these groups is who approves; anyone who may approve where there is none.
    pub groups: Vec<String>,
    /// How long the yes can be given; `None` for the usual time.
    pub expires: Option<Duration>,
    /// How long a confirmation counts for further calls of the same tool.
    pub remember: Option<Duration>,
    /// Names the policies that were in force; empty where a profile alone asks.
    pub revision: Arc<str>,
}

/// What a profile itself asks for, without any policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AskingTools {
    /// `tools.confirm`: patterns over `server/tool`.
    pub confirm: Vec<Glob>,
    /// `tools.approve`: patterns over `server/tool`.
    pub approve: Vec<Glob>,
    /// The same as `tools.confirm` by definitions of servers.
    pub of_servers: Vec<Glob>,
}

// === impl Demand ===

impl Demand {
    /// What these policies ask for together; `None` without any. One that asks somebody else covers those that ask the
    /// caller's own person.
    pub(crate) fn of_policies<'a>(asking: impl Iterator<Item = &'a PolicyRule>, revision: &Arc<str>) -> Option<Self> {
        let mut demand = None;
        for rule in asking {
            let demand = demand.get_or_insert_with(|| Self::new(Arc::clone(revision)));
            let Effect::Ask(ask) = &rule.effect else { continue };
            demand.add(Arc::clone(&rule.id), ask);
        }
        demand
    }

    fn new(revision: Arc<str>) -> Self {
        Self { needs_approval: false, by: Vec::new(), groups: Vec::new(), expires: None, remember: None, revision }
    }

    fn add(&mut self, by: Arc<str>, ask: &Ask) {
        match ask {
            Ask::Approve { group, expires } => {
                self.needs_approval = true;
                if !group.is_empty() && !self.groups.contains(group) {
                    self.groups.push(group.clone());
                }
                self.expires = shorter(self.expires, *expires);
                self.remember = None;
            }
            // A yes is remembered only if each rule that asks says so, and as long as all of them say.
            Ask::Confirm { remember } => {
                let is_first = self.by.is_empty();
                self.remember = if is_first { *remember } else { self.remember.zip(*remember).map(|(a, b)| a.min(b)) };
                if self.needs_approval {
                    self.remember = None;
                }
            }
        }
        self.by.push(by);
    }

    /// The same with what a profile asks for.
    fn and(mut self, other: Self) -> Self {
        self.needs_approval |= other.needs_approval;
        self.by.extend(other.by);
        self.expires = shorter(self.expires, other.expires);
        self.remember = None;
        self
    }

    /// In words for the caller: who has to say yes.
    pub fn words(&self) -> String {
        match (self.needs_approval, &self.groups[..]) {
            (false, _) => "the caller's person has to confirm it".to_owned(),
            (true, []) => "somebody else has to approve it".to_owned(),
            (true, groups) => {
                let quoted: Vec<String> = groups.iter().map(|group| format!("`{group}`")).collect();
                format!("somebody of {} has to approve it", quoted.join(" and "))
            }
        }
    }
}

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

// === impl AskingTools ===

impl AskingTools {
    /// What these patterns ask for before a call of a tool, together with what policies ask for.
    pub(crate) fn demand(&self, profile: &str, tool: &ToolId, of_policies: Option<Demand>) -> Option<Demand> {
        let matching =
            |globs: &[Glob]| globs.iter().find(|it| it.matches_id(tool.server.as_str(), &tool.tool)).cloned();
        let (approve, confirm) = (matching(&self.approve), matching(&self.confirm));
        let needs_approval = approve.is_some();
        let by = match (approve, confirm, matching(&self.of_servers)) {
            (Some(glob), ..) => format!("tools.approve: {glob} of profile {profile}"),
            (None, Some(glob), _) => format!("tools.confirm: {glob} of profile {profile}"),
            (None, None, Some(_)) => format!("confirm of server {}", tool.server),
            (None, None, None) => return of_policies,
        };
        let mut own = Demand::new("".into());
        own.needs_approval = needs_approval;
        own.by.push(by.into());
        Some(match of_policies {
            Some(of_policies) => of_policies.and(own),
            None => own,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(id: &str, ask: Ask) -> PolicyRule {
        PolicyRule {
            id: id.into(),
            file: "a.cedar".into(),
            line: 1,
            effect: Effect::Ask(ask),
            records_only: false,
            description: None,
            reason: None,
        }
    }

    fn confirm(id: &str, remember: Option<u64>) -> PolicyRule {
        rule(id, Ask::Confirm { remember: remember.map(Duration::from_secs) })
    }

    fn approve(id: &str, group: &str, expires: Option<u64>) -> PolicyRule {
        rule(id, Ask::Approve { group: group.to_owned(), expires: expires.map(Duration::from_secs) })
    }

    /// Who is asked, the groups, the seconds to give it and those to remember it.
    #[track_caller]
    fn check(rules: &[PolicyRule], whose: &str, groups: &[&str], seconds: [Option<u64>; 2]) {
        let demand = Demand::of_policies(rules.iter(), &"r1".into()).expect("something asks");
        assert_eq!(demand.groups, groups, "{rules:?}");
        assert_eq!([demand.expires, demand.remember].map(|time| time.map(|time| time.as_secs())), seconds, "{rules:?}");
        assert_eq!((demand.needs_approval, demand.by.len()), (whose == "approve", rules.len()), "{rules:?}");
    }

    #[test]
    fn all_rules_that_ask_are_asked_for_together() {
        check(&[confirm("a", None)], "confirm", &[], [None, None]);
        check(&[confirm("a", Some(60)), confirm("b", Some(30))], "confirm", &[], [None, Some(30)]);
        check(&[confirm("a", Some(60)), confirm("b", None)], "confirm", &[], [None, None]);
        check(&[confirm("a", None), confirm("b", Some(60))], "confirm", &[], [None, None]);
        check(&[confirm("a", Some(60)), approve("b", "ops", None)], "approve", &["ops"], [None, None]);
        check(&[approve("b", "ops", Some(60)), confirm("a", Some(60))], "approve", &["ops"], [Some(60), None]);
        let two = [approve("a", "ops", Some(60)), approve("b", "dba", Some(30))];
        check(&two, "approve", &["ops", "dba"], [Some(30), None]);
        check(&[approve("a", "", None), approve("b", "ops", None)], "approve", &["ops"], [None, None]);
        assert_eq!(Demand::of_policies([].into_iter(), &"r1".into()), None);
    }

    #[test]
    fn patterns_of_a_profile_ask_alone_and_beside_policies() {
        let globs = |patterns: &[&str]| patterns.iter().map(|it| Glob::new(it).expect("a pattern")).collect();
        let of_servers = globs(&["files/drop", "prod/*"]);
        let asking = AskingTools { confirm: globs(&["mail/*"]), approve: globs(&["prod/delete*"]), of_servers };
        let demand = |tool: &str, of_policies| asking.demand("work", &ToolId::parse(tool).expect("an id"), of_policies);
        assert_eq!(demand("files/read", None), None);
        let own = demand("mail/send", None).expect("it is asked for");
        assert!(!own.needs_approval && *own.by[0] == *"tools.confirm: mail/* of profile work", "{own:?}");
        assert!(demand("prod/delete_all", None).expect("it is asked for").needs_approval);
        let of_server = demand("files/drop", None).expect("its server asks");
        assert!(!of_server.needs_approval && *of_server.by[0] == *"confirm of server files", "{of_server:?}");
        let of_policies = Demand::of_policies([confirm("a", Some(60))].iter(), &"r1".into());
        let both = demand("prod/delete_all", of_policies).expect("both ask");
        assert!(both.needs_approval && both.by.len() == 2 && both.remember.is_none(), "{both:?}");
    }
}
