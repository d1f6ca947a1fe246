//! What a search knows beside the index, by whatever door it comes: what a model makes of the query, and what was learned
//! of such queries. Every door that ranks by a query asks here, so that all rank alike.

use toolcrib_base::ToolId;
use toolcrib_search::{Query, Ranking, UsageStats};
use toolcrib_session::Caller;
use toolcrib_view::view::View;

use crate::embed::QueryMeaning;
use crate::gateway::Gateway;

/// What is known of one query in one profile.
#[derive(Debug)]
pub(crate) struct SearchRequest<'a> {
    view: &'a View,
    text: String,
    meaning: Option<QueryMeaning>,
    /// Empty where the profile does not learn.
    words: Vec<String>,
    learned: Vec<(ToolId, f32)>,
    ranking: Ranking,
}

/// How a search is tried by a person: answered as an agent's, but nothing is learned from it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SearchTrial {
    /// The ranking in place of the profile's.
    pub(crate) ranking: Option<Ranking>,
}

// === impl SearchRequest ===

impl<'a> SearchRequest<'a> {
    /// A query of which the index alone says what fits.
    pub(crate) fn plain(view: &'a View, text: &str) -> Self {
        let ranking = view.query(text).ranking;
        Self { view, text: text.to_owned(), meaning: None, words: Vec::new(), learned: Vec::new(), ranking }
    }

    /// A query with all that the gateway knows of it. A blank one is a list: there is nothing to know.
    pub(crate) async fn of(gateway: &Gateway, view: &'a View, text: &str) -> Self {
        Self::plain(view, text).informed(gateway).await
    }

    /// The same for a search that is only tried.
    pub(crate) async fn tried(gateway: &Gateway, view: &'a View, text: &str, trial: SearchTrial) -> Self {
        let plain = Self::plain(view, text);
        let asked = Self { ranking: trial.ranking.unwrap_or(plain.ranking), ..plain };
        Self { words: Vec::new(), ..asked.informed(gateway).await }
    }

    /// With what a model makes of it and what was learned of such queries.
    async fn informed(self, gateway: &Gateway) -> Self {
        let (view, text, plain) = (self.view, self.text.clone(), self);
        let text = text.as_str();
        if text.trim().is_empty() {
            return plain;
        }
        let meaning = match &gateway.embed {
            Some(embed) => QueryMeaning::of(embed, view, text, plain.ranking).await,
            None => None,
        };
        if !view.profile.learn {
            return Self { meaning, ..plain };
        }
        let words = UsageStats::words(text);
        let learned = gateway.learning.boosts(&view.profile.name, &words);
        Self { meaning, words, learned, ..plain }
    }

    /// As the index wants it, with the usual number of hits.
    pub(crate) fn query(&self) -> Query<'_> {
        let meaning = self.meaning.as_ref().map(QueryMeaning::meaning);
        Query { learned: &self.learned, meaning, ranking: self.ranking, ..self.view.query(&self.text) }
    }

    /// Remembers what a caller was shown, where the profile learns from what is called then.
    pub(crate) fn shown<'t>(self, gateway: &Gateway, caller: &Caller, tools: impl Iterator<Item = &'t ToolId>) {
        // Without words there is nothing to learn.
        gateway.learning.found(caller, self.words, tools);
    }
}
