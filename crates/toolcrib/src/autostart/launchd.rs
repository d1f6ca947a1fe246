//! The agent of a person's own launchd.

use std::path::{Path, PathBuf};

use super::{MARK, Program};

/// The agent's label and its file.
pub(super) fn place(suffix: &str, person: &Path) -> (String, PathBuf) {
    let label = format!("dev.toolcrib.gateway{}", suffix.replace('-', "."));
    let file = person.join("Library/LaunchAgents").join(format!("{label}.plist"));
    (label, file)
}

pub(super) fn text(label: &str, program: &Program) -> String {
    let variable =
        |name: &str, value: &str| format!("        <key>{name}</key>\n        <string>{}</string>\n", escaped(value));
    let mut environment = variable("PATH", &program.search);
    environment.push_str(&program.home.iter().map(|home| variable("TOOLCRIB_HOME", home)).collect::<String>());
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- {MARK} Remove it with `toolcrib service uninstall`. -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
    <key>Label</key>
    <string>{label}</string>
    <key>ProgramArguments</key>
    <array>
        <string>{path}</string>
        <string>serve</string>
    </array>
    <key>EnvironmentVariables</key>
    <dict>
{environment}    </dict>
    <key>WorkingDirectory</key>
    <string>{person}</string>
    <key>RunAtLoad</key>
    <true/>
    <key>KeepAlive</key>
    <dict>
        <key>SuccessfulExit</key>
        <false/>
    </dict>
    <key>ThrottleInterval</key>
    <integer>10</integer>
    <key>ExitTimeOut</key>
    <integer>90</integer>
    <key>StandardErrorPath</key>
    <string>{log}</string>
</dict>
</plist>
"#,
        path = escaped(&program.path),
        person = escaped(&program.person),
        log = escaped(&program.log),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The session of the caller.
fn domain() -> String {
    format!("gui/{}", rustix::process::getuid().as_raw())
}

fn order(words: &[&str]) -> Vec<String> {
    ["launchctl"].iter().chain(words).map(|word| (*word).to_owned()).collect()
}

pub(super) fn steps(label: &str, file: &Path, starts: bool) -> Vec<Vec<String>> {
    let enable = order(&["enable", &format!("{}/{label}", domain())]);
    // An agent that is loaded is started, so it is loaded only where it may start.
    let load = starts.then(|| order(&["bootstrap", &domain(), &file.to_string_lossy()]));
    [enable].into_iter().chain(load).collect()
}

pub(super) fn kick(label: &str) -> Vec<String> {
    order(&["kickstart", &format!("{}/{label}", domain())])
}

pub(super) fn out(label: &str) -> Vec<String> {
    order(&["bootout", &format!("{}/{label}", domain())])
}

pub(super) fn print(label: &str) -> Vec<String> {
    order(&["print", &format!("{}/{label}", domain())])
}

pub(super) fn session() -> Vec<String> {
    order(&["print", &domain()])
}

/// `state = running` of what `print` says.
pub(super) fn state(printed: &str) -> &str {
    let states = printed.lines().filter_map(|line| line.trim().strip_prefix("state = "));
    states.map(str::trim).next().unwrap_or("not loaded")
}
