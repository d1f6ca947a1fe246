//! `toolcrib run`: a task in words for an agent or a model, followed live; and the runs that there are.

mod activity;
mod follow;

use http::Method;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;

use crate::client::{ClientFlags, Rest, encoded};
use crate::output::table::{Column, field, moment};
use crate::output::{Output, rows_of};
use crate::text::line;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    start: StartArguments,
}

#[derive(Debug, clap::Args)]
struct StartArguments {
    /// What to do, in plain words
    #[arg(required = true)]
    task: Option<String>,
    /// The agent; without it a model with the tools of the profile
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// The model; `demo` needs no key
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// How tools are shown to the model [default: the agent's, else `auto`]
    #[arg(long, value_name = "WAY", value_parser = ["menu", "all", "native", "auto"])]
    tools: Option<String>,
    #[command(flatten)]
    limits: LimitArguments,
    /// Print the id of the run and do not follow it
    #[arg(long)]
    detach: bool,
    /// Print each entry as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct LimitArguments {
    /// The most answers of the model
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// The most calls of tools
    #[arg(long, value_name = "N")]
    calls: Option<u32>,
    /// The most tokens, read and written
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// The most dollars, such as 0.50
    #[arg(long, value_name = "DOLLARS")]
    cost: Option<String>,
    /// The longest time, waiting for people aside, such as 10m
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the runs
    List(ListArguments),
    /// Show a run: how far it is, what it waits for, its output
    Show(OneArguments),
    /// Follow a run live
    Follow(FollowArguments),
    /// Say more in a run, and follow it
    Message(MessageArguments),
    /// Pause a run: what is under way ends, nothing else begins
    Pause(OneArguments),
    /// Go on with a run that was paused, ended at a limit or was interrupted; or answer what it asks
    Resume(ResumeArguments),
    /// Say of a call whose end is not known whether it happened
    Settle(SettleArguments),
    /// Let a run have what its sentinel holds in quarantine
    Release(ReviewArguments),
    /// Say that a run may not have what its sentinel holds in quarantine
    Refuse(ReviewArguments),
    /// Cancel a run
    Cancel(OneArguments),
    /// Start a new run from a round of another one
    Fork(ForkArguments),
    /// Follow a run's journal without executing anything, and check it
    Replay(OneArguments),
    /// Print a run as JSON, Markdown or spans of OpenTelemetry
    Export(ExportArguments),
    /// List what agents did: messages, calls, approvals, what was blocked, ends
    Activity(activity::Arguments),
}

