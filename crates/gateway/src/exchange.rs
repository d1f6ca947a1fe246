//! One call to a server with all that may come in between: what the server asks reaches the client of its caller in the
//! client's era, and the answers reach the server.
//!
//! | client | server | what is done |
//! |---|---|---|
//! | legacy | legacy | questions go to the session and the answers back, while the call runs |
//! | legacy | modern | its result asks: the session is asked, and the call is made again with the answers |
//! | modern | modern | its result asks: that is the answer, and the client makes the call again |
//! | modern | legacy | the call is parked while the client answers ([`crate::parking`]) |

mod aside;
mod behind;
mod received;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use toolcrib_base::{Kind, Problem, random};
use toolcrib_protocol::ask::{self, Asked, InputRequired, Question};
use toolcrib_protocol::error::{HEADER_MISMATCH, URL_REQUIRED};
use toolcrib_protocol::rounds::{Rounds, Step};
use toolcrib_protocol::{Capabilities, Era, Raw, RpcError, method};
use toolcrib_session::{Channel, Session};
use toolcrib_upstream::server::Call;
use toolcrib_upstream::{CallHandler, Client, Server};

use crate::dispatch::{self, Ended, Outgoing};
use crate::environment::NeedsEnvironment;
use crate::passage::Passage;
use crate::request::Passing;

pub(crate) use aside::{Asker, Hearing, SessionAside, Way, refuse};
pub(crate) use behind::Behind;

/// How long one call of a legacy client may take with all its rounds.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How many calls may wait for answers of legacy clients at a time, as many as may wait for one server. They hold no
/// place at it meanwhile.
pub(crate) const ASKING: usize = 8_192;
/// How long a legacy client may take for one answer: people read before they agree.
pub(crate) const ANSWER: Duration = Duration::from_secs(10 * 60);
/// The wait before a call is made again for a server that only wanted it later.
const LATER: Duration = Duration::from_millis(200);

/// What is to be called.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) server: &'a Server,
    pub(crate) method: &'a str,
    pub(crate) params: Raw,
    /// What of the arguments is mirrored in headers, for modern servers.
    pub(crate) headers: HeaderMap,
}

/// How a call ended, and its passage where it has not been finished elsewhere.
#[derive(Debug)]
pub(crate) struct Exchanged {
    pub(crate) ended: Ended,
    pub(crate) passage: Option<Passage>,
}

