//! The first page: what needs the person, then how everything is.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;

use crate::filters;
use crate::frame::Frame;
use crate::part::Cell;

/// The first page.
#[derive(Debug, Template)]
#[template(path = "page/start.html", blocks = ["live"])]
pub struct StartPage {
    /// What stands around it.
    pub frame: Frame,
    /// Whether nothing is set up yet, and how many clients there are to begin with.
    pub setup: Option<usize>,
    /// Clients on this machine that do not use Toolcrib.
    pub clients: Vec<Need>,
    /// What needs the person, the most urgent first.
    pub needs: Vec<Need>,
    /// The profiles that are granted to who signed in at an issuer.
    pub profiles: Vec<GrantedProfile>,
    /// The figures of the last day; none where the person may not see them.
    pub day: Vec<(&'static str, Cell)>,
    /// How the gateway is, as `core_status` answers.
    pub status: Status,
}

/// A profile that the person may use.
#[derive(Debug)]
pub struct GrantedProfile {
    /// Its name.
    pub name: String,
    /// As what.
    pub role: &'static str,
    /// The URL for clients.
    pub url: String,
}

/// Something that needs the person.
#[derive(Debug)]
pub struct Need {
    /// `bad` or `warn`.
    pub level: &'static str,
    /// What it is, in a word.
    pub word: &'static str,
    /// What happened.
    pub text: String,
    /// What to do.
    pub hint: Option<String>,
    /// Where: a path and its name.
    pub link: Option<(String, String)>,
}

/// What `core_status` answers, as far as pages show it.
#[derive(Debug, Default, Deserialize)]
pub struct Status {
    /// The version of the program.
    #[serde(default)]
    pub version: String,
    /// For how long it runs, in seconds.
    #[serde(default)]
    pub uptime_s: u64,
    /// How many sessions clients have.
    #[serde(default)]
    pub sessions: usize,
    /// How many servers are in each state.
    #[serde(default)]
    pub states: BTreeMap<String, usize>,
    /// How many tools the servers have.
    #[serde(default)]
    pub tools: usize,
    /// The servers that need someone.
    #[serde(default)]
    pub servers: Vec<ServerRow>,
    /// What is wrong with definitions.
    #[serde(default)]
    pub problems: Vec<DefinitionProblem>,
    /// What is risky.
    #[serde(default)]
    pub warnings: Vec<serde_json::Value>,
    /// How many tools, prompts and templates profiles hold until their change is approved.
    #[serde(default)]
    pub held: usize,
}

/// What is wrong with a file.
#[derive(Debug, Default, Deserialize)]
pub struct DefinitionProblem {
    /// The file.
    #[serde(default)]
    pub file: String,
    /// The line, if it is known.
    #[serde(default)]
    pub line: Option<usize>,
    /// What is wrong.
    #[serde(default)]
    pub message: String,
    /// What to do.
    #[serde(default)]
    pub hint: Option<String>,
}

/// A server as `core_status` answers it.
#[derive(Debug, Default, Deserialize)]
pub struct ServerRow {
    /// Its name.
    pub name: String,
    /// Its state.
    #[serde(default)]
    pub state: String,
    /// Why it failed.
    #[serde(default, rename = "lastError")]
    pub last_error: Option<String>,
    /// What to do.
    #[serde(default)]
    pub next: Option<String>,
}

// === impl Status ===

impl Status {
    /// For how long it runs, in the largest two units.
    pub fn uptime(&self) -> String {
        duration(self.uptime_s)
    }

    /// How many servers there are.
    pub fn all_servers(&self) -> usize {
        self.states.values().sum()
    }

    /// How many servers are in which state.
    pub fn state_words(&self) -> String {
        let words: Vec<String> = self.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        words.join(", ")
    }
}

/// Seconds in the largest two units: `3 d 4 h`.
pub fn duration(seconds: u64) -> String {
    let parts = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let mut rest = seconds;
    let mut words = Vec::new();
    for (size, unit) in parts {
        if rest >= size && words.len() < 2 {
            words.push(format!("{} {unit}", rest / size));
        }
        rest %= size;
    }
    if words.is_empty() { "0 s".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in
            [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (90_061, "1 d 1 h"), (86_400, "1 d"), (3_660, "1 h 1 min")]
        {
            assert_eq!(duration(seconds), expected);
        }
    }
}
