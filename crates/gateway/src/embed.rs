//! A model that says what texts mean, as far as the gateway knows one: whoever composes it fills the trait in.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use toolcrib_search::{Meaning, QueryVectors, Ranker, TextKey, ToolVectors};

use crate::view::View;

/// How long a search waits for the vectors of its query; then the embedded table answers alone.
const QUERY: Duration = Duration::from_millis(250);

/// What a model is asked.
pub trait Embed: Debug + Send + Sync {
    /// Wants the vectors of texts, some time. Does not block.
    fn learn(&self, texts: Vec<(TextKey, String)>);

    /// The vectors of tools, as far as they are known.
    fn tools(&self) -> Arc<ToolVectors>;

    /// The vectors of a query's texts; `None` when they are not there in time. Blocks that long.
    fn query(&self, texts: Vec<String>, within: Duration) -> Option<QueryVectors>;
}

/// What a model makes of one query.
#[derive(Debug)]
pub(crate) struct Meant {
    tools: Arc<ToolVectors>,
    query: QueryVectors,
}

// === impl Meant ===

impl Meant {
    /// `None` when the model does not answer in time, or knows no tool yet.
    pub(crate) async fn of(embed: &Arc<dyn Embed>, view: &View, query: &str) -> Option<Self> {
        let tools = embed.tools();
        let texts = if tools.is_empty() { Vec::new() } else { view.search.meaning_texts(&view.query(query)) };
        if texts.is_empty() {
            return None;
        }
        let embed = Arc::clone(embed);
        // A panic there is as no answer.
        let query = tokio::task::spawn_blocking(move || embed.query(texts, QUERY)).await.ok().flatten()?;
        Some(Self { tools, query })
    }

    pub(crate) fn meaning(&self) -> Meaning<'_> {
        Meaning { tools: &self.tools, query: &self.query }
    }
}
