//! Whole runs against a gateway that is a shell script and sessions that are scripted here, so that what the runner
//! makes of answers is seen without any of the gateway's own behaviour.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolcrib_scenario::{
    CallFailure, CallReply, Config, Drive, Expectations, Outcome, Pace, Place, Progress, Scenario, Session, Speaker,
    Tally, Verdict, read, run,
};

/// Tells that it is ready and waits for the end. It notes how it was started, and refuses a port that a file names.
const GATEWAY: &str = r#"#!/bin/sh
echo "$3" >> "$5/starts"
if [ -f "$5/taken" ] && [ "$3" != 127.0.0.1:0 ]; then echo "address in use" >&2; exit 1; fi
echo "started at $3" >&2
[ "$3" = 127.0.0.1:0 ] && port=$((4711 + $(wc -l < "$5/starts"))) || port=${3##*:}
printf '{"pid":%s,"url":"http://127.0.0.1:%s/mcp","token_file":"%s/token"}' $$ "$port" "$5" > "$7.new"
mv "$7.new" "$7"
exec cat > /dev/null
"#;

/// For how long the tool `busy` keeps its thread: more than the deadline that it gets.
const BUSY: Duration = Duration::from_millis(30);

/// What all sessions have seen, and how often each tool was called.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    lines: Mutex<Vec<String>>,
    counts: Mutex<HashMap<String, usize>>,
}

#[derive(Debug)]
struct Fake(Arc<CallLog>);

struct Open {
    seen: Arc<CallLog>,
    who: String,
}

impl CallLog {
    fn add(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

impl Drive for Fake {
    fn open(&self, place: Place) -> BoxFuture<'_, Result<Box<dyn Session>, String>> {
        let kind = match place.speaker {
            Speaker::Legacy => "legacy",
            Speaker::Modern => "modern",
            Speaker::ModernTasks => "tasks",
        };
        let who = format!("{kind}/{}", place.profile.as_deref().unwrap_or("-"));
        let port = place.url.trim_end_matches("/mcp").rsplit(':').next().unwrap_or_default().to_owned();
        self.0.add(format!("open {who} {port}"));
        if let Ok(token) = std::fs::read_to_string(&place.token_file) {
            self.0.add(format!("token {token}"));
        }
        // For the scenarios that take the port away from a gateway that starts again.
        if place.profile.as_deref() == Some("taken") {
            std::fs::write(place.home.join("taken"), "").unwrap();
        }
        let session: Box<dyn Session> = Box::new(Open { seen: Arc::clone(&self.0), who });
        async { Ok(session) }.boxed()
    }
}

fn text(text: &str, is_error: bool) -> CallReply {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
    CallReply { outcome: Ok(result), status: Some(200) }
}

impl Open {
    async fn answer(&self, door: &str, tool: &str, arguments: Value) -> CallReply {
        self.seen.add(format!("{door} {} {tool} {arguments}", self.who));
        let count = {
            let mut counts = self.seen.counts.lock().unwrap();
            let count = counts.entry(tool.to_owned()).or_default();
            *count += 1;
            *count
        };
        match tool {
            "echo" => text(&arguments.to_string(), false),
            "proxied" => CallReply { status: Some(203), ..text("{}", false) },
            "fail" => text("it broke: on purpose", true),
            "third" => text(&format!("{{\"count\":{count}}}"), count < 3),
            "refused" => {
                let error = json!({ "code": -32_602, "message": "no such thing", "data": { "kind": "unknown" } });
                let refused = CallFailure { text: "no such thing (look elsewhere)".to_owned(), error: Some(error) };
                CallReply { outcome: Err(refused), status: Some(400) }
            }
            "gone" => {
                CallReply { outcome: Err(CallFailure { text: "cannot connect".to_owned(), error: None }), status: None }
            }
            "slow" => {
                std::future::pending::<()>().await;
                text("never", false)
            }
            // As on a busy machine: the deadline has passed, and so has the session's own, before anyone looks.
            "busy" => {
                let begun = Instant::now();
                while begun.elapsed() < BUSY {
                    std::hint::spin_loop();
                }
                tokio::task::yield_now().await;
                CallReply { outcome: Err(CallFailure { text: "gave up".to_owned(), error: None }), status: None }
            }
            other => text(&format!("unknown {other}"), true),
        }
    }
}

impl Session for Open {
    fn call<'a>(&'a self, tool: &'a str, arguments: Value, _: Duration) -> BoxFuture<'a, CallReply> {
        self.answer("call", tool, arguments).boxed()
    }

