//! Requests whose tokens are bound to keys (DPoP): each has a proof of its own, and a nonce of the server is used at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use http::{Method, Uri};
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::http::possession::{BoundRequest, PossessionProof, ProvePossession};

/// Writes into a proof what it is for.
#[derive(Debug, Default)]
struct Scribe {
    proofs: AtomicUsize,
    nonce: Mutex<Option<String>>,
}

impl ProvePossession for Scribe {
    fn prove(&self, request: &BoundRequest<'_>) -> Option<PossessionProof> {
        if request.token == "stranger" {
            return None;
        }
        let number = self.proofs.fetch_add(1, Ordering::SeqCst);
        let nonce = self.nonce.lock().unwrap().clone();
        let text = format!(
            "{number} {} {} {} {}",
            request.method,
            request.uri.path(),
            request.token,
            nonce.as_deref().unwrap_or("-")
        );
        Some(PossessionProof { value: HeaderValue::try_from(text).unwrap(), nonce })
    }

    fn note_nonce(&self, _: &BoundRequest<'_>, nonce: &str) {
        *self.nonce.lock().unwrap() = Some(nonce.to_owned());
    }
}

/// Sends requests with this credential to a server that answers so; gives their statuses and the proofs that it saw.
async fn check(
    credential: &str,
    requests: &[(Method, &str)],
    answer: impl Fn(&Request, &mut Reply<'_>) + Send + Sync + 'static,
) -> (Vec<u16>, Vec<String>) {
    let server = HttpServer::start(answer);
    let client = HttpClient::new().unwrap().proving(Arc::<Scribe>::default());
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::try_from(credential).unwrap())]);
    let mut statuses = Vec::new();
    for (method, path) in requests {
        let uri: Uri = format!("http://{}{path}", server.address()).parse().unwrap();
        let response = client.send(method.clone(), &uri, headers.clone(), "{}".into()).await.unwrap();
        statuses.push(response.status.as_u16());
    }
    let proof = |request: &Request| request.header("dpop").unwrap_or("none").to_owned();
    (statuses, server.requests().iter().map(proof).collect())
}

#[tokio::test]
async fn each_request_of_a_bound_token_has_a_proof_of_its_own() {
    let requests = [(Method::POST, "/a?q=1"), (Method::POST, "/a?q=1"), (Method::GET, "/b"), (Method::DELETE, "/b")];
    let (statuses, proofs) = check("DPoP t", &requests, |_, reply| reply.full(200, &[], "")).await;
    assert_eq!(statuses, [200; 4]);
    assert_eq!(proofs, ["0 POST /a t -", "1 POST /a t -", "2 GET /b t -", "3 DELETE /b t -"]);
}

#[tokio::test]
async fn a_bearer_token_and_one_whose_key_is_not_known_have_none() {
    for credential in ["Bearer t", "dpop", "Basic DPoP t", "DPoP stranger"] {
        let answered = check(credential, &[(Method::POST, "/")], |_, reply| reply.full(200, &[], "")).await;
        assert_eq!(answered, (vec![200], vec!["none".to_owned()]), "{credential}");
    }
}

#[tokio::test]
async fn a_nonce_of_the_server_is_used_at_once_and_from_then_on() {
    let (statuses, proofs) =
        check("DPoP t", &[(Method::POST, "/"), (Method::POST, "/")], |request, reply| {
            match request.header("dpop").unwrap().ends_with("n1") {
                true => reply.full(200, &[], ""),
                false => reply.full(401, &["dpop-nonce: n1", "www-authenticate: DPoP error=\"use_dpop_nonce\""], ""),
            }
        })
        .await;
    assert_eq!(statuses, [200, 200]);
    assert_eq!(proofs, ["0 POST / t -", "1 POST / t n1", "2 POST / t n1"]);
}

#[tokio::test]
async fn a_new_nonce_in_any_answer_replaces_the_one_before() {
    let (_, proofs) = check("DPoP t", &[(Method::POST, "/"), (Method::POST, "/")], |_, reply| {
        reply.full(200, &["DPoP-Nonce: n2"], "");
    })
    .await;
    assert_eq!(proofs, ["0 POST / t -", "1 POST / t n2"]);
}

#[tokio::test]
async fn a_server_that_is_never_content_is_asked_twice() {
    let count = AtomicUsize::new(0);
    let (statuses, proofs) = check("DPoP t", &[(Method::POST, "/")], move |_, reply| {
        let nonce = format!("dpop-nonce: n{}", count.fetch_add(1, Ordering::SeqCst));
        reply.full(401, &[nonce.as_str()], "");
    })
    .await;
    assert_eq!((statuses, proofs.len()), (vec![401], 2));
    // A refusal that has nothing to do with the nonce is not repeated.
    let (statuses, proofs) = check("DPoP t", &[(Method::POST, "/"), (Method::POST, "/")], |request, reply| {
        let status = if request.header("dpop").unwrap().ends_with('-') { 200 } else { 401 };
        reply.full(status, &["dpop-nonce: same"], "");
    })
    .await;
    assert_eq!((statuses, proofs.len()), (vec![200, 401], 2));
}

#[tokio::test]
async fn a_request_that_is_led_elsewhere_in_its_origin_is_proven_for_that_place() {
    let (statuses, proofs) =
        check("DPoP t", &[(Method::POST, "/old")], |request, reply| match request.target.as_str() {
            "/old" => reply.full(307, &["location: /new"], ""),
            _ => reply.full(200, &[], ""),
        })
        .await;
    assert_eq!((statuses, proofs), (vec![200], vec!["0 POST /old t -".to_owned(), "1 POST /new t -".to_owned()]));
}
