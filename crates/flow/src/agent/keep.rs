//! Journals in the store: entries as lines, and the row of each run in step with them.

use async_trait::async_trait;
use toolcrib_agent::driver::{AppendError, Journal};
use toolcrib_agent::{Cost, End, Entry, Event, Purpose, Start, WaitFor, journal};
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_store::{AgentRunEntries, AgentRunRecord, AgentRunState, AgentRuns, StoreError};

use super::bridge::Bridge;
use super::shown::{end_text, wait_key};

/// How much of a task stands in the row of a run, in characters.
const TASK: usize = 500;
/// How much of an output.
const OUTPUT: usize = 1024 * 1024;

/// What the store has of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct JournalState {
    /// How many entries.
    pub(super) entries: u64,
    /// Its row.
    pub(super) state: AgentRunState,
    /// Moments that it waits for.
    moments: Vec<Timestamp>,
    /// What was spent.
    spent: Cost,
    /// The request that is under way: what it reserves, and whether it is for a turn.
    asked: Option<(Cost, bool)>,
    /// Nothing else happened since a message was judged.
    pub(super) only_judged: bool,
}

impl JournalState {
    /// Takes a whole journal in.
    pub(super) fn take_all(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.take(entry);
        }
    }

    /// Moments that the run waits for.
    pub(super) fn moments(&self) -> Vec<Timestamp> {
        self.moments.clone()
    }

    fn take(&mut self, entry: &Entry) {
        self.entries += 1;
        self.only_judged = matches!(entry.event, Event::Judged { .. });
        self.take_spending(&entry.event);
        let state = &mut self.state;
        if !matches!(entry.event, Event::Waiting(_) | Event::Ended(_)) {
            let rests = matches!(state.status.as_str(), "waiting" | "paused" | "ended");
            let wakes = match entry.event {
                Event::Continued | Event::Resumed | Event::Started(_) => true,
                // A run that waits goes on waiting.
                Event::Raised(_) | Event::Said { .. } | Event::Quarantined { .. } => state.status == "ended",
                _ => false,
            };
            if !rests || wakes {
                "running".clone_into(&mut state.status);
            }
        }
        match &entry.event {
            Event::Started(start) => {
                state.model = start.models.first().map(|model| model.name.clone()).unwrap_or_default();
            }
            Event::Forked { .. } => (state.rounds, state.calls) = (0, 0),
            Event::Intent { attempt: 1, .. } => state.calls += 1,
            Event::Waiting(waits) => {
                let is_paused = waits.contains(&WaitFor::Resume);
                if is_paused { "paused" } else { "waiting" }.clone_into(&mut state.status);
                state.waits = waits.iter().map(wait_key).collect();
                self.moments = waits.iter().filter_map(moment).collect();
                state.next_due = self.moments.iter().min().copied();
            }
            Event::Continued => {
                state.waits.clear();
                self.moments.clear();
                state.next_due = None;
            }
            Event::Raised(_) | Event::Said { .. } | Event::Quarantined { .. } => {
                (state.end, state.output, state.ended_at) = (None, None, None);
            }
            Event::Ended(end) => {
                "ended".clone_into(&mut state.status);
                state.end = Some(end.name().to_owned());
                state.output = end_text(end).map(|text| text.chars().take(OUTPUT).collect());
                state.ended_at = Some(entry.at);
                state.waits.clear();
                self.moments.clear();
                state.next_due = None;
            }
            _ => {}
        }
        state.changed_at = entry.at;
        let reserved = self.asked.map_or(Cost::default(), |(reserved, _)| reserved);
        let all = self.spent.plus(reserved);
        (self.state.tokens, self.state.money) = (all.tokens, all.money);
    }

    /// What is reserved counts as spent until it is known.
    fn take_spending(&mut self, event: &Event) {
        match event {
            Event::Started(start) => self.spent = start.judged,
            Event::Judged { reserved, spent } => self.spent = self.spent.judged(*reserved, *spent),
            Event::Forked { .. } => (self.spent, self.asked) = (Cost::default(), None),
            Event::Asked(request) => self.asked = Some((request.reserved, request.purpose == Purpose::Turn)),
            Event::Answered { answer, .. } => {
                let is_turn = self.asked.take().is_none_or(|(_, is_turn)| is_turn);
                self.state.rounds += u32::from(is_turn);
                self.spent = self.spent.plus(answer.spent);
            }
            Event::AskFailed { failure, .. } => {
                let reserved = self.asked.take().map_or(Cost::default(), |(reserved, _)| reserved);
                self.spent = self.spent.plus(failure.spent.unwrap_or(reserved));
            }
            Event::Resumed => {
                let lost = self.asked.take().map_or(Cost::default(), |(reserved, _)| reserved);
                self.spent = self.spent.plus(lost);
            }
            Event::Result { result, .. } => self.spent = self.spent.plus(result.spent),
            _ => {}
        }
    }
}

