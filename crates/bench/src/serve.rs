//! The HTTP side that the backend and both yardsticks share: accept, serve, and end with the parent.

use std::convert::Infallible;
use std::error::Error;
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use toolcrib_base::task::Scope;

/// Where to listen, for the roles that are servers.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Listen {
    /// Address to listen on; port 0 lets the system choose
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// End when standard input closes, so that no server outlives the run that started it
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// Serves `service` on every connection until the parent goes. Prints `ready URL` once it listens.
pub(crate) async fn serve<S, B>(listen: &Listen, service: S) -> anyhow::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listener = TcpListener::bind(listen.listen).await.with_context(|| format!("listen on `{}`", listen.listen))?;
    writeln!(std::io::stdout().lock(), "ready http://{}/mcp", listener.local_addr()?)?;
    let connections = Scope::new();
    let accepting = async {
        loop {
            // A connection that was reset before it was accepted is no reason to stop.
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            let service = service.clone();
            connections.spawn(async move {
                // A client that goes away ends its connection with an error; that is its right.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stdin_closed(), if listen.until_stdin_closes => {}
    }
    connections.close(Duration::ZERO).await;
    Ok(())
}

async fn stdin_closed() {
    let mut nothing = [0; 64];
    let mut stdin = tokio::io::stdin();
    while matches!(stdin.read(&mut nothing).await, Ok(length) if length > 0) {}
}
