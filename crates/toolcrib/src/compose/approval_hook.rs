//! The webhook of approvals: what happens to calls that wait for a yes is posted to one address, signed, so that a chat or
//! a pager can tell people. Results are not in it, nor arguments, but where a connector's definition says what a call is
//! about: then they stand beside it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, Mac};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request};
use serde_json::Value;
use sha2::Sha256;
use tokio::sync::mpsc;
use toolcrib_base::task::Stop;
use toolcrib_base::{Clock, Secret};
use toolcrib_identity::ReadSecret;
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient};

/// How many events wait for the address before further ones are left out: what a slow one catches up with in minutes.
pub(super) const WAITING: usize = 1_024;
/// How long is waited before each further attempt; after the last one the event is left out.
const AGAIN: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25)];
/// Carries the time and the signature.
const SIGNATURE: &str = "toolcrib-signature";

/// Posts to one address.
#[derive(Debug)]
pub(super) struct ApprovalHook {
    pub(super) url: String,
    /// What bodies are signed with.
    pub(super) secret: Arc<dyn ReadSecret>,
    /// Whether the address may be private or of this machine.
    pub(super) is_private: bool,
    pub(super) http: CheckedClient,
    pub(super) clock: Arc<dyn Clock>,
}

// === impl ApprovalHook ===

impl ApprovalHook {
    /// Posts what comes, in order, until it is told to stop.
    pub(super) async fn run(self, mut happened: mpsc::Receiver<Value>, mut stop: Stop) {
        loop {
            let event = tokio::select! {
                () = stop.stopped() => return,
                event = happened.recv() => event,
            };
            let Some(event) = event else { return };
            tokio::select! {
                () = stop.stopped() => return,
                () = self.post(&event) => {}
            }
        }
    }

    async fn post(&self, event: &Value) {
        let body = event.to_string();
        let mut failed = String::new();
        for wait in [Duration::ZERO].into_iter().chain(AGAIN) {
            tokio::time::sleep(wait).await;
            match self.try_once(&body).await {
                Ok(()) => return,
                Err(why) => failed = why,
            }
        }
        tracing::warn!(approval = event["id"].as_str(), "the webhook of approvals was not told: {failed}");
    }

    async fn try_once(&self, body: &str) -> Result<(), String> {
        let secret = self.secret.read()?;
        let at = self.clock.now().0 / 1_000;
        let signature = HeaderValue::from_str(&signature(&secret, at, body)).map_err(|error| error.to_string())?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .header(SIGNATURE, signature)
            .body(body.as_bytes().to_vec());
        let policy = AddressPolicy {
            allows_loopback: self.is_private,
            allows_private: self.is_private,
            private_setting: "`approvals.webhook_private` in `config.toml`",
        };
        let request = request.map_err(|error| error.to_string())?;
        let answer = self.http.send(policy, request).await.map_err(|error| error.to_string())?;
        if answer.status().is_success() { Ok(()) } else { Err(format!("it answered {}", answer.status().as_u16())) }
    }
}

/// `t=SECONDS,v1=HEX`: HMAC-SHA-256 over the time, a dot and the body. Whoever checks it refuses old times.
fn signature(secret: &Secret, at: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{at}.{body}").as_bytes());
    let mut text = format!("t={at},v1=");
    for byte in mac.finalize().into_bytes() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_base::task::Scope;
    use toolcrib_base::{ManualClock, Timestamp};
    use toolcrib_testkit::eventually;
    use toolcrib_testkit::http::HttpServer;
    use toolcrib_transport::http::checked::SystemResolver;
    use toolcrib_transport::http::client::HttpClient;

    use super::*;

    #[derive(Debug)]
    struct TestSecret;

    impl ReadSecret for TestSecret {
        fn read(&self) -> Result<Secret, String> {
            Ok(Secret::new("key"))
        }
    }

    fn hook(url: &str, is_private: bool) -> ApprovalHook {
        let http = CheckedClient::new(HttpClient::new().unwrap(), Arc::new(SystemResolver));
        let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000)));
        ApprovalHook { url: url.to_owned(), secret: Arc::new(TestSecret), is_private, http, clock }
    }

    #[test]
    fn a_signature_covers_the_time_and_the_body() {
        let secret = Secret::new("key");
        let signed = signature(&secret, 1_700_000_000, "{}");
        assert!(signed.starts_with("t=1700000000,v1=") && signed.len() == 16 + 64, "{signed}");
        assert_ne!(signed, signature(&secret, 1_700_000_000, "{ }"));
        assert_ne!(signed[16..], signature(&secret, 1_700_000_001, "{}")[16..]);
        assert_ne!(signed, signature(&Secret::new("other"), 1_700_000_000, "{}"));
    }

    #[tokio::test]
    async fn what_happens_is_posted_signed_and_again_after_a_failure() {
        let server = HttpServer::start(|_, reply| {
            static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            let is_first = COUNT.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            reply.full(if is_first { 500 } else { 204 }, &[], "");
        });
        let (sender, receiver) = mpsc::channel(WAITING);
        let scope = Scope::new();
        scope.spawn(hook(&server.url(), true).run(receiver, scope.stop_signal()));
        let event = json!({"id": "apr_1", "state": "open"});
        sender.send(event.clone()).await.unwrap();
        let posted = async {
            while server.requests().len() < 2 {
                tokio::task::yield_now().await;
            }
        };
        eventually("two attempts", posted).await;
        let request = &server.requests()[1];
        assert_eq!(request.json(), event);
        let expected = signature(&Secret::new("key"), 1_700_000_000, &event.to_string());
        assert_eq!(request.header(SIGNATURE), Some(expected.as_str()));
    }

    #[tokio::test]
    async fn a_private_address_is_refused_unless_the_settings_allow_it() {
        let server = HttpServer::start(|_, reply| reply.full(204, &[], ""));
        let refused = hook(&server.url(), false).try_once("{}").await.unwrap_err();
        assert!(refused.contains("is not reached"), "{refused}");
        let refused = hook("https://10.0.0.1/hook", false).try_once("{}").await.unwrap_err();
        assert!(refused.contains("approvals.webhook_private"), "{refused}");
        assert_eq!(server.requests().len(), 0);
    }
}
