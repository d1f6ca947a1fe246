//! The stream on which a legacy server speaks on its own.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::oneshot;
use toolcrib_base::backoff::Backoff;
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::{Message, header, method};

use crate::call::LinkError;
use crate::http::events::{EventStream, Place, is_message};

use super::HttpLink;
use super::resume::is_permanent;

impl HttpLink {
    /// Holds the stream open until the scope ends or the server refuses it for good. After an interruption it goes on
    /// behind the last event. Without effect for a modern server.
    ///
    /// The future that it gives ends once the stream is open, or will not be for now: what the server says before that
    /// may be lost.
    pub fn listen(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let (open, opened) = oneshot::channel();
        if !self.is_modern() {
            self.hold_open(open);
        }
        async move {
            // The other half is dropped when there is nothing to wait for.
            let _ = opened.await;
        }
    }

    fn hold_open(self: &Arc<Self>, open: oneshot::Sender<()>) {
        let link = Arc::clone(self);
        let mut stop = self.scope.stop_signal();
        self.scope.spawn(async move {
            // A stream is read to its end in there; what is lost by a drop at the scope's end, no one needs.
            tokio::select! {
                () = link.keep_listening(open) => {}
                () = stop.stopped() => {}
            }
        });
    }

    async fn keep_listening(self: &Arc<Self>, open: oneshot::Sender<()>) {
        let mut open = Some(open);
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        let mut place = Place::default();
        loop {
            let opened = self.client.open_stream(&self.endpoint.uri, self.after(&place), self.limit).await;
            // The first attempt is decided, one way or the other.
            drop(open.take());
            let mut least = None;
            match opened {
                Ok(Some(stream)) => {
                    if self.drain(stream, &mut place).await {
                        backoff.reset();
                        least = place.retry_wait();
                    }
                }
                // The server has nothing to say on its own, or has forgotten us: the next call will find out.
                Ok(None) => return,
                // What it does not know may be the place, of another stream or long gone.
                Err(LinkError::Status { status, .. }) if is_permanent(status) && !place.forget() => return,
                Err(_) => {}
            }
            let wait = least.unwrap_or_else(|| backoff.next_wait().max(place.retry_wait().unwrap_or_default()));
            tokio::time::sleep(wait).await;
        }
    }

    fn after(&self, place: &Place) -> HeaderMap {
        let mut headers = self.headers(&HeaderMap::new());
        if let Some(last) = place.last() {
            headers.insert(HeaderName::from_static(header::LAST_EVENT_ID), HeaderValue::clone(last));
        }
        headers
    }

    /// Reads a stream to its end; whether it brought anything new.
    async fn drain(self: &Arc<Self>, mut stream: EventStream, place: &mut Place) -> bool {
        let mut is_news = false;
        loop {
            let event = match stream.next().await {
                Ok(Some(event)) => event,
                Ok(None) | Err(LinkError::Broken(_)) => return is_news,
                Err(error) => {
                    self.inbox.oddity(&error.to_string());
                    return is_news;
                }
            };
            is_news |= place.note(&event);
            if !is_message(&event) {
                continue;
            }
            match Message::parse(&event.data, self.rules) {
                Err(BadMessage::Batch) => match Message::parse_batch(&event.data, self.rules) {
                    Ok(batch) => batch.into_iter().for_each(|message| self.on_message(message)),
                    Err(error) => self.on_message(Err(error)),
                },
                message => self.on_message(message),
            }
        }
    }

    fn on_message(self: &Arc<Self>, message: Result<Message, BadMessage>) {
        match message {
            Ok(Message::Notification(notification)) if notification.method == method::PROGRESS => {
                if let Some(handler) = self.handlers.of(&notification) {
                    handler.notification(notification);
                }
            }
            Ok(Message::Notification(notification)) => self.inbox.notification(notification),
            Ok(Message::Request(request)) => self.asked(request, None, &HeaderMap::new()),
            Ok(Message::Answer(_)) => self.inbox.oddity("an answer on the stream of notifications"),
            Err(error) => self.inbox.oddity(&error.to_string()),
        }
    }
}
