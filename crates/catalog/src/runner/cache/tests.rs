//! Entries of runners' caches: which are half written, and what is removed of them.

use super::*;
use crate::runner::Installation;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.0.path().join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn cache(&self, line: &str) -> PackageCache {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let home = self.0.path().to_str().unwrap().to_owned();
        let installation = Installation::of(&words[0], &words[1..]).unwrap();
        installation.cache(|name| (name == "HOME").then(|| home.clone()))
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }
}

/// The entry that npm 11 makes for `npx @modelcontextprotocol/server-memory`.
const ENTRY: &str = ".npm/_npx/15b07286cbcc3329";
const LINE: &str = "npx -y @modelcontextprotocol/server-memory";

#[test]
fn the_entry_of_npm_is_named_as_npm_names_it() {
    let home = Home::new();
    assert_eq!(home.cache(LINE).folder().unwrap(), home.path(ENTRY));
}

#[test]
fn an_entry_of_npm_is_whole_once_its_list_is_there_and_all_that_it_lists() {
    let home = Home::new();
    let cache = home.cache(LINE);
    let why = |stderr: &[String]| cache.half_written(stderr, true).map(|half| half.why);
    assert_eq!(why(&[]), None, "nothing was installed");
    home.write(&format!("{ENTRY}/node_modules/zod/package.json"), "{}");
    assert!(why(&[]).unwrap().contains("which npm writes last"), "killed before the end");
    home.write(&format!("{ENTRY}/node_modules/.package-lock.json"), "{\"packages\": {\"node_mod");
    assert!(why(&[]).unwrap().contains("is cut off"));
    let list =
        r#"{"packages": {"node_modules/zod": {}, "node_modules/hono": {}, "node_modules/o": {"optional": true}}}"#;
    home.write(&format!("{ENTRY}/node_modules/.package-lock.json"), list);
    assert_eq!(why(&[]).as_deref(), Some("`node_modules/hono` is missing"));
    home.write(&format!("{ENTRY}/node_modules/hono/package.json"), "{}");
    assert_eq!(why(&["Cannot find module 'x'".to_owned()]), None, "a fault of the package is none of the cache");
    fs::create_dir(home.path(ENTRY).join("concurrency.lock")).unwrap();
    assert!(why(&[]).unwrap().contains("lock"), "the program that held the lock has ended");
    assert_eq!(cache.half_written(&[], false), None, "another program may hold it");
}

#[test]
fn an_entry_is_found_by_what_the_program_said() {
    let home = Home::new();
    // What is installed is not said as a word of the line.
    let cache = home.cache("npx .");
    home.write(".npm/_npx/0123456789abcdef/node_modules/a/x.js", "");
    let said = |text: &str| vec![format!("Error [ERR_MODULE_NOT_FOUND]: {text}"), "Node.js v20".to_owned()];
    let inside = home.path(".npm/_npx/0123456789abcdef/node_modules/a/x.js");
    let found = cache.half_written(&said(&format!("imported from {}", inside.display())), true);
    assert_eq!(found.unwrap().path, home.path(".npm/_npx/0123456789abcdef"));
    for elsewhere in [home.path(".npm/_npx/../../x"), home.path(".npm/_npx/short/x"), PathBuf::from("/etc/passwd")] {
        assert_eq!(cache.half_written(&said(&elsewhere.display().to_string()), true), None);
    }
    let wheel = ".cache/uv/archive-v0/Ab3";
    home.write(
        &format!("{wheel}/lib/python3.12/site-packages/mcp-1.dist-info/RECORD"),
        "mcp/a.py,sha256=x,1\nmcp/b.py,,\n",
    );
    home.write(&format!("{wheel}/lib/python3.12/site-packages/mcp/a.py"), "");
    let cache = home.cache("uvx mcp-server-time");
    let said = |name: &str| {
        let file = home.path(wheel).join("lib/python3.12/site-packages/x.py");
        vec![format!("  File \"{}\", line 1", file.display()), format!("ModuleNotFoundError: No module named '{name}'")]
    };
    assert_eq!(cache.half_written(&said("mcp.b"), true).unwrap().why, "`mcp/b.py` is missing");
    home.write(&format!("{wheel}/lib/python3.12/site-packages/mcp/b.py"), "");
    assert_eq!(cache.half_written(&said("other"), true), None);
}

