//! How many files and connections this process may have open. Many systems give 1,024 unless a process asks for more; the
//! programs that we start get what we were given, since some count on small numbers (`select`).

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than there are connections; what systems without a limit of their own are asked for first, and then.
const ENOUGH: [u64; 2] = [65_536, 10_240];

/// What it was before it was raised.
static BEFORE: OnceLock<Option<u64>> = OnceLock::new();

/// Asks for as many as we need and the system lets this user have. For the beginning of a process that serves.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let before = *BEFORE.get_or_init(|| limit.current);
    for files in ENOUGH {
        let files = limit.maximum.map_or(files, |most| most.min(files));
        if before.is_none_or(|before| before >= files) {
            return;
        }
        // A refusal leaves what there was, and connections wait until others have ended.
        if setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..limit }).is_ok() {
            return;
        }
    }
}

/// What it was, if it was raised.
pub(super) fn before() -> Option<u64> {
    BEFORE.get().copied().flatten()
}

/// Takes it back to what it was, for a program.
pub(super) fn lower(files: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(limit.maximum.map_or(files, |most| files.min(most)));
    // It stays higher then, which few programs notice.
    let _ = setrlimit(Resource::Nofile, limit);
}
