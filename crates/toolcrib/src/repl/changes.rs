//! What changes in the lists of a profile: `+` for what is new, `-` for what is gone, and what happens to services and
//! workflows: `*`, or `!` for a warning. The gateway's live events say when to look; where they cannot be had, the
//! lists are looked at every few seconds.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_base::backoff::Backoff;
use toolcrib_protocol::sse::Event;
use toolcrib_transport::http::events::EventStream;

use crate::client::{Client, ClientFlags, Rest};
use crate::home::Environment;
use crate::kind::{Row, listing, rows};
use crate::output::table::field;
use crate::output::{self, Output};
use crate::text;

/// How often the lists are looked at where no one says that something changed.
const POLL: Duration = Duration::from_secs(3);
/// How often they are looked at besides.
const BESIDES: Duration = Duration::from_secs(15);
/// What happens at once is looked at once.
const TOGETHER: Duration = Duration::from_millis(200);
/// The waits between attempts to find a gateway that has gone.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How many changes of one kind are printed one by one.
const TOLD: usize = 20;

/// The kinds whose lists are watched.
const WATCHED: [&Row; 3] = [&rows::TOOLS, &rows::RESOURCES, &rows::PROMPTS];

/// The names in each list.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct ListedNames([BTreeSet<String>; 3]);

