//! Logins by the commands: `login`, `logout`, `auth`, and what other commands say of a server that needs one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use toolcrib_base::SystemClock;
use toolcrib_testkit::http::{HttpServer, Request};
use toolcrib_testkit::launch::{Program, write};
use toolcrib_testkit::provider::{Browser, Consent, Destination, Naming, Remote, RemoteRules, SECRET_MARK, fetch};
use toolcrib_testkit::{eventually, eventually_finds, eventually_holds};

use crate::serving::{GatewayFixture, fake_server};
use crate::terminal::Terminal;
use crate::toolcrib::{CommandOutput, run, run_with_stdin, toolcrib};

fn remote() -> Remote {
    Remote::start(RemoteRules::default(), Naming::Loopback, Arc::new(SystemClock))
}

pub(crate) fn definition(name: &str, remote: &Remote) -> String {
    format!("name: {name}\ntransport: http\nurl: {}\nstart: eager\n", remote.url())
}

/// The entry `desk` of the registry for the remote.
fn entry(remote: &Remote) -> String {
    format!(
        "name: desk\ntitle: Desk\ndescription: A desk\nruntime: {{transport: http, url: \"{}\"}}\nauthorization: \
         {{type: oauth2}}\n",
        remote.url()
    )
}

/// A program that stands in for a browser: it writes the address that it is to open into the file `opened`.
fn browser_that_writes(home: &Path) -> String {
    let script = "#!/bin/sh\nprintf %s \"$1\" > \"$0.new\" && mv \"$0.new\" \"${0%/*}/opened\"\n";
    let path = write(home, "browser", script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A gateway with the server `notion`, which wants a login.
async fn gateway(remote: &Remote) -> GatewayFixture {
    let gateway = GatewayFixture::start(&[("notion", &definition("notion", remote))]).await;
    until_state(gateway.home(), "needs-login").await;
    gateway
}

pub(crate) async fn until_state(home: &Path, wanted: &str) {
    let reached = async {
        loop {
            let shown = run(home, &["get", "server", "notion", "-o", "json"], &[]).await;
            let shown: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
            if shown["state"] == wanted {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    eventually(wanted, reached).await;
}

/// Opens a provider's page as a person elsewhere does, and gives the address that it ends at.
fn answer(remote: &Remote, url: &str, consent: Consent) -> String {
    let redirect = url.split("redirect_uri=").nth(1).and_then(|rest| rest.split('&').next()).unwrap();
    let redirect = redirect.replace("%3A", ":").replace("%2F", "/");
    assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/oauth/callback"), "{redirect}");
    let mut browser = Browser::new(remote.network()).with_consent(consent);
    match browser.open(url, &redirect).unwrap() {
        Destination::Callback(answer) => answer,
        Destination::Page(page) => panic!("no answer: {page:?}"),
    }
}

/// A command that waits for an address, and the provider's page that it printed.
async fn until_page(home: &Path, arguments: &[&str]) -> (Program, String) {
    let mut command = toolcrib(home, arguments).start();
    let page = command.logs("  http").await;
    (command, page.trim().to_owned())
}

/// Logs in with a browser elsewhere.
pub(crate) async fn log_in(home: &Path, remote: &Remote) -> CommandOutput {
    let (mut command, page) = until_page(home, &["login", "notion", "--no-browser"]).await;
    command.types(&answer(remote, &page, Consent::Allow)).await;
    command.finish().await
}

#[tokio::test]
async fn a_login_with_a_browser_elsewhere() {
    let remote = remote();
    let gateway = gateway(&remote).await;
    let home = gateway.home();
    run(home, &["login", "notion", "--silent"], &[])
        .await
        .fails(2, &["`notion` needs a login", "toolcrib login notion"]);
    run(home, &["login", "notion"], &[("MUSTER_AUTH_MODE", "none")]).await.fails(2, &["`notion` needs a login"]);

    let done = log_in(home, &remote).await;
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.starts_with("Logged in to notion: "), "{}", done.stdout);
    assert!(done.stdout.ends_with(" tool. Renewed automatically.\n"), "{}", done.stdout);
    assert!(!done.stderr.contains(SECRET_MARK) && !done.stdout.contains(SECRET_MARK), "{}", done.stderr);
    assert!(!home.join("state/logins/notion").exists(), "the secret of a complete login is forgotten");

    let again = run(home, &["auth", "login", "--server", "notion", "--silent"], &[]).await;
    assert!(again.code == 0 && again.stdout.starts_with("Already logged in to notion: "), "{again:?}");
    let status = run(home, &["auth", "status"], &[]).await;
    let line = status.stdout.lines().find(|line| line.starts_with("notion")).unwrap_or_default();
    assert!(line.contains("logged-in") && line.contains("automatically"), "{}", status.stdout);
    let one = run(home, &["auth", "status", "--server", "notion"], &[]).await;
    assert!(one.stdout.contains(&format!("Issuer:    {}", remote.issuer())), "{}", one.stdout);

    let renewed = run(home, &["auth", "refresh"], &[]).await;
    assert!(renewed.code == 0 && renewed.stdout.starts_with("Renewed the login at notion; "), "{renewed:?}");
    assert_eq!(remote.refreshes(), 1);

    run(home, &["logout", "notion"], &[]).await.prints("Logged out of notion.\n");
    assert_eq!(remote.live_grants(), 0, "what was given is revoked");
    run(home, &["logout", "notion"], &[]).await.prints("There was no login at notion.\n");
    run(home, &["auth", "refresh", "-s", "notion"], &[]).await.fails(2, &["toolcrib login notion"]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_command_that_waits_hears_that_the_provider_said_no() {
    let remote = remote();
    let gateway = gateway(&remote).await;
    let mut waiting = toolcrib(gateway.home(), &["login", "notion"]).start();
    let link = waiting.logs("  http").await.trim().to_owned();
    // The first form is ours; at the provider the person does not agree.
    let mut browser = Browser::new(remote.network());
    let page = browser.open(&link, &remote.issuer()).unwrap();
    let Destination::Callback(page) = page else { panic!("not sent on: {page:?}") };
    let page = browser.with_consent(Consent::Deny).visit(&page).unwrap();
    assert!(page.body.contains("access_denied"), "{page:?}");
    waiting.finish().await.fails(3, &["has refused the login of `notion`", "access_denied", "toolcrib login notion"]);
    gateway.stop().await;
}

/// The gateway is killed while a person is at the provider.
#[tokio::test]
async fn a_login_goes_on_at_the_gateway_that_follows_a_killed_one() {
    let remote = remote();
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "servers/notion.yaml", &definition("notion", &remote));
    let mut gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
    until_state(home.path(), "needs-login").await;
    let begun = run_with_stdin(home.path(), &["login", "notion", "--no-browser"], &[], "").await;
    let page = begun.stderr.lines().find(|line| line.starts_with("  http")).unwrap().trim().to_owned();
    gateway.program().signal(rustix::process::Signal::KILL);
    gateway.program().end().await;
    let answer = answer(&remote, &page, Consent::Allow);
    let gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
    let done = run(home.path(), &["login", "notion", "--callback", &answer], &[]).await;
    assert!(done.code == 0 && done.stdout.starts_with("Logged in to notion"), "{done:?}");
    gateway.stop().await;
}

/// A token endpoint in front of the remote's. While it `holds`, a refresh waits: before the remote sees it, which then
/// never does, or with `is_late` before its answer goes back.
fn held_endpoint(remote: &Remote, holds: &Arc<AtomicBool>, is_late: bool) -> HttpServer {
    let (target, holds) = (format!("{}/token", remote.issuer()), Arc::clone(holds));
    HttpServer::start(move |request, reply| {
        let is_held = is_refresh(request) && holds.load(Ordering::SeqCst);
        if is_held && !is_late {
            return reply.wait_for_release(1);
        }
        let kept = request.headers.iter().filter(|(name, _)| matches!(name.as_str(), "authorization" | "content-type"));
        let lines: Vec<String> = kept.map(|(name, value)| format!("{name}: {value}")).collect();
        let page = fetch("POST", &target, &lines, &String::from_utf8_lossy(&request.body)).unwrap();
        if is_held {
            reply.wait_for_release(1);
        }
        reply.full(page.status, &["content-type: application/json"], page.body);
    })
}

fn is_refresh(request: &Request) -> bool {
    String::from_utf8_lossy(&request.body).contains("grant_type=refresh_token")
}

/// The gateway is killed while it renews a login: before the provider has seen the request, and after it has answered.
#[tokio::test]
async fn a_login_that_a_killed_gateway_was_renewing_works_or_says_that_it_is_needed() {
    for is_late in [false, true] {
        let (remote, holds) = (remote(), Arc::new(AtomicBool::new(true)));
        let endpoint = held_endpoint(&remote, &holds, is_late);
        let address = format!("http://{}/token", endpoint.address());
        remote.change(|rules| rules.provider.edits = json!({ "token_endpoint": address }));
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "servers/notion.yaml", &definition("notion", &remote));
        let mut gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
        until_state(home.path(), "needs-login").await;
        let done = log_in(home.path(), &remote).await;
        assert_eq!(done.code, 0, "{}", done.stderr);

        let refreshing = toolcrib(home.path(), &["auth", "refresh", "-s", "notion"]).start();
        let is_there = || endpoint.requests().iter().any(is_refresh) && remote.refreshes() == usize::from(is_late);
        eventually_holds("the refresh at the provider", is_there).await;
        gateway.program().signal(rustix::process::Signal::KILL);
        gateway.program().end().await;
        assert_ne!(refreshing.finish().await.code, 0);
        holds.store(false, Ordering::SeqCst);
        endpoint.release();

        let gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
        let renewed = run(home.path(), &["auth", "refresh", "-s", "notion"], &[]).await;
        if is_late {
            // The provider takes each refresh token once, and its answer reached no one.
            renewed.fails(2, &["toolcrib login notion"]);
            until_state(home.path(), "needs-login").await;
            let again = log_in(home.path(), &remote).await;
            assert_eq!(again.code, 0, "{}", again.stderr);
        } else {
            assert_eq!((renewed.code, remote.refreshes()), (0, 1), "the refresh token was not lost: {renewed:?}");
        }
        until_state(home.path(), "ready").await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_login_is_completed_by_another_command() {
    let remote = remote();
    let gateway = gateway(&remote).await;
    let home = gateway.home();
    let complete = async |answer: &str| run(home, &["login", "notion", "--callback", answer], &[]).await;
    let none = "http://127.0.0.1:1/oauth/callback?code=hush&state=hush";
    complete(none).await.fails(1, &["no login of `notion` waits", "toolcrib login notion --no-browser"]);

    let begun = run_with_stdin(home, &["login", "notion", "--no-browser"], &[], "").await;
    begun.fails(
        2,
        &["no address was given", "toolcrib login notion --callback ADDRESS", "redirect_uri", "identity.url"],
    );
    let page = begun.stderr.lines().find(|line| line.starts_with("  http")).unwrap().trim().to_owned();
    for (wrong, words) in [("what?", "it is not a URL"), ("", "it is empty"), ("http://x/?code=hush", "`state`")] {
        let refused = complete(wrong).await;
        refused.fails(1, &[words, "copy the whole address"]);
        assert!(!refused.stderr.contains("hush"), "{}", refused.stderr);
    }
    let foreign = complete(none).await;
    foreign.fails(1, &["belongs to no login", "toolcrib login"]);
    assert!(!foreign.stderr.contains("hush"), "{}", foreign.stderr);

    let answer = answer(&remote, &page, Consent::Allow);
    let done = complete(&answer).await;
    assert!(done.code == 0 && done.stdout.starts_with("Logged in to notion: "), "{done:?}");
    complete(&answer).await.fails(1, &["no login of `notion` waits"]);
    gateway.stop().await;
}

#[tokio::test]
async fn what_a_provider_refuses_is_reported() {
    let remote = remote();
    let gateway = gateway(&remote).await;
    let (mut command, page) = until_page(gateway.home(), &["login", "notion", "--no-browser"]).await;
    command.types("it did not work").await;
    let again = command.logs("  http").await;
    assert_eq!(again.trim(), page, "the link stays valid when something else was pasted");
    command.types(&answer(&remote, &page, Consent::Deny)).await;
    let refused = command.finish().await;
    refused.fails(3, &["refused the login of `notion`", "toolcrib login notion"]);
    gateway.stop().await;
}

#[tokio::test]
async fn what_cannot_be_logged_in_to_says_why() {
    let remote = remote();
    let program = format!("name: files\ncommand: {}\nstart: manual\n", fake_server().display());
    let gateway = GatewayFixture::start(&[("notion", &definition("notion", &remote)), ("files", &program)]).await;
    let home = gateway.home();
    for command in [&["login", "files"][..], &["auth", "login", "--server", "files", "--no-browser"]] {
        run(home, command, &[]).await.fails(1, &["there is nothing to log in to", "servers/files.yaml"]);
    }
    for command in [&["login", "notoin"][..], &["logout", "notoin"], &["auth", "status", "-s", "notoin"]] {
        run(home, command, &[]).await.fails(1, &["notoin"]);
    }
    run(home, &["login", "../x"], &[]).await.fails(64, &["`../x` is not a name"]);
    let of_gateway = run(home, &["auth", "login"], &[]).await;
    assert!(of_gateway.code == 0 && of_gateway.stdout.contains("authenticated"), "{of_gateway:?}");
    assert!(of_gateway.stderr.contains("toolcrib login SERVER"), "{of_gateway:?}");
    run(home, &["auth", "logout"], &[]).await.fails(1, &["toolcrib logout SERVER"]);
    let of_all = run(home, &["auth", "logout", "--all"], &[]).await;
    assert_eq!((of_all.code, of_all.stderr.trim()), (0, "there is no login to end"));
    let elsewhere = [("TOOLCRIB_AUTH_MODE", "loud")];
    run(home, &["login", "notion"], &elsewhere).await.fails(1, &["`TOOLCRIB_AUTH_MODE`"]);
    gateway.stop().await;
}

#[tokio::test]
async fn every_list_names_the_command() {
    let remote = remote();
    let gateway = gateway(&remote).await;
    let home = gateway.home();
    for (command, code) in [
        (&["list", "servers"][..], 0),
        (&["list", "tools"], 0),
        (&["find", "notion"], 0),
        (&["server", "list"], 0),
        (&["get", "server", "notion"], 0),
        (&["server", "show", "notion"], 0),
        (&["status"], 0),
        (&["auth", "status"], 0),
        (&["events", "--limit", "5"], 0),
        (&["doctor"], 1),
        (&["check", "server", "notion"], 1),
        (&["start", "server", "notion"], 1),
        (&["server", "restart", "notion"], 1),
        (&["verify", "notion"], 1),
        (&["verify", "--all"], 1),
    ] {
        let ran = run(home, command, &[]).await;
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("toolcrib login notion"), "{command:?}: {said}");
        assert_eq!(ran.code, code, "{command:?}: {said}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_of_the_registry_is_added_and_named_with_its_login() {
    let remote = remote();
    let gateway = GatewayFixture::start(&[]).await;
    let home = gateway.home();
    write(home, "registry/custom/desk.yaml", &entry(&remote));
    let added = async {
        loop {
            // A changed file is seen after a moment.
            let ran = run(home, &["registry", "add", "desk", "--name", "notion"], &[]).await;
            if !ran.stderr.contains("entry `desk` not found") {
                return ran;
            }
        }
    };
    let mut said = String::new();
    eventually("the entry", async { said = format!("{:?}", added.await) }).await;
    assert!(said.contains("notion needs a login: toolcrib login notion"), "{said}");
    let done = log_in(home, &remote).await;
    assert!(done.code == 0 && done.stdout.starts_with("Logged in to notion: "), "{done:?}");
    gateway.stop().await;
}

/// Without a gateway the command is one for as long as the login takes.
#[tokio::test]
async fn a_login_needs_no_running_gateway() {
    let remote = remote();
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "servers/notion.yaml", &definition("notion", &remote));
    write(home.path(), "config.toml", "listen = \"127.0.0.1:0\"\n");
    let done = log_in(home.path(), &remote).await;
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.starts_with("Logged in to notion: "), "{}", done.stdout);
    assert!(done.stderr.contains("start one with `toolcrib serve`"), "{}", done.stderr);
    assert!(!home.path().join("state/serve.json").exists());

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    write(home.path(), "config.toml", &format!("listen = \"{}\"\n", taken.local_addr().unwrap()));
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = run(home.path(), &["login", "notion", "--no-browser"], &[]).await;
    refused.fails(1, &["is already in use", &format!("logins come back to port {port}"), "config.toml"]);
}

/// The issue's own words: a person at a terminal adds a server, says yes, and logs in.
#[tokio::test]
async fn a_person_is_asked_and_gets_a_browser() {
    let remote = remote();
    let gateway = GatewayFixture::start(&[]).await;
    let home = gateway.home();
    let browser = browser_that_writes(home);
    write(home, "registry/custom/desk.yaml", &entry(&remote));
    let listed = async { while run(home, &["api", "core_registry_get", "name=desk"], &[]).await.code != 0 {} };
    eventually("the entry", listed).await;

    let mut person = Terminal::start(home, &["registry", "add", "desk", "--name", "notion"], &browser);
    person.reads("notion needs a login. Open your browser? [Y/n]");
    person.types("");
    let link = eventually_finds("the browser's address", async || std::fs::read_to_string(home.join("opened"))).await;
    assert!(link.starts_with(&format!("http://{}/connect/", gateway.address())), "{link}");
    let page = Browser::new(remote.network()).visit(&link).unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    let printed = person.finish(SECRET_MARK);
    let told = printed.lines().last().unwrap_or_default();
    assert!(told.starts_with("Logged in to notion: ") && told.ends_with(" tool. Renewed automatically."), "{printed}");

    run(home, &["logout", "notion"], &[]).await.prints("Logged out of notion.\n");
    std::fs::remove_file(home.join("opened")).unwrap();
    let mut person = Terminal::start(home, &["login", "notion", "--auth", "prompt"], &browser);
    person.reads("Open your browser? [Y/n]");
    person.types("n");
    let link = person.reads("/connect/");
    assert!(!home.join("opened").exists(), "nobody wanted a browser");
    person.interrupt();
    assert!(person.reads("the link stays valid").contains("within 10 minutes"));
    let page = Browser::new(remote.network()).visit(link.trim()).unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    until_state(home, "ready").await;
    let again = run(home, &["login", "notion"], &[]).await;
    assert!(again.code == 0 && again.stdout.starts_with("Already logged in to notion: "), "{again:?}");
    gateway.stop().await;
}

/// Without a person the link is printed, and opened later.
#[tokio::test]
async fn a_link_is_waited_for() {
    let remote = remote();
    let gateway = gateway(&remote).await;
    let home = gateway.home();
    let (command, link) = until_page(home, &["login", "notion"]).await;
    // Another one replaces it; whoever logs in, both see it.
    let (other, newer) = until_page(home, &["auth", "login", "-s", "notion"]).await;
    assert!(Browser::new(remote.network()).visit(&link).unwrap().status >= 400, "it is replaced");
    assert_eq!(Browser::new(remote.network()).visit(&newer).unwrap().status, 200);
    for command in [command, other] {
        let done = command.finish().await;
        assert!(done.code == 0 && done.stdout.starts_with("Logged in to notion: "), "{done:?}");
    }
    gateway.stop().await;
}

/// A value that each caller has of its own is typed, or comes by stdin; the terminal does not show it.
#[tokio::test]
async fn a_value_of_a_header_is_asked_for() {
    let server = HttpServer::start(|request, reply| {
        let message = request.json();
        let result = match message["method"].as_str() {
            Some("server/discover") => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
            _ => json!({"tools": [{"name": "search", "inputSchema": {"type": "object"}}]}),
        };
        reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    });
    let definition = format!(
        "name: tracker\ntransport: http\nurl: {}\nstart: eager\nheaders: {{X-Key: 'user:tracker'}}\n",
        server.url()
    );
    let gateway = GatewayFixture::start(&[("tracker", &definition)]).await;
    let home = gateway.home();
    let given = async |stdin: &str| run_with_stdin(home, &["login", "tracker"], &[], stdin).await;
    given("").await.fails(2, &["no value was given for `tracker` of `tracker`", "toolcrib login tracker"]);
    let done = given("s3cret-value\n").await;
    assert_eq!((done.code, done.stdout.as_str()), (0, "Logged in to tracker: 1 tool.\n"), "{}", done.stderr);
    assert!(server.requests().iter().all(|request| request.header("x-key") == Some("s3cret-value")));
    run(home, &["logout", "tracker"], &[]).await.prints("Logged out of tracker.\n");

    let mut person = Terminal::start(home, &["login", "tracker"], "false");
    person.reads("tracker needs your value of `tracker`: ");
    person.types("0ther-value");
    assert_eq!(person.finish("0ther-value"), "Logged in to tracker: 1 tool.\n");
    assert!(server.requests().iter().any(|request| request.header("x-key") == Some("0ther-value")));
    gateway.stop().await;
}

#[tokio::test]
async fn a_login_survives_a_restart() {
    let remote = remote();
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "servers/notion.yaml", &definition("notion", &remote));
    let serve = async || toolcrib(home.path(), &["serve"]).with_path().serve().await;
    let gateway = serve().await;
    let done = log_in(home.path(), &remote).await;
    assert!(done.code == 0, "{done:?}");
    gateway.stop().await;
    let gateway = serve().await;
    until_state(home.path(), "ready").await;
    let again = run(home.path(), &["login", "notion", "--silent"], &[]).await;
    assert!(again.code == 0 && again.stdout.starts_with("Already logged in to notion: "), "{again:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn someone_who_stops_waiting_reads_what_stays() {
    let remote = remote();
    let gateway = gateway(&remote).await;
    let (mut command, _) = until_page(gateway.home(), &["login", "notion", "--no-browser"]).await;
    command.signal(rustix::process::Signal::INT);
    let (ended, log) = (command.end().await, command.log());
    assert_eq!(ended.code(), Some(130), "{log}");
    assert!(log.contains("interrupted before") && log.contains("the link stays valid"), "{log}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_run_waits_for_a_login_over_a_sigkill_and_goes_on_by_itself() {
    let remote = remote();
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let tools = "tools: [{name: whoami, description: Says who asks., inputSchema: {type: object}}]\n";
    write(home, "servers/notion.yaml", &(definition("notion", &remote) + tools));
    let script = "{turns: [{calls: [{name: notion_whoami, arguments: {}}]}, {say: It is done.}]}";
    write(home, "models/said.yaml", &format!("name: said\nwire: script\nscript: {script}\n"));
    let shown = async |arguments: &[&str]| -> Value {
        let answer = run(home, &[arguments, &["-o", "json"]].concat(), &[]).await;
        serde_json::from_str(&answer.stdout).unwrap_or_else(|_| panic!("{answer:?}"))
    };
    let until = async |id: &str, status: &str| {
        eventually_finds(&format!("a run that is {status}"), async || {
            let run = shown(&["run", "show", id]).await;
            if run["status"] == *status { Ok(run) } else { Err(run) }
        })
        .await
    };
    let mut gateway = toolcrib(home, &["serve"]).with_path().serve().await;
    until_state(home, "needs-login").await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let started = shown(&["run", "--detach", "--model", "said", "Who am I?"]).await;
        ids.push(started["run"].as_str().unwrap().to_owned());
    }
    for id in &ids {
        let wait = until(id, "waiting").await["waits"][0].clone();
        assert_eq!((&wait["for"], &wait["what"]), (&json!("login"), &json!("notion")), "{wait}");
        assert!(wait["url"].as_str().unwrap().contains("/connect/"), "{wait}");
    }
    gateway.program().signal(rustix::process::Signal::KILL);
    gateway.program().end().await;
    let gateway = toolcrib(home, &["serve"]).with_path().serve().await;
    until_state(home, "needs-login").await;
    // Who does not want to log in says so, and the model is told.
    let declined = run(home, &["run", "resume", &ids[0], "--answer", r#"{"action":"decline"}"#], &[]).await;
    assert_eq!(declined.code, 0, "{declined:?}");
    until(&ids[0], "ended").await;
    let told = run(home, &["run", "export", &ids[0], "--format", "markdown"], &[]).await.stdout;
    assert!(told.contains("did not log in"), "{told}");
    assert_eq!(until(&ids[1], "waiting").await["waits"][0]["for"], "login");
    let done = log_in(home, &remote).await;
    assert_eq!(done.code, 0, "{done:?}");
    let ended = until(&ids[1], "ended").await;
    assert_eq!((&ended["end"], &ended["calls"]), (&json!("done"), &json!(1)), "{ended}");
    let told = run(home, &["run", "export", &ids[1], "--format", "markdown"], &[]).await.stdout;
    assert!(told.contains("someone"), "{told}");
    gateway.stop().await;
}
