//! JUnit's XML: one suite, one case for each scenario.

use std::fmt::Write;

use crate::outcome::{Outcome, Tally, Verdict};

/// The report as XML.
pub(super) fn junit(outcomes: &[Outcome]) -> String {
    let tally = Tally::of(outcomes);
    let seconds: f64 = outcomes.iter().map(|outcome| outcome.took.as_secs_f64()).sum();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let mut line = |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("writing to a string cannot fail");
    let counts = format!(
        " tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\"",
        outcomes.len(),
        tally.failed,
        tally.errors,
        tally.skipped,
    );
    line(format_args!("<testsuites{counts}>\n<testsuite name=\"scenarios\"{counts}>\n"));
    for outcome in outcomes {
        let (name, file) = (escaped(&outcome.name), escaped(&outcome.file.to_string_lossy()));
        line(format_args!(
            "<testcase name=\"{name}\" classname=\"{file}\" file=\"{file}\" time=\"{:.3}\">",
            outcome.took.as_secs_f64()
        ));
        let reason = escaped(outcome.reason.as_deref().unwrap_or_default());
        match outcome.verdict {
            Verdict::Passed => {}
            Verdict::Skipped => line(format_args!("<skipped message=\"{reason}\"/>")),
            Verdict::Failed => {
                let log = escaped(&outcome.log.join("\n"));
                line(format_args!("<failure type=\"failed\" message=\"{reason}\">{reason}\n{log}</failure>"));
            }
            Verdict::Error => line(format_args!("<error type=\"error\" message=\"{reason}\">{reason}</error>")),
        }
        if !outcome.warnings.is_empty() {
            line(format_args!("<system-err>{}</system-err>", escaped(&outcome.warnings.join("\n"))));
        }
        line(format_args!("</testcase>\n"));
    }
    line(format_args!("</testsuite>\n</testsuites>\n"));
    out
}

/// Text that is neither markup nor a character which XML 1.0 has not.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push('\t'),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}
