//! The bodies that we send.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, advance};
use toolcrib_transport::http::body::Body;

async fn next(body: &mut Body) -> Option<Bytes> {
    let frame: Option<Result<_, Infallible>> = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
    frame.map(|frame| frame.unwrap().into_data().unwrap())
}

async fn rest(mut body: Body) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(piece) = next(&mut body).await {
        all.extend_from_slice(&piece);
    }
    all
}

#[tokio::test]
async fn the_length_of_pieces_is_exact() {
    let large: Vec<Bytes> = (0..10_000).map(|number| Bytes::from(vec![b'a' + (number % 26) as u8; 1_024])).collect();
    for pieces in [vec![], vec![Bytes::new()], vec!["a".into(), "".into(), "bc".into()], large] {
        let expect = pieces.concat();
        let mut body = Body::pieces(pieces);
        assert_eq!(body.size_hint().exact(), Some(expect.len() as u64));
        assert_eq!(body.is_end_stream(), expect.is_empty());
        let first = next(&mut body).await.unwrap_or_default();
        assert_eq!(body.size_hint().exact(), Some((expect.len() - first.len()) as u64));
        assert_eq!([&first[..], &rest(body).await].concat(), expect);
    }
    assert_eq!(rest(Body::empty()).await, b"");
    assert_eq!(rest(Body::full("x")).await, b"x");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_gets_a_comment_every_twenty_seconds() {
    let (sender, queue) = mpsc::channel(4);
    let mut body = Body::events(queue);
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (None, false));
    let start = Instant::now();
    for count in 1..=3 {
        assert_eq!(next(&mut body).await.unwrap(), ": keep-alive\n\n");
        assert_eq!(start.elapsed(), Duration::from_secs(20 * count));
    }
    advance(Duration::from_secs(19)).await;
    sender.send("{\"a\":\n1}".into()).await.unwrap();
    assert_eq!(next(&mut body).await.unwrap(), "data: {\"a\":\ndata: 1}\n\n");
    let told = Instant::now();
    assert_eq!(next(&mut body).await.unwrap(), ": keep-alive\n\n");
    assert_eq!(told.elapsed(), Duration::from_secs(20), "a message counts as a sign of life");
    sender.send("1".into()).await.unwrap();
    drop(sender);
    assert_eq!(rest(body).await, b"data: 1\n\n");
}
