//! Who publishes releases in the tests: files over `http` on this machine, signed with a key of the tests, and answers
//! that go wrong on purpose.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, Header};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Reply, Request};

use crate::minisign::SigningKey;

/// The archive's name.
const ARCHIVE: &str = "toolcrib.tar.gz";
/// The target that the tests run on.
const TARGET: &str = env!("TOOLCRIB_BUILD_TARGET");

/// What a file is answered with.
#[derive(Clone)]
pub(super) enum Answer {
    Whole(Vec<u8>),
    /// The head says that all of it comes, and the connection ends before.
    Cut(Vec<u8>),
    /// Some of it comes at once, the rest when the server is released.
    Held(Vec<u8>),
    Redirect(String),
}

pub(super) struct Publisher {
    pub(super) key: SigningKey,
    server: HttpServer,
    files: Arc<Mutex<BTreeMap<String, Answer>>>,
}

impl Publisher {
    pub(super) fn start() -> Self {
        let files: Arc<Mutex<BTreeMap<String, Answer>>> = Arc::default();
        let served = Arc::clone(&files);
        let server = HttpServer::start(move |request: &Request, reply: &mut Reply<'_>| {
            let name = request.target.trim_start_matches("/r/");
            let answer = served.lock().unwrap().get(name).cloned();
            match answer {
                None => reply.full(404, &[], b"none"),
                Some(Answer::Whole(bytes)) => reply.full(200, &["content-type: application/octet-stream"], bytes),
                Some(Answer::Redirect(to)) => reply.full(302, &[&format!("location: {to}")], b""),
                Some(Answer::Cut(bytes)) => {
                    reply.raw(format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\n\r\n", bytes.len()));
                    reply.raw(&bytes[..bytes.len() / 2]);
                    reply.close();
                }
                Some(Answer::Held(bytes)) => {
                    reply.raw(format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\n\r\n", bytes.len()));
                    reply.raw(&bytes[..bytes.len() / 2]);
                    reply.wait_for_release(1);
                    reply.raw(&bytes[bytes.len() / 2..]);
                }
            }
        });
        Self { key: SigningKey::number(1), server, files }
    }

    pub(super) fn index_url(&self) -> String {
        format!("http://{}/r/index.json", self.server.address())
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.server.requests()
    }

    pub(super) fn release(&self) {
        self.server.release();
    }

    pub(super) fn answer(&self, name: &str, answer: Answer) {
        self.files.lock().unwrap().insert(name.to_owned(), answer);
    }

    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) {
        self.answer(name, Answer::Whole(bytes));
    }

    pub(super) fn take(&self, name: &str) {
        self.files.lock().unwrap().remove(name);
    }

    /// What is published under a name.
    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        match self.files.lock().unwrap().get(name) {
            Some(Answer::Whole(bytes)) => bytes.clone(),
            _ => panic!("`{name}` is not published"),
        }
    }

    /// Waits until a file was asked for so often in all.
    pub(super) async fn is_asked_for(&self, name: &str, times: usize) {
        let count = || self.requests().iter().filter(|request| request.target.ends_with(name)).count();
        eventually_holds(&format!("`{name}` to be asked for {times} times"), || count() >= times).await;
    }

    /// Publishes an archive whose program says this version, with its index.
    pub(super) fn publish(&self, version: &str) {
        self.put(ARCHIVE, packed(&format!("toolcrib-{version}-{TARGET}/toolcrib"), &program(version)));
        self.publish_with(version, |_, _| {});
    }

    /// Publishes an index of the archive that is there, changed before it is signed: the whole, and the archive's entry.
    pub(super) fn publish_with(&self, version: &str, change: impl FnOnce(&mut Value, &mut Value)) {
        let archive = match self.files.lock().unwrap().get(ARCHIVE) {
            Some(Answer::Whole(bytes)) => bytes.clone(),
            _ => packed("toolcrib/toolcrib", &program(version)),
        };
        let sha256: String = Sha256::digest(&archive).iter().map(|byte| format!("{byte:02x}")).collect();
        let mut entry = json!({ "file": ARCHIVE, "size": archive.len(), "sha256": sha256 });
        let mut index =
            json!({ "format": 1, "version": version, "released": "2026-05-01T00:00:00Z", "archives": null });
        change(&mut index, &mut entry);
        if index["archives"].is_null() {
            index["archives"] = json!({ TARGET: entry });
        }
        let index = index.to_string().into_bytes();
        let signature = self.key.sign(&index, &format!("toolcrib index version:{version}"));
        self.put(ARCHIVE, archive);
        self.put("index.json", index);
        self.put("index.json.minisig", signature);
    }
}

/// A program that says a version.
pub(super) fn program(version: &str) -> String {
    format!("#!/bin/sh\necho toolcrib {version}\n")
}

/// An archive with one file.
pub(super) fn packed(path: &str, text: &str) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = Header::new_ustar();
    header.set_size(text.len() as u64);
    header.set_mode(0o755);
    builder.append_data(&mut header, path, text.as_bytes()).unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}
