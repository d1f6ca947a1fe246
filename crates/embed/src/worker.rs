//! One thread that reads texts with a model: queries first, tools in between. No one waits for tools; who waits for a
//! query has a deadline.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use toolcrib_search::{QueryVectors, TextKey, ToolVectors};

use crate::cache::{Cache, MOST_VECTORS};
use crate::model::{Model, ModelError};

/// How many texts of tools may wait; what is more is left to the embedded table.
const WAITING_TEXTS: usize = 50_000;
/// How many queries may wait.
const WAITING_QUERIES: usize = 64;
/// How many texts of queries are remembered: agents ask in the same words again, and what came too late for one query
/// is there for the next.
const RECENT: usize = 256;
/// After how many new vectors they are shown and kept, and not only at the end of the work.
const BATCH: usize = 2_000;

/// What turns a text into a vector.
pub trait Encode: Send {
    /// The vector of a text, always of as many numbers.
    fn encode(&self, text: &str) -> Result<Vec<f32>, ModelError>;
    /// How many numbers.
    fn dimensions(&self) -> usize;
}

/// What a worker reports itself, for a log.
#[derive(Debug)]
pub enum Report {
    /// The model is ready; so many vectors of tools were kept from before.
    Ready(usize),
    /// The model cannot be used; nothing comes of this worker.
    Failed(ModelError),
    /// All that was to be read is read: so many vectors in all.
    Learned(usize),
    /// The vectors cannot be kept; they are computed again after a restart.
    NotKept(crate::CacheError),
}

/// The thread. It ends when the last handle is dropped.
pub struct Worker {
    shared: Arc<WorkerState>,
}

struct WorkerState {
    waiting: Mutex<WorkQueue>,
    something: Condvar,
    tools: Mutex<Arc<ToolVectors>>,
}

#[derive(Default)]
struct WorkQueue {
    texts: VecDeque<(TextKey, String)>,
    /// The keys of `texts`.
    keys: HashSet<TextKey>,
    queries: VecDeque<QueryJob>,
    ended: bool,
}

struct QueryJob {
    texts: Vec<String>,
    until: Instant,
    answer: SyncSender<QueryVectors>,
}

enum Work {
    Query(QueryJob),
    Text(TextKey, String),
    /// Nothing waits at this moment.
    Rest,
    End,
}

// === impl Encode ===

impl Encode for Model {
    fn encode(&self, text: &str) -> Result<Vec<f32>, ModelError> {
        self.embed(text)
    }

    fn dimensions(&self) -> usize {
        self.dimensions()
    }
}

// === impl Worker ===

impl Worker {
    /// Starts the thread; the model is opened there, because that takes a while.
    pub fn start<E: Encode>(
        open: impl FnOnce() -> Result<(E, Option<Cache>), ModelError> + Send + 'static,
        report: impl Fn(Report) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(WorkerState {
            waiting: Mutex::default(),
            something: Condvar::new(),
            tools: Mutex::new(Arc::new(ToolVectors::new(0))),
        });
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("embed".to_owned()).spawn(move || {
            let opened = catch_unwind(AssertUnwindSafe(open))
                .unwrap_or_else(|_| Err(ModelError::Run("it ended in a panic".to_owned())));
            match opened {
                Ok((model, cache)) => theirs.work(&model, cache.as_ref(), &report),
                Err(error) => {
                    theirs.waiting().end();
                    report(Report::Failed(error));
                }
            }
        })?;
        Ok(Self { shared })
    }

    /// Wants the vectors of texts. Never blocks for long; known and waiting ones cost nothing.
    pub fn learn(&self, texts: Vec<(TextKey, String)>) {
        let known = self.tools();
        let mut waiting = self.shared.waiting();
        for (key, text) in texts {
            let room = waiting.texts.len() < WAITING_TEXTS && !waiting.ended;
            if room && !known.contains(&key) && waiting.keys.insert(key) {
                waiting.texts.push_back((key, text));
            }
        }
        drop(waiting);
        self.shared.something.notify_one();
    }

