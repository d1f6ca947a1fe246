//! What the gateway changes, and nothing else: the table of `docs/protocol.md`, as a program.

use toolcrib_testkit::script::Speaks;

use super::traffic::Object;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// Who speaks what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pairing {
    pub(crate) client: Speaks,
    pub(crate) server: Speaks,
    pub(crate) stdio: bool,
}

/// A request as the client writes it.
#[derive(Debug, Clone)]
pub(crate) struct ClientRequest {
    pub(crate) method: &'static str,
    /// Without `_meta`.
    pub(crate) params: Object,
    /// Where `_meta` stands among the parameters, and what it holds.
    pub(crate) meta: Option<(usize, Object)>,
}

// === impl Pairing ===

impl Pairing {
    pub(crate) fn all() -> Vec<Self> {
        let eras = [Speaks::Legacy, Speaks::Modern];
        let pairs = eras.into_iter().flat_map(|client| eras.map(|server| (client, server)));
        pairs.flat_map(|(client, server)| [true, false].map(|stdio| Self { client, server, stdio })).collect()
    }

    /// The name of the server and of its profile.
    pub(crate) fn name(self) -> String {
        format!("{:?}-{}", self.server, if self.stdio { "stdio" } else { "http" }).to_lowercase()
    }

    /// What the client writes: a modern one adds what each of its requests must carry.
    pub(crate) fn written(self, sent: &ClientRequest) -> Object {
        let mut params = sent.params.clone();
        let declares = self.client == Speaks::Modern;
        let (at, mut meta) = match &sent.meta {
            Some((at, meta)) => (*at, meta.clone()),
            None if declares => (0, Object::default()),
            None => return params,
        };
        if declares {
            meta.0.insert(0, (VERSION.to_owned(), "\"2026-07-28\"".to_owned()));
            meta.set(CAPABILITIES, "{}");
            meta.set(CLIENT, r#"{"name":"spy","version":"0"}"#);
        }
        params.0.insert(at.min(params.0.len()), ("_meta".to_owned(), meta.text()));
        params
    }

    /// The parameters that the server must get, in a request with this id.
    pub(crate) fn params(self, sent: &ClientRequest, id: &str) -> Object {
        let mut params = self.written(sent);
        match sent.method {
            // By its own name; no arguments are empty arguments.
            "tools/call" => {
                params.set("name", "\"odd\"");
                if params.get("arguments").is_none_or(|arguments| arguments == "null") {
                    params.set("arguments", "{}");
                }
            }
            "prompts/get" => params.set("name", "\"odd\""),
            _ => {}
        }
        let given = sent.meta.as_ref().map(|(_, meta)| meta.clone()).unwrap_or_default();
        let wants_progress = given.get("progressToken").is_some_and(|token| !matches!(token, "null" | "{}"));
        let mut meta = given.clone();
        // Reserved keys belong to one hop.
        meta.0.retain(|(key, _)| !key.starts_with("io.modelcontextprotocol/") && key != "progressToken");
        if self.server == Speaks::Modern {
            meta.set(VERSION, "\"2026-07-28\"");
            let version = env!("CARGO_PKG_VERSION");
            meta.set(CLIENT, format!(r#"{{"name":"toolcrib","title":"Toolcrib","version":"{version}"}}"#));
            meta.set(CAPABILITIES, "{}");
        }
        if wants_progress {
            // Ours is the id of the request.
            meta.set("progressToken", id);
        }
        match (meta.0.is_empty(), params.get("_meta")) {
            (true, Some(_)) => params.remove("_meta"),
            (true, None) => {}
            (false, _) => params.set("_meta", meta.text()),
        }
        params
    }

    /// The result as the server writes it: a modern one says what each of its results must say.
    pub(crate) fn answered(self, method: &str, result: &Object, meta: Option<&Object>) -> Object {
        let mut result = result.clone();
        if let Some(meta) = meta {
            result.set("_meta", meta.text());
        }
        if self.server == Speaks::Modern {
            result.0.insert(0, ("resultType".to_owned(), "\"complete\"".to_owned()));
            if method == "resources/read" {
                result.set("ttlMs", "1500");
                result.0.insert(1, ("cacheScope".to_owned(), "\"public\"".to_owned()));
            }
        }
        result
    }

    /// The result that the client must get.
    pub(crate) fn result(self, method: &str, result: &Object, meta: Option<&Object>) -> Object {
        let mut out = self.answered(method, result, meta);
        match (self.client, self.server) {
            // What a legacy server says to a legacy client is theirs.
            (Speaks::Legacy, Speaks::Legacy | Speaks::Both) => {}
            (Speaks::Legacy, Speaks::Modern) => {
                ["resultType", "ttlMs", "cacheScope"].iter().for_each(|key| out.remove(key));
                if let Some(meta) = meta.filter(|meta| meta.get(SERVER).is_some()) {
                    let mut meta = meta.clone();
                    meta.remove(SERVER);
                    if meta.0.is_empty() { out.remove("_meta") } else { out.set("_meta", meta.text()) }
                }
            }
            (Speaks::Modern | Speaks::Both, _) => {
                let mut meta = meta.cloned().unwrap_or_default();
                meta.set(
                    SERVER,
                    format!(r#"{{"name":"toolcrib","title":"Toolcrib","version":"{}"}}"#, env!("CARGO_PKG_VERSION")),
                );
                out.set("_meta", meta.text());
                out.add("resultType", "\"complete\"");
                if method == "resources/read" {
                    out.add("ttlMs", "0");
                    out.add("cacheScope", "\"private\"");
                }
            }
        }
        out
    }
}
