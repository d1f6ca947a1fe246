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
            if let Err(refusal) = guard.admit(peer, &head.uri, &head.headers, None) {
                return respond::shielded(respond::refusal(&refusal));
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
                Err(BodyError::Incomplete | BodyError::NoRoom) => respond::status(StatusCode::REQUEST_TIMEOUT),
            }
        }
    })
    .await;
}

fn answer(example: &dyn Example, body: &bytes::Bytes) -> Response<Body> {
    // Notifications have nowhere to go: there is no stream.
    match serve::receive(example, body).answer {
        Some(answer) if answer.id.is_some() => respond::json(StatusCode::OK, Body::pieces(answer.to_parts())),
        Some(answer) => respond::bad_request(&answer),
        None => respond::status(StatusCode::ACCEPTED),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use toolcrib_base::random;

    use super::*;
    use crate::example;

    async fn ask(address: SocketAddr, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "{head}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn posts_of_this_machine_are_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (scope, server) = (Scope::new(), example::named("units").unwrap());
        let guard = Guard::new(random::token(), Vec::new(), Vec::new());
        scope.spawn(serve(listener, server, guard, scope.clone()));
        let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        for (head, body, status, part) in [
            ("POST /mcp HTTP/1.1\r\nHost: localhost", ping, "200", r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
            ("POST /mcp HTTP/1.1\r\nHost: localhost", note, "202", ""),
            ("POST /mcp HTTP/1.1\r\nHost: localhost", "{", "400", "-32700"),
            ("GET /mcp HTTP/1.1\r\nHost: localhost", "", "405", ""),
            ("POST /other HTTP/1.1\r\nHost: localhost", ping, "404", ""),
            ("POST /mcp HTTP/1.1\r\nHost: evil.example", ping, "403", "evil.example"),
            ("POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example", ping, "403", "evil.example"),
        ] {
            let answer = ask(address, head, body).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(part), "{head}: {answer}");
        }
        assert!(scope.close(Duration::from_secs(5)).await);
    }
}
