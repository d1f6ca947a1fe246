//! A log file for each server: `state/logs/<server>.log`, bounded, written by a thread so that no one waits for the
//! disk.

mod reading;

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;

use toolcrib_base::{Clock, ServerName, SystemClock};
use toolcrib_call::{LiveEvent, LiveEvents};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::text;

pub(crate) use reading::LogFolder;

/// The targets of events about one server: what we see of it, and what its program writes to stderr.
const TARGETS: [&str; 2] = ["toolcrib::server", "toolcrib::stderr"];
/// Where a file is moved aside as `.log.1`, in bytes.
const FILE_BYTES: u64 = 1 << 20;
/// Where a line is cut, in bytes.
const LINE_BYTES: usize = 8 * 1024;
/// How many lines may wait for the disk; more are dropped and counted, because a log must not hold up calls.
const QUEUE: usize = 1024;
/// How many files are held open.
const OPEN_FILES: usize = 64;
/// How long the end waits for a disk that hangs.
const LAST_LINES: Duration = Duration::from_secs(2);

enum Order {
    Line(ServerName, String),
    End,
}

/// Takes the events of the servers from the telemetry.
#[derive(Debug)]
struct ServerLogLayer {
    queue: SyncSender<Order>,
    dropped: Arc<AtomicU64>,
    /// Who listens hears the same lines.
    events: LiveEvents,
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct ServerLogs {
    queue: SyncSender<Order>,
    ended: Receiver<()>,
}

/// Starts the thread that writes into `folder`, which is made with the first line.
pub(super) fn start<S>(folder: PathBuf, events: LiveEvents) -> io::Result<(impl Layer<S>, ServerLogs)>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let (queue, orders) = sync_channel(QUEUE);
    let (end, ended) = channel();
    let dropped = Arc::new(AtomicU64::new(0));
    let mut writer = Writer { folder, open: HashMap::new(), dropped: Arc::clone(&dropped) };
    std::thread::Builder::new().name("server-logs".to_owned()).spawn(move || {
        while let Ok(Order::Line(server, line)) = orders.recv() {
            writer.write(&server, &line);
        }
        let _ = end.send(());
    })?;
    let targets = TARGETS.map(|target| (target, Level::INFO));
    let layer =
        ServerLogLayer { queue: queue.clone(), dropped, events }.with_filter(Targets::new().with_targets(targets));
    Ok((layer, ServerLogs { queue, ended }))
}

// === impl ServerLogs ===

impl ServerLogs {
    /// Waits until what was logged so far is written; later lines are lost.
    pub(crate) fn finish(self) {
        if self.queue.send(Order::End).is_ok() {
            // A disk that hangs must not keep the process.
            let _ = self.ended.recv_timeout(LAST_LINES);
        }
    }
}

// === impl ServerLogLayer ===

impl<S: Subscriber> Layer<S> for ServerLogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        // The name is checked, so it is safe as the name of a file.
        let Ok(server) = ServerName::new(&fields.server) else { return };
        let (now, level) = (SystemClock.now(), event.metadata().level());
        let mut line = format!("{now} {level:5} {}{}", fields.message, fields.rest);
        if line.len() > LINE_BYTES {
            line.truncate(cut_at(&line, LINE_BYTES));
            line.push('…');
        }
        line = text::line(&line).into_owned();
        self.events.publish(|| {
            let said = format!("{}{}", fields.message, fields.rest);
            LiveEvent::log(now, server.as_str(), level.as_str(), &text::line(&said[..cut_at(&said, LINE_BYTES)]))
        });
        line.push('\n');
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Order::Line(server, line)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The largest offset up to `most` at which a text may be cut.
fn cut_at(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The fields of one event.
#[derive(Default)]
struct Fields {
    server: String,
    message: String,
    rest: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a text cannot fail.
        let _ = match field.name() {
            "server" => write!(self.server, "{value:?}"),
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.rest, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "server" => self.server.push_str(value),
            _ => self.record_debug(field, &value),
        }
    }
}

/// Owns the files.
struct Writer {
    folder: PathBuf,
    open: HashMap<ServerName, LogFile>,
    dropped: Arc<AtomicU64>,
}

struct LogFile {
    file: File,
    bytes: u64,
}

// === impl Writer ===

