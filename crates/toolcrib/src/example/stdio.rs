//! An example server over stdin and stdout: one message in a line, answered in order.

use std::io::{self, BufRead, Read, Write};

use bytes::Bytes;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::{Answer, RpcError};

use super::Example;
use super::serve::{self, Replies};

/// Serves until `input` ends.
pub(crate) fn serve(example: &dyn Example, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let largest = serve::largest() as u64;
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(largest).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let replies = if line.len() as u64 == largest && !line.ends_with(b"\n") {
            input.skip_until(b'\n')?;
            let problem = Problem::new(Kind::TooLarge, format!("a line of more than {largest} bytes"));
            Replies { answer: Some(Answer::error(None, RpcError::from(&problem))), news: None }
        } else if line.trim_ascii().is_empty() {
            continue;
        } else {
            serve::receive(example, &Bytes::from(line))
        };
        let news = replies.news.map(|news| news.to_bytes());
        for message in news.into_iter().chain(replies.answer.map(|answer| answer.to_bytes())) {
            output.write_all(&message)?;
            output.write_all(b"\n")?;
        }
        output.flush()?;
    }
}
