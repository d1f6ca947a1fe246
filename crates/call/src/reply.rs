//! The way back to a client in the course of one request, before its answer.

use std::sync::{Mutex, PoisonError};

use toolcrib_protocol::level::Level;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Notification, Raw, meta};
use toolcrib_session::Channel;

/// The way back to the client in the course of one request.
#[derive(Debug, Clone, Default)]
pub struct ReplyChannel {
    pub channel: Option<Channel>,
    /// The client's own progress token, when it asked for progress.
    pub token: Option<Raw>,
}

impl ReplyChannel {
    /// Sends progress on with the client's own token. A modern client must hear it rise: what does not is left out.
    pub fn progress(&self, notification: &Notification, rising: Option<&Mutex<f64>>) {
        let (Some(channel), Some(token)) = (&self.channel, &self.token) else { return };
        if let Some(rising) = rising {
            let value = notification.params.get("progress").and_then(|value| value.as_str().parse::<f64>().ok());
            let Some(value) = value else { return };
            let mut highest = rising.lock().unwrap_or_else(PoisonError::into_inner);
            if value <= *highest {
                return;
            }
            *highest = value;
        }
        let params = notification.params.edit(&[(meta::PROGRESS_TOKEN, Edit::Set(token.as_str()))]);
        channel.send(&Notification { method: notification.method.clone(), params });
    }

    /// Sends a log message on, if the client wants to hear its level.
    pub fn message(&self, notification: &Notification, threshold: Option<Level>) {
        let heard = threshold.is_none_or(|threshold| {
            Level::of_message(&notification.params).is_none_or(|level| level.passes(threshold))
        });
        if let Some(channel) = self.channel.as_ref().filter(|_| heard) {
            channel.send(notification);
        }
    }
}
