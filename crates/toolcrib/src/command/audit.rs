//! `toolcrib audit`: who did what to which tool, whether the record is intact, and what proves it elsewhere.

pub(crate) mod export;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolcrib_base::{Clock, Kind, Problem, SystemClock, Timestamp};
use toolcrib_catalog::Period;
use toolcrib_protocol::Raw;
use toolcrib_store::{Checkpoint, CheckpointKey, EventProof, Fault};

use crate::client::{Client, ClientFlags};
use crate::output::Output;
use crate::output::table::{Column, field, moment};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// List audit events, newest first
    List(ListArguments),
    /// Print audit events for other systems, oldest first
    Export(export::ExportArguments),
    /// Check that no audit event was changed, removed or added
    Verify(VerifyArguments),
    /// Print the proof of one audit event, which is checked without the log
    Prove(ProveArguments),
    /// Print the signed checkpoints, one JSON object on each line, to keep them elsewhere
    Checkpoints(CheckpointsArguments),
    /// Print the public key that signs the checkpoints
    Key(KeyArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Only calls of these targets: an id or a glob such as `files/*`
    #[arg(long, value_name = "GLOB")]
    target: Option<String>,
    /// Only calls of this principal
    #[arg(long, value_name = "ID")]
    principal: Option<String>,
    /// Only events with this outcome
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    /// Only events since this RFC 3339 date or age, such as `1h`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only events before this date or age
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Maximum number of events
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArguments {
    /// The public key, as `toolcrib audit key` printed it
    #[arg(long, value_name = "KEY")]
    key: Option<CheckpointKey>,
    /// Checkpoints that were kept elsewhere: the log must still have them
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Check the proof of one event in place of the log, without a gateway
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "against")]
    proof: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProveArguments {
    /// The number of the event
    #[arg(value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    seq: u64,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckpointsArguments {
    /// Only checkpoints after this number
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    after: u64,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KeyArguments {
    /// Sign with a new key from now on
    #[arg(long)]
    rotate: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// The largest file of kept checkpoints or of a proof that is read: checkpoints of some months.
const FILE_BYTES: u64 = 256 << 20;

/// In milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1_000;

const COLUMNS: &[Column] = &[
    Column::new("SEQ", |event| field(event, "seq")),
    Column::new("AT", |event| moment(event, "at")),
    Column::new("PRINCIPAL", |event| field(event, "principal")),
    Column::wide("PROFILE", |event| field(event, "profile")),
    Column::wide("DOOR", |event| field(event, "door")),
    Column::wide("METHOD", |event| field(event, "method")),
    Column::new("TARGET", |event| field(event, "target")),
    Column::new("DECISION", |event| field(event, "decision")),
    Column::new("OUTCOME", |event| field(event, "outcome")),
    Column::new("DURATION", duration),
    Column::wide("ROLE", |event| field(event, "role")),
    Column::wide("CLIENT", |event| field(event, "client")),
    Column::wide("ADDRESS", |event| field(event, "address")),
    Column::wide("CREDENTIAL", |event| field(event, "credential")),
    Column::wide("REQUEST", |event| field(event, "request_id")),
];

fn duration(event: &Value) -> String {
    match event["duration_us"].as_f64() {
        Some(micros) if micros < 1e3 => format!("{micros} µs"),
        Some(micros) if micros < 1e6 => format!("{:.1} ms", micros / 1e3),
        Some(micros) => format!("{:.1} s", micros / 1e6),
        None => field(event, "duration_us"),
    }
}

pub(crate) async fn list(arguments: &ListArguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let members = [
        ("target", arguments.target.clone()),
        ("principal", arguments.principal.clone()),
        ("outcome", arguments.outcome.clone()),
        ("since", arguments.since.as_deref().map(|when| date(when, now))),
        ("until", arguments.until.as_deref().map(|when| date(when, now))),
    ];
    let mut wanted = json!({ "limit": arguments.limit });
    for (key, value) in members.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        wanted[key] = json!(value);
    }
    let answer = client.operate("core_audit_list", &wanted).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    let events: &[Value] = value["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    output.rows("audit events", COLUMNS, events)?;
    if value["truncated"] == true {
        output.note(&format!("{} audit events; there may be more: use `--limit N`", events.len()));
    }
    Ok(())
}

impl VerifyArguments {
    /// Whether it needs no gateway.
    pub(crate) fn is_offline(&self) -> bool {
        self.proof.is_some()
    }
}

pub(crate) async fn verify(arguments: &VerifyArguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let mut wanted = json!({});
    if let Some(key) = arguments.key {
        wanted["key"] = json!(key);
    }
    if let Some(file) = &arguments.against {
        wanted["kept"] = json!(serde_json::to_string(&kept(&text_of(file)?)?)?);
    }
    let answer = client.operate("core_audit_verify", &wanted).await?;
    let value = answer.to_value();
    let is_intact = value["intact"] == true;
    if output.is_for_programs() {
        output.answer(&answer)?;
    } else if is_intact {
        let signed = match value["signed"].as_u64() {
            None => String::new(),
            Some(0) => ", not signed yet".to_owned(),
            Some(signed) => format!(", signed up to {signed}"),
        };
        output.text(&format!("intact: {} audit events{signed}", field(&value, "events")))?;
        if arguments.key.is_none() && value["signed"].as_u64().is_some_and(|signed| signed > 0) {
            output.note("who may write to the database can also sign with a key of their own: use `--key KEY`");
        }
    }
    if is_intact {
        return Ok(());
    }
    Err(broken(&value["broken"]).into())
}

/// What is wrong with the log, in words, with the word for programs beside them.
fn broken(broken: &Value) -> Problem {
    let (seq, word) = (field(broken, "seq"), field(broken, "fault"));
    let fault = serde_json::from_value::<Fault>(broken["fault"].clone()).ok();
    let what = fault.map_or_else(|| word.clone(), |fault| format!("{fault} (`{word}`)"));
    let place = if seq == "0" { String::new() } else { format!(" at event `{seq}`") };
    let hint = match fault {
        Some(Fault::KeyNotSeen | Fault::OtherKey) => {
            "compare the key with the one that you noted: `toolcrib audit key -o json` lists those of this log"
        }
        Some(Fault::NotTheExpected) => "the log was cut or replaced after that checkpoint was kept: keep the file",
        Some(Fault::BadCheckpoint) if seq == "0" => {
            "the list of checkpoints was changed: nothing speaks for the events"
        }
        _ => "what comes before that event is intact",
    };
    Problem::new(Kind::Internal, format!("the audit log is broken{place}: {what}")).hint(hint)
}

/// Checks the proof of one event with the key alone.
pub(crate) fn verify_proof(arguments: &VerifyArguments, output: Output) -> anyhow::Result<()> {
    let (Some(file), Some(key)) = (&arguments.proof, arguments.key) else { return Ok(()) };
    let wrong =
        |error: &dyn std::fmt::Display| Problem::new(Kind::InvalidParams, format!("`{}`: {error}", file.display()));
    let proof: EventProof = serde_json::from_str(&text_of(file)?).map_err(|error| wrong(&error))?;
    let checkpoint = proof.check(key).map_err(|fault| wrong(&fault))?;
    if output.is_for_programs() {
        return Ok(output.answer(&Raw::from_value(&json!({ "proven": true, "seq": proof.seq, "event": proof.event })))?);
    }
    let text = |name: &str| proof.event.get(name).map_or("", String::as_str);
    let (at, principal, target, outcome) = (Timestamp(proof.at), text("principal"), text("target"), text("outcome"));
    let (seq, number) = (proof.seq, checkpoint.number);
    output.text(&format!("proven by checkpoint {number}: event {seq}, {at}, {principal}, {target}, {outcome}"))?;
    Ok(())
}

pub(crate) async fn prove(arguments: &ProveArguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.operate("core_audit_prove", &json!({ "seq": arguments.seq })).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    Ok(output.text(answer.as_str())?)
}

pub(crate) async fn checkpoints(
    arguments: &CheckpointsArguments,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let mut after = arguments.after;
    loop {
        let answer = client.operate("core_audit_checkpoints", &json!({ "after": after })).await?;
        let value = answer.to_value();
        let found: &[Value] = value["checkpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
        for checkpoint in found {
            output.text(&checkpoint.to_string())?;
        }
        // Each request is an event, and so perhaps a checkpoint more: what comes later is not waited for.
        match found.last().and_then(|last| last["number"].as_u64()).filter(|_| value["truncated"] == true) {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}

pub(crate) async fn key(arguments: &KeyArguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let operation = if arguments.rotate { "core_audit_key_rotate" } else { "core_audit_key" };
    let answer = client.operate(operation, &json!({})).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    Ok(output.text(&field(&answer.to_value(), "key"))?)
}

/// The newest of the checkpoints in a file. They may be among other lines, as a sink writes them; each must be signed, and
/// follow the one before where that is there.
fn kept(text: &str) -> Result<Checkpoint, Problem> {
    let wrong = |number: usize, why: &str| {
        Problem::new(Kind::InvalidParams, format!("line {number} of the kept checkpoints: {why}"))
    };
    let mut newest: Option<Checkpoint> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let Ok(mut value) = serde_json::from_str::<Value>(line) else { continue };
        let inner = value.get_mut("checkpoint").map(Value::take).filter(Value::is_object);
        let Ok(checkpoint) = serde_json::from_value::<Checkpoint>(inner.unwrap_or(value)) else { continue };
        if !checkpoint.is_signed() {
            return Err(wrong(number, "the checkpoint is not signed with its key"));
        }
        match &newest {
            // A sink may write one twice.
            Some(before) if *before == checkpoint => continue,
            Some(before) if before.number + 1 == checkpoint.number && !checkpoint.follows(before) => {
                return Err(wrong(number, "the checkpoint does not follow the one before"));
            }
            Some(before) if before.number >= checkpoint.number => {
                return Err(wrong(number, "the checkpoint comes after a later one"));
            }
            _ => newest = Some(checkpoint),
        }
    }
    newest.ok_or_else(|| Problem::new(Kind::InvalidParams, "the file has no checkpoint"))
}

fn text_of(file: &Path) -> Result<String, Problem> {
    let wrong = |error: &dyn std::fmt::Display| {
        Problem::new(Kind::InvalidParams, format!("cannot read `{}`: {error}", file.display()))
    };
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| wrong(&error))?;
    opened.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    if text.len() as u64 > FILE_BYTES {
        return Err(wrong(&format!("it has more than {FILE_BYTES} bytes")));
    }
    Ok(text)
}

/// A date, also of how long ago.
pub(super) fn date(when: &str, now: Timestamp) -> String {
    let days = when.strip_suffix('d').and_then(|days| days.parse::<u32>().ok()).map(|days| i64::from(days) * DAY);
    let ago = when.parse::<Period>().ok().map(|ago| i64::try_from(ago.duration().as_millis()).unwrap_or(i64::MAX));
    let Some(millis) = days.or(ago) else { return when.to_owned() };
    Timestamp(now.0.saturating_sub(millis)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ago_become_dates() {
        let now = Timestamp(3_600_000);
        assert_eq!(date("1h", now), "1970-01-01T00:00:00.000Z");
        assert_eq!(date("1d", Timestamp(2 * DAY)), "1970-01-02T00:00:00.000Z");
        assert_eq!(date("2026-01-01T00:00:00Z", now), "2026-01-01T00:00:00Z");
    }

    /// Signed by another program; the second follows the first.
    const KEPT: [&str; 2] = [
        concat!(
            r#"{"number":1,"first":1,"seq":5,"hash":"0101010101010101010101010101010101010101010101010101010101"#,
            r#"010101","root":"1111111111111111111111111111111111111111111111111111111111111111","at":1000,"pre"#,
            r#"vious":"0000000000000000000000000000000000000000000000000000000000000000","key":"ea4a6c63e29c520"#,
            r#"abef5507b132ec5f9954776aebebe7b92421eea691446d22c","signature":"06cfcf402960a8ee476d5b8af2c35720"#,
            r#"143629b66932b9d9d119240fd0b9d5ce037ce0436066b0ee354377982386730c9cb22454fb3e9ac06b734cf5a3b6040c"#,
            r#""}"#,
        ),
        concat!(
            r#"{"number":2,"first":6,"seq":9,"hash":"0202020202020202020202020202020202020202020202020202020202"#,
            r#"020202","root":"1212121212121212121212121212121212121212121212121212121212121212","at":2000,"pre"#,
            r#"vious":"ea40dbceec8e6d6c07ebc2c2a1c642e0dbf3cb3adf2bcb3a682310f9befd69ed","key":"ea4a6c63e29c520"#,
            r#"abef5507b132ec5f9954776aebebe7b92421eea691446d22c","signature":"f384c17bc52fbf301949ce049b9ba1d7"#,
            r#"2ff20da09b77203d24d11d385ac9471c1d45039a281b07042f6826959ee1be43e71d3a9cfaf91ef51e4962b1680e690e"#,
            r#""}"#,
        ),
    ];

    #[test]
    fn the_newest_kept_checkpoint_counts_wherever_it_stands_in_a_file() {
        let [first, second] = KEPT;
        let newest = |text: &str| kept(text).map(|checkpoint| checkpoint.number).map_err(|problem| problem.message);
        assert_eq!(newest(first), Ok(1));
        assert_eq!(newest(&format!("{first}\n{second}\n")), Ok(2));
        let sink = format!(
            "{{\"seq\":1}}\n\nnoise\n{first}\n{first}\n{{\"type\":\"x\",\"checkpoint\":{second}}}\n{{\"seq\":2}}"
        );
        assert_eq!(newest(&sink), Ok(2));
        assert_eq!(newest("{\"seq\":1}"), Err("the file has no checkpoint".to_owned()));
        let unsigned = "line 1 of the kept checkpoints: the checkpoint is not signed with its key";
        assert_eq!(newest(&first.replace("\"seq\":5", "\"seq\":6")), Err(unsigned.to_owned()));
        let turned = "line 2 of the kept checkpoints: the checkpoint comes after a later one";
        assert_eq!(newest(&format!("{second}\n{first}")), Err(turned.to_owned()));
    }

    #[test]
    fn durations_read_well() {
        for (micros, expected) in [(json!(7), "7 µs"), (json!(1_500), "1.5 ms"), (json!(2_000_000), "2.0 s")] {
            assert_eq!(duration(&json!({ "duration_us": micros })), expected);
        }
        assert_eq!(duration(&json!({})), "");
    }
}
