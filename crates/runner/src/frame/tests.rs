//! The codec by tables and properties.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn decoded(bytes: &[u8], pieces: &[usize]) -> (Vec<Frame>, Result<(), FrameError>) {
    let mut decoder = Decoder::new(FRAME_BYTES);
    let (mut frames, mut rest) = (Vec::new(), bytes);
    let mut pieces = pieces.iter().copied().cycle();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(pieces.next().unwrap().clamp(1, rest.len()));
        decoder.buffer().extend_from_slice(piece);
        rest = after;
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Err(error)),
            }
        }
    }
    (frames, decoder.finish())
}

fn with_head(json: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(json.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

#[test]
fn a_frame_is_a_length_and_json() {
    let frame = Frame::new(FrameType::ToolCall, "7", &json!({"lease": 1, "call": "3.1"}));
    let bytes = frame.encode(FRAME_BYTES).unwrap();
    assert_eq!(bytes, with_head(r#"{"type":"tool_call","id":"7","payload":{"lease":1,"call":"3.1"}}"#));
    let (frames, end) = decoded(&with_head(r#"{"type":"ping"}"#), &[1]);
    assert_eq!((frames[0].kind, frames[0].id.as_str(), frames[0].payload.get()), (FrameType::Ping, "", "{}"));
    assert_eq!(end, Ok(()));
}

#[test]
fn what_is_no_frame_is_named() {
    let check = |bytes: Vec<u8>, code: &str, text: &str| {
        let (frames, end) = decoded(&bytes, &[bytes.len()]);
        let error = end.unwrap_err();
        assert!(frames.is_empty() && error.code() == code && error.to_string().contains(text), "{error}");
    };
    check(vec![0xff; 8], "frame_too_long", "4294967295 bytes is longer than 4194304");
    check(vec![0, 0x40, 0, 1], "frame_too_long", "4194305");
    check(with_head(r#"{"type":"teleport","id":"1","payload":{}}"#), "unknown_frame", "`teleport`");
    check(with_head(r#"{"type":"tool_executed","id":"1","payload":{}}"#), "foreign_report", "records them itself");
    check(with_head(r#"{"type":"ping","id":"","payload":{},"more":1}"#), "broken_frame", "more");
    check(with_head(r#"{"type":"ping","type":"pong"}"#), "broken_frame", "duplicate");
    check(with_head(r#"{"id":"1"}"#), "broken_frame", "type");
    check(with_head("[]"), "broken_frame", "");
    check(with_head(""), "broken_frame", "");
    check(with_head("\u{0}"), "broken_frame", "");
    check(b"GET / HTTP/1.1\r\n\r\n".to_vec(), "frame_too_long", "longer");
    check(with_head(&("[".repeat(4_000) + &"]".repeat(4_000))), "broken_frame", "");
}

#[test]
fn a_frame_that_is_too_long_is_not_written() {
    let frame = Frame::new(FrameType::Result, "1", &"x".repeat(100));
    let length = frame.encode(FRAME_BYTES).unwrap().len() - 4;
    assert!(frame.encode(length).is_ok());
    assert_eq!(frame.encode(length - 1).unwrap_err(), FrameError::TooLong { length, limit: length - 1 });
}

#[test]
fn a_payload_that_does_not_fit_names_its_frame() {
    let frame = Frame::new(FrameType::Message, "", &json!({"run": 7}));
    let error = frame.read::<crate::payload::Assignment>().unwrap_err();
    assert!(error.to_string().starts_with("the payload of a frame `message` does not fit:"), "{error}");
}

#[test]
fn frames_may_be_cut_at_every_byte() {
    let frames = [
        Frame::new(FrameType::Ping, "", &json!({})),
        Frame::new(FrameType::Result, "ä", &json!({"text": "Grüße \u{1F980}"})),
    ];
    let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.encode(FRAME_BYTES).unwrap()).collect();
    let first = frames[0].encode(FRAME_BYTES).unwrap().len();
    for cut in 0..bytes.len() {
        let (read, end) = decoded(&bytes[..cut], &[3]);
        assert_eq!(read.len(), usize::from(cut >= first), "cut at {cut}");
        let within = if cut >= first { cut - first } else { cut };
        assert_eq!(end, if within == 0 { Ok(()) } else { Err(FrameError::Cut(within)) }, "cut at {cut}");
    }
}

proptest! {
    #[test]
    fn frames_are_read_as_they_are_written(
        kinds in proptest::collection::vec(0..FrameType::ALL.len(), 1..6),
        id in ".{0,12}",
        text in ".{0,200}",
        number in any::<u64>(),
        pieces in proptest::collection::vec(1_usize..64, 1..8),
    ) {
        let payload = json!({"text": text, "number": number});
        let frames: Vec<Frame> = kinds.iter().map(|kind| Frame::new(FrameType::ALL[*kind].0, id.clone(), &payload)).collect();
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.encode(FRAME_BYTES).unwrap()).collect();
        let (read, end) = decoded(&bytes, &pieces);
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(read.len(), frames.len());
        for (read, written) in read.iter().zip(&frames) {
            prop_assert_eq!(read.kind, written.kind);
            prop_assert_eq!(&read.id, &written.id);
            prop_assert_eq!(read.payload.get(), written.payload.get());
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic_or_grow(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut decoder = Decoder::new(FRAME_BYTES);
        decoder.buffer().extend_from_slice(&bytes);
        while let Ok(Some(_)) = decoder.next_frame() {}
        prop_assert!(decoder.buffer().len() <= bytes.len());
    }
}
