//! `toolcrib learning`: what a profile learned from use; show it, forget it, export it.

use http::Method;

use crate::client::{ClientFlags, Rest, encoded};
use crate::output::table::{Column, field};
use crate::output::{Format, Output};
use crate::text::count;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show which tools rank higher for which words
    Show(Flags),
    /// Clear everything learned
    Reset(Flags),
    /// Print everything as JSON
    Export(Flags),
}

#[derive(Debug, clap::Args)]
struct Flags {
    #[command(flatten)]
    client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("WORD", |row| field(row, "word")),
    Column::new("TOOL", |row| field(row, "tool")),
    Column::new("COUNT", |row| field(row, "count")),
];

// === impl Arguments ===

impl Arguments {
    pub(crate) fn client(&self) -> &ClientFlags {
        let (Action::Show(flags) | Action::Reset(flags) | Action::Export(flags)) = &self.action;
        &flags.client
    }
}

pub(crate) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let profile = rest.profile().map_or("default", |profile| profile.as_str());
    let path = format!("/learning/{}", encoded(profile));
    let answer = match arguments.action {
        Action::Show(_) => rest.get(&path).await?,
        Action::Reset(_) => rest.ask(Method::DELETE, &path, None).await?,
        Action::Export(_) => {
            let answer = rest.get(&format!("{path}/export")).await?;
            let format = if output.is_for_programs() { output.format } else { Format::Json };
            return Ok(Output { format, ..output }.answer(&answer)?);
        }
    };
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    if let Action::Reset(_) = arguments.action {
        return Ok(output.text(&format!("{} forgotten in profile {profile}", count(&field(&value, "tools"), "tool")))?);
    }
    let rows = value["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    output.rows("learned words", COLUMNS, rows)?;
    if value["learns"] != true {
        output.note(&format!("profile {profile} does not learn; set `learn: true` in its definition"));
    }
    Ok(())
}
