//! People who sign in with a browser: what leads to someone, and what an attacker sends instead.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::{PrincipalId, Role, Secret};
use toolcrib_identity::{
    BearerKind, KeepSignIns as _, SignIn as _, SignInAnswer, SignInClient, SignInError, SignInStart,
};
use url::Url;

use crate::world::{FixedSecret, SECRET, World};

const REDIRECT: &str = "https://tools.example.com/ui/callback";

struct Desk {
    world: World,
    key: SigningKey,
}

impl Desk {
    fn start() -> Self {
        let world = World::start_with(|settings| {
            settings.sign_in = Some(SignInClient {
                id: "tools".into(),
                secret: Some(Arc::new(FixedSecret)),
                scopes: vec!["openid".into(), "groups".into()],
            });
        });
        let key = world.key();
        Self { world, key }
    }

    async fn begin(&self) -> (SignInStart, HashMap<String, String>) {
        let begun = self.world.identities.begin("acme", REDIRECT).await.unwrap();
        let url = Url::parse(&begun.url).unwrap();
        (begun, url.query_pairs().into_owned().collect())
    }

    /// What the provider has for the code of a sign-in.
    fn has(&self, page: &HashMap<String, String>, more: &Value) {
        let mut claims = json!({"aud": "tools", "nonce": page["nonce"], "client_id": null});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let token = self.key.sign("JWT", &self.world.claims(&claims));
        self.world.answers.lock().unwrap().token =
            json!({"access_token": "x", "token_type": "Bearer", "id_token": token});
    }

    async fn complete(&self, begun: &SignInStart, answer: &SignInAnswer) -> Result<String, SignInError> {
        let known = self.world.identities.complete(&begun.state, answer).await?;
        Ok(format!("{} {:?}", known.id, known.role_in(&self.world.profile)))
    }
}

fn answer(page: &HashMap<String, String>) -> SignInAnswer {
    let (code, state) = (Some(Secret::new("c0de")), Some(page["state"].clone()));
    SignInAnswer { code, state, ..SignInAnswer::default() }
}

