//! The pages of logins.

use http::Response;
use http::StatusCode;
use toolcrib_base::{Secret, ServerName};
use toolcrib_login::PendingDescription;
use toolcrib_transport::http::body::Body;

use super::connect::NamedKey;
use crate::route::html::{PageKind, escaped, marked, page};

/// Asks whether to begin a login: which server, where, for whom. With `needs_token` the owner of the gateway proves to be
/// it by the gateway's token.
pub(super) fn confirmation(link: &PendingDescription, form_token: &Secret, needs_token: bool) -> Response<Body> {
    let server = marked(link.server.as_str());
    let (owner, field) = match NamedKey::of(&link.owner) {
        Some(NamedKey { profile, name }) => {
            let owner = format!("the key {} of profile {}", marked(&name), marked(profile.as_str()));
            let field = format!(
                "<label>The key {}, to prove that it is yours:\n<input type=\"password\" name=\"key\" value=\"\" \
                 autocomplete=\"off\" required></label>\n",
                marked(&name)
            );
            (owner, field)
        }
        None if link.owner.is_installation() => {
            let field = "<label>The gateway's token (<code>state/token</code> in its home folder), to prove that you are \
                         its owner:\n<input type=\"password\" name=\"key\" value=\"\" autocomplete=\"off\" \
                         required></label>\n";
            let field = if needs_token { field } else { "" };
            ("the owner of this gateway".to_owned(), field.to_owned())
        }
        None => (marked(link.owner.as_str()), String::new()),
    };
    let body = format!(
        "<p>The next page is that of the provider of this server. What you allow there is used for calls in this name:\
         </p>\n\
         <dl>\n<dt>Server</dt><dd>{server}</dd>\n<dt>At</dt><dd>{}</dd>\n<dt>For</dt><dd>{owner}</dd>\n\
         <dt>Asked for at</dt><dd>{}</dd>\n</dl>\n\
         <p>Continue only if you asked for this login. If somebody sent you the link, close this page: they could use \
         your account.</p>\n\
         <p>If the page of the provider refuses the address of this gateway (its redirect URI): register a client at the \
         provider, and set <code>auth: {{client_id: …, redirect_uri: …}}</code> in <code>servers/{}.yaml</code>, or \
         <code>identity.url</code> in <code>config.toml</code>.</p>\n\
         <form method=\"post\" action=\"\">\n{field}<input type=\"hidden\" name=\"token\" value=\"{}\">\n\
         <button>Log in to {}</button>\n</form>\n",
        marked(&link.url),
        escaped(&link.made_at.to_string()),
        escaped(link.server.as_str()),
        escaped(form_token.expose()),
        escaped(link.server.as_str()),
    );
    page(StatusCode::OK, PageKind::Form, &format!("Log in to {}?", link.server), &body)
}

/// A login is done.
pub(super) fn logged_in(server: &ServerName) -> Response<Body> {
    page(StatusCode::OK, PageKind::Text, &format!("Logged in to {server}."), "<p>You can close this window.</p>\n")
}
