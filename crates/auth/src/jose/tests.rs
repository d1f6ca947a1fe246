//! Tokens of every algorithm, signed here with `ring` itself, and what an attacker makes of them.

use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding,
};
use serde_json::json;

use super::*;

/// An RSA key of 2048 bits for these tests only (PKCS #8): `ring` makes none.
pub(super) const RSA: &str = "\
     MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIBAQCj6dnM+lIBQTkqf8bvAUIwK5NUB8KKe2G6+Ys/7TZCLjw/5wpx\
     NwH18wNQiXNHwsLr7MIsIUmqgPo16jXL4prvKXMFhDFPtn5K0BOsCjI2PtRlFW+ItX3XOksyyjrnv+wtrtpBnYu7BsG2e1h7Ca6H\
     tgv923+UMdWM5Q1MKyBPjzZjVInrN2gDN+TGCqcZgAHsk26qZRcj1u2E4XSw43HzCoh6h+EhK99t5ggsUHhDWlgoXfStBtZIrVhH\
     c59Uq9e3WMn2MttbsW5wO2Y5CFOyeTTrk/4EJi3MNmiSZxVuwP8qfyD6hkaHbS7U7ZgwJR+WQ7tpexwJPHthPrmtn8kbAgMBAAEC\
     ggEADGBpejFChOa8XsmkJ0LUkReROcyWM2eqkvgpvAt4x9l+4iJbZv4Mz1nom6mtQzNhDXhklvlyewXfHrgPFNSI91sNXNLE+Gxi\
     r9pzSc/BR9hJqFJMiCmQFXLI385mUT5sImzr/P1c4iPZ96Hrpequu3+S+zmaMgHrSoa3ENPGzkr2kimMxoE1gS2jMiFkEWNReA1Y\
     fsgmChT8sBHeD4GdR9vZ7onH/OeYxHELqolUQtAsFK8uok0Jj0zNFyz0y5w1sVcKTN47VrfygoAllQyzDxcZXjhQI7dXMVPNKkNP\
     zfcqNJ/4N6IjPu2Llf6t45+J62AYV6OO9EyAPwRZrW9T4QKBgQDR3mcr2mkfK7miFj/lMbfosJowD02VclO4hnh9fX1mYYc+dHHd\
     CjpAa7dg2MPwB426khz6biST/B9dOOqG0Lm/cUWcsr+I9YgrTrs5qdcVvfCZkST9BiZ4pZF7Sm3vuml4TF6lRhf//l8M/YkONfvA\
     NQ7LfKVbaeL7TDa0ojPM+wKBgQDH8Xt7Fb9BcyZmFX6LcTCh13C+tzOA2o+pIY9EXen5l7bGMDYdZzqU104t4Rcb7GsupzwFQ/8b\
     dMIbcVfFHl4zZ7Bv+kxvFmZzS/25s8ddeK1QPxv63D6EGXqBnyuOtTJzjmxiK1ihr20JDyxCd3z4fM412xiCRBG+mbH6WNb6YQKB\
     gHDW2LgebekBlITO27n6mnx0/+IZSEizOMp9Gqm2YEc85v+wkkwbpKhggi+DPQ6AsTaAOy53LBmZNK/l20tzTHvfhmMzRIJ6KaXH\
     Zikh5XBeONAI109oECVMOEWHBkcf/ndc8IKChoLwnOCaLSfD5ME6heLo+OuGqjEdkEhc8ecjAoGAOx9R5xSIKF9XZGpIsAz5V3Hw\
     OcTMava18kolJg8rJ43QEwygg9NJhEeiK3jar3waOYJkAh6YKdM9roW2cWhIbKTljEcUIOkbxE4dKbNaaW5MuWTf7i8AIWmzSu75\
     H0q/L2JW9DRjEfRgpoQhD0pr3sJw64Xs2mAsaxLhiOiKMSECgYAjBv4r/SwiAjmXcz/xhiKEi85h3rlf4j0aRvu3Z5G5k1SMZ4Pc\
     yHBHgH3wzTrxKnVs0krfxOiPXhq2NXKbWMlw2oW44j7mNrpmUk7OYMLPjMkgV44kROVAwdGm7uIBIOFbZlvm81stHbC9urcP6pDZ\
     HqEJYD5nIvOHauvreduNvw==";

