//! Streams without any connection.

use std::time::Duration;

use toolcrib_base::{Kind, ManualClock, ProfileName};

use super::*;
use crate::principal::Principal;
use crate::session::{Session, Sessions};

fn session(revision: Revision) -> Arc<Session> {
    let sessions = Sessions::new(9, Duration::from_secs(60), Arc::new(ManualClock::default()));
    let who = Principal::member("p");
    sessions.open(who, ProfileName::new("a").unwrap(), revision).unwrap()
}

fn events(reader: &mut Reader) -> Vec<Event> {
    let mut cx = Context::from_waker(Waker::noop());
    let mut events = Vec::new();
    while let Poll::Ready(Some(event)) = reader.poll_event(&mut cx) {
        events.push(event);
    }
    events
}

fn texts(reader: &mut Reader) -> Vec<String> {
    events(reader).into_iter().map(|event| String::from_utf8(event.data.to_vec()).unwrap()).collect()
}

fn has_ended(reader: &mut Reader) -> bool {
    matches!(reader.poll_event(&mut Context::from_waker(Waker::noop())), Poll::Ready(None))
}

#[test]
fn a_stream_goes_on_after_the_event_that_is_named_and_nothing_comes_twice() {
    let session = session(Revision::LATEST_LEGACY);
    let (stream, mut reader) = session.begin_stream();
    for text in ["a", "b", "c"] {
        stream.push(text.into());
    }
    let first = events(&mut reader);
    assert_eq!((first[0].retry, first[0].data.len()), (Some(RETRY), 0), "the first says where to come back");
    assert_eq!(first.iter().skip(1).map(|event| event.retry).collect::<Vec<_>>(), [None; 3]);
    let ids: Vec<String> = first.into_iter().map(|event| event.id.unwrap()).collect();
    drop(reader);
    stream.push("d".into());
    for (id, expect) in ids.iter().zip([vec!["a", "b", "c", "d"], vec!["b", "c", "d"], vec!["c", "d"], vec!["d"]]) {
        assert_eq!(texts(&mut session.resume_stream(id).unwrap()), expect, "{id}");
    }
    let mut last = session.resume_stream(&ids[3]).unwrap();
    stream.finish(Some("answer".into()));
    assert_eq!(texts(&mut last), ["d", "answer"]);
    assert!(has_ended(&mut last));
    assert_eq!(texts(&mut session.resume_stream(&ids[3]).unwrap()), ["d", "answer"], "also when it has ended");
}

#[test]
fn an_event_of_elsewhere_takes_nothing_up() {
    let (session, other) = (session(Revision::LATEST_LEGACY), session(Revision::LATEST_LEGACY));
    let id = |session: &Session| events(&mut session.open_stream().unwrap())[0].id.clone().unwrap();
    let (own, foreign) = (id(&session), id(&other));
    assert!(session.resume_stream(&own).is_ok());
    let stream = own.split('-').next().unwrap();
    for wrong in [
        &foreign,
        "",
        "-",
        "-1",
        "x",
        &format!("{stream}-2"),
        &format!("{stream}-+1"),
        &format!("{stream}-"),
        &format!("{stream}-18446744073709551615"),
        &format!("{stream}-99999999999999999999"),
        stream,
    ] {
        assert_eq!(session.resume_stream(wrong).unwrap_err().kind, Kind::InvalidRequest, "{wrong}");
    }
}

#[test]
fn a_new_reader_takes_over_from_the_old_one() {
    let session = session(Revision::LATEST_LEGACY);
    let (stream, mut old) = session.begin_stream();
    let id = events(&mut old)[0].id.clone().unwrap();
    let mut new = session.resume_stream(&id).unwrap();
    assert!(has_ended(&mut old));
    drop(old);
    assert!(stream.is_attached(), "the old one's end is not the new one's");
    stream.push("a".into());
    assert_eq!(texts(&mut new), ["a"]);
}

