//! The gateway's door over stdin and stdout: lines in, lines out, requests concurrently.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::{Limits, ProfileName};
use toolcrib_gateway::duplex::{OUT, Terms};
use toolcrib_gateway::{Duplex, Gateway};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::trace::Transport;
use toolcrib_protocol::{Answer, RequestTrace, RpcError};
use toolcrib_session::Principal;

use crate::lines::{self, Lines};

/// How long requests may continue after stdin has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(30);

/// Serves until stdin ends.
pub(crate) async fn serve(
    gateway: &Arc<Gateway>,
    scope: &Scope,
    limits: &Limits,
    profile: ProfileName,
) -> anyhow::Result<()> {
    let snapshot = gateway.snapshot(&profile)?;
    let (out, queue) = mpsc::channel(OUT);
    let writer = scope.spawn(lines::write(queue));
    let terms = Terms {
        // Anyone who can start us with this home could read its token file as well.
        principal: Principal::member("local"),
        snapshot,
        is_owner: true,
        rules: Rules::strict(limits.depth),
        takes_modern: true,
    };
    let client = Duplex::new(Arc::clone(gateway), terms, out);
    let trace = RequestTrace { transport: Some(Transport::Pipe), ..RequestTrace::default() };
    let mut lines = Lines::of_stdin(limits.request_bytes);
    while let Some(line) = lines.next().await.context("read from stdin")? {
        match line {
            Ok(line) => client.take(&line, trace.clone()).await,
            Err(problem) => client.say(Answer::error(None, RpcError::from(&problem)).to_bytes()).await,
        }
    }
    // What was asked before stdin ended is still answered; then the session ends, and with it the writer.
    client.close(LAST_ANSWERS).await;
    writer.await.context("write to stdout")?
}
