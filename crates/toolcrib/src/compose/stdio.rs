//! The gateway's door over stdin and stdout: lines in, lines out, requests concurrently.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Limits, PrincipalId, Problem, ProfileName};
use toolcrib_gateway::duplex::{OUT, Terms};
use toolcrib_gateway::{Duplex, Gateway, Principal, front};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Answer, RpcError};

/// How much is read at a time, in bytes.
const READ: usize = 64 * 1024;

/// How long requests may go on after stdin has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(30);

/// Serves until stdin ends.
pub(crate) async fn serve(
    gateway: &Arc<Gateway>,
    scope: &Scope,
    limits: &Limits,
    profile: ProfileName,
) -> anyhow::Result<()> {
    if gateway.view(profile.as_str()).is_none() {
        return Err(front::no_profile(gateway, &profile).into());
    }
    let (out, queue) = mpsc::channel(OUT);
    let writer = scope.spawn(write(queue));
    let terms = Terms {
        // Whoever can start us with this home could read its token file as well.
        principal: Principal { id: PrincipalId::new("local"), is_admin: false },
        profile,
        rules: Rules::strict(limits.depth),
        takes_modern: true,
    };
    let client = Duplex::new(Arc::clone(gateway), terms, out);
    let mut lines = Lines { stdin: tokio::io::stdin(), buffer: BytesMut::new(), limit: limits.request_bytes };
    while let Some(line) = lines.next().await.context("read from stdin")? {
        match line {
            Ok(line) => client.take(&line).await,
            Err(problem) => client.say(Answer::error(None, RpcError::from(&problem)).to_bytes()).await,
        }
    }
    // What was asked before stdin ended is still answered; then the session ends, and with it the writer.
    client.close(LAST_ANSWERS).await;
    writer.await.context("write to stdout")?
}

async fn write(mut queue: mpsc::Receiver<Bytes>) -> anyhow::Result<()> {
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

struct Lines {
    stdin: tokio::io::Stdin,
    buffer: BytesMut,
    limit: usize,
}

impl Lines {
    /// The next line that is not blank; `None` at the end. A line over the limit is thrown away and told.
    async fn next(&mut self) -> std::io::Result<Option<Result<Bytes, Problem>>> {
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