#[test]
fn what_was_read_is_kept_within_bounds_and_what_is_unread_is_not_lost() {
    let session = session(Revision::LATEST_LEGACY);
    let (stream, mut reader) = session.begin_stream();
    let mut ids = Vec::new();
    for number in 0..KEPT + 10 {
        stream.push(format!("{number}").into());
        ids.extend(events(&mut reader).into_iter().map(|event| event.id.unwrap()));
    }
    assert!(session.resume_stream(&ids[9]).is_err(), "too long ago");
    assert_eq!(texts(&mut session.resume_stream(&ids[10]).unwrap()).len(), KEPT);
    let mut reader = session.resume_stream(ids.last().unwrap()).unwrap();
    stream.push(vec![b'x'; KEPT_BYTES + 1].into());
    assert!(!stream.has_room());
    assert_eq!(texts(&mut reader).len(), 1);
    assert_eq!(lock(&stream.state).messages.len(), 0, "one that is too large is not kept");
    drop(reader);
    for _ in 0..STREAM_QUEUE {
        assert!(stream.has_room());
        stream.push("x".into());
    }
    assert!(!stream.has_room());
    let id = EventId { stream: stream.id, sequence: KEPT as u64 + 12 }.to_string();
    assert_eq!(texts(&mut session.resume_stream(&id).unwrap()).len(), STREAM_QUEUE);
}

#[test]
fn without_ids_a_stream_ends_with_its_reader() {
    let (passing, mut reader) = Stream::passing();
    passing.push("a".into());
    assert_eq!(events(&mut reader), [Event::data("a".into())]);
    assert_eq!(lock(&passing.state).messages.len(), 0, "nothing is kept");
    drop(reader);
    assert!(passing.is_expired() && passing.has_room());
    passing.push("b".into());
    assert_eq!(passing.budget.0.load(Ordering::Relaxed), 0);
    let session = session(Revision::parse("2024-11-05").unwrap());
    let mut reader = session.open_stream().unwrap();
    assert_eq!(events(&mut reader), []);
    drop(reader);
    assert!(session.resume_stream("-0").is_err());
}

#[test]
fn a_session_keeps_so_many_streams_and_frees_them_with_itself() {
    let sessions = Sessions::new(9, Duration::from_secs(60), Arc::new(ManualClock::default()));
    let who = Principal::member("p");
    let session = sessions.open(who, ProfileName::new("a").unwrap(), Revision::LATEST_LEGACY).unwrap();
    let budget = Arc::clone(&session.begin_stream().0.budget);
    let mut ids = Vec::new();
    for _ in 0..40 {
        let (stream, mut reader) = session.begin_stream();
        stream.finish(Some("answer".into()));
        ids.push(events(&mut reader)[0].id.clone().unwrap());
    }
    assert!(session.resume_stream(&ids[0]).is_err());
    assert_eq!(budget.0.load(Ordering::Relaxed), 32 * "answer".len());
    let mut reader = session.resume_stream(&ids[39]).unwrap();
    sessions.close(&session);
    assert_eq!(texts(&mut reader), ["answer"], "what was put is still read");
    drop(reader);
    assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    assert!(session.resume_stream(&ids[39]).is_err());
    assert!(session.open_stream().is_err());
}

#[test]
fn all_streams_together_keep_so_much() {
    let session = session(Revision::LATEST_LEGACY);
    let (stream, mut reader) = session.begin_stream();
    stream.push("a".into());
    let id = events(&mut reader)[0].id.clone().unwrap();
    let budget = Arc::clone(&stream.budget);
    budget.0.fetch_add(ALL_KEPT, Ordering::Relaxed);
    stream.push("b".into());
    assert_eq!(texts(&mut reader), ["b"], "who reads is served");
    drop(reader);
    assert!(session.resume_stream(&id).is_err(), "who comes back is not");
    stream.push("c".into());
    assert!(stream.is_expired());
    assert_eq!(budget.0.load(Ordering::Relaxed), ALL_KEPT);
}
