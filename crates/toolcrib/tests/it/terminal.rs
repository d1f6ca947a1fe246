//! A command at a terminal: its stdin and stderr are one, as a person has it. Its stdout is read apart.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use toolcrib_testkit::DEADLINE;

/// How long a terminal whose programs have ended may take to say so.
const LAST: Duration = Duration::from_secs(5);

/// A command that a person watches.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// What was shown and not looked at yet.
    shown: String,
    child: Child,
}

impl Terminal {
    /// Starts a command whose `BROWSER` is this program.
    pub(crate) fn start(home: &Path, arguments: &[&str], browser: &str) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        let flags = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap();
        let side = OpenOptions::new().read(true).write(true).custom_flags(flags).open(name).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolcrib"));
        command.args(arguments).env_clear().env("TOOLCRIB_HOME", home).env("BROWSER", browser);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).process_group(0);
        let child = command.stdin(side.try_clone().unwrap()).stderr(side).stdout(Stdio::piped()).spawn().unwrap();
        // With the command goes our copy of its side.
        drop(command);
        let screen = File::from(screen);
        let (keyboard, mut reader) = (screen.try_clone().unwrap(), screen);
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // Its end is an error here.
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { keyboard, screen, shown: String::new(), child }
    }

    /// Waits until this is shown, and gives the line that it stands in, as far as it is shown.
    pub(crate) fn reads(&mut self, part: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(part) {
                let start = self.shown[..at].rfind('\n').map_or(0, |end| end + 1);
                let end = self.shown[at..].find('\n').map(|end| at + end);
                // A link is whole when its line is.
                if part != "/connect/" || end.is_some() {
                    let end = end.unwrap_or(self.shown.len());
                    let line = self.shown[start..end].to_owned();
                    self.shown.drain(..end);
                    return line;
                }
            }
            match self.screen.recv_timeout(DEADLINE) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("expected `{part}` on the terminal; this is shown:\n{}", self.shown),
            }
        }
    }

    /// Types a line.
    pub(crate) fn types(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Presses Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::INT).unwrap();
    }

    /// Waits for a good end, and gives what was printed. The terminal never showed `secret`.
    pub(crate) fn finish(mut self, secret: &str) -> String {
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        let status = self.child.wait().unwrap();
        while let Ok(bytes) = self.screen.recv_timeout(LAST) {
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        assert!(status.success(), "{status}: {printed}{}", self.shown);
        assert!(!self.shown.contains(secret) && !printed.contains(secret), "{}", self.shown);
        printed
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // One that has ended is no more to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
