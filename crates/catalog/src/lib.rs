//! Definitions on disk: servers, profiles, models, agents, workflows, service classes, services and the registry of what
//! could become a server; validate, watch, import.
//!
//! [`load`] reads everything once, [`reload`] again with the last good version of what became bad, [`watch`] whenever
//! something changes. One bad file never stops the others: what is wrong is a [`DefinitionProblem`] with its place.
//!
//! Knows no running server, no session and no gateway: it reads, checks and writes files, and nothing acts on them
//! here.

mod agent;
mod bundle;
mod catalog;
pub mod clients;
mod connector;
mod define;
mod definition_id;
mod dollars;
mod endpoint;
mod entry;
mod expected;
mod folder;
mod governed;
mod guards;
mod kind;
mod model;
mod object_name;
pub mod objects;
mod pattern;
mod pending_writes;
mod period;
pub mod pin;
mod place;
mod placeholder;
mod policy_file;
mod private;
mod problem;
mod profile;
mod reader;
mod readers;
mod recognise;
mod registry;
mod runner;
mod schema;
mod secret;
mod server;
mod service;
mod service_class;
mod size;
mod template_language;
mod toolschema;
mod trace;
mod validate;
mod watch;
mod workflow;
mod write;
pub mod yaml;

pub use agent::{
    AGENT_PRINCIPAL_PREFIX, AGENT_TOOL_PREFIX, AgentConnector, AgentDefinition, AgentFault, AgentLimits, DayLimits,
    KnownDefinitions, OnDenied, OnFailure, OnUnknown, RunsAs, Score, ScoreError, SentinelAction, SentinelClassifier,
    SentinelDefinition, SentinelRule, ToolPolicy, ToolsShown,
};
pub use bundle::{BUNDLE_BYTES, Bundle, BundleError, Need, NeedPlace, says_the_same};
pub use catalog::{Catalog, Changes, Delta, load, reload};
pub use connector::{ConnectorAuth, ConnectorAuthKind, ConnectorDefinition, ConnectorStatus};
pub use define::OpaqueValue;
pub use definition_id::{DefinitionFindings, DefinitionId, DefinitionIdError};
pub use dollars::{Dollars, DollarsError, TokenPrice};
pub use endpoint::{Endpoint, EndpointError, Link};
pub use entry::{
    Answers, Authorization, AuthorizationKind, ConfigureError, NewDefinition, Package, PackageKind, Reach,
    RegistryEntry, Runtime, Source, Variable,
};
pub use expected::{KINDS as PROGRAM_KINDS, ProgramKind, expected_variables, kinds_of, missing as missing_variables};
pub use governed::{
    ArgumentTemplate, ConnectorOffer, GovernedDecision, GovernedTool, RiskClass, TemplateError, ToolAction,
};
pub use guards::{CanaryHalt, Guards, SecretAction, ToolGuards};
pub use kind::DefinitionKind;
pub use model::{DEMO_MODEL, ModelDefinition, ModelDifferences, ModelPrices, ModelWire};
pub use object_name::{ObjectName, ObjectNameError};
pub use pattern::{Pattern, PatternError};
pub use period::{Period, PeriodError};
pub use place::place_of;
pub use policy_file::{PolicyFile, keep_policies, kept_policies, read_policies, read_policy_folder};
pub use private::{MASK, is_secret_name, is_secret_value};
pub use problem::{DefinitionProblem, Position, without_secrets};
pub use profile::edit;
pub use profile::key::{after as key_end, day_of, key_expiry, key_period, matching as matching_key, user_named};
pub use profile::{
    ActiveSet, AutoExposure, CallLimits, ChangedTools, Dialect, Examples, Exposure, GatewayKey, Group, KeyHash,
    KeyHashError, KeyName, OverQuota, Prefix, ProfileDefinition, Quota, Ranking, ToolRules,
};
pub use recognise::recognised;
pub use registry::{Available, Origin, built_in};
pub use runner::{CacheEntryError, HalfWritten, Installation, PackageCache, Runner};
pub use schema::schema;
pub use secret::{LocalSecrets, ResolveSecret, SecretError, SecretRef, SecretRefError, SecretUser};
pub use server::edit::{ToolsEditError, with_tools};
pub use server::{
    Ask, AuthType, ClientSecretRef, Family, HeaderForm, IdentityProvider, Program, Remote, ServerAuth,
    ServerDefinition, ServerLimits, SessionScope, SpokenEra, Start, Teleport, TeleportIdentity, Timeouts,
    TokenExchange, ToolLabels, ToolLimits, ToolText, Transport, TransportKind, UserHeader,
};
pub use service::ServiceDefinition;
pub use service_class::{
    ArgumentDefinition, ArgumentKind, Expectation, HealthCheck, LifecycleTool, LifecycleTools, ServiceClassDefinition,
    ServiceTimeouts,
};
pub use size::{Size, SizeError};
pub use template_language::TemplateLanguage;
pub use validate::{FileReport, Scope as ValidateScope, ValidateError, validate};
pub use watch::watch;
pub use workflow::{Action, Condition, RESERVED_ARGUMENTS, RETRY_DELAY_MAX, Retry, Step, Test, WorkflowDefinition};
pub use write::{
    Change, DefinitionFile, FileChange, Files, ListedChange, ListedWrite, POLICIES, POLICY_EXTENSION, PolicyFileName,
    UndoError, WriteError, WriteRecord, WriteScope,
};
pub use yaml::{Document, documents, render as to_yaml};
