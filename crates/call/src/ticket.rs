//! The id by which a client knows a server's task: sealed, so that no one can guess or change one, and bound to
//! principal and profile, so that to others it is no id at all. It leads to the task after a restart too.

use serde::{Deserialize, Serialize};
use toolcrib_base::{ServerName, ToolId};
use toolcrib_protocol::seal::{PAYLOAD_LIMIT, Sealer};
use toolcrib_session::Caller;

use crate::own_tasks::OwnTaskState;

/// What a client's task id leads to.
#[derive(Debug, Clone)]
pub enum KnownTask {
    /// A task of a server, which has its own id for it.
    Relayed(Ticket),
    /// A task of our own, as it is now.
    Own(OwnTaskState),
}

/// Whose task it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The tool whose call became the task.
    pub tool: ToolId,
    /// The id that the server gave it.
    pub task: String,
}

/// What a sealed id says.
#[derive(Serialize, Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    server: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    tool: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    task: std::borrow::Cow<'a, str>,
}

impl Ticket {
    /// The id for a client; the same each time. `None` when the server's own is too long.
    pub fn seal(&self, sealer: &Sealer, caller: &Caller) -> Option<String> {
        let payload = Payload {
            server: self.tool.server.as_str().into(),
            tool: (&*self.tool.tool).into(),
            task: (&*self.task).into(),
        };
        let payload = serde_json::to_vec(&payload).ok().filter(|payload| payload.len() <= PAYLOAD_LIMIT)?;
        Some(sealer.seal(&purpose(caller), &payload))
    }

    /// Reads an id that was given to the same principal in the same profile.
    pub fn open(sealer: &Sealer, caller: &Caller, id: &str) -> Option<Self> {
        let payload = sealer.open(&purpose(caller), id)?;
        let payload: Payload<'_> = serde_json::from_slice(&payload).ok()?;
        let server = ServerName::new(&payload.server).ok()?;
        Some(Self { tool: ToolId::new(server, &payload.tool), task: payload.task.into_owned() })
    }
}

/// The profile's name has no space in it, so the two cannot run into each other.
fn purpose(caller: &Caller) -> String {
    format!("task {} {}", caller.profile, caller.principal.id.as_str())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use toolcrib_base::ProfileName;
    use toolcrib_protocol::{RequestTrace, Revision};
    use toolcrib_store::Door;

    use super::*;
    use toolcrib_session::Principal;

    /// A caller by these names.
    pub(crate) fn caller(principal: &str, profile: &str) -> Caller {
        Caller {
            principal: Principal::member(principal),
            profile: ProfileName::new(profile).unwrap(),
            door: Door::MCP,
            revision: Revision::LATEST,
            session: None,
            meta: None,
            trace: RequestTrace::default(),
            chain: None,
        }
    }

    proptest! {
        #[test]
        fn an_id_opens_for_whom_it_was_sealed_only(tool in ".{1,20}", task in ".{0,40}", other in "[a-z ]{3,5}") {
            let sealer = Sealer::new([5; 32]);
            let (me, profile) = (caller("me", "p"), caller("me", "q"));
            let ticket = Ticket { tool: ToolId::new(ServerName::new("files").unwrap(), &tool), task };
            let id = ticket.seal(&sealer, &me).unwrap();
            prop_assert_eq!(ticket.seal(&sealer, &me), Some(id.clone()), "the same each time");
            prop_assert_eq!(Ticket::open(&sealer, &me, &id), Some(ticket));
            prop_assert_eq!(Ticket::open(&sealer, &profile, &id), None);
            prop_assert_eq!(Ticket::open(&sealer, &caller(&other, "p"), &id), None);
            prop_assert_eq!(Ticket::open(&Sealer::new([6; 32]), &me, &id), None);
            let tampered = format!("{}{}", if id.starts_with('A') { 'B' } else { 'A' }, &id[1..]);
            prop_assert_eq!(Ticket::open(&sealer, &me, &tampered), None);
        }
    }

    #[test]
    fn an_id_that_is_too_long_is_not_sealed() {
        let tool = ToolId::new(ServerName::new("files").unwrap(), "t");
        let ticket = Ticket { tool, task: "x".repeat(PAYLOAD_LIMIT) };
        assert_eq!(ticket.seal(&Sealer::new([5; 32]), &caller("me", "p")), None);
    }
}
