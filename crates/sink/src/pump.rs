//! The task of one sink: reads the log after the sink's place, delivers in order, and notes the place behind what the
//! receiver certainly has.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use toolcrib_base::Clock;
use toolcrib_base::backoff::Backoff;
use toolcrib_base::task::Stop;
use toolcrib_store::{
    AuditCursors, AuditFilter, AuditLog, AuditOrder, AuditPlace, AuditRecord, Checkpoint, ReadCheckpoints, StoreError,
};

use crate::Entry;
use crate::status::SinkStatusCell;
use crate::target::{Delivery, DeliveryError, LastEntry, Target};

/// How often in a row a receiver may fail at the end, when someone waits for the process.
const LAST_TRIES: u32 = 3;

/// How fast a sink goes, and how far it goes ahead of what is certain.
#[derive(Debug, Clone)]
pub struct Pace {
    /// How many events are delivered at a time at most; some 200 KiB.
    pub batch: usize,
    /// How many events may be on their way at most: what is sent again after a connection broke. It is halved by each
    /// failure and doubled by each success, so that a receiver too slow for many gets few.
    pub window: usize,
    /// How long it waits for more events after a batch that was not full, so that a receiver is not asked to write for
    /// each of them.
    pub gather: Duration,
    /// How long events may be on their way before it is asked whether they arrived.
    pub confirm: Duration,
    /// How often the place is noted. What was delivered since is delivered again after a kill.
    pub save: Duration,
    /// The first wait after a failure.
    pub retry_first: Duration,
    /// The longest wait between two attempts: how late a receiver that is back may be noticed.
    pub retry_most: Duration,
    /// How long a receiver may do nothing: read nothing, or not answer. It has a few MiB to read at most.
    pub patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            batch: 512,
            window: 8_192,
            gather: Duration::from_millis(200),
            confirm: Duration::from_secs(5),
            save: Duration::from_secs(1),
            retry_first: Duration::from_millis(500),
            retry_most: Duration::from_secs(30),
            patience: Duration::from_secs(30),
        }
    }
}

/// What the task of a sink works with.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) log: AuditLog,
    pub(crate) cursors: AuditCursors,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) target: Box<dyn Target>,
    pub(crate) status: SinkStatusCell,
    pub(crate) pace: Pace,
}

/// The task of a sink.
#[derive(Debug)]
pub(crate) struct Pump {
    line: Line,
    /// Whether the receiver was asked what it has.
    is_resumed: bool,
    /// The last that was sent.
    sent: AuditPlace,
    /// The last that the receiver certainly has.
    confirmed: AuditPlace,
    /// The last that is noted.
    saved: AuditPlace,
    /// The number of the newest checkpoint.
    signed: watch::Receiver<u64>,
    window: usize,
    /// When the first event was sent that is not confirmed.
    underway_since: Option<Instant>,
    saved_at: Instant,
    /// When the log is looked at next.
    next_read: Instant,
}

// === impl Pump ===

impl Pump {
    /// One that continues behind this place.
    pub(crate) fn new(line: Line, place: AuditPlace) -> Self {
        let (now, window, signed) = (Instant::now(), line.pace.window, line.log.newest_checkpoint());
        Self {
            line,
            is_resumed: false,
            sent: place,
            confirmed: place,
            saved: place,
            signed,
            window,
            underway_since: None,
            saved_at: now,
            next_read: now,
        }
    }

    /// Delivers until it is told to stop, and then what the log still has; a receiver that keeps failing is left alone.
    pub(crate) async fn run(mut self, mut stop: Stop) {
        let mut backoff = Backoff::new(self.line.pace.retry_first, self.line.pace.retry_most);
        self.compare_with_log();
        while !stop.is_stopped() {
            // Waiting is cancel-safe; a step that has begun is finished.
            tokio::select! {
                () = self.work() => {}
                () = stop.stopped() => break,
            }
            let before = self.confirmed;
            let step = self.step().await;
            // What was only sent is no success: a receiver may take it and close the connection each time.
            if self.confirmed != before {
                backoff.reset();
            }
            if let Err(error) = step {
                self.fail(&error);
                let asked = self.line.target.take_pause().unwrap_or_default();
                tokio::select! {
                    () = tokio::time::sleep(backoff.next_wait().max(asked)) => {}
                    () = stop.stopped() => {}
                }
            }
        }
        self.finish().await;
    }

