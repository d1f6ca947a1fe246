//! The unit of a person's own systemd.

use std::path::{Path, PathBuf};

use super::{MARK, Program};
use crate::home::Environment;

/// What starts units with the session.
const TARGET: &str = "default.target";

/// The unit's name and its file.
pub(super) fn place(suffix: &str, person: &Path, environment: &Environment) -> (String, PathBuf) {
    let name = format!("toolcrib{suffix}.service");
    // XDG Base Directory Specification: a relative path is to be ignored.
    let named = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let file = named.unwrap_or_else(|| person.join(".config")).join("systemd/user").join(&name);
    (name, file)
}

/// `KillMode=mixed`: the gateway ends its servers itself, cleanly. `exec` tells a program that cannot be started.
pub(super) fn text(program: &Program) -> String {
    let mut environment = vec![format!("Environment={}", quoted(&format!("PATH={}", program.search)))];
    environment.extend(program.home.iter().map(|home| {
        let home = format!("TOOLCRIB_HOME={home}");
        format!("Environment={}", quoted(&home))
    }));
    format!(
        "# {MARK} Change it with `systemctl --user edit`, remove it with `toolcrib service uninstall`.\n\
         [Unit]\n\
         Description=Toolcrib, one MCP endpoint in front of every MCP server\n\
         StartLimitIntervalSec=300\n\
         StartLimitBurst=10\n\
         \n\
         [Service]\n\
         Type=exec\n\
         ExecStart={} serve\n\
         {}\n\
         WorkingDirectory=%h\n\
         Restart=on-failure\n\
         RestartSec=3\n\
         KillMode=mixed\n\
         TimeoutStopSec=90\n\
         \n\
         [Install]\n\
         WantedBy={TARGET}\n",
        quoted(&program.path).replace('$', "$$"),
        environment.join("\n"),
    )
}

/// systemd.syntax(7): in double quotes, with `%` doubled.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

pub(super) fn order(words: &[&str]) -> Vec<String> {
    ["systemctl", "--user"].iter().chain(words).map(|word| (*word).to_owned()).collect()
}

pub(super) fn steps(name: &str, starts: bool) -> Vec<Vec<String>> {
    let enable = if starts { order(&["enable", "--now", name]) } else { order(&["enable", name]) };
    vec![order(&["daemon-reload"]), enable]
}

/// Takes away the link by which a target wants the unit. Where there is none, `disable` took it away.
pub(super) fn unlink(file: &Path, name: &str) {
    let link = file.parent().map(|folder| folder.join(format!("{TARGET}.wants")).join(name));
    if let Some(link) = link.filter(|link| link.is_symlink()) {
        // A link to nothing is no harm.
        let _ = std::fs::remove_file(link);
    }
}
