//! The protected MCP server: its metadata (RFC 9728), its challenges (RFC 6750), and as much of MCP as a client needs to
//! call one tool, in the revisions with a handshake.

use serde_json::{Value, json};

use super::answer::Answer;
use super::endpoint;
use super::proof::{ExpectedProof, ProofError, check};
use super::remote::Site;
use super::rules::{Challenge, LockedPart, MetadataPlace, ProofRule, ResourcePlace, ScopeRefusal, ServerRules};
use super::state::{Audience, Grant};
use crate::http::Request;

const METADATA: &str = "/.well-known/oauth-protected-resource";
/// What clients ask for before they know of authorization servers elsewhere.
const PROVIDER_METADATA: &str = "/.well-known/oauth-authorization-server";
/// The only tool.
const TOOL: &str = "whoami";

pub(super) fn answer(site: &Site, request: &Request) -> Option<Answer> {
    let rules = site.rules();
    let path = request.target.split('?').next().unwrap_or_default();
    if rules.server.metadata.iter().any(|place| place_path(*place, &rules.server) == path) {
        if rules.server.metadata.contains(&ResourcePlace::Redirect) && path != METADATA {
            return Some(Answer::redirect(&format!("{}{METADATA}", site.origins().server)));
        }
        return Some(Answer::document(rules.server.document, &document(site, &rules.server)));
    }
    if path == PROVIDER_METADATA && rules.provider.metadata.contains(&MetadataPlace::Server) {
        let document = endpoint::document(site, &rules.provider);
        return Some(Answer::document(rules.provider.document, &document));
    }
    if path != rules.server.path {
        return None;
    }
    Some(match request.method.as_str() {
        "POST" => message(site, &rules.server, request),
        "DELETE" => Answer::empty(200),
        _ => Answer::empty(405),
    })
}

fn place_path(place: ResourcePlace, rules: &ServerRules) -> String {
    match place {
        ResourcePlace::Inserted | ResourcePlace::Redirect => format!("{METADATA}{}", rules.path),
        ResourcePlace::Root => METADATA.to_owned(),
        ResourcePlace::Path(path) => path.to_owned(),
    }
}

fn document(site: &Site, rules: &ServerRules) -> Value {
    let provider = site.rules().provider;
    let mut resource = site.resource(rules);
    if rules.drops_slash {
        resource.truncate(resource.trim_end_matches('/').len());
    }
    let mut document = json!({
        "resource": resource,
        "authorization_servers": [endpoint::stated(site, &provider, rules.issuer)],
        "bearer_methods_supported": ["header"],
    });
    if !rules.scopes_supported.is_empty() {
        endpoint::edit(&mut document, &json!({"scopes_supported": rules.scopes_supported}));
    }
    if rules.proofs != ProofRule::Absent {
        endpoint::edit(&mut document, &json!({"dpop_signing_alg_values_supported": ["ES256"]}));
    }
    endpoint::edit(&mut document, &rules.edits);
    document
}

fn message(site: &Site, rules: &ServerRules, request: &Request) -> Answer {
    let message = request.json();
    let method = message["method"].as_str().unwrap_or_default();
    let is_call = method == "tools/call";
    if is_call || rules.locked == LockedPart::Everything {
        let key = match key(site, rules, request) {
            Ok(key) => key,
            Err(error) => {
                site.state().counters.refused += 1;
                return unproven(site, rules, error);
            }
        };
        let mut state = site.state();
        let token = request.header("authorization").and_then(|header| token_of(header, rules));
        let grant = token.and_then(|token| state.granted(token, site.now()));
        let grant = grant.filter(|grant| is_for_us(&grant.audience, &site.resource(rules)));
        // Who knows nothing of keys takes each token from everyone.
        let grant = grant.filter(|grant| rules.proofs == ProofRule::Absent || grant.key == key);
        let refusal = match grant {
            None => Some(unauthorized(site, rules, token.is_some())),
            Some(grant) if is_call && lacks(grant, rules.call_scope) => Some(forbidden(site, rules)),
            Some(_) => None,
        };
        match refusal {
            None => state.counters.accepted += 1,
            Some(refusal) => {
                state.counters.refused += 1;
                return refusal;
            }
        }
    }
    let is_strange = rules.sessions && method != "initialize" && request.header("mcp-session-id").is_none();
    let answer = match method {
        _ if is_strange => {
            let error = json!({"code": -32000, "message": "Bad Request: Server not initialized"});
            Answer::json(400, &json!({"jsonrpc": "2.0", "id": null, "error": error}))
        }
        "initialize" if rules.sessions => result(&message, method).with("mcp-session-id: one".to_owned()),
        _ => result(&message, method),
    };
    match nonce(site, rules) {
        Some(nonce) => answer.with(format!("dpop-nonce: {nonce}")),
        None => answer,
    }
}

