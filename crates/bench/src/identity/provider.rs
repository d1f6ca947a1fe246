//! An authorization server and a protected server at one address, as small as they can be: metadata, keys, tokens.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolcrib_base::task::Scope;

/// How long its access tokens live, in seconds.
pub(super) const LIFE: i64 = 3_600;

/// See the module. It serves until its scope ends.
#[derive(Debug, Clone)]
pub(super) struct Provider(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    url: String,
    keys: Value,
    /// How long a renewal takes.
    delay: Duration,
    renewals: AtomicUsize,
    serial: AtomicUsize,
}

impl Provider {
    pub(super) async fn start(keys: Value, delay: Duration, scope: &Scope) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (renewals, serial) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let provider = Self(Arc::new(Inner { url, keys, delay, renewals, serial }));
        let (own, connections) = (provider.clone(), scope.clone());
        scope.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let _ = stream.set_nodelay(true);
                let own = own.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let own = own.clone();
                        async move { Ok::<_, Infallible>(own.answer(request).await) }
                    });
                    // A client that goes away ends its connection with an error; that is its right.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(provider)
    }

    /// Its issuer.
    pub(super) fn url(&self) -> &str {
        &self.0.url
    }

    /// How many refresh tokens were exchanged.
    pub(super) fn renewals(&self) -> usize {
        self.0.renewals.load(Ordering::SeqCst)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let issuer = &self.0.url;
        let path = request.uri().path().to_owned();
        let body = match path.as_str() {
            "/.well-known/oauth-authorization-server" => json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "registration_endpoint": format!("{issuer}/register"),
                "jwks_uri": format!("{issuer}/jwks"),
                "code_challenge_methods_supported": ["S256"],
            }),
            "/jwks" => self.0.keys.clone(),
            "/register" => json!({"client_id": "bench"}),
            "/token" => self.token(request).await,
            _ => return response(StatusCode::NOT_FOUND, String::new()),
        };
        response(StatusCode::OK, body.to_string())
    }

    async fn token(&self, request: Request<Incoming>) -> Value {
        let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        if memchr::memmem::find(&body, b"grant_type=refresh_token").is_some() {
            self.0.renewals.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(self.0.delay).await;
        }
        let serial = self.0.serial.fetch_add(1, Ordering::SeqCst);
        // As long as tokens are that can be read.
        let filling = "0123456789abcdef".repeat(50);
        json!({
            "access_token": format!("access-{serial}-{filling}"),
            "refresh_token": format!("refresh-{serial}"),
            "token_type": "Bearer",
            "expires_in": LIFE,
        })
    }
}

fn response(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    response
}
