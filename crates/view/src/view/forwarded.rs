//! Capabilities of the servers of a profile that are forwarded to clients: extensions, and capabilities that the
//! gateway does not know.

use toolcrib_base::ServerName;
use toolcrib_protocol::raw::{Edit, Writer};
use toolcrib_protocol::{Era, Raw, task};
use toolcrib_upstream::Server;

/// Capabilities that the gateway speaks for itself about, or that end at it: `tasks` is of 2025-11-25 only, and works
/// between a client and the one it talks to.
const OWN: &[&str] = &["tools", "resources", "prompts", "completions", "logging", "tasks", "extensions"];
/// How many extensions a profile passes on.
const EXTENSIONS: usize = 64;
/// How much all of them may take, in bytes, and so for other capabilities.
const BYTES: usize = 16 * 1024;

/// What is passed on to clients.
#[derive(Debug, Default)]
pub struct ForwardedCapabilities {
    /// Name and settings, an object.
    extensions: Vec<(String, Raw)>,
    /// Of the only server that there is.
    others: Vec<(String, Raw)>,
}

impl ForwardedCapabilities {
    /// Gathers what the servers declare. Where two declare the same extension, the settings of the first are passed on.
    pub fn gather(servers: &[(ServerName, Server)]) -> Self {
        let mut offered = Self::default();
        let mut bytes = 0;
        for (_, server) in servers {
            let inventory = server.inventory();
            let Some(extensions) = inventory.capabilities.as_ref().and_then(|all| all.get("extensions")) else {
                continue;
            };
            for member in extensions.members() {
                let settings = extensions.part(member.value);
                let known = offered.extensions.iter().any(|(name, _)| *name == member.key);
                // Tasks are spoken of for all servers together.
                if known || !settings.is_object() || member.key == task::EXTENSION {
                    continue;
                }
                bytes += member.key.len() + settings.bytes().len();
                if offered.extensions.len() < EXTENSIONS && bytes <= BYTES {
                    offered.extensions.push((member.key.to_string(), settings));
                }
            }
        }
        if let [(_, server)] = servers
            && let Some(capabilities) = &server.inventory().capabilities
        {
            let others = capabilities.members().into_iter().filter(|member| !OWN.contains(&&*member.key));
            let others: Vec<_> =
                others.map(|member| (member.key.to_string(), capabilities.part(member.value))).collect();
            let bytes: usize = others.iter().map(|(name, value)| name.len() + value.bytes().len()).sum();
            if bytes <= BYTES {
                offered.others = others;
            }
        }
        offered
    }

    /// The answer to `initialize` or `server/discover` with these among its `capabilities`.
    ///
    /// Tasks are offered to modern clients only: what is slow here may become one, and those of servers are passed on.
    pub fn add_to(&self, result: &Raw, era: Era) -> Raw {
        let Some(capabilities) = result.get("capabilities") else { return result.clone() };
        let mut extensions = Writer::object(64);
        if era == Era::Modern {
            extensions.member(task::EXTENSION, "{}");
        }
        for (name, settings) in &self.extensions {
            extensions.member(name, settings.as_str());
        }
        let extensions = extensions.finish();
        let mut edits: Vec<(&str, Edit<'_>)> =
            self.others.iter().map(|(name, value)| (name.as_str(), Edit::Set(value.as_str()))).collect();
        if extensions.as_str() != "{}" {
            edits.push(("extensions", Edit::Set(extensions.as_str())));
        }
        if edits.is_empty() {
            return result.clone();
        }
        result.edit(&[("capabilities", Edit::Set(capabilities.edit(&edits).as_str()))])
    }
}
