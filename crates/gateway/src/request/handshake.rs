//! What the gateway says of itself: the answers to `initialize` and `server/discover`.

use serde_json::{Value, json};
use toolcrib_catalog::Exposure;
use toolcrib_protocol::{Era, Raw, Revision};
use toolcrib_view::dialect::{self, Act};
use toolcrib_view::view::View;

use crate::gateway::Gateway;

/// How many servers the instructions name.
const NAMED: usize = 50;

impl Gateway {
    /// The answer to `initialize`.
    pub fn initialize_result(&self, view: &View, revision: Revision) -> Raw {
        let mut result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": capabilities(),
            "serverInfo": self.path.server_info.to_value(),
        });
        if let Some(instructions) = instructions(view) {
            result["instructions"] = instructions.into();
        }
        view.offered.add_to(&Raw::from_value(&result), revision.era())
    }
}

/// The answer to `server/discover`.
pub(super) fn discover(view: &View) -> Raw {
    let mut result = json!({
        "supportedVersions": [Revision::LATEST.as_str()],
        "capabilities": capabilities(),
    });
    if let Some(instructions) = instructions(view) {
        result["instructions"] = instructions.into();
    }
    view.offered.add_to(&Raw::from_value(&result), Era::Modern)
}

/// What the gateway can do, as clients of both eras read it.
fn capabilities() -> Value {
    json!({
        "tools": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "prompts": { "listChanged": true },
        "completions": {},
        "logging": {},
    })
}

/// What a model should know of the profile: how to use it, and which servers stand behind.
fn instructions(view: &View) -> Option<String> {
    let profile = &view.profile;
    let mut text = profile.description.clone().unwrap_or_default();
    if profile.exposure != Exposure::Direct {
        let find = dialect::name_of(Act::Find, profile.dialect);
        let call = dialect::name_of(Act::Call, profile.dialect);
        let names: Vec<_> = view.servers.iter().take(NAMED).map(|(server, _)| server.name.as_str()).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("Search tools with {find} and call them with {call}. Servers: {}.", names.join(", ")));
    }
    (!text.is_empty()).then_some(text)
}
