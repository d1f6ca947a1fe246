//! The first yardstick: forwards bytes between client and backend and looks at nothing. A gateway cannot be cheaper
//! than this with the same HTTP library, so the distance to it is what routing, permits and audit cost.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::Context;
use http_body_util::{Either, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::serve::{Listen, serve};

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// Runs until the parent goes.
pub(crate) async fn run(listen: &Listen, backend: &str) -> anyhow::Result<()> {
    let backend: Uri = backend.parse().with_context(|| format!("read the address `{backend}`"))?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_DEADLINE));
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION)
        .build::<_, Incoming>(connector);
    let service = service_fn(move |request| {
        let (client, backend) = (client.clone(), backend.clone());
        async move { Ok::<_, Infallible>(forward(&client, backend, request).await) }
    });
    serve(listen, service).await
}

type ForwardedResponse = Response<Either<Incoming, Empty<Bytes>>>;

async fn forward(
    client: &Client<HttpConnector, Incoming>,
    backend: Uri,
    mut request: Request<Incoming>,
) -> ForwardedResponse {
    *request.uri_mut() = backend;
    for header in [HOST, CONNECTION, TRANSFER_ENCODING] {
        request.headers_mut().remove(header);
    }
    match client.request(request).await {
        Ok(mut response) => {
            response.headers_mut().remove(CONNECTION);
            response.map(Either::Left)
        }
        Err(_) => {
            let mut response = Response::new(Either::Right(Empty::new()));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    }
}
