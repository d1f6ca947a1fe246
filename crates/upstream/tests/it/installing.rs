//! Programs that download themselves at their first start: waited for, shown, ended with care, and never many at a
//! time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::eventually_holds;
use toolcrib_upstream::{
    Endpoint, Event, HalfWritten, InstallCache, Installer, ServerConfig, Start, StartPlaces, State, Timeouts,
};

use crate::world::{World, shell, with};

/// A cache with one entry, which is whole once a file says so.
#[derive(Debug)]
struct Cache(PathBuf);

impl InstallCache for Cache {
    fn stamp(&self) -> u64 {
        std::fs::read_dir(&self.0).map_or(0, |entries| entries.count() as u64)
    }

    fn half_written(&self, _stderr: &[String]) -> Option<HalfWritten> {
        let path = self.0.join("entry");
        let is_half = path.exists() && !path.join("whole").exists();
        is_half.then(|| HalfWritten { path, why: "`whole` is missing".to_owned() })
    }
}

/// A package runner that begins to write an entry, waits until the file `go` is there, and becomes the server.
/// `at_end` is what it does at SIGTERM.
fn runner(cache: &Path, at_end: &str) -> ServerConfig {
    let fake = toolcrib_testkit::fake_server();
    let script = format!(
        r#"trap '{at_end}' TERM
        cd "{cache}"; echo + >>started; mkdir -p entry; echo 'downloading 1 of 2' >&2
        while [ ! -e go ]; do sleep 0.05; done
        touch entry/whole; echo 'downloading 2 of 2' >&2; exec "{fake}" "$@""#,
        cache = cache.display(),
        fake = fake.display()
    );
    let mut config = shell(&script);
    let cache = Arc::new(Cache(cache.to_owned()));
    config.installs = Some(Installer { look: Duration::from_millis(20), ..Installer::new("npx", cache) });
    config
}

fn started(cache: &Path) -> usize {
    std::fs::read_to_string(cache.join("started")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_download_is_waited_for_and_says_how_it_gets_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = runner(folder.path(), "exit 0");
    // What a caller waits for is not what the download may take.
    config.timeouts = Timeouts { connect: Duration::from_millis(300), ..config.timeouts };
    let mut world = World::new(config);
    eventually_holds("it says something", || world.server.status().note.is_some()).await;
    let status = world.server.status();
    assert_eq!((status.state, status.note.as_deref()), (State::Installing, Some("it says: downloading 1 of 2")));
    let error = world.tool("echo", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("is installing since") && error.contains("downloading 1 of 2"), "{error}");
    assert!(!error.contains("last error"), "nothing failed: {error}");
    std::fs::write(folder.path().join("go"), "").unwrap();
    let status = world.until(State::Ready).await;
    assert_eq!((status.note, status.half_written, started(folder.path())), (None, None, 1));
    // Once it was there, nothing is downloaded any more.
    world.server.order_restart();
    eventually_holds("it is back", || {
        world.server.status().restarts == 1 && world.server.status().state == State::Ready
    })
    .await;
    let states: Vec<_> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Status { status, .. } => Some(status.state.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(states, ["starting", "installing", "ready", "starting", "ready"]);
}

#[tokio::test]
async fn one_that_gets_on_is_not_ended_and_one_that_does_not_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = runner(folder.path(), "exit 0");
    let installs = config.installs.clone().unwrap();
    config.installs = Some(Installer { least: Duration::ZERO, quiet: Duration::from_secs(60), ..installs.clone() });
    let world = World::new(config.clone());
    eventually_holds("it says something", || world.server.status().note.is_some()).await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    world.until(State::Ready).await;
    drop(world);

    std::fs::remove_file(folder.path().join("go")).unwrap();
    std::fs::remove_file(folder.path().join("entry/whole")).unwrap();
    config.installs = Some(installs.within(Duration::from_millis(300)));
    let world = World::new(config);
    let status = world.until(State::Failed).await;
    let error = status.last_error.unwrap();
    assert!(
        error.starts_with("npx did not finish within 1 s and was stopped; stderr ends with: downloading 1"),
        "{error}"
    );
    assert!(error.ends_with("/entry` in the cache is incomplete: `whole` is missing"), "{error}");
    assert_eq!(status.half_written.unwrap().path, folder.path().join("entry"));
    assert!(status.timed_out);
}

#[tokio::test]
async fn one_that_is_ended_half_way_may_clean_up_and_says_when_it_did_not() {
    for (at_end, is_left) in [("rm -rf entry; exit 0", false), ("exit 0", true)] {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(runner(folder.path(), at_end));
        eventually_holds("it says something", || world.server.status().note.is_some()).await;
        world.server.order_stop();
        world.until(State::Stopped).await;
        assert_eq!(world.server.status().half_written.is_some(), is_left, "{at_end}");
        assert_eq!(folder.path().join("entry").exists(), is_left);
    }
}

#[tokio::test]
async fn what_is_half_written_is_named_when_the_program_cannot_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("entry")).unwrap();
    let mut config =
        shell("echo \"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod'\" >&2; echo 'Node.js v20' >&2; exit 1");
    config.installs = Some(Installer::new("npx", Arc::new(Cache(folder.path().to_owned()))));
    let status = World::new(config).until(State::Failed).await;
    let error = status.last_error.unwrap();
    assert!(error.contains("exit code 1; stderr ends with: Error [ERR_MODULE_NOT_FOUND]"), "{error}");
    assert!(!error.contains("Node.js") && status.half_written.is_some(), "{error}");
}

#[tokio::test]
async fn few_start_at_a_time_and_called_servers_go_first() {
    let folder = tempfile::tempdir().unwrap();
    // Room for one that installs itself.
    let places = StartPlaces::new(2);
    let worlds: Vec<World> =
        (0..6).map(|_| World::among(with(Start::Eager, runner(folder.path(), "exit 0")), places.clone())).collect();
    eventually_holds("one has started", || started(folder.path()) == 1).await;
    let waiting = || worlds.iter().filter(|world| world.server.status().state == State::Starting);
    eventually_holds("the others wait", || waiting().count() == 5).await;
    assert_eq!(started(folder.path()), 1);
    let called = waiting().next().unwrap();
    called.server.order_start();
    eventually_holds("the one that is called has started too", || started(folder.path()) == 2).await;
    assert_eq!(called.server.status().state, State::Installing);
    std::fs::write(folder.path().join("go"), "").unwrap();
    for world in &worlds {
        world.until(State::Ready).await;
    }
}

#[tokio::test]
async fn two_hundred_servers_at_once_all_start() {
    let places = StartPlaces::new(8);
    let configs = (0..200).map(|number| match number % 10 {
        // Programs that are no servers, and such as cannot be started; they must hold no one up.
        0 => shell("exit 3"),
        1 => crate::world::config(Endpoint::http("http://127.0.0.1:1/", &[])),
        _ => crate::world::program("/no/such/program"),
    });
    let configs = configs.map(|config| with(Start::Eager, config));
    let worlds: Vec<World> = configs.map(|config| World::among(config, places.clone())).collect();
    let unusable = Endpoint::Unusable { reason: "a secret is missing".to_owned() };
    let last = World::among(crate::world::config(unusable), places);
    last.until(State::Failed).await;
    for world in &worlds {
        eventually_holds("its turn came", || world.server.status().last_error.is_some()).await;
    }
}
