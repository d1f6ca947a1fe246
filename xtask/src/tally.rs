//! Counts of passed, failed and skipped tests, read from what the test runners print.

use std::fmt;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

// === impl Tally ===

impl Tally {
    pub const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    pub const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    pub const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };

    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// cargo-nextest: the last `Summary [ 0.1s] 12 tests run: 10 passed (1 slow), 2 failed, 1 skipped`.
    pub fn from_nextest(lines: &[String]) -> Self {
        let summary = lines.iter().rev().find_map(|line| {
            let line = line.trim_start();
            line.starts_with("Summary [").then(|| line.split_once("run:")).flatten()
        });
        summary.map(|(_, counts)| Self::from_words(&without_parentheses(counts))).unwrap_or_default()
    }

    /// libtest: every `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; …`.
    pub fn from_libtest(lines: &[String]) -> Self {
        let mut sum = Self::default();
        for line in lines {
            if let Some(result) = line.trim_start().strip_prefix("test result: ") {
                let counts = result.split_once(". ").map_or(result, |(_, counts)| counts);
                sum += Self::from_words(&counts.replace(';', ","));
            }
        }
        sum
    }

    /// pytest: the last `==== 2 failed, 10 passed, 1 skipped, 1 error in 3.41s ====`; with `-q` without the bars.
    pub fn from_pytest(lines: &[String]) -> Self {
        let counts = lines.iter().rev().find_map(|line| {
            let (counts, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
            time.starts_with(|digit: char| digit.is_ascii_digit()).then_some(counts)
        });
        Self::from_words(counts.unwrap_or_default())
    }

    /// `toolcrib test`: the last line `3 passed, 1 failed, 2 skipped, 0 errors`.
    pub fn from_scenarios(lines: &[String]) -> Self {
        let last = lines.iter().rev().find(|line| line.contains(" passed, ") && line.ends_with(" errors"));
        Self::from_words(last.map(String::as_str).unwrap_or_default())
    }

    /// node:test, both reporters: `ℹ pass 12` or `# pass 12` on their own lines.
    pub fn from_node(lines: &[String]) -> Self {
        let mut sum = Self::default();
        for line in lines {
            let Some(rest) = line.strip_prefix("ℹ ").or_else(|| line.strip_prefix("# ")) else { continue };
            let Some((word, count)) = rest.split_once(' ') else { continue };
            let Ok(count) = count.trim().parse::<usize>() else { continue };
            sum.add(word, count);
        }
        sum
    }

    fn from_words(counts: &str) -> Self {
        let mut sum = Self::default();
        for part in counts.split(',') {
            if let Some((count, word)) = part.trim().split_once(' ')
                && let Ok(count) = count.parse::<usize>()
            {
                sum.add(word.trim(), count);
            }
        }
        sum
    }

    fn add(&mut self, word: &str, count: usize) {
        match word {
            "pass" | "passed" | "xfailed" => self.passed += count,
            "fail" | "failed" | "cancelled" | "timed out" | "exec failed" | "error" | "errors" | "xpassed" => {
                self.failed += count;
            }
            "skip" | "skipped" | "ignored" | "todo" | "deselected" => self.skipped += count,
            _ => {}
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The tests that cargo-nextest names after its summary: those that failed, and those that passed only when repeated.
pub fn not_at_once(lines: &[String]) -> Vec<String> {
    let summary = lines.iter().rposition(|line| line.trim_start().starts_with("Summary ["));
    let after = lines.iter().skip(summary.map_or(lines.len(), |at| at + 1));
    let mut named: Vec<String> = after.filter_map(|line| named(line.trim())).collect();
    named.sort();
    named.dedup();
    named
}

/// What pytest (`FAILED file::test - why`) and node:test (`✖ test (12.3ms)`) name as failed.
pub fn failed_names(lines: &[String]) -> Vec<String> {
    let name = |line: &String| {
        let line = line.trim();
        let pytest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "));
        let pytest = pytest.filter(|rest| rest.contains("::")).map(|rest| rest.split(" - ").next().unwrap_or(rest));
        let node = line.strip_prefix("✖ ").and_then(|rest| Some(rest.rsplit_once(" (")?.0));
        pytest.or(node).map(str::to_owned)
    };
    let mut names: Vec<String> = lines.iter().filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// `TRY 3 FAIL [   1.830s] (741/1019) crate::it module::test` or `FLAKY 2/3 [   0.004s] (1/2) crate::it module::test`.
fn named(line: &str) -> Option<String> {
    let (word, rest) = line.split_once('[')?;
    let name = without_parentheses(rest.split_once(']')?.1);
    let name = name.trim();
    if name.is_empty() || !name.contains(' ') {
        return None;
    }
    let word = word.trim();
    if word.starts_with("FLAKY") {
        return Some(format!("{name} passed only when repeated ({word})"));
    }
    ["FAIL", "TIMEOUT", "SIG", "ABORT", "LEAK-FAIL"]
        .iter()
        .any(|bad| word.split(' ').next_back().is_some_and(|last| last.starts_with(bad)))
        .then(|| format!("{name} failed ({word})"))
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    let mut kept = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn tally(passed: usize, failed: usize, skipped: usize) -> Tally {
        Tally { passed, failed, skipped }
    }

    #[test]
    fn what_nextest_names_after_its_summary() {
        let text = "  TRY 1 FAIL [   0.1s] a::it early\n     Summary [   1.0s] 3 tests run: 2 passed (1 flaky), 1 failed\n   \
            FLAKY 2/3 [   0.004s] (1/3) b::it x::y\n  TRY 3 FAIL [   0.004s] (3/3) c d::e\n TRY 3 SIGABRT [   0.0s] c f\n\
            error: test run failed";
        let expect = [
            "b::it x::y passed only when repeated (FLAKY 2/3)",
            "c d::e failed (TRY 3 FAIL)",
            "c f failed (TRY 3 SIGABRT)",
        ];
        assert_eq!(not_at_once(&lines(text)), expect);
        assert!(not_at_once(&lines("error: no tests")).is_empty());
    }

    #[test]
    fn what_other_runners_name_as_failed() {
        let text = "FAILED test_a.py::x[http-sse] - BrokenResourceError() [single]\nERROR    mcp.client:sse.py:125 Error\n\
            ✔ good (1.0ms)\n✖ sdk 1 (modern): asks (12.3ms)\n✖ failing tests:\n✖ sdk 1 (modern): asks (12.3ms)\n\
            ERROR test_b.py::y";
        assert_eq!(failed_names(&lines(text)), ["sdk 1 (modern): asks", "test_a.py::x[http-sse]", "test_b.py::y"]);
        assert!(failed_names(&lines("1 passed")).is_empty());
    }

    #[test]
    fn nextest_summary() {
        let check = |text, expect| assert_eq!(Tally::from_nextest(&lines(text)), expect, "{text}");
        check("     Summary [   0.012s] 12 tests run: 12 passed, 1 skipped", tally(12, 0, 1));
        check(
            "Summary [ 9.0s] 14/20 tests run: 10 passed (1 slow, 2 leaky), 2 failed, 1 timed out, 1 exec failed, 6 skipped",
            tally(10, 4, 6),
        );
        check("     Summary [   0.000s] 1 test run: 0 passed, 1 failed, 0 skipped", tally(0, 1, 0));
        check("error: could not compile `base`", tally(0, 0, 0));
    }

    #[test]
    fn libtest_results_are_summed_and_filtered_ones_do_not_count() {
        let text = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\
                    noise\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s";
        assert_eq!(Tally::from_libtest(&lines(text)), tally(6, 2, 1));
    }

    #[test]
    fn scenario_summary() {
        let check = |text, expect| assert_eq!(Tally::from_scenarios(&lines(text)), expect, "{text}");
        check("PASSED x\n3 passed, 1 failed, 2 skipped, 4 errors", tally(3, 5, 2));
        check("3 passed, 0 failed, 0 skipped, 0 errors\nwarning: late", tally(3, 0, 0));
        check("error: no scenarios", tally(0, 0, 0));
    }

    #[test]
    fn pytest_summary() {
        let check = |text, expect| assert_eq!(Tally::from_pytest(&lines(text)), expect, "{text}");
        check("===== 2 failed, 10 passed, 1 skipped, 1 error in 3.41s =====", tally(10, 3, 1));
        check("=========== 1 passed in 61.02s (0:01:01) ===========", tally(1, 0, 0));
        check("2 failed, 73 passed, 67 skipped in 81.84s (0:01:21)", tally(73, 2, 67));
        check("=== no tests ran in 0.00s ===", tally(0, 0, 0));
    }

    #[test]
    fn node_summary_of_both_reporters() {
        let text = "ℹ tests 4\nℹ suites 0\nℹ pass 2\nℹ fail 1\nℹ cancelled 1\nℹ skipped 3\nℹ todo 0\nℹ duration_ms 7";
        assert_eq!(Tally::from_node(&lines(text)), tally(2, 2, 3));
        assert_eq!(Tally::from_node(&lines("# pass 2\n# fail 0\n# skipped 1")), tally(2, 0, 1));
    }
}
