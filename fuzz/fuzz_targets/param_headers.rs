//! Mirrored arguments: whatever the schema, what is mirrored passes the check, and nothing else than it says does.

#![no_main]

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::param_header::ParamHeaders;

// Three lines: a schema, arguments, and the value of every header.
fuzz_target!(|data: &[u8]| {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    // A server's schema may have a key twice, a client's arguments may not.
    let Ok(schema) = Raw::parse(Bytes::copy_from_slice(next()), Rules::relayed(64)) else { return };
    let arguments = Raw::parse(Bytes::copy_from_slice(next()), Rules::strict(64));
    let Ok(headers) = ParamHeaders::read(&schema) else { return };
    let names: Vec<&HeaderName> = headers.iter().map(|header| header.name()).collect();
    assert!(names.len() <= 64 && headers.is_empty() == names.is_empty());
    assert!(names.iter().all(|name| name.as_str().starts_with("mcp-param-")));
    let Ok(arguments) = arguments else { return };

    let mirrored: HeaderMap = headers.mirror(&arguments).into_iter().collect();
    assert!(mirrored.len() <= names.len());
    let checked = headers.check(&mirrored, &arguments);
    // Half a surrogate pair cannot be mirrored and is refused.
    assert!(checked.is_ok() || arguments.as_str().contains("\\u"), "{checked:?}");
    for name in mirrored.keys() {
        let mut less = mirrored.clone();
        less.remove(name);
        assert!(headers.check(&less, &arguments).is_err());
        let mut twice = mirrored.clone();
        twice.append(name, mirrored[name].clone());
        assert!(headers.check(&twice, &arguments).is_err());
    }
    let Ok(value) = HeaderValue::from_bytes(next()) else { return };
    let given: HeaderMap = names.iter().map(|name| ((*name).clone(), value.clone())).collect();
    let _ = headers.check(&given, &arguments);
});
