//! Halts that could not be read.

use std::net::Ipv4Addr;

use toolcrib_base::SystemClock;
use toolcrib_store::{Config, Store};

use super::*;
use crate::ticket::tests::caller;

/// The holder of the token file, as the command line is.
fn holder() -> Caller {
    let mut caller = caller("admin", "default");
    (caller.principal, caller.door) = (Principal::admin("admin"), Door::REST);
    caller.trace.client = Some(Ipv4Addr::LOCALHOST.into());
    caller
}

fn unread(store: &Store) -> Halts {
    let error = StoreError::Full { what: "halts".to_owned(), limit: 0 };
    Halts::of_read(store.halts(), Arc::new(SystemClock), Err(error))
}

fn cause() -> HaltCause {
    HaltCause { reason: "a test".to_owned(), canary: None, by: PrincipalId::new("admin") }
}

#[test]
fn while_halts_cannot_be_read_all_but_the_holder_of_the_token_file_are_halted_until_it_has_them_read_again() {
    let store = Store::in_memory(Config::default()).unwrap();
    // One that is in the store, and that no one could read.
    let first = Halts::open(store.halts(), Arc::new(SystemClock));
    let (known, _) = first.add(HaltSubject::new("principal", "ann").unwrap(), cause()).unwrap();
    let halts = unread(&store);
    let (ann, bob, holder) = (caller("ann", "default"), caller("bob", "default"), holder());
    for somebody in [&ann, &bob] {
        assert_eq!(halts.of(somebody).map(|halt| halt.id.to_string()).as_deref(), Some(UNREAD));
    }
    assert_eq!(halts.of(&holder), None);
    assert_eq!(halts.list().iter().map(|halt| &*halt.id).collect::<Vec<_>>(), [UNREAD]);
    // One that is added meanwhile is in force beside it, and lifting that one changes nothing else.
    let (added, _) = halts.add(HaltSubject::new("principal", "carol").unwrap(), cause()).unwrap();
    let (other, _) = halts.add(HaltSubject::new("profile", "work").unwrap(), cause()).unwrap();
    halts.lift(&other.id, &holder).unwrap();
    assert_eq!(halts.of(&bob).map(|halt| halt.id.to_string()).as_deref(), Some(UNREAD));
    // Nobody else lifts it: neither another administrator, nor the token from elsewhere, nor by the MCP door.
    let mut elsewhere = holder.clone();
    elsewhere.trace.client = Some(Ipv4Addr::new(192, 0, 2, 7).into());
    let by_mcp = Caller { door: Door::MCP, ..holder.clone() };
    let mut administrator = holder.clone();
    administrator.principal = Principal { id: PrincipalId::new("user:acme/ada"), ..ann.principal.clone() };
    administrator.principal.role = toolcrib_base::Role::Admin;
    for refused in [&elsewhere, &by_mcp, &administrator] {
        assert_eq!(halts.lift(UNREAD, refused).unwrap_err().kind, Kind::Forbidden);
    }
    // Then those of the store and those that were added meanwhile are in force, and nothing else is.
    assert_eq!(&*halts.lift(UNREAD, &holder).unwrap().id, UNREAD);
    assert_eq!(halts.of(&bob), None);
    assert_eq!(halts.of(&ann).map(|halt| halt.id.clone()), Some(Arc::clone(&known.id)));
    assert_eq!(halts.of(&caller("carol", "default")).map(|halt| halt.id.clone()), Some(Arc::clone(&added.id)));
    assert_eq!(halts.list().len(), 2);
    assert_eq!(halts.lift(UNREAD, &holder).unwrap_err().kind, Kind::NotFound);
}
