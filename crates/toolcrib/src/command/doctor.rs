//! `toolcrib doctor`: how servers are, what failed, and what to do.

use serde_json::Value;

use crate::client::{ClientFlags, Rest, encoded};
use crate::output::Output;
use crate::output::table::field;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this server
    server: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let query = arguments.server.as_ref().map(|name| format!("?name={}", encoded(name))).unwrap_or_default();
    let answer = rest.get(&format!("/doctor{query}")).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    for server in value["servers"].as_array().into_iter().flatten() {
        output.text(text_of(server).trim_end())?;
    }
    for problem in value["problems"].as_array().into_iter().flatten() {
        output.text(&format!("bad definition: {}", crate::text::line(&field(problem, "problem"))))?;
    }
    if value["total"] == 0 {
        output.text("no servers")?;
    }
    Ok(())
}

fn text_of(server: &Value) -> String {
    let line = |key: &str| crate::text::line(&field(server, key)).into_owned();
    let mut text = format!("{}: {} since {}, {} tools\n", line("name"), line("state"), line("since"), line("tools"));
    for (label, key) in [
        ("failed", "failed"),
        ("next attempt", "nextRetry"),
        ("changes", "changes"),
        ("verified", "verifiedAt"),
        ("to do", "advice"),
    ] {
        let value = line(key);
        if !value.is_empty() {
            text.push_str(&format!("  {:<13} {value}\n", format!("{label}:")));
        }
    }
    for line in server["stderr"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        text.push_str(&format!("  stderr:       {}\n", crate::text::line(line)));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failed_server_is_told_with_its_stderr_and_what_to_do() {
        let text = text_of(&json!({
            "name": "a", "state": "failed", "since": "t", "tools": 3, "failed": "it ended", "advice": "run it",
            "stderr": ["no key"], "verifiedAt": null,
        }));
        assert_eq!(
            text,
            "a: failed since t, 3 tools\n  failed:       it ended\n  to do:        run it\n  stderr:       no key\n"
        );
    }
}
