//! Many legacy sessions with an open event stream each, doing nothing: what do they weigh?

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::net::TcpStream;

use crate::client::{Client, Manner};
use crate::process::{Process, Sizes};

/// Time for buffers of the handshakes to be given back before memory is read.
const SETTLE: Duration = Duration::from_secs(2);

/// Memory with and without the streams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamMemory {
    pub(crate) before: Sizes,
    pub(crate) with_streams: Sizes,
}

#[allow(clippy::cast_precision_loss)]
impl StreamMemory {
    /// Resident memory that one stream adds, in KiB.
    pub(crate) fn kib_per_stream(&self, streams: usize) -> f64 {
        (self.with_streams.resident_kib as f64 - self.before.resident_kib as f64) / streams as f64
    }
}

/// Opens `count` streams, waits, reads the sizes, and checks that all are still open.
pub(crate) async fn run(url: &str, process: Process, count: usize) -> anyhow::Result<StreamMemory> {
    let before = process.sizes().context("read the sizes of the process")?;
    let mut streams = Vec::with_capacity(count);
    for number in 0..count {
        let client = Client::open(url, Manner::Legacy).await.with_context(|| format!("open session {number}"))?;
        streams.push(client.into_event_stream().await.with_context(|| format!("open stream {number}"))?);
    }
    tokio::time::sleep(SETTLE).await;
    let with_streams = process.sizes().context("read the sizes of the process")?;
    let closed = streams.iter().filter(|stream| is_closed(stream)).count();
    if closed > 0 {
        bail!("{closed} of {count} idle streams were closed");
    }
    Ok(StreamMemory { before, with_streams })
}

/// Whether the other side has ended the stream; comments that keep it alive are read away.
fn is_closed(stream: &TcpStream) -> bool {
    let mut bytes = [0; 1024];
    loop {
        match stream.try_read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}
