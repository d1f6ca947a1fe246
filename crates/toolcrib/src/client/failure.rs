//! What went wrong between us and the gateway, told so that the person can act on it.

use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::RpcError;
use toolcrib_transport::LinkError;

use super::GatewayAddress;

/// How much of a refusal's text is shown, in characters.
const SHOWN: usize = 500;

/// An error of the connection.
pub(super) fn of_link(error: LinkError, located: &GatewayAddress) -> Problem {
    let (url, place) = (&located.uri, &located.place);
    match error {
        LinkError::Unreachable(reason) => {
            let message = format!("cannot reach the gateway at `{url}` (from {place}): {reason}");
            let hint = if located.is_named {
                "check the URL, or start a gateway on this machine with `toolcrib serve`"
            } else {
                "start it with `toolcrib serve`, or use another one with `--endpoint URL`"
            };
            Problem::new(Kind::Unavailable, message).hint(hint)
        }
        LinkError::Timeout(after) => {
            let message = format!("the gateway at `{url}` did not answer within {} s", after.as_secs_f32());
            Problem::new(Kind::Timeout, message).hint("wait longer with `--timeout 10m`")
        }
        LinkError::Status { status, body, challenge } => {
            let problem = with_login_hint(of_status(status, &body, located), challenge.as_deref(), located);
            match challenge.as_deref().and_then(named_error) {
                Some(error) => Problem { message: format!("{} (HTTP {status}, {error})", problem.message), ..problem },
                None => problem,
            }
        }
        LinkError::SessionLost => {
            let message = format!("the gateway at `{url}` was restarted during the request");
            Problem::new(Kind::Unavailable, message).hint("try again")
        }
        LinkError::NotMcp(reason) => {
            let message = format!("the server at `{url}` (from {place}) does not speak MCP: {}", short(&reason));
            Problem::new(Kind::BadServer, message).hint("an endpoint looks like `http://127.0.0.1:8700/mcp`")
        }
        LinkError::Closed | LinkError::Broken(_) | LinkError::NeedsLogin | LinkError::Unproven(_) => {
            Problem::new(Kind::Unavailable, format!("the connection to the gateway at `{url}` broke: {error}"))
        }
    }
}

pub(super) fn of_status(status: u16, body: &str, located: &GatewayAddress) -> Problem {
    let url = &located.uri;
    let told = body_reason(body).map(|told| format!(": {told}")).unwrap_or_default();
    match (status, &located.token) {
        (401, None) if located.has_login => {
            Problem::new(Kind::Unauthenticated, format!("the login at the gateway at `{url}` does not count{told}"))
                .hint(login_hint(located))
        }
        (401, None) => Problem::new(Kind::Unauthenticated, format!("the gateway at `{url}` requires a token{told}"))
            .hint(hint_of_token(located)),
        (401, Some(_)) => Problem::new(Kind::Forbidden, format!("the gateway at `{url}` rejected the token{told}"))
            .hint("check `--token-file` and `TOOLCRIB_TOKEN`"),
        (403, _) => Problem::new(Kind::Forbidden, format!("the gateway at `{url}` denied the request{told}")),
        (404, _) => Problem::new(Kind::NotFound, format!("no MCP endpoint at `{url}` (from {}){told}", located.place))
            .hint("see `toolcrib list profiles`; an endpoint looks like `http://127.0.0.1:8700/mcp`"),
        _ => Problem::new(Kind::BadServer, format!("the gateway at `{url}` answered HTTP status {status}{told}")),
    }
}

/// The `error` of a challenge (RFC 6750, section 3), where it is a plain word.
fn named_error(challenge: &str) -> Option<&str> {
    let rest = challenge.split_once("error=\"")?.1;
    let word = rest.split('"').next()?;
    let is_plain = (1..=40).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_plain.then_some(word)
}

/// What to do about a missing token.
pub(super) fn hint_of_token(located: &GatewayAddress) -> String {
    let reason = located.no_token.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("pass the gateway's token with `--token-file FILE` or `TOOLCRIB_TOKEN`{reason}")
}

/// The same where the gateway's challenge says that one can log in.
pub(super) fn with_login_hint(problem: Problem, challenge: Option<&str>, located: &GatewayAddress) -> Problem {
    let offers_login = challenge.is_some_and(|challenge| challenge.contains("resource_metadata"));
    let wants_it = problem.kind == Kind::Unauthenticated && located.token.is_none();
    if offers_login && wants_it { problem.hint(login_hint(located)) } else { problem }
}

