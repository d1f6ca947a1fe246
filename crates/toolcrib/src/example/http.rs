//! An example server over Streamable HTTP, without sessions: every POST is answered with one JSON body.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Method, Response, StatusCode};
use tokio::net::TcpListener;
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem};
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server::{self, BodyError};
use toolcrib_web::{Guard, respond};

use super::{Example, serve};

/// The path of the endpoint.
pub(crate) const PATH: &str = "/mcp";

/// Serves `listener` until the scope stops. `guard` keeps web pages and other machines away.
pub(crate) async fn serve(listener: TcpListener, example: Arc<dyn Example>, guard: Guard, scope: Scope) {
    let guard = Arc::new(guard);
    server::serve(listener, scope, move |peer: SocketAddr, request| {
        let (example, guard) = (Arc::clone(&example), Arc::clone(&guard));
        async move {
            let (head, body) = request.into_parts();
            if let Err(refusal) = guard.admit(peer, &head.headers) {
                return respond::refusal(&refusal);
            }
            if head.uri.path() != PATH {
                return respond::status(StatusCode::NOT_FOUND);
            }
            // A server that has nothing to say on its own and keeps no sessions offers neither GET nor DELETE.
            if head.method != Method::POST {
                return respond::status(StatusCode::METHOD_NOT_ALLOWED);
            }
            match server::read_body(body, serve::largest()).await {
                Ok(body) => answer(&*example, &body),
                Err(BodyError::TooLarge(limit)) => {
                    respond::refusal(&Problem::new(Kind::TooLarge, format!("the body has more than {limit} bytes")))
                }
                Err(BodyError::Incomplete) => respond::status(StatusCode::REQUEST_TIMEOUT),
            }
        }
    })
    .await;
}

fn answer(example: &dyn Example, body: &bytes::Bytes) -> Response<Body> {
    match serve::receive(example, body).answer {
        Some(answer) if answer.id.is_some() => respond::json(StatusCode::OK, Body::pieces(answer.to_parts())),
        Some(answer) => respond::bad_request(&answer),
        None => respond::status(StatusCode::ACCEPTED),
    }
}
