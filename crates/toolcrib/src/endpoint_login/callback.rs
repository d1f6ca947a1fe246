//! The listener to which the browser brings a provider's answer: on this machine, for the time of one login, and for
//! nothing else. Knows no OAuth.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use toolcrib_base::task::Scope;

/// Where answers come.
pub(super) const PATH: &str = "/callback";
/// The longest request that is read, in bytes.
const REQUEST_BYTES: usize = 32 * 1024;
/// How long a browser may take to send its request, and to take the page.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many connections are served at a time; more wait.
const CONNECTIONS: usize = 16;

/// An answer, as it came: the path and the query of a request.
#[derive(Debug)]
pub(super) struct BrowserAnswer {
    pub(super) target: String,
    pub(super) page: oneshot::Sender<Page>,
}

/// What the browser is shown.
#[derive(Debug)]
pub(super) enum Page {
    Text(u16, String),
    /// On to another page.
    Redirect(String),
}

/// Listens on this machine: at the port that was used before if it is free, else at any.
pub(super) async fn bind(port: Option<u16>) -> std::io::Result<TcpListener> {
    let at = |port| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    match port {
        Some(port) => match at(port).await {
            Ok(listener) => Ok(listener),
            Err(_) => at(0).await,
        },
        None => at(0).await,
    }
}

/// Gives what browsers bring to `answers`, until no one takes it any more.
pub(super) async fn serve(listener: TcpListener, answers: mpsc::Sender<BrowserAnswer>) {
    let (places, serving) = (Arc::new(Semaphore::new(CONNECTIONS)), Scope::new());
    let port = listener.local_addr().map_or(0, |address| address.port());
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = answers.closed() => break,
        };
        let Ok((stream, _)) = stream else {
            // Mostly the process has too many files open for a moment.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let answers = answers.clone();
        serving.spawn(async move {
            let _place = place;
            serve_one(stream, port, &answers).await;
        });
    }
    drop(listener);
    // The last page is still on its way.
    serving.close(PATIENCE).await;
}

async fn serve_one(mut stream: TcpStream, port: u16, answers: &mpsc::Sender<BrowserAnswer>) {
    let Ok(Some(head)) = timeout(PATIENCE, read_head(&mut stream)).await else { return };
    let page = match target(&head, port) {
        Ok(target) => {
            let (page, shown) = oneshot::channel();
            let target = target.to_owned();
            if answers.send(BrowserAnswer { target, page }).await.is_err() {
                return;
            }
            shown.await.unwrap_or_else(|_| Page::Text(500, "The login was interrupted.".to_owned()))
        }
        Err(status) => Page::Text(status, "This address only takes the answer to a login.".to_owned()),
    };
    let _ = timeout(PATIENCE, async {
        stream.write_all(page.to_response().as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}

/// A request up to its empty line; `None` for what is none.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut part = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&part[..count]);
        if head.len() > REQUEST_BYTES {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

/// The path and the query of a request for an answer; else the status to refuse it with.
fn target(head: &str, port: u16) -> Result<&str, u16> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next().unwrap_or_default(), words.next());
    if words.next().is_some() || !version.is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err(400);
    }
    // A page elsewhere whose name leads here is none of ours.
    let mut hosts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then_some(value.trim())
    });
    let is_ours = |host: &str| ["127.0.0.1", "localhost"].iter().any(|name| host == format!("{name}:{port}"));
    if !hosts.next().is_some_and(is_ours) || hosts.next().is_some() {
        return Err(421);
    }
    match target.split('?').next() {
        _ if method != Some("GET") => Err(405),
        Some(PATH) => Ok(target),
        _ => Err(404),
    }
}

// === impl Page ===

impl Page {
    fn to_response(&self) -> String {
        const ALWAYS: &str = "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n";
        match self {
            Self::Redirect(place) => {
                format!("HTTP/1.1 303 See Other\r\nlocation: {place}\r\n{ALWAYS}content-length: 0\r\n\r\n")
            }
            Self::Text(status, text) => {
                let kind = "content-type: text/plain; charset=utf-8\r\nx-content-type-options: nosniff\r\n";
                let guard = "content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n";
                let length = text.len() + 1;
                format!("HTTP/1.1 {status} .\r\n{kind}{guard}{ALWAYS}content-length: {length}\r\n\r\n{text}\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_are_taken() {
        let check = |expected: Result<&str, u16>, head: &str| assert_eq!(target(head, 80), expected, "{head}");
        check(Ok("/callback?code=a"), "GET /callback?code=a HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
        check(Ok("/callback"), "GET /callback HTTP/1.0\r\nhost:localhost:80\r\n\r\n");
        check(Err(421), "GET /callback HTTP/1.1\r\nHost: evil.example:80\r\n\r\n");
        check(Err(421), "GET /callback HTTP/1.1\r\nHost: 127.0.0.1:81\r\n\r\n");
        check(Err(421), "GET /callback HTTP/1.1\r\nHost: 127.0.0.1:80\r\nHost: x\r\n\r\n");
        check(Err(421), "GET /callback HTTP/1.1\r\n\r\n");
        check(Err(405), "POST /callback HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
        check(Err(404), "GET /callbacks HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
        check(Err(404), "GET /../callback HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
        check(Err(400), "GET /callback\r\n\r\n");
        check(Err(400), "GET /callback HTTP/1.1 x\r\n\r\n");
        check(Err(400), "\r\n\r\n");
    }
}
