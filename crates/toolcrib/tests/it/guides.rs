//! The guides: what they tell people to write and to type is written and typed here, with the real binary and a home
//! folder of its own for each guide.
//!
//! How a guide is read, from top to bottom:
//! - A `yaml` or `toml` block whose first line is `# <path>`, or a `cedar` block with `// <path>`, is a file below the
//!   home folder.
//! - In a `console` block a line that begins with `$ ` is a command for the shell; a backslash at its end continues it.
//!   The lines below it are what it prints. Each must be found in a line of its output, in this order; blanks count as
//!   one, and `…` stands for anything. A command must succeed unless a line that begins with `error:` is expected.
//! - `$ toolcrib serve` goes on in the background on a free port, which stands for 8700 from there on, and `$ toolcrib
//!   example NAME --listen ADDRESS` for that address. `$ curl -s URL` is asked by this test, so that no curl is needed.
//!
//! Commands find `toolcrib` and the few programs of [`SYSTEM`] in their `PATH`, and nothing else, so that a reader
//! needs nothing else either: servers are `toolcrib example`. Other blocks, such as `sh`, `json` and `text`, are not
//! run.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use toolcrib_base::Kind;
use toolcrib_testkit::launch::{Launch, Program};

use crate::toolcrib;

/// How long a gateway may take to start, and a change of a file to be seen.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The addresses that guides speak of: that of the gateway, and that of an example server over HTTP.
const WRITTEN: &str = "127.0.0.1:8700";
const OVER_HTTP: &str = "127.0.0.1:8701";
/// Commands that change nothing are repeated until they print what is expected: a changed file is seen after a moment.
const REPEATED: [&str; 7] = [
    "toolcrib list ",
    "toolcrib find ",
    "toolcrib describe ",
    "toolcrib audit list",
    "toolcrib status",
    "curl -s ",
    "cat ",
];

/// What a reader's system has beside `toolcrib`.
const SYSTEM: [&str; 5] = ["sh", "cat", "ls", "mkdir", "sed"];

/// Every document with something to run; the names of the tests below.
const GUIDES: [&str; 51] = [
    "README.md",
    "docs/clients/claude-code.md",
    "docs/clients/claude-desktop.md",
    "docs/clients/cline.md",
    "docs/clients/codex.md",
    "docs/clients/cursor.md",
    "docs/clients/gemini-cli.md",
    "docs/clients/vscode.md",
    "docs/clients/windsurf.md",
    "docs/clients/zed.md",
    "docs/comparison.md",
    "docs/guides/agents.md",
    "docs/guides/approvals.md",
    "docs/guides/audit-sinks.md",
    "docs/guides/audit.md",
    "docs/guides/authorization-server.md",
    "docs/guides/bridge.md",
    "docs/guides/canaries.md",
    "docs/guides/cli.md",
    "docs/guides/clients.md",
    "docs/guides/connectors.md",
    "docs/guides/containers.md",
    "docs/guides/control-api.md",
    "docs/guides/evaluations.md",
    "docs/guides/events.md",
    "docs/guides/getting-started.md",
    "docs/guides/guards.md",
    "docs/guides/install-linux.md",
    "docs/guides/install-npm-pypi.md",
    "docs/guides/logins.md",
    "docs/guides/models.md",
    "docs/guides/muster.md",
    "docs/guides/observability.md",
    "docs/guides/operations.md",
    "docs/guides/platforms.md",
    "docs/guides/policies.md",
    "docs/guides/profiles.md",
    "docs/guides/registry.md",
    "docs/guides/releases.md",
    "docs/guides/remote-access.md",
    "docs/guides/runners.md",
    "docs/guides/secrets.md",
    "docs/guides/servers.md",
    "docs/guides/service.md",
    "docs/guides/single-sign-on.md",
    "docs/guides/teams.md",
    "docs/guides/ui.md",
    "docs/guides/updates.md",
    "docs/guides/verification.md",
    "docs/guides/workflows.md",
    "docs/platforms/linux.md",
];

#[test]
fn readme() {
    run("README.md");
}

#[test]
fn agents() {
    run("docs/guides/agents.md");
}

/// The pages of clients are short and alike; each has a home of its own.
#[test]
fn clients_one_by_one() {
    for path in GUIDES.iter().filter(|path| path.starts_with("docs/clients/")) {
        run(path);
    }
}

#[test]
fn approvals() {
    run("docs/guides/approvals.md");
}

#[test]
fn audit() {
    run("docs/guides/audit.md");
}

#[test]
fn audit_sinks() {
    run("docs/guides/audit-sinks.md");
}

#[test]
fn authorization_server() {
    run("docs/guides/authorization-server.md");
}

