//! The TLS of the own listener: its files are read at the start, and again when they change. A bad pair never takes the
//! place of a good one. What is wrong with them is shown by `doctor` and `status`.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use toolcrib_base::task::Stop;
use toolcrib_base::{Clock, Kind, Problem, Timestamp};
use toolcrib_transport::http::tls::{LoadedTls, ServerTls, TlsError, TlsFiles};

use crate::settings::WarnOfTls;
use crate::token;

/// How often the files are looked at: a look at three dates.
const LOOK: Duration = Duration::from_secs(1);
/// How long before its end a certificate is warned of, in milliseconds.
const SOON: u64 = 14 * DAY;
const DAY: u64 = 24 * 60 * 60 * 1_000;

/// The TLS of a listener with its files.
#[derive(Debug)]
pub(crate) struct OwnTls {
    files: TlsFiles,
    tls: ServerTls,
    /// Where commands of this machine find the certificate that is served.
    shown: PathBuf,
    state: Mutex<TlsState>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct TlsState {
    /// The files that were read last.
    read: Stamps,
    /// The files at the last look: a pair that is being written is left alone until it has come to rest.
    seen: Stamps,
    /// Why they could not be used.
    failure: Option<TlsError>,
}

/// How a file was when it was looked at; `None` where there was none.
type Stamp = Option<(u64, u64, u64, (i64, i64), (i64, i64), u32)>;
type Stamps = [Stamp; 3];

impl WarnOfTls for OwnTls {
    fn warnings(&self) -> Vec<Problem> {
        self.warnings()
    }
}

// === impl OwnTls ===

impl OwnTls {
    /// Reads the files. Blocks.
    ///
    /// # Errors
    /// They cannot be used.
    pub(crate) fn open(files: TlsFiles, shown: PathBuf, clock: Arc<dyn Clock>) -> Result<Self, Problem> {
        let stamps = stamps(&files);
        let loaded = LoadedTls::read(&files).map_err(|error| problem(&error))?;
        show(&shown, &loaded)
            .map_err(|error| Problem::new(Kind::Internal, format!("cannot write `{}`: {error}", shown.display())))?;
        let state = Mutex::new(TlsState { read: stamps, seen: stamps, failure: None });
        let own = Self { files, tls: ServerTls::new(loaded), shown, state, clock };
        for warning in own.warnings() {
            tracing::warn!(hint = warning.hint.as_deref().unwrap_or_default(), "{}", warning.message);
        }
        Ok(own)
    }

    /// What connections are served with.
    pub(crate) fn tls(&self) -> ServerTls {
        self.tls.clone()
    }