    /// Waits until there is something to do.
    async fn work(&self) {
        let pace = &self.line.pace;
        let confirm = self.underway_since.map(|since| since + pace.confirm);
        let save = (self.confirmed != self.saved).then(|| self.saved_at + pace.save);
        let mut signed = self.signed.clone();
        let more = async {
            tokio::time::sleep_until(self.next_read).await;
            let more = tokio::select! {
                more = self.line.log.beyond(self.sent.seq) => more.is_ok(),
                more = signed.wait_for(|number| *number > self.sent.checkpoint) => more.is_ok(),
            };
            if !more {
                // The log is closed: there will be no more, and the end comes soon.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = more => {}
            () = at(confirm) => {}
            () = at(save) => {}
        }
    }

    /// Does what is due.
    async fn step(&mut self) -> Result<(), DeliveryError> {
        if !self.is_resumed {
            self.resume().await?;
        }
        let is_late = self.underway_since.is_some_and(|since| since.elapsed() >= self.line.pace.confirm);
        if is_late || self.underway() >= self.window {
            self.confirm().await?;
        }
        self.deliver().await?;
        if self.confirmed != self.saved && self.saved_at.elapsed() >= self.line.pace.save {
            self.save().await;
        }
        Ok(())
    }

    /// The last steps: everything in the log, confirmed, and the place noted.
    async fn finish(&mut self) {
        let (mut tries, mut reached) = (0, self.confirmed);
        loop {
            if self.confirmed != reached {
                (tries, reached) = (0, self.confirmed);
            }
            let is_done = match self.step().await {
                Ok(()) if self.has_more() => Ok(false),
                Ok(()) => self.confirm().await.map(|()| true),
                Err(error) => Err(error),
            };
            match is_done {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    self.fail(&error);
                    tries += 1;
                    if tries == LAST_TRIES {
                        break;
                    }
                    tokio::time::sleep(self.line.pace.retry_first).await;
                }
            }
        }
        if self.confirmed != self.saved {
            self.save().await;
        }
        let lag = self.head().saturating_sub(self.confirmed.seq);
        if lag > 0 {
            tracing::warn!(sink = %self.line.name, lag, "the audit sink gets the rest at the next start");
        }
    }

    fn head(&self) -> u64 {
        self.line.log.health().head.seq
    }

    /// Whether the log has events or checkpoints that were not sent.
    fn has_more(&self) -> bool {
        self.sent.seq < self.head() || self.sent.checkpoint < *self.signed.borrow()
    }

    /// How many events are on their way.
    fn underway(&self) -> usize {
        usize::try_from(self.sent.seq - self.confirmed.seq).unwrap_or(usize::MAX)
    }

    /// A log that ends before what the sink had was cut, or is another one: the sink gets all of it.
    fn compare_with_log(&mut self) {
        let (had, ends) = (self.confirmed.seq, self.head());
        if had > ends {
            let sink = &self.line.name;
            tracing::error!(
                sink,
                had,
                ends,
                "the audit log ends before what the sink had: it was cut or replaced; compare them with `toolcrib audit \
                 verify --against FILE`"
            );
            let beginning = AuditPlace { seq: 0, checkpoint: 0 };
            (self.sent, self.confirmed) = (beginning, beginning);
            self.line.status.update(|status| (status.seq, status.replaced) = (0, true));
        }
    }

    /// Asks the receiver what it has, where it can tell: more than was noted before a kill, maybe.
    async fn resume(&mut self) -> Result<(), DeliveryError> {
        if let Some(LastEntry { seq, hash, checkpoint }) = self.line.target.last().await?
            && seq > self.confirmed.seq
        {
            let row = self.read(seq - 1, 1).await?;
            // A line of another log proves nothing about this one.
            if row.first().is_some_and(|row| row.seq == seq && row.hash == hash) {
                let checkpoint = self.confirmed.checkpoint.max(checkpoint);
                self.confirmed = AuditPlace { seq, checkpoint };
                self.sent = self.confirmed;
                self.line.status.update(|status| status.seq = seq);
            }
        }
        self.is_resumed = true;
        Ok(())
    }