#[test]
fn bridge() {
    run("docs/guides/bridge.md");
}

#[test]
fn cli() {
    run("docs/guides/cli.md");
}

#[test]
fn clients() {
    run("docs/guides/clients.md");
}

#[test]
fn canaries() {
    run("docs/guides/canaries.md");
}

#[test]
fn control_api() {
    run("docs/guides/control-api.md");
}

#[test]
fn comparison() {
    run("docs/comparison.md");
}

#[test]
fn connectors() {
    run("docs/guides/connectors.md");
}

#[test]
fn containers() {
    run("docs/guides/containers.md");
}

#[test]
fn evaluations() {
    run("docs/guides/evaluations.md");
}

#[test]
fn events() {
    run("docs/guides/events.md");
}

#[test]
fn getting_started() {
    run("docs/guides/getting-started.md");
}

#[test]
fn guards() {
    run("docs/guides/guards.md");
}

#[test]
fn install_npm_pypi() {
    run("docs/guides/install-npm-pypi.md");
}

#[test]
fn install_linux() {
    run("docs/guides/install-linux.md");
}

#[test]
fn logins() {
    run("docs/guides/logins.md");
}

#[test]
fn models() {
    run("docs/guides/models.md");
}

#[test]
fn muster() {
    run("docs/guides/muster.md");
}

#[test]
fn observability() {
    run("docs/guides/observability.md");
}

#[test]
fn operations() {
    run("docs/guides/operations.md");
}

#[test]
fn platforms() {
    run("docs/guides/platforms.md");
}

#[test]
fn policies() {
    run("docs/guides/policies.md");
}

#[test]
fn profiles() {
    run("docs/guides/profiles.md");
}

#[test]
fn registry() {
    run("docs/guides/registry.md");
}

#[test]
fn releases() {
    run("docs/guides/releases.md");
}

#[test]
fn remote_access() {
    run("docs/guides/remote-access.md");
}

#[test]
fn runners() {
    run("docs/guides/runners.md");
}

#[test]
fn secrets() {
    run("docs/guides/secrets.md");
}

#[test]
fn servers() {
    run("docs/guides/servers.md");
}

#[test]
fn service() {
    run("docs/guides/service.md");
}

#[test]
fn teams() {
    run("docs/guides/teams.md");
}

#[test]
fn updates() {
    run("docs/guides/updates.md");
}

#[test]
fn verification() {
    run("docs/guides/verification.md");
}

#[test]
fn workflows() {
    run("docs/guides/workflows.md");
}

#[test]
fn linux() {
    run("docs/platforms/linux.md");
}

#[test]
fn no_guide_is_forgotten() {
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        entries.map(|entry| format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy())).collect()
    };
    let mut found: Vec<String> = ["docs/clients", "docs/guides"].into_iter().flat_map(names).collect();
    // Commands of the other platforms run on no Linux.
    found.extend(["docs/comparison.md", "docs/platforms/linux.md"].map(str::to_owned));
    found.sort();
    assert_eq!(found, GUIDES[1..]);
}

#[tokio::test]
async fn every_setting_is_documented() {
    let text = read("docs/guides/operations.md");
    let home = tempfile::tempdir().unwrap();
    let help = toolcrib::run(home.path(), &["serve", "--help"], &[]).await.stdout;
    let flags: Vec<&str> = help.lines().filter_map(flag).filter(|flag| !["help", "home"].contains(flag)).collect();
    assert!(flags.len() > 10, "{help}");
    for flag in flags.iter().filter(|flag| **flag != "ready-file") {
        // A key of a table stands behind its name.
        let key = flag
            .replacen("tls-", "tls.", 1)
            .replacen("approvals-", "approvals.", 1)
            .replacen("runners-", "runners.", 1)
            .replacen("update-", "update.", 1)
            .replacen("audit-arguments", "audit.arguments", 1)
            .replacen("audit-days", "audit.days", 1)
            .replace('-', "_");
        assert!(text.contains(&format!("| `{key}` |")), "no row for the key `{key}`");
    }
}

#[test]
fn every_kind_of_error_is_documented() {
    let text = read("docs/protocol.md");
    for kind in Kind::ALL {
        let row = kind.row();
        let cells = format!("| `{}` | {} | {} | {} |", row.name, row.code, row.status, row.exit);
        assert!(text.contains(&cells), "no row `{cells}`");
    }
}