impl Passing<'_> {
    /// Calls the server that the passage was given for.
    pub(crate) async fn exchange(&self, passage: Passage, wanted: Wanted<'_>) -> Exchanged {
        let (server, method, asked) = (wanted.server, wanted.method, wanted.params.clone());
        let Exchanged { ended, passage } = self.exchange_as_is(passage, wanted).await;
        Exchanged { ended: self.received(server, method, &asked, ended), passage }
    }

    async fn exchange_as_is(&self, passage: Passage, wanted: Wanted<'_>) -> Exchanged {
        match &self.caller.session {
            None if self.parks(wanted.server, &wanted.params) => Box::pin(self.park(passage, wanted)).await,
            session => {
                let ended = match session {
                    Some(session) => self.in_rounds(&passage, session, wanted).await,
                    None => self.once(&passage, &wanted, wanted.params.clone()).await,
                };
                Exchanged { ended, passage: Some(passage) }
            }
        }
    }

    /// Whether a server is spoken to in the modern era for this caller. A session with a server is what only the legacy
    /// era knows, whoever takes part in it.
    pub(crate) fn speaks_modern(&self, server: &Server) -> bool {
        let wanted = if self.behind.conversation.is_some() { Era::Legacy } else { self.caller.revision.era() };
        server.era_for(wanted) == Some(Era::Modern)
    }

    /// Whether a call may have to wait for answers of a modern client while it runs, or belongs to one that does: a retry
    /// must find that one, whatever its client declares by now and of whichever era the server is.
    fn parks(&self, server: &Server, params: &Raw) -> bool {
        let state = || ask::state(params);
        self.caller.revision.era() == Era::Modern
            && match self.speaks_modern(server) {
                true => state().is_some_and(|state| self.gateway.parking.knows(&state)),
                false => self.behind.capabilities.can_be_asked() || state().is_some(),
            }
    }

    /// One call, as it is.
    pub(crate) async fn once(&self, passage: &Passage, wanted: &Wanted<'_>, params: Raw) -> Ended {
        let hearing = self.hearing(wanted.server);
        let call = Call {
            client: self.client_of(wanted.server),
            wants_progress: self.way.token.is_some(),
            handler: hearing.clone().map(|hearing| {
                let handler: Arc<dyn CallHandler> = hearing;
                handler
            }),
            headers: wanted.headers.clone(),
            ..Call::default()
        };
        let environment = self.environment_for(wanted.server);
        let outgoing = Outgoing { server: wanted.server, method: wanted.method, params, environment, call };
        let ended = dispatch::call(passage, self.caller, self.running, outgoing).await;
        match hearing.and_then(|hearing| hearing.missing()) {
            // The call failed because the client of this era did not declare what it must.
            Some(question) if self.caller.session.is_none() && has_failed(&ended) => {
                Ended::Answered(Err(question.missing()))
            }
            _ => self.checked(wanted.server, ended),
        }
    }

    /// What the profile adds to the environment of a server.
    pub(crate) fn environment_for(&self, server: &Server) -> Option<NeedsEnvironment> {
        self.gateway.servers.environment(&self.view.profile, &server.config().name)
    }

    /// For whom a call of a server is made.
    pub(crate) fn client_of(&self, server: &Server) -> Client {
        let session = self.caller.session.as_ref().filter(|_| self.behind.capabilities.can_be_asked());
        let own = session.map(|session| {
            let from = self.asks_for(server);
            let own: Arc<dyn CallHandler> = SessionAside::new(session, self.gateway.servers.scope(), from);
            own
        });
        let mut client = self.behind.client(self.caller, own);
        if self.way.channel.is_none() && self.caller.session.is_none() {
            // Nobody would hear them.
            client.level = None;
        }
        client
    }

    /// What takes the server's words in the course of the call; nothing where nobody would hear them.
    fn hearing(&self, server: &Server) -> Option<Arc<Hearing>> {
        let channel = self.way.channel.is_some();
        let asked = match self.caller.session {
            Some(_) => self.behind.capabilities.can_be_asked(),
            // What a legacy server asks in vain is what the client must be told.
            None => self.caller.revision.era() == Era::Modern && !self.speaks_modern(server),
        };
        (channel || asked).then(|| {
            // Nothing that such a server asks would fit a client that can be asked nothing.
            let session = self.caller.session.as_ref().filter(|_| self.behind.capabilities.can_be_asked());
            let scope = self.gateway.servers.scope();
            let asker = session.map(|session| Asker::new(session, scope.clone(), self.asks_for(server)));
            Arc::new(Hearing::new(self.way.clone(), self.caller.revision, self.behind.clone(), asker))
        })
    }

    /// The name that a user reads before a question, where more than one server could be asking.
    pub(crate) fn asks_for(&self, server: &Server) -> Option<String> {
        let several = self.view.servers.len() > 1;
        several.then(|| {
            let name = &server.config().name;
            let definition = self.view.servers.iter().find(|(definition, _)| definition.name == *name);
            let title = definition.and_then(|(definition, _)| definition.title.clone());
            title.unwrap_or_else(|| name.to_string())
        })
    }

    /// What a modern server asks must fit what the client declared, and is written for it.
    pub(crate) fn checked(&self, server: &Server, ended: Ended) -> Ended {
        if let Ended::Answered(Err(error)) = &ended
            && error.code == URL_REQUIRED
            && !self.caller.revision.has_url_error()
        {
            return self.url_required(error);
        }
        let Ended::Answered(Ok(result)) = &ended else { return ended };
        if self.caller.session.is_some() || !ask::is_input_required(result) {
            return ended;
        }
        let mut required = match InputRequired::read(result) {
            Ok(required) => required,
            Err(why) => return Ended::Unanswered(odd(server, &why)),
        };
        if let Some(error) = unfit(&required.questions, &self.behind.capabilities) {
            return Ended::Answered(Err(error));
        }
        let Some(from) = self.asks_for(server) else { return ended };
        for (_, asked) in &mut required.questions {
            *asked = ask::question_for(self.caller.revision, asked, "", Some(&from));
        }
        let asked = required.to_raw();
        let edits = asked.get("inputRequests");
        let edited = edits.as_ref().map_or_else(
            || result.clone(),
            |requests| result.edit(&[("inputRequests", toolcrib_protocol::raw::Edit::Set(requests.as_str()))]),
        );
        Ended::Answered(Ok(edited))
    }

    /// A legacy server that wants a page opened first: a modern client is asked for it in the way of its era, any other
    /// reads where to go.
    fn url_required(&self, error: &RpcError) -> Ended {
        let pages = ask::pages(error);
        let modern = self.caller.revision.era() == Era::Modern;
        if modern && self.behind.capabilities.url && !pages.is_empty() {
            let questions = pages.into_iter().enumerate().map(|(index, asked)| (format!("page-{}", index + 1), asked));
            let required = InputRequired { questions: questions.collect(), state: None };
            return Ended::Answered(Ok(required.to_raw()));
        }
        let urls: Vec<String> = pages.iter().filter_map(|page| page.params.text("url")).collect();
        Ended::Unanswered(
            Problem::new(Kind::Forbidden, error.message.clone())
                .hint(format!("Open {} first, then make the call again.", urls.join(" and "))),
        )
    }

    /// A legacy client and a server of whichever era: what a modern one needs is asked of the session.
    async fn in_rounds(&self, passage: &Passage, session: &Arc<Session>, wanted: Wanted<'_>) -> Ended {
        if self.behind.capabilities.can_be_asked() {
            return Box::pin(self.rounds(passage, session, wanted, None)).await;
        }
        // Nobody is asked in its course, so its own deadline is enough, and mostly its first round is all.
        let first = self.once(passage, &wanted, wanted.params.clone()).await;
        match &first {
            Ended::Answered(Ok(result)) if ask::is_input_required(result) => {
                Box::pin(self.rounds(passage, session, wanted, Some(first))).await
            }
            _ => first,
        }
    }

    /// All rounds of a call, or those after the `first`.
    async fn rounds(
        &self,
        passage: &Passage,
        session: &Arc<Session>,
        wanted: Wanted<'_>,
        mut first: Option<Ended>,
    ) -> Ended {
        let odd = |why: &str| Ended::Unanswered(odd(wanted.server, why));
        let rounds = async {
            let mut rounds = Rounds::new(wanted.params.clone());
            let mut params = wanted.params.clone();
            loop {
                let ended = match first.take() {
                    Some(first) => first,
                    None => self.once(passage, &wanted, params).await,
                };
                let Ended::Answered(Ok(result)) = &ended else { return ended };
                let questions = match rounds.take(result) {
                    Step::Done => return ended,
                    Step::Odd(why) => return odd(&why),
                    Step::Later => {
                        tokio::time::sleep(LATER).await;
                        Vec::new()
                    }
                    Step::Ask(questions) => questions,
                };
                if let Some(error) = unfit(&questions, &self.behind.capabilities) {
                    return Ended::Answered(Err(error));
                }
                let place = match self.gateway.asking.try_acquire() {
                    Ok(place) if !questions.is_empty() => Some(place),
                    Err(_) if !questions.is_empty() => {
                        let message = format!(
                            "the limit of {ASKING} calls that wait for answers of their clients is \
                                               reached"
                        );
                        let problem = Problem::new(Kind::Busy, message);
                        return Ended::Unanswered(problem.hint("Answer some of them, or wait for them to end."));
                    }
                    _ => None,
                };
                let answers = match self.ask_session(session, wanted.server, questions).await {
                    Ok(answers) => answers,
                    Err(problem) => return Ended::Unanswered(problem),
                };
                drop(place);
                params = rounds.next(&answers);
            }
        };
        tokio::time::timeout(LONGEST, rounds).await.unwrap_or_else(|_| odd("it asked for too long"))
    }

    async fn ask_session(
        &self,
        session: &Arc<Session>,
        server: &Server,
        questions: Vec<(String, Asked)>,
    ) -> Result<Vec<(String, Raw)>, Problem> {
        let from = self.asks_for(server);
        let mut answers = Vec::with_capacity(questions.len());
        // One after the other: people answer one question at a time.
        for (key, asked) in questions {
            let asked = ask::question_for(session.revision, &asked, &random::hex_128(), from.as_deref());
            let asking = ask_one(session, self.way.channel.as_ref(), &asked);
            let answered = match self.running {
                None => asking.await,
                Some(running) => tokio::select! {
                    biased;
                    () = running.cancelled() => return Err(Problem::new(Kind::Cancelled, "the call was cancelled")),
                    answered = asking => answered,
                },
            };
            answers.push((key, answered?));
        }
        Ok(answers)
    }
}

