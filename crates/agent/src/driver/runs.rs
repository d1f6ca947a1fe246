//! The table of running runs.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem};

use super::task::{RunTask, taken_over};
use super::{DriveError, DriveRuns, Surroundings};
use crate::entry::{Entry, Event, Start};
use crate::run::Run;

/// News of one run that wait while its task writes.
const NEWS: usize = 64;
/// Runs that run at once.
const MOST_RUNS: usize = 4_096;

/// Running runs, one task each. Clones are handles to the same table.
#[derive(Debug, Clone)]
pub struct Runs {
    around: Surroundings,
    scope: Scope,
    table: Arc<Table>,
}

#[derive(Debug, Default)]
struct Table {
    running: Mutex<HashMap<String, RunHandle>>,
}

#[derive(Debug, Clone)]
struct RunHandle {
    news: mpsc::Sender<Event>,
    /// Closed when the run has no task any more.
    gone: watch::Receiver<()>,
}

/// A run's place in the table. Dropping it frees the place.
#[derive(Debug)]
struct Place {
    table: Arc<Table>,
    run: String,
    news: mpsc::Receiver<Event>,
    _gone: watch::Sender<()>,
}

impl Place {
    /// From now on nothing arrives here; who sends finds another place later. What arrived before is given.
    fn close(&mut self) -> Vec<Event> {
        self.news.close();
        std::iter::from_fn(|| self.news.try_recv().ok()).collect()
    }

    /// News arrive here again. Those who found it closed look once more.
    fn reopen(&mut self) {
        let (sender, news) = mpsc::channel(NEWS);
        let (gone, watching) = watch::channel(());
        let handle = RunHandle { news: sender, gone: watching };
        self.table.running.lock().unwrap_or_else(PoisonError::into_inner).insert(self.run.clone(), handle);
        (self.news, self._gone) = (news, gone);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.table.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run);
    }
}

impl Runs {
    /// A table whose tasks belong to `scope`.
    pub fn new(around: Surroundings, scope: Scope) -> Self {
        Self { around, scope, table: Arc::default() }
    }

