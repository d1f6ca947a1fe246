//! The stream on which the gateway says to a legacy client what belongs to no request. It is also how the bridge
//! notices that the gateway was restarted while no one asks anything.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_base::backoff::Backoff;
use toolcrib_transport::LinkError;
use toolcrib_transport::http::events::{Place, is_message};

use super::Bridge;
use super::session::OpenSession;
use super::sink::Sink;

/// The waits between attempts to open it.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

impl Bridge {
    /// Holds the stream of the present session open, in its own task.
    pub(super) fn listen(self: &Arc<Self>) {
        let Some(held) = self.session.held() else { return };
        let (bridge, mut stop) = (Arc::clone(self), self.background.stop_signal());
        self.background.spawn(async move {
            // What is lost by a drop at the end, no one reads any more.
            tokio::select! {
                () = bridge.keep_listening(&held) => {}
                () = stop.stopped() => {}
            }
        });
    }

    async fn keep_listening(self: &Arc<Self>, held: &OpenSession) {
        let (mut backoff, mut place) = (Backoff::new(AGAIN.0, AGAIN.1), Place::default());
        while self.session.held().is_some_and(|now| now.generation == held.generation) {
            match self.open_stream(&held.headers, &place).await {
                Ok(Some(mut stream)) => {
                    let mut sink = Sink::new(self, Vec::new());
                    while let Ok(Some(event)) = stream.next().await {
                        if place.note(&event) {
                            backoff.reset();
                        }
                        if is_message(&event) {
                            sink.take(&event.data).await;
                        }
                    }
                }
                // The gateway has nothing to say on its own.
                Ok(None) => return,
                // After a login the stream is opened again.
                Err(LinkError::Status { status: 401, .. }) if self.login.is_locked() => {
                    self.login.until_unlocked().await;
                }
                // With the new session comes a new stream; where that fails it is tried again.
                Err(LinkError::Status { status: 404, .. }) if held.has_id() => match self.reopen(held).await {
                    Ok(()) => return,
                    Err(failed) => super::note(&format!("cannot reopen the session: {failed:?}")),
                },
                // What it does not know may be the place.
                Err(LinkError::Status { status: 400..500, .. }) if !place.forget() => return,
                Err(_) => self.gateway.forget(),
            }
            tokio::time::sleep(backoff.next_wait().max(place.retry_wait().unwrap_or_default())).await;
        }
    }
}
