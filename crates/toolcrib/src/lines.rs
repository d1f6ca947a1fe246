//! Messages over stdin and stdout: one a line, both ways.

mod pipe;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;
use toolcrib_base::{Kind, Problem};

use pipe::{Input, Output};

/// How much is written in one piece, in bytes, when many messages wait.
const TOGETHER: usize = 64 * 1024;

/// Writes messages to stdout, one a line, until no one has any more.
pub(crate) async fn write(mut queue: mpsc::Receiver<Bytes>) -> anyhow::Result<()> {
    let mut stdout = Output::stdout();
    let mut text = Vec::new();
    while let Some(message) = queue.recv().await {
        let mut next = Some(message);
        while let Some(message) = next {
            text.extend_from_slice(&message);
            text.push(b'\n');
            next = if text.len() < TOGETHER { queue.try_recv().ok() } else { None };
        }
        // A message and the end of its line in one piece: its reader is woken once.
        stdout.write_all(&text).await.context("write to stdout")?;
        text.clear();
        text.shrink_to(TOGETHER);
    }
    Ok(())
}

/// The lines of stdin.
pub(crate) struct Lines {
    stdin: Input,
    buffer: BytesMut,
    limit: usize,
}

impl Lines {
    /// Lines of at most so many bytes. Has to be called in a runtime.
    pub(crate) fn of_stdin(limit: usize) -> Self {
        Self { stdin: Input::stdin(), buffer: BytesMut::new(), limit }
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
            if self.stdin.read(&mut self.buffer).await? == 0 {
                let rest = self.buffer.split().freeze();
                return Ok((!too_long && !rest.trim_ascii().is_empty()).then_some(Ok(rest)));
            }
        }
    }
}
