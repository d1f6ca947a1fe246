//! Whose signature counts: the key of the releases that this program is one of, or one that the person names. Signatures
//! are those of minisign, pre-hashed.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use minisign_verify::{Error, PublicKey, Signature};
use toolcrib_base::{Kind, Problem};

/// The public half of the publisher's key, as one line. The publisher's build sets it; the secret half is nowhere near
/// the sources.
const RELEASE_KEY: Option<&str> = option_env!("TOOLCRIB_RELEASE_KEY");
/// The key in `packaging/keys/test.pub`: its secret half lies beside it, so that its signature proves nothing.
const TEST_KEY: &str = "RWSCvHIi/KDnBRyyY3hW5eGOhDoFg6z/wNkEiJoBd6D34IROQfqkh7vh";
/// A key or a signature has some hundred bytes.
pub(super) const FILE_BYTES: usize = 4 * 1024;

/// A public key, and where it is from.
#[derive(Debug)]
pub(super) struct ReleaseKey {
    key: PublicKey,
    /// Its line in base64, which names it among others.
    line: String,
    place: String,
}

// === impl ReleaseKey ===

impl ReleaseKey {
    /// The key of this file, else the one that was built in.
    pub(super) fn find(file: Option<&Path>) -> Result<Self, Problem> {
        match (file, RELEASE_KEY.map(str::trim).filter(|line| !line.is_empty())) {
            (Some(file), _) => Self::read(file),
            (None, Some(line)) => Self::parse(line, "the key of this build".to_owned()),
            (None, None) => Err(Problem::new(Kind::Definition, "this build of toolcrib knows no release key").hint(
                "name the publisher's minisign key with `--key FILE`, or as `update.key` in `config.toml`; get it from the \
                 publisher, not from where the index is",
            )),
        }
    }

    fn read(file: &Path) -> Result<Self, Problem> {
        let failed = |error: std::io::Error| {
            let message = format!("cannot read the key `{}`: {error}", file.display());
            Problem::new(Kind::Definition, message).hint("check `--key` or `update.key`")
        };
        let mut bytes = Vec::new();
        let opened = File::open(file).map_err(failed)?;
        opened.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(FILE_BYTES)]).into_owned();
        let place = format!("`{}`", file.display());
        Self::parse(&text, place)
    }

    /// A key as minisign writes it, or its second line alone.
    fn parse(text: &str, place: String) -> Result<Self, Problem> {
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned();
        match PublicKey::from_base64(&line) {
            Ok(key) => Ok(Self { key, line, place }),
            Err(_) => Err(Problem::new(Kind::Definition, format!("{place} is no public key of minisign"))
                .hint("it has two lines: a comment, and 56 characters that begin with `RW`")),
        }
    }

    /// The key as one line.
    pub(super) fn line(&self) -> &str {
        &self.line
    }

    /// Whether anyone can sign with it.
    pub(super) fn is_for_tests(&self) -> bool {
        self.line == TEST_KEY
    }

    /// The comment that was signed with these bytes, which is proven to be the signer's.
    pub(super) fn verify(&self, bytes: &[u8], signature: &[u8]) -> Result<String, Problem> {
        let refused = |why: &str| {
            Problem::new(Kind::Forbidden, format!("the release index is refused: {why}")).hint(
                "nothing was changed; try again later, and ask the publisher if it stays so: the index or the key may \
                 have been replaced",
            )
        };
        let text = std::str::from_utf8(signature).map_err(|_| refused("its signature is not text"))?;
        let signature = Signature::decode(text).map_err(|_| refused("its signature is cut or not one of minisign"))?;
        self.key.verify(bytes, &signature, false).map_err(|error| match error {
            Error::UnexpectedKeyId => refused(&format!("it is signed by another key than {}", self.place)),
            Error::UnexpectedAlgorithm => {
                refused("its signature is of an outdated form; sign it with minisign 0.10 or newer")
            }
            _ => refused(&format!("its signature does not match {} and what was sent", self.place)),
        })?;
        Ok(signature.trusted_comment().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by the program minisign 0.11 with the key in `packaging/keys`: `hello`.
    const SIGNED: &str = "untrusted comment: signature from minisign secret key\n\
        RUSCvHIi/KDnBUyV1hb+VaBg2lHDyXdiRCd5NSVQatwo7Dt2XQ6TQlIIaDTlf18LrDZv57e/2j2Wf0F0uaIsEy9NTN9SbejR9gg=\n\
        trusted comment: toolcrib index version:0.2.0\n\
        DJV/yaeGDw1dPO0eCCTN2EvcyBFZaLvdPCelsOAMMIi6Tpaf3Np5VHuoFKtunAxDhF9UyrgsWN9vKGIYPxX5CQ==\n";

    fn test_key() -> ReleaseKey {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/keys/test.pub");
        ReleaseKey::find(Some(&file)).unwrap()
    }

    #[test]
    fn what_minisign_signed_is_verified_with_its_comment() {
        let key = test_key();
        assert!(key.is_for_tests(), "`TEST_KEY` is not the key in `packaging/keys/test.pub`");
        assert_eq!(key.verify(b"hello", SIGNED.as_bytes()).unwrap(), "toolcrib index version:0.2.0");
    }

    #[test]
    fn a_signature_counts_for_its_bytes_its_comment_and_its_key_alone() {
        let key = test_key();
        let check = |bytes: &[u8], signature: &str, why: &str| {
            let problem = key.verify(bytes, signature.as_bytes()).unwrap_err();
            assert!(problem.message.contains(why), "{problem}");
        };
        check(b"hellp", SIGNED, "does not match");
        check(b"hello", &SIGNED.replace("0.2.0", "0.3.0"), "does not match");
        check(b"hello", &SIGNED.replace("RUSC", "RUSD"), "by another key");
        check(b"hello", &SIGNED[..SIGNED.len() - 40], "cut or not one of minisign");
        check(b"hello", "", "cut or not one of minisign");
        // `Ed` in place of `ED`: of the bytes themselves, as minisign signed before 0.10.
        check(b"hello", &SIGNED.replace("RUSC", "RWSC"), "outdated form");
    }

    #[test]
    fn a_key_is_read_with_its_comment_or_alone_and_nothing_else_is_one() {
        let parse = |text: &str| ReleaseKey::parse(text, "`x`".to_owned());
        assert_eq!(parse(&format!("untrusted comment: y\n{TEST_KEY}\n\n")).unwrap().line(), TEST_KEY);
        assert_eq!(parse(TEST_KEY).unwrap().line(), TEST_KEY);
        let secret = "RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        for wrong in ["", "x", &TEST_KEY[1..], secret] {
            assert!(parse(wrong).unwrap_err().message.contains("`x` is no public key"), "{wrong}");
        }
    }
}
