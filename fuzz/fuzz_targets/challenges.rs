//! Challenges of servers: what is understood is short, plain, and read the same again.

#![no_main]

use http::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use libfuzzer_sys::fuzz_target;
use toolcrib_login::Challenge;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    for challenge in Challenge::parse(&text) {
        check(&challenge);
    }
    // Each line is a header.
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        headers.extend(HeaderValue::from_bytes(line).ok().map(|value| (WWW_AUTHENTICATE, value)));
    }
    if let Some(challenge) = Challenge::of(&headers) {
        check(&challenge);
    }
});

fn check(challenge: &Challenge) {
    let header = challenge.to_header();
    assert!(HeaderValue::from_str(&header).is_ok(), "{header:?}");
    assert_eq!(Challenge::parse(&header), std::slice::from_ref(challenge), "{header:?}");
    let texts = challenge.scopes.iter().chain(&challenge.resource_metadata).chain(&challenge.error);
    for text in texts {
        assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.len() <= 4_096, "{text:?}");
    }
    assert!(challenge.scopes.iter().all(|scope| !scope.contains([' ', '"', '\\'])), "{challenge:?}");
}
