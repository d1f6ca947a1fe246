//! The client behind a call, as far as the choice of a connection depends on it.

use std::fmt;
use std::sync::Arc;

use toolcrib_base::SessionName;
use toolcrib_protocol::level::Level;
use toolcrib_protocol::{Capabilities, Era, Revision};
use toolcrib_transport::CallHandler;

use crate::config::SessionPolicy;
use crate::conversation::Conversation;
use crate::environment::Environment;

/// Who a call is made for. The default is the owner of this installation, who can be asked nothing.
#[derive(Clone, Default)]
pub struct Client {
    /// The principal; `None` is the owner, to whom the main connection belongs.
    pub principal: Option<Arc<str>>,
    /// The session of a legacy client.
    pub session: Option<SessionName>,
    /// The conversation with the server that the caller names itself; only where the server's policy is
    /// [`SessionPolicy::Handle`], or [`SessionPolicy::Request`] for what takes several calls.
    pub conversation: Option<Arc<Conversation>>,
    /// What its profile adds to the environment of a server that is a program.
    pub environment: Option<Arc<Environment>>,
    /// The era that it speaks, in which a server that knows both is spoken to for it; `None` is whichever.
    pub era: Option<Era>,
    /// What it can be asked, as far as that is relayed.
    pub capabilities: Arc<Capabilities>,
    /// From which level on it wants to hear log messages.
    pub level: Option<Level>,
    /// Takes what a server says outside of any call, on a connection that belongs to this client's session alone.
    pub own: Option<Arc<dyn CallHandler>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("principal", &self.principal).field("session", &self.session).finish()
    }
}

impl Client {
    /// The era in which its calls are best made. A conversation is what only the legacy era knows.
    pub(crate) fn wanted_era(&self) -> Option<Era> {
        if self.conversation.is_some() { Some(Era::Legacy) } else { self.era }
    }

    /// Whether the main connection is this client's own under any policy that lets calls share one.
    pub(crate) fn is_owner(&self, policy: SessionPolicy) -> bool {
        let is_plain = self.principal.is_none() && self.conversation.is_none() && self.environment.is_none();
        policy != SessionPolicy::Request && is_plain
    }
}

/// What distinguishes one connection to a legacy server from another; the main connection has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionKey {
    pub(crate) principal: Option<Arc<str>>,
    pub(crate) session: Option<SessionName>,
    pub(crate) handle: Option<Arc<str>>,
    /// Part of every key under every policy.
    pub(crate) environment: Option<Arc<Environment>>,
    /// The era that it is opened in, beside a main connection of the other one; `None` is that of the main one.
    pub(crate) era: Option<Era>,
    pub(crate) offered: Arc<Capabilities>,
    /// Whether it is opened in whichever era the server speaks: the main connection, which would find out, is not there.
    pub(crate) any_era: bool,
    /// Which of several alike: a server that asks without saying in which call gets one connection for each call.
    pub(crate) slot: u8,
    /// Whether it is for one call only.
    pub(crate) once: bool,
}

impl ConnectionKey {
    /// Which connection a call takes.
    ///
    /// The session of a client that can be asked has its own connection: whatever the server asks on it, it is
    /// clear who is meant. A conversation has one, whichever of its principal's clients takes part in it.
    pub(crate) fn of(policy: SessionPolicy, client: &Client, mut offered: Capabilities) -> Self {
        let asked = offered.can_be_asked();
        let (principal, session) = (client.principal.clone(), client.session.clone().filter(|_| asked));
        if session.is_none() {
            // They are free text, and each text would be a connection: a client could have as many as it likes.
            offered.extensions = None;
        }
        let plain = Self { offered: Arc::new(offered), ..Self::of_environment(client.environment.clone()) };
        match (policy, &client.conversation) {
            (SessionPolicy::Shared, _) => plain,
            (SessionPolicy::Handle | SessionPolicy::Request, Some(conversation)) => {
                let offered = Arc::new(conversation.offered().within(Revision::LATEST_LEGACY));
                Self { principal, handle: Some(Arc::clone(conversation.handle())), offered, ..plain }
            }
            (SessionPolicy::Principal | SessionPolicy::Handle, _) => Self { principal, session, ..plain },
            (SessionPolicy::Request, None) => {
                // A key that no other call has.
                let handle = Some(toolcrib_base::random::hex_128().into());
                Self { principal, session, handle, once: true, ..plain }
            }
        }
    }

