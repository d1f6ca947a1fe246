//! What a server shows to principals that have credentials of their own there: listed with the credential of each,
//! equal inventories shared, nothing of one shown to another.

mod hearing;
mod reading;

use std::sync::Arc;

use crate::credentials::Proof;
use crate::inventory::Inventory;
use crate::own_lists::{CredentialState, KnownLists};
use crate::part::{OwnPart, Sight};
use crate::server::Server;
use crate::status::State;

impl Server {
    /// Whether it may look different to principals.
    pub fn tells_apart(&self) -> bool {
        self.context.tells_apart()
    }

    /// How it looks to a principal; `None` is the owner of this installation. What is not known yet, or not for sure any
    /// more, is found out meanwhile; an event tells of it.
    pub fn seen_by(&self, principal: Option<&str>) -> Sight {
        let Some(principal) = principal.filter(|principal| self.context.proves_own(Some(principal))) else {
            return Sight::Main;
        };
        let is_personal = self.context.is_personal();
        let KnownLists { inventory, standing, is_due, is_due_if_proven } = self.context.own.look(principal);
        let is_due = is_due || is_due_if_proven && self.is_proven_by_now(principal);
        let standing = if is_due { self.check_own(principal, standing) } else { standing };
        let main = self.context.status.borrow().state;
        let away = |standing| match standing {
            CredentialState::Missing => Some(State::NeedsLogin),
            // What keeps the owner out does not keep out others.
            _ if main == State::NeedsLogin => Some(State::Ready),
            _ => None,
        };
        match inventory {
            // What is its owner's alone may be another list by the time that it is shown, even where it is equal now.
            Some(inventory) if !is_personal && Arc::ptr_eq(&inventory, &self.main_inventory()) => Sight::Main,
            Some(inventory) => Sight::Own(OwnPart { inventory, state: away(standing) }),
            None if !is_personal => Sight::Main,
            None => Sight::Own(OwnPart::nothing(match standing {
                CredentialState::Missing => State::NeedsLogin,
                CredentialState::Failed | CredentialState::Unproven => State::Failed,
                CredentialState::Unknown | CredentialState::Given => State::Starting,
            })),
        }
    }

    /// Whether this handle is that of someone who sees it like this.
    pub fn is_seen_as(&self, sight: &Sight) -> bool {
        match (self.part.as_deref(), sight) {
            (None, Sight::Main) => true,
            (Some(part), Sight::Own(own)) => part == own,
            _ => false,
        }
    }

    /// Whether a principal is about to be shown what its credential shows, for the first time.
    pub fn is_first_read_for(&self, principal: &str) -> bool {
        self.context.own.is_first(principal)
    }

    /// Waits until a principal is shown what its credential shows, or it is known that there is nothing.
    pub async fn first_read_for(&self, principal: &str) {
        let mut ended = self.context.own.watch_ended();
        // The sender is a part of the server itself.
        while self.is_first_read_for(principal) && ended.changed().await.is_ok() {}
    }

    /// Whether a principal whose credential was missing has come with one that needs no person.
    fn is_proven_by_now(&self, principal: &str) -> bool {
        let credentials = self.context.deps.credentials.as_ref();
        credentials.is_some_and(|credentials| credentials.is_automatic(&self.context.config, Some(principal)))
    }

    /// Whether what its main connection lists is its owner's alone.
    pub fn is_personal(&self) -> bool {
        self.context.is_personal()
    }

    /// Whether this handle is that of a principal who does not see what everyone does.
    pub fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// Who must hear changes itself that a principal is to be told, on a connection of its own: a main connection that is
    /// its owner's hears for that one alone, and asks for nothing that this handle shows to the principal alone. `None` is
    /// the main connection.
    pub fn hearer<'a>(&self, principal: Option<&'a str>) -> Option<&'a str> {
        let is_own = self.is_part() || self.context.is_personal();
        principal.filter(|principal| is_own && self.context.proves_own(Some(principal)))
    }

    /// The same server as someone sees it.
    #[must_use]
    pub fn as_seen(&self, sight: &Sight) -> Self {
        let part = match sight {
            Sight::Main => None,
            Sight::Own(part) => Some(Arc::new(part.clone())),
        };
        Self { part, ..self.clone() }
    }

    /// The same server as its main connection sees it.
    #[must_use]
    pub fn as_main(&self) -> Self {
        Self { part: None, ..self.clone() }
    }

    /// What is remembered of the lists of principals who were all shown the same, from before a restart.
    pub fn remember_own(&self, principals: &[&str], inventory: Arc<Inventory>) {
        self.context.own.remember(principals, inventory);
    }

    /// What a principal was shown last.
    pub fn own_inventory(&self, principal: &str) -> Option<Arc<Inventory>> {
        self.context.own.look(principal).inventory
    }

    /// What all principals with credentials of their own were shown last, equal inventories once. It is shown to no one.
    pub fn own_inventories(&self) -> Vec<Arc<Inventory>> {
        self.context.own.all()
    }

    /// A principal's credential came, changed or lapsed: what it opened is closed, and its lists are read again.
    pub fn credential_changed(&self, principal: &str) {
        self.forget_connections(principal);
        self.context.hearing.renew(principal);
        self.context.own.doubt(principal);
        let KnownLists { standing, is_due, .. } = self.context.own.look(principal);
        if is_due {
            self.check_own(principal, standing);
        }
    }

    /// A principal has logged out: its lists are gone with its credential.
    pub async fn forget_own(&self, principal: &str) {
        self.forget_connections(principal);
        self.context.hearing.renew(principal);
        if self.context.own.forget(principal) {
            self.emit_own(principal).await;
        }
    }

    /// Finds out whether a principal has a credential, and what it lists. Gives what is known at once.
    fn check_own(&self, principal: &str, known: CredentialState) -> CredentialState {
        let Some(credentials) = &self.context.deps.credentials else { return CredentialState::Missing };
        match credentials.headers(&self.context.config, Some(principal)) {
            Proof::Known(headers) if headers.is_empty() => {
                self.context.own.settle_missing(principal);
                CredentialState::Missing
            }
            Proof::Known(_) | Proof::Awaited(_) => {
                self.read_own(principal);
                known
            }
        }
    }
}