#[test]
fn exactly_the_half_written_entry_is_removed() {
    let home = Home::new();
    let cache = home.cache(LINE);
    home.write(&format!("{ENTRY}/node_modules/zod/index.js"), "");
    home.write(".npm/_npx/0123456789abcdef/node_modules/other/index.js", "");
    let half = cache.half_written(&[], true).unwrap();
    for wrong in [
        home.path(".npm/_npx"),
        home.path(".npm"),
        home.path(".npm/_npx/15b07286cbcc3329/node_modules"),
        home.path(".npm/_npx/.."),
        home.path(".npm/_npx/../_npx/15b07286cbcc3329"),
        PathBuf::from("/"),
    ] {
        let error = cache.remove(&HalfWritten { path: wrong.clone(), ..half.clone() }).unwrap_err();
        assert!(matches!(error, CacheEntryError::NotHalfWritten(_)), "{}: {error}", wrong.display());
    }
    cache.remove(&half).unwrap();
    assert!(!home.path(ENTRY).exists() && home.path(".npm/_npx/0123456789abcdef/node_modules/other").exists());
    assert!(matches!(cache.remove(&half), Err(CacheEntryError::Io { .. })), "it is gone already");
    // A whole entry stays.
    home.write(&format!("{ENTRY}/node_modules/.package-lock.json"), r#"{"packages": {}}"#);
    assert!(matches!(cache.remove(&half), Err(CacheEntryError::NotHalfWritten(_))));
}

#[cfg(unix)]
#[test]
fn a_link_does_not_lead_out_of_the_cache() {
    let home = Home::new();
    let cache = home.cache(LINE);
    home.write("precious/node_modules/zod/index.js", "mine");
    fs::create_dir_all(home.path(".npm/_npx")).unwrap();
    std::os::unix::fs::symlink(home.path("precious"), home.path(ENTRY)).unwrap();
    let half = HalfWritten { path: home.path(ENTRY), why: String::new() };
    assert!(matches!(cache.remove(&half), Err(CacheEntryError::Escapes(_))));
    // Nor does one in the place of the folder of all entries.
    fs::remove_dir_all(home.path(".npm")).unwrap();
    home.write("elsewhere/15b07286cbcc3329/node_modules/zod/index.js", "mine");
    fs::create_dir(home.path(".npm")).unwrap();
    std::os::unix::fs::symlink(home.path("elsewhere"), home.path(".npm/_npx")).unwrap();
    assert!(matches!(cache.remove(&half), Err(CacheEntryError::Escapes(_))));
    assert!(home.path("precious/node_modules/zod/index.js").exists());
    assert!(home.path("elsewhere/15b07286cbcc3329/node_modules/zod/index.js").exists());
    // A link inside of an entry is removed, and not what it leads to.
    fs::remove_dir_all(home.path(".npm")).unwrap();
    fs::create_dir_all(home.path(ENTRY).join("node_modules")).unwrap();
    std::os::unix::fs::symlink(home.path("precious"), home.path(ENTRY).join("node_modules/link")).unwrap();
    cache.remove(&half).unwrap();
    assert!(home.path("precious/node_modules/zod/index.js").exists() && !home.path(ENTRY).exists());
}

#[test]
fn a_cache_that_grows_is_seen_to_grow() {
    let home = Home::new();
    for (line, place) in [
        (LINE, ".npm/_npx/15b07286cbcc3329/node_modules/a/package.json"),
        (LINE, ".npm/_cacache/tmp/one"),
        ("uvx a", ".cache/uv/archive-v0/x/y"),
        ("deno run npm:a", ".cache/deno/npm/x"),
        ("pnpm dlx a", ".cache/pnpm/dlx/x/y"),
    ] {
        let cache = home.cache(line);
        let before = cache.stamp();
        assert_eq!(cache.stamp(), before, "{line}");
        home.write(place, "x");
        assert_ne!(cache.stamp(), before, "{line}: {place}");
    }
    let cache = home.cache("docker run image");
    assert_eq!((cache.stamp(), cache.folder()), (cache.stamp(), None));
}
