//! Messages over stdin and stdout: one a line, both ways.

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use toolcrib_base::{Kind, Problem};

/// How much is read at a time, in bytes.
const READ: usize = 64 * 1024;

/// Writes messages to stdout, one a line, until no one has any more.
pub(crate) async fn write(mut queue: mpsc::Receiver<Bytes>) -> anyhow::Result<()> {
    let mut stdout = tokio::io::stdout();
    while let Some(message) = queue.recv().await {
        stdout.write_all(&message).await.context("write to stdout")?;
        stdout.write_all(b"\n").await.context("write to stdout")?;
        if queue.is_empty() {
            stdout.flush().await.context("write to stdout")?;
        }
    }
    Ok(())
}

/// The lines of stdin.
pub(crate) struct Lines {
    stdin: tokio::io::Stdin,
    buffer: BytesMut,
    limit: usize,
}

impl Lines {
    /// Lines of at most so many bytes.
    pub(crate) fn of_stdin(limit: usize) -> Self {
        Self { stdin: tokio::io::stdin(), buffer: BytesMut::new(), limit }
    }

    /// The next line that is not blank; `None` at the end. A line over the limit is thrown away and reported.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Result<Bytes, Problem>>> {
        let mut searched = 0;
        let mut too_long = false;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(searched + end + 1).freeze();
                searched = 0;
                if std::mem::take(&mut too_long) {
                    let message = format!("a line of more than {} bytes", self.limit);
                    return Ok(Some(Err(Problem::new(Kind::TooLarge, message))));
                }
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Some(Ok(line)));
            }
            searched = self.buffer.len();
            if searched > self.limit {
                too_long = true;
                self.buffer.clear();
                searched = 0;
            }
            self.buffer.reserve(READ);
            if self.stdin.read_buf(&mut self.buffer).await? == 0 {
                let rest = self.buffer.split().freeze();
                return Ok((!too_long && !rest.trim_ascii().is_empty()).then_some(Ok(rest)));
            }
        }
    }
}
