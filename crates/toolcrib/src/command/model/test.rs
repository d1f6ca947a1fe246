//! `toolcrib model test`: what works with a model of the gateway.

use http::Method;
use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;

use crate::client::{ClientFlags, Rest, encoded};
use crate::output::table::{Column, field};
use crate::output::{Output, rows_of};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The model's name
    name: String,
    #[command(flatten)]
    pub(super) client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("CHECK", |row| field(row, "check")),
    Column::state("WORKS", |row| match row["works"].as_bool() {
        Some(true) => "yes".to_owned(),
        Some(false) => "NO".to_owned(),
        None => "?".to_owned(),
    }),
    Column::new("DETAIL", |row| field(row, "detail")),
];

pub(super) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let path = format!("/models/{}/test", encoded(&arguments.name));
    let body = Raw::from_value(&Value::Object(serde_json::Map::new()));
    let asked = rest.ask(Method::POST, &path, Some(&body));
    let answer = output.busy(&format!("testing {}", arguments.name), asked).await?;
    output.listed(&answer, "checks", COLUMNS)?;
    let report = answer.to_value();
    if report["works"] == true {
        return Ok(());
    }
    let failed = rows_of(&report, "checks").iter().filter(|row| row["works"] == false);
    let names: Vec<String> = failed.map(|row| format!("`{}`", field(row, "check"))).collect();
    let message = format!("of model `{}` {} not work", arguments.name, does(&names));
    Err(Problem::new(Kind::Unavailable, message).hint("runs work around some of it; see the details above").into())
}

fn does(names: &[String]) -> String {
    format!("{} {}", names.join(", "), if names.len() == 1 { "does" } else { "do" })
}
