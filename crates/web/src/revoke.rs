//! Keys that have ended: ends the open streams and sessions of a key that the profile's file no longer has, that has
//! expired, or that has another role now; and those of an access token of ours whose session has ended. `guard` refuses a
//! request that comes later. A halt ends sessions of clients for good.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use toolcrib_authorization::AuthorizationServer;
use toolcrib_base::ProfileName;
use toolcrib_base::task::Stop;
use toolcrib_call::halts::{HaltSubject, Halts};
use toolcrib_catalog::GatewayKey;
use toolcrib_session::Principal;

use crate::Site;
use crate::guard::Front;

/// The longest wait for the next key that expires: the clock may be set.
const LOOK: Duration = Duration::from_secs(60);

type Keys = BTreeMap<ProfileName, Option<Vec<GatewayKey>>>;

/// Compares the keys of all profiles after each build of views, until the doors close.
pub(crate) async fn follow(site: Arc<Site>, mut stop: Stop) {
    let mut builds = site.gateway.watch_builds();
    let mut before = keys(&site);
    loop {
        // Both are cancel-safe. Views are built as long as the gateway exists, which outlives its doors.
        let next = next_expiry(&site);
        tokio::select! {
            changed = builds.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(next.unwrap_or(LOOK)), if next.is_some() => {}
            () = stop.stopped() => return,
        }
        let after = keys(&site);
        for (profile, now) in after.iter().filter(|(profile, now)| before.get(*profile) != Some(*now)) {
            // A missing profile, for example because its file was invalid, keeps the keys that it had before.
            let then = before.get(profile).and_then(Option::as_deref);
            site.gateway.end_access(profile, |who| site.guard.shuts_out(profile, &who.id, then, now.as_deref()));
        }
        // What a profile held is remembered while it is away.
        before.extend(after);
    }
}

/// Ends what tokens of our own authorization server opened, after each end of one of its sessions, until the doors close.
pub(crate) async fn follow_grants(site: Arc<Site>, mut stop: Stop) {
    let Some(server) = site.front.as_ref().and_then(Front::server) else { return };
    let mut ends = server.watch_ends();
    loop {
        // Both are cancel-safe.
        tokio::select! {
            changed = ends.changed() => if changed.is_err() { return },
            () = stop.stopped() => return,
        }
        let has_lost = |who: &Principal| who.identity.session.as_deref().is_some_and(|id| !server.has_session(id));
        for profile in site.gateway.views().keys() {
            site.gateway.end_access(profile, has_lost);
        }
    }
}

/// Ends, for good, what was granted to clients in the name of who is halted, until the doors close.
pub(crate) async fn follow_halts(site: Arc<Site>, mut stop: Stop) {
    let Some(server) = site.front.as_ref().and_then(Front::server) else { return };
    let halts = Arc::clone(&site.gateway.path.halts);
    let mut changes = halts.watch();
    loop {
        // Also those of a halt that was added a moment before the gateway ended the last time.
        revoke_halted(server, &halts).await;
        // Both are cancel-safe; the sender is in the gateway, which outlives its doors.
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = stop.stopped() => return,
        }
    }
}

async fn revoke_halted(server: &AuthorizationServer, halts: &Halts) {
    if halts.list().is_empty() {
        return;
    }
    let sessions = server.sessions().await.unwrap_or_else(|problem| {
        tracing::error!("sessions of halted clients are not revoked: {problem}");
        Vec::new()
    });
    for session in sessions {
        let is_halted = halts.list().iter().any(|halt| match &halt.subject {
            HaltSubject::Principal(id) => session.principal == *id,
            HaltSubject::Client(client) => session.client == **client,
            HaltSubject::Session(id) => session.id == **id,
            HaltSubject::Profile(_) | HaltSubject::Run(_) => false,
        });
        if is_halted && let Err(problem) = server.end_session(&session.id).await {
            tracing::error!(session = session.id, "a session of a halted client is not revoked: {problem}");
        }
    }
}

/// The keys that open something now.
fn keys(site: &Site) -> Keys {
    let (views, now) = (site.gateway.views(), site.guard.now());
    let lasting = |keys: &Vec<GatewayKey>| keys.iter().filter(|key| key.lasts(now)).cloned().collect();
    views.iter().map(|(name, view)| (name.clone(), view.profile.keys.as_ref().map(lasting))).collect()
}

/// How long it is until the next key expires; `None` where none will.
fn next_expiry(site: &Site) -> Option<Duration> {
    let (views, now) = (site.gateway.views(), site.guard.now());
    let keys = views.values().flat_map(|view| view.profile.keys.iter().flatten());
    let next = keys.filter_map(|key| key.expires).filter(|expires| now < *expires).min()?;
    Some(Duration::from_millis(next.since(now)).min(LOOK))
}
