//! What reports look like.

use std::time::Duration;

use super::*;
use crate::outcome::{StepOutcome, Verdict};

fn outcomes() -> Vec<Outcome> {
    let file = Path::new("a.yaml");
    let step = StepOutcome {
        id: "s".to_owned(),
        tool: "t".to_owned(),
        verdict: Verdict::Passed,
        reason: None,
        tries: 2,
        took: Duration::from_millis(5),
    };
    let passed = Outcome { reason: None, steps: vec![step], ..Outcome::bare("one", file, Verdict::Passed, "") };
    vec![
        passed,
        Outcome::bare("two", file, Verdict::Failed, "`<a & \"b\">\u{1b}[2J"),
        Outcome::bare("three", file, Verdict::Skipped, "needs identity"),
        Outcome::bare("four", file, Verdict::Error, "no gateway"),
    ]
}

#[test]
fn json_tells_counts_and_steps() {
    let report: Value = serde_json::from_str(&render(Path::new("r.json"), &outcomes()).unwrap()).unwrap();
    let counts = [&report["passed"], &report["failed"], &report["skipped"], &report["errors"]];
    assert_eq!(counts, [1, 1, 1, 1]);
    let scenario = &report["scenarios"][0];
    assert_eq!(
        (&scenario["name"], &scenario["result"], &scenario["reason"]),
        (&json!("one"), &json!("passed"), &Value::Null)
    );
    assert_eq!((&scenario["steps"][0]["id"], &scenario["steps"][0]["tries"]), (&json!("s"), &json!(2)));
    assert_eq!(report["scenarios"][3]["result"], "error");
}

#[test]
fn xml_is_junit_and_nothing_in_it_is_markup() {
    let report = render(Path::new("r.xml"), &outcomes()).unwrap();
    assert!(report.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""), "{report}");
    assert!(
        report.contains("<failure type=\"failed\" message=\"`&lt;a &amp; &quot;b&quot;&gt;\u{FFFD}[2J\">"),
        "{report}"
    );
    assert!(
        report.contains("<skipped message=\"needs identity\"/>")
            && report.contains("<error type=\"error\" message=\"no gateway\">")
    );
    assert_eq!(render(Path::new("r.txt"), &[]), None);
}