/// Asks a legacy client; an answer that is an error becomes one that a modern server can read.
async fn ask_one(session: &Session, channel: Option<&Channel>, asked: &Asked) -> Result<Raw, Problem> {
    let answered = session.ask(channel, &asked.method, asked.params.clone(), ANSWER).await;
    match answered {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) | Err(_) if asked.method == method::ELICITATION_CREATE => {
            Ok(Raw::from_value(&serde_json::json!({ "action": "cancel" })))
        }
        Ok(Err(error)) => {
            let message = format!("the client refused `{}`: {}", asked.method, error.message);
            Err(Problem::new(Kind::InvalidParams, message))
        }
        Err(unasked) => {
            let message = format!("`{}` was not answered: {unasked}", asked.method);
            Err(Problem::new(Kind::Unavailable, message))
        }
    }
}

/// The error for a question that the client has not declared to answer.
pub(crate) fn unfit(questions: &[(String, Asked)], capabilities: &Capabilities) -> Option<RpcError> {
    questions.iter().find_map(|(_, asked)| match Question::of(&asked.method, &asked.params) {
        Some(question) if question.fits(capabilities) => None,
        Some(question) => Some(question.missing()),
        None => {
            let method: String = asked.method.chars().take(100).collect();
            let problem = Problem::new(Kind::BadServer, format!("the server asks `{method}`, which no client answers"));
            Some(RpcError::from(&problem))
        }
    })
}

/// Whether a call came to nothing, in whichever form its server says so.
pub(crate) fn has_failed(ended: &Ended) -> bool {
    match ended {
        Ended::Answered(Ok(result)) => toolcrib_view::reply::is_failure(result),
        Ended::Answered(Err(_)) => true,
        _ => false,
    }
}

fn odd(server: &Server, why: &str) -> Problem {
    Problem::new(Kind::BadServer, format!("server `{}` needs input: {why}", server.config().name))
}

/// Whether a modern server refused a call because of its headers, so that what is known of the tool is out of date.
pub(crate) fn is_out_of_date(ended: &Ended) -> bool {
    matches!(ended, Ended::Answered(Err(error)) if error.code == HEADER_MISMATCH)
}
