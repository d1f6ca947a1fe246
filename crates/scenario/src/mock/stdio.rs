//! A mock server over stdin and stdout: calls are answered side by side, as their delays allow.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;

use super::{Live, Mock, speak};
use crate::stdio;

/// How often the file is looked at: harness tools change it while the mock runs.
const LOOK: Duration = Duration::from_millis(100);

/// Serves until `input` ends. When `file` changes, its tools take the place of those that were.
///
/// # Errors
/// When the input cannot be read.
pub async fn serve(
    mock: Mock,
    file: Option<PathBuf>,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (live, scope) = (Arc::new(Live::new(mock)), Scope::new());
    let (tell, changes) = mpsc::channel(1);
    if let Some(file) = file {
        scope.spawn(watch(file, Arc::clone(&live), tell));
    }
    let answer = move |bytes: Bytes| {
        let live = Arc::clone(&live);
        async move { speak::answer(&live, &bytes, None).await }
    };
    let served = stdio::serve(answer, changes, input, output).await;
    scope.close(Duration::ZERO).await;
    served
}

/// Reloads the file whenever it is rewritten.
async fn watch(file: PathBuf, live: Arc<Live>, changes: mpsc::Sender<Bytes>) {
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
        if changes.send(speak::changed()).await.is_err() {
            return;
        }
    }
}
