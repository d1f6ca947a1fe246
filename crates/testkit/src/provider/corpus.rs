//! The corpus: simulated remotes that differ from the specifications as real ones do, one row each. Each row says in a
//! comment what is known of the real one and where from (as of September 2026); what is not known is as specified.
//!
//! To add a remote, add a function to the file of its kind and its name to [`corpus`].

mod by_hand;
mod odd;
mod open;
mod place;

use super::rules::RemoteRules;

/// A remote of the corpus.
#[derive(Clone, Debug)]
pub struct CorpusEntry {
    /// Its name, and what the person has prepared.
    pub name: &'static str,
    /// How it behaves.
    pub rules: RemoteRules,
    /// What stands in the definition of the server.
    pub settings: ClientSettings,
    /// How a login ends.
    pub end: LoginEnd,
}

/// What a person writes into a definition; empty for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientSettings {
    /// `client_id`.
    pub client_id: &'static str,
    /// `client_secret`.
    pub client_secret: &'static str,
    /// `scopes`.
    pub scopes: &'static [&'static str],
}

/// How a login ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginEnd {
    /// With a token that calls are accepted with and that can be renewed.
    Renewal,
    /// With a token that calls are accepted with; there is nothing to renew it with.
    Token,
    /// Before the browser opens, with a sentence that holds these words.
    Advice(&'static [&'static str]),
    /// On a page of the provider that says what is wrong; nothing comes back. Who waits for it reads these words.
    DeadEnd(&'static [&'static str]),
}

/// A client id that a person has registered by hand.
const CLIENT: &str = "client-by-hand";
/// Its secret.
const SECRET: &str = "SIMULATED-SECRET-by-hand";
/// What a person has to know who must register a client: which key takes it.
const REGISTER_BY_HAND: LoginEnd = LoginEnd::Advice(&["client_id", "http://127.0.0.1:", "/oauth/callback"]);
/// The same where only `localhost` can be entered.
const REGISTER_LOCALHOST: LoginEnd = LoginEnd::Advice(&["client_id", "http://localhost:", "/oauth/callback"]);

/// What a person has to know whose provider refuses the address of the answer on its own page.
const OTHER_REDIRECT: LoginEnd = LoginEnd::DeadEnd(&[
    "http://127.0.0.1:",
    "/oauth/callback",
    "https://developer.atlassian.com",
    "client_id",
    "redirect_uri",
    "identity.url",
    "toolcrib login",
]);

/// All remotes. `redirect` is the client's, as a person who registers a client by hand enters it.
pub fn corpus(redirect: &str) -> Vec<CorpusEntry> {
    let by_hand = by_hand::entries(redirect);
    let rest = [
        open::linear(),
        open::notion(),
        open::sentry(),
        open::asana(),
        open::miro(),
        open::figma(),
        open::figma_approved(),
        open::atlassian(),
        open::atlassian_loopback(),
        open::aws(),
        open::auth0(),
        open::keycloak(),
        place::elsewhere(),
        place::well_known_only(),
        place::root_only(),
        place::no_challenge(),
        place::none(),
        place::metadata_at_server(),
        odd::calls_only(),
        odd::no_lifetime(),
        odd::no_refresh_token(),
        odd::offline_scope(),
        odd::invalid_request(),
        odd::step_up(),
        odd::issuer_in_redirect(),
        odd::no_token_type(),
    ];
    by_hand.into_iter().chain(rest).collect()
}
