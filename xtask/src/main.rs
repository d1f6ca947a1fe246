//! `cargo xtask <command>`: the project's own commands. Each command is a module; this file only picks one.

#![allow(unreachable_pub, reason = "a binary exports nothing, so `pub` means public to the other modules")]
#![allow(clippy::print_stdout, reason = "a command line program talks to the person who called it")]

mod bench;
mod build;
mod child;
mod conformance;
mod dist;
mod eval;
mod fuzz;
mod need;
mod picture;
mod process;
mod real;
mod scenarios;
mod screenshots;
mod setup;
mod site;
mod steps;
mod tally;
mod tidy;
mod verdict;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--only <step>]... [--list]   everything: format, walls, lints, tests, docs, fuzz, real servers
       [--screenshots]               only takes the pictures of the web user interface again, into docs/ui
  ci                                 the same with the settings of a build machine
  setup                              switches the hooks of this repository on
  tidy [--map] [--cfg] [--shrink]    the walls and the house rules that no compiler checks; how large each crate is and
                                     which of its modules import each other in a circle; where code is for some
                                     platforms only; --shrink takes exceptions out of xtask/tidy.toml that are not
                                     needed any more
  real [--direct] [--keep]           the gateway in front of real servers, used by real clients
       [--binary PATH]               (--direct: the suites straight at the servers)
  conformance [--cell NAME]...       the official conformance suite with the gateway in front of a fixture, and with
       [--scenario NAME] [--direct]  the gateway as the client; --list names the cells, --direct leaves the gateway out
       [--list] [--binary PATH]
  picture [--record PROGRAM]         draws docs/terminal.svg from the README's console block; --record runs its commands
                                     with the program and writes docs/terminal.cast, for asciinema
  fuzz [target] [--seconds N]        fuzz targets (all of them without a name)
  bench [--profile NAME]             the benchmarks, built with the profile `dist` or the one named: all of them, or
        [--before COMMIT|FILE|none]  what the arguments say, such as `run --only ratios --quick` or `soak --minutes 30`;
        [...]                        --before: the earlier build of the ratios, 04859e2 by default
  dist [--only PRODUCT]... [--test]  everything that a release carries, into target/dist; --test tries it as a user would;
       [--binary PATH] [--list]      --binary takes a program that is there in place of building one, --target builds
       [--target TRIPLE]             for another system than this one, --key signs with a key other than the one for tests
       [--key FILE]
  dist --notes VERSION               what CHANGELOG.md says about a version, as the notes of its release
  site                               the documents as pages with search, into target/site, and every link followed
  eval-search DIR [...]              how well the search finds, over query sets with known answers, and how fast";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let workspace = Workspace::find();
    let result = match arguments.first().map(String::as_str) {
        Some("test") if rest == [screenshots::FLAG] => screenshots::command(&workspace),
        Some("test") => steps::test(&workspace, rest, verdict::Setting::Person),
        Some("ci") => steps::test(&workspace, rest, verdict::Setting::Machine),
        Some("setup") => setup::command(&workspace),
        Some("tidy") => tidy::command(&workspace, rest),
        Some("real") => real::command(&workspace, rest),
        Some("conformance") => conformance::command(&workspace, rest),
        Some("picture") => picture::command(&workspace, rest),
        Some("fuzz") => fuzz::command(&workspace, rest),
        Some("bench") => bench::command(&workspace, rest),
        Some("site") => site::command(&workspace, rest),
        Some("dist") => dist::command(&workspace, rest),
        Some("eval-search") => eval::command(&workspace, rest),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask failed: {error:#}");
            ExitCode::from(2)
        }
    }
}