    /// The vectors of tools, as far as they are known.
    pub fn tools(&self) -> Arc<ToolVectors> {
        Arc::clone(&self.shared.tools.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The vectors of a query's texts; `None` when they are not there in time. Blocks that long.
    pub fn query(&self, texts: Vec<String>, within: Duration) -> Option<QueryVectors> {
        let (answer, answered) = sync_channel(1);
        let mut waiting = self.shared.waiting();
        if waiting.ended || texts.is_empty() || waiting.queries.len() >= WAITING_QUERIES {
            return None;
        }
        waiting.queries.push_back(QueryJob { texts, until: Instant::now() + within, answer });
        drop(waiting);
        self.shared.something.notify_one();
        answered.recv_timeout(within).ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.waiting().end();
        self.shared.something.notify_one();
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("vectors", &self.tools().len()).finish_non_exhaustive()
    }
}

// === impl WorkQueue ===

impl WorkQueue {
    fn end(&mut self) {
        *self = Self { ended: true, ..Self::default() };
    }

    fn take(&mut self) -> Work {
        if self.ended {
            return Work::End;
        }
        if let Some(asked) = self.queries.pop_front() {
            return Work::Query(asked);
        }
        match self.texts.pop_front() {
            Some((key, text)) => {
                self.keys.remove(&key);
                Work::Text(key, text)
            }
            None => Work::Rest,
        }
    }
}

// === impl WorkerState ===

impl WorkerState {
    fn waiting(&self) -> MutexGuard<'_, WorkQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, model: &impl Encode, cache: Option<&Cache>, report: &impl Fn(Report)) {
        let none = || ToolVectors::new(model.dimensions());
        // A full file starts over: most of it is of tools that are gone.
        let mut tools = cache.map(Cache::read).filter(|kept| kept.len() < MOST_VECTORS).unwrap_or_else(none);
        self.show(&tools);
        report(Report::Ready(tools.len()));
        let mut unseen = 0;
        let mut recent = Recent::default();
        loop {
            let work = self.waiting().take();
            let (rests, ends) = (matches!(work, Work::Rest), matches!(work, Work::End));
            match work {
                Work::Query(asked) => recent.answer(model, &asked),
                Work::Text(key, text) => {
                    if tools.len() < MOST_VECTORS && !tools.contains(&key) {
                        // A text that cannot be read is one without meaning.
                        let vector = encode(model, &text).unwrap_or_else(|| vec![0.0; model.dimensions()]);
                        tools.insert(key, &vector);
                        unseen += 1;
                    }
                }
                Work::Rest | Work::End => {}
            }
            if unseen > 0 && (rests || ends || unseen >= BATCH) {
                self.show(&tools);
                unseen = 0;
                if let Some(Err(error)) = cache.map(|cache| cache.write(&tools)) {
                    report(Report::NotKept(error));
                }
                if rests {
                    report(Report::Learned(tools.len()));
                }
            }
            if ends {
                return;
            }
            if rests {
                self.rest();
            }
        }
    }

    fn show(&self, tools: &ToolVectors) {
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools.clone());
    }

    /// Waits until there is something to do.
    fn rest(&self) {
        let nothing =
            |waiting: &mut WorkQueue| !waiting.ended && waiting.queries.is_empty() && waiting.texts.is_empty();
        drop(self.something.wait_while(self.waiting(), nothing));
    }
}

/// The vectors of texts that were asked of late, the oldest first.
#[derive(Default)]
struct Recent(VecDeque<(String, Vec<f32>)>);

impl Recent {
    fn answer(&mut self, model: &impl Encode, asked: &QueryJob) {
        let mut vectors = Vec::new();
        for text in &asked.texts {
            let known = self.0.iter().find(|(known, _)| known == text).map(|(_, vector)| vector.clone());
            // No one waits any more.
            if known.is_none() && Instant::now() >= asked.until {
                return;
            }
            let Some(vector) = known.or_else(|| self.read(model, text)) else { return };
            vectors.push(vector);
        }
        // The caller may have gone a moment ago.
        let _ = asked.answer.send(QueryVectors::new(vectors.iter().map(Vec::as_slice)));
    }

    fn read(&mut self, model: &impl Encode, text: &str) -> Option<Vec<f32>> {
        let vector = encode(model, text)?;
        if self.0.len() == RECENT {
            self.0.pop_front();
        }
        self.0.push_back((text.to_owned(), vector.clone()));
        Some(vector)
    }
}

