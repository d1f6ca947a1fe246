//! The exceptions in `xtask/tidy.toml`, each with its reason. The list only shrinks: one that is not needed any more
//! is a finding itself.

use std::collections::{BTreeMap, BTreeSet};

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
            fix: "remove the entry",
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

/// The names that a section lists by crate: `[section]`, then `crate = ["name", …]`.
pub fn names(list: &str, section: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let table: Table = list.parse().with_context(|| format!("failed to read `{PATH}`"))?;
    let mut names = BTreeMap::new();
    for (key, value) in table.get(section).and_then(Value::as_table).into_iter().flatten() {
        let texts = |list: &Vec<Value>| list.iter().map(|name| name.as_str().map(str::to_owned)).collect();
        let listed: Option<BTreeSet<String>> = value.as_array().and_then(texts);
        names.insert(key.clone(), listed.with_context(|| format!("`{PATH}`: `{section}.{key}` is no list of names"))?);
    }
    Ok(names)
}

/// A finding for each of these names of a section, by crate.
pub fn unneeded(list: &str, section: &str, names: &BTreeMap<String, BTreeSet<String>>) -> Vec<Finding> {
    let pairs = names.iter().flat_map(|(key, names)| names.iter().map(move |name| (key, name)));
    let finding = |(key, name): (&String, &String)| Finding {
        check: section_check(section),
        path: PATH.to_owned(),
        line: line_of(list, section, key, name),
        item: None,
        what: format!("`{section}.{key}` need not name `{name}` any more"),
        fix: "remove the name, or run `cargo xtask tidy --shrink`",
    };
    pairs.map(finding).collect()
}

fn section_check(section: &str) -> &'static str {
    if section == "circles" { "circles" } else { "type-names" }
}

/// Where a section names something of a crate; 1 where it is not found.
fn line_of(list: &str, section: &str, key: &str, name: &str) -> usize {
    let (head, begin, quoted) = (format!("[{section}]"), format!("{key} = ["), format!("\"{name}\""));
    let mut lines =
        list.lines().zip(1..).skip_while(|(line, _)| *line != head).skip_while(|(line, _)| !line.starts_with(&begin));
    lines.find(|(line, _)| line.contains(&quoted)).map_or(1, |(_, number)| number)
}

/// The list without the lines of these findings: names on their own lines, entries up to the next blank line.
pub fn shrink(list: &str, findings: &[Finding]) -> String {
    let lines: Vec<&str> = list.lines().collect();
    let mut gone = vec![false; lines.len()];
    for finding in findings.iter().filter(|finding| finding.path == PATH) {
        let at = finding.line - 1;
        if finding.check == "allowed" {
            let end =
                lines[at..].iter().position(|line| line.trim().is_empty()).map_or(lines.len(), |end| at + end + 1);
            gone[at..end].fill(true);
        } else if lines[at].trim().starts_with('"') {
            gone[at] = true;
        }
    }
    let mut kept: Vec<&str> = Vec::new();
    for (line, _) in lines.into_iter().zip(gone).filter(|(_, gone)| !gone) {
        // A list that lost its last name goes as a whole.
        if line == "]" && kept.last().is_some_and(|line| line.ends_with(" = [")) {
            kept.pop();
        } else {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
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
        Finding { check: "file-length", path: path.to_owned(), line: 800, item: None, what: String::new(), fix: "" }
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
    fn what_is_not_needed_can_be_taken_out() {
        let list = format!("# Why.{LIST}\n[type-names]\nx = [\n    \"A\",\n]\ny = [\n    \"A\",\n    \"B\",\n]\n");
        let names = |key: &str| BTreeMap::from([(key.to_owned(), BTreeSet::from(["A".to_owned()]))]);
        let mut findings = unneeded(&list, "type-names", &names("x"));
        findings.extend(unneeded(&list, "type-names", &names("y")));
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [9, 12]);
        findings.extend(apply(&list, Vec::new()).unwrap());
        assert_eq!(shrink(&list, &findings), "# Why.\n[type-names]\ny = [\n    \"B\",\n]\n");
        assert_eq!(shrink(&list, &[]), list);
    }

    #[test]
    fn an_entry_needs_a_reason() {
        assert!(apply("[[allow]]\ncheck = \"x\"\npath = \"y\"\n", Vec::new()).is_err());
        assert!(apply("[[allow]]\ncheck = \"x\"\npath = \"y\"\nreason = \"because\"\n", Vec::new()).is_err());
    }
}
