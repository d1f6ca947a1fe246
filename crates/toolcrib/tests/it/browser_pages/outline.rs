//! What a screen reader meets on a page, as text: landmarks, headings, links, fields and buttons with their names, without
//! the rows of tables. The outlines of all pages are kept beside this file; what changes is looked at and then taken over
//! with `TOOLCRIB_KEEP_OUTLINES=1`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Pages;

/// What is part of an outline.
const ROLES: [&str; 24] = [
    "banner",
    "button",
    "checkbox",
    "columnheader",
    "combobox",
    "complementary",
    "dialog",
    "form",
    "group",
    "heading",
    "img",
    "link",
    "list",
    "main",
    "navigation",
    "radio",
    "region",
    "search",
    "searchbox",
    "status",
    "alert",
    "table",
    "textbox",
    "DisclosureTriangle",
];
/// What is data: it differs from one home to the next.
const DATA: [&str; 4] = ["cell", "gridcell", "rowheader", "LayoutTableCell"];

/// The outline of the page that is open: what is in its landmark `main`, or all of it with `is_whole`.
pub(super) async fn of(pages: &Pages, home: &Path, is_whole: bool) -> String {
    let tree = pages.cdp.send_raw("Accessibility.getFullAXTree", json!({})).await.unwrap();
    let nodes: BTreeMap<&str, &Value> =
        tree["nodes"].as_array().unwrap().iter().filter_map(|node| Some((node["nodeId"].as_str()?, node))).collect();
    let wanted = if is_whole { "RootWebArea" } else { "main" };
    let root = nodes.iter().find(|(_, node)| node["role"]["value"] == wanted).expect("the page has a landmark").0;
    let mut text = String::new();
    write_node(&nodes, root, 0, &mut text);
    text.replace(&home.display().to_string(), "HOME")
}

/// A name without its figures, which are data.
fn without_figures(name: &str) -> String {
    let mut plain = String::new();
    for character in name.chars() {
        match character.is_ascii_digit() {
            true if plain.ends_with('0') => {}
            true => plain.push('0'),
            false => plain.push(character),
        }
    }
    plain
}

fn write_node(nodes: &BTreeMap<&str, &Value>, id: &str, depth: usize, text: &mut String) {
    let Some(node) = nodes.get(id) else { return };
    let (role, name) = (node["role"]["value"].as_str().unwrap_or_default(), node["name"]["value"].as_str());
    if DATA.contains(&role) {
        return;
    }
    let is_shown = node["ignored"] != true && ROLES.contains(&role);
    if is_shown {
        let _ = write!(text, "{}{role}", "  ".repeat(depth));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let _ = write!(text, " {:?}", without_figures(name));
        }
        for property in node["properties"].as_array().into_iter().flatten() {
            let (name, value) = (property["name"].as_str().unwrap_or_default(), &property["value"]["value"]);
            match name {
                "level" => _ = write!(text, " {value}"),
                "required" | "expanded" | "checked" | "disabled" if *value == true => _ = write!(text, " {name}"),
                _ => {}
            }
        }
        text.push('\n');
    }
    for child in node["childIds"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        write_node(nodes, child, depth + usize::from(is_shown), text);
    }
}

/// Compares the outlines of pages with those that are kept in a file.
pub(super) fn compare(outlines: &[(String, String)], file: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/browser_pages").join(file);
    let found: String = outlines.iter().map(|(path, outline)| format!("# {path}\n\n{outline}\n")).collect();
    if std::env::var_os("TOOLCRIB_KEEP_OUTLINES").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let different: Vec<String> = kept
        .lines()
        .zip(found.lines())
        .filter(|(kept, found)| kept != found)
        .take(5)
        .map(|(kept, found)| format!("- {kept}\n+ {found}"))
        .collect();
    assert!(
        kept == found,
        "pages read differently than `{}`; look at what changed and keep it with TOOLCRIB_KEEP_OUTLINES=1:\n{}",
        file.display(),
        different.join("\n")
    );
}
