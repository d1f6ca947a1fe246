//! Legacy servers: `resources/subscribe` and `resources/unsubscribe`, one request for each resource.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::Instant;
use toolcrib_protocol::{Raw, RpcError, method};
use toolcrib_transport::LinkError;

use crate::context::Order;
use crate::subscribe::{Kind, Verdict};

use super::Keeper;

/// How long one request may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How many requests are made at a time.
const AT_A_TIME: usize = 8;

/// What the server was asked, by the number of the item, and its verdict.
struct SentRequest {
    number: u64,
    refused: Option<RpcError>,
}

/// What is still to be asked.
enum Step {
    Subscribe(Arc<str>, u64),
    Unsubscribe(Arc<str>),
}

impl Keeper {
    pub(super) async fn keep_legacy(&self) {
        let subscriptions = &self.subscriptions;
        let mut changed = subscriptions.changes();
        if !self.subscribes {
            return self.refuse_on(changed).await;
        }
        let mut asked = BTreeMap::new();
        let mut backoff = Self::backoff();
        loop {
            changed.borrow_and_update();
            let failed = self.catch_up(&mut asked).await;
            let wait = match failed {
                None => {
                    backoff.reset();
                    None
                }
                // A new connection is needed, by whoever keeps it.
                Some(LinkError::SessionLost) if self.caller.is_some() => return,
                Some(LinkError::SessionLost) => {
                    // A full queue holds an order that ends this connection, or calls will find the same out.
                    self.context.order(Order::Reopen(self.live.generation, None));
                    Some(backoff.next_wait())
                }
                Some(_) => Some(backoff.next_wait()),
            };
            let until = wait.map(|wait| Instant::now() + wait);
            tokio::select! {
                _ = changed.changed(), if until.is_none() => {}
                () = tokio::time::sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            }
        }
    }

    /// Makes what the server was asked equal to what is wanted. Gives the failure that kept it from that.
    async fn catch_up(&self, asked: &mut BTreeMap<Arc<str>, SentRequest>) -> Option<LinkError> {
        let wanted = self.subscriptions.wanted(Kind::Resource);
        for task in self.subscriptions.wanted(Kind::Task).keys() {
            self.subscriptions.settle(Kind::Task, task, &Verdict::Refused(None));
        }
        asked.retain(|uri, asked| wanted.contains_key(uri) || asked.refused.is_none());
        let mut steps: Vec<Step> =
            asked.keys().filter(|uri| !wanted.contains_key(*uri)).cloned().map(Step::Unsubscribe).collect();
        for (uri, number) in &wanted {
            match asked.get(uri) {
                // Someone else asks for it now: what was refused then may be there.
                Some(before) if before.number == *number || before.refused.is_none() => self.note(uri, before),
                _ => steps.push(Step::Subscribe(Arc::clone(uri), *number)),
            }
        }
        let mut answers = stream::iter(steps).map(|step| self.take(step)).buffer_unordered(AT_A_TIME);
        while let Some((step, outcome)) = answers.next().await {
            // The rest, and what is on its way, is asked again later: both may be asked twice.
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) => return Some(error),
            };
            match step {
                Step::Subscribe(uri, number) => {
                    let now = SentRequest { number, refused: outcome.err() };
                    self.note(&uri, &now);
                    asked.insert(uri, now);
                }
                Step::Unsubscribe(uri) => drop(asked.remove(&uri)),
            }
        }
        None
    }

    fn note(&self, uri: &str, asked: &SentRequest) {
        let verdict = asked.refused.clone().map_or(Verdict::Accepted, |error| Verdict::Refused(Some(error)));
        self.subscriptions.settle(Kind::Resource, uri, &verdict);
    }

    async fn take(&self, step: Step) -> (Step, Result<Result<Raw, RpcError>, LinkError>) {
        let (method, uri) = match &step {
            Step::Subscribe(uri, _) => (method::RESOURCES_SUBSCRIBE, uri),
            Step::Unsubscribe(uri) => (method::RESOURCES_UNSUBSCRIBE, uri),
        };
        let params = Raw::from_value(&serde_json::json!({ "uri": &**uri }));
        let outcome = self.ask(method, &params, ANSWER).await;
        (step, outcome)
    }
}
