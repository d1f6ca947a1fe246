//! `cargo xtask tidy --map`: how large each crate is and which of its modules import each other in a circle. A module
//! is a file of the crate's `src/` with the folder of its name. The check fails on a circle that `xtask/tidy.toml` does
//! not name; what it names may only shrink.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::scan::{self, Source};
use super::{Finding, allowed};
use crate::workspace::TextFile;

/// More of a crate's lines than this, in percent, may not lie in circles.
const MOST: usize = 10;

/// One crate: its modules, and which uses which.
#[derive(Debug, Default)]
struct Crate {
    /// Lines of the product, without tests, by module; the root is the empty name.
    lines: BTreeMap<String, usize>,
    uses: BTreeMap<String, BTreeSet<String>>,
}

/// The findings, and the map for people.
pub fn check(files: &[TextFile], list: &str) -> Result<(Vec<Finding>, Vec<String>)> {
    let crates = crates(files);
    let all: usize = crates.values().map(Crate::size).sum();
    let allowed = allowed::names(list, "circles")?;
    let (mut findings, mut map) = (Vec::new(), Vec::new());
    map.push("crate            lines  share  in circles  modules in circles".to_owned());
    let mut unneeded: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut finding = |path: String, what: String, fix| {
        findings.push(Finding { check: "circles", path, line: 1, item: None, what, fix });
    };
    for (name, one) in &crates {
        let circles = one.circles();
        let size = one.size();
        let within: usize = circles.iter().flatten().map(|module| one.lines[module]).sum();
        let percent = share(within, size);
        let shown: Vec<String> = circles.iter().map(|circle| circle.join(" ")).collect();
        let row = format!("{name:14} {size:7} {:5}% {percent:10}%  {}", share(size, all), shown.join(" | "));
        map.push(row.trim_end().to_owned());
        let within: BTreeSet<&String> = circles.iter().flatten().collect();
        let known = allowed.get(name);
        let is_new = |module: &&&String| known.is_none_or(|known| !known.contains(**module));
        let new: Vec<_> = within.iter().filter(is_new).map(|module| module.as_str()).collect();
        if percent > MOST && !new.is_empty() {
            let what = format!("modules of `{name}` import each other in a circle: {}", new.join(" "));
            let fix = "let one of them take a value or a trait of the other, or move what both use below them";
            finding(format!("crates/{name}/src/lib.rs"), what, fix);
        }
        for module in known.into_iter().flatten().filter(|module| percent <= MOST || !within.contains(module)) {
            unneeded.entry(name.clone()).or_default().insert(module.clone());
        }
    }
    for name in allowed.keys().filter(|name| !crates.contains_key(*name)) {
        finding(allowed::PATH.to_owned(), format!("`circles.{name}` names no crate"), "remove the line");
    }
    findings.extend(allowed::unneeded(list, "circles", &unneeded));
    map.push(format!("{:14} {all:7}", "all"));
    Ok((findings, map))
}

fn share(part: usize, whole: usize) -> usize {
    (100 * part + whole / 2).checked_div(whole).unwrap_or_default()
}

fn crates(files: &[TextFile]) -> BTreeMap<String, Crate> {
    let mut sources: BTreeMap<String, Vec<(Vec<String>, Source)>> = BTreeMap::new();
    for file in files {
        let Some((name, inside)) = place(&file.path) else { continue };
        let source = Source::new(&file.path, &file.text);
        if source.is_test(0) {
            continue;
        }
        sources.entry(name.to_owned()).or_default().push((inside, source));
    }
    let read = |(name, sources): (String, Vec<(Vec<String>, Source)>)| (name, Crate::read(&sources));
    sources.into_iter().map(read).collect()
}

/// The crate of a source file and the path of its module; the root has none.
fn place(path: &str) -> Option<(&str, Vec<String>)> {
    let rest = path.strip_prefix("crates/").or_else(|| path.starts_with("xtask/").then_some(path))?;
    let (name, inside) = rest.split_once("/src/")?;
    let inside = inside.strip_suffix(".rs")?;
    let is_root = matches!(inside, "lib" | "main") || name.contains('/');
    let module = if is_root { Vec::new() } else { inside.split('/').map(str::to_owned).collect() };
    (!name.contains('/')).then_some((name, module))
}

// === impl Crate ===

impl Crate {
    fn read(sources: &[(Vec<String>, Source)]) -> Self {
        let mut one = Self::default();
        for (module, source) in sources {
            let top = module.first().cloned().unwrap_or_default();
            *one.lines.entry(top).or_default() += product_lines(source);
        }
        let exported = sources.iter().find(|(module, _)| module.is_empty()).map(|(_, root)| exports(root));
        let exported = exported.unwrap_or_default();
        for (module, source) in sources {
            let Some(top) = module.first() else { continue };
            for path in paths(module, source) {
                let target = if one.lines.contains_key(&path) { Some(&path) } else { exported.get(&path) };
                if let Some(target) = target.filter(|target| *target != top && one.lines.contains_key(*target)) {
                    one.uses.entry(top.clone()).or_default().insert(target.clone());
                }
            }
        }
        one
    }

    fn size(&self) -> usize {
        self.lines.values().sum()
    }

