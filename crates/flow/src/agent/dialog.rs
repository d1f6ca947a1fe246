//! The dialog with the client that called an agent: what its run asks a person is asked there. A legacy client is asked in
//! its session while the call lasts, one whose call became a task by that task, any other modern one by the result of the
//! call, which it makes again with the answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, PrincipalId, Problem, random};
use toolcrib_call::{ClientDialog, ClientRound, Invocation, OwnTask};
use toolcrib_protocol::ask::{self, InputKind, InputRequest, InputRequired};
use toolcrib_protocol::{Capabilities, Raw, Revision, json as wire};
use toolcrib_session::{Channel, QuestionError, Session};

use super::keep;
use super::question::{Question, folded};
use super::source::{Inner, Outcome};

/// How long a person may take for one answer.
const ANSWER: Duration = Duration::from_secs(10 * 60);
/// How often is looked again for what a client can be asked.
const AGAIN: Duration = Duration::from_secs(1);
/// How often is looked whether the question still waits.
const LOOK: Duration = Duration::from_millis(500);

/// A client that can be asked.
pub(super) struct Dialog {
    way: Way,
    revision: Revision,
    by: PrincipalId,
    /// What was asked and not answered: it is not asked again.
    asked: HashSet<(String, String, usize)>,
}

enum Way {
    Session(Arc<Session>, Option<Channel>),
    Task(OwnTask),
    Rounds(ClientRound),
}

/// What came of asking.
pub(super) enum QuestionOutcome {
    /// The run may have gone on.
    Here,
    /// The client is asked by this result.
    ByResult(Raw),
    /// There is nothing that this client can be asked now.
    Nothing,
}

/// What a client said to one question.
enum ClientAnswer {
    Given(Raw),
    /// It did not answer, or refused to.
    Nothing,
    /// There was no way to ask it right now.
    NotAsked,
}

/// What a client gives back that is asked by results: which question of which run it answers.
struct QuestionState {
    /// The run of the call.
    run: String,
    /// The run that asks: that one, or one below it.
    asking: String,
    what: String,
}

/// The run of a call that a client makes again.
pub(super) struct Return {
    pub(super) run: String,
    /// The person closed the window: the run waits on.
    pub(super) is_closed: bool,
}

// === impl QuestionState ===

impl QuestionState {
    fn text(&self) -> Raw {
        Raw::from_value(&json!(format!("{} {} {}", self.run, self.asking, self.what)))
    }

    fn read(state: &Raw) -> Option<Self> {
        let text = wire::text(state.as_str())?;
        let mut parts = text.splitn(3, ' ').map(str::to_owned);
        Some(Self { run: parts.next()?, asking: parts.next()?, what: parts.next()? })
    }
}

// === impl Dialog ===

impl Dialog {
    /// With the client that stands behind a call, if it shows forms or opens pages.
    pub(super) fn of(invocation: &Invocation) -> Option<Self> {
        let way = match (&invocation.dialog, &invocation.caller.session) {
            (ClientDialog::Task(task), _) => Way::Task(task.clone()),
            (_, Some(session)) => Way::Session(Arc::clone(session), invocation.reply.channel.clone()),
            (ClientDialog::Rounds(round), None) => Way::Rounds(round.clone()),
            (ClientDialog::None, None) => return None,
        };
        let revision = match &way {
            Way::Session(session, _) => session.revision,
            Way::Task(_) | Way::Rounds(_) => invocation.caller.revision,
        };
        let (by, asked) = (invocation.caller.principal.id.clone(), HashSet::new());
        Some(Self { way, revision, by, asked }).filter(|dialog| dialog.offers().form || dialog.offers().url)
    }

    fn offers(&self) -> &Capabilities {
        match &self.way {
            Way::Session(session, _) => session.relayed(),
            Way::Task(task) => task.capabilities(),
            Way::Rounds(round) => &round.capabilities,
        }
    }

    /// Asks what a run that waits asks, and gives it the answer.
    ///
    /// # Errors
    /// The run cannot be read.
    pub(super) async fn ask(&mut self, inner: &Arc<Inner>, run: &str) -> Result<QuestionOutcome, Problem> {
        let entries = keep::entries(&inner.bridge.store, run).await?;
        let questions = inner.bridge.questions(&folded(run, &entries)?).await?;
        let fits = |question: &&Question| {
            let mut kinds = question.questions.iter().map(|(_, it)| InputKind::of(&it.method, &it.params));
            kinds.all(|kind| kind.is_some_and(|kind| kind.fits(self.offers())))
        };
        let key = |question: &Question| (question.run.clone(), question.what.clone(), entries.len());
        let Some(question) = questions.iter().filter(fits).find(|it| !self.asked.contains(&key(it))) else {
            return Ok(QuestionOutcome::Nothing);
        };
        if let Way::Rounds(_) = self.way {
            return Ok(QuestionOutcome::ByResult(self.result(run, question)));
        }
        let mut answers = Map::new();
        for (name, asked) in &question.questions {
            let answered = tokio::select! {
                answered = self.ask_one(asked) => answered,
                // Answered elsewhere, or ended: dropping the question takes it back.
                () = no_longer_waits(inner, question) => {
                    self.asked.insert(key(question));
                    return Ok(QuestionOutcome::Here);
                }
            };
            match answered {
                ClientAnswer::Given(answer) if answer.text("action").is_some_and(|action| action != "cancel") => {
                    answers.insert(name.clone(), answer.to_value());
                }
                // It may be asked later.
                ClientAnswer::NotAsked => return Ok(QuestionOutcome::Nothing),
                // The window was closed, or the client is gone: the run waits, and the question stays in it.
                ClientAnswer::Given(_) | ClientAnswer::Nothing => {
                    self.asked.insert(key(question));
                    return Ok(QuestionOutcome::Here);
                }
            }
        }
        self.asked.insert(key(question));
        match inner.bridge.take_answer(&self.by, question, &Value::Object(answers)).await {
            Ok(()) => inner.bridge.steps_on(question).await,
            Err(problem) => tracing::info!(run, %problem, "an answer of a client is of no use"),
        }
        Ok(QuestionOutcome::Here)
    }