enum Pair {
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Pair {
    fn of(algorithm: &str) -> Self {
        let random = SystemRandom::new();
        let rsa = |encoding| {
            let document = base64::engine::general_purpose::STANDARD.decode(RSA).unwrap();
            Self::Rsa(RsaKeyPair::from_pkcs8(&document).unwrap(), encoding)
        };
        let ecdsa = |curve| {
            let document = EcdsaKeyPair::generate_pkcs8(curve, &random).unwrap();
            Self::Ecdsa(EcdsaKeyPair::from_pkcs8(curve, document.as_ref(), &random).unwrap())
        };
        match algorithm {
            "RS256" => rsa(&RSA_PKCS1_SHA256),
            "RS384" => rsa(&RSA_PKCS1_SHA384),
            "RS512" => rsa(&RSA_PKCS1_SHA512),
            "PS256" => rsa(&RSA_PSS_SHA256),
            "PS384" => rsa(&RSA_PSS_SHA384),
            "PS512" => rsa(&RSA_PSS_SHA512),
            "ES256" => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            "ES384" => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            "EdDSA" => {
                let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                Self::Ed25519(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
            }
            other => panic!("{other}"),
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(*encoding, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
            Self::Ecdsa(pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Rsa(pair, _) => {
                let parts = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "n": text(&parts.n), "e": text(&parts.e)})
            }
            Self::Ecdsa(pair) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": text(x), "y": text(y)})
            }
            Self::Ed25519(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref())}),
        }
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(self.sign(message.as_bytes())))
    }
}

fn message(header: &Value, claims: &Value) -> String {
    [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".")
}

#[test]
fn a_signature_of_every_algorithm_is_checked() {
    for algorithm in ALGORITHMS {
        let (pair, other) = (Pair::of(algorithm), Pair::of(if algorithm == "ES256" { "ES384" } else { "ES256" }));
        let key = PublicKey::read(&pair.jwk()).unwrap();
        let token = pair.token(&json!({"alg": algorithm, "kid": "a"}), &json!({"sub": "ann"}));
        let parsed = SignedToken::parse(&token).unwrap();
        assert_eq!(parsed.verify(&key), Ok(()), "{algorithm}");
        assert_eq!((parsed.claims()["sub"].as_str(), parsed.header("kid")), (Some("ann"), Some("a")));
        assert_eq!(parsed.verify(&PublicKey::read(&other.jwk()).unwrap()), Err(JoseError::Signature), "{algorithm}");
        // The same signature over other claims, and another signature.
        let (_, signature) = token.rsplit_once('.').unwrap();
        let forged = format!("{}.{signature}", message(&json!({"alg": algorithm}), &json!({"sub": "bob"})));
        assert_eq!(SignedToken::parse(&forged).unwrap().verify(&key), Err(JoseError::Signature), "{algorithm}");
        for signature in ["", "AA", "====", &signature[1..]] {
            let cut = format!("{}.{signature}", token.rsplit_once('.').unwrap().0);
            assert_eq!(SignedToken::parse(&cut).unwrap().verify(&key), Err(JoseError::Signature), "{algorithm}");
        }
        // A key that says what it is for is for nothing else.
        let mut bound = pair.jwk();
        bound["alg"] = if algorithm == "RS256" { "PS256" } else { "RS256" }.into();
        let bound = PublicKey::read(&bound).unwrap();
        assert_eq!(parsed.verify(&bound), Err(JoseError::Signature), "{algorithm}");
    }
}

#[test]
fn symmetric_and_missing_signatures_are_never_accepted() {
    let pair = Pair::of("RS256");
    let claims = json!({"sub": "ann"});
    for algorithm in ["none", "None", "NONE", "HS256", "HS384", "HS512", "", "ES512", "ES256K", "RSA1_5", "rs256"] {
        let token = pair.token(&json!({"alg": algorithm}), &claims);
        assert_eq!(SignedToken::parse(&token).unwrap_err(), JoseError::Algorithm, "{algorithm}");
    }
    // HMAC over the message with the public key as its secret.
    let message = message(&json!({"alg": "HS256"}), &claims);
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, pair.jwk().to_string().as_bytes());
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&secret, message.as_bytes())));
    assert_eq!(SignedToken::parse(&token).unwrap_err(), JoseError::Algorithm);
    let symmetric = json!({"kty": "oct", "k": "c2VjcmV0"});
    assert_eq!(PublicKey::read(&symmetric).unwrap_err(), JoseError::Key);
}

