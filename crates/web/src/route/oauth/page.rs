//! What people see of the authorization server.

use http::header::{HeaderName, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use toolcrib_authorization::{AuthorizeRefusal, ClientSource, ConsentPrompt};
use toolcrib_base::{Problem, Secret};
use toolcrib_transport::http::body::Body;

use crate::guard::CONSENT;
use crate::respond;
use crate::route::html::{self, PageKind, escaped, marked, page, private};

/// Asks whether the client may have what it asks for.
pub(super) fn consent(prompt: &ConsentPrompt, user: Option<&str>) -> Response<Body> {
    let source = match prompt.source {
        ClientSource::Settings => "the settings of this gateway",
        ClientSource::Document => "its own website",
        ClientSource::Registration => "itself only: anyone can call a program so",
    };
    let program = match &prompt.program {
        None => String::new(),
        Some(scheme) => format!(
            "<p>The answer goes to whichever program of your machine opens {} addresses.</p>\n",
            marked(&format!("{scheme}:")),
        ),
    };
    let who = user.map(|user| format!("<p>You are signed in as {}.</p>\n", marked(user))).unwrap_or_default();
    let buttons: String = match &prompt.issuers[..] {
        [] => "<button name=\"choice\" value=\"allow\">Allow</button>\n".to_owned(),
        issuers => {
            let button = |issuer: &String| {
                let name = escaped(issuer);
                format!("<button name=\"choice\" value=\"allow:{name}\">Allow, as who I am at {name}</button>\n")
            };
            issuers.iter().map(button).collect()
        }
    };
    let body = format!(
        "<p><strong>{name}</strong> wants to use the tools of this gateway in your name.</p>\n{who}\
         <dl>\n<dt>Client</dt><dd>{client}</dd>\n<dt>Known from</dt><dd>{source}</dd>\n\
         <dt>Your answer goes to</dt><dd>{redirect}</dd>\n<dt>It asks for</dt><dd>{resource}</dd>\n</dl>\n{program}\
         <p>Allow it only if you have just connected this client yourself.</p>\n\
         <form method=\"post\" action=\"{CONSENT}\"><input type=\"hidden\" name=\"request\" value=\"{form}\">\n\
         {buttons}<button name=\"choice\" value=\"deny\">Deny</button>\n</form>\n",
        name = escaped(&prompt.client_name),
        client = marked(&prompt.client),
        redirect = marked(&prompt.redirect),
        resource = marked(&prompt.resource),
        form = escaped(prompt.form.expose()),
    );
    page(StatusCode::OK, PageKind::Form, "Allow access?", &body)
}

/// Shows the code that the owner approves.
pub(super) fn approval(code: &Secret, client_name: &str) -> Response<Body> {
    let body = format!(
        "<p><strong>{}</strong> waits for the owner of this gateway.</p>\n\
         <p>Run this where the gateway runs:</p>\n<p>{}</p>\n\
         <p>This page goes on by itself. The code is valid for ten minutes.</p>\n",
        escaped(client_name),
        marked(&format!("toolcrib auth approve {}", code.expose())),
    );
    page(StatusCode::OK, PageKind::OwnForm, "Waiting for approval", &body)
}

/// Back to the client. Browsers do not let a form lead to a program, so such an address stands on a page of its own.
pub(super) fn back(url: &str) -> Response<Body> {
    let Ok(mut place) = HeaderValue::try_from(url) else { return respond::status(StatusCode::BAD_REQUEST) };
    place.set_sensitive(true);
    if is_site(url) {
        let mut response = respond::status(StatusCode::SEE_OTHER);
        response.headers_mut().insert(LOCATION, place);
        return private(response);
    }
    let body =
        format!("<p><a href=\"{}\">Go back to the program</a>, if it does not open by itself.</p>\n", escaped(url));
    let mut response = page(StatusCode::OK, PageKind::Text, "Done", &body);
    if let Ok(mut refresh) = HeaderValue::try_from(format!("0; url={url}")) {
        refresh.set_sensitive(true);
        response.headers_mut().insert(HeaderName::from_static("refresh"), refresh);
    }
    response
}

/// Why there is no access: for the person, or for the client where that is proven.
pub(super) fn refusal(refusal: AuthorizeRefusal) -> Response<Body> {
    match refusal {
        AuthorizeRefusal::Redirect(url) if is_site(&url) => back(&url),
        // No one has said yes: a link from a stranger must not start a program.
        AuthorizeRefusal::Redirect(url) => {
            let body = format!(
                "<p>The client asked for something that it does not get.</p>\n\
                 <p><a href=\"{}\">Go back to the program</a></p>\n",
                escaped(&url)
            );
            page(StatusCode::OK, PageKind::Text, "No access", &body)
        }
        AuthorizeRefusal::Page(problem) => shown(&problem),
    }
}

fn is_site(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

fn shown(problem: &Problem) -> Response<Body> {
    let status = StatusCode::from_u16(problem.kind.row().status).unwrap_or(StatusCode::BAD_REQUEST);
    private(html::problem(status, "No access", problem))
}