    fn call_direct<'a>(&'a self, tool: &'a str, arguments: Value, _: Duration) -> BoxFuture<'a, CallReply> {
        self.answer("direct", tool, arguments).boxed()
    }

    fn send<'a>(&'a self, method: &'a str, params: Value, _: Duration) -> BoxFuture<'a, CallReply> {
        self.answer("send", method, params).boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Value>, String>> {
        self.seen.add(format!("list {}", self.who));
        async { Ok(vec![json!({ "name": "echo" }), json!({ "name": "fail" })]) }.boxed()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.seen.add(format!("close {}", self.who));
        async {}.boxed()
    }
}

#[derive(Default)]
struct ProgressLog(Mutex<Vec<String>>);

impl Progress for ProgressLog {
    fn begins(&self, name: &str) {
        self.0.lock().unwrap().push(format!("+{name}"));
    }

    fn ended(&self, outcome: &Outcome) {
        self.0.lock().unwrap().push(format!("-{}", outcome.name));
    }
}

pub(crate) struct House {
    _folder: tempfile::TempDir,
    config: Config,
    pub(crate) seen: Arc<CallLog>,
}

impl House {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("gateway");
        std::fs::write(&program, GATEWAY).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let seen = Arc::new(CallLog::default());
        let config = Config {
            program,
            guarded: false,
            timeout: Duration::from_secs(60),
            keep_home: false,
            drive: Arc::new(Fake(Arc::clone(&seen))),
        };
        Self { _folder: folder, config, seen }
    }

    async fn all(&self, scenarios: &[Scenario], pace: Pace, told: &ProgressLog) -> Vec<Outcome> {
        run(scenarios, &self.config, &pace, &Expectations::default(), told).await
    }

