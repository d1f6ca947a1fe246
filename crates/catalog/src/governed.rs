//! What a connector offers, and what is decided of the calls of one tool: what it does, its risk class, and the texts that tell people what a call is
//! about.

mod template;

use std::collections::BTreeMap;

use toolcrib_base::Glob;

use crate::reader::{Choice as _, Cursor, Fields, choice};

pub use template::{ArgumentTemplate, TemplateError};

/// What a target may be called.
const TARGET_MAX: usize = 64;

/// What of a connector's definition holds for its server: its tools and resources are these and no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorOffer {
    /// By the names that the server gives them.
    pub tools: BTreeMap<String, GovernedTool>,
    /// Addresses.
    pub resources: Vec<String>,
}

/// What is decided of the calls of one tool; of nothing by default, as of a tool of any server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GovernedTool {
    pub action: Option<ToolAction>,
    /// `None` for what only reads, and for what nothing is said of.
    pub risk: Option<RiskClass>,
    /// Where it is not that of the risk class: an agent's own connector may say so.
    pub decision: Option<GovernedDecision>,
    /// What a call changes.
    pub target_type: Option<String>,
    /// Says which one.
    pub target_label: Option<ArgumentTemplate>,
    /// Says what a call does.
    pub approval_summary: Option<ArgumentTemplate>,
}

choice! {
    /// What a tool does.
    ToolAction {
        Read = "read",
        Write = "write",
    }
}

choice! {
    /// What a call may do harm to.
    RiskClass {
        ExternalWrites = "external_writes",
        DestructiveActions = "destructive_actions",
        SensitiveDataAccess = "sensitive_data_access",
        ChannelSends = "channel_sends",
        ThirdPartyActions = "credentialed_third_party_actions",
        CrossScopeMemory = "cross_scope_memory_access",
        /// None of the six.
        Unknown = "unknown",
    }
}

choice! {
    /// What becomes of a call.
    GovernedDecision {
        Allow = "allow",
        Block = "block",
        RequireApproval = "require_approval",
    }
}

// === impl RiskClass ===

impl RiskClass {
    /// What is decided where no one decided otherwise.
    pub fn decision(self) -> GovernedDecision {
        match self {
            Self::ExternalWrites | Self::ThirdPartyActions => GovernedDecision::RequireApproval,
            Self::ChannelSends => GovernedDecision::Allow,
            Self::DestructiveActions | Self::SensitiveDataAccess | Self::CrossScopeMemory | Self::Unknown => {
                GovernedDecision::Block
            }
        }
    }
}

// === impl GovernedTool ===

impl GovernedTool {
    /// What becomes of a call by the definition alone; policies may decide more strictly.
    pub fn decision(&self) -> GovernedDecision {
        self.decision.unwrap_or_else(|| self.risk.map_or(GovernedDecision::Allow, RiskClass::decision))
    }

    /// The class that its label says: its own where that decides the same, else one that does.
    pub(crate) fn risk_label(&self) -> Option<RiskClass> {
        match (self.risk, self.decision()) {
            (Some(risk), decision) if risk.decision() == decision => Some(risk),
            (_, GovernedDecision::Allow) => None,
            (_, GovernedDecision::Block) => Some(RiskClass::Unknown),
            (_, GovernedDecision::RequireApproval) => Some(RiskClass::ExternalWrites),
        }
    }
}

/// The name of a tool, as its server gives it: no pattern.
pub(crate) fn tool_name(cursor: &Cursor<'_>) -> Option<String> {
    let name = cursor.word("the name of a tool")?;
    let is_name = !name.contains(['*', '?']) && Glob::new(&name).is_ok();
    if !is_name {
        let hint = "list each tool by the name that its server gives it".to_owned();
        cursor.problem(format!("expected the name of a tool, got the pattern {}", cursor.describe()), Some(hint));
    }
    is_name.then_some(name)
}

/// An entry of a list of tools.
pub(crate) fn named_tool(item: &Cursor<'_>) -> Option<(String, GovernedTool)> {
    let fields = item.clone().fields()?;
    let name = fields.require("name", "the name of the tool", "add `name:`".to_owned());
    let name = name.and_then(|cursor| tool_name(&cursor));
    let tool = governed(&fields);
    fields.finish();
    // A name alone is an entry, too.
    item.is_also_a_text();
    Some((name?, tool))
}

/// What an agent's own connector says of tools, by their names.
pub(crate) fn governed_map(cursor: &Cursor<'_>) -> BTreeMap<String, GovernedTool> {
    cursor.map(|_, cursor| {
        let fields = cursor.clone().fields()?;
        let decision = fields.get("decision").and_then(|cursor| cursor.choice());
        let tool = GovernedTool { decision, ..governed(&fields) };
        fields.finish();
        Some(tool)
    })
}

fn governed(fields: &Fields<'_>) -> GovernedTool {
    let action = fields.get("action_type").filter(|cursor| cursor.node().as_text().is_none_or(|text| !text.is_empty()));
    let action = action.and_then(|cursor| cursor.choice());
    let risk = fields.get("risk_class").filter(|cursor| !cursor.node().is_null()).map(|cursor| risk_class(&cursor));
    if action == Some(ToolAction::Write) && risk.is_none() {
        let hint = "add one, such as `risk_class: external_writes`".to_owned();
        fields.problem("risk_class", "expected the risk class of a tool that writes, got nothing", Some(hint));
    }
    if action.is_none() && risk.is_none() {
        let hint = "add `action_type: read`, or a `risk_class`".to_owned();
        fields.warn("risk_class", "is missing: the tool is blocked as `unknown`", Some(hint));
    }
    // What only reads needs none; what says nothing of itself is unknown.
    let reads = action == Some(ToolAction::Read);
    GovernedTool {
        action,
        risk: risk.or((!reads).then_some(RiskClass::Unknown)),
        decision: None,
        target_type: fields.get("target_type").and_then(|cursor| target_type(&cursor)),
        target_label: fields.get("target_label_template").and_then(|cursor| template(&cursor)),
        approval_summary: fields.get("approval_summary_template").and_then(|cursor| template(&cursor)),
    }
}

fn target_type(cursor: &Cursor<'_>) -> Option<String> {
    let text = cursor.text()?;
    let is_plain = text.chars().count() <= TARGET_MAX && crate::pin::visible(text) == text;
    if !is_plain {
        cursor.problem(format!("expected at most {TARGET_MAX} characters that a screen shows"), None);
    }
    (is_plain && !text.is_empty()).then(|| text.to_owned())
}

fn template(cursor: &Cursor<'_>) -> Option<ArgumentTemplate> {
    let text = cursor.text()?;
    if text.is_empty() {
        return None;
    }
    let template = ArgumentTemplate::new(text);
    if let Err(error) = &template {
        cursor.problem(error.to_string(), Some(error.hint()));
    }
    template.ok()
}

/// A word that is none of the six is unknown, which is blocked.
fn risk_class(cursor: &Cursor<'_>) -> RiskClass {
    let Some(text) = cursor.text() else { return RiskClass::Unknown };
    let found = RiskClass::ALL.iter().find(|(word, _)| *word == text).map(|(_, risk)| *risk);
    if found.is_none() {
        let words: Vec<&str> = RiskClass::ALL.iter().map(|(word, _)| *word).collect();
        let hint = format!("the risk classes are {}", words.join(", "));
        cursor.warn(format!("is no risk class: {} is blocked as `unknown`", cursor.describe()), Some(hint));
    }
    found.unwrap_or(RiskClass::Unknown)
}
