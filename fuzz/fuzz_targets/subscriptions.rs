//! Filters of subscriptions: reading is bounded, two of them meet in what both admit, marking changes nothing else.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::subscription::{self, Filter};
use toolcrib_protocol::{Message, Notification, Raw, level::Level, task};

// Lines: two with parameters of a listen request, the others with messages.
fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|byte| *byte == b'\n');
    let mut filter = || {
        let line = lines.next()?;
        let params = Raw::parse(Bytes::copy_from_slice(line), Rules::strict(32)).ok()?;
        Filter::read(&params).ok()
    };
    let (Some(left), Some(right)) = (filter(), filter()) else { return };
    let both = left.meet(&right);
    assert_eq!(both, right.meet(&left));
    assert_eq!(left.meet(&left), left);
    for filter in [&left, &right, &both] {
        let again = format!(r#"{{"notifications":{}}}"#, filter.to_raw().as_str());
        let again = Raw::parse(again.into(), Rules::strict(32)).expect("what was written is read");
        assert!(Filter::read(&again).is_ok_and(|again| again == *filter) || filter.uris.len() > 1_000);
    }
    for line in lines {
        match Message::parse(&Bytes::copy_from_slice(line), Rules::relayed(32)) {
            Ok(Message::Notification(notification)) => {
                assert_eq!(both.admits(&notification), left.admits(&notification) && right.admits(&notification));
                check_mark(&notification);
                let _ = Level::of_message(&notification.params);
            }
            Ok(Message::Request(request)) => {
                let first = subscription::acknowledged(&request.id, &both);
                assert_eq!(subscription::tagged_with(&first.params), Some(request.id));
            }
            Ok(Message::Answer(_)) | Err(_) => {}
        }
    }
});

fn check_mark(notification: &Notification) {
    let id = toolcrib_protocol::Id::from_number(7);
    let marked = subscription::tag(notification, &id);
    assert_eq!(subscription::tagged_with(&marked.params), Some(id));
    let without = |params: &Raw| -> Vec<(String, String)> {
        let members = params.members().into_iter().filter(|member| member.key != "_meta");
        members.map(|member| (member.key.into_owned(), member.value.to_owned())).collect()
    };
    assert_eq!(without(&marked.params), without(&notification.params));
    if let Some(task) = task::task_id(&notification.params) {
        assert_eq!(task::with_task_id(&notification.params, &task).to_value(), notification.params.to_value());
    }
}