    pub(crate) async fn one(&self, text: &str) -> Outcome {
        let pace = Pace { parallel: 1, fail_fast: false };
        self.all(&[scenario(text)], pace, &ProgressLog::default()).await.remove(0)
    }
}

fn scenario(text: &str) -> Scenario {
    read(Path::new("s.yaml"), &format!("name: n\n{text}")).unwrap()
}

fn ids(outcome: &Outcome) -> Vec<&str> {
    outcome.steps.iter().map(|step| step.id.as_str()).collect()
}

/// Whether the step passes as the runner judges it; `part` is in what it says where it does not.
pub(crate) async fn check(step: &str, part: Option<&str>) {
    let house = House::new();
    let outcome = house.one(&format!("steps:\n- {{id: s, {step}}}\n")).await;
    match part {
        None => assert_eq!((outcome.verdict, &outcome.reason), (Verdict::Passed, &None), "{step}"),
        Some(part) => {
            assert_eq!(outcome.verdict, Verdict::Failed, "{step}");
            let reason = outcome.reason.unwrap();
            assert!(reason.starts_with("step `s` (") && reason.contains(part), "{step}: {reason}");
            assert_eq!(Some(&reason.split_once("): ").unwrap().1), outcome.steps[0].reason.as_deref().as_ref());
        }
    }
}

#[tokio::test]
async fn every_expectation_counts_on_every_kind_of_step() {
    let harness = "tool: test_call_meta_tool, args: {tool: echo, arguments: {a: Bee}}";
    let request = "tool: test_send_request, args: {method: echo, params: {a: Bee}}";
    for (step, part) in [
        (harness.to_owned(), None),
        (format!("{harness}, expected: {{contains: [bee]}}"), None),
        (format!("{harness}, expected: {{contains: [wasp]}}"), Some("`contains`: `wasp`")),
        (format!("{harness}, expected: {{not_contains: [BEE]}}"), Some("`not_contains`: `BEE`")),
        (format!("{harness}, expected: {{json_path: {{a: Bee}}}}"), None),
        (format!("{harness}, expected: {{json_path: {{a: bee}}}}"), Some("`json_path`: `a` is \"Bee\"")),
        (format!("{harness}, expected: {{success: false}}"), Some("expected the call to fail")),
        (format!("{harness}, expected: {{error_contains: [bee]}}"), Some("expected the call to fail")),
        (format!("{harness}, expected: {{status_code: 201}}"), Some("`status_code`: expected 201, got 200")),
        (format!("{request}, expected: {{json_path: {{content.0.type: text}}}}"), None),
        (format!("{request}, expected: {{json_path: {{content.0.type: image}}}}"), Some("`json_path`")),
        (
            "tool: test_send_request, args: {method: fail}, expected: {success: false, contains: [iserror]}".to_owned(),
            None,
        ),
        ("tool: test_send_request, args: {method: fail}".to_owned(), Some("the call failed")),
        (
            "tool: test_add_mock_tool, args: {server: none, tool_name: t}, expected: {error_contains: [no mock server]}"
                .to_owned(),
            None,
        ),
        (
            "tool: test_add_mock_tool, args: {server: none, tool_name: t}, expected: {error_contains: [other]}".to_owned(),
            Some("`other` is not in the error"),
        ),
        (
            "tool: test_add_mock_tool, args: {server: none, tool_name: t}".to_owned(),
            Some("there is no mock server `none`"),
        ),
        ("tool: echo".to_owned(), None),
        ("tool: fail".to_owned(), Some("the call failed: it broke")),
        ("tool: fail, expected: {error_contains: [ON PURPOSE]}".to_owned(), None),
        ("tool: fail, expected: {error_contains: [on purpose], not_contains: [broke]}".to_owned(), Some("`broke` is in")),
        ("tool: gone, expected: {success: false, contains: [connect]}".to_owned(), None),
        ("tool: gone, expected: {success: false, status_code: 200}".to_owned(), Some("there was none")),
    ] {
        check(&step, part).await;
    }
}

#[tokio::test]
async fn an_error_of_the_protocol_is_looked_at_by_its_parts() {
    check("tool: refused, expected: {success: false, json_path: {code: -32602, data.kind: unknown}}", None).await;
    check("tool: refused, expected: {success: false, json_path: {code: -32601}}", Some("`code` is -32602")).await;
    check("tool: refused, expected: {error_contains: [look elsewhere], status_code: 400}", None).await;
    check("tool: refused, expected: {error_contains: [x], status_code: 200}", Some("expected 200, got 400")).await;
    let request = "tool: test_send_request, args: {method: echo}, expected";
    check(&format!("{request}: {{status_code: 200}}"), None).await;
    check("tool: test_send_request, args: {method: proxied}, expected: {status_code: 203}", None).await;
    check(&format!("{request}: {{status_code: 202}}"), Some("expected 202, got 200")).await;
    let refused = "steps: [{action: call_tool, tool: refused, expect: {error: no such, result_contains: ['\"kind\":\"unknown\"']}}]\n";
    assert_eq!(House::new().one(refused).await.verdict, Verdict::Passed, "the error's JSON is the result's");
}

#[tokio::test]
async fn a_step_is_tried_again_as_it_says() {
    let house = House::new();
    let begun = Instant::now();
    let retry = "retry: {count: 3, delay: 40ms, backoff_multiplier: 3}";
    let outcome = house
        .one(&format!(
            "steps:\n- {{id: s, tool: third, {retry}}}\n- {{id: e, tool: echo, args: {{n: '{{{{ s.count }}}}'}}}}\n"
        ))
        .await;
    assert_eq!((outcome.verdict, outcome.steps[0].tries), (Verdict::Passed, 3), "{outcome:?}");
    // 40 ms and 120 ms: no wait may be left out. How long it takes beyond that is the machine's business.
    assert!(begun.elapsed() >= Duration::from_millis(160));
    assert!(house.seen.lines().contains(&"call legacy/- echo {\"n\":3}".to_owned()), "{:?}", house.seen.lines());
    let outcome = House::new().one("steps: [{id: s, tool: third, retry: {count: 1, delay: 1ms}}]\n").await;
    assert_eq!((outcome.verdict, outcome.steps[0].tries), (Verdict::Failed, 2));
    let outcome = House::new().one("steps: [{id: s, tool: echo, retry: {count: 5, delay: 1ms}}]\n").await;
    assert_eq!(outcome.steps[0].tries, 1, "what passed is not tried again");
    let late = "timeout: 300ms\nsteps: [{id: s, tool: fail, retry: {count: 5, delay: 10s}}]\n";
    assert_eq!(House::new().one(late).await.steps[0].tries, 1, "there is no time for the wait");
}

#[tokio::test]
async fn a_state_is_awaited() {
    let house = House::new();
    let outcome =
        house.one("steps: [{id: s, tool: third, expected: {wait_for_state: 20s, json_path: {count: 4}}}]\n").await;
    assert_eq!((outcome.verdict, outcome.steps[0].tries), (Verdict::Passed, 1), "{outcome:?}");
    assert_eq!(house.seen.lines().iter().filter(|line| line.contains("third")).count(), 4);
    check("tool: fail, expected: {success: true, wait_for_state: 120ms}", Some("not so after 120ms")).await;
    check("tool: slow, timeout: 50ms, expected: {wait_for_state: 120ms}", Some("no answer within 50ms")).await;
}

#[tokio::test]
async fn a_deadline_has_the_same_words_on_a_busy_machine() {
    check("tool: busy, timeout: 10ms", Some("no answer within 10ms")).await;
}

#[tokio::test]
async fn the_first_failure_ends_the_steps_unless_the_step_goes_on() {
    let house = House::new();
    let text = "
steps:
- {id: a, tool: fail, continue_on_failure: true}
- {id: b, tool: echo}
- {id: c, tool: fail, cleanup: [{id: c1, tool: echo}]}
- {id: d, tool: echo, cleanup: [{id: d1, tool: echo}]}
cleanup:
- {id: z, tool: fail}
- {id: y, tool: echo}
";
    let outcome = house.one(text).await;
    assert_eq!(ids(&outcome), ["a", "b", "c", "z", "y", "c1"]);
    assert_eq!(outcome.verdict, Verdict::Failed);
    assert!(outcome.reason.unwrap().starts_with("step `a` (fail, line 4): "), "the first is the reason");
    assert_eq!(outcome.warnings.len(), 1, "where a step failed, a cleanup that fails is a warning");
    assert!(outcome.log.iter().any(|line| line.contains("started at")), "{:?}", outcome.log);
    let outcome =
        House::new().one("steps: [{tool: echo}]\ncleanup: [{id: z, tool: fail}, {id: y, tool: fail}]\n").await;
    assert_eq!((outcome.verdict, ids(&outcome)), (Verdict::Failed, vec!["step-1", "z", "y"]));
    let outcome =
        House::new().one("steps: [{tool: echo}]\ncleanup: [{id: z, tool: fail, continue_on_failure: true}]\n").await;
    assert_eq!((outcome.verdict, outcome.warnings.len()), (Verdict::Passed, 1));
    assert!(outcome.log.is_empty());
    let outcome = House::new().one("steps: [{tool: echo, cleanup: [{tool: fail}]}]\n").await;
    assert_eq!((outcome.verdict, outcome.warnings.len()), (Verdict::Passed, 1));
}

#[tokio::test]
async fn time_that_is_used_up_ends_the_steps_and_not_the_cleanup() {
    let text = "timeout: 200ms\nsteps:\n- {id: a, tool: slow, continue_on_failure: true}\n- {id: b, tool: echo}\ncleanup: [{id: z, tool: echo}]\n";
    let outcome = House::new().one(text).await;
    assert_eq!((outcome.verdict, ids(&outcome)), (Verdict::Failed, vec!["a", "z"]));
    assert!(outcome.reason.unwrap().starts_with("the scenario took longer than 200ms: step `a`"));
    let house = House::new();
    let config = Config { timeout: Duration::from_millis(150), ..house.config.clone() };
    let scenarios = [scenario("steps: [{id: a, tool: slow}]\n")];
    let pace = Pace { parallel: 1, fail_fast: false };
    let outcomes = run(&scenarios, &config, &pace, &Expectations::default(), &ProgressLog::default()).await;
    assert!(outcomes[0].reason.as_deref().unwrap().contains("150ms"), "{outcomes:?}");
}

#[tokio::test]
async fn each_kind_of_client_and_each_profile_has_a_session_of_its_own() {
    let house = House::new();
    let text = "
client: modern
steps:
- {tool: echo}
- {tool: echo, client: legacy}
- {tool: echo, client: modern-tasks, profile: p}
- {tool: echo, profile: p}
- {tool: echo, cleanup: [{tool: echo, client: legacy}]}
";
    assert_eq!(house.one(text).await.verdict, Verdict::Passed);
    let lines = house.seen.lines();
    let calls: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("call ")).collect();
    let who = ["modern/-", "legacy/-", "tasks/p", "modern/p", "modern/-", "legacy/-"];
    assert_eq!(calls, who.map(|who| format!("{who} echo {{}}")));
    let opened = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count();
    assert_eq!((opened("open "), opened("close ")), (4, 4), "{lines:?}");
    let scooter = "client: modern\nsteps:\n- {action: initialize}\n- {action: list_tools, client: legacy, expect: {tools_contain: [echo], tools_not_contain: [none]}}\n- {action: wait, args: {seconds: 0.01}}\n- {action: call_tool, tool: echo}\n";
    let house = House::new();
    assert_eq!(house.one(scooter).await.verdict, Verdict::Passed);
    assert!(house.seen.lines().contains(&"list legacy/-".to_owned()), "{:?}", house.seen.lines());
}

