//! Vectors of a model for a set: of its tools and of each query.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use toolcrib_embed::{Cache, Model};
use toolcrib_search::{Index, Query, QueryVectors, Ranker, TextKey, ToolVectors};

pub struct Vectors {
    model: Model,
    tools: ToolVectors,
    cache: Option<Cache>,
}

// === impl Vectors ===

impl Vectors {
    /// Opens the model; `keep` is a file that keeps the tools' vectors from one run to the next.
    pub fn open(model: &Path, keep: Option<&Path>) -> Result<Self> {
        let model = Model::open(model)?;
        let cache = keep.map(|path| Cache::new(path, model.fingerprint(), model.dimensions()));
        let tools = cache.as_ref().map_or_else(|| ToolVectors::new(model.dimensions()), Cache::read);
        Ok(Self { model, tools, cache })
    }

    /// Computes what is missing.
    pub fn learn(&mut self, texts: &[(TextKey, String)]) -> Result<()> {
        let start = Instant::now();
        let before = self.tools.len();
        for (key, text) in texts {
            if !self.tools.contains(key) {
                self.tools.insert(*key, &self.model.embed(text)?);
            }
        }
        let new = self.tools.len() - before;
        if new > 0 {
            eprintln!("{new} vectors in {:.1} s", start.elapsed().as_secs_f64());
            if let Some(cache) = &self.cache {
                cache.write(&self.tools)?;
            }
        }
        Ok(())
    }

    pub fn tools(&self) -> &ToolVectors {
        &self.tools
    }

    /// The vectors of a query and how many milliseconds they took.
    pub fn query(&self, index: &Index, query: &Query<'_>) -> Result<(QueryVectors, f64)> {
        let start = Instant::now();
        let texts = index.meaning_texts(query);
        let vectors: Vec<Vec<f32>> = texts.iter().map(|text| self.model.embed(text)).collect::<Result<_, _>>()?;
        let vectors = QueryVectors::new(vectors.iter().map(Vec::as_slice));
        Ok((vectors, start.elapsed().as_secs_f64() * 1e3))
    }
}
