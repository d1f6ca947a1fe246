//! The meaning of a query, as a model gives it, computed off the threads that serve.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_search::{Meaning, Query, QueryVectors, Ranker, Ranking, ToolVectors};
use toolcrib_view::Embed;
use toolcrib_view::view::View;

/// How long a search waits for the vectors of its query; then the embedded table answers alone.
const QUERY: Duration = Duration::from_millis(250);

/// What a model makes of one query.
#[derive(Debug)]
pub(crate) struct QueryMeaning {
    tools: Arc<ToolVectors>,
    query: QueryVectors,
}

// === impl QueryMeaning ===

impl QueryMeaning {
    /// `None` when the model does not answer in time, or knows no tool yet.
    pub(crate) async fn of(embed: &Arc<dyn Embed>, view: &View, query: &str, ranking: Ranking) -> Option<Self> {
        let tools = embed.tools();
        let texts = match tools.is_empty() {
            true => Vec::new(),
            false => view.search.meaning_texts(&Query { ranking, ..view.query(query) }),
        };
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