#[tokio::test]
async fn a_gateway_that_starts_again_has_the_same_home_and_port() {
    for (how, closes) in [("graceful", 1), ("kill", 0)] {
        let house = House::new();
        let text = format!(
            "steps:\n- {{tool: echo}}\n- {{tool: test_restart_gateway, args: {{how: {how}}}, expected: {{json_path: {{how: {how}, same_address: true}}}}}}\n- {{tool: echo}}\n- {{tool: fail}}\n"
        );
        let outcome = house.one(&text).await;
        assert_eq!(outcome.steps[2].verdict, Verdict::Passed, "{outcome:?}");
        let lines = house.seen.lines();
        let opened: Vec<&String> = lines.iter().filter(|line| line.starts_with("open")).collect();
        assert_eq!(opened, ["open legacy/- 4712", "open legacy/- 4712"]);
        let closed = lines.iter().take_while(|line| !line.contains("fail")).filter(|line| line.starts_with("close"));
        assert_eq!(closed.count(), closes, "{how}: {lines:?}");
        // What the first one logged is told too.
        assert_eq!(outcome.log, ["started at 127.0.0.1:0", "started at 127.0.0.1:4712"]);
    }
}

#[tokio::test]
async fn a_gateway_whose_port_was_taken_starts_at_another() {
    let house = House::new();
    let text = "steps:\n- {tool: echo, profile: taken}\n- {tool: test_restart_gateway, expected: {json_path: {same_address: false}}}\n- {tool: echo}\n";
    assert_eq!(house.one(text).await.verdict, Verdict::Passed);
    assert!(house.seen.lines().contains(&"open legacy/- 4714".to_owned()), "{:?}", house.seen.lines());
}

