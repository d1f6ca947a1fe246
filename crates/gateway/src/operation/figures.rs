//! Figures of calls over time: how many, how they ended, how long they took, what lists of tools saved.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_base::task::Stop;
use toolcrib_base::{Kind, PrincipalId, Problem, Timestamp};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_store::{FigureKind, FigureQuery, Figures, ListSavings};
use toolcrib_view::Operation;
use toolcrib_view::arguments::{flag, text};
use toolcrib_view::view::View;

use super::audit_export::moment;
use super::{ROW, Row, Run, blocking, row};
use crate::economy;
use crate::gateway::Gateway;

pub(super) const ROWS: &[Row] = &[row(
    Run::Global(|gateway, arguments| Box::pin(shown_figures(gateway, arguments))),
    Operation {
        tool: "core_figures",
        path: "/figures",
        tag: "audit",
        summary: "Show figures of calls over time",
        description: "Show how many calls there were, how they ended and how long they took, over time and by \
                      server, tool, profile or client; and how many tokens lists of tools had less than all \
                      tools. Figures are minutes for a week and hours for a year, made of the audit log.",
        problems: &[Kind::InvalidParams],
        input: concat!(
            r#"{"type":"object","properties":{"range":{"enum":["1h","6h","24h","7d","30d","1y"],"#,
            r#""default":"24h","description":"How far back"},"by":{"enum":["server","tool","profile","#,
            r#""client"],"default":"server","description":"What the rows are"},"name":{"type":"string","#,
            r#""description":"Only calls of this one of `by`"},"until":{"type":"string","#,
            r#""description":"The end of the time, as RFC 3339; now without it"},"#,
            r#""fresh":{"type":"boolean","default":true,"#,
            r#""description":"First count what happened within the last minute"}},"#,
            r#""additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"since":{"type":"string"},"until":{"type":"string"},"#,
            r#""step_s":{"type":"integer","description":"How long the time of a point is"},"#,
            r#""by":{"type":"string"},"totals":{"type":"object"},"points":{"type":"array","#,
            r#""items":{"type":"object","properties":{"since":{"type":"string"},"#,
            r#""until":{"type":"string"},"calls":{"type":"integer"},"errors":{"type":"integer"},"#,
            r#""denied":{"type":"integer"}},"required":["since","until","calls","errors","denied"]}},"#,
            r#""rows":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"#,
            r#""calls":{"type":"integer"},"errors":{"type":"integer"},"denied":{"type":"integer"}},"#,
            r#""required":["name","calls","errors","denied"]}},"truncated":{"type":"boolean"}},"#,
            r#""required":["since","until","step_s","by","totals","points","rows","truncated"]}"#,
        ),
        ..ROW
    },
)];

/// How many rows are shown: those with the most calls.
const ROWS_MAX: usize = 100;
/// The ranges: name, how long, and the time of a point, in seconds. None has more than 96 points.
const RANGES: [(&str, i64, i64); 6] = [
    ("1h", 3_600, 60),
    ("6h", 6 * 3_600, 300),
    ("24h", 24 * 3_600, 3_600),
    ("7d", 7 * 86_400, 2 * 3_600),
    ("30d", 30 * 86_400, 12 * 3_600),
    ("1y", 365 * 86_400, 5 * 86_400),
];
const USUAL: (&str, i64, i64) = RANGES[2];

async fn shown_figures(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let range = text(arguments, "range")?;
    let named = |name: String| RANGES.into_iter().find(|known| known.0 == name);
    let (_, long, step) = range.and_then(named).unwrap_or(USUAL);
    let by = text(arguments, "by")?.and_then(|name| FigureKind::named(&name)).unwrap_or(FigureKind::Server);
    let name = text(arguments, "name")?;
    let end = moment(arguments, "until")?.unwrap_or_else(|| gateway.path.clock.now());
    let is_fresh = flag(arguments, "fresh")?.unwrap_or(true);
    if is_fresh {
        // What happened a moment ago counts too.
        let _ = gateway.path.store.audit().flush().await;
    }
    let figures = gateway.path.store.figures().clone();
    let (step, until) = (step * 1_000, ceiling(end.0, step * 1_000));
    let since = Timestamp(until - long * 1_000);
    let query =
        FigureQuery { kind: if name.is_some() { by } else { FigureKind::All }, name, since, until: Timestamp(until) };
    let rows = FigureQuery { kind: by, ..query.clone() };
    let (series, names) = blocking(move || {
        if is_fresh {
            figures.catch_up()?;
        }
        Ok((figures.series(&query)?.1, figures.by_name(&rows)?))
    })
    .await?;
    let mut totals = Figures::default();
    let mut points: BTreeMap<i64, Figures> = BTreeMap::new();
    for (at, figures) in &series {
        totals.add(figures);
        points.entry(at.0 - (at.0 - since.0).rem_euclid(step)).or_default().add(figures);
    }
    let points = (0..(until - since.0) / step).map(|index| {
        let start = since.0 + index * step;
        let mut point = shown(&points.remove(&start).unwrap_or_default());
        point["since"] = Timestamp(start).to_string().into();
        point["until"] = Timestamp(start + step).to_string().into();
        point
    });
    let points: Vec<Value> = points.collect();
    let rows = names.iter().take(ROWS_MAX).map(|(name, figures)| {
        let mut row = shown(figures);
        row["name"] = name.as_str().into();
        row
    });
    Ok(json!({
        "since": since.to_string(), "until": Timestamp(until).to_string(), "step_s": step / 1_000, "by": by.as_str(),
        "totals": shown(&totals), "points": points, "rows": rows.collect::<Vec<_>>(),
        "truncated": names.len() > ROWS_MAX,
    }))
}

