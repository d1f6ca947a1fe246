//! The HTTP server's loop: accept, shake hands where TLS is spoken, serve each connection in the scope, stop in good manners.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use toolcrib_base::task::{Scope, Stop};

use super::tls::{self, ClientCertificate, ServerTls};
use super::workers::{self, Workers};

/// How long a client may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(15);
/// How long a client may take to send the body of a request.
const BODY: Duration = Duration::from_secs(60);
/// How many connections are served at a time; more wait in the system's queue. Each holds about 20 KB.
const CONNECTIONS: usize = 20_000;
/// How much of a connection is read ahead. Each keeps its buffer as long as it is open, so with the library's own value
/// of 400 KB a few thousand idle connections would hold gigabytes after large bodies.
const READ_AHEAD: usize = 64 * 1024;
/// The wait after a failed `accept`, which is nearly always "too many open files".
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The bytes of a connection that was upgraded to another protocol.
pub type UpgradedStream = TokioIo<Upgraded>;

/// Why a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// More bytes than the limit.
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    /// The client went away or was too slow.
    #[error("the body did not arrive")]
    Incomplete,
    /// There is no memory left for it.
    #[error("no memory for the body")]
    NoRoom,
}

/// Reads the body of a client's request, at most `limit` bytes.
///
/// # Errors
/// See [`BodyError`].
pub async fn read_body(body: Incoming, limit: usize) -> Result<Bytes, BodyError> {
    let mut reader = BodyReader::new(body, limit)?;
    let first = reader.first().await?;
    reader.rest(first, |_| true).await
}

/// The body of a client's request while it is read, within a minute.
#[derive(Debug)]
pub struct BodyReader {
    body: Incoming,
    limit: usize,
    until: Instant,
}

impl BodyReader {
    /// Of at most `limit` bytes.
    ///
    /// # Errors
    /// The body says that it is longer.
    pub fn new(body: Incoming, limit: usize) -> Result<Self, BodyError> {
        match body.size_hint().exact() {
            Some(size) if size > limit as u64 => Err(BodyError::TooLarge(limit)),
            _ => Ok(Self { body, limit, until: Instant::now() + BODY }),
        }
    }

    /// Its first part, which is mostly all of it; empty at the end.
    ///
    /// # Errors
    /// It did not arrive, or is longer than the limit.
    pub async fn first(&mut self) -> Result<Bytes, BodyError> {
        let (until, limit) = (self.until, self.limit);
        let first = tokio::time::timeout_at(until, self.part()).await.unwrap_or(Err(BodyError::Incomplete))?;
        let first = first.unwrap_or_default();
        if first.len() > limit { Err(BodyError::TooLarge(limit)) } else { Ok(first) }
    }

    /// Whether nothing comes any more.
    pub fn is_done(&self) -> bool {
        self.body.is_end_stream()
    }

    /// All of it, which begins with `first`, as long as there is room: `admit` is asked before so many more bytes are
    /// kept. A body of one part is not copied.
    ///
    /// # Errors
    /// It did not arrive, is longer than the limit, or `admit` says no.
    pub async fn rest(mut self, first: Bytes, admit: impl FnMut(usize) -> bool) -> Result<Bytes, BodyError> {
        let until = self.until;
        let collected = self.collect(first, admit);
        tokio::time::timeout_at(until, collected).await.unwrap_or(Err(BodyError::Incomplete))
    }

