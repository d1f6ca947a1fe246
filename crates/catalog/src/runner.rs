//! Programs that download what they run at its first start: the one table of them, and how a command line is recognised,
//! also below shells and wrappers. What lies in their caches is in [`cache`].

mod cache;
mod unwrap;

pub use cache::{CacheEntryError, HalfWritten, PackageCache};

use cache::Layout;

/// The longest chain of wrappers that is looked through, such as `env … sh -c "nice npx …"`.
const DEPTH: usize = 8;

/// Options of the programs in the table that stand before the subcommand or the package and take the next word with them.
const VALUED: &[&str] = &[
    "--directory",
    "--project",
    "--prefix",
    "--context",
    "--host",
    "-H",
    "--config",
    "-C",
    "--dir",
    "--cwd",
    "--cache",
    "--cache-dir",
    "--registry",
    "--userconfig",
    "-w",
    "--workspace",
    "--python",
    "--log-level",
    "-l",
];

/// One program that installs what it runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Runner {
    /// What people call it.
    pub name: &'static str,
    /// The program and its subcommands.
    words: &'static [&'static str],
    layout: Layout,
}

/// All that are known. To add one: a row here, and a [`Layout`] where its cache is another one.
const TABLE: &[Runner] = &[
    Runner { name: "npx", words: &["npx"], layout: Layout::Npm },
    Runner { name: "npm exec", words: &["npm", "exec"], layout: Layout::Npm },
    Runner { name: "npm exec", words: &["npm", "x"], layout: Layout::Npm },
    Runner { name: "bunx", words: &["bunx"], layout: Layout::Bun },
    Runner { name: "bunx", words: &["bun", "x"], layout: Layout::Bun },
    Runner { name: "pnpm dlx", words: &["pnpm", "dlx"], layout: Layout::Pnpm },
    Runner { name: "pnpm dlx", words: &["pnpx"], layout: Layout::Pnpm },
    Runner { name: "yarn dlx", words: &["yarn", "dlx"], layout: Layout::Unkept },
    Runner { name: "uvx", words: &["uvx"], layout: Layout::Uv },
    Runner { name: "uv tool run", words: &["uv", "tool", "run"], layout: Layout::Uv },
    Runner { name: "uv run", words: &["uv", "run"], layout: Layout::Uv },
    Runner { name: "pipx run", words: &["pipx", "run"], layout: Layout::Pipx },
    Runner { name: "docker run", words: &["docker", "run"], layout: Layout::Unkept },
    Runner { name: "docker run", words: &["docker", "container", "run"], layout: Layout::Unkept },
    Runner { name: "podman run", words: &["podman", "run"], layout: Layout::Unkept },
    Runner { name: "podman run", words: &["podman", "container", "run"], layout: Layout::Unkept },
    Runner { name: "nerdctl run", words: &["nerdctl", "run"], layout: Layout::Unkept },
    Runner { name: "deno", words: &["deno", "run"], layout: Layout::Deno },
    Runner { name: "deno", words: &["deno", "x"], layout: Layout::Deno },
    Runner { name: "deno", words: &["dx"], layout: Layout::Deno },
];

/// A command line that installs what it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Which program installs.
    pub runner: &'static Runner,
    /// What is installed, as it is written on the command line; empty where that is not known.
    packages: Vec<String>,
    /// Variables that the command line itself sets.
    variables: Vec<(String, String)>,
}

// === impl Installation ===

impl Installation {
    /// What a program and its arguments install at their first start, if anything.
    pub fn of(command: &str, args: &[String]) -> Option<Self> {
        let mut words = Vec::with_capacity(args.len() + 1);
        words.push(command.to_owned());
        words.extend(args.iter().cloned());
        of_words(&words, Vec::new(), 0)
    }

    /// The cache that it installs into. `variable` gives the variables of the program's environment.
    pub fn cache(&self, variable: impl Fn(&str) -> Option<String>) -> PackageCache {
        let own = |name: &str| self.variables.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        let variable = |name: &str| own(name).or_else(|| variable(name)).filter(|value| !value.is_empty());
        PackageCache::new(self.runner.layout, &self.packages, variable)
    }
}

