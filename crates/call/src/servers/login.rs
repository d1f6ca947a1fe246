//! Which servers want a login, and what the registry knows of them.

use toolcrib_catalog::{AuthorizationKind, RegistryEntry, ServerAuth, ServerDefinition, Transport, built_in};

/// The built-in entry of the service at a server's address.
pub fn registry_entry_of(definition: &ServerDefinition) -> Option<&'static RegistryEntry> {
    let (Transport::Http(remote) | Transport::Sse(remote)) = &definition.transport else { return None };
    let host = remote.url.host();
    built_in().values().map(|it| &*it.entry).find(|entry| host.is_some() && entry.host() == host)
}

/// Whether a server is known to want a login by OAuth: its definition says so, or the registry.
pub fn wants_login(definition: &ServerDefinition) -> bool {
    let is_marked = |entry: &RegistryEntry| entry.authorization.kind == AuthorizationKind::OAuth2;
    definition.auth.as_ref().is_some_and(ServerAuth::wants_login)
        || registry_entry_of(definition).is_some_and(is_marked)
}
