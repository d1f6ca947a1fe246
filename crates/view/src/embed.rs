//! A model that says what texts mean, as far as one is known: anyone who composes the gateway fills the trait in.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use toolcrib_search::{QueryVectors, TextKey, ToolVectors};

/// What a model is asked.
pub trait Embed: Debug + Send + Sync {
    /// Wants the vectors of texts, some time. Does not block.
    fn learn(&self, texts: Vec<(TextKey, String)>);

    /// The vectors of tools, as far as they are known.
    fn tools(&self) -> Arc<ToolVectors>;

    /// The vectors of a query's texts; `None` when they are not there in time. Blocks that long.
    fn query(&self, texts: Vec<String>, within: Duration) -> Option<QueryVectors>;
}
