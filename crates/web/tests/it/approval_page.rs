//! The page of a call that waits for a yes: what it shows of it, to whom, and that nothing is decided there.

use http::Method;
use toolcrib_base::{Clock, PrincipalId, ProfileName, SystemClock, Timestamp, ToolId};
use toolcrib_store::{
    ApprovalDecision, ApprovalKind, ApprovalState, ApprovedCall, CallApproval, CallApprovals, OpenedApproval,
};
use toolcrib_testgateway::TestGateway;
use toolcrib_testkit::eventually_holds;

use crate::served::{Ask, Reply, ServedGateway};

/// What is in the sealed call, and on no page.
const SEALED: &[u8] = b"{\"token\":\"ghp_abcdefghijklmnopqrstuvwxyz0123456789\"}";
const MINUTE: i64 = 60_000;

/// A call that waits.
fn approval(id: &str, tool: &str, principal: &str) -> CallApproval {
    let now = SystemClock.now();
    CallApproval {
        id: id.to_owned(),
        kind: ApprovalKind::Approve,
        state: ApprovalState::Open,
        call: ApprovedCall {
            principal: PrincipalId::new(principal),
            profile: ProfileName::new("default").unwrap(),
            chain: String::new(),
            tool: ToolId::parse(tool).unwrap(),
            arguments: "a-keyed-hash".to_owned(),
        },
        digest: "a-digest".to_owned(),
        revision: "a-revision".to_owned(),
        created_at: now,
        expires_at: Timestamp(now.0 + 15 * MINUTE),
        decided_at: None,
        approver: None,
        reason: None,
        ended_at: None,
        is_collected: false,
        sealed: SEALED.to_vec(),
        result: None,
    }
}

/// The approvals of a gateway, past its doors.
fn approvals(house: &TestGateway) -> CallApprovals {
    house.gateway.store().call_approvals()
}

fn put(house: &ServedGateway, approval: &CallApproval) {
    let opened = approvals(house).open(approval, 100).unwrap();
    assert_eq!(opened, OpenedApproval::New);
}

fn decide(house: &ServedGateway, id: &str, state: ApprovalState, reason: &str) {
    let approver = Some(PrincipalId::new("user:acme/olga"));
    let decision =
        ApprovalDecision { id: id.to_owned(), state, approver, reason: Some(reason.to_owned()), begin_until: None };
    assert!(approvals(house).decide(decision).unwrap());
}

async fn page(house: &ServedGateway, id: &str) -> String {
    let reply = house.ask(person(id)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let policy = reply.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("form-action 'none'"), "{policy}");
    assert!(reply.headers["cache-control"] == "no-store" && reply.headers["referrer-policy"] == "no-referrer");
    let html = text(&reply);
    for hidden in ["ghp_", "a-keyed-hash", "a-digest", "a-revision", "<form", "<script", "<button", "olga"] {
        assert!(!html.contains(hidden), "`{hidden}` is no matter of this page: {html}");
    }
    html
}

/// As a browser asks.
fn person(id: &str) -> Ask {
    Ask::get(&format!("/approval/{id}")).header("accept", "text/html")
}

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.body.to_vec()).unwrap()
}

#[tokio::test]
async fn the_page_says_how_the_call_stands_in_each_state_however_often_it_is_read() {
    let house = ServedGateway::settled(&[]).await;
    let states = [
        (
            "apr_open",
            "A call waits for a yes",
            "Somebody else approves it with <code>toolcrib approval approve apr_open</code>",
        ),
        ("apr_confirm", "A call waits for a yes", "You confirm it with"),
        ("apr_denied", "A call was denied", "not &lt;b&gt;today&lt;/b&gt;"),
        ("apr_approved", "A call was approved", "It runs."),
        ("apr_done", "A call was approved", "your client has the result"),
        ("apr_unknown", "A call was cut off", "it is not repeated"),
        ("apr_expired", "An approval has expired", "The call has not run."),
    ];
    let store = approvals(&house);
    for (id, ..) in states {
        let made = approval(id, "prod/delete", &format!("user:acme/{id}"));
        put(
            &house,
            &match id {
                "apr_confirm" => CallApproval { kind: ApprovalKind::Confirm, ..made },
                "apr_expired" => CallApproval { expires_at: made.created_at, ..made },
                _ => made,
            },
        );
    }
    decide(&house, "apr_denied", ApprovalState::Denied, "not <b>today</b>");
    for id in ["apr_approved", "apr_done", "apr_unknown"] {
        decide(&house, id, ApprovalState::Approved, "fine");
    }
    assert!(store.begin("apr_unknown").unwrap());
    assert_eq!(store.end_cut_off().unwrap(), ["apr_unknown"]);
    assert!(store.begin("apr_done").unwrap() && store.finish("apr_done", b"ghp_result".to_vec()).unwrap());
    for (id, title, says) in states {
        for _ in 0..2 {
            let html = page(&house, id).await;
            assert!(html.contains(&format!("<h1>{title}</h1>")) && html.contains(says), "{id}: {html}");
            assert!(html.contains("<code>prod/delete</code>") && html.contains(&format!("user:acme/{id}")), "{html}");
        }
    }
    assert!(!store.get("apr_done").unwrap().unwrap().is_collected, "the result is for the caller");
}

