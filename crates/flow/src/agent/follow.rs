//! Follows runs for doors that show them as they go: one look after the other, so that a slow reader holds up no run.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::{FollowRuns, RunPosition};

use super::keep;
use super::question;
use super::shown;
use super::source::{Agents, Inner};

/// How long a look waits for more.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a run without a task is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// What a look at a run's feed gave.
enum Sight {
    /// Text after the position.
    Text(String),
    /// Entries, or the run has no task any more.
    Entries,
}

impl Inner {
    async fn follow(&self, run: &str, position: RunPosition) -> Result<Value, Problem> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        // The row at the last reading of the journal, which is read again only when that has changed.
        let mut read_at = None;
        loop {
            if let Some(feed) = self.bridge.watched(run) {
                match tokio::time::timeout_at(deadline, look(feed, position)).await {
                    Ok(Sight::Text(text)) => return Ok(answer(run, "running", position.entries, Some(text))),
                    Ok(Sight::Entries) => {}
                    Err(_) => return Ok(answer(run, "running", position.entries, None)),
                }
            }
            let record = self.record(run).await?;
            let record = record.ok_or_else(|| Problem::new(Kind::NotFound, format!("run `{run}` not found")))?;
            let is_running = record.state.status == "running";
            let is_over = tokio::time::Instant::now() >= deadline;
            let version = (record.state.changed_at, record.state.status.clone());
            if is_running || is_over || read_at.as_ref() != Some(&version) {
                // Read after its row: what the row says is in it.
                let new = keep::entries_after(&self.bridge.store, run, position.entries, u64::MAX).await?;
                if !new.is_empty() || record.state.status == "ended" || is_over {
                    let mut answer = answer(run, &record.state.status, position.entries + new.len() as u64, None);
                    let entries = (position.entries + 1..).zip(&new);
                    answer["entries"] = entries.map(|(number, entry)| shown::entry(number, entry)).collect();
                    if matches!(record.state.status.as_str(), "waiting" | "paused") {
                        let all = keep::entries(&self.bridge.store, run).await?;
                        answer["waits"] = self.bridge.shown_waits(&question::folded(run, &all)?).await?.into();
                    }
                    return Ok(answer);
                }
                read_at = Some(version);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Waits until a run has more than a position.
async fn look(mut feed: tokio::sync::watch::Receiver<super::context::Feed>, position: RunPosition) -> Sight {
    loop {
        {
            let now = feed.borrow_and_update();
            if now.entries > position.entries || now.rest.is_some() {
                return Sight::Entries;
            }
            // The journal may be ahead of the feed: then this text is of an answer that stands in it already.
            let text = now.partial.get(position.text..).filter(|_| now.entries == position.entries);
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                return Sight::Text(text.to_owned());
            }
        }
        if feed.changed().await.is_err() {
            return Sight::Entries;
        }
    }
}

fn answer(run: &str, status: &str, next: u64, partial: Option<String>) -> Value {
    let mut answer = json!({"run": run, "status": status, "entries": [], "next": next});
    if let Some(partial) = partial {
        answer["partial"] = partial.into();
    }
    answer
}

impl FollowRuns for Agents {
    fn follow(&self, run: &str, position: RunPosition) -> BoxFuture<'static, Result<Value, Problem>> {
        let (inner, run) = (self.inner(), run.to_owned());
        async move { inner.follow(&run, position).await }.boxed()
    }
}
