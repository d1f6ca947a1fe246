//! Checks that take long: on threads that may block, few at a time and one of each server, and not waited for longer than
//! a call can afford.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use toolcrib_base::ServerName;
use toolcrib_view::schema::CheckOutcome;

/// How many run at a time at least; where there are many cores, half as many as these. Each may take some tenths of a
/// second and some ten megabytes.
const LEAST: usize = 2;
/// How long a call waits for its check. Then it goes to the server unchecked: it validates as well.
const DEADLINE: Duration = Duration::from_secs(2);

/// The places in which checks run that take long.
#[derive(Debug)]
pub(crate) struct Checks {
    places: Arc<Semaphore>,
    /// One place for each server that has a check waiting or running: a hostile one keeps only itself waiting.
    servers: Arc<Mutex<HashMap<ServerName, Arc<Semaphore>>>>,
}

/// A place in which one check runs.
struct Place {
    servers: Arc<Mutex<HashMap<ServerName, Arc<Semaphore>>>>,
    server: ServerName,
    own: Option<OwnedSemaphorePermit>,
    _any: Option<OwnedSemaphorePermit>,
}

// === impl Checks ===

impl Default for Checks {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { places: Arc::new(Semaphore::new(LEAST.max(cores / 2))), servers: Arc::default() }
    }
}

impl Checks {
    /// Does a check of a tool of this server that takes long.
    pub(crate) async fn run(
        &self,
        server: &ServerName,
        check: impl FnOnce() -> CheckOutcome + Send + 'static,
    ) -> CheckOutcome {
        let deadline = Instant::now() + DEADLINE;
        let Ok(place) = timeout_at(deadline, self.place(server)).await else { return CheckOutcome::Unchecked };
        let work = tokio::task::spawn_blocking(move || {
            // Given back when the work has ended, whether or not someone still waits for it.
            let _place = place;
            check()
        });
        match timeout_at(deadline, work).await {
            Ok(Ok(checked)) => checked,
            // Too long, or a panic of the validator: neither may keep the call from its server.
            _ => CheckOutcome::Unchecked,
        }
    }

    async fn place(&self, server: &ServerName) -> Place {
        let own = {
            let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(servers.entry(server.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        let mut place = Place { servers: Arc::clone(&self.servers), server: server.clone(), own: None, _any: None };
        // Neither is ever closed.
        place.own = own.acquire_owned().await.ok();
        place._any = Arc::clone(&self.places).acquire_owned().await.ok();
        place
    }
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        self.own = None;
        // Each waiting check holds a handle of its own.
        if servers.get(&self.server).is_some_and(|own| Arc::strong_count(own) == 1) {
            servers.remove(&self.server);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_server_whose_checks_hang_keeps_only_itself_waiting() {
        let checks = Checks::default();
        let [bad, good] = ["bad", "good"].map(|name| ServerName::new(name).unwrap());
        let (release, held) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let hang = move || {
            begin.send(()).unwrap();
            // Ends when the test does.
            let _ = held.recv();
            CheckOutcome::Fits
        };
        let mut first = Box::pin(checks.run(&bad, hang));
        // Polled until it runs: on a thread of its own, so that others run meanwhile.
        let fault = || CheckOutcome::Faults("x".into());
        tokio::select! {
            biased;
            _ = &mut first => panic!("it hangs"),
            checked = checks.run(&good, fault) => assert_eq!(checked, fault()),
        }
        tokio::task::spawn_blocking(move || begun.recv()).await.unwrap().unwrap();
        assert_eq!(checks.servers.lock().unwrap().len(), 1, "only the one that hangs has a place");
        let (second, third) = tokio::join!(first, checks.run(&bad, fault));
        assert_eq!((second, third), (CheckOutcome::Unchecked, CheckOutcome::Unchecked), "the calls go on without it");
        release.send(()).unwrap();
        assert_eq!(checks.run(&bad, fault).await, fault());
    }
}
