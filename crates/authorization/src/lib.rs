//! The built-in authorization server: it takes requests of clients, asks the person in front of the browser, and gives
//! tokens that count at our own door.
//!
//! [`AuthorizationServer`] is the handle. In reading order: `settings` and `client` say who may ask, `redirect` where
//! answers go, `documents` fetches what clients publish of themselves; `authorize` reads a request, `consent` asks and
//! proves that the same browser answers, `approval` is the owner's word for installations without a provider; `grant`
//! gives tokens, `session` is what a person granted to a client, `run` binds some to a run, `signing` has the keys, `door`
//! takes our own tokens.
//! The decisions are in `docs/adr/0015-authorization-server.md`.
//!
//! Values in, values out: HTTP and pages are in `web`, rows in `store`.

mod approval;
mod approval_code;
mod authorize;
mod client;
mod consent;
mod documents;
mod door;
mod error;
mod grant;
mod metadata;
mod parameters;
mod proven;
mod provider_tokens;
mod record;
mod redirect;
mod registration;
mod request;
mod run;
mod secrets;
mod server;
mod session;
mod settings;
mod sign_on;
mod signing;

pub use approval::{ApprovalDescription, ApprovalGrant};
pub use authorize::{AuthorizeRefusal, ConsentPrompt};
pub use client::ClientSource;
pub use consent::{BrowserPerson, Consent, ConsentChoice, ConsentStep, ReturnStep};
pub use documents::{DocumentFetch, FetchDocuments, WebDocuments};
pub use error::{OAuthError, OAuthErrorCode};
pub use grant::{OWN, TokenRequest};
pub use proven::FindGrants;
pub use run::RunAccess;
pub use server::{AuthorizationServer, ServerParts};
pub use session::SessionDescription;
pub use settings::{ClientSettings, ServerSettings};
