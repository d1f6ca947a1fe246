//! The rules for templates of pages: nothing that a policy of content without `unsafe-inline` and `unsafe-eval` refuses, and
//! nothing by which a text in an attribute could become a program.

use super::{Finding, Report, scan};
use crate::workspace::TextFile;

/// Where templates are.
const TEMPLATES: &str = "crates/ui/templates/";

/// What a template does not hold, and why.
const FORBIDDEN: [(&str, &str); 8] = [
    ("hx-on", "htmx evaluates it"),
    ("js:", "htmx evaluates it"),
    ("javascript:", "a browser evaluates it"),
    ("hx-vals", "htmx evaluates it where it begins with `js:`"),
    (" style=", "the policy of content refuses it"),
    ("<style", "the policy of content refuses it"),
    ("<script>", "the policy of content refuses it"),
    ("srcdoc", "the policy of content refuses it"),
];

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    files.iter().filter(|file| file.path.starts_with(TEMPLATES)).flat_map(template).collect()
}

fn template(file: &TextFile) -> Vec<Finding> {
    let mut report = Report::new(&file.path);
    let mut add = |offset: usize, what: String| {
        let fix = "use a link, a form, a class, or `assets/toolcrib.js`";
        report.add("template", scan::line(&file.text, offset), what, fix);
    };
    for (forbidden, why) in FORBIDDEN {
        for (offset, _) in file.text.match_indices(forbidden) {
            add(offset, format!("`{forbidden}`: {why}"));
        }
    }
    for (offset, attribute) in attributes(&file.text) {
        let (name, value) = attribute;
        if name.len() > 2 && name.starts_with("on") && name[2..].bytes().all(|byte| byte.is_ascii_lowercase()) {
            add(offset, format!("`{name}`: the policy of content refuses it"));
        }
        if name == "hx-trigger" && value.contains('[') {
            add(offset, "a filter of a trigger: htmx evaluates it".to_owned());
        }
    }
    report.findings
}

/// Attributes with values in double quotes: where they begin, their names and values.
fn attributes(text: &str) -> impl Iterator<Item = (usize, (&str, &str))> {
    text.match_indices("=\"").filter_map(|(offset, _)| {
        let start =
            text[..offset].rfind(|letter: char| !(letter.is_ascii_alphanumeric() || "-:".contains(letter)))? + 1;
        let value = text[offset + 2..].split('"').next()?;
        Some((start, (&text[start..offset], value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_template(text: &str, expected: usize) {
        let file = TextFile { path: format!("{TEMPLATES}a.html"), text: text.to_owned() };
        assert_eq!(template(&file).len(), expected, "{text}");
    }

    #[test]
    fn what_a_browser_or_htmx_would_evaluate_is_found() {
        check_template("<a href=\"/ui\" class=\"id\">a</a><script defer src=\"/a.js\"></script>", 0);
        check_template("<form action=\"/ui/do/x\" hx-trigger=\"input delay:200ms\">", 0);
        for wrong in [
            "<a onclick=\"x()\">",
            "<b hx-on:click=\"x\">",
            "<b hx-trigger=\"click[ctrlKey]\">",
            "<b hx-get=\"js:x\">",
            "<a href=\"javascript:x\">",
            "<b style=\"x\">",
            "<style>",
            "<script>x</script>",
        ] {
            let file = TextFile { path: format!("{TEMPLATES}a.html"), text: wrong.to_owned() };
            assert!(!template(&file).is_empty(), "{wrong}");
        }
        assert!(check(&[TextFile { path: "crates/web/a.html".into(), text: "<style>".into() }]).is_empty());
    }
}
