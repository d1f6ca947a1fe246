//! Which servers want a login, and what the registry knows of them.

use toolcrib_catalog::{AuthorizationKind, RegistryEntry, ServerDefinition, Transport, built_in};

/// The built-in entry of the service at a server's address.
pub fn registry_entry_of(definition: &ServerDefinition) -> Option<&'static RegistryEntry> {
    let (Transport::Http(remote) | Transport::Sse(remote)) = &definition.transport else { return None };
    let host = remote.url.host();
    built_in().values().map(|it| &*it.entry).find(|entry| host.is_some() && entry.host() == host)
}

/// Whether a server is known to want a login by OAuth: its definition says so, or the registry.
pub fn wants_login(definition: &ServerDefinition) -> bool {
    let is_oauth = |kept: &toolcrib_catalog::OpaqueValue| {
        serde_json::from_str::<serde_json::Value>(kept.as_json()).is_ok_and(|auth| auth["type"] == "oauth")
    };
    let is_marked = |entry: &RegistryEntry| entry.authorization.kind == AuthorizationKind::OAuth2;
    definition.auth.as_ref().is_some_and(is_oauth) || registry_entry_of(definition).is_some_and(is_marked)
}
