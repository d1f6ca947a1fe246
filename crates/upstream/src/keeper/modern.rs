//! Modern servers: one `subscriptions/listen` for all that is wanted. Its filter is fixed, so another one is opened,
//! acknowledged, and only then the one before is left.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use toolcrib_protocol::error::METHOD_NOT_FOUND;
use toolcrib_protocol::subscription::Filter;
use toolcrib_protocol::{Capabilities, Notification, Raw, Request, RpcError, method, task};
use toolcrib_transport::{CallHandler, CallOptions, LinkError, Reply};

use crate::live::RequestMeta;
use crate::report::{Report, report_list_changed};
use crate::request::CallRequest;
use crate::subscribe::{Kind, Subscriptions, Verdict};

use super::Keeper;

/// How long a server may take to acknowledge. One that never does is listened to anyway.
const ACKNOWLEDGE: Duration = Duration::from_secs(10);
/// A stream that lived this long has earned a fresh start of the waits.
const STABLE: Duration = Duration::from_secs(60);

type Outcome = Result<Result<Raw, RpcError>, LinkError>;

/// One stream that is open, or being opened.
struct Stream {
    asked: Filter,
    granted: watch::Receiver<Option<Filter>>,
    /// Ends with the stream; dropping it closes the stream.
    call: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    since: Instant,
}

/// The outcome of a stream that was being opened.
enum OpenOutcome {
    Granted(Filter),
    Silent,
    Ended(Outcome),
}

/// Takes what is said on one stream.
struct StreamHandler {
    subscriptions: Arc<Subscriptions>,
    reports: mpsc::Sender<Report>,
    generation: u64,
    asked: Filter,
    granted: watch::Sender<Option<Filter>>,
}

impl CallHandler for StreamHandler {
    fn notification(&self, notification: Notification) {
        if notification.method == method::SUBSCRIPTION_ACKNOWLEDGED {
            // Whatever it says more than once, or beyond what was asked, does not count.
            let granted =
                Filter::read(&notification.params).map_or_else(|_| Filter::default(), |it| it.meet(&self.asked));
            self.granted.send_if_modified(|known| {
                let first = known.is_none();
                known.get_or_insert(granted);
                first
            });
            return;
        }
        if !self.asked.admits(&notification) {
            return;
        }
        match notification.method.as_str() {
            method::TOOLS_CHANGED | method::PROMPTS_CHANGED | method::RESOURCES_CHANGED => {
                report_list_changed(&self.subscriptions, &self.reports, self.generation);
            }
            method::RESOURCE_UPDATED => {
                if let Some(uri) = notification.params.text("uri") {
                    self.subscriptions.updated(&uri);
                }
            }
            method::TASK_CHANGED => self.subscriptions.task(notification.params),
            _ => {}
        }
    }

    fn request(&self, request: Request, reply: Reply) {
        reply.send_default(&request);
    }
}

impl Stream {
    async fn opened(&mut self) -> OpenOutcome {
        let until = self.since + ACKNOWLEDGE;
        tokio::select! {
            biased;
            granted = self.granted.wait_for(Option::is_some) => {
                OpenOutcome::Granted(granted.map(|granted| granted.clone().unwrap_or_default()).unwrap_or_default())
            }
            outcome = &mut self.call => OpenOutcome::Ended(outcome),
            () = tokio::time::sleep_until(until) => OpenOutcome::Silent,
        }
    }
}

/// The end of the current stream; never, where there is none. Cancel-safe, as the stream stays where it is.
async fn ended(stream: &mut Option<Stream>) -> Outcome {
    match stream {
        Some(stream) => (&mut stream.call).await,
        None => std::future::pending().await,
    }
}

async fn opened(stream: &mut Option<Stream>) -> OpenOutcome {
    match stream {
        Some(stream) => stream.opened().await,
        None => std::future::pending().await,
    }
}

