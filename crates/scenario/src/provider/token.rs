//! The token endpoint: codes, refresh tokens, and the tokens of issuers that the provider trusts (RFC 8693) become access
//! tokens.

use serde_json::{Value, json};
use toolcrib_base::Timestamp;

use super::endpoint::Form;
use super::ledger::{Bearer, Grant};
use super::{Provider, Refusal, jws};

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// What a client may say that a token is, which it exchanges.
const SUBJECTS: [&str; 3] =
    [ACCESS_TOKEN, "urn:ietf:params:oauth:token-type:id_token", "urn:ietf:params:oauth:token-type:jwt"];

pub(super) fn answer(provider: &Provider, form: &Form) -> Result<Value, Refusal> {
    if let Some(error) = &provider.settings().error {
        return Err(Refusal::simulated(error));
    }
    match form.get("grant_type") {
        Some("authorization_code") => redeem(provider, form),
        Some("refresh_token") => refresh(provider, form),
        Some(EXCHANGE) => exchange(provider, form),
        _ => Err(Refusal::new("unsupported_grant_type", "a code, a refresh token or a token exchange")),
    }
}

fn redeem(provider: &Provider, form: &Form) -> Result<Value, Refusal> {
    let invalid = |why: &str| Refusal::new("invalid_grant", why);
    let now = provider.now();
    let code = provider.ledger().redeem(form.get("code").unwrap_or_default(), now);
    let code = code.ok_or_else(|| invalid("the code is not valid"))?;
    if code.client != form.client || form.get("redirect_uri") != Some(code.redirect.as_str()) {
        return Err(invalid("the code was for another client or redirect URL"));
    }
    if !code.challenge.is_empty() && jws::challenge_of(form.get("code_verifier").unwrap_or_default()) != code.challenge
    {
        return Err(invalid("the verifier is not that of the challenge"));
    }
    let resource = form.get("resource").map(str::to_owned).or_else(|| code.resource.clone());
    if code.resource.is_some() && code.resource != resource {
        return Err(Refusal::new("invalid_target", "`resource` is not the one that was asked for"));
    }
    let audiences = vec![resource.unwrap_or_else(|| code.client.clone())];
    let injected = provider.ledger().injection.take();
    let grant = Grant { client: code.client, scopes: code.scopes, audiences, bearer: code.bearer };
    let mut told = match injected {
        Some(injection) => {
            let scopes = injection.scopes.unwrap_or_else(|| grant.scopes.clone());
            let life = injection.lifetime.unwrap_or_else(|| provider.life());
            let claims = provider.access_claims(&grant.client, &grant.bearer, &scopes, &grant.audiences);
            let ends = Timestamp(now.0.saturating_add(life.saturating_mul(1_000)));
            provider.ledger().keep(injection.token.clone(), claims, ends);
            json!({
                "access_token": injection.token, "token_type": "Bearer", "expires_in": life, "scope": scopes.join(" "),
            })
        }
        None => issued(provider, &grant),
    };
    if grant.scopes.iter().any(|scope| scope == "openid") {
        let mut claims = grant.bearer.claims();
        claims.insert("aud".to_owned(), grant.client.as_str().into());
        if let Some(nonce) = code.nonce {
            claims.insert("nonce".to_owned(), nonce.into());
        }
        told["id_token"] = provider.mint(&claims, "JWT").into();
    }
    told["refresh_token"] = provider.ledger().add_grant(grant).into();
    Ok(told)
}

/// The refresh token is rotated: the one that was used counts no more.
fn refresh(provider: &Provider, form: &Form) -> Result<Value, Refusal> {
    let grant = provider.ledger().take_grant(form.get("refresh_token").unwrap_or_default());
    let grant = grant.filter(|grant| grant.client == form.client);
    let grant = grant.ok_or_else(|| Refusal::new("invalid_grant", "the refresh token is not valid"))?;
    let mut told = issued(provider, &grant);
    told["refresh_token"] = provider.ledger().add_grant(grant).into();
    Ok(told)
}

fn issued(provider: &Provider, grant: &Grant) -> Value {
    let token = provider.issue(&grant.client, &grant.bearer, &grant.scopes, &grant.audiences);
    json!({
        "access_token": token, "token_type": "Bearer", "expires_in": provider.life(), "scope": grant.scopes.join(" "),
    })
}

fn exchange(provider: &Provider, form: &Form) -> Result<Value, Refusal> {
    let kind = form.get("subject_token_type").unwrap_or_default();
    if !SUBJECTS.contains(&kind) {
        return Err(Refusal::new("invalid_request", "`subject_token_type` is missing or not supported"));
    }
    let subject = form.get("subject_token").unwrap_or_default();
    let connector = form.get("connector_id");
    let is_asked = |name: &String| connector.is_none_or(|connector| connector == name);
    let issuers =
        provider.trusted().iter().filter(|(name, _)| is_asked(name)).filter_map(|(_, issuer)| issuer.upgrade());
    let own = connector.is_none().then(|| provider.claims(subject)).flatten();
    let claims = own.or_else(|| issuers.into_iter().find_map(|issuer| issuer.claims(subject)));
    let claims =
        claims.ok_or_else(|| Refusal::new("invalid_grant", "the subject token is not one of a trusted issuer"))?;
    let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
    let bearer = Bearer { subject, role: None };
    let mut audiences: Vec<String> = form.all("audience").chain(form.all("resource")).map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(form.client.clone());
    }
    let scopes = provider.granted(form.get("scope").unwrap_or_default());
    // Signed in any case: whoever exchanged it reads by whom it was issued.
    let claims = provider.access_claims(&form.client, &bearer, &scopes, &audiences);
    let token = provider.mint(&claims, "at+jwt");
    let mut told = json!({
        "access_token": token, "token_type": "Bearer", "expires_in": provider.life(), "scope": scopes.join(" "),
    });
    told["issued_token_type"] = form.get("requested_token_type").unwrap_or(ACCESS_TOKEN).into();
    Ok(told)
}
