//! The authorization endpoint: what a person is asked, and the redirect with what was decided. What is wrong with the
//! client or its redirect is said on a page, anything else in the redirect (RFC 6749 §4.1.2.1).

use super::metadata::stated;
use crate::http::Request;
use crate::provider::answer::Answer;
use crate::provider::form::Form;
use crate::provider::remote::Site;
use crate::provider::rules::{
    IssRule, Page, PkceRule, ProviderRules, RedirectRule, RefreshCondition, RefreshRule, ResourceRule,
};
use crate::provider::state::{Audience, Authorization, Prompt};

/// The cookie that binds a browser to what it was asked.
const COOKIE: &str = "simulated-session";
/// What a person sees whose redirect is not accepted.
const BAD_REDIRECT: Page = Page {
    status: 400,
    media_type: "text/html",
    body: "<h1>unauthorized_client</h1><p>redirect_uri is not registered for client</p>",
};

/// An error of an authorization, and where it is said.
struct Refusal {
    error: &'static str,
    description: String,
}

/// Asks the person.
pub(super) fn ask(site: &Site, rules: &ProviderRules, request: &Request) -> Answer {
    let query = Form::of_target(&request.target);
    let known = query.get("client_id").and_then(|id| site.state().clients.get(id).cloned());
    let Some(client) = known else { return Answer::page(rules.unknown_client) };
    let redirect = query.get("redirect_uri").unwrap_or_default();
    if !accepts(rules.redirects, &client.redirects, redirect) {
        return Answer::page(BAD_REDIRECT);
    }
    let authorization = match read(rules, &query) {
        Ok(authorization) => authorization,
        Err(refusal) => {
            let form = Form::default().with("error", refusal.error).with("error_description", &refusal.description);
            let state = query.get("state").unwrap_or_default();
            return back(site, rules, redirect, state, form);
        }
    };
    let mut state = site.state();
    let (browser, prompt) = (state.secret("browser"), state.secret("prompt"));
    state.prompts.insert(prompt.clone(), Prompt { browser: browser.clone(), authorization });
    let body = format!(
        "<!doctype html><title>Allow?</title><form method=\"post\" action=\"{}/consent\"><input name=\"prompt\" \
         value=\"{prompt}\"><button>Allow</button></form>",
        rules.path
    );
    Answer::new(200, "text/html", body).with(format!("set-cookie: {COOKIE}={browser}; Path=/; HttpOnly; SameSite=Lax"))
}

/// Takes the person's decision.
pub(super) fn decide(site: &Site, rules: &ProviderRules, request: &Request) -> Answer {
    let form = Form::parse(&String::from_utf8_lossy(&request.body));
    let mut state = site.state();
    let Some(prompt) = form.get("prompt").and_then(|prompt| state.prompts.remove(prompt)) else {
        return Answer::new(400, "text/plain", "nobody was asked this");
    };
    let cookies = request.header("cookie").unwrap_or_default();
    if !cookies.split("; ").any(|cookie| cookie == format!("{COOKIE}={}", prompt.browser)) {
        return Answer::new(403, "text/plain", "another browser was asked");
    }
    let asked = prompt.authorization;
    let (redirect, client_state) = (asked.redirect.clone(), asked.state.clone());
    let fields = if form.get("decision") == Some("deny") {
        Form::default().with("error", "access_denied").with("error_description", "the person said no")
    } else {
        Form::default().with("code", &state.code(asked, site.now()))
    };
    drop(state);
    back(site, rules, &redirect, &client_state, fields)
}

/// The redirect to the client.
fn back(site: &Site, rules: &ProviderRules, redirect: &str, state: &str, fields: Form) -> Answer {
    let mut fields = if state.is_empty() { fields } else { fields.with("state", state) };
    match rules.iss {
        IssRule::Absent | IssRule::Broken => {}
        IssRule::Issuer => fields = fields.with("iss", &stated(site, rules, rules.issuer)),
        IssRule::Other(other) => fields = fields.with("iss", other),
    }
    Answer::redirect(&fields.appended_to(redirect))
}

