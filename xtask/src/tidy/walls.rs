//! Which crate may use which: the table of the design, compared with what `cargo metadata` says.

use super::Finding;
use crate::workspace::{Package, Workspace};

/// The `may use` column of the map in the design. Names are folders; the package is `toolcrib-<folder>`.
const MAY_USE: [(&str, &[&str]); 31] = [
    ("base", &[]),
    ("protocol", &["base"]),
    ("search", &["base"]),
    ("embed", &["search"]),
    ("policy", &["base"]),
    ("scan", &[]),
    ("model", &["base", "protocol"]),
    ("agent", &["base"]),
    ("store", &["base"]),
    ("catalog", &["base", "protocol", "store", "scan"]),
    ("auth", &["base", "store"]),
    ("transport", &["base", "protocol"]),
    ("login", &["base", "protocol", "store", "auth", "transport"]),
    ("identity", &["base", "auth", "transport"]),
    ("authorization", &["base", "store", "auth", "transport", "identity"]),
    ("sink", &["base", "store", "transport"]),
    ("runner", &["base", "agent", "transport"]),
    ("upstream", &["base", "protocol", "transport"]),
    ("session", &["base", "protocol", "store", "catalog"]),
    ("view", &["base", "protocol", "search", "policy", "store", "catalog", "upstream", "session"]),
    ("call", &["base", "protocol", "policy", "scan", "store", "catalog", "upstream", "session", "view"]),
    (
        "gateway",
        &["base", "protocol", "search", "policy", "store", "sink", "catalog", "upstream", "session", "view", "call"],
    ),
    ("flow", &["base", "agent", "model", "protocol", "store", "catalog", "session", "view", "call", "gateway"]),
    ("ui", &["base"]),
    (
        "web",
        &[
            "base",
            "protocol",
            "search",
            "policy",
            "scan",
            "store",
            "catalog",
            "auth",
            "transport",
            "login",
            "identity",
            "authorization",
            "upstream",
            "session",
            "view",
            "call",
            "gateway",
            "flow",
            "ui",
        ],
    ),
    ("scenario", &["base", "protocol", "catalog", "transport"]),
    (
        "toolcrib",
        &[
            "base",
            "protocol",
            "search",
            "policy",
            "store",
            "catalog",
            "auth",
            "transport",
            "login",
            "identity",
            "authorization",
            "upstream",
            "session",
            "view",
            "call",
            "gateway",
            "flow",
            "web",
            "scenario",
            "embed",
            "sink",
            "agent",
            "model",
            "runner",
        ],
    ),
    ("testkit", &["base", "protocol", "transport", "search"]),
    (
        "testgateway",
        &[
            "base",
            "protocol",
            "store",
            "catalog",
            "transport",
            "upstream",
            "session",
            "view",
            "call",
            "gateway",
            "testkit",
        ],
    ),
    ("bench", &["base", "protocol", "transport", "search", "store", "auth", "login", "identity", "policy", "web"]),
    ("xtask", &[]),
];

/// Values in, values out: these crates know no runtime, also not through a feature of `base`.
const PURE: [&str; 6] = ["protocol", "search", "policy", "scan", "model", "ui"];
const RUNTIME: [&str; 8] = ["tokio", "tokio-util", "hyper", "hyper-util", "axum", "reqwest", "mio", "async-std"];
/// `login` for OAuth; the others to compare with it.
const NAMES_RMCP: [&str; 3] = ["login", "testkit", "bench"];
const DATABASES: [&str; 6] = ["rusqlite", "sqlx", "tokio-postgres", "postgres", "libsqlite3-sys", "diesel"];

pub fn check(workspace: &Workspace, packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let path = package.manifest.strip_prefix(&workspace.root).unwrap_or(&package.manifest);
        let path = path.to_string_lossy().replace('\\', "/");
        let manifest = std::fs::read_to_string(&package.manifest).unwrap_or_default();
        findings.extend(check_package(package, &path, &manifest));
    }
    findings
}

