//! What a legacy client says of itself when it opens its session, as far as it is kept.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Raw, Revision};

/// The largest declaration that is kept, in bytes; a larger one counts as empty.
const LARGEST: usize = 16 * 1024;
/// How deep a declaration may nest.
const DEPTH: usize = 64;

/// What `initialize` agreed on.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// The revision that is spoken.
    pub revision: Revision,
    /// What the client can be asked, an object.
    pub capabilities: Raw,
    /// Its name and version, an object.
    pub client_info: Option<Raw>,
    /// Where the client calls from, where that is known.
    pub address: Option<IpAddr>,
}

impl Introduction {
    /// Reads the parameters of `initialize`.
    pub fn read(params: &Raw, revision: Revision) -> Self {
        let kept = |key| params.get(key).as_ref().and_then(detached);
        let capabilities = kept("capabilities").unwrap_or_else(Raw::empty_object);
        Self { revision, capabilities, client_info: kept("clientInfo"), address: None }
    }

    /// The same from this address.
    pub fn at(self, address: Option<IpAddr>) -> Self {
        Self { address, ..self }
    }
}

/// A client's name and version in one text, for records: what it says of itself, in `info`.
pub(crate) fn client_text(info: &Raw) -> Option<Arc<str>> {
    let name = info.text("name").filter(|name| !name.is_empty())?;
    let version = info.text("version").filter(|version| !version.is_empty());
    Some(version.map_or_else(|| name.as_str().into(), |version| format!("{name} {version}").into()))
}

/// A small object in memory of its own: a slice would keep the whole body alive as long as the session.
fn detached(raw: &Raw) -> Option<Raw> {
    if !raw.is_object() || raw.bytes().len() > LARGEST {
        return None;
    }
    Raw::parse(Bytes::copy_from_slice(raw.bytes()), Rules::strict(DEPTH)).ok()
}

impl From<Revision> for Introduction {
    /// A client that says nothing of itself.
    fn from(revision: Revision) -> Self {
        Self { revision, capabilities: Raw::empty_object(), client_info: None, address: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_too_large_or_no_object_counts_as_empty() {
        let large = json!({ "x": "y".repeat(LARGEST) });
        for odd in [json!(7), json!(null), json!([]), large] {
            let params = Raw::from_value(&json!({ "capabilities": odd, "clientInfo": odd }));
            let read = Introduction::read(&params, Revision::LATEST_LEGACY);
            assert_eq!((read.capabilities.as_str(), read.client_info), ("{}", None));
        }
        let params = Raw::from_value(&json!({ "capabilities": {"roots": {}}, "clientInfo": {"name": "n"} }));
        let read = Introduction::read(&params, Revision::LATEST_LEGACY);
        assert_eq!(read.capabilities.as_str(), r#"{"roots":{}}"#);
        assert_eq!(read.client_info.unwrap().as_str(), r#"{"name":"n"}"#);
    }
}
