//! A failing test says what was expected, what came, and the log of its gateway. Shown by a test that fails, in a
//! process of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::process::Command;

use serde_json::json;
use toolcrib_testgateway::{TestGateway, profile, server};

/// Tells this test that it is the one that must fail.
const CHILD: &str = "TOOLCRIB_TESTGATEWAY_TEST_CHILD";
const NAME: &str = "a_failing_test_prints_what_was_expected_what_came_and_the_log";

#[tokio::test]
async fn a_failing_test_prints_what_was_expected_what_came_and_the_log() {
    if std::env::var_os(CHILD).is_some() {
        return expect_another_answer().await;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env(CHILD, "fail")
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "{text}");
    let mut rest = text.as_str();
    let parts = [
        "panicked at",
        "left: \"one\"",
        "right: \"two\"",
        "the log of the gateway:",
        "toolcrib::server: failed: ",
        "broken",
        "test result: FAILED. 0 passed; 1 failed",
    ];
    for part in parts {
        let (_, after) = rest.split_once(part).unwrap_or_else(|| panic!("expected `{part}` next in:\n{rest}"));
        rest = after;
    }
    assert_eq!(text.matches("the log of the gateway:").count(), 1, "{text}");
}

/// Fails while one of its servers does not start.
async fn expect_another_answer() {
    let direct = profile("default", "exposure: direct\n");
    let gateway = TestGateway::settled(&[server("alpha", &[]), server("broken", &["--exit-at-start"]), direct]).await;
    let text = gateway.modern("default").text("alpha_echo", &json!({"text": "one"})).await;
    assert_eq!(text, "two");
}
