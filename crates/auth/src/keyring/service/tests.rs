//! The Secret Service against a bus of the tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use super::super::wire::FIXED_BYTES;
use super::*;

/// What the keyring of the tests does when a method is called: its answer's types and body, or an error's name.
type Answer = Result<(&'static str, Vec<u8>), &'static str>;

/// What was called, with its body.
type Calls = Vec<(String, Vec<u8>)>;

/// A bus with a keyring on it that answers as scripted, for as many connections as come.
struct Fake {
    folder: tempfile::TempDir,
    calls: Arc<Mutex<Calls>>,
}

const METHODS: [&str; 7] = ["Hello", "OpenSession", "SearchItems", "Unlock", "GetSecret", "ReadAlias", "CreateItem"];

impl Fake {
    fn start(answer: impl Fn(&str) -> Answer + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("bus")).unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&calls);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // Anyone who hangs up in the middle is no reason to end.
                let _ = converse(stream.unwrap(), &answer, &heard);
            }
        });
        Self { folder, calls }
    }

    fn service(&self) -> SecretService {
        SecretService::of_session(None, Some(self.folder.path().as_os_str())).unwrap()
    }

    fn heard(&self, method: &str) -> Vec<u8> {
        let calls = self.calls.lock().unwrap();
        calls.iter().find(|(name, _)| name == method).map(|(_, body)| body.clone()).unwrap_or_default()
    }
}

fn converse(
    stream: std::os::unix::net::UnixStream,
    answer: &impl Fn(&str) -> Answer,
    heard: &Mutex<Calls>,
) -> std::io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    assert!(line.starts_with("\0AUTH EXTERNAL 3"), "{line:?}");
    writer.write_all(b"OK 0123456789abcdef\r\n")?;
    line.clear();
    reader.read_line(&mut line)?;
    assert_eq!(line, "BEGIN\r\n");
    loop {
        let mut fixed = [0; FIXED_BYTES];
        reader.read_exact(&mut fixed)?;
        let mut bytes = fixed.to_vec();
        bytes.resize(FIXED_BYTES + super::super::wire::rest(&fixed).unwrap(), 0);
        reader.read_exact(&mut bytes[FIXED_BYTES..])?;
        let serial = u32::from_le_bytes(fixed[8..12].try_into().unwrap());
        let has = |name: &str| {
            let member =
                [b"\x03\x01s\0", &u32::try_from(name.len()).unwrap().to_le_bytes()[..], name.as_bytes(), b"\0"];
            bytes.windows(member.concat().len()).any(|window| window == member.concat())
        };
        let method = METHODS.into_iter().find(|name| has(name)).unwrap();
        let body = u32::from_le_bytes(fixed[4..8].try_into().unwrap());
        heard.lock().unwrap().push((method.to_owned(), bytes[bytes.len() - body as usize..].to_vec()));
        // A signal that no one asked for comes first.
        writer.write_all(&message(4, 0, "", &[], None))?;
        writer.write_all(&match answer(method) {
            Ok((signature, body)) => message(2, serial, signature, &body, None),
            Err(name) => message(3, serial, "", &[], Some(name)),
        })?;
    }
}

fn message(kind: u8, answers: u32, signature: &str, body: &[u8], error: Option<&str>) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.byte(b'l').byte(kind).byte(0).byte(1).number(body.len()).number(9);
    writer.array(8, |fields| {
        if answers > 0 {
            fields.align(8).byte(5).signature("u").number(answers as usize);
        }
        if let Some(name) = error {
            fields.align(8).byte(4).signature("s").text(name);
        }
        if !signature.is_empty() {
            fields.align(8).byte(8).signature("g").signature(signature);
        }
    });
    writer.align(8);
    [&writer.0[..], body].concat()
}

fn body(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    write(&mut writer);
    writer.0.to_vec()
}

fn paths(writer: &mut Writer, paths: &[&str]) {
    writer.array(4, |writer| {
        for path in paths {
            writer.text(path);
        }
    });
}

const SESSION: &str = "/s/1";
const THING: &str = "/c/login/7";