fn nonce(site: &Site, rules: &ServerRules) -> Option<String> {
    (rules.proofs == ProofRule::Nonce).then(|| format!("server-{}", site.state().nonce))
}

/// The token of a header, in a way that the server knows.
fn token_of<'a>(header: &'a str, rules: &ServerRules) -> Option<&'a str> {
    let bound = header.strip_prefix("DPoP ").filter(|_| rules.proofs != ProofRule::Absent);
    header.strip_prefix("Bearer ").or(bound)
}

/// The thumbprint of the key that a request is proven with; `None` for one that presents its token otherwise.
fn key(site: &Site, rules: &ServerRules, request: &Request) -> Result<Option<String>, ProofError> {
    let token = request.header("authorization").and_then(|header| header.strip_prefix("DPoP "));
    if token.is_none() || rules.proofs == ProofRule::Absent {
        return Ok(None);
    }
    check(site, &ExpectedProof { request, url: site.resource(rules), token, nonce: nonce(site, rules) })
}

/// A request whose proof is missing or wrong.
fn unproven(site: &Site, rules: &ServerRules, error: ProofError) -> Answer {
    let code = match error {
        ProofError::Wrong(_) => "invalid_dpop_proof",
        ProofError::Nonce => "use_dpop_nonce",
    };
    let answer = Answer::json(401, &json!({"error": code})).with(format!("www-authenticate: DPoP error=\"{code}\""));
    match nonce(site, rules) {
        Some(nonce) => answer.with(format!("dpop-nonce: {nonce}")),
        None => answer,
    }
}

fn is_for_us(audience: &Audience, resource: &str) -> bool {
    match audience {
        Audience::Everyone => true,
        Audience::Nobody => false,
        Audience::Resource(named) => named.trim_end_matches('/') == resource.trim_end_matches('/'),
    }
}

fn lacks(grant: &Grant, scope: &str) -> bool {
    !scope.is_empty() && !grant.scopes.iter().any(|granted| granted == scope)
}

fn unauthorized(site: &Site, rules: &ServerRules, had_token: bool) -> Answer {
    let answer = Answer::json(401, &json!({"error": "invalid_token"}));
    let Some(challenge) = challenge(site, rules) else { return answer };
    let mut parts = vec![challenge];
    if had_token {
        parts.push("error=\"invalid_token\"".to_owned());
    }
    if !rules.challenge_scope.is_empty() {
        parts.push(format!("scope=\"{}\"", rules.challenge_scope));
    }
    answer.with(header(&parts))
}

fn forbidden(site: &Site, rules: &ServerRules) -> Answer {
    if rules.scope_refusal == ScopeRefusal::Text {
        return Answer::new(403, "text/plain", "Forbidden");
    }
    let answer = Answer::json(403, &json!({"error": "insufficient_scope"}));
    let mut parts: Vec<String> = challenge(site, rules).into_iter().collect();
    parts.push("error=\"insufficient_scope\"".to_owned());
    parts.push(format!("scope=\"{}\"", rules.call_scope));
    answer.with(header(&parts))
}

/// The first parameter of a challenge; empty for a challenge without it, `None` for no challenge.
fn challenge(site: &Site, rules: &ServerRules) -> Option<String> {
    match rules.challenge {
        Challenge::Metadata => {
            let path = rules.metadata.first().map(|place| place_path(*place, rules)).unwrap_or_default();
            Some(format!("resource_metadata=\"{}{path}\"", site.origins().server))
        }
        Challenge::Address(address) => Some(format!("resource_metadata=\"{address}\"")),
        Challenge::Plain => Some(String::new()),
        Challenge::Absent => None,
    }
}

fn header(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    format!("www-authenticate: Bearer {}", parts.join(", ")).trim_end().to_owned()
}

/// What an MCP server says to whom it lets in.
fn result(message: &Value, method: &str) -> Answer {
    let Some(id) = message.get("id") else { return Answer::empty(202) };
    let result = match method {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "simulated-remote", "version": "1"},
        }),
        "ping" => json!({}),
        "tools/list" => json!({"tools": [{
            "name": TOOL,
            "description": "Says who asks.",
            "inputSchema": {"type": "object"},
        }]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "someone"}]}),
        _ => {
            let error = json!({"code": -32601, "message": format!("`{method}` is not known")});
            return Answer::json(200, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Answer::json(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}
