//! The manifests of a release with archives of all targets, of some and of none.

use super::*;
use crate::workspace::Workspace;

fn release(triples: &[&str]) -> Release {
    let mut release = Release::of_all("1.2.3");
    release.archives.retain(|archive| triples.contains(&archive.target.triple));
    release.untested = "it was not tried here";
    release
}

#[test]
fn every_archive_for_a_manager_is_named_with_its_hash() {
    let release = Release::of_all("1.2.3");
    let named = |text: &str, is_for: fn(&Target) -> bool| {
        for archive in release.archives.iter().filter(|archive| is_for(archive.target)) {
            assert!(text.contains(&release.address(archive.target)), "{} in\n{text}", archive.target.triple);
            let hash = &archive.sha256;
            assert!(text.contains(hash) || text.contains(&hash.to_uppercase()), "{hash} in\n{text}");
        }
    };
    named(&homebrew(&release).unwrap(), |target| target.homebrew.is_some());
    named(&nix(&release).unwrap(), |target| target.nix.is_some());
    named(&scoop(&release).unwrap(), |target| target.windows.is_some());
    named(&winget_installer(&release).unwrap(), |target| target.windows.is_some());
}

#[test]
fn what_was_not_tried_says_so_in_the_file() {
    let mut release = Release::of_all("1.2.3");
    for file in MANAGERS.iter().flat_map(|manager| manager.files) {
        release.untested = file.untested;
        let text = (file.text)(&release).unwrap();
        assert!(text.contains(&format!("untested: {}", file.untested)), "{text}");
        assert!(!text.contains('@') || file.name == "toolcrib.json", "a placeholder is left in\n{text}");
    }
}

#[test]
fn a_target_without_an_archive_is_left_out() {
    let linux = release(&["x86_64-unknown-linux-gnu"]);
    let formula = homebrew(&linux).unwrap();
    assert!(formula.contains("on_linux") && !formula.contains("on_macos"), "{formula}");
    let flake = nix(&linux).unwrap();
    assert!(flake.contains("x86_64-linux") && !flake.contains("darwin"), "{flake}");
    assert_eq!(scoop(&linux), None);
    assert_eq!(winget_version(&linux), None);
    assert_eq!(homebrew(&release(&["x86_64-unknown-linux-musl"])), None);
    assert_eq!(nix(&release(&[])), None);
}

#[test]
fn scoop_and_winget_find_the_program_in_the_archive() {
    let release = Release::of_all("1.2.3");
    let manifest: Value = serde_json::from_str(&scoop(&release).unwrap()).unwrap();
    assert_eq!(manifest["architecture"]["64bit"]["extract_dir"], "toolcrib-1.2.3-x86_64-pc-windows-msvc");
    let next = manifest["autoupdate"]["architecture"]["64bit"]["url"].as_str().unwrap();
    assert_eq!(next.replace("$version", "1.2.3"), manifest["architecture"]["64bit"]["url"]);
    let installer = winget_installer(&release).unwrap();
    assert!(installer.contains("toolcrib-1.2.3-x86_64-pc-windows-msvc\\toolcrib.exe"), "{installer}");
}

/// What `cargo binstall` makes of the metadata of the binary's crate is the archive of the table.
#[test]
fn binstall_finds_the_archives_of_the_table() {
    let manifest = fs::read_to_string(Workspace::find().root.join("crates/toolcrib/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let binstall = &manifest["package"]["metadata"]["binstall"];
    for target in &TARGETS {
        let of_target = binstall["overrides"].get(target.triple);
        let value = |key: &str| of_target.and_then(|table| table.get(key)).unwrap_or_else(|| &binstall[key]);
        let format = value("pkg-fmt").as_str().unwrap();
        let suffix = if format == "tgz" { "tar.gz" } else { format };
        assert_eq!(suffix, target.archive, "{}", target.triple);
        let fill = |key: &str| {
            let text = value(key).as_str().unwrap();
            let text = text.replace("{ repo }", "https://example.invalid/toolcrib").replace("{ bin }", "toolcrib");
            text.replace("{ version }", "1.2.3").replace("{ target }", target.triple)
        };
        assert_eq!(fill("pkg-url"), Release::of_all("1.2.3").address(target));
        assert_eq!(fill("bin-dir"), format!("{}/toolcrib{{ binary-ext }}", target.folder("1.2.3")));
    }
}