/// Tells what changes, again and again, until it is dropped.
pub(super) async fn print_changes(
    flags: &ClientFlags,
    environment: &Environment,
    print: &(dyn Fn(String) + Send + Sync),
) {
    let mut backoff = Backoff::new(AGAIN.0, AGAIN.1);
    let mut seen = None;
    let mut is_away = false;
    loop {
        if let Ok(client) = Client::open(flags, environment).await {
            if is_away {
                print("gateway reconnected\n".to_owned());
                is_away = false;
            }
            backoff.reset();
            let _ = follow(flags, &client, environment, &mut seen, &mut |lines| print(lines)).await;
            client.close().await;
        }
        if !is_away {
            print("gateway disconnected\n".to_owned());
            is_away = true;
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

/// The lists, and then what changes in them.
pub(crate) async fn watch(
    flags: &ClientFlags,
    client: &Client,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    for row in WATCHED {
        let rows = listing::entries(row, &listing::fetch(row, client, &json!({})).await?.to_value());
        output::print(&format!("{} ({}):\n", row.plural_heading(), rows.len()))?;
        for entry in listing::sorted(row, rows) {
            let about = field(&entry, "description");
            let about = about.lines().next().map(|line| format!(" - {line}")).unwrap_or_default();
            output::print(&text::line(&format!("  {}{about}", field(&entry, row.names[0]))))?;
            output::print("\n")?;
        }
    }
    output.note("waiting for changes; press Ctrl-C to stop");
    let mut seen = None;
    let mut failed = None;
    follow(flags, client, environment, &mut seen, &mut |lines| failed = output::print(&lines).err()).await?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Prints what differs from what was seen, until the gateway is away.
async fn follow(
    flags: &ClientFlags,
    client: &Client,
    environment: &Environment,
    seen: &mut Option<ListedNames>,
    print: &mut (dyn FnMut(String) + Send),
) -> Result<(), Problem> {
    let mut events = match Rest::open(flags, environment) {
        Ok(rest) => rest.events().await.ok(),
        Err(_) => None,
    };
    loop {
        let now = look(client).await?;
        if let Some(before) = seen.as_ref() {
            let lines = differences(before, &now);
            if !lines.is_empty() {
                print(lines);
            }
        }
        *seen = Some(now);
        match &mut events {
            None => tokio::time::sleep(POLL).await,
            Some(stream) => match next_nudge(stream).await {
                Some(happened) if happened.is_empty() => {}
                Some(happened) => print(change_lines(&happened)),
                None => events = None,
            },
        }
    }
}

/// Waits until something happened, and gives the lines to print; nothing when the stream has ended.
async fn next_nudge(stream: &mut EventStream) -> Option<Vec<String>> {
    let mut happened = Vec::new();
    // A stream is read in order, so a wait that is given up loses nothing.
    match tokio::time::timeout(BESIDES, stream.next()).await {
        Err(_) => return Some(happened),
        Ok(Ok(Some(event))) => happened.extend(changes(&event)),
        Ok(Ok(None) | Err(_)) => return None,
    }
    let together = async {
        while let Ok(Ok(Some(event))) = tokio::time::timeout(TOGETHER, stream.next()).await {
            happened.extend(changes(&event));
        }
    };
    // A gateway that never rests is looked at nonetheless.
    let _ = tokio::time::timeout(BESIDES, together).await;
    Some(happened)
}

/// What an event of a service or a workflow tells people. Servers are seen by their tools, and single steps by anyone
/// who looks at the run.
fn changes(event: &Event) -> Option<String> {
    if event.event.as_deref() != Some("event") {
        return None;
    }
    let value: Value = serde_json::from_slice(&event.data).ok()?;
    let reason = field(&value, "reason");
    let is_small =
        ["Step", "ToolExecution", "Tracked", "ToolRegistered", "Refreshed"].iter().any(|part| reason.contains(part));
    if is_small || field(&value, "resource_type") == "MCPServer" {
        return None;
    }
    let sign = if value["type"] == "Warning" { '!' } else { '*' };
    Some(text::line(&format!("{sign} {}", field(&value, "message"))).into_owned())
}

/// Lines to print, no more than someone reads.
fn change_lines(happened: &[String]) -> String {
    let mut lines: String = happened.iter().take(TOLD).map(|line| format!("{line}\n")).collect();
    if happened.len() > TOLD {
        lines.push_str(&format!("* {} more; see `toolcrib events`\n", happened.len() - TOLD));
    }
    lines
}

async fn look(client: &Client) -> Result<ListedNames, Problem> {
    let mut seen = ListedNames::default();
    for (names, row) in seen.0.iter_mut().zip(WATCHED) {
        let entries = listing::entries(row, &listing::fetch(row, client, &json!({})).await?.to_value());
        *names = entries.iter().map(|entry| field(entry, row.names[0])).collect();
    }
    Ok(seen)
}

/// A line for each name that came or went.
fn differences(before: &ListedNames, now: &ListedNames) -> String {
    let mut lines = String::new();
    for ((before, now), row) in before.0.iter().zip(&now.0).zip(WATCHED) {
        for (sign, names) in [('+', now.difference(before)), ('-', before.difference(now))] {
            let names: Vec<&String> = names.collect();
            for name in names.iter().take(TOLD) {
                lines.push_str(&format!("{sign} {} {}\n", row.one, text::line(name)));
            }
            if names.len() > TOLD {
                lines.push_str(&format!("{sign} {} more {}\n", names.len() - TOLD, row.many));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_workflows_are_printed_and_their_steps_are_not() {
        let event = |of: &str, reason: &str, kind: &str| {
            let data = json!({ "resource_type": of, "reason": reason, "type": kind, "message": "it\u{1b} is" });
            changes(&Event { event: Some("event".into()), data: data.to_string().into(), ..Event::default() })
        };
        let said = event("ServiceInstance", "ServiceInstanceStarted", "Normal");
        assert_eq!(said.as_deref(), Some("* it\\u{1b} is"));
        let said = event("Workflow", "WorkflowExecutionFailed", "Warning");
        assert_eq!(said.as_deref(), Some("! it\\u{1b} is"));
        assert_eq!(event("Workflow", "WorkflowStepFailed", "Warning"), None);
        assert_eq!(event("ServiceInstance", "ServiceInstanceToolExecutionStarted", "Normal"), None);
        assert_eq!(event("MCPServer", "MCPServerStarted", "Normal"), None);
        assert_eq!(changes(&Event { event: Some("state".into()), data: "{}".into(), ..Event::default() }), None);
        let many: Vec<String> = (0..100).map(|number| format!("* {number}")).collect();
        assert!(change_lines(&many).ends_with("* 19\n* 80 more; see `toolcrib events`\n"));
    }

    #[test]
    fn what_came_and_went_is_reported() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        let before = ListedNames([set(&["a", "b"]), set(&["x:1"]), set(&[])]);
        let now = ListedNames([set(&["b", "c\u{1b}"]), set(&["x:1"]), set(&["p"])]);
        assert_eq!(differences(&before, &now), "+ tool c\\u{1b}\n- tool a\n+ prompt p\n");
        assert_eq!(differences(&now, &now), "");
        let many: Vec<String> = (0..100).map(|number| format!("t{number:03}")).collect();
        let all = ListedNames([many.into_iter().collect(), set(&[]), set(&[])]);
        let told = differences(&ListedNames::default(), &all);
        assert_eq!(told.lines().count(), TOLD + 1);
        assert!(told.ends_with("+ 80 more tools\n"));
    }
}