fn read(rules: &ProviderRules, query: &Form) -> Result<Authorization, Refusal> {
    let refuse = |error, description: &str| Err(Refusal { error, description: description.to_owned() });
    let text = |name: &str| query.get(name).unwrap_or_default().to_owned();
    if query.get("response_type") != Some("code") {
        return refuse("unsupported_response_type", "only `code`");
    }
    let (challenge, method) = (text("code_challenge"), query.get("code_challenge_method"));
    let is_proper = match rules.pkce {
        PkceRule::S256 | PkceRule::Silent => challenge.len() == 43 && method == Some("S256"),
        PkceRule::Plain => challenge.len() >= 43 && method.is_none_or(|method| method == "plain"),
        PkceRule::Absent => true,
    };
    if !is_proper {
        return refuse("invalid_request", "the code challenge is missing or not of the supported method");
    }
    let scopes: Vec<String> = text("scope").split_whitespace().map(str::to_owned).collect();
    if rules.scopes.required && scopes.is_empty() {
        return refuse("invalid_scope", "no scopes were asked for");
    }
    let known = rules.scopes.known;
    if let Some(scope) = scopes.iter().find(|scope| !known.is_empty() && !known.contains(&scope.as_str())) {
        return refuse("invalid_scope", &format!("some requested scopes were invalid: {scope}"));
    }
    if rules.refuses_forced_consent && query.get("prompt") == Some("consent") {
        return refuse("access_denied", "AADSTS90094: the grant requires admin permission");
    }
    let audience = audience(rules.resource, query)?;
    let may_refresh = may_refresh(rules.refresh, query, &scopes);
    Ok(Authorization {
        client: text("client_id"),
        redirect: text("redirect_uri"),
        state: text("state"),
        challenge,
        scopes,
        audience,
        may_refresh,
    })
}

fn audience(rule: ResourceRule, query: &Form) -> Result<Audience, Refusal> {
    let named = |name: &str| query.get(name).map(|resource| Audience::Resource(resource.to_owned()));
    match rule {
        ResourceRule::Required => named("resource")
            .ok_or_else(|| Refusal { error: "invalid_target", description: "`resource` is missing".to_owned() }),
        ResourceRule::Unread => Ok(Audience::Everyone),
        ResourceRule::Refusal if query.count("resource") > 0 => Err(Refusal {
            error: "invalid_target",
            description: "AADSTS9010010: The resource parameter provided in the request doesn't match with the \
                          requested scopes"
                .to_owned(),
        }),
        ResourceRule::Refusal => Ok(Audience::Everyone),
        ResourceRule::Audience => Ok(named("audience").unwrap_or(Audience::Nobody)),
    }
}

fn may_refresh(rule: RefreshRule, query: &Form, scopes: &[String]) -> bool {
    match rule.condition {
        RefreshCondition::Always => true,
        RefreshCondition::OfflineScope => scopes.iter().any(|scope| scope == "offline_access"),
        RefreshCondition::OfflineParameter => query.get("access_type") == Some("offline"),
        RefreshCondition::Never => false,
    }
}

/// Whether a redirect is one of the client's.
fn accepts(rule: RedirectRule, entered: &[String], redirect: &str) -> bool {
    let is_loopback = LOOPBACK.iter().any(|start| redirect.starts_with(start));
    match rule {
        RedirectRule::Exact => entered.iter().any(|entered| entered == redirect),
        RedirectRule::AnyLoopbackPort if is_loopback => {
            entered.iter().any(|entered| without_port(entered) == without_port(redirect))
        }
        RedirectRule::AnyLoopbackPort => entered.iter().any(|entered| entered == redirect),
        RedirectRule::LocalhostName => {
            let is_name = !is_loopback || redirect.starts_with("http://localhost");
            is_name && entered.iter().any(|entered| entered == redirect)
        }
        RedirectRule::NoLoopback => !is_loopback && entered.iter().any(|entered| entered == redirect),
    }
}

const LOOPBACK: [&str; 3] = ["http://127.0.0.1", "http://[::1]", "http://localhost"];

/// An address without its port, as scheme, host and path.
fn without_port(address: &str) -> String {
    let (origin, path) = match address.match_indices('/').nth(2) {
        Some((at, _)) => address.split_at(at),
        None => (address, ""),
    };
    let host = origin.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches(':');
    format!("{}{path}", if host.ends_with('.') { origin } else { host })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_loopback_redirect_only_the_port_is_free() {
        let entered = ["http://127.0.0.1/oauth/callback".to_owned(), "https://a.example/cb".to_owned()];
        for (redirect, any_port, exact) in [
            ("http://127.0.0.1:8090/oauth/callback", true, false),
            ("http://127.0.0.1/oauth/callback", true, true),
            ("http://127.0.0.1:8090/callback", false, false),
            ("http://localhost:8090/oauth/callback", false, false),
            ("https://a.example/cb", true, true),
            ("https://a.example:444/cb", false, false),
        ] {
            assert_eq!(accepts(RedirectRule::AnyLoopbackPort, &entered, redirect), any_port, "{redirect}");
            assert_eq!(accepts(RedirectRule::Exact, &entered, redirect), exact, "{redirect}");
        }
        assert!(!accepts(RedirectRule::NoLoopback, &entered, "http://127.0.0.1/oauth/callback"));
        assert!(accepts(RedirectRule::NoLoopback, &entered, "https://a.example/cb"));
    }
}
