//! One `init` of a home at a time: the lock that it holds, and how the next one waits.

use std::fs::{self, File};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::time::{Instant, sleep};
use toolcrib_base::{Kind, Problem};

use crate::home::Home;
use crate::output::print;
use crate::text;

/// How long another one may take: it may be installing.
pub(super) const LONGEST: Duration = Duration::from_secs(20 * 60);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(200);

/// The right to set up a home, until it is dropped or the process ends.
pub(super) struct Claim {
    _file: File,
    /// Whether another one held it in the meantime.
    pub(super) has_waited: bool,
}

/// Takes the right, waiting for another `init` where one runs, for `longest` at most.
///
/// # Errors
/// The folder cannot be written, or the other one does not end.
pub(super) async fn claim(home: &Home, longest: Duration) -> Result<Claim, Problem> {
    let path = home.state().join("init.lock");
    let failed = |error: std::io::Error| {
        Problem::new(Kind::Unavailable, format!("cannot write `{}`: {error}", path.display()))
            .hint("nothing was written; check the folder's owner, or use another one with `--home`")
    };
    fs::create_dir_all(home.state()).map_err(failed)?;
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    let (begun, mut has_waited) = (Instant::now(), false);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Claim { _file: file, has_waited }),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        if !has_waited {
            has_waited = true;
            let folder = home.path().to_string_lossy();
            let told = format!("\nAnother `toolcrib init` is setting up {}; waiting for it.\n", text::line(&folder));
            print(&told).map_err(failed)?;
        }
        if begun.elapsed() >= longest {
            let what = "another `toolcrib init` of this home is still running";
            return Err(Problem::new(Kind::Conflict, what).hint("stop it, then run `toolcrib init` again"));
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    fn home(folder: &tempfile::TempDir) -> Home {
        Home::find(Some(folder.path()), &crate::home::Environment::default()).unwrap()
    }

    #[tokio::test]
    async fn the_second_one_waits_and_knows_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let first = claim(&home, LONGEST).await.unwrap();
        assert!(!first.has_waited);
        let mut second = pin!(claim(&home, LONGEST));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        let second = second.await.unwrap();
        assert!(second.has_waited && home.state().join("init.lock").exists());
    }

    #[tokio::test]
    async fn one_that_does_not_end_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let first = claim(&home, LONGEST).await.unwrap();
        let problem = claim(&home, Duration::ZERO).await.err().unwrap();
        assert_eq!(problem.kind, Kind::Conflict);
        assert!(problem.message.contains("still running") && problem.hint.is_some(), "{problem:?}");
        drop(first);
        assert!(!claim(&home, Duration::ZERO).await.unwrap().has_waited);
    }
}
