//! Several messages in one array, for the one revision that has them.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use tokio::sync::mpsc;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Message;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::message::BadMessage;
use toolcrib_session::{Channel, STREAM_QUEUE};
use toolcrib_transport::http::body::Body;

use super::accept::Accept;
use super::exchange::{self, FinalMessage, StartedRequest};
use super::{Origin, session};
use crate::{Site, respond};

/// How many messages one batch may have.
const BATCH: usize = 50;

pub(super) async fn answer(site: &Arc<Site>, origin: &Origin, accept: Accept, body: &Bytes) -> Response<Body> {
    let rules = Rules::strict(site.limits.depth);
    let refuse = || respond::bad_request(&BadMessage::Batch.to_answer());
    let Ok(Some(id)) = origin.session_id() else { return refuse() };
    let session = match session(site, origin, Some(id), None) {
        Ok(session) if session.revision.has_batches() => session,
        Ok(_) => return refuse(),
        Err(response) => return *response,
    };
    let messages = match Message::parse_batch(body, rules) {
        Ok(messages) if messages.len() <= BATCH => messages,
        Ok(_) => {
            let problem = Problem::new(Kind::TooLarge, format!("a batch of more than {BATCH} messages"));
            return respond::refusal(&problem);
        }
        Err(bad) => return respond::bad_request(&bad.to_answer()),
    };
    let caller = origin.caller(&session);
    let asked = site.gateway.take_batch(&caller, messages);
    if asked.is_empty() {
        return respond::status(StatusCode::ACCEPTED);
    }
    let (channel, coming) = mpsc::channel(STREAM_QUEUE);
    let (gateway, snapshot) = (Arc::clone(&site.gateway), origin.snapshot.clone());
    let running = async move {
        let answers = gateway.batch(&snapshot, &caller, asked, &Channel::new(channel)).await;
        (!answers.is_empty()).then_some(FinalMessage::Batch(answers))
    };
    exchange::answer(site, Some(&session), accept, StartedRequest { running: Box::pin(running), messages: coming })
        .await
}
