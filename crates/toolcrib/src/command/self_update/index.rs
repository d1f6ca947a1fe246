//! The release index: which version is the newest, and for each target the archive with its size and hash. It is read
//! after its signature was verified, and refused where it contradicts itself, its signature or what was seen before.

use std::collections::BTreeMap;

use semver::Version;
use serde::Deserialize;
use toolcrib_base::{Kind, Problem, Timestamp};

/// The form that is read here.
const FORMAT: u64 = 1;
/// The largest index, in bytes.
pub(super) const INDEX_BYTES: usize = 256 * 1024;
/// The largest archive, in bytes.
const ARCHIVE_BYTES: u64 = 512 * 1024 * 1024;
/// For what this program was built.
pub(super) const TARGET: &str = env!("TOOLCRIB_BUILD_TARGET");

/// The file.
#[derive(Debug, Deserialize)]
struct IndexFile {
    version: String,
    released: String,
    expires: Option<String>,
    minimum: Option<String>,
    archives: BTreeMap<String, ArchiveEntry>,
}

/// The one member that every form has.
#[derive(Debug, Deserialize)]
struct FormatOnly {
    format: u64,
}

/// An archive of the release.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ArchiveEntry {
    /// Its name beside the index.
    pub(super) file: String,
    /// In bytes.
    pub(super) size: u64,
    /// In hex.
    pub(super) sha256: String,
}

/// A release, as its publisher signed it.
#[derive(Debug)]
pub(super) struct Release {
    pub(super) version: Version,
    /// When the index was made: of two, the later one counts.
    pub(super) released: Timestamp,
    expires: Option<Timestamp>,
    /// The oldest version that can be replaced by this one.
    minimum: Option<Version>,
    archives: BTreeMap<String, ArchiveEntry>,
}

// === impl Release ===

impl Release {
    /// Reads an index whose bytes and comment were signed together.
    pub(super) fn read(bytes: &[u8], comment: &str) -> Result<Self, Problem> {
        let wrong = |why: String| {
            Problem::new(Kind::BadServer, format!("the release index is wrong: {why}"))
                .hint("nothing was changed; check its address, or tell the publisher")
        };
        let format: FormatOnly = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if format.format != FORMAT {
            let message = format!("format {} where this copy reads {FORMAT}", format.format);
            return Err(wrong(message).hint("unpack the newer archive by hand over this copy"));
        }
        let file: IndexFile = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        let version = |name: &str, text: &str| {
            Version::parse(text).map_err(|error| wrong(format!("`{name}` is no version: {error}")))
        };
        let newest = version("version", &file.version)?;
        let minimum = file.minimum.as_deref().map(|text| version("minimum", text)).transpose()?;
        if comment != signed_comment(&newest) {
            return Err(wrong(format!("it names version {newest}, its signature is of `{comment}`")));
        }
        let time = |name: &str, text: &str| {
            Timestamp::parse(text).ok_or_else(|| wrong(format!("`{name}` is no time: `{text}`")))
        };
        let released = time("released", &file.released)?;
        let expires = file.expires.as_deref().map(|text| time("expires", text)).transpose()?;
        for (target, archive) in &file.archives {
            archive.check().map_err(|why| wrong(format!("`archives.{target}`: {why}")))?;
        }
        Ok(Self { version: newest, released, expires, minimum, archives: file.archives })
    }

    /// The archive for this program's target.
    pub(super) fn archive(&self) -> Result<&ArchiveEntry, Problem> {
        self.archives.get(TARGET).ok_or_else(|| {
            let message = format!("release {} has no archive for `{TARGET}`", self.version);
            let others: Vec<&str> = self.archives.keys().map(String::as_str).collect();
            Problem::new(Kind::NotFound, message)
                .hint(format!("it has: {}; build toolcrib from its sources for others", others.join(", ")))
        })
    }

