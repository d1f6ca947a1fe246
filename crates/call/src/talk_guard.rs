//! The guard against secrets for what a server and its client say to each other while a call runs: progress, log messages,
//! questions and their answers. What is found stands in the log, as no place of the audit log is at hand.

use std::sync::Arc;

use toolcrib_base::Problem;
use toolcrib_protocol::{Notification, Raw, RpcError};

use crate::secret_guard::{GuardRules, GuardedText, SecretGuard};

/// What is done with words in both directions.
#[derive(Debug, Clone)]
pub(crate) struct TalkGuard {
    secrets: Arc<SecretGuard>,
    messages: GuardRules,
    questions: GuardRules,
    answers: GuardRules,
}

impl TalkGuard {
    /// By the rules for what the server answers, and for what is sent to it.
    pub(crate) fn new(secrets: &Arc<SecretGuard>, of_server: &GuardRules, of_client: &GuardRules) -> Self {
        let (messages, questions) = (of_server.of("message"), of_server.of("question"));
        Self { secrets: Arc::clone(secrets), messages, questions, answers: of_client.of("answer") }
    }

    /// Progress or a log message as it goes on to the client; `None` where it is held back.
    pub(crate) fn message(&self, notification: Notification) -> Option<Notification> {
        let Notification { params, .. } = &notification;
        let passed = self.passed(&self.messages, params.clone()).ok()?;
        Some(Notification { params: passed, ..notification })
    }

    /// A question as it goes on to the client.
    ///
    /// # Errors
    /// A secret is in it, and the rules hold it back.
    pub(crate) fn question(&self, params: Raw) -> Result<Raw, Problem> {
        self.passed(&self.questions, params)
    }

    /// An answer as it goes on to the server.
    ///
    /// # Errors
    /// A secret is in it, and the rules hold it back.
    pub(crate) fn answer(&self, answer: Raw) -> Result<Raw, Problem> {
        self.passed(&self.answers, answer)
    }

    /// An answer, which may be an error, as it goes on to the server.
    pub(crate) fn outcome(&self, outcome: Result<Raw, RpcError>) -> Result<Raw, RpcError> {
        self.answer(outcome?).map_err(|problem| RpcError::from(&problem))
    }

    fn passed(&self, rules: &GuardRules, text: Raw) -> Result<Raw, Problem> {
        let GuardedText { passed, note, denied, .. } = self.secrets.words(rules, text);
        if let Some(found) = note {
            tracing::info!(found, "guards have found something in what a server and its client say to each other");
        }
        denied.map_or(Ok(passed), Err)
    }
}
