//! Headers: values survive being written, and a modern request passes only with headers that mirror its body.

#![no_main]

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Message, header, meta, method};

const NAMES: [&str; 3] = [header::PROTOCOL_VERSION, header::METHOD, header::NAME];

// Lines: each of the first byte's choice is a header, the last line is the body of a request.
fuzz_target!(|data: &[u8]| {
    let mut lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let body = lines.pop().unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some((choice, value)) = line.split_first() else { continue };
        check_value(value);
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(NAMES[usize::from(*choice) % NAMES.len()], value);
        }
    }
    let Ok(Message::Request(request)) = Message::parse(&Bytes::copy_from_slice(body), Rules::strict(32)) else {
        return;
    };
    let date = meta::declared_date(&request.params).unwrap_or_else(|| "2026-07-28".to_owned());
    let declared = meta::read_request(&request.params);
    if let Ok(declared) = &declared {
        assert_eq!(declared.date, date);
    }
    if header::check_modern(&headers, &request, &date).is_err() {
        return;
    }
    for name in NAMES {
        assert!(headers.get_all(name).iter().count() <= 1 || name == header::NAME);
    }
    assert_eq!(header::single(&headers, header::METHOD).expect("checked to be single"), Some(&*request.method));
    if let Some(wanted) = method::named_by(&request.method).and_then(|key| request.params.text(key)) {
        let given =
            header::single(&headers, header::NAME).expect("checked to be single").expect("the name is mirrored");
        assert_eq!(header::decode_value(given).expect("checked to be decodable"), wanted);
    }
});

fn check_value(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = header::decode_value(&text);
    let written = header::encode_value(&text);
    let value = HeaderValue::from_str(&written).expect("what is written fits a header");
    let mut headers = HeaderMap::new();
    headers.insert(header::NAME, value);
    let read = header::single(&headers, header::NAME).expect("it is ASCII").expect("it is there");
    assert_eq!(header::decode_value(read).expect("it was written by us"), text);
}
