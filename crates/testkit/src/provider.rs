//! Simulated remotes: a protected MCP server with the authorization server that it trusts, on free loopback ports, and a
//! browser without a screen for the person who logs in. Synchronous, a thread per connection.
//!
//! Every opaque token, code and secret that a remote gives starts with [`SECRET_MARK`], so that a test can look for one
//! where none may be. To add a switch, add it to `provider/rules.rs`; to add an endpoint, a file of `provider/endpoint/` and a
//! line in its `answer`.

mod answer;
mod browser;
pub mod corpus;
mod endpoint;
mod form;
mod jwt;
mod network;
mod proof;
mod remote;
mod resource;
mod rules;
mod state;

pub use browser::{Browser, BrowserPage, Consent, Destination, PageHeader, fetch};
pub use form::Form;
pub use network::Network;
pub use remote::{Naming, Remote};
pub use rules::{
    AnswerForm, Challenge, ClientEntry, DocumentForm, ErrorForm, IssRule, LockedPart, MetadataPlace, Page, PkceRule,
    ProofRule, ProviderRules, RedirectRule, RefreshCondition, RefreshRule, Registration, RemoteRules, ResourcePlace,
    ResourceRule, Rotation, ScopeAnswer, ScopeRefusal, ScopeRule, ServerRules, StatedIssuer, TokenForm,
};
pub use state::SECRET_MARK;
