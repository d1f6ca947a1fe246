//! What a program is given and what comes back from it.

use serde_json::json;
use toolcrib_base::Secret;
use toolcrib_testkit::eventually_holds;
use toolcrib_transport::process::{Exit, Line, ProcessLimits, Spec, StdinClosed, inherited};

use crate::running::{RunningProcess, both, fake, shell};

#[tokio::test]
async fn a_child_sees_the_listed_variables_and_the_named_ones_only() {
    let env = vec![("FILES_KEY".to_owned(), Secret::new("a=b\nc")), ("LANG".to_owned(), Secret::new("xx"))];
    for spec in both(Spec { env, ..Spec::new("env", ["-0"]) }) {
        assert!(!format!("{spec:?}").contains("a=b"), "a secret is not printed");
        let mut running = RunningProcess::start(&spec);
        let text = running.rest().await.join("\n");
        let mut seen: Vec<_> = text.split_terminator('\0').filter_map(|pair| pair.split_once('=')).collect();
        seen.sort_unstable();
        let mut expected: Vec<_> = inherited(std::env::vars_os(), &[])
            .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
            .filter(|(name, _)| name != "LANG")
            .chain([("FILES_KEY".into(), "a=b\nc".into()), ("LANG".into(), "xx".into())])
            .collect();
        expected.sort_unstable();
        let expected: Vec<_> = expected.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(seen, expected);
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is something to keep back");
    }
}

#[tokio::test]
async fn a_child_starts_in_its_folder_and_finds_programs_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().canonicalize().unwrap();
    std::os::unix::fs::symlink("/bin/sh", at.join("local")).unwrap();
    let spec = Spec { cwd: Some(at.clone()), ..Spec::new("./local", ["-c", "pwd -P"]) };
    for spec in both(spec) {
        assert_eq!(RunningProcess::start(&spec).rest().await, [at.to_str().unwrap()]);
    }
}

#[tokio::test]
async fn the_end_of_a_program_is_reported_after_its_last_line() {
    for (script, exit) in [
        ("echo a; printf b; exit 0", Exit::Code(0)),
        ("echo a; printf b; exit 7", Exit::Code(7)),
        ("echo a; printf b; exit 200", Exit::Code(200)),
        ("echo a; printf b; kill -9 $$", Exit::Signal(9)),
        ("echo a; printf b; kill -15 $$", Exit::Signal(15)),
    ] {
        for spec in both(shell(script)) {
            let mut running = RunningProcess::start(&spec);
            assert_eq!(running.process.exited().await, exit, "{script}");
            assert_eq!(running.rest().await, ["a", "b"], "{script}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_no_program_is_reported_on_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken");
    std::fs::write(&file, b"#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let [direct, guarded] = both(Spec::new(file.to_str().unwrap(), [""; 0]));
    let scope = toolcrib_base::task::Scope::new();
    let error = toolcrib_transport::process::spawn(&direct, &scope, |_| ()).unwrap_err();
    assert!(error.to_string().contains("broken`: No such file"), "{error}");
    assert!(error.hint().contains("interpreter"), "{}", error.hint());
    let running = RunningProcess::start(&guarded);
    assert_eq!(running.process.exited().await, Exit::Code(126));
    assert!(running.process.stderr().last(1)[0].contains("cannot run `"), "{:?}", running.process.stderr().last(9));
}

#[tokio::test]
async fn requests_are_answered_among_garbage() {
    for spec in both(fake(&["--garbage"])) {
        let mut running = RunningProcess::start(&spec);
        running.initialize().await;
        for id in 1..50 {
            let answer = running.request(id, "tools/call", json!({"name": "echo", "arguments": {"text": "ü"}})).await;
            assert_eq!(answer["result"]["content"][0]["text"], "ü");
        }
    }
}

#[tokio::test]
async fn a_flood_of_stderr_neither_blocks_nor_grows() {
    for spec in both(fake(&["--flood-stderr", "20000000"])) {
        let mut running = RunningProcess::start(&spec);
        running.initialize().await;
        let tail = running.process.stderr();
        running.process.stop(spec.limits.grace).await;
        let lines = tail.last(usize::MAX);
        assert!(lines.len() > 100, "the last lines are there");
        assert!(lines.iter().all(|line| line == &"x".repeat(79)));
        assert!(lines.iter().map(String::len).sum::<usize>() <= spec.limits.stderr_bytes);
    }
}

#[tokio::test]
async fn a_line_of_50_mib_is_reported_and_the_answer_after_it_arrives() {
    const SIZE: u64 = 50 * 1024 * 1024;
    for limit in [1024 * 1024, 64 * 1024 * 1024] {
        let limits = ProcessLimits { line_bytes: limit, ..ProcessLimits::default() };
        let mut running = RunningProcess::start(&Spec { limits, ..fake(&["--long-line", &SIZE.to_string()]) });
        running.initialize().await;
        let call = json!({"name": "echo", "arguments": {"text": "after"}});
        running.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})).await;
        match running.line().await {
            Line::TooLong { bytes, .. } => assert!(bytes == SIZE && limit < 50 * 1024 * 1024),
            Line::Text(line) => assert!(line.len() as u64 == SIZE && limit > 50 * 1024 * 1024),
            Line::End => panic!("the server lives on"),
        }
        assert!(running.text().await.contains("after"));
    }
}

#[tokio::test]
async fn a_large_message_and_many_small_ones_cross_in_both_directions() {
    for spec in both(Spec::new("cat", [""; 0])) {
        let mut running = RunningProcess::start(&spec);
        let sender = running.process.sender();
        let large = "x".repeat(3_000_000);
        let writing = running.scope.spawn({
            let large = large.clone();
            async move {
                sender.send(large.into()).await.unwrap();
                for number in 0..5_000 {
                    sender.send(format!("line {number}").into()).await.unwrap();
                }
            }
        });
        assert_eq!(running.text().await, large);
        for number in 0..5_000 {
            assert_eq!(running.text().await, format!("line {number}"));
        }
        writing.await.unwrap();
    }
}

#[tokio::test]
async fn the_guard_holds_no_pipe_of_the_program() {
    for spec in both(fake(&["--close-stdin"])) {
        let mut running = RunningProcess::start(&spec);
        running.initialize().await;
        running.request(1, "tools/call", json!({"name": "pid"})).await;
        let sender = running.process.sender();
        // The server closes its stdin a moment after its answer.
        eventually_holds("the closed stdin is seen", || sender.try_send("{}".into()) == Err(StdinClosed.into())).await;
    }
    for spec in both(shell("exec >&- 2>&-; exec sleep 1000")) {
        let mut running = RunningProcess::start(&spec);
        assert_eq!(running.line().await, Line::End);
        assert_eq!(running.process.stop(std::time::Duration::ZERO).await, Exit::Signal(9));
    }
}
