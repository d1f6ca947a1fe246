//! Runs whose task or messages wait for a person: nothing is asked meanwhile, and what is refused leaves no trace.

use super::*;

fn held(text: &str) -> Event {
    Event::Quarantined { text: text.to_owned(), why: "rule".to_owned() }
}

fn reviewed(item: u32, released: bool) -> Event {
    Event::Reviewed { item, released, by: "ann".to_owned() }
}

/// The numbers of what the run waits for.
fn waits(story: &mut Story) -> Vec<u32> {
    match &story.records()[..] {
        [Action::Wait(waits)] => {
            let number = |wait: &WaitFor| match wait {
                WaitFor::Review(item) => *item,
                other => panic!("it waits for {other:?}"),
            };
            waits.iter().map(number).collect()
        }
        other => panic!("it does not wait, but {other:?}"),
    }
}

#[test]
fn a_task_that_is_held_is_asked_after_its_release_alone() {
    let start = Start { held: Some("rule".to_owned()), ..start() };
    let mut story = Story::new(start.clone());
    assert_eq!((waits(&mut story), story.run.quarantine()), (vec![1], vec![(1, "Do the work.", "rule")]));
    // The clock stands still.
    story.now += 86_400_000;
    let unknown = story.run.admit(&reviewed(2, true)).unwrap_err();
    assert!(unknown.to_string().contains("nothing is in quarantine under the number 2"), "{unknown}");
    story.happens(reviewed(1, true));
    story.answers("Done.", &[], Finish::Stop);
    assert_eq!(story.end(), End::Done("Done.".to_owned()));
    assert_eq!(replay(&story.journal).unwrap(), Some(End::Done("Done.".to_owned())));
    let mut story = Story::new(start);
    waits(&mut story);
    story.happens(reviewed(1, false));
    let end = End::Cancelled("ann, who refused the task".to_owned());
    assert_eq!((story.end(), story.run.rounds()), (end.clone(), 0));
    assert_eq!(replay(&story.journal).unwrap(), Some(end));
}

#[test]
fn a_message_that_is_held_opens_a_run_that_is_done_and_refused_leaves_it_as_it_was() {
    let mut story = Story::new(start());
    story.answers("Done.", &[], Finish::Stop);
    let done = End::Done("Done.".to_owned());
    assert_eq!(story.end(), done);
    let parts = story.run.conversation().parts().len();
    story.happens(held("Now lie."));
    assert_eq!(waits(&mut story), [1]);
    story.happens(held("Lie more."));
    story.happens(reviewed(1, false));
    assert_eq!((waits(&mut story), story.run.conversation().parts().len()), (vec![2], parts));
    story.happens(reviewed(2, false));
    assert_eq!((story.end(), story.run.rounds()), (done, 1));
    story.happens(held("Tell more."));
    waits(&mut story);
    story.happens(reviewed(3, true));
    assert_eq!(story.last_words(), "Tell more.");
    story.answers("More.", &[], Finish::Stop);
    assert_eq!(story.end(), End::Done("More.".to_owned()));
    assert_eq!(replay(&story.journal).unwrap(), Some(End::Done("More.".to_owned())));
}

#[test]
fn a_message_that_is_held_amid_a_turn_waits_for_its_end_and_no_model_reads_it() {
    let mut story = Story::new(start());
    story.answers("", &[("look", "{}")], Finish::Stop);
    story.happens(held("Now lie."));
    story.calls_give("seen");
    assert_eq!(waits(&mut story), [1]);
    // What is said beside it is told, and waits with the run.
    story.happens(Event::Said { text: "Go on.".to_owned() });
    assert_eq!(waits(&mut story), [1]);
    story.happens(reviewed(1, false));
    story.records();
    let ask = format!("{:?}", story.ask().conversation.parts());
    assert!(ask.contains("Go on.") && !ask.contains("Now lie."), "{ask}");
    // One that comes while the last answer is under way keeps the run open.
    let ask = story.ask();
    story.happens(Event::Asked(ask.request.clone()));
    story.happens(held("Wait."));
    assert!(story.records().is_empty(), "the answer is awaited");
}

#[test]
fn a_run_that_is_paused_in_quarantine_waits_for_both_and_for_what_is_left() {
    let mut story = Story::new(Start { held: Some("rule".to_owned()), ..start() });
    assert_eq!(waits(&mut story), [1]);
    story.happens(Event::Paused { by: "ann".to_owned() });
    let written = |story: &mut Story| {
        let told = match &story.records()[..] {
            [Action::Wait(waits)] => waits.clone(),
            other => panic!("it does not wait, but {other:?}"),
        };
        // What finds the run is what it waits for.
        assert_eq!(story.run.waiting(), Some(&told[..]));
        told
    };
    assert_eq!(written(&mut story), [WaitFor::Resume, WaitFor::Review(1)]);
    story.happens(held("More."));
    assert_eq!(written(&mut story), [WaitFor::Resume, WaitFor::Review(1), WaitFor::Review(2)]);
    story.happens(Event::Arrived(WaitFor::Resume));
    assert_eq!(written(&mut story), [WaitFor::Review(1), WaitFor::Review(2)]);
    story.happens(reviewed(1, true));
    story.happens(reviewed(2, true));
    story.records();
    let asked = format!("{:?}", story.ask().conversation.parts());
    assert!(asked.contains("More."), "{asked}");
    assert!(replay(&story.journal).is_ok());
}

#[test]
fn what_judging_costs_counts_in_the_run_from_before_it_is_known() {
    let cost = |tokens: u64, money: u64| Cost { tokens, money };
    let judged = |spent| Event::Judged { reserved: cost(100, 50), spent };
    let mut limited = Start { judged: cost(30, 3), ..start() };
    limited.limits.tokens = Some(100_000);
    let mut story = Story::new(limited);
    assert_eq!(story.run.spent(), cost(30, 3));
    story.answers("Done.", &[], Finish::Stop);
    assert_eq!(story.end(), End::Done("Done.".to_owned()));
    let before = story.run.spent();
    // The run is done and stays so: only what it spent changes.
    story.happens(judged(None));
    assert_eq!(story.run.spent(), before.plus(cost(100, 50)));
    // A crash here leaves what was reserved.
    story.happens(judged(Some(cost(7, 2))));
    assert_eq!(story.run.spent(), before.plus(cost(7, 2)));
    assert_eq!(story.end(), End::Done("Done.".to_owned()));
    story.happens(judged(None));
    story.happens(judged(Some(cost(100_000, 0))));
    story.happens(Event::Said { text: "And now?".to_owned() });
    assert_eq!(story.end(), End::Limit(LimitName::Tokens), "the next request does not fit any more");
    assert_eq!(replay(&story.journal).unwrap(), Some(End::Limit(LimitName::Tokens)));
}
