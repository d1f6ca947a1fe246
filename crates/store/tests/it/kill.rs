//! A writer that is killed with SIGKILL loses at most the last batch, and the chain stays whole.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use toolcrib_store::{AuditFilter, AuditOrder, Config, Store, Verification};

use crate::{Home, record};

/// Tells this test that it is the process to be killed, and where to write.
const CHILD: &str = "TOOLCRIB_STORE_TEST_CHILD";
const NAME: &str = "kill::a_killed_writer_loses_at_most_the_last_batch";
/// How many events the child records between two waits for the disk.
const BATCH: u64 = 50;
/// After how many durable batches the child is killed.
const BATCHES: usize = 20;

#[test]
fn a_killed_writer_loses_at_most_the_last_batch() {
    if let Some(state) = std::env::var_os(CHILD) {
        return write_until_killed(Path::new(&state));
    }
    let home = Home::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(CHILD, &home.state)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // On one core the test runner's own `test … ... ` is before the first report, on the same line.
    let mut reports = lines.filter_map(|line| line.unwrap().rsplit_once("durable ")?.1.parse::<u64>().ok());
    let reported = reports.nth(BATCHES - 1).expect("the child writes until it is killed");
    assert_eq!(reported, BATCH * BATCHES as u64);
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    // What it said between the report that we waited for and its death.
    let durable = reports.last().unwrap_or(reported);

    let store = home.open();
    let Verification::Intact(verified) = store.audit().verify(None).unwrap() else { panic!("the chain is broken") };
    // The child may have died before it could report a batch that it had written, and while writing the next.
    assert!((durable..=durable + 2 * BATCH).contains(&verified.events), "{durable} durable, {verified:?}");
    let newest = AuditOrder::NewestFirst { before: None };
    let rows = store.audit().list(&AuditFilter { limit: 1, order: newest, ..AuditFilter::default() }).unwrap();
    assert_eq!(rows[0].request_id, verified.events.to_string(), "none is missing in between");
}

fn write_until_killed(state: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = Store::open(state, Config::default()).unwrap();
    let mut recorded = 0;
    // Ends by being killed; if the parent has died, by the broken pipe.
    loop {
        runtime.block_on(async {
            record(&store, recorded + 1..=recorded + BATCH).await;
            recorded += BATCH;
            store.audit().flush().await.unwrap();
        });
        let mut out = std::io::stdout().lock();
        if writeln!(out, "durable {recorded}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