    /// Where commands of this machine find the certificate.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// Looks at the files until the gateway ends.
    pub(crate) async fn follow(self: Arc<Self>, mut stop: Stop) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = look.tick() => {}
                () = stop.stopped() => return,
            }
            let own = Arc::clone(&self);
            // A panic in it leaves what was served.
            let _ = tokio::task::spawn_blocking(move || own.look()).await;
        }
    }

    /// Reads the files again if they have changed and are at rest. Blocks.
    fn look(&self) {
        let now = stamps(&self.files);
        {
            let mut state = self.lock();
            let is_at_rest = std::mem::replace(&mut state.seen, now) == now;
            if now == state.read || !is_at_rest {
                return;
            }
            state.read = now;
        }
        let failure = match LoadedTls::read(&self.files) {
            Ok(loaded) => {
                let until = loaded.not_after();
                // First for the commands of this machine: they read it at each handshake.
                if let Err(error) = show(&self.shown, &loaded) {
                    tracing::warn!(%error, "cannot write `{}`; commands do not reach this gateway", self.shown.display());
                }
                self.tls.replace(loaded);
                tracing::info!(%until, "the certificate was read again");
                None
            }
            Err(error) => {
                tracing::warn!(hint = error.hint(), "{error}; the certificate that was there before is still served");
                Some(error)
            }
        };
        self.lock().failure = failure;
    }

    /// What is wrong, or will be soon.
    pub(crate) fn warnings(&self) -> Vec<Problem> {
        let failure = self.lock().failure.clone();
        let failure = failure.map(|error| Problem {
            message: format!("{error}; the certificate that was there before is still served"),
            ..problem(&error)
        });
        let loaded = self.tls.loaded();
        let life = Life { from: loaded.not_before(), until: loaded.not_after() };
        let life = life.warning(&self.files.certificate, self.clock.now());
        let is_open = std::fs::metadata(&self.files.key).is_ok_and(|key| key.mode() & 0o077 != 0);
        let open = is_open.then(|| {
            let key = self.files.key.display();
            Problem::new(Kind::Definition, format!("other users can read the key in `{key}`"))
                .hint(format!("run `chmod 600 {key}`"))
        });
        [failure, life, open].into_iter().flatten().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TlsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From when until when a certificate counts.
#[derive(Debug, Clone, Copy)]
struct Life {
    from: Timestamp,
    until: Timestamp,
}

// === impl Life ===

impl Life {
    /// What is to be said of it at a moment.
    fn warning(self, file: &Path, now: Timestamp) -> Option<Problem> {
        let (Self { from, until }, file) = (self, file.display());
        let message = if until <= now {
            format!("the certificate in `{file}` expired at {until}")
        } else if from > now {
            format!("the certificate in `{file}` does not count before {from}")
        } else if until.since(now) < SOON {
            let days = until.since(now) / DAY;
            let days = if days == 1 { "1 day".to_owned() } else { format!("{days} days") };
            format!("the certificate in `{file}` expires in {days}, at {until}")
        } else {
            return None;
        };
        let hint = "replace it and its key: they are read again without a restart";
        Some(Problem::new(Kind::Definition, message).hint(hint))
    }
}

fn problem(error: &TlsError) -> Problem {
    Problem::new(Kind::Definition, error.to_string()).hint(error.hint())
}

/// Writes the certificate where commands of this machine find it.
fn show(path: &Path, loaded: &LoadedTls) -> std::io::Result<()> {
    token::write_private(path, loaded.certificate())
}

fn stamps(files: &TlsFiles) -> Stamps {
    let stamp = |file: &Path| std::fs::metadata(file).ok().as_ref().map(stamp);
    [stamp(&files.certificate), stamp(&files.key), files.client_authorities.as_deref().and_then(stamp)]
}

fn stamp(file: &Metadata) -> (u64, u64, u64, (i64, i64), (i64, i64), u32) {
    let (changed, written) = ((file.ctime(), file.ctime_nsec()), (file.mtime(), file.mtime_nsec()));
    (file.dev(), file.ino(), file.size(), written, changed, file.mode())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use toolcrib_base::{ManualClock, SystemClock};
    use toolcrib_testkit::certificate::{CertificateRequest, IssuedCertificate};

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn put(&self, certificate: &IssuedCertificate, key: &IssuedCertificate) {
            std::fs::write(self.0.path().join("cert.pem"), certificate.pem()).unwrap();
            let file = self.0.path().join("key.pem");
            std::fs::write(&file, key.key_pem()).unwrap();
            std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
        }

        fn open(&self, clock: Arc<dyn Clock>) -> OwnTls {
            let at = |name: &str| self.0.path().join(name);
            let files = TlsFiles { certificate: at("cert.pem"), key: at("key.pem"), client_authorities: None };
            OwnTls::open(files, at("state/certificate.pem"), clock).unwrap()
        }
    }

    fn made(days: i64) -> IssuedCertificate {
        CertificateRequest::new("tools").host("tools.example.com").days(-1, days).signed_by_itself()
    }

    fn served(own: &OwnTls) -> String {
        let served = String::from_utf8(own.tls.loaded().certificate().to_vec()).unwrap();
        assert_eq!(std::fs::read_to_string(&own.shown).unwrap(), served, "commands pin what is served");
        served
    }

    #[test]
    fn a_pair_is_read_again_when_it_is_at_rest_and_a_bad_one_never() {
        let (folder, first, second) = (Folder(tempfile::tempdir().unwrap()), made(365), made(365));
        folder.put(&first, &first);
        let own = folder.open(Arc::new(SystemClock));
        own.look();
        assert!(served(&own) == first.pem() && own.warnings().is_empty());
        // The key is another certificate's: half of a pair, or a mistake.
        folder.put(&second, &first);
        own.look();
        assert!(own.warnings().is_empty(), "it may still be written");
        own.look();
        own.look();
        let [warning] = &own.warnings()[..] else { panic!("{:?}", own.warnings()) };
        assert!(warning.message.contains("is not the key of the certificate"), "{warning}");
        assert!(warning.message.ends_with("still served") && served(&own) == first.pem());
        folder.put(&second, &second);
        own.look();
        assert_eq!(served(&own), first.pem(), "it is not at rest");
        own.look();
        assert!(served(&own) == second.pem() && own.warnings().is_empty());
        std::fs::remove_file(folder.0.path().join("cert.pem")).unwrap();
        own.look();
        own.look();
        assert!(own.warnings()[0].message.starts_with("cannot read"), "{:?}", own.warnings());
        assert_eq!(served(&own), second.pem());
    }

    #[test]
    fn a_certificate_is_warned_of_in_its_last_fourteen_days() {
        let (hour, now) = (60 * 60 * 1_000, SystemClock.now());
        for (days, hours, expected) in
            [(15, 0, None), (14, 0, None), (13, 23, Some("expires in 13 days")), (1, 23, Some("expires in 1 day,"))]
        {
            let until = Timestamp(now.0 + (days * 24 + hours) * hour);
            let warning = Life { from: now, until }.warning(Path::new("cert.pem"), now);
            let said = warning.as_ref().map(|warning| warning.message.as_str());
            assert_eq!(said.is_some(), expected.is_some(), "{days} days, {hours} hours: {said:?}");
            assert!(expected.is_none_or(|part| said.unwrap().contains(part)), "{said:?}");
        }
    }

    #[test]
    fn the_end_of_a_certificate_and_an_open_key_are_warned_of() {
        let (folder, certificate) = (Folder(tempfile::tempdir().unwrap()), made(100));
        folder.put(&certificate, &certificate);
        let clock = Arc::new(ManualClock::at(SystemClock.now()));
        let own = folder.open(Arc::clone(&clock) as _);
        let ahead = |days: i64| clock.advance(days * 24 * 60 * 60 * 1_000);
        for (days, expected) in [(0, None), (85, None), (2, Some("expires in 12 days")), (20, Some("expired at"))] {
            ahead(days);
            let warnings = own.warnings();
            let warning = warnings.first().map(|warning| warning.message.as_str());
            assert_eq!(warning.is_some(), expected.is_some(), "{warning:?}");
            assert!(expected.is_none_or(|part| warning.unwrap().contains(part)), "{warning:?}");
        }
        std::fs::set_permissions(folder.0.path().join("key.pem"), PermissionsExt::from_mode(0o640)).unwrap();
        let said: Vec<_> = own.warnings().into_iter().map(|warning| warning.to_string()).collect();
        assert!(said[1].contains("other users can read the key") && said[1].contains("chmod 600"), "{said:?}");
    }
}