impl Keeper {
    pub(super) async fn keep_modern(&self) {
        let mut changed = self.subscriptions.changes();
        let (mut current, mut next): (Option<Stream>, Option<Stream>) = (None, None);
        let mut backoff = Self::backoff();
        let mut retry: Option<Instant> = None;
        // Whether changes of lists may have been missed.
        let mut missed = false;
        loop {
            changed.borrow_and_update();
            let wanted = self.wanted();
            if wanted.is_empty() {
                (current, next) = (None, None);
                self.settle_lists();
            } else if next.is_none() && retry.is_none() && current.as_ref().is_none_or(|it| it.asked != wanted) {
                next = Some(self.open(wanted));
            }
            tokio::select! {
                biased;
                opened = opened(&mut next) => {
                    let stream = next.take();
                    let outcome = match opened {
                        OpenOutcome::Granted(granted) => Ok(granted),
                        OpenOutcome::Silent => Ok(Filter::default()),
                        OpenOutcome::Ended(outcome) => Err(outcome),
                    };
                    let began = self.settle_lists();
                    match (outcome, stream) {
                        (Ok(granted), Some(stream)) => {
                            if missed || (current.is_none() && began) {
                                report_list_changed(&self.subscriptions, &self.reports, self.live.generation);
                            }
                            missed = false;
                            self.grant(&stream.asked, &granted);
                            // Now, and not before, the one that it replaces is left.
                            current = Some(stream);
                        }
                        (Err(Ok(Err(error))), _) if error.code == METHOD_NOT_FOUND && current.is_none() => {
                            return self.refuse_on(changed).await;
                        }
                        (Err(outcome), stream) => {
                            if let (Ok(Err(error)), Some(stream)) = (outcome, stream) {
                                self.refuse(&stream.asked, current.as_ref().map(|it| &it.asked), &error);
                            }
                            missed |= current.is_none();
                            retry = Some(Instant::now() + backoff.next_wait());
                        }
                        (Ok(_), None) => {}
                    }
                }
                _ = ended(&mut current) => {
                    let lived = current.take().map(|stream| stream.since.elapsed());
                    if lived.is_some_and(|lived| lived >= STABLE) {
                        backoff.reset();
                    }
                    missed = true;
                    self.subscriptions.lapse();
                    retry = Some(Instant::now() + backoff.next_wait());
                }
                _ = changed.changed() => {}
                () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => retry = None,
            }
        }
    }

    fn wanted(&self) -> Filter {
        let texts = |kind| self.subscriptions.wanted(kind).keys().map(ToString::to_string).collect();
        Filter { uris: texts(Kind::Resource), tasks: texts(Kind::Task), ..self.lists.clone() }
    }

    fn open(&self, asked: Filter) -> Stream {
        let (sender, granted) = watch::channel(None);
        let handler = Arc::new(StreamHandler {
            subscriptions: Arc::clone(&self.subscriptions),
            reports: self.reports.clone(),
            generation: self.live.generation,
            asked: asked.clone(),
            granted: sender,
        });
        let (live, context, caller) = (Arc::clone(&self.live), Arc::clone(&self.context), self.caller.clone());
        let params = Raw::from_value(&serde_json::json!({ "notifications": asked.to_raw().to_value() }));
        // Anyone who watches tasks says that it knows them (SEP-2663, notifications).
        let extensions = format!(r#"{{"{}":{{}}}}"#, task::EXTENSION);
        let extensions = (!asked.tasks.is_empty()).then_some(extensions);
        let capabilities = Capabilities { extensions, ..Capabilities::NONE };
        let call = Box::pin(async move {
            let id = live.link.next_id();
            let said = RequestMeta { capabilities: &capabilities, ..RequestMeta::OURS };
            let mut options = CallOptions { handler: Some(handler), ..CallOptions::within(Duration::MAX) };
            if let Some(call) = &caller {
                let request =
                    CallRequest { context: &context, live: &live, method: method::LISTEN, params: &params, call };
                // What the connection itself proves is another one's.
                (options.headers, options.proves) = (request.headers().await?, true);
            }
            live.link.call(id, method::LISTEN, live.params(id, &params, &said), options).await
        });
        Stream { asked, granted, call, since: Instant::now() }
    }

    /// Settles what was asked by what of it was granted.
    fn grant(&self, asked: &Filter, granted: &Filter) {
        for (kind, asked, granted) in
            [(Kind::Resource, &asked.uris, &granted.uris), (Kind::Task, &asked.tasks, &granted.tasks)]
        {
            for key in asked {
                let verdict = if granted.contains(key) { Verdict::Accepted } else { Verdict::Refused(None) };
                self.subscriptions.settle(kind, key, &verdict);
            }
        }
    }

    /// Refuses what was asked and is not told by the stream that continues.
    fn refuse(&self, asked: &Filter, told: Option<&Filter>, error: &RpcError) {
        let verdict = Verdict::Refused(Some(error.clone()));
        let empty = Filter::default();
        let told = told.unwrap_or(&empty);
        for uri in asked.uris.difference(&told.uris) {
            self.subscriptions.settle(Kind::Resource, uri, &verdict);
        }
        for task in asked.tasks.difference(&told.tasks) {
            self.subscriptions.settle(Kind::Task, task, &verdict);
        }
    }
}
