//! Who the bearer of an access token is: signed tokens and opaque ones of the issuers that the settings name, with proofs
//! of possession.
//!
//! [`Identities`] is the handle. `token` has what is asked and answered, `claims` judges what a token says, `keys` holds
//! the keys of an issuer, `introspection` asks an issuer, `proof` checks DPoP, `sign_in` is for people with a browser (`sign_ins` keeps what they got, `sign_in_renewal` renews it),
//! `statement` for what issuers say of them to our authorization server, `certificate` for clients' certificates; `known`
//! remembers what was proven, `bearers` the tokens themselves where a server wants them. All network goes through
//! `transport::http::checked`. The decisions are in
//! `docs/adr/0014-access-tokens.md`.
//!
//! Knows no HTTP request, no profile's content and no gateway: `web` asks, the composition root joins them.

mod bearers;
mod certificate;
mod claims;
mod form;
mod identities;
mod introspection;
mod issuer;
mod keys;
mod known;
mod metadata;
mod name;
mod proof;
mod sign_in;
mod sign_in_renewal;
mod sign_ins;
mod statement;
mod token;

pub use bearers::{BearerKind, BearerToken};
pub use certificate::{CertificateAuthority, CertificateGrant};
pub use claims::actors;
pub use identities::Identities;
pub use issuer::{GrantRule, Grantee, IntrospectionClient, IssuerSettings, ReadSecret, SignInClient};
pub use name::encoded;
pub use sign_in::{SignIn, SignInAnswer, SignInError, SignInFuture, SignInStart, SignInState};
pub use sign_in_renewal::{KeepSignIns, NoSignIns};
pub use sign_ins::SignInTokens;
pub use statement::{CheckStatements, IssuerStatement, StatementCheck};
pub use token::{KnownToken, PresentedToken, ProveTokens, Resource, TokenCheck, TokenGrant, TokenRefusal};
