//! The definition of a profile: `profiles/<name>.yaml`.

mod auto;
pub mod edit;
pub(crate) mod key;
mod limits;
mod quota;

use std::collections::BTreeMap;
use std::sync::Arc;

use toolcrib_base::{Glob, ProfileName};

use crate::define::{self, Definition, GlobTarget};
use crate::folder::{self, Contents, Folder};
use crate::guards::{self, CanaryHalt, Guards};
use crate::kind::DefinitionKind;
use crate::period::Period;
use crate::reader::{Cursor, Fields, choice};
use crate::secret::SecretRef;

pub use auto::AutoExposure;
pub use key::{GatewayKey, KeyHash, KeyHashError, KeyName};
pub use limits::CallLimits;
pub use quota::{OverQuota, Quota};

/// The name of the profile that `/mcp` serves and that is built in.
const DEFAULT_NAME: &str = "default";
/// The answer's budget of `find_tools`, in tokens.
const MAX_TOKENS: u32 = 800;

/// What one kind of client sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileDefinition {
    pub name: ProfileName,
    pub title: Option<String>,
    pub description: Option<String>,
    /// Patterns over names of servers.
    pub servers: Vec<Glob>,
    pub tools: ToolRules,
    pub exposure: Exposure,
    /// With exposure `auto`: up to what everything is listed.
    pub auto: AutoExposure,
    /// With exposure `pinned`, and `auto` where tools are many: patterns of the tools to list.
    pub pinned: Vec<Glob>,
    pub dialect: Dialect,
    pub prefix: Prefix,
    /// Patterns over registry entries that the profile may find and start.
    pub registry: Vec<Glob>,
    /// Groups of meta-tools beside the three of the menu.
    pub groups: Vec<Group>,
    /// Whether only tools that say `readOnlyHint: true` may be called.
    pub read_only: bool,
    /// Whether a tool must be loaded before it is called. Without the key: in the scooter dialect only.
    pub require_load: bool,
    pub active_set: ActiveSet,
    /// How much an active set may hold.
    pub quota: Quota,
    /// Loaded tools that no one has used for so long are unloaded; `None` for never.
    pub unload_after: Option<Period>,
    /// Whether a durable set is emptied when a client opens a new session.
    pub reset_on_session: bool,
    /// The keys that open the profile; `None` for a profile that needs none.
    pub keys: Option<Vec<GatewayKey>>,
    /// The budget of an answer of `find_tools`, in tokens.
    pub max_tokens: u32,
    /// What the servers of this profile get beside their own environment.
    pub env: BTreeMap<String, SecretRef>,
    /// What becomes of tools that are not as they were approved.
    pub changed_tools: ChangedTools,
    /// How tools are ranked by searches.
    pub ranking: Ranking,
    /// Whether searches learn which tools are called after which words.
    pub learn: bool,
    /// Which examples the description of a tool has.
    pub examples: Examples,
    /// How much one user may call.
    pub limits: CallLimits,
    /// What becomes of secrets in calls.
    pub guards: Guards,
    /// Who is halted when a canary is found.
    pub canary_halts: CanaryHalt,
}

/// Patterns over `server/tool`; `deny` wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRules {
    pub allow: Vec<Glob>,
    pub deny: Vec<Glob>,
    /// What the caller's own person confirms before each call.
    pub confirm: Vec<Glob>,
    /// What somebody else approves before each call.
    pub approve: Vec<Glob>,
}

choice! {
    /// How tools are shown.
    Exposure {
        /// Find, describe and call.
        Meta = "meta",
        /// All tools are listed.
        Direct = "direct",
        /// Some are listed, the rest by the meta-tools.
        Pinned = "pinned",
        /// Loaded ones are listed.
        Dynamic = "dynamic",
        /// `direct` where tools are few, else `pinned`.
        Auto = "auto",
    }
}

choice! {
    /// The names and argument shapes of the meta-tools.
    Dialect {
        Native = "native",
        Muster = "muster",
        GoEnt = "go-ent",
        Scooter = "scooter",
    }
}

choice! {
    /// What stands before a tool's exposed name.
    Prefix {
        /// The server's prefix or name.
        Server = "server",
        /// Nothing, unless two names collide.
        None = "none",
    }
}

choice! {
    /// A group of meta-tools.
    Group {
        Load = "load",
        Resources = "resources",
        Prompts = "prompts",
        Admin = "admin",
    }
}

choice! {
    /// How long the set of loaded tools lives for a legacy client.
    ActiveSet {
        /// As long as its session.
        Session = "session",
        /// Until it idles, whatever the session.
        Durable = "durable",
    }
}

choice! {
    /// What becomes of tools and prompts that are new, changed or renamed since their server was approved.
    ChangedTools {
        /// They are shown as they are.
        Allow = "allow",
        /// They are as if they were not there until someone approves them.
        Hold = "hold",
    }
}

choice! {
    /// How tools are ranked by searches.
    Ranking {
        /// Words, words that look alike and meaning together.
        Blend = "blend",
        /// Plain TF-IDF over names and descriptions, for comparison.
        TfIdf = "tfidf",
    }
}

choice! {
    /// Which examples the description of a tool has.
    Examples {
        /// Those of its server or its definition.
        Given = "given",
        /// Where these have none, arguments of calls of the same principal that went well.
        Recorded = "recorded",
        /// The same of all who use the profile.
        Shared = "shared",
    }
}

// === impl ProfileDefinition ===

impl ProfileDefinition {
    /// The profile that is there without any file.
    pub fn built_in() -> Self {
        let name = ProfileName::new(DEFAULT_NAME).expect("`default` is a name");
        Self::with_defaults(name)
    }

