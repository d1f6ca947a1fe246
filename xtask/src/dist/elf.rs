//! What the file of the program says of itself: which libraries and which of their versions it needs, the list of
//! dependencies inside, and in which sections two builds differ.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::dist::tools;
use crate::workspace::Workspace;

const READER: &str = "rust-audit-info";
const READER_VERSION: &str = "0.5.4";

/// The parts of glibc; the program needs no other library of the system it runs on.
const LIBRARIES: [&str; 8] =
    ["libc.so.", "libm.so.", "libpthread.so.", "libdl.so.", "librt.so.", "libutil.so.", "libresolv.so.", "ld-linux"];

/// A part of the file.
#[derive(Debug, PartialEq, Eq)]
struct Section {
    name: String,
    offset: usize,
    size: usize,
}

/// Fails with the name of the symbol or library that a system with `glibc` does not have.
pub fn check(binary: &Path, glibc: &str) -> Result<()> {
    let symbols = printed(Command::new("objdump").arg("-T").arg(binary))?;
    ensure!(symbols.contains("GLIBC_"), "`{}` names no symbol of glibc; is it a program?", binary.display());
    let newer = newer_symbols(&symbols, glibc);
    ensure!(
        newer.is_empty(),
        "`{}` needs a newer glibc than {glibc}, for {}; find who calls them with `objdump -T`, and link against {glibc}",
        binary.display(),
        newer.join(", ")
    );
    let headers = printed(Command::new("objdump").arg("-p").arg(binary))?;
    let foreign = foreign_libraries(&headers);
    ensure!(foreign.is_empty(), "`{}` needs {}, which not every system has", binary.display(), foreign.join(", "));
    Ok(())
}

/// The names and versions of the packages that the program says it is made of, those that only build it left out.
pub fn recorded(workspace: &Workspace, binary: &Path) -> Result<BTreeSet<String>> {
    let bin = tools::cargo(workspace, READER, READER_VERSION)?;
    let said = printed(Command::new(bin.join(READER)).arg(binary))?;
    let said: Value = serde_json::from_str(&said).with_context(|| format!("`{READER}` did not print JSON"))?;
    let packages = said["packages"].as_array().with_context(|| format!("`{READER}` printed no packages"))?;
    let linked = packages.iter().filter(|package| package["kind"] != "build");
    Ok(linked
        .filter_map(|package| Some(format!("{} {}", package["name"].as_str()?, package["version"].as_str()?)))
        .collect())
}

/// Fails with the names of the sections in which two files differ. Those of `besides` may differ.
pub fn compare(one: &Path, other: &Path, besides: &[&str]) -> Result<()> {
    let read = |file: &Path| fs::read(file).with_context(|| format!("failed to read `{}`", file.display()));
    let (left, right) = (read(one)?, read(other)?);
    if left == right {
        return Ok(());
    }
    let sections =
        |file: &Path| Ok::<_, anyhow::Error>(of_table(&printed(Command::new("readelf").arg("-SW").arg(file))?));
    let mut names = differing(&left, &sections(one)?, &right, &sections(other)?);
    let differ = !names.is_empty();
    names.retain(|name| !besides.contains(&name.trim_matches('`')));
    if differ && names.is_empty() {
        return Ok(());
    }
    let names = if names.is_empty() { "no section, only between them".to_owned() } else { names.join(", ") };
    anyhow::bail!(
        "`{}` ({} bytes) and `{}` ({} bytes) differ in {names}",
        one.display(),
        left.len(),
        other.display(),
        right.len()
    )
}

/// `symbol (GLIBC_x.y)` of what `objdump -T` lists with a version above `glibc`.
fn newer_symbols(listed: &str, glibc: &str) -> Vec<String> {
    let limit = numbers(glibc);
    let newer = listed.lines().filter_map(|line| {
        let (_, rest) = line.split_once("GLIBC_")?;
        let version = rest.split([')', ' ']).next()?;
        let symbol = line.split_whitespace().last()?;
        let numbers = numbers(version);
        // GLIBC_PRIVATE has no number, and promises nothing.
        (numbers.is_empty() || numbers > limit).then(|| format!("`{symbol}` (GLIBC_{version})"))
    });
    newer.collect()
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|number| number.parse().ok()).collect()
}