    fn reachable(&self, from: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            for used in self.uses.get(module).into_iter().flatten() {
                if found.insert(used.as_str()) {
                    next.push(used);
                }
            }
        }
        found
    }

    /// The groups of modules in which each reaches each other, the largest first.
    fn circles(&self) -> Vec<Vec<String>> {
        let reachable: BTreeMap<&str, BTreeSet<&str>> =
            self.lines.keys().map(|module| (module.as_str(), self.reachable(module))).collect();
        let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
        for (module, reached) in reachable.iter().filter(|(module, reached)| reached.contains(**module)) {
            let back = reached.iter().filter(|other| reachable[**other].contains(module));
            circles.insert(back.map(ToString::to_string).collect());
        }
        let mut circles: Vec<_> = circles.into_iter().collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

fn product_lines(source: &Source) -> usize {
    let mut at = 0;
    let mut count = 0;
    for line in source.raw.split_inclusive('\n') {
        count += usize::from(!source.is_test(at));
        at += line.len();
    }
    count
}

/// What the root re-exports, and from which module: `pub use module::{A, b::C}`.
fn exports(root: &Source) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for offset in root.find("use") {
        let statement = root.code[offset + 3..].split(';').next().unwrap_or_default().trim();
        let statement =
            statement.strip_prefix("crate::").or_else(|| statement.strip_prefix("self::")).unwrap_or(statement);
        let Some((module, rest)) = statement.split_once("::") else { continue };
        let names = rest.split(|letter: char| !scan::is_word(letter)).filter(|name| !name.is_empty());
        exported.extend(names.map(|name| (name.to_owned(), module.to_owned())));
    }
    exported
}

/// The first part of each path that a file names from the root of its crate, by `crate::` or by enough `super::`.
fn paths(module: &[String], source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (word, depth) in [("crate::", module.len()), ("super::", 0)] {
        for offset in source.find(word).into_iter().filter(|offset| !source.is_test(*offset)) {
            // The middle of a chain of `super::` was read from its beginning.
            if source.code[..offset].ends_with("super::") {
                continue;
            }
            let (mut rest, mut depth) = (&source.code[offset + word.len()..], depth.max(1));
            while let Some(further) = rest.strip_prefix("super::") {
                (rest, depth) = (further, depth + 1);
            }
            if depth == module.len() {
                found.extend(firsts(rest));
            }
        }
    }
    found
}

/// `a` of `a::b`, and `a` and `c` of `{a::b, c}`.
fn firsts(rest: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|letter| scan::is_word(*letter)).collect::<String>();
    let Some(group) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let (mut depth, mut begins, mut names) = (0_usize, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(word(group[begins..at].trim_start()));
                begins = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// Two modules that use each other, each in another way, one that uses them, and one that only a test uses.
    fn files(back: &str) -> Vec<TextFile> {
        vec![
            file("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use b::{Deep, inner::Far};\n"),
            file(
                "crates/x/src/a.rs",
                "use crate::{c::C, b::{B}};\nfn f() {}\n#[cfg(test)]\nmod tests {\n use crate::d::D;\n}\n",
            ),
            file("crates/x/src/b/inner.rs", back),
            file("crates/x/src/c.rs", "//! One.\n"),
            file("crates/x/src/d.rs", "use super::a::f;\n"),
            file("crates/x/tests/it.rs", "use crate::nothing;\n"),
        ]
    }

    fn found(back: &str, list: &str) -> Vec<String> {
        check(&files(back), list)
            .unwrap()
            .0
            .into_iter()
            .map(|finding| format!("{}: {}", finding.path, finding.what))
            .collect()
    }

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        for back in [
            "use crate::a::f;\n",
            "use super::super::a;\n",
            "fn g() { super::super::a::f() }\n",
            "use crate::{c, a::f};\n",
        ] {
            let findings = found(back, "");
            assert_eq!(findings, ["crates/x/src/lib.rs: modules of `x` import each other in a circle: a b"], "{back}");
        }
        for back in ["use crate::c;\n", "use super::a;\n", "use crate::Far;\n", "// crate::a\n"] {
            assert_eq!(found(back, ""), [""; 0], "{back}");
        }
    }

    #[test]
    fn a_name_of_the_root_stands_for_its_module() {
        let mut files = files("//! One.\n");
        files.push(file("crates/x/src/b.rs", "use crate::d;\n"));
        files[4] = file("crates/x/src/d.rs", "use crate::Deep;\n");
        let (findings, map) = check(&files, "").unwrap();
        assert!(findings[0].what.ends_with("in a circle: b d"), "{findings:?}");
        assert!(map.iter().any(|row| row.starts_with('x') && row.ends_with("b d")), "{map:?}");
    }

    #[test]
    fn an_exception_only_shrinks() {
        let back = "use crate::a::f;\n";
        assert_eq!(found(back, "[circles]\nx = [\"a\", \"b\"]\n"), [""; 0]);
        let more = found(back, "[circles]\nx = [\"a\", \"b\", \"c\"]\n");
        assert_eq!(more, ["xtask/tidy.toml: `circles.x` need not name `c` any more"]);
        let less = found(back, "[circles]\nx = [\"a\"]\n");
        assert_eq!(less, ["crates/x/src/lib.rs: modules of `x` import each other in a circle: b"]);
        let other = found(back, "[circles]\nx = [\"a\", \"b\"]\ny = []\n");
        assert_eq!(other, ["xtask/tidy.toml: `circles.y` names no crate"]);
        assert!(check(&files(back), "[circles]\nx = 1\n").is_err());
    }
}
