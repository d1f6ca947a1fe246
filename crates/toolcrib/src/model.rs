//! The local model of this home: where it lies, and the thread that reads texts with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolcrib_embed::{Cache, Model, Report, Worker};
use toolcrib_search::{QueryVectors, TextKey, ToolVectors};
use toolcrib_view::Embed;

/// Within the state: the model's folder, and the vectors that it made.
const FOLDER: &str = "model";
const VECTORS: &str = "vectors.bin";

/// The worker as the gateway knows it.
#[derive(Debug)]
struct Reader(Worker);

/// Where the model of a home lies.
pub(crate) fn folder(state: &Path) -> PathBuf {
    state.join(FOLDER)
}

/// Where its vectors are kept.
pub(crate) fn vectors(state: &Path) -> PathBuf {
    state.join(VECTORS)
}

/// Starts reading with the model of this home, if there is one.
pub(crate) fn start(state: &Path) -> Option<Arc<dyn Embed>> {
    let folder = folder(state);
    if !folder.is_dir() {
        return None;
    }
    let kept = vectors(state);
    let open = move || {
        let model = Model::open(&folder)?;
        let cache = Cache::new(&kept, model.fingerprint(), model.dimensions());
        Ok((model, Some(cache)))
    };
    match Worker::start(open, log_report) {
        Ok(worker) => Some(Arc::new(Reader(worker))),
        Err(error) => {
            tracing::warn!(%error, "cannot start the model's thread; search works without it");
            None
        }
    }
}

fn log_report(report: Report) {
    match report {
        Report::Ready(kept) => tracing::info!(kept, "the model is ready"),
        Report::Failed(error) => tracing::warn!(%error, "cannot use the model; search works without it"),
        Report::Learned(vectors) => tracing::info!(vectors, "the model has indexed all tools"),
        Report::NotKept(error) => {
            tracing::warn!(%error, "cannot save the model's vectors; they are computed again after a restart");
        }
    }
}

impl Embed for Reader {
    fn learn(&self, texts: Vec<(TextKey, String)>) {
        self.0.learn(texts);
    }

    fn tools(&self) -> Arc<ToolVectors> {
        self.0.tools()
    }

    fn query(&self, texts: Vec<String>, within: Duration) -> Option<QueryVectors> {
        self.0.query(texts, within)
    }
}