    /// The one connection of a modern server for all who bring this environment: whatever else tells clients apart
    /// travels with each request.
    pub(crate) fn of_environment(environment: Option<Arc<Environment>>) -> Self {
        Self {
            principal: None,
            session: None,
            handle: None,
            environment,
            era: None,
            offered: Arc::default(),
            any_era: false,
            slot: 0,
            once: false,
        }
    }

    /// The same in whichever era the server speaks.
    pub(crate) fn of_any_era(self) -> Self {
        Self { any_era: true, ..self }
    }

    /// The same beside a main connection of another era.
    pub(crate) fn beside(self, era: Era) -> Self {
        Self { era: Some(era), ..self }
    }

    /// Whether this is the main connection, which declares `declares` and belongs to the owner.
    pub(crate) fn is_main(&self, declares: &Capabilities) -> bool {
        let is_owners = self.principal.is_none() && self.session.is_none() && self.handle.is_none();
        is_owners && self.era.is_none() && self.environment.is_none() && *self.offered == *declares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(principal: Option<&str>, conversation: Option<&Arc<Conversation>>) -> Client {
        let session = Some(SessionName::new("s"));
        Client {
            principal: principal.map(Into::into),
            session,
            conversation: conversation.cloned(),
            ..Client::default()
        }
    }

    #[test]
    fn who_shares_a_connection() {
        let (none, form) = (Capabilities::NONE, Capabilities { form: true, ..Capabilities::NONE });
        let named = Conversation::new(Arc::default());
        let key = |policy, principal: Option<&str>, offered: &Capabilities| {
            ConnectionKey::of(policy, &client(principal, None), offered.clone())
        };
        let parts = |key: ConnectionKey| (key.principal.is_some(), key.session.is_some(), key.handle.is_some());
        assert!(key(SessionPolicy::Shared, Some("p"), &none).is_main(&none));
        assert!(key(SessionPolicy::Shared, Some("p"), &form).is_main(&form));
        assert!(!key(SessionPolicy::Shared, Some("p"), &form).is_main(&none));
        for policy in [SessionPolicy::Principal, SessionPolicy::Handle] {
            assert!(key(policy, None, &none).is_main(&none), "the owner's is the main one");
            assert_eq!(parts(key(policy, Some("p"), &none)), (true, false, false));
            assert_eq!(parts(key(policy, None, &form)), (false, true, false));
        }
        let of_one_call = || key(SessionPolicy::Request, None, &none);
        assert!(of_one_call() != of_one_call() && !of_one_call().is_main(&none));
        for policy in [SessionPolicy::Handle, SessionPolicy::Request] {
            let key =
                |offered: &Capabilities| ConnectionKey::of(policy, &client(Some("p"), Some(&named)), offered.clone());
            assert_eq!(parts(key(&form)), (true, false, true));
            assert_eq!(key(&form), key(&none), "one connection whatever the caller of the moment can be asked");
        }
        for policy in [SessionPolicy::Shared, SessionPolicy::Principal] {
            let of = |profile: &str, value: &str| {
                let variables = vec![("KEY".to_owned(), toolcrib_base::Secret::new(value))];
                let environment = Environment::new(toolcrib_base::ProfileName::new(profile).unwrap(), variables);
                ConnectionKey::of(
                    policy,
                    &Client { environment: Some(Arc::new(environment)), ..client(None, None) },
                    none.clone(),
                )
            };
            assert_eq!(of("work", "a"), of("work", "a"));
            assert!(of("work", "a") != of("work", "b") && of("work", "a") != of("home", "a"));
            assert!(!of("work", "a").is_main(&none), "the main connection has the server's own environment");
        }
        let elsewhere = ConnectionKey::of(SessionPolicy::Principal, &client(None, Some(&named)), none.clone());
        assert!(elsewhere.is_main(&none), "a conversation counts only where the policy knows of them");
    }
}
