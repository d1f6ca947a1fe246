//! `subscriptions/listen`: the acknowledgement first, then what it admits, marked with the request's id, until the client
//! leaves or the gateway ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::watch;
use toolcrib_base::{Kind, Problem};
use toolcrib_policy::Act;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::subscription::{self, Filter, New};
use toolcrib_protocol::{Raw, RpcError, method, task};
use toolcrib_session::Channel;
use toolcrib_store::Outcome;
use toolcrib_upstream::Subscription;

use crate::gateway::Gateway;
use crate::listen::{GATHER, Listening, TAKEN, What};
use crate::passage::Refused;
use crate::request::{Passing, closing};
use crate::task::Found;

/// How much the URIs and task ids of one stream may take, in bytes.
const BYTES: usize = 256 * 1024;

/// Why a stream ends.
enum End {
    /// The gateway, or the profile, ends.
    Ours,
    /// The client has gone.
    Theirs,
}

impl Gateway {
    /// Ends all streams of subscriptions with their results: the gateway is about to end.
    pub fn end_subscriptions(&self) {
        self.hub.close();
    }
}

impl Passing<'_> {
    pub(crate) async fn listen(&self, params: &Raw) -> Result<Raw, RpcError> {
        let wanted = Filter::read(params)?;
        if !wanted.tasks.is_empty() && !self.declares_tasks() {
            return Err(task::not_declared());
        }
        let bytes: usize = wanted.uris.iter().chain(&wanted.tasks).map(String::len).sum();
        if bytes > BYTES {
            let message = format!("`params.notifications` has more than {BYTES} bytes of URIs and task ids");
            return Err(RpcError::from(&Problem::new(Kind::TooLarge, message).hint("Open several streams.")));
        }
        let Some(channel) = &self.way.channel else {
            let message = format!("`{}` requires a stream", method::LISTEN);
            return Err(RpcError::from(&Problem::new(Kind::InvalidRequest, message)));
        };
        let hub = &self.gateway.hub;
        if *hub.closing.borrow() {
            return Err(closing());
        }
        let lists = Filter { uris: BTreeSet::new(), tasks: BTreeSet::new(), ..wanted.clone() };
        let listener = hub.enter(&self.caller.principal.id, &self.caller.profile, lists);
        let listener = listener.map_err(|problem| RpcError::from(&problem))?;
        let listening = Listening { gateway: Arc::clone(self.gateway), listener };
        let own = wanted.tasks.iter().filter_map(|id| {
            let news = self.gateway.watch_task(self.caller, id)?;
            Some((id.clone(), news))
        });
        let own: Vec<_> = own.collect();
        let mut granted = self.granted(&listening, wanted).await?;
        granted.tasks.extend(own.iter().map(|(id, _)| id.clone()));
        let watching = join_all(own.into_iter().map(|(id, news)| self.watch_own(&listening, id, news)));
        let ended = tokio::select! {
            biased;
            ended = self.hear(channel, &listening, &granted) => ended,
            () = async { drop(watching.await); std::future::pending().await } => End::Ours,
        };
        match ended {
            End::Ours => Ok(subscription::ended(self.id, &self.gateway.server_info)),
            End::Theirs => Err(RpcError::from(Kind::Cancelled)),
        }
    }

    /// Tells a listener of each change of a task of our own, until the task has ended.
    async fn watch_own(&self, listening: &Listening, id: String, mut news: watch::Receiver<u64>) {
        let known: Arc<str> = id.as_str().into();
        loop {
            // The other half is gone once the task has ended, which is the last news.
            let goes_on = news.changed().await.is_ok();
            let Some(Found::Own { body, .. }) = self.gateway.find_task(self.caller, &id).await else { return };
            let params = body.edit(&[("resultType", Edit::Remove)]);
            listening.listener.note(New::Task { id: Arc::clone(&known), params });
            if !goes_on {
                return;
            }
        }
    }

    /// What of a wish is honoured: what this profile shows, and what the servers have taken in time.
    async fn granted(&self, listening: &Listening, wanted: Filter) -> Result<Filter, RpcError> {
        let (hub, number) = (&self.gateway.hub, listening.listener.number);
        let mut asked = Vec::new();
        for uri in wanted.uris {
            // Hidden and unknown ones are told apart by nothing.
            let Some(place) = self.view.resources.place(&uri) else { continue };
            let act = Act::ReadResource { server: place.name.clone(), uri: place.uri.as_str().into() };
            let target = format!("{}/{}", place.name, place.uri);
            match self.open(&act, self.asked(method::LISTEN, &target, None)).await {
                // Its place in the log is not kept for as long as the stream lives.
                Ok(passage) => passage.finish(Outcome::Ok),
                Err(Refused::Denied(_)) => continue,
                Err(Refused::Closing) => return Err(closing()),
            };
            asked.extend(
                hub.watch(self.gateway, number, &uri, (&place.name, &place.uri))
                    .map(|subscription| (uri, subscription)),
            );
        }
        let mut tasks = Vec::new();
        for id in wanted.tasks {
            let Some((server, there)) = self.task_place(&id).await? else { continue };
            tasks.extend(hub.watch_task(number, (&server, &there), &id).map(|subscription| (id, subscription)));
        }
        let taken = async |what: What, asked: Vec<(String, Subscription)>| -> BTreeSet<String> {
            let waits = asked.into_iter().map(async |(key, subscription)| {
                let accepted = subscription.accepted(TAKEN).await;
                (key, accepted)
            });
            let answered = join_all(waits).await;
            answered
                .into_iter()
                .filter_map(|(key, accepted)| {
                    if !accepted {
                        hub.unwatch(what, number, &key);
                    }
                    accepted.then_some(key)
                })
                .collect()
        };
        let (uris, tasks) = tokio::join!(taken(What::Resource, asked), taken(What::Task, tasks));
        Ok(Filter { uris, tasks, ..listening.listener.lists.clone() })
    }

    async fn hear(&self, channel: &Channel, listening: &Listening, granted: &Filter) -> End {
        let listener = &listening.listener;
        let mut closing = self.gateway.hub.closing.subscribe();
        let mut stop = self.gateway.servers.scope().stop_signal();
        let ours = async {
            tokio::select! {
                // Neither half of the channel is dropped before the gateway.
                _ = closing.wait_for(|closing| *closing) => {}
                () = stop.stopped() => {}
            }
        };
        let telling = async {
            if !channel.deliver(subscription::acknowledged(self.id, granted).to_bytes()).await {
                return End::Theirs;
            }
            loop {
                listener.wake.notified().await;
                if listener.has_ended() {
                    return End::Ours;
                }
                tokio::time::sleep(GATHER).await;
                // What comes meanwhile is told the next time.
                for _ in 0..listener.waiting() {
                    let Some(new) = listener.take() else { break };
                    let notification = new.to_notification();
                    if !granted.admits(&notification) {
                        continue;
                    }
                    let Some(notification) = self.told(notification) else { continue };
                    // Waits as long as the client likes: what comes meanwhile is merged.
                    if !channel.deliver(subscription::tag(&notification, self.id).to_bytes()).await {
                        return End::Theirs;
                    }
                }
            }
        };
        // Whatever is dropped here was not sent, and the stream ends.
        tokio::select! {
            biased;
            () = channel.closed() => End::Theirs,
            end = telling => end,
            () = ours => End::Ours,
        }
    }
}
