//! Responses of HTTP/1.1: the same body however the bytes are cut, never more of it than was sent, no end before the end.

#![no_main]

use http::Method;
use libfuzzer_sys::fuzz_target;
use toolcrib_protocol::http1::{HEAD_BYTES, HeadReader, ResponseError, ResponseHead};

fuzz_target!(|data: &[u8]| {
    let [seed, response @ ..] = data else { return };
    let whole = read(response, &mut |rest| rest);
    let mut state = u32::from(*seed);
    let in_pieces = read(response, &mut |rest| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 29) as usize + 1).min(rest)
    });
    match (&whole, &in_pieces) {
        (Ok(whole), Ok(in_pieces)) => assert_eq!(whole, in_pieces),
        // Which error is found first may depend on where the bytes are cut.
        (whole, in_pieces) => assert_eq!(whole.is_err(), in_pieces.is_err(), "{whole:?} {in_pieces:?}"),
    }
    let Ok((head, body, unread)) = whole else { return };
    assert!(body.len() + unread <= response.len());
    assert!(head.body.remaining().is_none_or(|length| length == body.len() as u64));
});

type WholeResponse = (ResponseHead, Vec<u8>, usize);

/// The head, the body and how many bytes are behind it, in pieces of the sizes that `size` chooses.
fn read(mut response: &[u8], size: &mut dyn FnMut(usize) -> usize) -> Result<WholeResponse, ResponseError> {
    let (mut reader, mut buffer) = (HeadReader::new(&Method::POST), Vec::new());
    let mut more = |buffer: &mut Vec<u8>| {
        let (piece, rest) = response.split_at(size(response.len()).min(response.len()));
        buffer.extend_from_slice(piece);
        response = rest;
        piece.len()
    };
    let head = loop {
        if more(&mut buffer) == 0 {
            return Err(ResponseError::Truncated);
        }
        if let Some((head, length)) = reader.read(&buffer)? {
            assert!(length <= HEAD_BYTES && length <= buffer.len());
            buffer.drain(..length);
            break head;
        }
    };
    let (mut decoder, mut body) = (head.body.clone(), Vec::new());
    while !decoder.is_done() {
        let decoded = decoder.decode(&buffer)?;
        body.extend_from_slice(&buffer[decoded.framing..][..decoded.data]);
        buffer.drain(..decoded.framing + decoded.data);
        if !decoder.is_done() && decoded.data == 0 && more(&mut buffer) == 0 {
            decoder.end()?;
        }
    }
    let unread = buffer.len() + response.len();
    Ok((head, body, unread))
}
