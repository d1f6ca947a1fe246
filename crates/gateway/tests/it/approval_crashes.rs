//! Calls that wait for a yes, over a kill -9 at every point of their way. A driver takes an image of the state folder
//! whenever anything changes on the disk or at the server, which is what a process that is killed then leaves behind, and
//! opens a gateway on each of them.
//!
//! `TOOLCRIB_CRASHES=all` takes every image; without it, one of each state of approval, audit log and server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_base::{Clock, Role, SystemClock, Timestamp};
use toolcrib_store::{ApprovalState, CallApproval, Config, Store};
use toolcrib_testgateway::{Client, File, Setup, TestGateway, profile, text_of};
use toolcrib_testkit::eventually;
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::approvals::{Line, approve, id_of, until, until_open};
use crate::wire::over_http;

/// What happens to the call before the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// It is approved, runs, and its caller reads the result.
    Approved,
    /// It is denied, and its caller reads that.
    Denied,
    /// Its caller takes it back before anyone decides.
    TakenBack,
    /// Its caller takes it back while it runs.
    TakenBackLate,
    /// Nobody decides in time.
    Expired,
}

/// What a process leaves behind that ends at some point.
#[derive(Debug)]
struct Image {
    state: PathBuf,
    /// How often the call had begun at its server.
    begun: usize,
}

/// Takes the images.
#[derive(Debug)]
struct Recorder {
    state: PathBuf,
    copies: TempDir,
    begun: AtomicUsize,
    is_on: AtomicBool,
    taken: Mutex<(Vec<Image>, Option<Mark>)>,
}

/// What tells one image from the next: sizes and times of the files of the database, and what the server has seen.
type Mark = (BTreeMap<PathBuf, (u64, Option<SystemTime>)>, usize);

/// The time of the gateway and of its store. Nothing is written without asking for it first.
#[derive(Debug)]
struct RecordingClock(Arc<Recorder>);

impl Clock for RecordingClock {
    fn now(&self) -> Timestamp {
        self.0.look();
        SystemClock.now()
    }
}

// === impl Recorder ===