    /// Delivers a batch, if the log has more: events, and after the last event that it covers each checkpoint.
    async fn deliver(&mut self) -> Result<(), DeliveryError> {
        let most = self.line.pace.batch.min(self.window - self.underway().min(self.window));
        if most == 0 || !self.has_more() {
            return Ok(());
        }
        let rows = if self.sent.seq < self.head() { self.read(self.sent.seq, most).await? } else { Vec::new() };
        if rows.is_empty() && self.sent.seq < self.head() {
            let why = format!("the log has no event after {}: run `toolcrib audit verify`", self.sent.seq);
            return Err(DeliveryError(why));
        }
        let missed = rows.first().map_or(0, |first| first.seq - self.sent.seq - 1);
        if missed > 0 {
            let (sink, since) = (&self.line.name, self.sent.seq);
            tracing::warn!(sink, since, missed, "audit events were removed from the log before the sink had them");
        }
        let (last, count) = (rows.last().map_or(self.sent.seq, |row| row.seq), rows.len());
        let mut checkpoints = self.checkpoints(most).await?;
        // One whose events come later comes with them.
        checkpoints.retain(|checkpoint| checkpoint.seq <= last);
        if rows.is_empty() && checkpoints.is_empty() {
            let why = format!("the log has no checkpoint after {}: run `toolcrib audit verify`", self.sent.checkpoint);
            return Err(DeliveryError(why));
        }
        let entries = merged(&rows, &checkpoints);
        let delivery = self.line.target.deliver(&entries).await?;
        let checkpoint = checkpoints.last().map_or(self.sent.checkpoint, |checkpoint| checkpoint.number);
        self.sent = AuditPlace { seq: last, checkpoint };
        if count < most {
            self.next_read = Instant::now() + self.line.pace.gather;
        }
        self.line.status.update(|status| {
            status.sent += count as u64;
            status.missed += missed;
            if let Delivery::Confirmed { rejected } = delivery {
                status.rejected += rejected;
            }
        });
        match delivery {
            Delivery::Confirmed { rejected } => {
                if rejected > 0 {
                    tracing::warn!(sink = %self.line.name, rejected, "the receiver rejected audit events");
                }
                self.received();
            }
            Delivery::Sent => drop(self.underway_since.get_or_insert_with(Instant::now)),
        }
        Ok(())
    }

    async fn confirm(&mut self) -> Result<(), DeliveryError> {
        if self.underway_since.is_some() {
            self.line.target.confirm().await?;
            self.received();
        }
        Ok(())
    }

    /// Everything that was sent is there.
    fn received(&mut self) {
        self.confirmed = self.sent;
        self.underway_since = None;
        self.window = (self.window * 2).min(self.line.pace.window);
        let seq = self.confirmed.seq;
        self.line.status.update(|status| status.seq = seq);
        if self.line.status.succeed() {
            tracing::info!(sink = %self.line.name, "the audit sink gets events again");
        }
    }

    /// What was on its way may be lost: it is sent again.
    fn fail(&mut self, error: &DeliveryError) {
        self.sent = self.confirmed;
        self.underway_since = None;
        self.window = (self.window / 2).max(1);
        if self.line.status.fail(&error.0, self.line.clock.now()) {
            let (sink, why) = (&self.line.name, &error.0);
            tracing::warn!(sink, why, "cannot deliver audit events; they stay in the log, calls are unaffected");
        }
    }

    /// Notes the place. Where that fails, events are delivered again after a restart.
    async fn save(&mut self) {
        let (cursors, name, place) = (self.line.cursors.clone(), self.line.name.clone(), self.confirmed);
        self.saved_at = Instant::now();
        match tokio::task::spawn_blocking(move || cursors.advance(&name, place)).await {
            Ok(Ok(())) => self.saved = place,
            Ok(Err(error)) => tracing::debug!(sink = %self.line.name, %error, "cannot note the place of an audit sink"),
            Err(error) => tracing::error!(sink = %self.line.name, %error, "noting a place was interrupted"),
        }
    }

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, DeliveryError> {
        let log = self.line.log.clone();
        let filter = AuditFilter { order: AuditOrder::OldestFirst { after }, limit, ..AuditFilter::default() };
        of_database(move || log.list(&filter)).await
    }

    /// Checkpoints that were not sent.
    async fn checkpoints(&self, limit: usize) -> Result<Vec<Checkpoint>, DeliveryError> {
        let (log, after) = (self.line.log.clone(), self.sent.checkpoint);
        if *self.signed.borrow() <= after {
            return Ok(Vec::new());
        }
        of_database(move || log.checkpoints(after, limit)).await
    }
}

/// Reads on a thread that may block.
async fn of_database<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, DeliveryError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(rows) => rows.map_err(|error| DeliveryError(error.to_string())),
        Err(error) => Err(DeliveryError(error.to_string())),
    }
}

/// Events with the checkpoints after the last event that each covers.
fn merged(rows: &[AuditRecord], checkpoints: &[Checkpoint]) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(rows.len() + checkpoints.len());
    let mut checkpoints = checkpoints.iter().peekable();
    for row in rows {
        while let Some(checkpoint) = checkpoints.next_if(|checkpoint| checkpoint.seq < row.seq) {
            entries.push(Entry::from(checkpoint));
        }
        entries.push(Entry::from(row));
    }
    entries.extend(checkpoints.map(Entry::from));
    entries
}

/// A moment, if there is one.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
