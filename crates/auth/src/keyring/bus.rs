//! A connection to the session's bus: one call after the other, each within a deadline.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::KeyringError;
use super::address::Address;
use super::wire::{self, Call, FIXED_BYTES, Kind, Message, Writer};

/// How long one answer may take: the bus may have to start the keyring first.
const ANSWER: Duration = Duration::from_secs(20);
/// How many messages that no one asked for are passed over before an answer.
const OTHERS: usize = 1_000;
/// The longest line of the handshake.
const LINE: usize = 1_024;

/// What an error on the bus is called when no one has the name that is called.
const ABSENT: [&str; 4] = [
    "org.freedesktop.DBus.Error.ServiceUnknown",
    "org.freedesktop.DBus.Error.NameHasNoOwner",
    "org.freedesktop.DBus.Error.Spawn.ServiceNotFound",
    "org.freedesktop.DBus.Error.Spawn.FileInvalid",
];

pub(super) struct Bus {
    stream: UnixStream,
    serial: u32,
    until: Instant,
}

fn failed(why: impl Into<String>) -> KeyringError {
    KeyringError::Failed { why: why.into() }
}

fn broken(error: &io::Error) -> KeyringError {
    let is_late = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    failed(if is_late { "it does not answer".to_owned() } else { error.to_string() })
}

// === impl Bus ===

impl Bus {
    /// Connects to the first that listens, and says who we are.
    pub(super) fn connect(addresses: &[Address]) -> Result<Self, KeyringError> {
        let mut why = "no session bus is named by `DBUS_SESSION_BUS_ADDRESS`".to_owned();
        for address in addresses {
            match address.connect() {
                Ok(stream) => {
                    let mut bus = Self { stream, serial: 0, until: Instant::now() };
                    bus.introduce()?;
                    return Ok(bus);
                }
                Err(error) => why = format!("the session bus: {error}"),
            }
        }
        Err(KeyringError::Absent { why })
    }

    /// D-Bus Specification, "Authentication Protocol": the kernel tells the bus who we are.
    fn introduce(&mut self) -> Result<(), KeyringError> {
        self.until = Instant::now() + ANSWER;
        let user = rustix::process::geteuid().as_raw().to_string();
        let user: String = user.bytes().map(|digit| format!("{digit:02x}")).collect();
        self.write(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.read(&mut byte)?;
            line.push(byte[0]);
            if line.len() > LINE {
                return Err(failed("unexpected response from the bus"));
            }
        }
        if !line.starts_with(b"OK ") {
            return Err(failed("the bus denied access"));
        }
        self.write(b"BEGIN\r\n")?;
        let name = "org.freedesktop.DBus";
        let hello =
            Call { destination: name, path: "/org/freedesktop/DBus", interface: name, method: "Hello", signature: "" };
        self.call(hello, &Writer::default()).map(drop)
    }

    /// Calls a method and waits for its answer.
    pub(super) fn call(&mut self, call: Call<'_>, body: &Writer) -> Result<Message, KeyringError> {
        self.until = Instant::now() + ANSWER;
        self.serial += 1;
        let bytes = call.to_bytes(self.serial, body);
        self.write(&bytes)?;
        for _ in 0..OTHERS {
            let message = self.message()?;
            if message.answers != Some(self.serial) {
                continue;
            }
            return match message.kind {
                Kind::Return => Ok(message),
                Kind::Error(name) if ABSENT.contains(&name.as_str()) => {
                    Err(KeyringError::Absent { why: "no secret service is running in this session".into() })
                }
                Kind::Error(name) if name == "org.freedesktop.Secret.Error.IsLocked" => Err(KeyringError::Locked),
                Kind::Error(name) => Err(failed(format!("`{}` failed with `{name}`", call.method))),
                Kind::Other => Err(failed("an invalid response")),
            };
        }
        Err(failed("it does not answer"))
    }

    fn message(&mut self) -> Result<Message, KeyringError> {
        let mut fixed = [0; FIXED_BYTES];
        self.read(&mut fixed)?;
        let rest = wire::rest(&fixed).ok_or_else(|| failed("unexpected response from the bus"))?;
        let mut bytes = Zeroizing::new(vec![0; FIXED_BYTES + rest]);
        bytes[..FIXED_BYTES].copy_from_slice(&fixed);
        self.read(&mut bytes[FIXED_BYTES..])?;
        wire::parse(&bytes).ok_or_else(|| failed("unexpected response from the bus"))
    }

    fn read(&mut self, mut into: &mut [u8]) -> Result<(), KeyringError> {
        while !into.is_empty() {
            self.stream.set_read_timeout(Some(self.left()?)).map_err(|error| broken(&error))?;
            match self.stream.read(into) {
                Ok(0) => return Err(failed("the bus closed the connection")),
                Ok(count) => into = &mut into[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), KeyringError> {
        self.stream.set_write_timeout(Some(self.left()?)).map_err(|error| broken(&error))?;
        self.stream.write_all(bytes).map_err(|error| broken(&error))
    }

    /// A timeout of zero would be none.
    fn left(&self) -> Result<Duration, KeyringError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(failed("it does not answer")) } else { Ok(left) }
    }
}
