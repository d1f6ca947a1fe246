//! The backend over Streamable HTTP: plain JSON answers; in the legacy era one session for everyone, in the modern
//! none.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};

use super::{Answer, Backend, CLOSING, MirroredHeaders, Offer};
use crate::serve::{Listen, serve};

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Runs until the parent goes.
pub(crate) async fn run(listen: &Listen, offer: &Offer) -> anyhow::Result<()> {
    let backend = Arc::new(Backend::new(offer));
    let service = service_fn(move |request| {
        let backend = Arc::clone(&backend);
        async move { Ok::<_, Infallible>(respond(&backend, request).await) }
    });
    serve(listen, service).await
}

async fn respond(backend: &Backend, request: Request<Incoming>) -> Response<Pieces> {
    match *request.method() {
        Method::POST => {}
        // No stream of its own: allowed by the specification, and nothing is ever announced here.
        Method::DELETE if !backend.modern => return empty(StatusCode::OK),
        _ => return empty(StatusCode::METHOD_NOT_ALLOWED),
    }
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return empty(StatusCode::BAD_REQUEST) };
    let header = |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let mirrored = backend.modern.then(|| MirroredHeaders {
        revision: header(REVISION).unwrap_or_default(),
        method: header(METHOD).unwrap_or_default(),
        name: header(NAME),
    });
    let body = body.to_bytes();
    if Backend::hangs(&body) {
        // Until the other side closes the connection.
        return std::future::pending().await;
    }
    let Some(answer) = backend.answer(&body, mirrored) else { return empty(StatusCode::ACCEPTED) };
    let session = answer.session;
    if !backend.modern && !session && !head.headers.contains_key(SESSION) {
        return empty(StatusCode::BAD_REQUEST);
    }
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(Pieces::from(answer));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if session {
        response.headers_mut().insert(SESSION, HeaderValue::from_static("bench-session"));
    }
    response
}

fn empty(status: StatusCode) -> Response<Pieces> {
    let mut response = Response::new(Pieces::default());
    *response.status_mut() = status;
    response
}

/// A body of a few pieces whose length is known.
#[derive(Debug, Default)]
struct Pieces([Bytes; 3]);

impl From<Answer> for Pieces {
    fn from(answer: Answer) -> Self {
        Self([answer.opening, answer.result, Bytes::from_static(CLOSING)])
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.iter_mut().find(|piece| !piece.is_empty());
        Poll::Ready(piece.map(|piece| Ok(Frame::data(std::mem::take(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}