    async fn collect(&mut self, mut first: Bytes, mut admit: impl FnMut(usize) -> bool) -> Result<Bytes, BodyError> {
        let left = self.body.size_hint().exact().and_then(|left| usize::try_from(left).ok());
        let expected = left.map_or(first.len() * 2, |left| first.len() + left);
        let mut rest = BytesMut::new();
        while let Some(data) = self.part().await? {
            if first.len() + rest.len() + data.len() > self.limit {
                return Err(BodyError::TooLarge(self.limit));
            }
            if !admit(data.len()) {
                return Err(BodyError::NoRoom);
            }
            if rest.is_empty() {
                rest.reserve(expected.max(first.len() + data.len()).min(self.limit));
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
        Ok(if rest.is_empty() { first } else { rest.freeze() })
    }

    /// The next part that is not empty.
    async fn part(&mut self) -> Result<Option<Bytes>, BodyError> {
        while let Some(frame) = self.body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyError::Incomplete)?.into_data() else { continue };
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

/// Where connections come from.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    /// `None`: they are in plain text.
    tls: Option<ServerTls>,
}

impl Listener {
    /// With TLS.
    pub fn with_tls(tcp: TcpListener, tls: ServerTls) -> Self {
        Self { tcp, tls: Some(tls) }
    }
}

impl From<TcpListener> for Listener {
    fn from(tcp: TcpListener) -> Self {
        Self { tcp, tls: None }
    }
}

/// Serves `listener` until the scope stops, in the runtime of the caller. `answer` gets each request with the address it
/// came from. Requests of a client with a verified certificate have an `Arc<ClientCertificate>` among their extensions.
pub async fn serve<A, F, B>(listener: impl Into<Listener>, scope: Scope, answer: A)
where
    A: Fn(SocketAddr, Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
{
    serve_on(Workers::none(), listener.into(), scope, answer).await;
}

/// [`serve`] with each connection on a thread of `workers`.
pub async fn serve_on<A, F, B>(workers: Workers, listener: Listener, scope: Scope, answer: A)
where
    A: Fn(SocketAddr, Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
{
    serve_within(Arc::new(Semaphore::new(CONNECTIONS)), workers, Acceptor { listener, scope }, answer).await;
}

/// What connections come from, and the scope of their tasks.
struct Acceptor {
    listener: Listener,
    scope: Scope,
}

/// [`serve_on`] with as many connections at a time as there are places.
async fn serve_within<A, F, B>(places: Arc<Semaphore>, workers: Workers, acceptor: Acceptor, answer: A)
where
    A: Fn(SocketAddr, Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
{
    let Acceptor { listener: Listener { tcp, tls }, scope } = acceptor;
    let mut stop = scope.stop_signal();
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = stop.stopped() => return,
        };
        let accepted = tokio::select! {
            accepted = tcp.accept() => accepted,
            () = stop.stopped() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Small messages must not wait for more.
        let _ = stream.set_nodelay(true);
        let (answer, stop, tls) = (answer.clone(), scope.stop_signal(), tls.clone());
        let Some(worker) = workers.place() else {
            scope.spawn(async move {
                serve_stream(stream, tls, stop, move |request| answer(peer, request)).await;
                drop(place);
            });
            continue;
        };
        let runtime = worker.runtime().clone();
        scope.spawn_on(&runtime, async move {
            // From here on the socket belongs to the runtime of the worker. An error is that of a closed connection.
            if let Ok(stream) = stream.into_std().and_then(TcpStream::from_std) {
                serve_stream(stream, tls, stop, move |request| answer(peer, request)).await;
            }
            drop((place, worker));
        });
    }
}

/// Serves what was accepted, above TLS where that is spoken.
async fn serve_stream<A, F, B>(stream: TcpStream, tls: Option<ServerTls>, mut stop: Stop, answer: A)
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: http_body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
{
    let Some(tls) = tls else {
        return serve_connection(stream, stop, answer).await;
    };
    let shaken = tokio::select! {
        shaken = Box::pin(tls::shake_hands(&tls, stream)) => shaken,
        () = stop.stopped() => return,
    };
    let Some((stream, certificate)) = shaken else { return };
    let Some(certificate) = certificate else {
        return Box::pin(serve_connection(stream, stop, answer)).await;
    };
    let proof = Arc::clone(&certificate);
    let serving = serve_connection(stream, stop, move |mut request: Request<Incoming>| {
        request.extensions_mut().insert::<Arc<ClientCertificate>>(Arc::clone(&proof));
        answer(request)
    });
    // Whose authority is not trusted any more is cut off, with all that it has open.
    tokio::select! {
        () = Box::pin(serving) => {}
        () = certificate.ended() => {}
    }
}

/// Serves one connection until it ends, or the request that runs when the scope stops is answered.
async fn serve_connection<S, A, F, B>(stream: S, mut stop: Stop, answer: A)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: http_body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
{
    let service = service_fn(move |request| {
        workers::note_request();
        let reply = answer(request);
        async move { Ok::<_, Infallible>(reply.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(READ_AHEAD)
        .serve_connection(TokioIo::new(stream), service)
        // What a route makes of a connection that is upgraded is a task of its own.
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    // A connection that breaks is the client's affair.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.stopped() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::http::body::Body;

    #[tokio::test]
    async fn connections_beyond_the_places_wait_until_one_is_free() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (scope, places) = (Scope::new(), Arc::new(Semaphore::new(2)));
        let answer = |_, _| async { Response::new(Body::full("x")) };
        let acceptor = Acceptor { listener: listener.into(), scope: scope.clone() };
        scope.spawn(serve_within(Arc::clone(&places), Workers::none(), acceptor, answer));
        let ask = async |stream: &mut TcpStream| {
            stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        };
        let mut open = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            ask(&mut stream).await;
            assert!(stream.read(&mut [0; 500]).await.unwrap() > 0);
            open.push(stream);
        }
        assert_eq!(places.available_permits(), 0);
        let mut third = TcpStream::connect(address).await.unwrap();
        ask(&mut third).await;
        let mut buffer = [0; 500];
        tokio::select! {
            biased;
            _ = third.read(&mut buffer) => panic!("there is no place"),
            () = async {
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        drop(open.pop());
        assert!(third.read(&mut buffer).await.unwrap() > 0);
    }
}
