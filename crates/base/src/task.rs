//! Task scopes: every task belongs to one, can be told to stop and is waited for. The only caller of `tokio::spawn`.
//!
//! A scope's tasks run in the runtime in which the scope was made, wherever they are started: what a connection begins
//! that outlives its request is no burden of the connection's own thread.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

/// A group of tasks with one stop signal. Clones are handles to the same group.
#[derive(Debug, Clone)]
pub struct Scope {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    stop: watch::Sender<bool>,
    /// Every task holds a receiver until it ends; the scope is empty when none is left.
    alive: watch::Sender<()>,
    aborts: Mutex<Vec<AbortHandle>>,
    /// `None` for a scope that was made outside of any: its tasks run where they are started.
    runtime: Option<Handle>,
}

/// Tells a task that its scope is ending.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Waits until the scope is told to stop. Cancel-safe.
    pub async fn stopped(&mut self) {
        // An error means that the scope itself is gone, which is also the end.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether the scope was told to stop.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::new()
    }
}

impl Scope {
    /// An empty scope.
    pub fn new() -> Self {
        let inner = Inner {
            stop: watch::Sender::new(false),
            alive: watch::Sender::new(()),
            aborts: Mutex::default(),
            runtime: Handle::try_current().ok(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The signal that tells the scope's tasks to stop.
    pub fn stop_signal(&self) -> Stop {
        Stop(self.inner.stop.subscribe())
    }

    /// Starts a task in this scope. It should end soon after [`Stop::stopped`].
    ///
    /// # Panics
    /// The scope was made outside of a runtime, and there is none here either.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match &self.inner.runtime {
            Some(runtime) => self.spawn_on(runtime, future),
            None => self.spawn_on(&Handle::current(), future),
        }
    }

    /// Starts a task of this scope in another runtime than its own.
    #[allow(clippy::disallowed_methods, reason = "this is the one place where tasks start")]
    pub fn spawn_on<F>(&self, runtime: &Handle, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let alive = self.inner.alive.subscribe();
        let handle = runtime.spawn(async move {
            let output = future.await;
            drop(alive);
            output
        });
        let mut aborts = self.inner.aborts.lock().unwrap_or_else(PoisonError::into_inner);
        // Finished tasks are forgotten whenever the list has doubled, so it stays as long as the tasks alive.
        if aborts.len() == aborts.capacity() {
            aborts.retain(|task| !task.is_finished());
        }
        aborts.push(handle.abort_handle());
        handle
    }

    /// Tells every task to stop, waits up to `grace` and aborts the rest. `true` when all ended by themselves.
    pub async fn close(&self, grace: Duration) -> bool {
        self.inner.stop.send_replace(true);
        let ended = tokio::time::timeout(grace, self.inner.alive.closed()).await.is_ok();
        if !ended {
            let mut aborts = self.inner.aborts.lock().unwrap_or_else(PoisonError::into_inner);
            for task in aborts.drain(..) {
                task.abort();
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_scope_waits_for_tasks_that_stop() {
        let scope = Scope::new();
        let mut stop = scope.stop_signal();
        let task = scope.spawn(async move {
            stop.stopped().await;
            7
        });
        assert!(scope.close(Duration::from_secs(5)).await);
        assert_eq!(task.await.unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_scope_aborts_tasks_that_do_not_stop() {
        let scope = Scope::new();
        let task = scope.spawn(std::future::pending::<()>());
        assert!(!scope.close(Duration::from_secs(5)).await);
        assert!(task.await.unwrap_err().is_cancelled());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn tasks_run_where_their_scope_was_made() {
        let (scope, here) = (Scope::new(), Handle::current().id());
        let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (inner, elsewhere) = (scope.clone(), other.handle().clone());
        let told = std::thread::spawn(move || {
            let there = other.handle().id();
            let ran = other.block_on(async {
                let own = inner.spawn(async { Handle::current().id() }).await.unwrap();
                (own, inner.spawn_on(&elsewhere, async { Handle::current().id() }).await.unwrap())
            });
            (there, ran)
        });
        let (there, ran) = tokio::task::spawn_blocking(move || told.join().unwrap()).await.unwrap();
        assert_eq!(ran, (here, there));
        assert!(scope.close(Duration::from_secs(5)).await);
    }

    #[tokio::test]
    async fn finished_tasks_are_forgotten() {
        let scope = Scope::new();
        for _ in 0..1_000 {
            scope.spawn(async {}).await.unwrap();
        }
        assert!(scope.inner.aborts.lock().unwrap().capacity() < 16);
    }
}
