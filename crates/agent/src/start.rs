//! What a run must be to start.

use crate::entry::Start;

/// Why a run does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// There is no model.
    #[error("an agent needs a model")]
    NoModel,
    /// Money is limited and a model has no price.
    #[error("a limit of money needs the price of each model, and `{0}` has none")]
    NoPrice(String),
    /// A tool stands twice, or before one that it follows.
    #[error("tools are sorted by name and each stands once, and `{0}` does not")]
    Unsorted(String),
}

impl Start {
    /// Sorts the tools by name. Of those with the same name the first stays.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.tools.sort_by(|one, other| one.name.cmp(&other.name));
        self.tools.dedup_by(|one, other| one.name == other.name);
        self
    }

    /// Whether the run may start.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check(&self) -> Result<(), StartError> {
        if self.models.is_empty() {
            return Err(StartError::NoModel);
        }
        if let Some(model) = self.models.iter().find(|model| self.limits.money.is_some() && model.price.is_none()) {
            return Err(StartError::NoPrice(model.name.clone()));
        }
        match self.tools.windows(2).find(|pair| pair[0].name >= pair[1].name) {
            Some(pair) => Err(StartError::Unsorted(pair[1].name.clone())),
            None => Ok(()),
        }
    }
}
