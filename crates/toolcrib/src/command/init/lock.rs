//! One `init` of a home at a time: the lock that it holds, and how the next one waits.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use toolcrib_base::{Kind, Problem};

use crate::home::Home;
use crate::output::print;
use crate::text;

/// How long another one may take: it may be installing.
const LONGEST: Duration = Duration::from_secs(20 * 60);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(200);

/// The right to set up a home, until it is dropped or the process ends.
pub(super) struct Claim {
    _file: File,
    /// Whether another one held it meanwhile.
    pub(super) has_waited: bool,
}

/// Takes the right, waiting for another `init` where one runs.
///
/// # Errors
/// The folder cannot be written, or the other one does not end.
pub(super) fn claim(home: &Home) -> Result<Claim, Problem> {
    let path = home.state().join("init.lock");
    let failed = |error: std::io::Error| {
        Problem::new(Kind::Unavailable, format!("cannot write `{}`: {error}", path.display()))
            .hint("nothing was written; check who owns the folder, or name another one with `--home`")
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
            let told =
                format!("\nAnother `toolcrib init` sets up {} at this moment: waiting for it.\n", text::line(&folder));
            print(&told).map_err(failed)?;
        }
        if begun.elapsed() > LONGEST {
            let what = "another `toolcrib init` of this home does not end";
            return Err(Problem::new(Kind::Conflict, what).hint("end it, then start `toolcrib init` again"));
        }
        std::thread::park_timeout(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_second_one_waits_and_knows_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::find(Some(folder.path()), &crate::home::Environment::default()).unwrap();
        let first = claim(&home).unwrap();
        assert!(!first.has_waited);
        let (tell, told) = std::sync::mpsc::channel();
        let second = {
            let home = home.clone();
            std::thread::spawn(move || {
                tell.send(()).unwrap();
                claim(&home).map(|claim| claim.has_waited)
            })
        };
        told.recv().unwrap();
        assert!(!second.is_finished());
        drop(first);
        // Whether it came before or after the end, it holds the lock now.
        second.join().unwrap().unwrap();
        assert!(claim(&home).is_ok() && Path::new(&home.state().join("init.lock")).exists());
    }
}