/// `--name` at the beginning of a line of the help.
fn flag(line: &str) -> Option<&str> {
    let at = line.trim_start().trim_start_matches("-h, ").strip_prefix("--")?;
    Some(at.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or_default())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn run(path: &str) {
    let text = read(path);
    let home = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let programs = programs();
    let mut reader = Reader { path, home, programs, gateway: None, over_http: None, commands: 0, runtime };
    for block in blocks(&text) {
        match block.language {
            "yaml" | "toml" | "cedar" => reader.file(&block),
            "console" => reader.commands(&block),
            _ => {}
        }
    }
    reader.stop();
    assert!(reader.commands > 0, "{path} has nothing to run");
}

/// A folder with `toolcrib` and the programs of [`SYSTEM`].
fn programs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let link = |program: &Path, name: &str| std::os::unix::fs::symlink(program, folder.path().join(name)).unwrap();
    link(Path::new(env!("CARGO_BIN_EXE_toolcrib")), "toolcrib");
    let path = std::env::var_os("PATH").unwrap_or_default();
    for name in SYSTEM {
        let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file());
        link(&found.unwrap_or_else(|| panic!("no `{name}` in PATH")), name);
    }
    folder
}

/// A fenced block.
struct Block<'a> {
    language: &'a str,
    line: usize,
    lines: Vec<&'a str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inside = lines.by_ref().take_while(|(_, line)| !line.starts_with("```")).map(|(_, line)| line);
            blocks.push(Block { language: language.trim(), line: index + 1, lines: inside.collect() });
        }
    }
    blocks
}

/// Follows one guide.
struct Reader<'a> {
    path: &'a str,
    home: tempfile::TempDir,
    /// The only folder in the `PATH`.
    programs: tempfile::TempDir,
    gateway: Option<BackgroundCommand>,
    /// An example server over HTTP.
    over_http: Option<BackgroundCommand>,
    commands: usize,
    /// Dropped last: the programs belong to it.
    runtime: tokio::runtime::Runtime,
}

/// `toolcrib serve`, or an example server over HTTP, in the background.
struct BackgroundCommand {
    program: Program,
    address: String,
}

/// One command with the lines that are expected.
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

impl Reader<'_> {
    fn file(&self, block: &Block<'_>) {
        let comment = if block.language == "cedar" { "// " } else { "# " };
        let Some(name) = block.lines.first().and_then(|line| line.strip_prefix(comment)).filter(|name| is_path(name))
        else {
            return;
        };
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = self.here(&[block.lines.join("\n") + "\n"]).concat();
        std::fs::write(path, text).unwrap();
    }

    fn commands(&mut self, block: &Block<'_>) {
        for step in steps(block) {
            self.commands += 1;
            self.step(&step);
        }
    }

    fn step(&mut self, step: &Step) {
        // Not `toolcrib server`.
        let serve = step.command.strip_prefix("toolcrib serve").filter(|rest| rest.is_empty() || rest.starts_with(' '));
        if let Some(arguments) = serve.filter(|_| !fails(&step.expected)) {
            self.stop();
            let (gateway, told) = self.serve(arguments);
            self.gateway = Some(gateway);
            let expected = self.here(&step.expected);
            return self.compare(step, &expected, 0, &told);
        }
        if step.command.starts_with("toolcrib example ") && step.command.contains(OVER_HTTP) {
            let command = step.command.replace(OVER_HTTP, "127.0.0.1:0");
            let (server, told) = self.start(&command, |_| true);
            self.over_http = Some(server);
            let expected = self.here(&step.expected);
            return self.compare(step, &expected, 0, &told);
        }
        let expected = self.here(&step.expected);
        let command = self.here(std::slice::from_ref(&step.command)).concat();
        let repeated = REPEATED.iter().any(|begin| command.starts_with(begin));
        let begun = Instant::now();
        loop {
            let (code, output) = match command.strip_prefix("curl -s ") {
                Some(url) => (0, get(url.trim())),
                None => self.shell(&command),
            };
            if !repeated || missing(&expected, &output).is_none() || begun.elapsed() > TIMEOUT {
                return self.compare(step, &expected, code, &output);
            }
        }
    }

    /// The same texts with the addresses of what runs.
    fn here(&self, texts: &[String]) -> Vec<String> {
        let runs = [(&self.gateway, WRITTEN), (&self.over_http, OVER_HTTP)];
        let addresses = runs.map(|(running, written)| (written, running.as_ref().map_or(written, |it| &it.address)));
        let here = |text: &String| {
            addresses.iter().fold(text.clone(), |text, (written, address)| text.replace(written, address))
        };
        texts.iter().map(here).collect()
    }

    fn compare(&self, step: &Step, expected: &[String], code: i32, output: &str) {
        let place = format!("{}:{}: `{}`", self.path, step.line, step.command);
        if let Some(line) = missing(expected, output) {
            panic!("{place} does not print `{line}`, but (status {code}):\n{output}");
        }
        assert_eq!(code != 0, fails(expected), "{place} ended with status {code}:\n{output}");
    }

    fn shell(&self, command: &str) -> (i32, String) {
        let output = self.runtime.block_on(self.launch(command).run(""));
        (output.code, output.stdout + output.stderr.as_str())
    }

    /// A command line of a person whose home folder is the guide's and who installed `toolcrib` only.
    fn launch(&self, command: &str) -> Launch {
        let shell = Launch::new(self.programs.path().join("sh"), &["-c", command]).folder(self.home.path());
        shell.home(self.home.path()).env("HOME", self.home.path()).env("PATH", self.programs.path())
    }

    /// Starts a gateway and waits until it serves and its servers are listed; gives what it told until then.
    fn serve(&self, arguments: &str) -> (BackgroundCommand, String) {
        // The gateway says so as well when a server keeps it waiting.
        let is_ready = |line: &str| line.contains("ready servers=") || line.contains("unlisted=");
        self.start(&format!("toolcrib serve {arguments}"), is_ready)
    }

    /// Starts a program that serves and waits until it has told its address and then a line that `is_ready`.
    fn start(&self, command: &str, is_ready: fn(&str) -> bool) -> (BackgroundCommand, String) {
        // `exec`, so that a signal reaches the program and not the shell.
        let launch = self.launch(&format!("exec {command}"));
        let launch = launch.env("TOOLCRIB_LISTEN", "127.0.0.1:0").env("TOOLCRIB_LOG", "info");
        self.runtime.block_on(async {
            let mut program = launch.start();
            let mut address = String::new();
            loop {
                let line = program.logs("").await;
                if let Some((_, url)) = line.split_once("serving url=http://") {
                    url.split('/').next().unwrap_or_default().clone_into(&mut address);
                }
                if !address.is_empty() && is_ready(&line) {
                    let log = program.log();
                    return (BackgroundCommand { program, address }, log);
                }
            }
        })
    }

    fn stop(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            gateway.program.signal(Signal::TERM);
            let status = self.runtime.block_on(gateway.program.end());
            assert!(status.success(), "{}: the gateway ended with {status}", self.path);
        }
    }
}