#[tokio::test]
async fn a_gateway_that_does_not_start_is_an_error_and_not_a_failure() {
    let house = House::new();
    std::fs::write(&house.config.program, "#!/bin/sh\necho no disk >&2\nexit 3\n").unwrap();
    let outcome = house.one("steps: [{tool: echo}]\n").await;
    assert_eq!(outcome.verdict, Verdict::Error);
    assert!(outcome.reason.unwrap().contains("no disk"));
}

#[tokio::test]
async fn what_the_machine_lacks_skips_a_scenario() {
    for (needs, part) in [
        ("prerequisites: {env: [NO_SUCH_VARIABLE]}", "the environment variable `NO_SUCH_VARIABLE`"),
        ("prerequisites: {programs: [sh, no-such-program]}", "the program `no-such-program`"),
        ("skip: not today", "the file says `skip`: not today"),
    ] {
        let house = House::new();
        let outcome = house.one(&format!("{needs}\nsteps: [{{tool: echo}}]\n")).await;
        assert_eq!(outcome.verdict, Verdict::Skipped, "{needs}");
        assert!(outcome.reason.unwrap().contains(part), "{needs}");
        assert!(house.seen.lines().is_empty());
    }
    let outcome = House::new().one("prerequisites: {env: [PATH], programs: [sh]}\nsteps: [{tool: echo}]\n").await;
    assert_eq!(outcome.verdict, Verdict::Passed);
}

