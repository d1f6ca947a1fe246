//! A server over stdin and stdout: one message in a line, answered side by side.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_protocol::Answer;

use crate::speak;

/// How many answers may wait to be written.
const ANSWERS: usize = 64;
/// How long the last answers may take after the input has ended.
const GRACE: Duration = Duration::from_millis(500);

/// Serves until `input` ends. `changes` is what the server says on its own.
pub(crate) async fn serve<F>(
    answer: impl Fn(Bytes) -> F,
    mut changes: mpsc::Receiver<Bytes>,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()>
where
    F: Future<Output = Option<Answer>> + Send + 'static,
{
    let scope = Scope::new();
    let (answers, lines) = mpsc::channel(ANSWERS);
    scope.spawn(write(lines, output));
    let told = answers.clone();
    let mut stop = scope.stop_signal();
    scope.spawn(async move {
        loop {
            tokio::select! {
                message = changes.recv() => {
                    let Some(message) = message else { return };
                    if told.send(message).await.is_err() {
                        return;
                    }
                }
                () = stop.stopped() => return,
            }
        }
    });
    let mut input = BufReader::new(input);
    let largest = speak::largest() as u64;
    loop {
        let mut line = Vec::new();
        if (&mut input).take(largest).read_until(b'\n', &mut line).await? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let (answers, answer) = (answers.clone(), answer(Bytes::copy_from_slice(line.trim_ascii())));
        scope.spawn(async move {
            if let Some(answer) = answer.await {
                // No one reads any more when this fails.
                let _ = answers.send(answer.to_bytes()).await;
            }
        });
    }
    drop(answers);
    scope.close(GRACE).await;
    Ok(())
}

async fn write(mut lines: mpsc::Receiver<Bytes>, mut output: impl AsyncWrite + Unpin) {
    while let Some(line) = lines.recv().await {
        let mut bytes = line.to_vec();
        bytes.push(b'\n');
        if output.write_all(&bytes).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}