fn check_package(package: &Package, path: &str, manifest: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |line: usize, what: String, fix: &'static str| {
        findings.push(Finding { check: "walls", path: path.to_owned(), line, item: None, what, fix });
    };
    let folder = folder(&package.name);
    let Some((_, may_use)) = MAY_USE.iter().find(|(name, _)| *name == folder) else {
        let what = format!("the crate `{}` is not in the map", package.name);
        report(1, what, "make it a module, or add it to the map of ARCHITECTURE.md and to xtask/src/tidy/walls.rs");
        return findings;
    };
    for dependency in package.dependencies.iter().filter(|dependency| !dependency.development) {
        let name = dependency.name.as_str();
        let line = line_of(manifest, name);
        let ours = name == "toolcrib" || name.starts_with("toolcrib-");
        if ours && !may_use.contains(&self::folder(name)) {
            let what = format!("`{folder}` uses `{}`, which the map does not allow", self::folder(name));
            report(line, what, "turn the call around with a trait that the composition root fills in");
        }
        if PURE.contains(&folder) && RUNTIME.contains(&name) {
            report(line, format!("`{folder}` uses `{name}`"), "keep I/O out: take values, return values");
        }
        if PURE.contains(&folder) && name == "toolcrib-base" && dependency.features.iter().any(|f| f == "rt") {
            let what = format!("`{folder}` turns on the feature `rt` of base");
            report(line, what, "keep tasks out of it: take values, return values");
        }
        if name == "rmcp" && !NAMES_RMCP.contains(&folder) {
            report(line, format!("`{folder}` uses `rmcp`"), "ask `login`");
        }
        if folder != "store" && DATABASES.contains(&name) {
            report(line, format!("`{folder}` uses the database driver `{name}`"), "ask a repository of `store`");
        }
    }
    findings
}

fn folder(package: &str) -> &str {
    package.strip_prefix("toolcrib-").unwrap_or(package)
}

fn line_of(manifest: &str, dependency: &str) -> usize {
    let found = manifest.lines().position(|line| line.trim_start().starts_with(dependency));
    found.map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn found(package: &str, dependency: &str, features: &[&str], development: bool) -> Vec<String> {
        let features = features.iter().map(ToString::to_string).collect();
        let package = Package {
            name: package.to_owned(),
            manifest: "Cargo.toml".into(),
            dependencies: vec![Dependency { name: dependency.to_owned(), development, features }],
        };
        let manifest = format!("[dependencies]\n{dependency} = \"1\"\n");
        check_package(&package, "Cargo.toml", &manifest).iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn a_wall_holds_for_dependencies_but_not_for_tests() {
        assert_eq!(found("toolcrib-upstream", "toolcrib-transport", &[], false), [""; 0]);
        assert_eq!(
            found("toolcrib-flow", "toolcrib-upstream", &[], false),
            ["2: `flow` uses `upstream`, which the map does not allow"]
        );
        assert_eq!(found("toolcrib-flow", "toolcrib-upstream", &[], true), [""; 0]);
        assert_eq!(found("toolcrib-new", "serde", &[], false), ["1: the crate `toolcrib-new` is not in the map"]);
    }

    #[test]
    fn pure_crates_know_no_runtime() {
        assert_eq!(found("toolcrib-policy", "tokio", &[], false).len(), 1);
        assert_eq!(found("toolcrib-policy", "toolcrib-base", &["rt"], false).len(), 1);
        assert_eq!(found("toolcrib-policy", "toolcrib-base", &[], false).len(), 0);
    }

    #[test]
    fn only_store_names_a_database() {
        assert_eq!(found("toolcrib-gateway", "rusqlite", &[], false).len(), 1);
        assert_eq!(found("toolcrib-store", "rusqlite", &[], false).len(), 0);
    }

    #[test]
    fn only_login_names_rmcp() {
        assert_eq!(found("toolcrib-upstream", "rmcp", &[], false), ["2: `upstream` uses `rmcp`"]);
        assert_eq!(found("toolcrib-login", "rmcp", &[], false).len(), 0);
    }

    #[test]
    fn the_map_has_no_circle() {
        // Each row only names rows above it, so no order of dependencies can come back to itself.
        for (index, (name, may_use)) in MAY_USE.iter().enumerate() {
            for used in *may_use {
                assert!(MAY_USE[..index].iter().any(|(above, _)| above == used), "`{name}` uses `{used}` below it");
            }
        }
    }
}
