//! Logs in to servers: discovery, registration, authorization, tokens and their renewal.
//!
//! [`Logins`] is the handle: a link to begin a login ([`Logins::begin`]), the page that a browser opens
//! ([`Logins::open`]), the answer that it brings back ([`Logins::complete`]), the headers of requests from then on
//! ([`Logins::headers`]). `oauth` alone names `rmcp`, which holds OAuth's state machine; `transport::http::checked` is the
//! only way to the network, `rows` the only way to the disk. The decisions are in `docs/adr/0012-logins.md`.
//!
//! [`SignOns`] proves principals without a person: by their own tokens, forwarded or exchanged, or by the gateway's own
//! client. The decisions are in `docs/adr/0016-single-sign-on.md`.
//!
//! Knows no gateway, no definitions and no web page: the composition root joins them.

mod answer;
mod callback;
mod challenge;
mod credentials;
mod endpoint;
mod error;
mod failures;
mod grant;
mod logins;
mod oauth;
mod owner;
mod pending;
mod possession;
mod quirks;
mod record;
mod rows;
mod shared;
mod sign_on;
mod stored;
mod subject;
mod target;

pub use challenge::Challenge;
pub use credentials::{LoginChange, Rejection};
pub use endpoint::AuthorizationUrl;
pub use error::LoginError;
pub use failures::LoginFailure;
pub use logins::{
    Config, LoginOutcome, LoginState, LoginStatus, Logins, OpenOutcome, OpenRequest, PendingDescription, PendingLogin,
};
pub use owner::Owner;
pub use pending::Begin;
pub use possession::PossessionKeys;
pub use quirks::{Quirk, Quirks};
pub use rows::{
    CredentialRow, LoginRows, LogoutRow, LogoutRows, MemoryRows, PendingRow, RegistrationRow, RowClaim, RowError,
};
pub use sign_on::{
    AudienceRule, ClientProof, EnterpriseSettings, ExchangeSettings, ProviderSettings, ReadSecret, SignOnClient,
    SignOnConfig, SignOnError, SignOnMethod, SignOnState, SignOnStatus, SignOnTarget, SignOns, WorkloadSettings,
};
pub use stored::StoredRows;
pub use subject::{NoSubjects, SubjectKind, SubjectToken, SubjectTokens};
pub use target::{LoginSettings, LoginTarget};
pub use toolcrib_transport::http::checked::{Resolution, ResolveHost, SystemResolver};