    /// Whether the index counts at a moment, beside the newest one that was seen of its signer.
    pub(super) fn check_age(
        &self,
        now: Timestamp,
        newest: Option<Timestamp>,
        allows_older: bool,
    ) -> Result<(), Problem> {
        let refused = |why: String| Problem::new(Kind::Stale, format!("the release index is refused: {why}"));
        if let Some(expires) = self.expires.filter(|expires| *expires <= now) {
            return Err(refused(format!("it expired at {expires}")).hint(
                "check this machine's clock; if it is right, the publisher has to sign a newer index, or someone keeps it \
                 from you",
            ));
        }
        match newest {
            Some(newest) if self.released < newest && !allows_older => {
                let message = format!("it is of {}, and one of {newest} was seen before", self.released);
                Err(refused(message).hint(
                    "a mirror may be behind, or someone hides a release from you; use another address, or \
                     `--allow-downgrade` if this is meant",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether this version can be replaced by the release.
    pub(super) fn check_minimum(&self, own: &Version) -> Result<(), Problem> {
        match &self.minimum {
            Some(minimum) if own.cmp_precedence(minimum).is_lt() => {
                let message =
                    format!("release {} replaces version {minimum} or newer, and this is {own}", self.version);
                Err(Problem::new(Kind::Conflict, message).hint(format!(
                    "update to {minimum} first with `--index` and the address of its index, or read its notes and unpack \
                     the archive by hand"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// What the signature of an index says beside it.
fn signed_comment(version: &Version) -> String {
    format!("toolcrib index version:{version}")
}

// === impl ArchiveEntry ===

impl ArchiveEntry {
    fn check(&self) -> Result<(), &'static str> {
        let is_name = !self.file.starts_with('.')
            && (1..=200).contains(&self.file.len())
            && self.file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._+".contains(&byte));
        let is_hash = self.sha256.len() == 64 && self.sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        match (is_name, is_hash) {
            (false, _) => Err("`file` is not the name of a file beside the index"),
            (_, false) => Err("`sha256` is not 64 hex digits"),
            _ if self.size == 0 || self.size > ARCHIVE_BYTES => Err("`size` is 0 or more than 512 MiB"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn index() -> Value {
        json!({
            "format": 1, "version": "0.2.0", "released": "2026-11-01T00:00:00Z", "expires": "2027-11-01T00:00:00Z",
            "minimum": "0.1.0", "later": true,
            "archives": {TARGET: {"file": "toolcrib.tar.gz", "size": 9, "sha256": "0a".repeat(32)}},
        })
    }

    fn read(index: &Value) -> Result<Release, Problem> {
        Release::read(index.to_string().as_bytes(), "toolcrib index version:0.2.0")
    }

    #[test]
    fn an_index_is_read_with_what_is_new_in_it() {
        let release = read(&index()).unwrap();
        assert_eq!(release.version, Version::new(0, 2, 0));
        assert_eq!(release.archive().unwrap().file, "toolcrib.tar.gz");
    }

    #[test]
    fn an_index_that_contradicts_itself_or_its_signature_is_refused() {
        let check = |path: &str, value: Value, why: &str| {
            let mut index = index();
            *index.pointer_mut(path).unwrap() = value;
            let problem = read(&index).unwrap_err();
            assert!(problem.message.contains(why), "{path}: {problem}");
        };
        check("/format", json!(2), "format 2 where this copy reads 1");
        check("/version", json!("0.3.0"), "it names version 0.3.0, its signature is of `toolcrib index version:0.2.0`");
        check("/version", json!("new"), "`version` is no version");
        check("/minimum", json!("1"), "`minimum` is no version");
        check("/released", json!("today"), "`released` is no time");
        check("/expires", json!("never"), "`expires` is no time");
        let archive = |member: &str| format!("/archives/{TARGET}/{member}");
        for name in ["../x", "a/b", "", ".x", "https:x", "a b", "a%2fb", "\\x"] {
            check(&archive("file"), json!(name), "`file` is not the name of a file");
        }
        check(&archive("size"), json!(0), "`size`");
        check(&archive("size"), json!(u64::MAX), "`size`");
        check(&archive("size"), json!(-1), "the release index is wrong");
        check(&archive("sha256"), json!("0a"), "`sha256`");
        for cut in ["", "{", "[]", "{\"format\": 1}"] {
            assert!(Release::read(cut.as_bytes(), "x").unwrap_err().message.contains("index is wrong"), "{cut}");
        }
    }

    #[test]
    fn an_index_counts_until_it_expires_and_until_a_newer_one_was_seen() {
        let release = read(&index()).unwrap();
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let (now, later) = (at("2026-12-01"), at("2026-11-02"));
        assert_eq!(release.check_age(now, None, false), Ok(()));
        assert_eq!(release.check_age(now, Some(release.released), false), Ok(()));
        let problem = release.check_age(now, Some(later), false).unwrap_err();
        assert!(problem.message.contains("one of 2026-11-02T00:00:00.000Z was seen before"), "{problem}");
        assert_eq!(release.check_age(now, Some(later), true), Ok(()));
        for allowed in [false, true] {
            let problem = release.check_age(at("2027-11-01"), None, allowed).unwrap_err();
            assert!(problem.message.contains("it expired at 2027-11-01T00:00:00.000Z"), "{problem}");
        }
    }

    #[test]
    fn a_release_says_what_it_can_replace() {
        let release = read(&index()).unwrap();
        assert_eq!(release.check_minimum(&Version::new(0, 1, 0)), Ok(()));
        let problem = release.check_minimum(&Version::parse("0.1.0-rc.1").unwrap()).unwrap_err();
        assert!(problem.message.contains("replaces version 0.1.0 or newer, and this is 0.1.0-rc.1"), "{problem}");
        let mut other = index();
        other["archives"] = json!({"pdp11-unix": {"file": "x", "size": 1, "sha256": "0a".repeat(32)}});
        let problem = read(&other).unwrap().archive().unwrap_err();
        assert!(problem.message.contains(TARGET) && problem.hint.unwrap().contains("pdp11-unix"));
    }
}