#[tokio::test]
async fn a_person_signs_in() {
    let desk = Desk::start();
    assert_eq!(desk.world.identities.names(), ["acme"]);
    let (begun, page) = desk.begin().await;
    let issuer = format!("http://{}", desk.world.server.address());
    assert!(begun.url.starts_with(&format!("{issuer}/authorize?tenant=1&response_type=code")), "{}", begun.url);
    for (name, value) in [
        ("client_id", "tools"),
        ("redirect_uri", REDIRECT),
        ("scope", "openid groups"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(page[name], value, "{name}");
    }
    desk.has(&page, &json!({}));
    let id = format!("user:acme/ann {:?}", Some(Role::Member));
    desk.world.identities.keep_bearers(true);
    assert_eq!(desk.complete(&begun, &answer(&page)).await, Ok(id.clone()));
    let kept = desk.world.identities.bearers("user:acme/ann");
    assert_eq!((kept[0].kind, &*kept[0].audiences[0]), (BearerKind::Id, "tools"), "servers may want who signed in");
    let asked = desk.world.asked("/token");
    let form: HashMap<String, String> = url::form_urlencoded::parse(&asked[0].body).into_owned().collect();
    assert_eq!((form["code"].as_str(), form["redirect_uri"].as_str()), ("c0de", REDIRECT));
    assert_ne!(form["code_verifier"], page["code_challenge"]);
    assert!(asked[0].header("authorization").unwrap().starts_with("Basic "));
    // Several audiences, and we are the party that it was made for.
    desk.has(&page, &json!({"aud": ["tools", "other"], "azp": "tools"}));
    assert_eq!(desk.complete(&begun, &answer(&page)).await, Ok(id));
}

#[tokio::test]
async fn a_sign_in_is_renewed_for_the_same_person_only() {
    let desk = Desk::start();
    let (begun, page) = desk.begin().await;
    desk.has(&page, &json!({}));
    desk.world.answers.lock().unwrap().token["refresh_token"] = json!("r-1");
    desk.complete(&begun, &answer(&page)).await.unwrap();
    let (ann, identities) = (PrincipalId::new("user:acme/ann"), &desk.world.identities);
    assert_eq!(identities.taken(&PrincipalId::new("user:acme/bob")), None);
    let tokens = identities.taken(&ann).unwrap();
    assert_eq!(tokens.refresh.as_ref().map(Secret::expose), Some("r-1"));
    assert_eq!(identities.taken(&ann).unwrap().refresh, None, "what renews it is given once");
    let bearer = identities.bearer(&tokens).unwrap();
    assert_eq!((bearer.kind, bearer.token.expose()), (BearerKind::Id, tokens.id_token.expose()));
    // The next one, which needs no nonce; the refresh token stays where there is no other.
    desk.has(&page, &json!({"nonce": null, "jti": "2"}));
    let renewed = identities.renew(&tokens).await.unwrap();
    assert!(renewed.id_token != tokens.id_token && renewed.refresh == tokens.refresh);
    let asked = desk.world.asked("/token");
    let form: HashMap<String, String> = url::form_urlencoded::parse(&asked.last().unwrap().body).into_owned().collect();
    assert_eq!((form["grant_type"].as_str(), form["refresh_token"].as_str()), ("refresh_token", "r-1"));
    for (claims, expected) in [
        (json!({"nonce": null, "sub": "bob"}), "someone else"),
        (json!({"nonce": null, "aud": "other"}), "another client"),
    ] {
        desk.has(&page, &claims);
        let refused = identities.renew(&tokens).await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    desk.world.advance(3_600);
    assert_eq!(identities.bearer(&tokens).map(|bearer| bearer.expires), None, "it is over");
}

#[tokio::test]
async fn an_answer_counts_in_its_own_browser_only() {
    let desk = Desk::start();
    let (begun, page) = desk.begin().await;
    let (other, others_page) = desk.begin().await;
    assert!(["state", "nonce", "code_challenge"].iter().all(|name| page[*name] != others_page[*name]));
    desk.has(&page, &json!({}));
    for state in [None, Some(String::new()), Some(others_page["state"].clone()), Some(page["nonce"].clone())] {
        let forged = SignInAnswer { state, ..answer(&page) };
        assert_eq!(desk.complete(&begun, &forged).await, Err(SignInError::Browser));
    }
    assert!(desk.world.asked("/token").is_empty(), "no code is sent");
    // The token of one sign-in in the other.
    let refused = desk.complete(&other, &answer(&others_page)).await.unwrap_err();
    assert!(refused.to_string().contains("another sign-in"), "{refused}");
}

#[tokio::test]
async fn tokens_for_others_prove_nothing() {
    let desk = Desk::start();
    let (begun, page) = desk.begin().await;
    for (claims, expected) in [
        (json!({"aud": "another-client"}), "another client"),
        (json!({"aud": ["tools", "other"]}), "another client"),
        (json!({"aud": "tools", "azp": "other"}), "another client"),
        (json!({"aud": null}), "another client"),
        (json!({"iss": "https://evil.example"}), "issuer is not accepted"),
        (json!({"exp": 1}), "expired"),
        (json!({"nonce": null}), "another sign-in"),
        (json!({"nonce": "x"}), "another sign-in"),
        (json!({"sub": null}), "`sub`"),
        (json!({"sub": ""}), "`sub`"),
    ] {
        desk.has(&page, &claims);
        let refused = desk.complete(&begun, &answer(&page)).await.unwrap_err();
        assert!(refused.to_string().contains(expected), "{claims}: {refused}");
    }
    // A key of someone else, and no ID token at all.
    let stranger = SigningKey::read(&SigningKey::generate()).unwrap();
    let claims = desk.world.claims(&json!({"aud": "tools", "nonce": page["nonce"]}));
    for token in [json!(stranger.sign("JWT", &claims)), json!(stranger.sign_with_own_key("JWT", &claims)), json!(null)]
    {
        desk.world.answers.lock().unwrap().token = json!({"id_token": token});
        let refused = desk.complete(&begun, &answer(&page)).await.unwrap_err();
        assert!(matches!(refused, SignInError::Answer(_)), "{refused:?}");
    }
}

#[tokio::test]
async fn refusals_and_mixed_up_issuers_are_told_apart() {
    let desk = Desk::start();
    let (begun, page) = desk.begin().await;
    desk.has(&page, &json!({}));
    let mixed = SignInAnswer { issuer: Some("https://evil.example".into()), ..answer(&page) };
    assert!(desk.complete(&begun, &mixed).await.unwrap_err().to_string().contains("another issuer"));
    let denied = SignInAnswer { error: Some("access_denied\u{202e}<b>".into()), code: None, ..answer(&page) };
    assert_eq!(desk.complete(&begun, &denied).await, Err(SignInError::Refused("access_denied<b>".into())));
    let empty = SignInAnswer { code: None, ..answer(&page) };
    assert!(desk.complete(&begun, &empty).await.unwrap_err().to_string().contains("no code"));
    desk.world.answers.lock().unwrap().token = json!({"error": "invalid_grant"});
    assert_eq!(desk.complete(&begun, &answer(&page)).await, Err(SignInError::Refused("invalid_grant".into())));
    desk.world.answers.lock().unwrap().status = Some(500);
    let refused = desk.complete(&begun, &answer(&page)).await.unwrap_err();
    assert_eq!(refused, SignInError::Unavailable);
    assert!(!format!("{refused:?} {begun:?}").contains(SECRET));
    assert_eq!(desk.world.identities.begin("nope", REDIRECT).await.unwrap_err(), SignInError::Unknown("nope".into()));
}

#[tokio::test]
async fn a_page_that_must_not_be_opened_is_not() {
    for page in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://login.example.com/authorize",
        "https://a:b@login.example.com/",
        "https://login.example.com/#x",
        "--help",
        "",
        "$(id)",
    ] {
        let desk = Desk::start();
        desk.world.answers.lock().unwrap().metadata = json!({"authorization_endpoint": page});
        let refused = desk.world.identities.begin("acme", REDIRECT).await.unwrap_err();
        assert!(refused.to_string().contains("no page to sign in"), "{page}: {refused}");
    }
    let desk = Desk::start();
    desk.world.answers.lock().unwrap().metadata = json!({"authorization_response_iss_parameter_supported": true});
    let (begun, page) = desk.begin().await;
    desk.has(&page, &json!({}));
    let silent = desk.complete(&begun, &answer(&page)).await.unwrap_err();
    assert!(silent.to_string().contains("does not say from which issuer"), "{silent}");
}