/// The libraries that `objdump -p` says are needed and that are no part of glibc.
fn foreign_libraries(headers: &str) -> Vec<String> {
    let needed = headers.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")).map(str::trim);
    let foreign = needed.filter(|name| !LIBRARIES.iter().any(|library| name.starts_with(library)));
    foreign.map(|name| format!("`{name}`")).collect()
}

/// The lines `[ 1] .name TYPE address offset size …` of `readelf -SW`, without what holds no bytes.
fn of_table(table: &str) -> Vec<Section> {
    let lines = table.lines().filter_map(|line| {
        let (_, line) = line.trim().strip_prefix('[')?.split_once(']')?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, kind, _, offset, size, ..] = words[..] else { return None };
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let (offset, size) = (number(offset)?, number(size)?);
        (kind != "NOBITS" && name != "NULL").then(|| Section { name: name.to_owned(), offset, size })
    });
    lines.collect()
}

/// The names of the sections that only one file has or whose bytes differ.
fn differing(left: &[u8], of_left: &[Section], right: &[u8], of_right: &[Section]) -> Vec<String> {
    let bytes = |file: &[u8], section: &Section| -> Option<Vec<u8>> {
        Some(file.get(section.offset..section.offset.checked_add(section.size)?)?.to_vec())
    };
    let names: BTreeSet<&str> = of_left.iter().chain(of_right).map(|section| section.name.as_str()).collect();
    let content = |file: &[u8], sections: &[Section], name: &str| -> Vec<Option<Vec<u8>>> {
        sections.iter().filter(|section| section.name == name).map(|section| bytes(file, section)).collect()
    };
    let differ = names.into_iter().filter(|name| content(left, of_left, name) != content(right, of_right, name));
    differ.map(|name| format!("`{name}`")).collect()
}

fn printed(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("failed to start `{name}`; install binutils"))?;
    ensure!(output.status.success(), "`{name}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) malloc
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.17) clock_gettime
0000000000000000  w   DF *UND*\t0000000000000000  gnu_get_libc_version
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.28) fcntl64
0000000000000000      DO *UND*\t0000000000000000 (GLIBC_PRIVATE) __libc_secret
";

    #[test]
    fn a_symbol_that_is_too_new_is_named() {
        let newer = newer_symbols(LISTED, "2.17");
        assert_eq!(newer, ["`fcntl64` (GLIBC_2.28)", "`__libc_secret` (GLIBC_PRIVATE)"]);
        assert_eq!(newer_symbols(LISTED, "2.28").len(), 1);
        assert_eq!(newer_symbols(LISTED, "2.2.5").len(), 3);
    }

    #[test]
    fn a_library_beside_glibc_is_named() {
        let headers = "  NEEDED               libc.so.6\n  NEEDED               libssl.so.3\n  SONAME   x";
        assert_eq!(foreign_libraries(headers), ["`libssl.so.3`"]);
    }

    #[test]
    fn two_files_differ_in_the_section_that_differs() {
        let table = "\
  [Nr] Name     Type     Address          Off    Size   ES Flg Lk Inf Al
  [ 0]          NULL     0000000000000000 000000 000000 00      0   0  0
  [ 1] .text    PROGBITS 0000000000001000 000001 000003 00  AX  0   0 16
  [ 2] .data    PROGBITS 0000000000002000 000004 000002 00  WA  0   0 16
  [ 3] .bss     NOBITS   0000000000003000 000006 0fffff 00  WA  0   0 16
";
        let sections = of_table(table);
        assert_eq!(sections.len(), 2, "{sections:?}");
        assert_eq!(differing(b"xabcde", &sections, b"yabcde", &sections), Vec::<String>::new());
        assert_eq!(differing(b"xabcde", &sections, b"xabcdf", &sections), ["`.data`"]);
        assert_eq!(differing(b"xabcde", &sections, b"xabcde", &sections[..1]), ["`.data`"]);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let error = check(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path(), "2.17").unwrap_err();
        assert!(format!("{error:#}").contains("objdump"), "{error:#}");
    }
}
