//! Questions and answers, with a client made of a queue.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::{ManualClock, ProfileName};
use toolcrib_protocol::Revision;

use super::*;
use crate::principal::Principal;
use crate::session::Sessions;

const LONG: Duration = Duration::from_secs(60);

struct Desk {
    sessions: Sessions,
    session: Arc<Session>,
    scope: Scope,
}

impl Desk {
    fn new() -> Self {
        let sessions = Sessions::new(9, LONG, Arc::new(ManualClock::default()));
        let who = Principal::member("p");
        let session = sessions.open(who, ProfileName::new("a").unwrap(), Revision::LATEST_LEGACY).unwrap();
        Self { sessions, session, scope: Scope::new() }
    }

    /// Asks on a channel in its own task.
    fn ask(&self, queue: &mpsc::Sender<Bytes>) -> tokio::task::JoinHandle<Result<Outcome, QuestionError>> {
        let (session, channel) = (Arc::clone(&self.session), Channel::new(queue.clone()));
        let asked = async move { session.ask(Some(&channel), method::ROOTS_LIST, Raw::empty_object(), LONG).await };
        self.scope.spawn(asked)
    }

    fn answer(&self, id: &str, result: &str) -> bool {
        let id = Id::from_raw(raw(id)).unwrap();
        self.session.answer(Answer::ok(id, raw(result)))
    }
}

fn raw(text: &str) -> Raw {
    Raw::parse(Bytes::copy_from_slice(text.as_bytes()), json::Rules::strict(9)).unwrap()
}

async fn next(queue: &mut mpsc::Receiver<Bytes>) -> serde_json::Value {
    serde_json::from_slice(&queue.recv().await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_question_gets_the_one_answer_that_is_its_own() {
    let desk = Desk::new();
    let (sender, mut queue) = mpsc::channel(4);
    let first = desk.ask(&sender);
    assert_eq!(next(&mut queue).await["id"], "toolcrib-1");
    let second = desk.ask(&sender);
    let question = next(&mut queue).await;
    assert_eq!((&question["id"], &question["method"]), (&json!("toolcrib-2"), &json!("roots/list")));
    for wrong in ["\"toolcrib-3\"", "3", "0", "\"toolcrib-+1\"", "\"toolcrib-\"", "\"x-1\"", "-1"] {
        assert!(!desk.answer(wrong, "0"), "{wrong}");
    }
    assert!(desk.answer("\"toolcrib-2\"", "2"));
    assert!(!desk.answer("\"toolcrib-2\"", "3"), "the first answer counts");
    assert!(desk.answer("1.0", "1"), "the digits decide");
    assert_eq!(first.await.unwrap().unwrap().unwrap().as_str(), "1");
    assert_eq!(second.await.unwrap().unwrap().unwrap().as_str(), "2");
    assert!(queue.is_empty(), "what was answered is not taken back");
    let error = Answer::error(None, RpcError::new(-1, "m"));
    assert!(!desk.session.answer(error));
}

#[tokio::test]
async fn an_error_is_an_answer_too() {
    let desk = Desk::new();
    let (sender, mut queue) = mpsc::channel(4);
    let asked = desk.ask(&sender);
    next(&mut queue).await;
    let id = Id::from_raw(raw("\"toolcrib-1\"")).unwrap();
    assert!(desk.session.answer(Answer::error(Some(id), RpcError::new(-1, "no"))));
    assert_eq!(asked.await.unwrap().unwrap().unwrap_err().message, "no");
}

#[tokio::test(start_paused = true)]
async fn what_no_one_waits_for_any_more_is_taken_back() {
    let desk = Desk::new();
    let (sender, mut queue) = mpsc::channel(4);
    let dropped = desk.ask(&sender);
    next(&mut queue).await;
    dropped.abort();
    let cancelled = next(&mut queue).await;
    assert_eq!(cancelled["method"], method::CANCELLED);
    assert_eq!(cancelled["params"]["requestId"], "toolcrib-1");
    assert!(!desk.answer("\"toolcrib-1\"", "1"));
    let late = desk.ask(&sender);
    next(&mut queue).await;
    assert_eq!(late.await.unwrap(), Err(QuestionError::Timeout));
    assert_eq!(next(&mut queue).await["params"]["requestId"], "toolcrib-2");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_never_left_is_not_taken_back() {
    let desk = Desk::new();
    let (sender, mut queue) = mpsc::channel(1);
    sender.try_send("full".into()).unwrap();
    assert_eq!(desk.ask(&sender).await.unwrap(), Err(QuestionError::Timeout));
    assert_eq!(queue.recv().await.unwrap(), "full");
    assert!(queue.is_empty());
}

#[tokio::test]
async fn a_client_that_is_gone_is_not_waited_for() {
    let desk = Desk::new();
    let none = desk.session.ask(None, method::ROOTS_LIST, Raw::empty_object(), LONG).await;
    assert_eq!(none, Err(QuestionError::NoStream));
    let (sender, queue) = mpsc::channel(4);
    drop(queue);
    assert_eq!(desk.ask(&sender).await.unwrap(), Err(QuestionError::Gone));
    let (sender, mut queue) = mpsc::channel(4);
    let asked = desk.ask(&sender);
    next(&mut queue).await;
    desk.sessions.close(&desk.session);
    assert_eq!(asked.await.unwrap(), Err(QuestionError::Gone));
    assert_eq!(desk.ask(&sender).await.unwrap(), Err(QuestionError::Gone));
}

#[tokio::test]
async fn questions_are_bounded() {
    let desk = Desk::new();
    let (sender, mut queue) = mpsc::channel(QUESTIONS);
    let mut asked = Vec::new();
    for _ in 0..QUESTIONS {
        asked.push(desk.ask(&sender));
        next(&mut queue).await;
    }
    assert_eq!(desk.ask(&sender).await.unwrap(), Err(QuestionError::Busy));
    assert!(desk.answer("\"toolcrib-1\"", "1"));
    let fits = desk.ask(&sender);
    next(&mut queue).await;
    desk.sessions.close(&desk.session);
    assert_eq!(fits.await.unwrap(), Err(QuestionError::Gone));
}
