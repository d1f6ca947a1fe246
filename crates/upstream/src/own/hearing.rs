//! Hearing of changes for one principal: on a connection that carries its credential, while it subscribes to something.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::call::Call;
use crate::client::Client;
use crate::keeper::{Hearer, Keeper};
use crate::own_hearing::HearingStart;
use crate::report::REPORTS;
use crate::server::Server;
use crate::subscribe::{Kind, Subscription, Subscriptions, Verdict};

/// A connection that was heard on this long has earned a fresh start of the waits.
const STABLE: Duration = Duration::from_secs(60);

impl Server {
    /// Watches something for a principal that must hear itself, or for everyone.
    pub(crate) fn watch_for(&self, hearer: Option<&str>, kind: Kind, key: &str) -> Subscription {
        let Some(principal) = hearer else { return self.watch(kind, key) };
        let subscriptions = self.context.hearing.of(principal);
        let subscription = subscriptions.subscribe(kind, key);
        match self.context.hearing.begin(principal) {
            HearingStart::Kept => {}
            HearingStart::New(renewed) => {
                self.spawn(self.as_main().hear(principal.into(), subscriptions, renewed));
            }
            HearingStart::Full => subscriptions.settle(kind, key, &Verdict::Refused(None)),
        }
        subscription
    }

    /// Until the principal subscribes to nothing.
    async fn hear(self, principal: Arc<str>, subscriptions: Arc<Subscriptions>, mut renewed: watch::Receiver<()>) {
        let (mut backoff, mut left) = (Keeper::backoff(), None);
        loop {
            renewed.borrow_and_update();
            let begun = Instant::now();
            let hearing = tokio::select! {
                biased;
                () = unused(&subscriptions) => None,
                // With another credential, on another connection.
                _ = renewed.changed() => Some(None),
                generation = self.hear_once(&principal, &subscriptions, left) => Some(generation),
            };
            let Some(generation) = hearing else {
                if self.context.hearing.end(&principal) {
                    return;
                }
                continue;
            };
            left = generation;
            subscriptions.lapse();
            if begun.elapsed() >= STABLE {
                backoff.reset();
            }
            tokio::select! {
                () = unused(&subscriptions) => {}
                _ = renewed.changed() => backoff.reset(),
                () = tokio::time::sleep(backoff.next_wait()) => {}
            }
        }
    }

    /// Until the connection ends, whose number it gives. `not` is one that turned out to be of no use.
    async fn hear_once(
        &self,
        principal: &Arc<str>,
        subscriptions: &Arc<Subscriptions>,
        not: Option<u64>,
    ) -> Option<u64> {
        let client = Client { principal: Some(Arc::clone(principal)), ..Client::default() };
        let call = Call { client, ..Call::default() };
        let is_proven = self.proven(principal).await.is_ok();
        let reached = match is_proven {
            false => None,
            true if not.is_some() => self.reach(&call.client, not).await.ok(),
            true => self.reach_own(&call.client).await.ok(),
        };
        let Some(reached) = reached else {
            subscriptions.refuse_all();
            return None;
        };
        let shown = reached.bare().or_else(|| self.own_inventory(principal).map(|known| (*known).clone()));
        let (reports, mut reported) = mpsc::channel(REPORTS);
        let (live, hearer) = (reached.shared_live(), Hearer { call, subscriptions: Arc::clone(subscriptions) });
        let keeper = Keeper::own(&self.context, live, &shown.unwrap_or_default(), hearer, reports);
        let lists = async {
            while reported.recv().await.is_some() {
                self.context.own.doubt(principal);
                self.emit_own(principal).await;
            }
        };
        tokio::select! {
            () = keeper.run_own() => {}
            () = reached.ended(&self.context) => {}
            () = lists => {}
        }
        Some(live.generation)
    }
}

/// Waits until nothing is subscribed to.
async fn unused(subscriptions: &Subscriptions) {
    let mut changed = subscriptions.changes();
    // The sender is a part of what is borrowed.
    while !subscriptions.is_empty() && changed.changed().await.is_ok() {}
}