/// A keyring with one item, locked or not, that opens or does not.
fn keyring(method: &str, is_locked: bool, opens: bool) -> Answer {
    Ok(match method {
        "Hello" => (
            "s",
            body(|out| {
                out.text(":1.5");
            }),
        ),
        "OpenSession" => (
            "vo",
            body(|out| {
                out.signature("s").text("").text(SESSION);
            }),
        ),
        "SearchItems" => (
            "aoao",
            body(|out| {
                paths(out, if is_locked { &[] } else { &[THING] });
                paths(out, if is_locked { &[THING] } else { &[] });
            }),
        ),
        "Unlock" => (
            "aoo",
            body(|out| {
                paths(out, if opens { &[THING, "/c/login"] } else { &[] });
                out.text(if opens { "/" } else { "/prompt/1" });
            }),
        ),
        "GetSecret" => (
            "(oayays)",
            body(|out| {
                out.text(SESSION).bytes(b"").bytes("wért".as_bytes()).text("text/plain");
            }),
        ),
        "ReadAlias" => (
            "o",
            body(|out| {
                out.text("/c/login");
            }),
        ),
        "CreateItem" => (
            "oo",
            body(|out| {
                out.text(THING).text("/");
            }),
        ),
        _ => return Err("org.freedesktop.DBus.Error.UnknownMethod"),
    })
}

#[test]
fn a_secret_is_found_and_unlocked_where_no_one_must_be_asked() {
    for is_locked in [false, true] {
        let fake = Fake::start(move |method| keyring(method, is_locked, true));
        assert_eq!(fake.service().get("github").unwrap().unwrap().expose(), "wért");
        let searched = fake.heard("SearchItems");
        let expected = body(|out| {
            out.texts(&[("service", "toolcrib"), ("username", "github")]);
        });
        assert_eq!(searched, expected);
        assert_eq!(fake.heard("Unlock").is_empty(), !is_locked);
        assert_eq!(
            fake.heard("GetSecret"),
            body(|out| {
                out.text(SESSION);
            })
        );
    }
}

#[test]
fn a_keyring_that_would_ask_someone_is_locked() {
    let fake = Fake::start(|method| keyring(method, true, false));
    assert!(matches!(fake.service().get("github"), Err(KeyringError::Locked)));
    assert!(matches!(fake.service().set("github", &Secret::new("x")), Err(KeyringError::Locked)));
    let fake = Fake::start(|method| match method {
        "GetSecret" => Err("org.freedesktop.Secret.Error.IsLocked"),
        _ => keyring(method, false, true),
    });
    assert!(matches!(fake.service().get("github"), Err(KeyringError::Locked)));
}

#[test]
fn a_secret_is_put_into_the_default_keyring() {
    let fake = Fake::start(|method| keyring(method, false, true));
    fake.service().set("github", &Secret::new("value")).unwrap();
    let made = fake.heard("CreateItem");
    let expected = body(|out| {
        out.array(8, |out| {
            out.align(8).text("org.freedesktop.Secret.Item.Label").signature("s").text("toolcrib github");
            out.align(8).text("org.freedesktop.Secret.Item.Attributes").signature("a{ss}");
            out.texts(&[("service", "toolcrib"), ("username", "github")]);
        });
        out.align(8).text(SESSION).bytes(b"").bytes(b"value").text("text/plain").align(4).number(1);
    });
    assert_eq!(made, expected);
}

#[test]
fn what_is_not_there_is_told_from_what_fails() {
    let fake = Fake::start(|method| match method {
        "SearchItems" => Ok((
            "aoao",
            body(|out| {
                paths(out, &[]);
                paths(out, &[]);
            }),
        )),
        _ => keyring(method, false, true),
    });
    assert!(fake.service().get("github").unwrap().is_none());
    let fake = Fake::start(|method| match method {
        "OpenSession" => Err("org.freedesktop.DBus.Error.ServiceUnknown"),
        _ => keyring(method, false, true),
    });
    assert!(matches!(fake.service().get("github"), Err(KeyringError::Absent { .. })));
    let fake = Fake::start(|method| match method {
        "GetSecret" => Ok(("s", b"\xff\xff\xff\xff".to_vec())),
        _ => keyring(method, false, true),
    });
    assert!(matches!(fake.service().get("github"), Err(KeyringError::Failed { .. })));
    let folder = tempfile::tempdir().unwrap();
    assert!(SecretService::of_session(None, None).is_none());
    assert!(SecretService::of_session(None, Some(folder.path().as_os_str())).is_none());
    let gone = format!("unix:path={}", folder.path().join("gone").display());
    let service = SecretService::of_session(Some(OsStr::new(&gone)), None).unwrap();
    assert!(matches!(service.get("github"), Err(KeyringError::Absent { .. })));
}
