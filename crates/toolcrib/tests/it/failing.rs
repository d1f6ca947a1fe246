//! A test that fails says what was expected, what came, and what its gateway logged. Shown by one that fails, in a
//! process of its own.

use toolcrib_testkit::launch::Launch;

use crate::serving::GatewayFixture;

/// Tells this test that it is the one that must fail.
const CHILD: &str = "TOOLCRIB_TEST_CHILD";
const NAME: &str = "failing::a_failing_test_prints_the_log_of_its_gateway";

#[tokio::test]
async fn a_failing_test_prints_the_log_of_its_gateway() {
    if std::env::var_os(CHILD).is_some() {
        let serving = GatewayFixture::start(&[("gone", "name: gone\ncommand: /no/such/program\nstart: eager\n")]).await;
        assert_eq!(serving.url(), "another");
    }
    let launch = Launch::new(std::env::current_exe().unwrap(), &["--exact", NAME]);
    let output = launch.with_path().env(CHILD, "fail").run("").await;
    assert_eq!(output.code, 101, "{}{}", output.stdout, output.stderr);
    let mut rest = output.stdout.as_str();
    let log = ["the log of `toolcrib serve`:", "serving url=", "ready servers=1"];
    for part in ["left: \"http://127.0.0.1:", "right: \"another\""].into_iter().chain(log) {
        let (_, after) = rest.split_once(part).unwrap_or_else(|| panic!("expected `{part}` next in:\n{rest}"));
        rest = after;
    }
}
