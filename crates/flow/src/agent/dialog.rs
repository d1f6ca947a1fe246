//! The dialog with the client that called an agent: what its run asks a person is asked there, while the call lasts.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use toolcrib_base::{PrincipalId, Problem, random};
use toolcrib_call::Invocation;
use toolcrib_protocol::ask::{self, InputKind};
use toolcrib_session::{Channel, Session};

use super::keep;
use super::question::{Question, folded};
use super::source::Inner;

/// How long a person may take for one answer.
const ANSWER: Duration = Duration::from_secs(10 * 60);
/// How often is looked whether the question still waits.
const LOOK: Duration = Duration::from_millis(500);

/// A client that can be asked.
pub(super) struct Dialog {
    session: Arc<Session>,
    channel: Option<Channel>,
    by: PrincipalId,
    /// What was asked and not answered: it is not asked again.
    asked: HashSet<(String, String, usize)>,
}

impl Dialog {
    /// With the legacy client that stands behind a call, if it shows forms or opens pages.
    pub(super) fn of(invocation: &Invocation) -> Option<Self> {
        let session = invocation.caller.session.clone()?;
        let offers = session.relayed();
        let channel = invocation.reply.channel.clone();
        let by = invocation.caller.principal.id.clone();
        (offers.form || offers.url).then(|| Self { session, channel, by, asked: HashSet::new() })
    }

    /// Asks what a run that waits asks, and gives it the answer. `false` where there is nothing to ask here.
    ///
    /// # Errors
    /// The run cannot be read.
    pub(super) async fn ask(&mut self, inner: &Arc<Inner>, run: &str) -> Result<bool, Problem> {
        let entries = keep::entries(&inner.bridge.store, run).await?;
        let questions = inner.bridge.questions(&folded(run, &entries)?).await?;
        let fits = |question: &&Question| {
            let mut kinds = question.questions.iter().map(|(_, it)| InputKind::of(&it.method, &it.params));
            kinds.all(|kind| kind.is_some_and(|kind| kind.fits(self.session.relayed())))
        };
        let key = |question: &Question| (question.run.clone(), question.what.clone(), entries.len());
        let Some(question) = questions.iter().filter(fits).find(|it| !self.asked.contains(&key(it))) else {
            return Ok(false);
        };
        self.asked.insert(key(question));
        let mut answers = Map::new();
        for (name, asked) in &question.questions {
            let asked = ask::question_for(self.session.revision, asked, &random::hex_128(), None);
            let asking = self.session.ask(self.channel.as_ref(), &asked.method, asked.params, ANSWER);
            let answered = tokio::select! {
                answered = asking => answered,
                // Answered elsewhere, or ended: dropping the question takes it back.
                () = no_longer_waits(inner, question) => return Ok(true),
            };
            match answered {
                Ok(Ok(answer)) if answer.text("action").is_some_and(|action| action != "cancel") => {
                    answers.insert(name.clone(), answer.to_value());
                }
                // The window was closed, or the client is gone: the run waits, and the question stays in it.
                _ => return Ok(true),
            }
        }
        match inner.bridge.take_answer(&self.by, question, &Value::Object(answers)).await {
            Ok(()) => {
                inner.bridge.steps_on(question).await;
                Ok(true)
            }
            Err(problem) => {
                tracing::info!(run, %problem, "an answer of a client is of no use");
                Ok(true)
            }
        }
    }
}

/// Waits until a question is answered by another way.
async fn no_longer_waits(inner: &Inner, question: &Question) {
    loop {
        tokio::time::sleep(LOOK).await;
        let record = inner.record(&question.run).await;
        if record.is_ok_and(|record| record.is_none_or(|it| !question.is_awaited_by(&it.state.waits))) {
            return;
        }
    }
}
