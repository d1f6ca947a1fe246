//! A mock server over stdin and stdout: calls are answered side by side, as their delays allow.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;

use super::{Live, Mock, speak};

/// How many answers may wait to be written.
const ANSWERS: usize = 64;
/// How often the file is looked at: harness tools change it while the mock runs.
const LOOK: Duration = Duration::from_millis(100);
/// How long the last answers may take after the input has ended.
const GRACE: Duration = Duration::from_millis(500);

/// Serves until `input` ends. When `file` changes, its tools take the place of those that were.
pub async fn serve(
    mock: Mock,
    file: Option<PathBuf>,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (live, scope) = (Arc::new(Live::new(mock)), Scope::new());
    let (answers, lines) = mpsc::channel(ANSWERS);
    scope.spawn(write(lines, output));
    if let Some(file) = file {
        scope.spawn(watch(file, Arc::clone(&live), answers.clone()));
    }
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).await? == 0 {
            break;
        }
        if line.len() > speak::largest() || line.trim_ascii().is_empty() {
            continue;
        }
        let (live, answers, bytes) = (Arc::clone(&live), answers.clone(), Bytes::copy_from_slice(line.trim_ascii()));
        scope.spawn(async move {
            if let Some(answer) = speak::answer(&live, &bytes).await {
                // Nobody reads any more when this fails.
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

/// Takes over what the file says whenever it is written anew.
async fn watch(file: PathBuf, live: Arc<Live>, news: mpsc::Sender<Bytes>) {
    let written = || std::fs::metadata(&file).and_then(|metadata| metadata.modified()).ok();
    let mut last: Option<SystemTime> = written();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = written();
        if now == last {
            continue;
        }
        last = now;
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        // A file that is wrong changes nothing.
        let Ok(mock) = Mock::read(&file, &text) else { continue };
        live.replace(mock);
        if news.send(speak::changed()).await.is_err() {
            return;
        }
    }
}
