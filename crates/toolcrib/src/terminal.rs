//! The terminal while a person types what must not be shown: secrets.

use std::io::{self, Read, StdinLock, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use toolcrib_auth::vault::VALUE_BYTES;
use toolcrib_base::Secret;

/// Ctrl-C, which the terminal gives us as a byte while it shows nothing: killed by it we could not undo that.
const INTERRUPT: u8 = 0x03;
/// Ctrl-D.
const END: u8 = 0x04;
/// The two that terminals send for the key that deletes.
const BACK: [u8; 2] = [0x08, 0x7F];

/// Asks on stderr and reads one line; `None` after Ctrl-C.
pub(crate) fn ask_hidden(stdin: &mut StdinLock<'static>, question: &str) -> io::Result<Option<Secret>> {
    // Before the question: what is typed after it is neither shown nor lost.
    let quiet = HiddenInput::begin()?;
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let answer = read_line(stdin);
    drop(quiet);
    writeln!(stderr)?;
    answer
}

/// The terminal shows nothing as long as this lives.
struct HiddenInput(Termios);

impl HiddenInput {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// A line, with what was deleted on the way taken out.
fn read_line(terminal: &mut impl Read) -> io::Result<Option<Secret>> {
    let mut line = Vec::new();
    let mut byte = [0];
    // One more than a value may have, so that it is refused as too long.
    while line.len() <= VALUE_BYTES {
        match terminal.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        match byte[0] {
            b'\n' | b'\r' | END => break,
            INTERRUPT => return Ok(None),
            back if BACK.contains(&back) => {
                // A letter of several bytes goes as a whole.
                while line.pop().is_some_and(|byte| (0x80..0xC0).contains(&byte)) {}
            }
            other => line.push(other),
        }
    }
    let text = String::from_utf8(line).map_err(|_| io::Error::other("the value is not UTF-8 text"))?;
    Ok(Some(Secret::new(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_meant() {
        for (typed, expected) in [
            (&b"abc\nrest"[..], Some("abc")),
            (b"abc\r", Some("abc")),
            (b"abx\x7fc\n", Some("abc")),
            ("aä\u{8}b\n".as_bytes(), Some("ab")),
            (b"\x7f\x7fa\x04", Some("a")),
            (b"", Some("")),
            (b"ab\x03c\n", None),
        ] {
            let read = read_line(&mut &typed[..]).unwrap();
            assert_eq!(read.as_ref().map(Secret::expose), expected, "{typed:?}");
        }
        let endless = vec![b'x'; VALUE_BYTES * 2];
        assert_eq!(read_line(&mut &endless[..]).unwrap().unwrap().expose().len(), VALUE_BYTES + 1);
        assert!(read_line(&mut &b"\xff\n"[..]).is_err());
    }
}