#[tokio::test]
async fn what_imitates_the_dialog_stays_text_and_nothing_in_it_is_invisible() {
    let house = ServedGateway::settled(&[]).await;
    let tool = "prod/delete\u{200b}\u{202e}</code></dd></dl><h1>Approved</h1><a href=x>go on</a>";
    let principal = "user:acme/\u{2066}ann\nState: done\u{feff}<script>alert(1)</script>";
    put(&house, &approval("apr_odd", tool, principal));
    decide(&house, "apr_odd", ApprovalState::Denied, "no\r\n<dt>State</dt><dd>done</dd>\u{200d}\u{00ad}");
    let html = page(&house, "apr_odd").await;
    assert_eq!(html.matches("<h1>").count(), 1, "{html}");
    assert_eq!(html.matches("<dt>").count(), 4, "{html}");
    assert!(!html.contains("<a ") && !html.contains("State: done\u{feff}"), "{html}");
    for shown in [
        "prod/delete&lt;U+200B&gt;&lt;U+202E&gt;&lt;/code&gt;&lt;/dd&gt;",
        "&lt;U+2066&gt;ann&lt;U+000A&gt;State: done&lt;U+FEFF&gt;&lt;script&gt;",
        "no&lt;U+000D&gt;&lt;U+000A&gt;&lt;dt&gt;State&lt;/dt&gt;",
        "&lt;U+200D&gt;&lt;U+00AD&gt;",
    ] {
        assert!(html.contains(shown), "{shown}: {html}");
    }
}

#[tokio::test]
async fn a_wrong_id_and_one_of_another_look_alike_and_nothing_is_decided_at_the_page() {
    let house = ServedGateway::settled(&[]).await;
    put(&house, &approval("apr_0123456789abcdef", "prod/delete", "user:acme/ann"));
    let wrong = house.ask(person("apr_x")).await;
    assert_eq!(wrong.status, 404);
    let nonce = |html: String| {
        let parts: Vec<String> = html.split("nonce=\"").map(str::to_owned).collect();
        parts
            .iter()
            .enumerate()
            .map(|(at, part)| if at == 0 { part.clone() } else { part[32..].to_owned() })
            .collect::<String>()
    };
    let wrong = nonce(text(&wrong));
    let long = "a".repeat(4_000);
    for id in [
        "",
        "apr_0123456789abcde",
        "apr_0123456789abcdef0",
        "APR_0123456789ABCDEF",
        "apr_0123456789abcde%66",
        "apr_0123456789abcdef/approve",
        "..%2fapproval%2fapr_0123456789abcdef",
        "apr_%25",
        "'%20OR%201=1--",
        &long,
    ] {
        let reply = house.ask(person(id)).await;
        assert_eq!((reply.status.as_u16(), nonce(text(&reply))), (404, wrong.clone()), "{id}");
    }
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        let ask = Ask::new(method.clone(), "/approval/apr_0123456789abcdef", "state=approved");
        let reply = house.ask(ask.admin().header("content-type", "application/x-www-form-urlencoded")).await;
        assert_eq!((reply.status.as_u16(), &reply.headers["allow"]), (405, &"GET".parse().unwrap()), "{method}");
    }
    // With the id alone no one decides by REST either.
    for word in ["approve", "deny"] {
        let path = format!("/api/v1/approvals/apr_0123456789abcdef/{word}");
        let reply = house.ask(Ask::new(Method::POST, &path, "{}")).await;
        let problem = reply.problem(404);
        assert!(problem["detail"].as_str().unwrap().contains("approval not found"), "{word}: {problem}");
    }
    let store = approvals(&house);
    let is_open = || store.get("apr_0123456789abcdef").unwrap().is_some_and(|it| it.state == ApprovalState::Open);
    eventually_holds("it is open still", is_open).await;
}
