//! The exceptions in `xtask/tidy.toml`, each with its reason. The list only shrinks: one that is not needed any more
//! is a finding itself.

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

use super::Finding;

pub const PATH: &str = "xtask/tidy.toml";

struct Exception {
    check: String,
    path: String,
    function: Option<String>,
    line: usize,
}

/// `findings` without those that the list allows, and with one for each entry that allows nothing.
pub fn apply(list: &str, findings: Vec<Finding>) -> Result<Vec<Finding>> {
    let exceptions = read(list)?;
    let mut used = vec![false; exceptions.len()];
    let mut left = Vec::new();
    for finding in findings {
        match exceptions.iter().position(|exception| exception.allows(&finding)) {
            Some(index) => used[index] = true,
            None => left.push(finding),
        }
    }
    for (exception, _) in exceptions.iter().zip(used).filter(|(_, used)| !used) {
        left.push(Finding {
            check: "allowed",
            path: PATH.to_owned(),
            line: exception.line,
            item: None,
            what: format!("`{}` for `{}` is not needed any more", exception.check, exception.path),
            mend: "remove the entry",
        });
    }
    Ok(left)
}

fn read(list: &str) -> Result<Vec<Exception>> {
    let table: Table = list.parse().with_context(|| format!("failed to read `{PATH}`"))?;
    let entries = table.get("allow").and_then(Value::as_array).cloned().unwrap_or_default();
    // The parser gives no lines; the entries keep their order, so their headings tell.
    let lines: Vec<usize> = list.lines().zip(1..).filter(|(l, _)| l.trim() == "[[allow]]").map(|(_, n)| n).collect();
    let mut exceptions = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let line = lines.get(index).copied().unwrap_or(1);
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let must = |key: &str| text(key).with_context(|| format!("`{PATH}:{line}`: an entry without `{key}`"));
        ensure!(must("reason")?.len() > 20, "`{PATH}:{line}`: the reason says too little");
        exceptions.push(Exception { check: must("check")?, path: must("path")?, function: text("function"), line });
    }
    Ok(exceptions)
}

// === impl Exception ===

impl Exception {
    fn allows(&self, finding: &Finding) -> bool {
        self.check == finding.check && self.path == finding.path && self.function == finding.item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str =
        "\n[[allow]]\ncheck = \"file-length\"\npath = \"a.rs\"\nreason = \"one table, read from top to bottom\"\n";

    fn finding(path: &str) -> Finding {
        Finding { check: "file-length", path: path.to_owned(), line: 800, item: None, what: String::new(), mend: "" }
    }

    fn left(list: &str, findings: Vec<Finding>) -> Vec<String> {
        apply(list, findings).unwrap().iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn an_entry_allows_one_check_in_one_file() {
        assert_eq!(left(LIST, vec![finding("a.rs"), finding("b.rs")]), ["b.rs:800"]);
    }

    #[test]
    fn an_entry_that_allows_nothing_is_a_finding() {
        assert_eq!(left(LIST, Vec::new()), ["xtask/tidy.toml:2"]);
    }

    #[test]
    fn an_entry_needs_a_reason() {
        assert!(apply("[[allow]]\ncheck = \"x\"\npath = \"y\"\n", Vec::new()).is_err());
        assert!(apply("[[allow]]\ncheck = \"x\"\npath = \"y\"\nreason = \"because\"\n", Vec::new()).is_err());
    }
}
