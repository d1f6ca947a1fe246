//! The profiles and what they show.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::gateway::Gateway;

pub(super) fn list(gateway: &Arc<Gateway>) -> Value {
    let views = gateway.views();
    let profiles: Vec<Value> = views
        .values()
        .map(|view| {
            let profile = &view.profile;
            let name = profile.name.as_str();
            let url = if name == "default" { "/mcp".to_owned() } else { format!("/mcp/p/{name}") };
            json!({
                "name": name, "title": profile.title,
                "exposure": profile.exposure.as_str(), "dialect": profile.dialect.as_str(),
                "servers": view.servers.len(), "tools": view.tools.len(), "url": url,
            })
        })
        .collect();
    json!({ "profiles": profiles, "total": profiles.len() })
}
