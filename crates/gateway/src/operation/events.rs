//! What happened to servers, services, workflows and runs: list, and follow in a session.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_catalog::Period;
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_store::EventFilter;
use toolcrib_store::events::EVENTS_MAX;
use toolcrib_view::{ObjectKind, Operation, Permission};

use super::{ROW, Row, Run, blocking, row};
use crate::gateway::Gateway;
use crate::object_events::{self, FollowFilter, NAMESPACE};
use toolcrib_view::arguments::{flag, number, text};

pub(super) const ROWS: &[Row] = &[row(
    Run::AsCaller(|gateway, caller, arguments| Box::pin(list(gateway, caller, arguments))),
    Operation {
        tool: "core_events",
        path: "/events/history",
        tag: "events",
        summary: "List what happened",
        description: "List what happened to servers, services and workflows, newest first. With `follow` a session is also told what happens from now on, by notifications/muster/event. Who does not administer is told what happened to the servers, services and workflows of the profile, without what went wrong, and nothing of runs.",
        permission: Permission::Open,
        problems: &[Kind::Busy],
        input: INPUT,
        output: OUTPUT,
        ..ROW
    },
)];

const INPUT: &str = r#"{"type":"object","properties":{"resourceType":{"type":"string","description":"MCPServer, ServiceClass, ServiceInstance, Workflow or Approval"},"resourceName":{"type":"string"},"namespace":{"type":"string","description":"There is one: default"},"eventType":{"type":"string","description":"Normal or Warning"},"since":{"type":"string","description":"How long ago (30s, 5m, 1h, 2d), a time of RFC 3339, or a date"},"until":{"type":"string","description":"The same; before then"},"limit":{"type":"number","minimum":1,"maximum":1000,"multipleOf":1,"default":50},"follow":{"type":"boolean","default":false,"description":"true: be told of further events in this session; false: no more"}},"additionalProperties":false}"#;
const OUTPUT: &str = r#"{"type":"array","items":{"type":"object","properties":{"timestamp":{"type":"string","description":"UTC, to the second"},"at":{"type":"string","description":"The same as RFC 3339 with milliseconds"},"resource_type":{"type":"string"},"resource_name":{"type":"string"},"namespace":{"const":"default"},"reason":{"type":"string"},"message":{"type":"string"},"type":{"enum":["Normal","Warning"]}},"required":["timestamp","at","resource_type","resource_name","namespace","reason","message","type"]}}"#;

/// How many events are listed when no one says.
const LIMIT: u64 = 50;

async fn list(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let wanted = follow_filter(arguments)?;
    let now = gateway.path.clock.now();
    let limit = number(arguments, "limit")?.unwrap_or(LIMIT);
    let limit = usize::try_from(limit).unwrap_or(EVENTS_MAX);
    let scope = gateway.visibility(caller);
    let filter = EventFilter {
        kind: wanted.kind.map(|kind| kind.as_str().to_owned()),
        name: wanted.name.clone(),
        warning: wanted.warning,
        since: moment(arguments, "since", now)?,
        until: moment(arguments, "until", now)?,
        // What is hidden is taken out of what was found.
        limit: if scope.is_everything() { limit } else { EVENTS_MAX },
    };
    let is_here = text(arguments, "namespace")?.is_none_or(|namespace| namespace.is_empty() || namespace == NAMESPACE);
    match (flag(arguments, "follow")?, &caller.session) {
        (Some(true), Some(session)) => gateway.followers.follow(session, wanted)?,
        (Some(true), None) => {
            return Err(Problem::new(Kind::InvalidParams, "`follow` needs a session, and this caller has none")
                .hint("Follow `GET /api/v1/events?kinds=event`, or ask again with `since`."));
        }
        (Some(false), Some(session)) => gateway.followers.leave(session),
        (Some(false), None) | (None, _) => {}
    }
    if !is_here {
        return Ok(json!([]));
    }
    let events = gateway.path.store.events().clone();
    let found = blocking(move || Ok(events.list(&filter)?)).await?;
    Ok(found
        .iter()
        .filter(|event| scope.has_event(event))
        .take(limit)
        .map(|event| object_events::shown_to(&scope, event))
        .collect())
}

fn follow_filter(arguments: &Raw) -> Result<FollowFilter, Problem> {
    let wrong = |key: &str, got: &str, known: &str| {
        let got: String = got.chars().take(64).collect();
        Problem::new(Kind::InvalidParams, format!("`{key}` is `{got}`; expected one of {known}"))
    };
    // muster's command line sends empty texts for what is not given.
    let given = |key| Ok::<_, Problem>(text(arguments, key)?.filter(|text| !text.is_empty()));
    let kind = given("resourceType")?.map(|text| {
        ObjectKind::parse(&text).ok_or_else(|| {
            let known = ObjectKind::ALL.map(ObjectKind::as_str).join(", ");
            wrong("resourceType", &text, &known)
        })
    });
    let warning = given("eventType")?.map(|text| match () {
        () if text.eq_ignore_ascii_case("warning") => Ok(true),
        () if text.eq_ignore_ascii_case("normal") => Ok(false),
        () => Err(wrong("eventType", &text, "Normal, Warning")),
    });
    Ok(FollowFilter { kind: kind.transpose()?, name: given("resourceName")?, warning: warning.transpose()? })
}

/// A moment: how long before now, or a date with or without a time.
fn moment(arguments: &Raw, key: &str, now: Timestamp) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = text(arguments, key)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    read_moment(&text, now).map(Some).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        Problem::new(Kind::InvalidParams, format!("`{key}` is `{shown}`, which is not a time"))
            .hint("Write how long ago (`30s`, `5m`, `1h`, `2d`), a time such as 2026-11-20T12:00:00Z, or a date.")
    })
}

fn read_moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    let ago = |millis: u128| Some(Timestamp(now.0.saturating_sub(i64::try_from(millis).ok()?)));
    if let Ok(period) = text.parse::<Period>() {
        return ago(period.duration().as_millis());
    }
    if let Some(days) = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok()) {
        return ago(u128::from(days) * 86_400_000);
    }
    // A bare number could be seconds, minutes or a moment: better asked again than guessed.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // `2026-11-20 12:00:00`, as the events themselves are shown, is in UTC.
    Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}Z")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_durations_dates_and_times() {
        let now = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
        for (text, expect) in [
            ("90s", Some("2026-11-20T11:58:30.000Z")),
            ("1h", Some("2026-11-20T11:00:00.000Z")),
            ("2d", Some("2026-11-18T12:00:00.000Z")),
            ("2026-11-19", Some("2026-11-19T00:00:00.000Z")),
            ("2026-11-19T10:00:00+01:00", Some("2026-11-19T09:00:00.000Z")),
            ("2026-11-19 10:00:00", Some("2026-11-19T10:00:00.000Z")),
            ("1700000000", None),
            ("yesterday", None),
            ("-1h", None),
            ("99999999999999d", None),
            ("2026-13-01", None),
        ] {
            assert_eq!(read_moment(text, now).map(|at| at.to_string()).as_deref(), expect, "{text}");
        }
    }
}
