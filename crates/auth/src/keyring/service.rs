//! The keyring of a desktop session: the Secret Service of freedesktop.org, over the session's bus.
//!
//! Secrets cross the bus in the clear (its `plain` sessions): the bus is a Unix socket of the same user.

use std::ffi::OsStr;
use std::path::Path;

use toolcrib_base::Secret;

use super::address::Address;
use super::bus::Bus;
use super::wire::{Call, Message, Reader, Writer};
use super::{Keyring, KeyringError};

const NAME: &str = "org.freedesktop.secrets";
const ROOT: &str = "/org/freedesktop/secrets";
const SERVICE: &str = "org.freedesktop.Secret.Service";
const COLLECTION: &str = "org.freedesktop.Secret.Collection";
const ITEM: &str = "org.freedesktop.Secret.Item";
/// The attributes by which items are found, as `secret-tool` and Python's keyring write them.
const OWNER: (&str, &str) = ("service", "toolcrib");
const USERNAME: &str = "username";

/// The Secret Service of this session.
#[derive(Debug, Clone)]
pub struct SecretService {
    addresses: Vec<Address>,
}

// === impl SecretService ===

impl SecretService {
    /// The one on the bus that `DBUS_SESSION_BUS_ADDRESS` names, else on the socket `bus` in `XDG_RUNTIME_DIR`.
    /// `None` where neither leads to a bus, so that there is none on this machine. Nothing is asked yet.
    pub fn of_session(bus: Option<&OsStr>, runtime: Option<&OsStr>) -> Option<Self> {
        let addresses = match (bus, runtime) {
            (Some(bus), _) => Address::parse(bus),
            (None, Some(folder)) => {
                let socket = Path::new(folder).join("bus");
                if socket.exists() { vec![Address::Path(socket)] } else { Vec::new() }
            }
            (None, None) => Vec::new(),
        };
        (!addresses.is_empty()).then_some(Self { addresses })
    }

    fn open(&self) -> Result<Session, KeyringError> {
        let mut bus = Bus::connect(&self.addresses)?;
        let mut body = Writer::default();
        body.text("plain").signature("s").text("");
        let answer = bus.call(on_service("OpenSession", "sv"), &body)?;
        let mut reader = reader(&answer);
        let path = reader.skip_variant().and_then(|()| reader.text()).ok_or_else(odd)?.to_owned();
        Ok(Session { bus, path })
    }
}

impl Keyring for SecretService {
    fn get(&self, name: &str) -> Result<Option<Secret>, KeyringError> {
        let mut session = self.open()?;
        let Some(item) = session.find(name)? else { return Ok(None) };
        let mut body = Writer::default();
        body.text(&session.path);
        let answer = session.bus.call(on(&item, ITEM, "GetSecret", "o"), &body)?;
        let mut reader = reader(&answer);
        let value = reader.align(8).and_then(|()| {
            // The session, its parameters, the value.
            reader.text()?;
            reader.bytes()?;
            reader.bytes()
        });
        let value = value.ok_or_else(odd)?;
        let text =
            std::str::from_utf8(value).map_err(|_| KeyringError::Failed { why: "the value is not text".into() })?;
        Ok(Some(Secret::new(text)))
    }

    fn set(&self, name: &str, secret: &Secret) -> Result<(), KeyringError> {
        let mut session = self.open()?;
        let mut body = Writer::default();
        body.text("default");
        let answer = session.bus.call(on_service("ReadAlias", "s"), &body)?;
        let collection = reader(&answer).text().ok_or_else(odd)?.to_owned();
        if collection == "/" {
            return Err(KeyringError::Absent { why: "the session has no default keyring".into() });
        }
        session.unlock(&collection)?;
        let mut body = Writer::default();
        body.array(8, |properties| {
            properties
                .align(8)
                .text("org.freedesktop.Secret.Item.Label")
                .signature("s")
                .text(&format!("toolcrib {name}"));
            properties.align(8).text("org.freedesktop.Secret.Item.Attributes").signature("a{ss}");
            properties.texts(&[OWNER, (USERNAME, name)]);
        });
        body.align(8).text(&session.path).bytes(&[]).bytes(secret.expose().as_bytes()).text("text/plain");
        // In place of one with the same attributes.
        body.align(4).number(1);
        let answer = session.bus.call(on(&collection, COLLECTION, "CreateItem", "a{sv}(oayays)b"), &body)?;
        let mut reader = reader(&answer);
        let (item, prompt) = reader.text().zip(reader.text()).ok_or_else(odd)?;
        // A prompt would ask the person at the screen first; no one may sit there.
        if item == "/" && prompt != "/" { Err(KeyringError::Locked) } else { Ok(()) }
    }
}

/// A conversation with the service.
struct Session {
    bus: Bus,
    path: String,
}

// === impl Session ===

impl Session {
    /// The item of this name, unlocked.
    fn find(&mut self, name: &str) -> Result<Option<String>, KeyringError> {
        let mut body = Writer::default();
        body.texts(&[OWNER, (USERNAME, name)]);
        let answer = self.bus.call(on_service("SearchItems", "a{ss}"), &body)?;
        let mut reader = reader(&answer);
        let (unlocked, locked) = reader.list().zip(reader.list()).ok_or_else(odd)?;
        if let Some(item) = unlocked.first() {
            return Ok(Some((*item).to_owned()));
        }
        let Some(item) = locked.first() else { return Ok(None) };
        self.unlock(item)?;
        Ok(Some((*item).to_owned()))
    }

    /// Unlocks what can be unlocked without asking anyone.
    fn unlock(&mut self, path: &str) -> Result<(), KeyringError> {
        let mut body = Writer::default();
        body.array(4, |paths| {
            paths.text(path);
        });
        let answer = self.bus.call(on_service("Unlock", "ao"), &body)?;
        let unlocked = reader(&answer).list().ok_or_else(odd)?;
        if unlocked.contains(&path) { Ok(()) } else { Err(KeyringError::Locked) }
    }
}

fn on_service(method: &'static str, signature: &'static str) -> Call<'static> {
    on(ROOT, SERVICE, method, signature)
}

fn on<'a>(path: &'a str, interface: &'a str, method: &'a str, signature: &'a str) -> Call<'a> {
    Call { destination: NAME, path, interface, method, signature }
}

fn reader(message: &Message) -> Reader<'_> {
    Reader::new(&message.body, message.is_big)
}

fn odd() -> KeyringError {
    KeyringError::Failed { why: "it is not the Secret Service".into() }
}

#[cfg(test)]
mod tests;