    /// Everything as printed in the design.
    fn with_defaults(name: ProfileName) -> Self {
        Self {
            name,
            title: None,
            description: None,
            servers: vec![Glob::everything()],
            tools: ToolRules {
                allow: vec![Glob::everything()],
                deny: Vec::new(),
                confirm: Vec::new(),
                approve: Vec::new(),
            },
            exposure: Exposure::Meta,
            auto: AutoExposure::default(),
            pinned: Vec::new(),
            dialect: Dialect::Native,
            prefix: Prefix::Server,
            registry: Vec::new(),
            groups: Vec::new(),
            read_only: false,
            require_load: false,
            active_set: ActiveSet::Session,
            quota: Quota::default(),
            unload_after: None,
            reset_on_session: false,
            keys: None,
            max_tokens: MAX_TOKENS,
            env: BTreeMap::new(),
            ranking: Ranking::Blend,
            changed_tools: ChangedTools::Allow,
            learn: false,
            examples: Examples::Given,
            limits: CallLimits::default(),
            guards: Guards::default(),
            canary_halts: CanaryHalt::Principal,
        }
    }
}

/// What the files of profiles say, with the built-in `default` unless a file is there to define it, be it good or bad.
pub(crate) fn combine(folders: &[Folder<ProfileDefinition>]) -> Contents<ProfileName, ProfileDefinition> {
    let mut contents = folder::combine(folders);
    let built_in = ProfileDefinition::built_in();
    // A file that is meant to be the default and is wrong must not open what it wanted to close.
    if folders.iter().all(|folder| folder.lacks(built_in.name.as_str())) {
        contents.definitions.insert(built_in.name.clone(), Arc::new(built_in));
    }
    contents
}

impl Definition for ProfileDefinition {
    const KIND: DefinitionKind = DefinitionKind::Profile;
    type Name = ProfileName;

    fn name(&self) -> &ProfileName {
        &self.name
    }

    fn read(stem: &str, root: Cursor<'_>) -> Option<Self> {
        let fields = root.fields()?;
        let name = define::name(&fields, stem, ProfileName::new);
        // Read even when the name is wrong, so that all problems are reported at once.
        let default = Self::built_in();
        let dialect = fields.get("dialect").and_then(|cursor| cursor.choice()).unwrap_or(default.dialect);
        let read = Self {
            name: default.name,
            title: fields.text("title"),
            description: fields.text("description"),
            servers: define::globs(fields.get("servers"), GlobTarget::Servers, &["*"]),
            tools: fields.get("tools").and_then(tool_rules).unwrap_or(default.tools),
            exposure: fields.get("exposure").and_then(|cursor| cursor.choice()).unwrap_or(default.exposure),
            auto: fields.get("auto").and_then(auto::read).unwrap_or_default(),
            pinned: define::globs(fields.get("pinned"), GlobTarget::Tools, &[]),
            dialect,
            prefix: fields.get("prefix").and_then(|cursor| cursor.choice()).unwrap_or(default.prefix),
            registry: define::globs(fields.get("registry"), GlobTarget::Servers, &[]),
            groups: groups(&fields),
            read_only: fields.get("read_only").and_then(|cursor| cursor.flag()).unwrap_or(default.read_only),
            require_load: fields
                .get("require_load")
                .and_then(|cursor| cursor.flag())
                .unwrap_or(dialect == Dialect::Scooter),
            active_set: fields.get("active_set").and_then(|cursor| cursor.choice()).unwrap_or(default.active_set),
            quota: fields.get("quota").and_then(quota::read).unwrap_or_default(),
            unload_after: fields.get("unload_after").and_then(|cursor| cursor.parsed()),
            reset_on_session: fields.get("reset_on_session").and_then(|cursor| cursor.flag()).unwrap_or(false),
            keys: fields.get("keys").map(|cursor| key::read(&cursor)),
            max_tokens: fields.get("max_tokens").and_then(|c| c.number(50, 1_000_000)).unwrap_or(MAX_TOKENS),
            env: fields.get("env").map(|cursor| define::environment(&cursor)).unwrap_or_default(),
            ranking: fields.get("ranking").and_then(|cursor| cursor.choice()).unwrap_or(match dialect {
                Dialect::GoEnt => Ranking::TfIdf,
                _ => Ranking::Blend,
            }),
            changed_tools: fields.get("changed_tools").and_then(|c| c.choice()).unwrap_or(default.changed_tools),
            learn: fields.get("learn").and_then(|cursor| cursor.flag()).unwrap_or(false),
            examples: fields.get("examples").and_then(|cursor| cursor.choice()).unwrap_or(default.examples),
            limits: fields.get("limits").and_then(limits::read).unwrap_or_default(),
            guards: fields.get("guards").and_then(guards::read).unwrap_or_default(),
            canary_halts: fields.get("canary_halts").and_then(|c| c.choice()).unwrap_or(default.canary_halts),
        };
        fields.finish();
        Some(Self { name: name?, ..read })
    }
}

fn tool_rules(cursor: Cursor<'_>) -> Option<ToolRules> {
    let fields = cursor.fields()?;
    let allow = define::globs(fields.get("allow"), GlobTarget::Tools, &["*"]);
    let deny = define::globs(fields.get("deny"), GlobTarget::Tools, &[]);
    let confirm = define::globs(fields.get("confirm"), GlobTarget::Tools, &[]);
    let approve = define::globs(fields.get("approve"), GlobTarget::Tools, &[]);
    fields.finish();
    Some(ToolRules { allow, deny, confirm, approve })
}

fn groups(fields: &Fields<'_>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for group in fields.get("groups").map(|cursor| cursor.list(|item| item.choice())).unwrap_or_default() {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

#[cfg(test)]
mod tests;