impl Recorder {
    fn new(state: PathBuf) -> Arc<Self> {
        let copies = tempfile::tempdir().unwrap();
        Arc::new(Self { state, copies, begun: AtomicUsize::new(0), is_on: false.into(), taken: Mutex::default() })
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    fn mark(&self) -> Mark {
        let begun = self.begun();
        (files(&self.state).map(|(path, size, time)| (path, (size, time))).collect(), begun)
    }

    /// Takes an image if anything is otherwise than in the last one.
    fn look(&self) {
        if !self.is_on.load(Ordering::SeqCst) {
            return;
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mark = self.mark();
            if taken.1.as_ref() == Some(&mark) {
                return;
            }
            let copy = self.copies.path().join(taken.0.len().to_string());
            let _ = std::fs::remove_dir_all(&copy);
            std::fs::create_dir(&copy).unwrap();
            for path in mark.0.keys() {
                std::fs::copy(path, copy.join(path.file_name().unwrap())).unwrap();
            }
            // A copy of files that were written meanwhile is no moment of any process.
            if self.mark() == mark {
                taken.0.push(Image { state: copy, begun: mark.1 });
                taken.1 = Some(mark);
                return;
            }
        }
    }

    fn images(&self) -> Vec<Image> {
        self.is_on.store(false, Ordering::SeqCst);
        std::mem::take(&mut self.taken.lock().unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// The files that survive a process: not the lock, not the memory that processes share.
fn files(state: &Path) -> impl Iterator<Item = (PathBuf, u64, Option<SystemTime>)> {
    let found = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let kept = found.filter(|path| path.is_file() && !path.to_str().unwrap().ends_with("-shm"));
    kept.filter_map(|path| path.metadata().ok().map(|it| (path, it.len(), it.modified().ok())))
}

// === the world ===

/// A server that counts its calls.
fn counting(recorder: &Arc<Recorder>) -> ScriptedServer {
    let recorder = Arc::clone(recorder);
    ScriptedServer::start(Speaks::Both, move |heard, say| match heard.method.as_str() {
        "tools/list" => say.result(r#"{"tools":[{"name":"count","inputSchema":{"type":"object"}}]}"#),
        "tools/call" => {
            recorder.look();
            recorder.begun.fetch_add(1, Ordering::SeqCst);
            recorder.look();
            if heard.params.contains("waits") {
                say.wait_for_release(1);
            }
            say.result(r#"{"content":[{"type":"text","text":"ran"}]}"#);
            recorder.look();
        }
        _ => {}
    })
}

fn world_files(server: &ScriptedServer) -> Vec<File> {
    // Policies ask in the same way, and take their time to be compiled.
    let lines = "exposure: direct\ngroups: [admin]\ntools: {approve: [alpha/count]}";
    vec![over_http("alpha", server), profile("default", lines)]
}

async fn open(files: &[File], setup: Setup) -> TestGateway {
    let house = TestGateway::open(files, setup);
    house.settle().await;
    house
}

/// Who may approve.
fn operator(house: &TestGateway) -> Client {
    let mut client = house.modern_of("user:acme/olga", "default");
    client.caller.principal.role = Role::Operator;
    client
}

async fn call(client: &Client, course: Course) -> Value {
    client.call("alpha_count", &arguments(course)).await
}

fn arguments(course: Course) -> Value {
    if course == Course::TakenBackLate { json!({"kind": "waits"}) } else { json!({}) }
}

/// Goes one course to its end, and gives the id of the approval with what was left behind on the way.
async fn images(course: Course) -> (String, Vec<Image>, Arc<Recorder>, ScriptedServer) {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let recorder = Recorder::new(home.path().join("state"));
    let server = counting(&recorder);
    let clock: Arc<dyn Clock> = Arc::new(RecordingClock(Arc::clone(&recorder)));
    let config = Config { clock: Arc::clone(&clock), ..Config::default() };
    let store = Store::open(&home.path().join("state"), config).unwrap();
    let mut setup = Setup { home: Arc::clone(&home), store, clock, ..Setup::default() };
    if course == Course::Expired {
        setup.approval_times.expires = Duration::from_millis(20);
    }
    let waits = matches!(course, Course::TakenBack | Course::TakenBackLate);
    if waits {
        setup.approval_times.wait = Duration::from_secs(600);
    }
    let house = open(&world_files(&server), setup).await;
    let (client, ops) = (house.modern("default"), operator(&house));
    recorder.is_on.store(true, Ordering::SeqCst);
    let id = if waits { String::new() } else { id_of(&call(&client, course).await) };
    recorder.look();
    let id = match course {
        Course::Approved => {
            approve(&ops, &id).await.unwrap();
            until(&ops, &id, "done").await;
            recorder.look();
            assert_eq!(text_of(&call(&client, course).await), "ran");
            id
        }
        Course::Denied => {
            ops.operate("core_approval_deny", &json!({ "id": id })).await.unwrap();
            recorder.look();
            assert!(text_of(&call(&client, course).await).contains("denied by"));
            id
        }
        Course::Expired => {
            until(&ops, &id, "expired").await;
            eventually("the record", async { while expiries(&house, &id).await == 0 {} }).await;
            id
        }
        Course::TakenBack | Course::TakenBackLate => {
            let line = Line::open(&house).await;
            let params = json!({"name": "alpha_count", "arguments": arguments(course)});
            line.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
            let id = until_open(&ops).await;
            if course == Course::TakenBackLate {
                approve(&ops, &id).await.unwrap();
                eventually("the call", async {
                    while recorder.begun() == 0 {
                        tokio::task::yield_now().await;
                    }
                })
                .await;
            }
            line.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
            server.release();
            until(&ops, &id, if course == Course::TakenBack { "expired" } else { "done" }).await;
            id
        }
    };
    recorder.look();
    let images = recorder.images();
    house.close().await;
    (id, images, recorder, server)
}

/// How often the audit log says that an approval has expired.
async fn expiries(house: &TestGateway, id: &str) -> usize {
    let events = house.audited().await;
    events.iter().filter(|it| it.method == "approval/expire" && it.approval.as_deref() == Some(id)).count()
}

/// What is open on an image: the approval as it was left behind, and the gateway after it.
struct Aftermath<'a> {
    id: &'a str,
    before: Option<CallApproval>,
    house: TestGateway,
    recorder: &'a Recorder,
    begun: usize,
}

impl Aftermath<'_> {
    /// Its caller makes the same call, whoever may approves what waits, and the call has run once, or may have.
    async fn check(self, course: Course) {
        let Self { id, before, house, recorder, begun } = self;
        let (client, ops) = (house.modern("default"), operator(&house));
        let what = format!("{course:?}: {:?}, begun {begun}", before.as_ref().map(|it| (it.state, it.is_collected)));
        let left = before.as_ref().map(|it| it.state);
        assert!(begun == 0 || matches!(left, Some(ApprovalState::Running | ApprovalState::Done)), "{what}");
        let answer = call(&client, course).await;
        let text = text_of(&answer);
        let ends_as = match left {
            None => {
                assert_ne!(id_of(&answer), id, "{what}");
                None
            }
            Some(ApprovalState::Open) if text.contains(id) => {
                approve(&ops, id).await.unwrap_or_else(|problem| panic!("{what}: {problem:?}"));
                until(&ops, id, "done").await;
                assert_eq!(text_of(&call(&client, course).await), "ran", "{what}");
                Some(("done", 1))
            }
            Some(ApprovalState::Open) => Some(("expired", 0)),
            // The process had ended between the yes and the run.
            Some(ApprovalState::Approved) => {
                assert_eq!(text, "ran", "{what}");
                Some(("done", 1))
            }
            Some(ApprovalState::Running | ApprovalState::Unknown) => {
                assert!(text.contains("may have done its work"), "{what}: {text}");
                let again = approve(&ops, id).await.unwrap_err();
                assert!(again.message.contains("the call is unknown"), "{what}: {again:?}");
                Some(("unknown", begun))
            }
            Some(ApprovalState::Done) => {
                // Once read, the same call asks for another yes; how it ended can be looked at still.
                let is_read = before.as_ref().is_some_and(|it| it.is_collected);
                assert!(if is_read { id_of(&answer) != id } else { text == "ran" }, "{what}: {text}");
                Some(("done", 1))
            }
            Some(ApprovalState::Denied) => {
                assert!(text.contains("denied by") && text.contains(id), "{what}: {text}");
                Some(("denied", 0))
            }
            Some(ApprovalState::Expired) => {
                assert_ne!(id_of(&answer), id, "{what}");
                Some(("expired", 0))
            }
        };
        if let Some((state, runs)) = ends_as {
            let shown = until(&client, id, state).await;
            assert_eq!(recorder.begun(), runs, "{what}");
            if state == "done" {
                assert_eq!(text_of(&shown["outcome"]["result"]), "ran", "{what}");
            }
            if (left, state) == (Some(ApprovalState::Open), "expired") {
                eventually("the record", async { while expiries(&house, id).await == 0 {} }).await;
            }
            assert!(expiries(&house, id).await <= usize::from(state == "expired"), "{what}");
        }
        assert!(recorder.begun() <= 1, "{what}: it ran more than once");
        house.close().await;
    }
}

/// Opens a gateway on each image of a course; gives what the images were.
async fn crash_at_every_point(course: Course) -> Vec<(Option<(ApprovalState, bool)>, usize)> {
    let (id, images, recorder, server) = images(course).await;
    let (files, takes_all) = (world_files(&server), std::env::var_os("TOOLCRIB_CRASHES").is_some());
    server.release();
    let (mut seen, mut seen_points) = (Vec::new(), Vec::new());
    for image in images {
        recorder.begun.store(image.begun, Ordering::SeqCst);
        let store = Store::open(&image.state, Config::default()).unwrap();
        let before = store.call_approvals().list(None).unwrap().into_iter().find(|it| it.id == id);
        let rows =
            store.audit().list(&toolcrib_store::AuditFilter { limit: 1_000, ..Default::default() }).unwrap().len();
        let state = before.as_ref().map(|it| (it.state, it.is_collected));
        let point = (state, image.begun, rows);
        if !takes_all && seen_points.contains(&point) {
            continue;
        }
        seen_points.push(point);
        let house = open(&files, Setup { store, ..Setup::default() }).await;
        Aftermath { id: &id, before, house, recorder: &recorder, begun: image.begun }.check(course).await;
        seen.push((state, image.begun));
    }
    seen
}

#[tokio::test]
async fn a_kill_at_every_point_of_an_approved_call_repeats_nothing_and_loses_no_result() {
    use ApprovalState::{Approved, Done, Open, Running};
    let seen = crash_at_every_point(Course::Approved).await;
    for point in [
        (None, 0),
        (Some((Open, false)), 0),
        (Some((Approved, false)), 0),
        (Some((Running, false)), 0),
        (Some((Running, false)), 1),
        (Some((Done, false)), 1),
        (Some((Done, true)), 1),
    ] {
        assert!(seen.contains(&point), "no image of {point:?}: {seen:?}");
    }
    assert!(seen.len() >= 7, "{seen:?}");
}

#[tokio::test]
async fn a_kill_at_every_point_of_a_call_that_does_not_run_runs_it_never() {
    for (course, ends_as) in [
        (Course::Denied, ApprovalState::Denied),
        (Course::TakenBack, ApprovalState::Expired),
        (Course::Expired, ApprovalState::Expired),
    ] {
        let seen = crash_at_every_point(course).await;
        for point in [(None, 0), (Some((ends_as, false)), 0)] {
            assert!(seen.contains(&point), "{course:?}: no image of {point:?}: {seen:?}");
        }
    }
}

#[tokio::test]
async fn a_kill_at_every_point_of_a_call_that_is_taken_back_while_it_runs_keeps_its_result() {
    let seen = crash_at_every_point(Course::TakenBackLate).await;
    for point in [(Some((ApprovalState::Running, false)), 1), (Some((ApprovalState::Done, false)), 1)] {
        assert!(seen.contains(&point), "no image of {point:?}: {seen:?}");
    }
}
