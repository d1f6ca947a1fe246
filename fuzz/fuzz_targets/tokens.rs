//! Tokens and ids that come back from clients: only what was sealed opens, only what was written is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_protocol::cursor::{self, Cursor};
use toolcrib_protocol::event_id::EventId;
use toolcrib_protocol::seal::{PAYLOAD_LIMIT, Sealer, TOKEN_LIMIT};

// The first byte says where a token is spoilt, the rest is payload, purpose and token at once.
fuzz_target!(|data: &[u8]| {
    let Some((spoil, data)) = data.split_first() else { return };
    let sealer = Sealer::new([*spoil; 32]);
    let text = String::from_utf8_lossy(data);

    let token = sealer.seal("fuzz", data);
    assert_eq!(token.len() <= TOKEN_LIMIT, data.len() <= PAYLOAD_LIMIT);
    let opened = sealer.open("fuzz", &token);
    assert_eq!(opened.as_deref(), (data.len() <= PAYLOAD_LIMIT).then_some(data));
    assert_eq!(sealer.open("other", &token), None);
    let mut spoilt = token.into_bytes();
    let at = usize::from(*spoil) % spoilt.len();
    spoilt[at] = if spoilt[at] == b'A' { b'B' } else { b'A' };
    assert_eq!(sealer.open("fuzz", &String::from_utf8(spoilt).expect("it is ASCII")), None);
    assert_eq!(sealer.open(&text, &text), None);

    assert_eq!(Cursor::decode(&sealer, "fuzz", &text), None);
    check_event_id(&text);
    if let [version, offset, size, ..] = *data {
        let cursor = Cursor { version: version.into(), offset: offset.into() };
        let written = cursor.encode(&sealer, &text);
        assert_eq!(Cursor::decode(&sealer, &text, &written), Some(cursor));
        let page = cursor::page(usize::from(version), usize::from(offset), usize::from(size));
        assert!(page.range.end <= usize::from(version) && page.range.start <= page.range.end);
        assert!(page.next.is_none_or(|next| next > usize::from(offset)));
    }
});

fn check_event_id(text: &str) {
    let Some(id) = EventId::parse(text) else { return };
    assert_eq!(id.to_string(), text);
}