fn login_hint(located: &GatewayAddress) -> String {
    format!("log in with `toolcrib auth login --endpoint {}`, or pass a token with `--token-file FILE`", located.uri)
}

/// What the body of a refusal says: an error of JSON-RPC, a problem of RFC 9457, or plain text.
fn body_reason(body: &str) -> Option<String> {
    let text = match serde_json::from_str::<Value>(body) {
        Ok(value) => [&value["error"]["message"], &value["detail"], &value["title"], &value["error"]]
            .into_iter()
            .find_map(Value::as_str)
            .map(str::to_owned)?,
        Err(_) if body.trim_start().starts_with('<') => return None,
        Err(_) => body.to_owned(),
    };
    Some(short(text.trim())).filter(|text| !text.is_empty())
}

fn short(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// An error of JSON-RPC.
pub(super) fn of_rpc(error: &RpcError, located: &GatewayAddress) -> Problem {
    let named = error.data.as_ref().and_then(|data| data.text("kind"));
    let problem = Problem::new(kind(named.as_deref(), error.code), error.message.clone());
    with_token_hint(problem, located)
}

/// The gateway names the meta-tool that searches; in a shell that is a command.
pub(crate) fn for_a_shell(message: &str) -> String {
    const FINDERS: [&str; 4] = ["find_tools", "filter_tools", "tool_find", "scooter_find"];
    for start in ["Search with ", "or search with "] {
        for finder in FINDERS {
            if let Some(rest) = message.strip_suffix(&format!("{start}{finder}.")) {
                return format!("{rest}{start}`toolcrib find WORDS`.");
            }
        }
    }
    message.to_owned()
}

/// The kind of a name, else of a code.
pub(super) fn kind(name: Option<&str>, code: i64) -> Kind {
    let named = Kind::ALL.into_iter().find(|kind| Some(kind.name()) == name);
    named.or_else(|| Kind::ALL.into_iter().find(|kind| kind.row().code == code)).unwrap_or(Kind::Internal)
}

/// Says how to come with a token where that may be what is missing.
fn with_token_hint(problem: Problem, located: &GatewayAddress) -> Problem {
    let wants_token = matches!(problem.kind, Kind::Forbidden | Kind::Unauthenticated);
    if wants_token && !located.has_credential() {
        // Who came with nothing has not failed to prove anything.
        let problem = Problem { kind: Kind::Unauthenticated, ..problem };
        return if problem.hint.is_none() { problem.hint(hint_of_token(located)) } else { problem };
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_name_then_by_code() {
        assert_eq!(kind(Some("forbidden"), -32_602), Kind::Forbidden);
        assert_eq!(kind(Some("future"), -31_002), Kind::Unauthenticated);
        assert_eq!(kind(None, -1), Kind::Internal);
    }

    #[test]
    fn a_search_is_named_by_its_command() {
        for (message, expected) in [
            ("tool not found: `x`. Search with find_tools.", "tool not found: `x`. Search with `toolcrib find WORDS`."),
            ("Use `y`, or search with tool_find.", "Use `y`, or search with `toolcrib find WORDS`."),
            ("Search with find_tools. Now.", "Search with find_tools. Now."),
        ] {
            assert_eq!(for_a_shell(message), expected);
        }
    }

    #[test]
    fn the_error_of_a_challenge_is_a_plain_word() {
        for (challenge, expected) in [
            (r#"Bearer error="invalid_token", resource_metadata="http://x""#, Some("invalid_token")),
            (r#"Bearer resource_metadata="http://x", error="insufficient_scope""#, Some("insufficient_scope")),
            (r#"Bearer realm="x""#, None),
            ("Bearer error=\"\u{1b}[31mred\"", None),
            (r#"Bearer error="""#, None),
        ] {
            assert_eq!(named_error(challenge), expected, "{challenge}");
        }
    }

    #[test]
    fn refusals_are_read() {
        for (body, expected) in [
            (r#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}"#, Some("no")),
            (r#"{"type":"x","title":"Forbidden","detail":"this origin"}"#, Some("this origin")),
            (r#"{"error":"invalid_token"}"#, Some("invalid_token")),
            ("plain\n", Some("plain")),
            ("<html>", None),
            ("", None),
            ("{}", None),
        ] {
            assert_eq!(body_reason(body).as_deref(), expected, "{body}");
        }
    }
}