impl Writer {
    fn write(&mut self, server: &ServerName, line: &str) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        let note = if dropped > 0 {
            format!("({dropped} log lines of all servers were dropped here)\n")
        } else {
            String::new()
        };
        if let Err(error) = self.append(server, &format!("{note}{line}")) {
            self.open.remove(server);
            // Not an event of a server, so this cannot come back to us.
            tracing::debug!(%error, log_of = %server, "cannot write a server's log");
        }
    }

    fn append(&mut self, server: &ServerName, text: &str) -> io::Result<()> {
        let path = self.folder.join(format!("{server}.log"));
        if !self.open.contains_key(server) {
            if self.open.len() >= OPEN_FILES {
                self.open.clear();
            }
            self.open.insert(server.clone(), open(&self.folder, &path)?);
        }
        let Some(log) = self.open.get_mut(server) else { return Ok(()) };
        if log.bytes > 0 && log.bytes + text.len() as u64 > FILE_BYTES {
            fs::rename(&path, path.with_extension("log.1"))?;
            *log = open(&self.folder, &path)?;
        }
        log.file.write_all(text.as_bytes())?;
        log.bytes += text.len() as u64;
        Ok(())
    }
}

fn open(folder: &Path, path: &Path) -> io::Result<LogFile> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    Ok(LogFile { file, bytes })
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Runs `log` and gives the folder once all is written.
    fn logged(log: impl FnOnce()) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let (layer, logs) = start(folder.path().join("logs"), LiveEvents::default()).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        logs.finish();
        folder
    }

    #[test]
    fn a_servers_events_go_to_its_file_and_no_others() {
        let folder = logged(|| {
            tracing::warn!(target: "toolcrib::server", server = %"files", "it \u{1b}[2J\nsays");
            tracing::info!(target: "toolcrib::stderr", server = "files", dropped = 3, "tail");
            tracing::debug!(target: "toolcrib::server", server = "files", "too detailed");
            tracing::info!(target: "toolcrib::server", server = "../evil", "no name");
            tracing::info!(target: "toolcrib::server", "no server");
            tracing::info!(target: "elsewhere", server = "files", "not about a server");
        });
        let files: Vec<_> = fs::read_dir(folder.path().join("logs")).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert_eq!(files, ["files.log"]);
        let text = fs::read_to_string(folder.path().join("logs/files.log")).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(lines, ["WARN  it \\u{1b}[2J says", "INFO  tail dropped=3"]);
    }

    #[tokio::test]
    async fn listeners_get_the_same_lines() {
        let (folder, events) = (tempfile::tempdir().unwrap(), LiveEvents::default());
        let mut listener = events.listen(vec![toolcrib_call::live_events::Kind::Log]).unwrap();
        let (layer, logs) = start(folder.path().join("logs"), events).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::warn!(target: "toolcrib::stderr", server = "files", "it \u{1b}[2J says");
        });
        let told = listener.next().await.unwrap().unwrap();
        assert_eq!((&told.what["server"], &told.what["level"]), (&"files".into(), &"WARN".into()));
        assert_eq!(told.what["line"], "it \\u{1b}[2J says");
        logs.finish();
    }

    #[test]
    fn files_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let dropped = Arc::new(AtomicU64::new(7));
        let mut writer = Writer { folder: folder.path().join("logs"), open: HashMap::new(), dropped };
        let line = "x".repeat(LINE_BYTES) + "\n";
        writer.write(&ServerName::new("noted").unwrap(), "next\n");
        let noted = fs::read_to_string(folder.path().join("logs/noted.log")).unwrap();
        assert_eq!(noted, "(7 log lines of all servers were dropped here)\nnext\n");
        for number in 0..300 {
            writer.write(&ServerName::new("flood").unwrap(), &line);
            writer.write(&ServerName::new(&format!("s{number}")).unwrap(), "one\n");
        }
        assert!(writer.open.len() <= OPEN_FILES);
        let size = |name: &str| fs::metadata(folder.path().join("logs").join(name)).unwrap().len();
        assert!(size("flood.log") <= FILE_BYTES && size("flood.log.1") <= FILE_BYTES);
        assert!(size("flood.log") > 0);
        assert_eq!(fs::read_dir(folder.path().join("logs")).unwrap().count(), 303);
        assert_eq!(fs::read_to_string(folder.path().join("logs/s7.log")).unwrap(), "one\n");
    }

    #[test]
    fn a_long_line_is_cut() {
        let folder = logged(|| tracing::info!(target: "toolcrib::server", server = "a", "{}", "ä".repeat(100_000)));
        let text = fs::read_to_string(folder.path().join("logs/a.log")).unwrap();
        assert!(text.len() <= LINE_BYTES + 4 && text.ends_with("ä…\n"), "{} bytes", text.len());
    }
}