fn moment(wait: &WaitFor) -> Option<Timestamp> {
    match wait {
        WaitFor::Time(at) => Some(*at),
        _ => None,
    }
}

/// An entry as the store has it.
pub(super) fn line(entry: &Entry) -> String {
    journal::text(entry)
}

/// What a run is made of, as its first line says.
pub(super) fn start(line: &str) -> Option<Start> {
    let entry = journal::entries(&[line.to_owned()]).ok()?.into_iter().next()?;
    match entry.event {
        Event::Started(start) => Some(*start),
        _ => None,
    }
}

/// The principal that a run acts as, where its first line names one.
pub(super) fn runs_as(line: &str) -> Option<String> {
    start(line)?.runs_as
}

/// Whether a run ended well.
pub(super) fn is_done(record: &AgentRunRecord) -> bool {
    record.state.end.as_deref() == Some(End::Done(String::new()).name())
}

/// A run's row and its entries, if there is one.
///
/// # Errors
/// Its journal cannot be read.
pub(super) async fn read(store: &AgentRuns, run: &str) -> Result<Option<(AgentRunRecord, Vec<Entry>)>, Problem> {
    let (store, id) = (store.clone(), run.to_owned());
    let read = move || -> Result<_, String> {
        let Some(record) = store.get(&id).map_err(|error| error.to_string())? else { return Ok(None) };
        let lines = store.read(&id).map_err(|error| error.to_string())?.unwrap_or_default();
        let entries = journal::entries(&lines).map_err(|error| error.to_string())?;
        Ok(Some((record, entries)))
    };
    let done = tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(error.to_string()));
    done.map_err(|error| Problem::new(Kind::Internal, format!("the journal of run `{run}` cannot be read: {error}")))
}

/// The entries of a run.
///
/// # Errors
/// There is no such run, or its journal cannot be read.
pub(super) async fn entries(store: &AgentRuns, run: &str) -> Result<Vec<Entry>, Problem> {
    read(store, run)
        .await?
        .map(|(_, entries)| entries)
        .ok_or_else(|| Problem::new(Kind::NotFound, format!("there is no run `{run}`")))
}

/// The entries of a run after a number, at most `limit`.
///
/// # Errors
/// The journal cannot be read.
pub(super) async fn entries_after(store: &AgentRuns, run: &str, after: u64, limit: u64) -> Result<Vec<Entry>, Problem> {
    let (store, id) = (store.clone(), run.to_owned());
    let read = move || -> Result<_, String> {
        let lines = store.read_from(&id, after, limit).map_err(|error| error.to_string())?;
        journal::entries(&lines).map_err(|error| error.to_string())
    };
    let done = tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(error.to_string()));
    done.map_err(|error| Problem::new(Kind::Internal, format!("the journal of run `{run}` cannot be read: {error}")))
}

/// Adds entries, off the workers.
async fn adding(work: impl FnOnce() -> Result<(), StoreError> + Send + 'static) -> Result<(), AppendError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error @ StoreError::DayLimit { .. })) => Err(AppendError::DayLimit(Problem::from(error))),
        Ok(Err(error)) => Err(AppendError::Storage(Problem::from(error))),
        Err(error) => Err(AppendError::Storage(Problem::new(Kind::Internal, error.to_string()))),
    }
}

#[async_trait]
impl Journal for Bridge {
    async fn append(&self, run: &str, entries: &[Entry], sync: bool) -> Result<(), AppendError> {
        let context = self.context(run).await?;
        let before = context.written();
        let mut written = before.clone();
        written.take_all(entries);
        let lines: Vec<String> = entries.iter().map(line).collect();
        let (store, id, state) = (self.store.clone(), run.to_owned(), written.state.clone());
        let limits = self.day_limits(&context.start.agent);
        if let Some(Event::Started(start)) = entries.first().map(|entry| &entry.event).filter(|_| before.entries == 0) {
            let caller = &context.owner;
            let record = AgentRunRecord {
                id,
                agent: start.agent.clone(),
                task: start.task.chars().take(TASK).collect(),
                principal: caller.principal.id.clone(),
                role: caller.principal.role,
                profile: caller.profile.clone(),
                parent: start.parent.as_ref().map(|parent| parent.run.clone()),
                fork_of: None,
                started_at: entries[0].at,
                state,
            };
            adding(move || store.create_within(&record, &lines, limits)).await?;
        } else {
            let before = before.entries;
            let append =
                move || store.append(&AgentRunEntries { run: &id, before, lines: &lines, state: &state, limits, sync });
            adding(append).await?;
        }
        let events = context.trail(entries, &written);
        context.wrote(written);
        context.saw(entries);
        self.put_on_record(&context, events).await;
        Ok(())
    }

    async fn read(&self, run: &str) -> Result<Option<Vec<Entry>>, Problem> {
        Ok(read(&self.store, run).await?.map(|(_, entries)| entries))
    }
}