/// `None` when the model fails, in whatever manner: its file came from outside.
fn encode(model: &impl Encode, text: &str) -> Option<Vec<f32>> {
    let encoded = catch_unwind(AssertUnwindSafe(|| model.encode(text)));
    encoded.ok().and_then(Result::ok).filter(|vector| vector.len() == model.dimensions())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Fingerprint;
    use std::sync::mpsc::{Receiver, channel};

    /// Long: the machine may be busy.
    const LONG: Duration = Duration::from_secs(60);

    /// Means the number of letters; fails for `bad`, panics for `worse`. Counts what it reads.
    struct Fake(Arc<Mutex<Vec<String>>>);

    impl Encode for Fake {
        fn encode(&self, text: &str) -> Result<Vec<f32>, ModelError> {
            self.0.lock().unwrap().push(text.to_owned());
            match text {
                "bad" => Err(ModelError::NotBuilt),
                "worse" => panic!("a model of no use"),
                text => Ok(vec![text.len() as f32, 1.0]),
            }
        }

        fn dimensions(&self) -> usize {
            2
        }
    }

    fn start(cache: Option<Cache>) -> (Worker, Arc<Mutex<Vec<String>>>, Receiver<Report>) {
        let (sender, told) = channel();
        let read = Arc::default();
        let fake = Fake(Arc::clone(&read));
        let worker = Worker::start(move || Ok((fake, cache)), move |report| drop(sender.send(report))).unwrap();
        (worker, read, told)
    }

    fn texts(texts: &[&str]) -> Vec<(TextKey, String)> {
        texts.iter().map(|text| (TextKey::of(text), (*text).to_owned())).collect()
    }

    fn until_learned(told: &Receiver<Report>) -> usize {
        loop {
            if let Report::Learned(count) = told.recv_timeout(LONG).unwrap() {
                return count;
            }
        }
    }

    #[test]
    fn what_was_read_is_never_read_again_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(&folder.path().join("vectors.bin"), Fingerprint([1; 32]), 2);
        let (worker, read, told) = start(Some(cache.clone()));
        worker.learn(texts(&["a", "bb", "a"]));
        while worker.tools().len() < 2 {
            until_learned(&told);
        }
        worker.learn(texts(&["bb"]));
        for _ in 0..2 {
            assert!(worker.query(vec!["asked".to_owned()], LONG).is_some());
        }
        assert_eq!(*read.lock().unwrap(), ["a", "bb", "asked"]);
        drop(worker);
        let (worker, read, told) = start(Some(cache));
        assert!(matches!(told.recv_timeout(LONG).unwrap(), Report::Ready(2)));
        worker.learn(texts(&["a", "bb", "ccc"]));
        assert_eq!(until_learned(&told), 3);
        assert_eq!(*read.lock().unwrap(), ["ccc"]);
    }

    #[test]
    fn a_text_that_breaks_the_model_is_one_without_meaning() {
        let (worker, _, told) = start(None);
        worker.learn(texts(&["bad", "worse", "good"]));
        while worker.tools().len() < 3 {
            until_learned(&told);
        }
        assert!(worker.query(vec!["worse".to_owned()], LONG).is_none());
        assert!(worker.query(vec!["good".to_owned()], LONG).is_some());
        assert!(worker.query(Vec::new(), LONG).is_none());
    }

    #[test]
    fn a_query_that_is_late_is_given_up() {
        let (worker, _, _told) = start(None);
        assert!(worker.query(vec!["asked".to_owned()], Duration::ZERO).is_none());
    }

    #[test]
    fn a_model_that_cannot_be_opened_answers_nothing_at_once() {
        let (sender, told) = channel();
        let open = || Err::<(Fake, _), _>(ModelError::NotBuilt);
        let worker = Worker::start(open, move |report| drop(sender.send(report))).unwrap();
        assert!(matches!(told.recv_timeout(LONG).unwrap(), Report::Failed(ModelError::NotBuilt)));
        worker.learn(texts(&["a"]));
        assert!(worker.query(vec!["asked".to_owned()], LONG).is_none());
        assert!(worker.tools().is_empty());
    }
}
