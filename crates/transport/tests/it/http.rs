//! HTTP in both directions, against scripted servers and raw sockets.

use std::sync::{Arc, Mutex};

use toolcrib_base::task::Scope;
use toolcrib_protocol::{Notification, Request};
use toolcrib_testkit::http::HttpServer;
use toolcrib_transport::http::client::{Endpoint, HttpClient};
use toolcrib_transport::http::link::{Bounds, HttpLink};
use toolcrib_transport::{CallHandler, Inbox, Link, Reply};

mod body;
mod client;
mod hostile;
mod link;
mod modern;
mod old;
mod pool;
mod possession;
mod resume;
mod secure;
mod server;
mod tls;

/// Notes what it is told; answers what every client must.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<Vec<String>>);

impl Notes {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn add(&self, note: String) {
        self.0.lock().unwrap().push(note);
    }
}

impl Inbox for Notes {
    fn notification(&self, notification: Notification) {
        self.add(format!("notification {}", notification.method));
    }

    fn request(&self, request: Request, reply: Reply) {
        self.add(format!("request {}", request.method));
        reply.send_default(&request);
    }

    fn oddity(&self, what: &str) {
        self.add(format!("oddity {what}"));
    }

    fn closed(&self) {
        self.add("closed".to_owned());
    }
}

/// Notes what is said in the course of one call; answers what every client must.
#[derive(Debug, Default)]
pub(crate) struct RecordedCall(Notes);

impl RecordedCall {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.all()
    }
}

impl CallHandler for RecordedCall {
    fn notification(&self, notification: Notification) {
        self.0.notification(notification);
    }

    fn request(&self, request: Request, reply: Reply) {
        self.0.request(request, reply);
    }
}

fn endpoint(server: &HttpServer) -> Endpoint {
    Endpoint { uri: server.url().parse().unwrap(), headers: http::HeaderMap::new(), proof: http::HeaderMap::new() }
}

/// A connection to this server with small bounds.
fn connect(server: &HttpServer, scope: &Scope) -> (Arc<HttpLink>, Link, Arc<Notes>) {
    let notes = Arc::new(Notes::default());
    let bounds = Bounds { bytes: 10_000, depth: 8, is_own: false };
    let inbox = Arc::<Notes>::clone(&notes);
    let http = HttpLink::new(HttpClient::new().unwrap(), endpoint(server), inbox, scope.clone(), bounds);
    (Arc::clone(&http), Link::Http(http), notes)
}

/// Keeps a paused time from running ahead while sockets are waited for: it then only moves by `advance`.
fn hold_time(scope: &Scope) {
    let stop = scope.stop_signal();
    scope.spawn(async move {
        while !stop.is_stopped() {
            tokio::task::yield_now().await;
        }
    });
}
