//! Follows every link of the pages that were made: the file is there, and so is the place in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// What leads to another file or place.
const ATTRIBUTES: [&str; 3] = ["href=\"", "src=\"", "srcset=\""];

/// One line for each link that leads nowhere.
pub fn check(folder: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    collect(folder, folder, &mut files)?;
    let places: BTreeMap<&Path, BTreeSet<&str>> =
        files.iter().map(|(path, text)| (path.as_path(), values(text, &["id=\"", "name=\""]).collect())).collect();
    let mut broken = Vec::new();
    // The page for what is not there is shown at any path, so its links are those of the root of a server.
    for (path, text) in files.iter().filter(|(path, _)| *path != Path::new("404.html")) {
        for link in values(text, &ATTRIBUTES).filter(|link| !leads_elsewhere(link)) {
            let (target, place) = link.split_once('#').unwrap_or((link, ""));
            let target = target.split('?').next().unwrap_or_default();
            let file = if target.is_empty() { path.clone() } else { joined(path, target) };
            let is_there = folder.join(&file).is_file() || folder.join(&file).join("index.html").is_file();
            let has_place = place.is_empty() || places.get(file.as_path()).is_none_or(|places| places.contains(place));
            if !is_there || !has_place {
                broken.push(format!("{}: `{link}` leads nowhere", path.display()));
            }
        }
    }
    broken.dedup();
    Ok(broken)
}

fn leads_elsewhere(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:") || link.is_empty() || link == "#"
}

/// The values of these attributes, in the order of the text. Scripts and code are left out, for their quotes are no
/// attributes.
fn values<'a>(text: &'a str, attributes: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let tags = text.split('<').skip(1).filter_map(|piece| piece.split_once('>').map(|(tag, _)| tag));
    tags.filter(|tag| tag.starts_with(|letter: char| letter.is_ascii_alphabetic())).flat_map(|tag| {
        attributes.iter().filter_map(move |attribute| {
            let at = tag.find(attribute).filter(|at| tag[..*at].ends_with([' ', '\n']))?;
            tag[at + attribute.len()..].split('"').next()
        })
    })
}

/// `target` as seen from the page, without `..` in it.
fn joined(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(part) => path.push(part),
            _ => {}
        }
    }
    path
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("failed to list `{}`", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_some_and(|end| end == "html") {
            let text = fs::read_to_string(&path).with_context(|| format!("failed to read `{}`", path.display()))?;
            files.insert(path.strip_prefix(root).unwrap_or(&path).to_path_buf(), text);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_needs_its_file_and_its_place() {
        let folder = std::env::temp_dir().join(format!("toolcrib-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(folder.join("x.html"), "<h1 id=\"top\">X</h1><a href=\"a/y.html#part\">y</a>").unwrap();
        let page = "<h2 id=\"part\">P</h2><a href=\"../x.html#top\">1</a><a class=\"b\" href=\"../x.html#gone\">2</a>\
                    <a href=\"z.html\">3</a><a href=\"https://example.com/z\">4</a><a href=\"#part\">5</a>\
                    <a href=\"#none\">6</a><img src=\"../no.png\"><code>&lt;a href=\"q\"</code>";
        fs::write(folder.join("a/y.html"), page).unwrap();
        let broken = check(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let expected = ["../x.html#gone", "z.html", "#none", "../no.png"];
        assert_eq!(broken.unwrap(), expected.map(|link| format!("a/y.html: `{link}` leads nowhere")));
    }
}
