//! `toolcrib explain`: why a tool is there, or what hides it.

use serde_json::Value;

use crate::client::{ClientFlags, Rest, encoded};
use crate::output::Output;
use crate::output::table::field;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The tool's id `server/tool`, or its name
    tool: String,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let profile = rest.profile().map(|name| format!("&profile={name}")).unwrap_or_default();
    let answer = rest.get(&format!("/explain?tool={}{profile}", encoded(&arguments.tool))).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    output.text(text_of(&answer.to_value()).trim_end())?;
    Ok(())
}

fn text_of(value: &Value) -> String {
    let visible = if value["visible"] == true { "is visible" } else { "is not visible" };
    let (tool, profile) = (field(value, "tool"), field(value, "profile"));
    let mut text = format!("{} {visible} in profile {profile}\n", crate::text::line(&tool));
    for step in value["steps"].as_array().into_iter().flatten() {
        let mark = if step["ok"] == true { "ok" } else { "NO" };
        let line = format!("  {mark}  {:<10}  {}\n", field(step, "step"), crate::text::line(&field(step, "text")));
        text.push_str(&line);
    }
    let nearest: Vec<&str> = value["nearest"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !nearest.is_empty() {
        text.push_str(&format!("  nearest: {}\n", crate::text::line(&nearest.join(", "))));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_shown_one_below_the_other() {
        let value = json!({
            "tool": "a/b", "profile": "default", "visible": false, "nearest": ["a/c"],
            "steps": [{"step": "definition", "ok": true, "text": "x"}, {"step": "rules", "ok": false, "text": "y\u{1b}"}],
        });
        let text = text_of(&value);
        assert!(
            text.starts_with("a/b is not visible in profile default\n  ok  definition  x\n  NO  rules       y"),
            "{text}"
        );
        assert!(text.ends_with("\n  nearest: a/c\n") && !text.contains('\u{1b}'), "{text}");
    }
}