#[derive(Debug, clap::Args)]
struct ListArguments {
    /// Only those of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only those in this state
    #[arg(long, value_parser = ["running", "waiting", "paused", "ended"])]
    status: Option<String>,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct OneArguments {
    /// The run's id, or its beginning
    run: String,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct FollowArguments {
    /// The run's id, or its beginning
    run: String,
    /// Print each entry as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct MessageArguments {
    /// The run's id, or its beginning
    run: String,
    /// What to say
    message: String,
    /// Print each entry as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct ResumeArguments {
    /// The run's id, or its beginning
    run: String,
    /// The answer to what the run asks: the fields of its form, or {"action": "decline"}
    #[arg(long, value_name = "JSON")]
    answer: Option<String>,
    /// Which question is answered, if there are several: what `run show` says that it waits for
    #[arg(long, value_name = "QUESTION", requires = "answer")]
    to: Option<String>,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct SettleArguments {
    /// The run's id, or its beginning
    run: String,
    /// The call, such as 3.1
    call: String,
    /// What became of it
    #[arg(value_parser = ["happened", "did-not", "repeat"])]
    settlement: String,
    /// What it gave, if it happened
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct ReviewArguments {
    /// The run's id, or its beginning
    run: String,
    /// What is meant, by its number; not needed where it is the only one
    item: Option<u32>,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct ForkArguments {
    /// The run's id, or its beginning
    run: String,
    /// The last round that is kept
    #[arg(long, value_name = "ROUND")]
    at: u32,
    /// Another model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct ExportArguments {
    /// The run's id, or its beginning
    run: String,
    /// The format
    #[arg(long, value_parser = ["json", "markdown", "otlp"], default_value = "json")]
    format: String,
    /// Spans with texts, arguments and results
    #[arg(long)]
    content: bool,
    #[command(flatten)]
    client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("RUN", |row| field(row, "run")),
    Column::new("AGENT", |row| field(row, "agent")),
    Column::new("STATUS", |row| field(row, "status")),
    Column::new("END", |row| field(row, "end")),
    Column::new("ROUNDS", |row| field(row, "rounds")),
    Column::new("CALLS", |row| field(row, "calls")),
    Column::new("TOKENS", |row| field(row, "tokens")),
    Column::new("COST", |row| field(row, "cost")),
    Column::new("STARTED", |row| moment(row, "started_at")),
    Column::wide("MODEL", |row| field(row, "model")),
    Column::wide("PRINCIPAL", |row| field(row, "principal")),
    Column::new("TASK", |row| field(row, "task").chars().take(40).collect()),
];

/// What is shown of one, in this order.
const SHOWN: [(&str, &str); 15] = [
    ("run", "Run"),
    ("agent", "Agent"),
    ("model", "Model"),
    ("task", "Task"),
    ("status", "Status"),
    ("end", "End"),
    ("rounds", "Rounds"),
    ("calls", "Calls"),
    ("tokens", "Tokens"),
    ("cost", "Cost"),
    ("principal", "Principal"),
    ("runs_as", "Runs as"),
    ("started_at", "Started"),
    ("ended_at", "Ended"),
    ("forked_from", "Forked from"),
];

impl Arguments {
    /// The gateway and the output.
    pub(crate) fn client(&self) -> &ClientFlags {
        match &self.action {
            None => &self.start.client,
            Some(Action::List(arguments)) => &arguments.client,
            Some(
                Action::Show(arguments)
                | Action::Cancel(arguments)
                | Action::Pause(arguments)
                | Action::Replay(arguments),
            ) => &arguments.client,
            Some(Action::Follow(arguments)) => &arguments.client,
            Some(Action::Message(arguments)) => &arguments.client,
            Some(Action::Resume(arguments)) => &arguments.client,
            Some(Action::Settle(arguments)) => &arguments.client,
            Some(Action::Release(arguments) | Action::Refuse(arguments)) => &arguments.client,
            Some(Action::Fork(arguments)) => &arguments.client,
            Some(Action::Export(arguments)) => &arguments.client,
            Some(Action::Activity(arguments)) => &arguments.client,
        }
    }
}

impl LimitArguments {
    fn put(&self, body: &mut Map<String, Value>) {
        let numbers =
            [("rounds", self.rounds.map(u64::from)), ("calls", self.calls.map(u64::from)), ("tokens", self.tokens)];
        for (key, number) in numbers {
            if let Some(number) = number {
                body.insert(key.to_owned(), number.into());
            }
        }
        for (key, text) in [("cost", &self.cost), ("time", &self.time)] {
            if let Some(text) = text {
                body.insert(key.to_owned(), text.as_str().into());
            }
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let Some(action) = &arguments.action else { return start(&arguments.start, rest, output).await };
    match action {
        Action::List(list) => {
            let mut query = String::new();
            for (key, value) in [("agent", &list.agent), ("status", &list.status)] {
                if let Some(value) = value {
                    query.push_str(&format!("{}{key}={}", if query.is_empty() { '?' } else { '&' }, encoded(value)));
                }
            }
            let answer = rest.get(&format!("/runs{query}")).await?;
            output.listed(&answer, "runs", COLUMNS)?;
            let is_empty = rows_of(&answer.to_value(), "runs").is_empty();
            if is_empty && !output.is_for_programs() {
                output.note("start one with `toolcrib run \"TASK\" --model demo`");
            }
            Ok(())
        }
        Action::Show(one) => show(&rest.get(&path(&one.run, "")).await?, output),
        Action::Follow(one) => follow::follow(rest, &one.run, 0, one.json, output).await,
        Action::Message(one) => {
            // What was there before is not told again.
            let known = rest.get(&path(&one.run, "/replay")).await?.to_value()["entries"].as_u64().unwrap_or(0);
            let mut body = Map::new();
            body.insert("message".to_owned(), one.message.as_str().into());
            post(rest, &path(&one.run, "/message"), body).await?;
            follow::follow(rest, &one.run, known, one.json, output).await
        }
        Action::Resume(one) => {
            let mut body = Map::new();
            one.limits.put(&mut body);
            if let Some(answer) = &one.answer {
                body.insert("answer".to_owned(), answer_of(answer)?);
            }
            if let Some(to) = &one.to {
                body.insert("to".to_owned(), to.as_str().into());
            }
            show(&post(rest, &path(&one.run, "/resume"), body).await?, output)
        }
        Action::Settle(one) => {
            let mut body = Map::new();
            body.insert("call".to_owned(), one.call.as_str().into());
            body.insert("settlement".to_owned(), one.settlement.replace('-', "_").into());
            if let Some(result) = &one.result {
                body.insert("result".to_owned(), result.as_str().into());
            }
            show(&post(rest, &path(&one.run, "/settle"), body).await?, output)
        }
        Action::Pause(one) => show(&post(rest, &path(&one.run, "/pause"), Map::new()).await?, output),
        Action::Release(one) => review(one, "/release", rest, output).await,
        Action::Refuse(one) => review(one, "/refuse", rest, output).await,
        Action::Cancel(one) => show(&post(rest, &path(&one.run, "/cancel"), Map::new()).await?, output),
        Action::Fork(one) => {
            let mut body = Map::new();
            body.insert("at".to_owned(), one.at.into());
            if let Some(model) = &one.model {
                body.insert("model".to_owned(), model.as_str().into());
            }
            show(&post(rest, &path(&one.run, "/fork"), body).await?, output)
        }
        Action::Activity(asked) => activity::run(asked, rest, output).await,
        Action::Replay(one) => replay(&rest.get(&path(&one.run, "/replay")).await?, output),
        Action::Export(one) => {
            let content = if one.content { "&content=true" } else { "" };
            let answer = rest.get(&path(&one.run, &format!("/export?format={}{content}", one.format))).await?;
            match one.format.as_str() {
                "markdown" => output.text(answer.text("text").unwrap_or_default().trim_end())?,
                "otlp" => output
                    .text(answer.get("spans").map_or_else(String::new, |spans| spans.as_str().to_owned()).as_str())?,
                _ => output
                    .text(answer.get("journal").map_or_else(String::new, |lines| lines.as_str().to_owned()).as_str())?,
            }
            Ok(())
        }
    }
}

fn answer_of(text: &str) -> Result<Value, Problem> {
    let wrong = |why: String| {
        Problem::new(Kind::InvalidParams, format!("`--answer` is {why}"))
            .hint("Write it as `--answer '{\"FIELD\": VALUE}'`; `toolcrib run show RUN` has an example.")
    };
    match serde_json::from_str(text) {
        Ok(answer @ Value::Object(_)) => Ok(answer),
        Ok(_) => Err(wrong("JSON, but not an object".to_owned())),
        Err(error) => Err(wrong(format!("not JSON: {error}"))),
    }
}

async fn start(start: &StartArguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let mut body = Map::new();
    let given =
        [("task", &start.task), ("agent", &start.agent), ("model", &start.model), ("tools_shown", &start.tools)];
    for (key, text) in given {
        if let Some(text) = text {
            body.insert(key.to_owned(), text.as_str().into());
        }
    }
    start.limits.put(&mut body);
    let begun = post(rest, &rest.in_profile("/runs"), body).await?;
    let id = begun.text("run").unwrap_or_default();
    if start.detach {
        return show(&begun, output);
    }
    follow::follow(rest, &id, 0, start.json, output).await
}

async fn review(one: &ReviewArguments, verb: &str, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let mut body = Map::new();
    if let Some(item) = one.item {
        body.insert("item".to_owned(), item.into());
    }
    show(&post(rest, &path(&one.run, verb), body).await?, output)
}

async fn post(rest: &Rest, path: &str, body: Map<String, Value>) -> Result<Raw, Problem> {
    rest.ask(Method::POST, path, Some(&Raw::from_value(&Value::Object(body)))).await
}

fn path(run: &str, rest: &str) -> String {
    format!("/runs/{}{rest}", encoded(run))
}

fn replay(answer: &Raw, output: Output) -> anyhow::Result<()> {
    if output.is_for_programs() {
        output.answer(answer)?;
        return Ok(());
    }
    let value = answer.to_value();
    if value["follows"] == json!(true) {
        output.text(&format!("{} entries, as the loop writes them", field(&value, "entries")))?;
        return Ok(());
    }
    Err(Problem::new(Kind::Internal, line(&field(&value, "problem"))).into())
}

/// One run.
fn show(run: &Raw, output: Output) -> anyhow::Result<()> {
    if output.is_for_programs() {
        output.answer(run)?;
        return Ok(());
    }
    let value = run.to_value();
    let mut text = String::new();
    for (key, title) in SHOWN {
        let shown = field(&value, key);
        if !shown.is_empty() {
            text.push_str(&format!("{title:<12} {}\n", line(&shown)));
        }
    }
    for wait in value["waits"].as_array().into_iter().flatten() {
        text.push_str(&format!("{:<12} {} {}", "Waits for", field(wait, "for"), line(&field(wait, "what"))));
        let next = field(wait, "next").replace("RUN", &field(&value, "run"));
        text.push_str(&if next.is_empty() { "\n".to_owned() } else { format!(": `{}`\n", line(&next)) });
        for asked in wait["questions"].as_object().into_iter().flat_map(|asked| asked.values()) {
            text.push_str(&format!("{:<12} {}\n", "", line(&field(&asked["params"], "message"))));
            let url = field(&asked["params"], "url");
            if !url.is_empty() {
                text.push_str(&format!("{:<12} {}\n", "", line(&url)));
            }
        }
    }
    for held in value["quarantine"].as_array().into_iter().flatten() {
        let (item, why, words) = (field(held, "item"), field(held, "why"), field(held, "text"));
        text.push_str(&format!("{:<12} {item} {}: {}\n", "Quarantine", line(&why), line(&words)));
    }
    for call in value["unsettled"].as_array().into_iter().flatten() {
        let (run, call) = (field(&value, "run"), call.as_str().unwrap_or_default());
        text.push_str(&format!(
            "{:<12} {call}: `toolcrib run settle {run} {call} happened|did-not|repeat`\n",
            "Unsettled"
        ));
    }
    let shown = field(&value, "output");
    if !shown.is_empty() {
        text.push_str(&format!("\n{}", crate::text::block(&shown)));
    }
    output.text(text.trim_end())?;
    Ok(())
}
