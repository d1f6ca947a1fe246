//! Runs that hold a conversation: what another message begins again, and what stays.

use super::*;

fn said(text: &str) -> Event {
    Event::Said { text: text.to_owned() }
}

#[test]
fn another_message_begins_what_counts_for_each_message_again() {
    let mut start = start();
    (start.limits.rounds, start.limits.calls, start.limits.time_ms) = (3, 4, Some(1_000));
    let mut story = Story::new(start);
    for _ in 0..2 {
        story.answers("", &[("look", "{}")], Finish::Stop);
        story.calls_give("nothing new");
    }
    story.now += 900;
    story.answers("Nothing is new.", &[], Finish::Stop);
    assert_eq!(story.end(), End::Done("Nothing is new.".to_owned()));
    let before: Vec<_> = story.run.conversation().parts().to_vec();
    story.now += 86_400_000;
    story.happens(said("Look again."));
    let parts = story.run.conversation().parts();
    assert!(parts.iter().zip(&before).all(|(now, then)| Arc::ptr_eq(now, then)), "an earlier part changed");
    assert_eq!((parts.len(), story.last_words()), (before.len() + 1, "Look again."));
    assert_eq!(story.ask().within_ms, Some(1_000));
    // The third same result, and the first to this message.
    story.answers("", &[("look", "{}")], Finish::Stop);
    story.calls_give("nothing new");
    assert_eq!(story.shown(), ["nothing new"]);
    story.answers("", &[("look", "{}"), ("look", r#"{"n":1}"#)], Finish::Stop);
    story.calls_give("nothing new");
    // Calls are those of the whole run.
    assert_eq!(story.end(), End::Limit(LimitName::Calls));
    assert_eq!((story.run.rounds(), story.run.calls_made(), story.run.spent().tokens), (5, 3, 500));
    let refused = story.run.admit(&said("Go on.")).unwrap_err();
    assert!(refused.to_string().ends_with("the run is at its limit of calls: raise that first"), "{refused}");
    let more = RunLimits { calls: 9, ..story.run.limits().clone() };
    story.happens(Event::Raised(more));
    story.happens(said("Go on."));
    story.calls_give("news");
    assert_eq!((story.shown().len(), story.last_words()), (2, "Go on."));
    story.answers("All is done.", &[], Finish::Stop);
    story.end();
    assert_eq!(replay(&story.journal).unwrap(), Some(End::Done("All is done.".to_owned())));
}

#[test]
fn a_message_goes_on_at_a_limit_of_each_message_and_not_after_another_end() {
    let mut start = start();
    start.limits.rounds = 1;
    let mut story = Story::new(start);
    for message in ["first", "second"] {
        story.answers("", &[("look", "{}")], Finish::Stop);
        story.calls_give("seen");
        assert_eq!(story.end(), End::Limit(LimitName::Rounds));
        story.happens(said(message));
        assert_eq!(story.last_words(), message);
    }
    story.happens(Event::Cancelled { by: "local".to_owned() });
    let late =
        JournalError::Misplaced { entry: story.journal.len() + 1, problem: "the run is about to end".to_owned() };
    assert_eq!(story.run.admit(&said("Wait.")).unwrap_err(), late);
    story.end();
    assert_eq!(story.run.admit(&said("Wait.")).unwrap_err(), JournalError::Ended("cancelled"));
}

#[test]
fn a_message_that_comes_while_the_model_answers_is_told_before_the_run_ends() {
    let mut story = Story::new(start());
    let ask = story.ask();
    story.happens(Event::Asked(ask.request.clone()));
    story.happens(said("One more thing."));
    assert_eq!(story.run.conversation().digest(), ask.conversation.digest(), "what is under way stays as it was sent");
    let answer = Answer {
        raw: to_raw_value("Done.").unwrap().into(),
        text: "Done.".to_owned(),
        calls: Vec::new(),
        finish: Finish::Stop,
        context: 50,
        spent: Cost::default(),
    };
    story.happens(Event::Answered { number: 1, answer: Box::new(answer) });
    assert_eq!(story.last_words(), "One more thing.");
    story.answers("That too.", &[], Finish::Stop);
    assert_eq!(story.end(), End::Done("That too.".to_owned()));
}

#[test]
fn a_fork_at_a_round_with_an_output_goes_on_with_the_message_after_it() {
    let mut story = Story::new(start());
    story.answers("One.", &[], Finish::Stop);
    story.end();
    story.happens(said("Two?"));
    story.answers("Two.", &[], Finish::Stop);
    story.end();
    let forked = fork(&story.journal, "run_2", 1, None, Timestamp(9)).unwrap();
    let run = Run::fold(&forked).unwrap();
    assert_eq!((run.id(), run.rounds()), ("run_2", 1));
    let words = run.conversation().parts().last().map(|part| format!("{part:?}"));
    assert_eq!(words.as_deref(), Some(r#"User("Two?")"#));
    assert!(matches!(run.actions()[..], [Action::Ask(_)]));
    assert!(fork(&story.journal, "run_2", 2, None, Timestamp(9)).is_err(), "nothing follows the last output");
}

#[test]
fn the_newest_message_outlives_a_summary() {
    let mut story = Story::new(start());
    story.answers("One.", &[], Finish::Stop);
    story.end();
    story.happens(said("Is room 7 free?"));
    story.fails(failure(FailureKind::Window, None));
    let ask = story.ask();
    assert_eq!(ask.request.purpose, Purpose::Summary);
    story.answers("Nothing was booked.", &[], Finish::Stop);
    let words = story.last_words();
    assert!(words.starts_with("Do the work.\n\n[Summary of your work so far]\nNothing was booked."), "{words}");
    assert!(words.ends_with("\nIs room 7 free?"), "{words}");
}