#[tokio::test]
async fn after_a_failure_nothing_more_begins_where_that_is_wanted() {
    let scenarios = ["echo", "fail", "echo"].map(|tool| scenario(&format!("steps: [{{tool: {tool}}}]\n")));
    for (fail_fast, expected) in
        [(true, "1 passed, 1 failed, 1 skipped, 0 errors"), (false, "2 passed, 1 failed, 0 skipped, 0 errors")]
    {
        let (house, told) = (House::new(), ProgressLog::default());
        let outcomes = house.all(&scenarios, Pace { parallel: 1, fail_fast }, &told).await;
        let tally = Tally::of(&outcomes);
        assert_eq!(tally.to_string(), expected);
        assert!(!tally.is_good());
        assert_eq!(told.0.lock().unwrap().len(), if fail_fast { 4 } else { 6 });
    }
    let outcomes =
        House::new().all(&scenarios[..1], Pace { parallel: 8, fail_fast: true }, &ProgressLog::default()).await;
    assert!(Tally::of(&outcomes).is_good());
}

#[tokio::test]
async fn outcomes_keep_the_order_of_scenarios_however_many_run_at_a_time() {
    let slow = "timeout: 400ms\nsteps: [{tool: slow}]\n";
    let texts = [slow, "steps: [{tool: echo}]\n", "steps: [{tool: echo}]\n"];
    let scenarios: Vec<Scenario> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| read(Path::new("s.yaml"), &format!("name: s{index}\n{text}")).unwrap())
        .collect();
    let told = ProgressLog::default();
    let outcomes = House::new().all(&scenarios, Pace { parallel: 3, fail_fast: false }, &told).await;
    let names: Vec<&str> = outcomes.iter().map(|outcome| outcome.name.as_str()).collect();
    assert_eq!(names, ["s0", "s1", "s2"]);
    assert_eq!(told.0.lock().unwrap().last().map(String::as_str), Some("-s0"), "the slow one is told last");
}
