//! Results of servers on their way to other clients: what comes out is JSON, a second time changes nothing more, and
//! URIs that are rewritten there and back are the same again.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use toolcrib_protocol::json::{self, Rules};
use toolcrib_protocol::{Raw, Revision, downgrade, method, task, uris};

const MARK: &str = "marked:";

fuzz_target!(|data: &[u8]| {
    let Ok(result) = Raw::parse(Bytes::copy_from_slice(data), Rules::relayed(64)) else { return };
    for revision in Revision::ALL {
        for method in [method::TOOLS_CALL, method::TOOLS_LIST, method::PROMPTS_GET] {
            let once = downgrade::result_for_revision(revision, method, &result);
            check(&once);
            let twice = downgrade::result_for_revision(revision, method, &once);
            assert_eq!(twice, once, "{revision} {method}");
        }
        check(&downgrade::tool_for(revision, &result));
    }
    let there = uris::rewrite_result(&result, &|uri| Some(format!("{MARK}{uri}")));
    check(&there);
    let back = uris::rewrite_result(&there, &|uri| uri.strip_prefix(MARK).map(str::to_owned));
    // Escapes in a URI may be written in another way, what it says is the same.
    assert_eq!(back.to_value(), result.to_value());
    check(&uris::rewrite_entry(&result, &|_| Some(String::new())));
    if task::is_task(&result) {
        check(&task::with_task_id(&result, "\"\n"));
    }
});

fn check(raw: &Raw) {
    assert!(json::scan(raw.bytes(), Rules::relayed(80)).is_ok(), "{raw:?}");
}