#[test]
fn what_is_no_token_is_refused() {
    let pair = Pair::of("ES256");
    let good = pair.token(&json!({"alg": "ES256"}), &json!({}));
    let parts: Vec<&str> = good.split('.').collect();
    let endless = format!("{}.{}.{}", parts[0], "A".repeat(TOKEN_BYTES), parts[2]);
    for text in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "tcb_0123",
        &good[1..],
        &format!("{good}.x"),
        &format!(" {good}"),
        &format!("{}=.{}.{}", parts[0], parts[1], parts[2]),
        &endless,
        &format!("{}.{}.x", URL_SAFE_NO_PAD.encode("[]"), parts[1]),
        &format!("{}.{}.x", URL_SAFE_NO_PAD.encode(r#"{"alg": 1}"#), parts[1]),
        &format!("{}.{}.x", URL_SAFE_NO_PAD.encode("{".repeat(500)), parts[1]),
    ] {
        assert_eq!(SignedToken::parse(text).unwrap_err(), JoseError::NotAToken, "{text:.40}");
    }
    let encrypted = format!("{}.a.b.c.d", URL_SAFE_NO_PAD.encode(r#"{"alg": "dir", "enc": "A256GCM"}"#));
    for (text, has_form) in [
        (good.as_str(), true),
        (&good[..good.len() - 1], true),
        (&good[..parts[0].len() + 2], true),
        (&format!("{good}.x"), true),
        (parts[0], false),
        (&good[1..], false),
        ("a.b.c", false),
        (&encrypted, false),
    ] {
        assert_eq!(SignedToken::has_form(text), has_form, "{text:.40}");
    }
    for extension in [json!({"alg": "ES256", "crit": ["exp"]}), json!({"alg": "ES256", "b64": false})] {
        let token = pair.token(&extension, &json!({}));
        assert_eq!(SignedToken::parse(&token).unwrap_err(), JoseError::Critical);
    }
}

#[test]
fn keys_that_cannot_check_signatures_are_left_out_of_a_set() {
    let (first, second) = (Pair::of("ES256"), Pair::of("RS256"));
    let with = |pair: &Pair, more: Value| {
        let mut jwk = pair.jwk();
        jwk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        jwk
    };
    let odd = [
        json!(null),
        json!("key"),
        json!({"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}),
        json!({"kty": "OKP", "crv": "X25519", "x": "AA"}),
        json!({"kty": "RSA"}),
        json!({"kty": "PQC", "pub": "AA"}),
        with(&first, json!({"kid": "a", "use": "enc"})),
        with(&first, json!({"kid": "a", "d": "AA"})),
        with(&first, json!({"kid": "a", "alg": "HS256"})),
        with(&second, json!({"kid": "a", "n": "!"})),
    ];
    for jwk in &odd {
        assert_eq!(PublicKey::read(jwk).unwrap_err(), JoseError::Key, "{jwk}");
    }
    let mut keys = odd.to_vec();
    keys.extend([
        with(&first, json!({"kid": "a", "x5c": [1], "key_ops": "x"})),
        with(&second, json!({"kid": "b", "use": "sig"})),
    ]);
    let set = KeySet::read(json!({"keys": keys}).to_string().as_bytes()).unwrap();
    for (pair, header, expected) in [
        (&first, json!({"alg": "ES256", "kid": "a"}), Ok(())),
        (&first, json!({"alg": "ES256"}), Ok(())),
        (&second, json!({"alg": "PS512", "kid": "b"}), Err(JoseError::Signature)),
        (&second, json!({"alg": "RS256", "kid": "b"}), Ok(())),
        (&second, json!({"alg": "RS256", "kid": "a"}), Err(JoseError::Signature)),
        (&first, json!({"alg": "ES256", "kid": 7}), Err(JoseError::Signature)),
    ] {
        let token = pair.token(&header, &json!({}));
        assert_eq!(set.verify(&SignedToken::parse(&token).unwrap()), expected, "{header}");
    }
    let unknown = first.token(&json!({"alg": "ES256", "kid": "c"}), &json!({}));
    assert!(!set.knows(&SignedToken::parse(&unknown).unwrap()));
    for wrong in [r#"{"keys": []}"#, r#"{"keys": {}}"#, "{}", "[]", "", r#"{"keys": [{"kty": "oct", "k": "AA"}]}"#] {
        assert_eq!(KeySet::read(wrong.as_bytes()).unwrap_err(), JoseError::Key, "{wrong}");
    }
}

#[test]
fn a_signing_key_survives_its_document() {
    let document = SigningKey::generate();
    let key = SigningKey::read(&document).unwrap();
    assert_eq!(SigningKey::read(&document).unwrap().id(), key.id());
    assert!(SigningKey::read(&document[1..]).is_err());
    let claims = json!({"sub": "ann"}).as_object().unwrap().clone();
    let token = key.sign("at+jwt", &claims);
    let parsed = SignedToken::parse(&token).unwrap();
    assert_eq!((parsed.header("typ"), parsed.header("kid")), (Some("at+jwt"), Some(key.id())));
    assert_eq!(parsed.claims(), &claims);
    assert_eq!(parsed.verify(&PublicKey::read(key.public_jwk()).unwrap()), Ok(()));
    assert!(parsed.own_key().is_err());
    let proof = key.sign_with_own_key("dpop+jwt", &claims);
    let parsed = SignedToken::parse(&proof).unwrap();
    let own = parsed.own_key().unwrap();
    assert_eq!(own.thumbprint(), key.id());
    assert_eq!(parsed.verify(&own), Ok(()));
    assert!(!format!("{key:?}").contains(&URL_SAFE_NO_PAD.encode(&document)));
}

/// RFC 8037, appendix A.3.
#[test]
fn the_thumbprint_is_that_of_the_specification() {
    let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    let key = json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "other", "use": "sig"});
    assert_eq!(PublicKey::read(&key).unwrap().thumbprint(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
}
