//! The backend over standard input and output: one thread, one line at a time, flushed when no further line waits.

use std::io::{BufRead as _, BufReader, BufWriter, Write as _};

use super::{Backend, CLOSING, Offer};

const BUFFER_BYTES: usize = 128 * 1024;

/// Runs until standard input closes.
pub(crate) fn run(offer: &Offer) -> anyhow::Result<()> {
    let backend = Backend::new(offer);
    let mut input = BufReader::with_capacity(BUFFER_BYTES, std::io::stdin().lock());
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, std::io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if Backend::hangs(&line) {
            continue;
        }
        if offer.hang.as_ref().is_some_and(|file| file.exists()) {
            continue;
        }
        if let Some(answer) = backend.answer(&line, None) {
            output.write_all(&answer.opening)?;
            output.write_all(&answer.result)?;
            output.write_all(CLOSING)?;
            output.write_all(b"\n")?;
        }
        if input.buffer().is_empty() {
            output.flush()?;
        }
    }
}