/// The end of the step that a moment is in.
fn ceiling(at: i64, step: i64) -> i64 {
    at.saturating_sub(1).div_euclid(step).saturating_add(1).saturating_mul(step)
}

fn shown(figures: &Figures) -> Value {
    let mut value = json!({ "calls": figures.calls, "errors": figures.errors, "denied": figures.denied });
    for (key, share) in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)] {
        if let Some(micros) = figures.durations.quantile(share) {
            value[key] = micros.into();
        }
    }
    if figures.lists > 0 {
        value["lists"] = figures.lists.into();
        value["tokens_saved"] = figures.saved.into();
    }
    value
}

/// Counts what lists of a profile saved a client, by each kind.
fn count_saved(savings: &mut ListSavings, view: &View, client: Option<&PrincipalId>, lists: u64) {
    let costs = economy::costs(view);
    let each = costs.everything.saturating_sub(costs.listed) as u64;
    let client = client.map_or(ListSavings::OTHER, PrincipalId::as_str);
    for (kind, name) in
        [(FigureKind::All, ""), (FigureKind::Profile, view.profile.name.as_str()), (FigureKind::Client, client)]
    {
        savings.add(kind, name, lists, each);
    }
    for (kind, shares) in [(FigureKind::Tool, &costs.saved_by_tool), (FigureKind::Server, &costs.saved_by_server)] {
        shares.iter().for_each(|(name, share)| savings.add(kind, name, lists, *share as u64));
    }
}

/// How many clients of profiles are counted under their own names between two writes.
const LISTED_MAX: usize = 1_024;
/// How often figures are brought up to date while no one asks for them.
const EVERY: Duration = Duration::from_secs(60);

impl Gateway {
    /// Notes that a client was given the tools of a profile.
    pub(crate) fn count_list(&self, caller: &Caller) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (caller.profile.clone(), Some(caller.principal.id.clone()));
        if lists.len() >= LISTED_MAX && !lists.contains_key(&key) {
            key.1 = None;
        }
        *lists.entry(key).or_default() += 1;
    }

    /// Keeps the figures of calls up to date until the gateway stops: behind the audit log, so that no call waits.
    pub(crate) async fn keep_counting(self: Arc<Self>, mut stop: Stop) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                _ = tick.tick() => false,
                () = stop.stopped() => true,
            };
            // A log that is far ahead is not waited for, but gone on with.
            while !self.keep_figures().await && !is_last && !stop.is_stopped() {}
            if is_last {
                return;
            }
        }
    }

    /// Brings the figures up to date: what the audit log has got, and the lists that clients were given. Gives
    /// whether there is nothing more to do for now; what fails is tried again the next time.
    async fn keep_figures(&self) -> bool {
        let lists = std::mem::take(&mut *self.lists.lock().unwrap_or_else(PoisonError::into_inner));
        let (views, figures) = (self.views(), self.path.store.figures().clone());
        let kept = tokio::task::spawn_blocking(move || {
            let mut savings = ListSavings::default();
            for ((profile, client), count) in &lists {
                if let Some(view) = views.get(profile) {
                    count_saved(&mut savings, view, client.as_ref(), *count);
                }
            }
            if !lists.is_empty() {
                figures.add_lists(&savings)?;
            }
            figures.catch_up()
        });
        match kept.await {
            Ok(Ok(is_done)) => return is_done,
            Ok(Err(error)) => tracing::warn!(%error, "failed to keep figures of calls"),
            Err(error) => tracing::error!(%error, "keeping figures of calls was interrupted"),
        }
        true
    }
}
