//! Revoked keys: ends the open streams and sessions of a key that the profile's file no longer has. `guard` refuses a
//! request that comes later.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolcrib_base::ProfileName;
use toolcrib_base::task::Stop;
use toolcrib_catalog::GatewayKey;

use crate::Site;

type Keys = BTreeMap<ProfileName, Option<Vec<GatewayKey>>>;

/// Compares the keys of all profiles after each build of views, until the doors close.
pub(crate) async fn follow(site: Arc<Site>, mut stop: Stop) {
    let mut builds = site.gateway.watch_builds();
    let mut before = keys(&site);
    loop {
        // Both are cancel-safe. Views are built as long as the gateway exists, which outlives its doors.
        tokio::select! {
            changed = builds.changed() => if changed.is_err() { return },
            () = stop.stopped() => return,
        }
        let after = keys(&site);
        for (profile, now) in after.iter().filter(|(profile, now)| before.get(*profile) != Some(*now)) {
            // A missing profile, for example because its file was invalid, keeps the keys that it had before.
            let then = before.get(profile).and_then(Option::as_deref);
            site.gateway.end_access(profile, |who| site.guard.shuts_out(profile, who, then, now.as_deref()));
        }
        // What a profile held is remembered while it is away.
        before.extend(after);
    }
}

fn keys(site: &Site) -> Keys {
    let views = site.gateway.views();
    views.iter().map(|(name, view)| (name.clone(), view.profile.keys.clone())).collect()
}