/// Whether the first line of a block names a file rather than saying something.
fn is_path(name: &str) -> bool {
    let is_file = [".yaml", ".yml", ".json", ".toml", ".cedar"].iter().any(|end| name.ends_with(end));
    is_file && !name.contains([' ', ':']) && !name.contains("..") && !name.starts_with('/')
}

fn steps(block: &Block<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (index, line) in block.lines.iter().enumerate() {
        let last = steps.last_mut();
        match (line.strip_prefix("$ "), last) {
            (Some(command), _) => {
                let line = block.line + index + 1;
                steps.push(Step { line, command: command.to_owned(), expected: Vec::new() });
            }
            (None, Some(step)) if step.command.ends_with('\\') => {
                step.command.pop();
                step.command.push_str(line.trim_start());
            }
            (None, Some(step)) => step.expected.push((*line).to_owned()),
            (None, None) => panic!("line {}: output without a command", block.line + index + 1),
        }
    }
    steps
}

fn fails(expected: &[String]) -> bool {
    expected.iter().any(|line| line.starts_with("error:"))
}

/// The first expected line that no line of the output fits, in order.
fn missing<'e>(expected: &'e [String], output: &str) -> Option<&'e str> {
    let mut lines = output.lines().map(squeezed);
    let fits = |wanted: &str, line: &str| {
        let mut rest = line;
        wanted.split('…').all(|part| {
            let part = part.trim();
            let found = rest.find(part);
            rest = found.map_or("", |at| &rest[at + part.len()..]);
            found.is_some()
        })
    };
    expected.iter().map(String::as_str).find(|wanted| {
        let wanted = squeezed(wanted);
        !wanted.is_empty() && wanted != "…" && !lines.by_ref().any(|line| fits(&wanted, &line))
    })
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The body of a page.
fn get(url: &str) -> String {
    let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn expected_lines_are_looked_for_in_order() {
    let check = |expected: &[&str], output: &str, first_missing: Option<&str>| {
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(missing(&expected, output), first_missing, "{expected:?} in {output}");
    };
    check(&["NAME STATE", "a  ready"], "NAME   STATE\na      ready\n", None);
    check(&["b", "a"], "a\nb\n", Some("a"));
    check(&["a … c", "…", "d"], "a b c\nd", None);
    check(&["a … c"], "c b a", Some("a … c"));
    check(&["x"], "", Some("x"));
}
