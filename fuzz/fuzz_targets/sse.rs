//! Event streams: the same events however the bytes are cut, no more kept than the limit, no event out of a field.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_protocol::sse::{Event, Reader, TooLarge};

fuzz_target!(|data: &[u8]| {
    let [limit, seed, stream @ ..] = data else { return };
    let limit = usize::from(*limit);
    let whole = Reader::new(limit).push(stream);
    assert_eq!(read_in_pieces(stream, limit, *seed), whole);
    let Ok(events) = whole else { return };
    for event in events {
        assert!(event.data.len() <= limit);
        let written = event.to_bytes();
        let mut read = Reader::new(usize::MAX / 2).push(&written).expect("no limit");
        assert_eq!(read.len(), 1, "{event:?}");
        let read = read.remove(0);
        // Carriage returns and zeros cannot be written; neither can stand in JSON.
        let clean = |bytes: &[u8]| bytes.iter().copied().filter(|byte| !b"\r\0".contains(byte)).collect::<Vec<_>>();
        assert_eq!(clean(&read.data), clean(&event.data));
        assert_eq!((read.retry, read.id.is_some()), (event.retry, event.id.is_some()));
    }
    let forged = Event { event: text(stream), id: text(stream), ..Event::data(stream.to_vec().into()) };
    let read = Reader::new(usize::MAX / 2).push(&forged.to_bytes()).expect("no limit");
    assert_eq!(read.len(), 1, "one event is written as one event");
});

fn text(bytes: &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// Cuts the stream into pieces of 1 to 8 bytes that follow from `seed`.
fn read_in_pieces(mut stream: &[u8], limit: usize, seed: u8) -> Result<Vec<Event>, TooLarge> {
    let (mut reader, mut events, mut state) = (Reader::new(limit), Vec::new(), u32::from(seed));
    while !stream.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = (state >> 29) as usize + 1;
        let (piece, rest) = stream.split_at(length.min(stream.len()));
        events.extend(reader.push(piece)?);
        stream = rest;
    }
    Ok(events)
}