fn of_words(words: &[String], variables: Vec<(String, String)>, depth: usize) -> Option<Installation> {
    let program = unwrap::program_name(words.first()?);
    for runner in TABLE {
        if let Some(rest) = runner.after(&program, &words[1..]) {
            let packages = if runner.layout == Layout::Npm { npm_packages(rest) } else { Vec::new() };
            return Some(Installation { runner, packages, variables });
        }
    }
    if depth == DEPTH {
        return None;
    }
    let inner = unwrap::inner(&program, &words[1..])?;
    inner.into_iter().find_map(|mut inner| {
        let mut all = variables.clone();
        all.append(&mut inner.variables);
        of_words(&inner.words, all, depth + 1)
    })
}

// === impl Runner ===

impl Runner {
    /// What follows its words, if `program` with `args` is this one.
    fn after<'a>(&self, program: &str, args: &'a [String]) -> Option<&'a [String]> {
        let (first, subcommands) = self.words.split_first()?;
        if program != *first {
            return None;
        }
        let mut rest = args;
        for word in subcommands {
            rest = without_options(rest);
            let (next, after) = rest.split_first()?;
            if next != word {
                return None;
            }
            rest = after;
        }
        Some(rest)
    }
}

/// Without the options at the beginning.
fn without_options(mut args: &[String]) -> &[String] {
    while let Some((option, rest)) = args.split_first().filter(|(word, _)| word.starts_with('-') && word.len() > 1) {
        args = if VALUED.contains(&option.as_str()) { rest.get(1..).unwrap_or_default() } else { rest };
    }
    args
}

