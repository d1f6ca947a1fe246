//! Remotes whose metadata lie in a place of their own, or nowhere.

use super::{ClientSettings, CorpusEntry, LoginEnd};
use crate::provider::rules::{Challenge, MetadataPlace, ProviderRules, RemoteRules, ResourcePlace, ServerRules};

/// The server's metadata are only where the challenge says (RFC 9728 §5.1).
pub(super) fn elsewhere() -> CorpusEntry {
    let metadata = vec![ResourcePlace::Path("/about/login.json")];
    let server = ServerRules { metadata, ..ServerRules::default() };
    entry("metadata elsewhere", RemoteRules { server, ..RemoteRules::default() })
}

/// The challenge does not say where the metadata are; they are before the server's path.
pub(super) fn well_known_only() -> CorpusEntry {
    let server = ServerRules { challenge: Challenge::Plain, ..ServerRules::default() };
    entry("metadata at the path only", RemoteRules { server, ..RemoteRules::default() })
}

/// The same, at the root.
pub(super) fn root_only() -> CorpusEntry {
    let (challenge, metadata) = (Challenge::Plain, vec![ResourcePlace::Root]);
    let server = ServerRules { challenge, metadata, ..ServerRules::default() };
    entry("metadata at the root only", RemoteRules { server, ..RemoteRules::default() })
}

/// A 401 without any header; the metadata are there (microsoft/vscode#268210, github/app#3254).
pub(super) fn no_challenge() -> CorpusEntry {
    let server = ServerRules { challenge: Challenge::Absent, ..ServerRules::default() };
    entry("401 without a challenge", RemoteRules { server, ..RemoteRules::default() })
}

/// No metadata of any kind: the endpoints are `/authorize`, `/token` and `/register` at the server's origin, as the
/// first revision with authorization had it. There is no `resource` yet.
pub(super) fn none() -> CorpusEntry {
    let mut rules = first_revision();
    rules.provider.metadata = Vec::new();
    entry("no metadata", rules)
}

/// No metadata of the server; those of the provider are at the server's origin, as in the first revision.
pub(super) fn metadata_at_server() -> CorpusEntry {
    entry("provider metadata at the server only", first_revision())
}

fn first_revision() -> RemoteRules {
    let provider = ProviderRules {
        metadata: vec![MetadataPlace::OAuthInserted],
        resource: crate::provider::rules::ResourceRule::Unread,
        ..ProviderRules::default()
    };
    let server = ServerRules { metadata: Vec::new(), challenge: Challenge::Plain, ..ServerRules::default() };
    RemoteRules { provider, server, one_origin: true }
}

fn entry(name: &'static str, rules: RemoteRules) -> CorpusEntry {
    CorpusEntry { name, rules, settings: ClientSettings::default(), end: LoginEnd::Renewal }
}