    /// How many runs have a task.
    pub fn count(&self) -> usize {
        self.table.running.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether a run has a task.
    pub fn is_running(&self, id: &str) -> bool {
        self.table.running.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }

    /// Starts a run.
    ///
    /// # Errors
    /// It may not start, its id is taken, too many run, or its journal cannot be written.
    pub async fn start(&self, start: Start) -> Result<(), DriveError> {
        start.check()?;
        let id = start.run.clone();
        let Ok(place) = self.place(&id)? else { return Err(DriveError::Taken(id)) };
        let runs = self.clone();
        self.whole(async move {
            if runs.around.journal.read(&id).await.map_err(DriveError::Storage)?.is_some() {
                return Err(DriveError::Taken(id));
            }
            let mut run = Run::default();
            runs.write(&mut run, &id, Event::Started(Box::new(start))).await?;
            runs.go_on(place, run);
            Ok(())
        })
        .await
    }

    /// Goes on with a run whose process is gone. Nothing happens to one that runs or waits.
    ///
    /// # Errors
    /// There is no such run, it ended, too many run, or its journal cannot be used.
    pub async fn resume(&self, id: &str) -> Result<(), DriveError> {
        let Ok(place) = self.place(id)? else { return Ok(()) };
        let (runs, id) = (self.clone(), id.to_owned());
        self.whole(async move { runs.wake(place, &id, None).await }).await
    }

    /// Tells a run what came from outside: an approval, a settlement, more limits, a cancellation. It is in the journal
    /// soon, if the run has a task, else when this returns.
    ///
    /// # Errors
    /// There is no such run, it ended, too many run, or its journal cannot be used.
    pub async fn tell(&self, id: &str, event: Event) -> Result<(), DriveError> {
        let mut event = event;
        loop {
            let mut handle = match self.place(id)? {
                Ok(place) => {
                    let (runs, id) = (self.clone(), id.to_owned());
                    return self.whole(async move { runs.wake(place, &id, Some(event)).await }).await;
                }
                Err(handle) => handle,
            };
            match handle.news.send(event).await {
                Ok(()) => return Ok(()),
                // Its task comes to rest: the place is free soon.
                Err(mpsc::error::SendError(back)) => event = back,
            }
            let _ = handle.gone.changed().await;
        }
    }

    /// Work that is done whole, also if whoever waits for it goes away: no entry stands in a journal without the task
    /// that goes on with it.
    async fn whole(
        &self,
        work: impl Future<Output = Result<(), DriveError>> + Send + 'static,
    ) -> Result<(), DriveError> {
        let stopped = || DriveError::Storage(Problem::new(Kind::Cancelled, "the program stops"));
        self.scope.spawn(work).await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Goes on with a run that has no task: by itself, or with what it is told. If it may not, it goes on with what was
    /// sent to its place meanwhile, which was answered already.
    async fn wake(&self, mut place: Place, id: &str, event: Option<Event>) -> Result<(), DriveError> {
        let (mut run, mut resumed) = self.read(id).await?;
        let is_resumed = event.is_none();
        let begun = self.begin(&mut run, &mut resumed, event).await;
        if begun.is_ok() {
            self.go_on(place, run);
            return Ok(());
        }
        let mut goes_on = false;
        for event in place.close() {
            goes_on |= self.begin(&mut run, &mut resumed, Some(event)).await.is_ok();
        }
        if goes_on {
            place.reopen();
            self.go_on(place, run);
        }
        if goes_on && is_resumed { Ok(()) } else { begun }
    }

    async fn begin(&self, run: &mut Run, resumed: &mut Option<Event>, event: Option<Event>) -> Result<(), DriveError> {
        let id = run.id().to_owned();
        // A run that ended says so in words.
        run.admit(event.as_ref().unwrap_or(&Event::Resumed))?;
        for event in resumed.take().into_iter().chain(event) {
            self.write(run, &id, event).await?;
        }
        Ok(())
    }

    async fn read(&self, id: &str) -> Result<(Run, Option<Event>), DriveError> {
        let journal = self.around.journal.read(id).await.map_err(DriveError::Storage)?;
        let journal = journal.filter(|entries| !entries.is_empty()).ok_or_else(|| DriveError::NoRun(id.to_owned()))?;
        Ok(taken_over(&journal)?)
    }

    async fn write(&self, run: &mut Run, id: &str, event: Event) -> Result<(), DriveError> {
        let entry = Entry { at: self.around.clock.now(), event };
        run.admit(&entry.event)?;
        self.around.journal.append(id, std::slice::from_ref(&entry), true).await?;
        run.apply(&entry)?;
        self.around.observer.entry(id, &entry);
        Ok(())
    }

    /// A free place for the run, or the task that it has.
    fn place(&self, id: &str) -> Result<Result<Place, RunHandle>, DriveError> {
        let mut running = self.table.running.lock().unwrap_or_else(PoisonError::into_inner);
        let count = running.len();
        match running.entry(id.to_owned()) {
            Slot::Occupied(slot) => Ok(Err(slot.get().clone())),
            Slot::Vacant(_) if count >= MOST_RUNS => Err(DriveError::Busy(MOST_RUNS)),
            Slot::Vacant(slot) => {
                let (sender, news) = mpsc::channel(NEWS);
                let (gone, watching) = watch::channel(());
                slot.insert(RunHandle { news: sender, gone: watching });
                Ok(Ok(Place { table: Arc::clone(&self.table), run: id.to_owned(), news, _gone: gone }))
            }
        }
    }

    fn go_on(&self, mut place: Place, run: Run) {
        let (around, stop) = (self.around.clone(), self.scope.stop_signal());
        self.scope.spawn(async move {
            let rest = RunTask::new(around.clone(), run).drive(&mut place.news, stop).await;
            let id = place.run.clone();
            drop(place);
            around.observer.rest(&id, &rest);
        });
    }
}

#[async_trait]
impl DriveRuns for Runs {
    async fn start(&self, start: Start) -> Result<(), DriveError> {
        Self::start(self, start).await
    }

    async fn resume(&self, id: &str) -> Result<(), DriveError> {
        Self::resume(self, id).await
    }

    async fn tell(&self, id: &str, event: Event) -> Result<(), DriveError> {
        Self::tell(self, id, event).await
    }

    fn count(&self) -> usize {
        Self::count(self)
    }

    fn is_running(&self, id: &str) -> bool {
        Self::is_running(self, id)
    }
}
