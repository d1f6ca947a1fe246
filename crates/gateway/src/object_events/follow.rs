//! The sessions that follow events: each gets a notification for what it asked for, until it ends or stops following.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Notification;
use toolcrib_session::Session;
use toolcrib_store::EventRecord;
use toolcrib_view::ObjectKind;

/// How many sessions may follow at a time: every event is written to each of them.
const FOLLOWERS: usize = 256;
/// How many of them are kept for administrators.
const RESERVE: usize = 64;

/// Which events a session wants to hear of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FollowFilter {
    pub(crate) kind: Option<ObjectKind>,
    pub(crate) name: Option<String>,
    pub(crate) warning: Option<bool>,
}

/// The sessions that follow.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<Vec<(Weak<Session>, FollowFilter)>>);

// === impl FollowFilter ===

impl FollowFilter {
    fn fits(&self, event: &EventRecord) -> bool {
        self.kind.is_none_or(|kind| kind.as_str() == event.kind)
            && self.name.as_ref().is_none_or(|name| *name == event.name)
            && self.warning.is_none_or(|warning| warning == event.warning)
    }
}

// === impl Followers ===

impl Followers {
    fn lock(&self) -> MutexGuard<'_, Vec<(Weak<Session>, FollowFilter)>> {
        let mut followers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|(session, _)| session.upgrade().is_some_and(|session| !session.is_closed()));
        followers
    }

    /// Lets a session follow what it wants, in place of what it wanted before.
    pub(crate) fn follow(&self, session: &Arc<Session>, wanted: FollowFilter) -> Result<(), Problem> {
        let mut followers = self.lock();
        followers.retain(|(other, _)| !is(other, session));
        let most = if session.principal.is_admin() { FOLLOWERS } else { FOLLOWERS - RESERVE };
        if followers.len() >= most {
            let message = format!("{most} sessions follow events already, which is the limit");
            return Err(Problem::new(Kind::Busy, message).hint("End one of the other sessions."));
        }
        followers.push((Arc::downgrade(session), wanted));
        Ok(())
    }

    /// Ends the following of a session.
    pub(crate) fn leave(&self, session: &Arc<Session>) {
        self.lock().retain(|(other, _)| !is(other, session));
    }

    /// Tells an event to those who want it, as each may read it.
    pub(crate) fn notify(&self, event: &EventRecord, as_read_by: impl Fn(&Session) -> Option<Notification>) {
        let followers = self.lock();
        let fitting = followers.iter().filter(|(_, wanted)| wanted.fits(event));
        let sessions: Vec<_> = fitting.filter_map(|(session, _)| session.upgrade()).collect();
        drop(followers);
        for session in sessions {
            if let Some(notification) = as_read_by(&session) {
                // A client that does not keep up asks for what it missed.
                session.notify(&notification);
            }
        }
    }
}

fn is(known: &Weak<Session>, session: &Arc<Session>) -> bool {
    std::ptr::eq(known.as_ptr(), Arc::as_ptr(session))
}