    async fn ask_one(&self, asked: &InputRequest) -> ClientAnswer {
        match &self.way {
            Way::Session(session, channel) => {
                let asked = ask::question_for(self.revision, asked, &random::hex_128(), None);
                match session.ask(channel.as_ref(), &asked.method, asked.params, ANSWER).await {
                    Ok(Ok(answer)) => ClientAnswer::Given(answer),
                    Err(QuestionError::NoStream | QuestionError::Busy) => ClientAnswer::NotAsked,
                    Ok(Err(_)) | Err(_) => ClientAnswer::Nothing,
                }
            }
            Way::Task(task) => {
                let answer = task.ask(&ask::question_for(self.revision, asked, "", None)).await;
                answer.map_or(ClientAnswer::Nothing, ClientAnswer::Given)
            }
            Way::Rounds(_) => ClientAnswer::Nothing,
        }
    }

    /// The result that asks.
    fn result(&self, run: &str, question: &Question) -> Raw {
        let asked =
            |(key, asked): &(String, InputRequest)| (key.clone(), ask::question_for(self.revision, asked, "", None));
        let (asking, what) = (question.run.clone(), question.what.clone());
        let state = QuestionState { run: run.to_owned(), asking, what };
        let questions = question.questions.iter().map(asked).collect();
        InputRequired { questions, state: Some(state.text()) }.to_raw()
    }
}

/// What came of a run whose client is asked what the run asks.
pub(super) enum DialogOutcome {
    Run(Box<Outcome>),
    /// The client is asked by this result.
    Asks(Raw),
}

/// Waits for a run as [`Inner::outcome`] does, and asks its client whatever the run asks meanwhile that can be asked
/// there.
///
/// # Errors
/// As there.
pub(super) async fn outcome(
    inner: &Arc<Inner>,
    run: &str,
    patience: Duration,
    dialog: Option<Dialog>,
    mut seen: impl FnMut(u64),
) -> Result<DialogOutcome, Problem> {
    let Some(mut dialog) = dialog else {
        return inner.outcome(run, patience, seen).await.map(|outcome| DialogOutcome::Run(Box::new(outcome)));
    };
    let mut waited = Duration::ZERO;
    loop {
        let record = match inner.outcome(run, Duration::ZERO, &mut seen).await? {
            Outcome::Waits(record) => record,
            ended @ Outcome::Ended(_) => return Ok(DialogOutcome::Run(Box::new(ended))),
        };
        match dialog.ask(inner, run).await? {
            QuestionOutcome::Here => waited = Duration::ZERO,
            QuestionOutcome::ByResult(result) => return Ok(DialogOutcome::Asks(result)),
            QuestionOutcome::Nothing if waited >= patience || record.state.status == "paused" => {
                return Ok(DialogOutcome::Run(Box::new(Outcome::Waits(record))));
            }
            // It may ask something else in a while, or this in another way.
            QuestionOutcome::Nothing => waited += still_waits(inner, run).await,
        }
    }
}

/// Waits as long as a run waits for the same, or for a moment; how long.
async fn still_waits(inner: &Inner, run: &str) -> Duration {
    let mut waited = Duration::ZERO;
    while waited < AGAIN {
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
        if !inner.record(run).await.is_ok_and(|record| record.is_some_and(|it| it.state.status == "waiting")) {
            break;
        }
    }
    waited
}

/// The run to which a call leads that a client makes again, after it has taken the answers; `None` for a first call.
///
/// # Errors
/// The call leads to no run of this caller, agent and task; the answers do not fit.
pub(super) async fn came_back(
    inner: &Arc<Inner>,
    agent: &str,
    task: &str,
    invocation: &Invocation,
) -> Result<Option<Return>, Problem> {
    let ClientDialog::Rounds(ClientRound { state: Some(state), answers, .. }) = &invocation.dialog else {
        return Ok(None);
    };
    let wrong = || {
        Problem::new(Kind::InvalidParams, format!("`requestState` leads to no run of agent `{agent}`"))
            .hint("Call the agent without `requestState` and `inputResponses` to begin a run.")
    };
    let state = QuestionState::read(state).ok_or_else(wrong)?;
    let caller = &invocation.caller;
    let record = inner.record(&state.run).await?.ok_or_else(wrong)?;
    if record.principal != caller.principal.id || record.profile != caller.profile || record.agent != agent {
        return Err(wrong());
    }
    let entries = keep::entries(&inner.bridge.store, &state.run).await?;
    let run = folded(&state.run, &entries)?;
    // One that was begun for another run is answered through that one.
    if run.start().is_none_or(|start| start.task != task || start.parent.is_some()) {
        return Err(wrong());
    }
    let back = |is_closed| Ok(Some(Return { run: state.run.clone(), is_closed }));
    let questions = inner.bridge.questions(&run).await?;
    let asks = |question: &&Question| question.run == state.asking && question.what == state.what;
    let (Some(question), Some(answers)) = (questions.iter().find(asks), answers) else { return back(false) };
    let answers = answers.to_value();
    if answers.as_object().is_some_and(|all| all.values().any(|answer| answer["action"] == "cancel")) {
        return back(true);
    }
    inner.bridge.take_answer(&caller.principal.id, question, &answers).await?;
    inner.bridge.steps_on(question).await;
    back(false)
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