/// What `npx` and `npm exec` install: what `--package` names, else the first word that is no option.
fn npm_packages(args: &[String]) -> Vec<String> {
    let mut packages = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-p" | "--package" => packages.extend(words.next().cloned()),
            "--" => {
                packages.extend(words.next().filter(|_| packages.is_empty()).cloned());
                break;
            }
            // What is to be run is said as a line for a shell.
            "-c" | "--call" => drop(words.next()),
            option if option.starts_with('-') => {
                if let Some(package) = option.strip_prefix("--package=").or_else(|| option.strip_prefix("-p=")) {
                    packages.push(package.to_owned());
                } else if VALUED.contains(&option) {
                    words.next();
                }
            }
            package => {
                if packages.is_empty() {
                    packages.push(package.to_owned());
                }
                break;
            }
        }
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<(&'static str, Vec<String>)> {
        let words: Vec<String> = line.split('|').map(str::to_owned).collect();
        Installation::of(&words[0], &words[1..]).map(|it| (it.runner.name, it.packages))
    }

    #[track_caller]
    fn check(line: &str, runner: Option<&str>, packages: &[&str]) {
        let found = of(line);
        assert_eq!(found.as_ref().map(|(name, _)| *name), runner, "{line}");
        if !packages.is_empty() {
            assert_eq!(found.unwrap().1, packages, "{line}");
        }
    }

    #[test]
    fn package_runners_are_recognised_as_people_write_them() {
        for (line, runner, packages) in [
            ("npx|-y|@a/b|/data", "npx", &["@a/b"][..]),
            ("/usr/local/bin/npx|--yes|a@1.2", "npx", &["a@1.2"]),
            ("npx.cmd|a", "npx", &["a"]),
            (r"C:\Program Files\nodejs\npx.cmd|-y|a", "npx", &["a"]),
            ("npx|-p|one|--package=two|bin", "npx", &["one", "two"]),
            ("npx|--registry|http://x|a", "npx", &["a"]),
            ("npx|-y|--|a|--flag", "npx", &["a"]),
            ("npx|--package|one|-c|one --stdio", "npx", &["one"]),
            ("npm|exec|--yes|--|a|b", "npm exec", &["a"]),
            ("npm|--prefix|/x|x|a", "npm exec", &["a"]),
            ("bunx|a", "bunx", &[]),
            ("bun|x|a", "bunx", &[]),
            ("pnpm|--dir|/x|dlx|a", "pnpm dlx", &[]),
            ("pnpx|a", "pnpm dlx", &[]),
            ("yarn|dlx|a", "yarn dlx", &[]),
            ("uvx|mcp-server-time", "uvx", &[]),
            ("uvx.exe|mcp-server-time", "uvx", &[]),
            ("uv|tool|run|a", "uv tool run", &[]),
            ("uv|--directory|/x|run|a", "uv run", &[]),
            ("pipx|run|a", "pipx run", &[]),
            ("docker|run|-i|--rm|image", "docker run", &[]),
            ("docker|--context|far|run|image", "docker run", &[]),
            ("podman|run|image", "podman run", &[]),
            ("deno|run|-A|npm:a", "deno", &[]),
        ] {
            check(line, Some(runner), packages);
        }
        for line in [
            "node|server.js",
            "npm|start",
            "npm|run|exec",
            "bun|run|x",
            "pnpm|run|dlx",
            "uv|pip|install",
            "docker|exec|-i|box|server",
            "docker|ps",
            "deno|task|x",
            "python|-m|npx",
            "/opt/npx-server",
            "",
            "sh",
        ] {
            check(line, None, &[]);
        }
    }

    #[test]
    fn they_are_recognised_below_shells_and_wrappers() {
        for (line, runner) in [
            ("sh|-c|npx -y a", "npx"),
            ("/bin/bash|-lc|exec npx -y '@a/b' --x \"y z\"", "npx"),
            ("bash|-l|-c|cd /tmp && KEY=1 uvx a", "uvx"),
            ("zsh|-ic|source ~/.zshrc; npx a", "npx"),
            ("fish|-c|npx a", "npx"),
            ("cmd|/c|npx|-y|a", "npx"),
            ("cmd.exe|/d|/s|/c|npx -y a", "npx"),
            ("CMD.EXE|/C|npx.cmd|a", "npx"),
            ("powershell|-NoProfile|-Command|npx -y a", "npx"),
            ("env|X=Y|npx|a", "npx"),
            ("/usr/bin/env|-i|-u|HOME|X=Y|npx|a", "npx"),
            ("env|-S|X=Y npx a", "npx"),
            ("nice|npx|a", "npx"),
            ("nice|-n|5|npx|a", "npx"),
            ("nice|-5|npx|a", "npx"),
            ("ionice|-c3|npx|a", "npx"),
            ("timeout|30|npx|a", "npx"),
            ("timeout|-s|TERM|--kill-after=5|30s|npx|a", "npx"),
            ("nohup|uvx|a", "uvx"),
            ("stdbuf|-oL|npx|a", "npx"),
            ("sudo|-u|me|docker|run|image", "docker run"),
            ("xvfb-run|-a|npx|a", "npx"),
            ("mise|exec|node@22|--|npx|a", "npx"),
            ("env|A=b|sh|-c|nice timeout 9 npx a", "npx"),
        ] {
            check(line, Some(runner), &[]);
        }
        for line in
            ["sh|-c|node server.js # npx", "sh|script.sh|npx", "bash|-c|echo npx a", "timeout|30", "env|X=Y", "sh|-c"]
        {
            check(line, None, &[]);
        }
        let nested = "nice|".repeat(50) + "npx|a";
        check(&nested, None, &[]);
    }

    #[test]
    fn variables_of_the_command_line_count() {
        let args = ["npm_config_cache=/elsewhere", "npx", "a"].map(str::to_owned);
        let installation = Installation::of("env", &args).unwrap();
        let cache = installation.cache(|name| (name == "HOME").then(|| "/users/me".to_owned()));
        assert!(cache.folder().unwrap().starts_with("/elsewhere/_npx"));
        let args = ["npx", "a"].map(str::to_owned);
        let cache =
            Installation::of("env", &args).unwrap().cache(|name| (name == "HOME").then(|| "/users/me".to_owned()));
        assert!(cache.folder().unwrap().starts_with("/users/me/.npm/_npx"));
    }
}
