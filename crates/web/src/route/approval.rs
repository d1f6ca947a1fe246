//! `/approval/<id>`: how a call stands that waits for a yes, for the person behind its client. The id is what lets in, and
//! the page says no more than its client was told, and no arguments; nothing can be decided here.

use std::sync::Arc;

use http::header::HeaderMap;
use http::{Method, Response, StatusCode};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::pin::visible;
use toolcrib_store::{ApprovalKind, ApprovalState, CallApproval};
use toolcrib_transport::http::body::Body;

use super::html::{self, PageKind, escaped, marked, page, private};
use super::login::is_person;
use crate::guard::APPROVAL;
use crate::{Site, respond};

/// Answers a request for such a page.
pub(super) async fn answer(site: &Arc<Site>, method: &Method, path: &str, headers: &HeaderMap) -> Response<Body> {
    if method != Method::GET {
        return respond::not_allowed("GET");
    }
    let id = path.strip_prefix(APPROVAL).unwrap_or_default();
    let found = site.gateway.path.approvals.get(id).await;
    let found = found.and_then(|found| found.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such approval")));
    private(match found {
        Ok(approval) => shown(&approval),
        Err(problem) if is_person(headers) => {
            let status = StatusCode::from_u16(problem.kind.row().status).unwrap_or(StatusCode::NOT_FOUND);
            html::problem(status, "No approval", &problem)
        }
        Err(problem) => respond::refusal(&problem),
    })
}

fn shown(approval: &CallApproval) -> Response<Body> {
    let (title, next) = match approval.state {
        ApprovalState::Open => {
            let whose = match approval.kind {
                ApprovalKind::Confirm => "You confirm it",
                ApprovalKind::Approve => "Somebody else approves it",
            };
            let command = format!("toolcrib approval approve {}", approval.id);
            let until = escaped(&approval.expires_at.to_string());
            ("A call waits for a yes", format!("{whose} with {} until {until}.", marked(&command)))
        }
        ApprovalState::Approved | ApprovalState::Running => ("A call was approved", "It runs.".to_owned()),
        ApprovalState::Done => ("A call was approved", "It has ended; your client has the result.".to_owned()),
        ApprovalState::Denied => ("A call was denied", "It has not run.".to_owned()),
        ApprovalState::Expired => ("An approval has expired", "The call has not run.".to_owned()),
        ApprovalState::Unknown => ("A call was cut off", "It may have done its work; it is not repeated.".to_owned()),
    };
    // What others chose stands in one line each, with everything visible that a screen does not show.
    let shown = |text: &str| marked(&visible(text));
    let reason = approval.reason.as_deref().map(|reason| format!("<dt>Reason</dt><dd>{}</dd>\n", shown(reason)));
    let body = format!(
        "<dl>\n<dt>Tool</dt><dd>{}</dd>\n<dt>For</dt><dd>{}</dd>\n<dt>State</dt><dd>{}</dd>\n{}</dl>\n<p>{next}</p>\n",
        shown(&approval.call.tool.to_string()),
        shown(approval.call.principal.as_str()),
        escaped(approval.state.as_str()),
        reason.unwrap_or_default(),
    );
    page(StatusCode::OK, PageKind::Text, title, &body)
}
