//! Failures as providers send them.

use super::*;

fn now() -> Timestamp {
    Timestamp::parse("1994-11-06T08:49:00Z").unwrap()
}

fn check(status: u16, body: &str, kind: ErrorKind, message: &str) {
    let error = ModelError::of_response(status, |_| None, body.as_bytes(), now());
    assert_eq!((error.kind, error.message.as_str()), (kind, message), "{status} {body}");
}

#[test]
fn kinds_follow_status_and_body() {
    let anthropic = |kind: &str, message: &str| {
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#)
    };
    check(529, &anthropic("overloaded_error", "Overloaded"), ErrorKind::Overloaded, "Overloaded");
    check(429, &anthropic("rate_limit_error", "slow down"), ErrorKind::RateLimited, "slow down");
    check(401, &anthropic("authentication_error", "invalid x-api-key"), ErrorKind::Auth, "invalid x-api-key");
    check(403, &anthropic("permission_error", "no"), ErrorKind::Auth, "no");
    check(500, &anthropic("api_error", "Internal"), ErrorKind::Server, "Internal");
    check(413, &anthropic("request_too_large", "big"), ErrorKind::TooLarge, "big");
    check(404, &anthropic("not_found_error", "model: x"), ErrorKind::NotFound, "model: x");
    let long = "prompt is too long: 215000 tokens > 200000 maximum";
    check(400, &anthropic("invalid_request_error", long), ErrorKind::Window, long);
    check(400, &anthropic("invalid_request_error", "roles must alternate"), ErrorKind::Invalid, "roles must alternate");
    let filtered = "Output blocked by content filtering policy";
    check(400, &anthropic("invalid_request_error", filtered), ErrorKind::Filter, filtered);
}

#[test]
fn the_forms_of_other_providers_are_read() {
    let openai = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    check(429, openai, ErrorKind::Quota, "You exceeded your current quota");
    let window = r#"{"error":{"message":"too many","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
    check(400, window, ErrorKind::Window, "too many");
    let llama = r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}"#;
    check(400, llama, ErrorKind::Window, "the request exceeds the available context size, try increasing it");
    check(404, r#"{"error":"model 'x' not found"}"#, ErrorKind::NotFound, "model 'x' not found");
    check(422, r#"{"detail":"bad"}"#, ErrorKind::Invalid, "bad");
    check(400, r#"{"object":"error","message":"m","code":400}"#, ErrorKind::Invalid, "m");
    let gemini = r#"[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"@type":"RetryInfo","retryDelay":"34.5s"}]}}]"#;
    let error = ModelError::of_response(429, |_| None, gemini.as_bytes(), now());
    assert_eq!((error.kind, error.wait_ms), (ErrorKind::RateLimited, Some(34_500)));
    check(502, "<html>Bad gateway</html>", ErrorKind::Server, "<html>Bad gateway</html>");
    check(503, "", ErrorKind::Overloaded, "");
    check(402, "{}", ErrorKind::Quota, "{}");
    check(418, "\u{fffd}", ErrorKind::Invalid, "\u{fffd}");
    let error = ModelError::of_response(500, |_| None, "x".repeat(10_000).as_bytes(), now());
    assert_eq!(error.message.chars().count(), MESSAGE + 1);
}

#[test]
fn the_time_to_wait_is_seconds_or_a_date() {
    let wait = |header: &str| {
        let headers = |name: &str| (name == "retry-after").then_some(header);
        ModelError::of_response(429, headers, b"", now()).wait()
    };
    assert_eq!(wait("7"), Some(Duration::from_secs(7)));
    assert_eq!(wait(" 0.5 "), Some(Duration::from_millis(500)));
    assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(37)));
    assert_eq!(wait("Sun, 06 Nov 1994 08:48:37 GMT"), Some(Duration::ZERO));
    assert_eq!(wait("99999999999999999999999999"), Some(WAIT_MAX));
    for odd in ["", "-1", "soon", "inf", "NaN", "1e9", "Sun, 06 Nov", "Sun, 99 Nov 1994 08:49:37 GMT"] {
        assert_eq!(wait(odd), None, "{odd}");
    }
    let both = |name: &str| match name {
        "retry-after-ms" => Some("120"),
        "retry-after" => Some("9"),
        _ => None,
    };
    assert_eq!(ModelError::of_response(429, both, b"", now()).wait_ms, Some(120));
}

#[test]
fn errors_in_a_stream_are_known_by_their_names() {
    let kind = |text: &str| ModelError::of_event(&Json::parse(text.to_owned()).unwrap()).kind;
    assert_eq!(
        kind(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
        ErrorKind::Overloaded
    );
    assert_eq!(kind(r#"{"error":{"message":"m","type":"server_error","code":null}}"#), ErrorKind::Server);
    assert_eq!(kind(r#"{"type":"error","code":"rate_limit_exceeded","message":"m"}"#), ErrorKind::RateLimited);
    assert_eq!(kind(r#"{"error":{"code":400,"message":"bad","type":"BadRequestError"}}"#), ErrorKind::Invalid);
    assert_eq!(kind(r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#), ErrorKind::Window);
}

#[test]
fn no_other_model_is_asked_after_our_own_faults() {
    for kind in [ErrorKind::Invalid, ErrorKind::Auth, ErrorKind::Window, ErrorKind::Filter, ErrorKind::TooLarge] {
        assert!(!kind.is_retryable() && !kind.allows_another_model(), "{kind:?}");
    }
    for kind in [ErrorKind::RateLimited, ErrorKind::Overloaded, ErrorKind::Server] {
        assert!(kind.is_retryable() && kind.allows_another_model(), "{kind:?}");
    }
}
