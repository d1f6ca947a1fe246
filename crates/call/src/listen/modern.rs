//! `subscriptions/listen`: the acknowledgement first, then what it admits, marked with the request's id, until the client
//! leaves or the gateway ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::watch;
use toolcrib_base::{Kind, Problem};
use toolcrib_policy::Act;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::subscription::{self, Change, Filter};
use toolcrib_protocol::{Raw, RpcError, method, task};
use toolcrib_session::Channel;
use toolcrib_store::Outcome;
use toolcrib_upstream::Subscription;

use crate::admission::{Refusal, closing};
use crate::context::RequestContext;
use crate::own_tasks::OwnTaskState;
use crate::path::CallPath;
use crate::subscriptions::{GATHER, Listener, TAKEN, WatchKind};
use crate::ticket::KnownTask;

/// How much the URIs and task ids of one stream may take, in bytes.
const BYTES: usize = 256 * 1024;

/// Why a stream ends.
enum End {
    /// The gateway, or the profile, ends.
    Ours,
    /// The client has gone.
    Theirs,
}

/// A `subscriptions/listen` that is open; forgotten when dropped.
struct ListenPlace {
    path: Arc<CallPath>,
    listener: Arc<Listener>,
}

impl Drop for ListenPlace {
    fn drop(&mut self) {
        self.path.subscriptions.leave(self.listener.number());
    }
}

impl RequestContext<'_> {
    pub async fn listen(&self, params: &Raw) -> Result<Raw, RpcError> {
        let wanted = Filter::read(params)?;
        if !wanted.tasks.is_empty() && !self.declares_tasks() {
            return Err(task::not_declared());
        }
        let bytes: usize = wanted.uris.iter().chain(&wanted.tasks).map(String::len).sum();
        if bytes > BYTES {
            let message = format!("`params.notifications` has more than {BYTES} bytes of URIs and task ids");
            return Err(RpcError::from(&Problem::new(Kind::TooLarge, message).hint("Open several streams.")));
        }
        let Some(channel) = &self.reply.channel else {
            let message = format!("`{}` requires a stream", method::LISTEN);
            return Err(RpcError::from(&Problem::new(Kind::InvalidRequest, message)));
        };
        let hub = &self.path.subscriptions;
        if *hub.closing().borrow() {
            return Err(closing());
        }
        let lists = Filter { uris: BTreeSet::new(), tasks: BTreeSet::new(), ..wanted.clone() };
        let listener = hub.enter(&self.caller.principal, &self.caller.profile, lists);
        let listener = listener.map_err(|problem| RpcError::from(&problem))?;
        let listening = ListenPlace { path: Arc::clone(self.path), listener };
        let own = wanted.tasks.iter().filter_map(|id| {
            let changes = self.path.tasks.watch(self.caller, id)?;
            Some((id.clone(), changes))
        });
        let own: Vec<_> = own.collect();
        let mut granted = self.granted(&listening, wanted).await?;
        granted.tasks.extend(own.iter().map(|(id, _)| id.clone()));
        let watching = join_all(own.into_iter().map(|(id, changes)| self.watch_own(&listening, id, changes)));
        let ended = tokio::select! {
            biased;
            ended = self.stream_changes(channel, &listening, &granted) => ended,
            () = async { drop(watching.await); std::future::pending().await } => End::Ours,
        };
        match ended {
            End::Ours => Ok(subscription::ended(self.id, &self.path.server_info)),
            End::Theirs => Err(RpcError::from(Kind::Cancelled)),
        }
    }

    /// Tells a listener of each change of a task of our own, until the task has ended.
    async fn watch_own(&self, listening: &ListenPlace, id: String, mut changes: watch::Receiver<u64>) {
        let known: Arc<str> = id.as_str().into();
        loop {
            // The other half is gone once the task has ended, which is the last change.
            let goes_on = changes.changed().await.is_ok();
            let Some(KnownTask::Own(OwnTaskState { body, .. })) = self.path.find_task(self.caller, &id).await else {
                return;
            };
            let params = body.edit(&[("resultType", Edit::Remove)]);
            listening.listener.push(Change::Task { id: Arc::clone(&known), params });
            if !goes_on {
                return;
            }
        }
    }

    /// The part of a filter that is granted: what this profile shows, and what the servers have taken in time.
    async fn granted(&self, listening: &ListenPlace, wanted: Filter) -> Result<Filter, RpcError> {
        let (hub, number) = (&self.path.subscriptions, listening.listener.number());
        let mut asked = Vec::new();
        for uri in wanted.uris {
            // Hidden and unknown ones look the same.
            let Some(place) = self.view().resources.place(&uri) else { continue };
            let act = Act::ReadResource { server: place.name.clone(), uri: place.uri.as_str().into() };
            let target = format!("{}/{}", place.name, place.uri);
            match self.admit(&act, self.audited(method::LISTEN, &target, None)).await {
                // Its place in the log is not kept for as long as the stream lives.
                Ok(admitted) => admitted.end(Outcome::Ok),
                Err(Refusal::Denied(_) | Refusal::Asked(_)) => continue,
                Err(refusal) => return Err(RpcError::from(&refusal.problem())),
            };
            let subscription = hub.watch(&self.path.views, number, &uri, &place);
            asked.extend(subscription.map(|subscription| (uri, subscription)));
        }
        let mut tasks = Vec::new();
        for id in wanted.tasks {
            let Some((server, there)) = self.task_place(&id).await? else { continue };
            tasks.extend(hub.watch_task(number, &server, &there, &id).map(|subscription| (id, subscription)));
        }
        let taken = async |what: WatchKind, asked: Vec<(String, Subscription)>| -> BTreeSet<String> {
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
        let (uris, tasks) = tokio::join!(taken(WatchKind::Resource, asked), taken(WatchKind::Task, tasks));
        Ok(Filter { uris, tasks, ..listening.listener.lists().clone() })
    }

    async fn stream_changes(&self, channel: &Channel, listening: &ListenPlace, granted: &Filter) -> End {
        let listener = &listening.listener;
        let mut closing = self.path.subscriptions.closing();
        let mut stop = self.path.servers.scope().stop_signal();
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
                listener.woken().await;
                if listener.has_ended() {
                    return End::Ours;
                }
                tokio::time::sleep(GATHER).await;
                // What comes meanwhile is sent the next time.
                for _ in 0..listener.waiting() {
                    let Some(change) = listener.pop() else { break };
                    let notification = change.to_notification();
                    if !granted.admits(&notification) {
                        continue;
                    }
                    let Some(notification) = self.task_change(notification) else { continue };
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
