//! `toolcrib events`: what happened to servers, services, workflows and runs, and with `--follow` what happens.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_protocol::Raw;

use crate::client::{Client, ClientFlags, Rest};
use crate::home::Environment;
use crate::kind::{self, Row, listing, rows::EVENTS};
use crate::output::table::field;
use crate::output::{self, Format, Output};
use crate::text;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only events of this kind: server, service, serviceclass, workflow
    #[arg(long, value_name = "KIND")]
    resource_type: Option<String>,
    /// Only events of the object with this name
    #[arg(long, value_name = "NAME")]
    resource_name: Option<String>,
    /// Only events of this namespace; the only one is `default`
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only events of this type
    #[arg(long = "type", value_name = "TYPE", value_enum, ignore_case = true)]
    of_type: Option<EventType>,
    /// Only events since this age (`1h`), RFC 3339 time or date
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only events until then, in the same forms
    #[arg(long, value_name = "WHEN", conflicts_with = "follow")]
    until: Option<String>,
    /// Show only the newest N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: Option<u16>,
    /// Print new events until interrupted; with `--since` or `--limit` also past ones
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EventType {
    Normal,
    Warning,
}

/// How often the gateway is asked where it cannot be listened to.
const POLL: Duration = Duration::from_secs(2);
/// How many events are remembered, so that none is printed twice.
const REMEMBERED: usize = 1_000;

/// What events call a kind.
pub(super) fn object_of(row: &Row) -> Option<&'static str> {
    Some(match row.one {
        "server" => "MCPServer",
        "service" => "ServiceInstance",
        "serviceclass" => "ServiceClass",
        "workflow" => "Workflow",
        _ => return None,
    })
}

// === impl Arguments ===

impl Arguments {
    /// The kind in the gateway's words; it says itself which it knows.
    fn object(&self) -> Option<String> {
        let word = self.resource_type.as_ref()?;
        Some(kind::named(word).and_then(object_of).map_or_else(|| word.clone(), str::to_owned))
    }

    fn type_word(&self) -> Option<&'static str> {
        self.of_type.map(|of_type| match of_type {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        })
    }

    fn query(&self) -> Value {
        let mut asked = json!({});
        let object = self.object();
        for (key, value) in [
            ("resourceType", object.as_deref()),
            ("resourceName", self.resource_name.as_deref()),
            ("namespace", self.namespace.as_deref()),
            ("eventType", self.type_word()),
            ("since", self.since.as_deref()),
            ("until", self.until.as_deref()),
        ] {
            if let Some(value) = value {
                asked[key] = value.into();
            }
        }
        if let Some(limit) = self.limit {
            asked["limit"] = limit.into();
        }
        asked
    }

    /// Whether an event of the stream is one that is asked for.
    fn fits(&self, event: &Value) -> bool {
        let is = |key: &str, wanted: Option<&str>| {
            wanted.is_none_or(|wanted| field(event, key).eq_ignore_ascii_case(wanted))
        };
        is("resource_type", self.object().as_deref())
            && is("resource_name", self.resource_name.as_deref())
            && is("namespace", self.namespace.as_deref())
            && is("type", self.type_word())
    }
}

pub(crate) async fn run(
    arguments: &Arguments,
    client: &Client,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    let asked = arguments.query();
    if arguments.follow {
        return follow(arguments, asked, client, environment, output).await;
    }
    let answer = output.busy("loading events", listing::fetch(&EVENTS, client, &asked)).await?;
    let rows = listing::entries(&EVENTS, &answer.to_value());
    match output.format {
        // A line for each, so that it reads like what is followed.
        Format::Json => rows.iter().try_for_each(|event| print_event(event, output)),
        Format::Yaml => Ok(output.answer(&answer)?),
        Format::Table | Format::Wide | Format::Name => Ok(output.rows("events", EVENTS.columns, &rows)?),
    }
}

async fn follow(
    arguments: &Arguments,
    mut asked: Value,
    client: &Client,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    let rest = Rest::open(&arguments.client, environment)?;
    // Before the first look, so that nothing in between is missed.
    let mut stream = match rest.events().await {
        Ok(stream) => Some(stream),
        Err(problem) => {
            output
                .note(&format!("polling every {} s, because live events are not available: {problem}", POLL.as_secs()));
            None
        }
    };
    let mut told = PrintedEvents(VecDeque::new());
    let mut events = listing::entries(&EVENTS, &listing::fetch(&EVENTS, client, &asked).await?.to_value());
    events.reverse();
    let shows_past = arguments.since.is_some() || arguments.limit.is_some();
    for event in &events {
        if told.is_new(event) && shows_past {
            print_event(event, output)?;
        }
    }
    loop {
        let Some(open) = &mut stream else {
            tokio::time::sleep(POLL).await;
            asked["limit"] = REMEMBERED.into();
            let mut events = listing::entries(&EVENTS, &listing::fetch(&EVENTS, client, &asked).await?.to_value());
            events.reverse();
            for event in events.iter().filter(|event| told.is_new(event)) {
                print_event(event, output)?;
            }
            continue;
        };
        match open.next().await {
            Ok(Some(event)) => match event.event.as_deref() {
                Some("event") => {
                    let value: Value = serde_json::from_slice(&event.data).unwrap_or_default();
                    if arguments.fits(&value) && told.is_new(&value) {
                        print_event(&value, output)?;
                    }
                }
                Some("lost") => output.note("some events were missed: they arrived faster than they were read"),
                _ => {}
            },
            Ok(None) | Err(_) => {
                let problem = Problem::new(toolcrib_base::Kind::Unavailable, "the gateway closed the event stream");
                return Err(problem.hint("check whether it runs with `toolcrib status`").into());
            }
        }
    }
}

/// What was printed last.
struct PrintedEvents(VecDeque<String>);

impl PrintedEvents {
    fn is_new(&mut self, event: &Value) -> bool {
        let text = event.to_string();
        if self.0.contains(&text) {
            return false;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(text);
        true
    }
}

/// One event as it comes.
fn print_event(event: &Value, output: Output) -> anyhow::Result<()> {
    match output.format {
        Format::Json => output::print(&(output::json::visible(&event.to_string()) + "\n"))?,
        Format::Yaml => {
            output::print("---\n")?;
            output.answer(&Raw::from_value(event))?;
        }
        Format::Table | Format::Wide | Format::Name => {
            let named = [field(event, "namespace"), field(event, "resource_name")];
            let line = format!(
                "[{}] {} {} {}: {} - {}",
                field(event, "timestamp"),
                field(event, "type"),
                field(event, "resource_type"),
                named.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("/"),
                field(event, "reason"),
                field(event, "message"),
            );
            output::print(&format!("{}\n", text::line(&line)))?;
        }
    }
    Ok(())
}
