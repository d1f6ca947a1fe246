//! A call during which the server may ask: the time in which people answer does not count against its deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use toolcrib_protocol::{Notification, Raw, Request, RpcError};
use toolcrib_transport::{CallHandler, CallOptions, LinkError, Reply};

use crate::live::{LiveConnection, RequestMeta};

/// How long one question may wait for its answer. Servers give up after a minute or so; this bounds those that do not.
const ANSWER: Duration = Duration::from_secs(15 * 60);

/// How long one call may take with all its questions.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Counts the questions that wait.
struct QuestionCounter {
    inner: Arc<dyn CallHandler>,
    waiting: watch::Sender<usize>,
}

/// One question that waits, until it is answered or forgotten.
struct OpenQuestion(watch::Sender<usize>);

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl CallHandler for QuestionCounter {
    fn notification(&self, notification: Notification) {
        self.inner.notification(notification);
    }

    fn afterwards(&self) -> Option<Arc<dyn CallHandler>> {
        self.inner.afterwards()
    }

    fn request(&self, request: Request, reply: Reply) {
        self.waiting.send_modify(|count| *count += 1);
        let waiting = OpenQuestion(self.waiting.clone());
        self.inner.request(
            request,
            Reply::new(move |answer| {
                reply.send(answer);
                drop(waiting);
            }),
        );
    }
}

/// Makes a call whose deadline stands still while questions to its handler wait.
pub(crate) async fn call(
    live: &LiveConnection,
    method: &str,
    params: &Raw,
    said: &RequestMeta<'_>,
    options: CallOptions,
) -> Result<Result<Raw, RpcError>, LinkError> {
    let limit = options.deadline;
    let cancel = Arc::clone(&options.cancel_on_drop);
    let waiting = watch::Sender::new(0);
    let mut count = waiting.subscribe();
    let handler = options.handler.map(|inner| Arc::new(QuestionCounter { inner, waiting }) as Arc<dyn CallHandler>);
    let options = CallOptions { deadline: Duration::MAX, handler, ..options };
    let mut asking = std::pin::pin!(live.call(method, params, said, options));
    let mut left = limit;
    let end = Instant::now() + LONGEST;
    loop {
        let since = Instant::now();
        tokio::select! {
            biased;
            outcome = &mut asking => return outcome,
            _ = count.wait_for(|count| *count > 0) => left = left.saturating_sub(since.elapsed()),
            () = tokio::time::sleep(left) => break,
            () = tokio::time::sleep_until(end) => break,
        }
        tokio::select! {
            biased;
            outcome = &mut asking => return outcome,
            _ = count.wait_for(|count| *count == 0) => {}
            () = tokio::time::sleep(ANSWER) => break,
            () = tokio::time::sleep_until(end) => break,
        }
    }
    cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    Err(LinkError::Timeout(limit))
}
