//! The order, the bounds and the closing of a program's stdin.

use std::io::{BufRead, BufReader, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::*;

fn pair() -> (Arc<Outbox>, Sender, PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let pipe = pipe::Sender::from_owned_fd(OwnedFd::from(writer)).unwrap();
    let outbox = Arc::new(Outbox::new(pipe));
    (Arc::clone(&outbox), Sender::new(outbox), reader)
}

fn read_all(reader: PipeReader) -> std::thread::JoinHandle<Vec<String>> {
    std::thread::spawn(move || BufReader::new(reader).lines().map(Result::unwrap).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_many_senders_arrive_whole_and_in_order() {
    let (outbox, sender, reader) = pair();
    let scope = toolcrib_base::task::Scope::new();
    scope.spawn(write_queued(Arc::clone(&outbox)));
    let received = read_all(reader);
    let senders: Vec<_> = (0..8)
        .map(|number| {
            let sender = sender.clone();
            scope.spawn(async move {
                for count in 0..2_000 {
                    let padding = "x".repeat(if count % 100 == 0 { 100_000 } else { count % 300 });
                    sender.send(format!("{number} {count} {padding}").into()).await.unwrap();
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    outbox.close();
    let received = received.join().unwrap();
    let mut next = [0; 8];
    for line in &received {
        let mut words = line.split(' ');
        let number: usize = words.next().unwrap().parse().unwrap();
        let count: usize = words.next().unwrap().parse().unwrap();
        assert_eq!(count, next[number], "order of sender {number}");
        assert_eq!(words.next().unwrap().len(), if count.is_multiple_of(100) { 100_000 } else { count % 300 });
        next[number] += 1;
    }
    assert_eq!(next, [2_000; 8]);
    assert_eq!(sender.try_send("late".into()), Err(SendError::StdinClosed(StdinClosed)));
    assert!(scope.close(Duration::from_secs(20)).await, "the writer task ends with its pipe");
}

#[tokio::test]
async fn a_reader_that_does_not_read_fills_the_queue_and_no_more() {
    let (outbox, sender, reader) = pair();
    let scope = toolcrib_base::task::Scope::new();
    scope.spawn(write_queued(Arc::clone(&outbox)));
    let mut taken = 0;
    let line = Bytes::from(vec![b'x'; 100_000]);
    while sender.try_send(line.clone()).is_ok() {
        taken += 1;
        assert!(taken < 1_000, "the bytes are bounded");
        tokio::task::yield_now().await;
    }
    let waiting = scope.spawn({
        let sender = sender.clone();
        async move { sender.send("last".into()).await }
    });
    let received = read_all(reader);
    waiting.await.unwrap().unwrap();
    outbox.close();
    assert!(scope.close(Duration::from_secs(20)).await);
    let received = received.join().unwrap();
    assert_eq!(received.len(), taken + 1);
    assert_eq!(received.last().unwrap(), "last");
    assert_eq!(lock(&outbox.queue).bytes, 0, "every written line gives its room back");
}

#[tokio::test]
async fn a_closed_reader_shuts_the_sender_and_wakes_those_who_wait() {
    let (outbox, sender, reader) = pair();
    let scope = toolcrib_base::task::Scope::new();
    scope.spawn(write_queued(Arc::clone(&outbox)));
    while sender.try_send(vec![b'x'; 100_000].into()).is_ok() {
        tokio::task::yield_now().await;
    }
    let waiting = scope.spawn({
        let sender = sender.clone();
        async move { sender.send("never".into()).await }
    });
    tokio::task::yield_now().await;
    drop(reader);
    assert_eq!(waiting.await.unwrap(), Err(StdinClosed));
    assert_eq!(sender.send("x".into()).await, Err(StdinClosed));
    assert!(scope.close(Duration::from_secs(20)).await);
}

#[tokio::test]
async fn a_newline_inside_a_line_cannot_smuggle_a_message() {
    let (outbox, sender, mut reader) = pair();
    let scope = toolcrib_base::task::Scope::new();
    scope.spawn(write_queued(Arc::clone(&outbox)));
    sender.send("{\"a\":\r\n{\"method\":\"tools/call\"}\n}".into()).await.unwrap();
    sender.send("plain".into()).await.unwrap();
    outbox.close();
    assert!(scope.close(Duration::from_secs(20)).await);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "{\"a\":  {\"method\":\"tools/call\"} }\nplain\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_line_sent_while_the_writer_task_looks_around_is_not_left_behind() {
    let (outbox, sender, reader) = pair();
    let scope = toolcrib_base::task::Scope::new();
    scope.spawn(write_queued(Arc::clone(&outbox)));
    let nudging = scope.spawn({
        let outbox = Arc::clone(&outbox);
        async move {
            while !lock(&outbox.queue).closed {
                outbox.writer.notify_one();
                tokio::task::yield_now().await;
            }
        }
    });
    let (answers, mut answered) = tokio::sync::mpsc::unbounded_channel();
    let received = std::thread::spawn(move || {
        for line in BufReader::new(reader).lines() {
            answers.send(line.unwrap()).unwrap();
        }
    });
    for number in 0..20_000 {
        sender.send(number.to_string().into()).await.unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(60), answered.recv()).await;
        assert_eq!(answer.expect("the line arrives without another one behind it"), Some(number.to_string()));
    }
    outbox.close();
    nudging.await.unwrap();
    received.join().unwrap();
    assert!(scope.close(Duration::from_secs(20)).await);
}
