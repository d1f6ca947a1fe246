//! Syslog over a stream (RFC 6587, and RFC 5425 with TLS).
//!
//! Syslog has no acknowledgement: what was written may lie in a buffer of a receiver that is killed. So a connection is
//! ended by our half from time to time, and what was sent on it counts as received once the receiver, which reads up to
//! that end, has ended its own half. A connection that breaks before takes all of that with it, and it is sent again.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolcrib_transport::stream::{ByteStream, TlsClient, TlsClientFiles};

use super::{Delivery, DeliveryError, DeliveryFuture, Sender, Target};
use crate::Entry;
use crate::format::{SyslogBody, framed, syslog};

/// How much of what a receiver says is read; it should say nothing.
const CHATTER: usize = 64 * 1024;

/// What the text of messages is.
pub type SyslogMessage = SyslogBody;

/// A receiver of syslog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyslogConfig {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// TLS, if it speaks that.
    pub tls: Option<TlsClientFiles>,
    /// What the text of messages is.
    pub message: SyslogMessage,
}

/// The connection to a receiver.
#[derive(Debug)]
pub(super) struct SyslogTarget {
    config: SyslogConfig,
    sender: Sender,
    stream: Option<ByteStream>,
}

// === impl SyslogConfig ===

impl SyslogConfig {
    pub(super) fn place(&self) -> String {
        let scheme = if self.tls.is_some() { "tls" } else { "tcp" };
        if self.host.contains(':') {
            return format!("{scheme}://[{}]:{}", self.host, self.port);
        }
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

// === impl SyslogTarget ===

impl SyslogTarget {
    pub(super) fn new(config: SyslogConfig, sender: Sender) -> Self {
        Self { config, sender, stream: None }
    }

    async fn connect(&self) -> Result<ByteStream, DeliveryError> {
        let tls = match &self.config.tls {
            Some(tls) => {
                let files = tls.clone();
                // Read again for each connection, so that a file that was replaced counts.
                let read = tokio::task::spawn_blocking(move || TlsClient::read(&files)).await;
                let read = read.map_err(|error| DeliveryError(error.to_string()))?;
                Some(read.map_err(|error| DeliveryError(error.to_string()))?)
            }
            None => None,
        };
        let connected = ByteStream::connect(&self.config.host, self.config.port, tls.as_ref()).await;
        connected.map_err(|error| DeliveryError(format!("cannot connect to `{}`: {error}", self.config.place())))
    }

    async fn write(&mut self, entries: &[Entry]) -> Result<Delivery, DeliveryError> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        let mut bytes = Vec::new();
        for entry in entries {
            bytes.extend_from_slice(framed(&syslog(entry, &self.sender.origin, self.config.message)).as_bytes());
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let written = within(self.sender.patience, "the receiver reads nothing", stream.write(rest)).await?;
            if written == 0 {
                return Err(DeliveryError("the receiver closed the connection".to_owned()));
            }
            rest = &rest[written..];
        }
        within(self.sender.patience, "the receiver reads nothing", stream.flush()).await?;
        // Kept only now: one that failed, or whose future was dropped, is not used again.
        self.stream = Some(stream);
        Ok(Delivery::Sent)
    }

    /// Ends our half and waits for the other one.
    async fn end(&mut self) -> Result<(), DeliveryError> {
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        // One that has ended before we did has not read to our end: it was stopped, whatever it had in its memory.
        tokio::task::yield_now().await;
        if let Ok(Ok(0) | Err(_)) = tokio::time::timeout(Duration::ZERO, stream.read(&mut [0])).await {
            return Err(DeliveryError("the receiver closed the connection".to_owned()));
        }
        within(self.sender.patience, "the receiver reads nothing", stream.shutdown()).await?;
        let ended = async {
            let (mut chatter, mut buffer) = (0, [0; 1024]);
            loop {
                match stream.read(&mut buffer).await {
                    Ok(0) => return Ok(()),
                    // TLS that ends without its own word of an end: many receivers do that. The kernel of one that was
                    // killed before it had read everything sends a reset instead.
                    Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
                    Err(error) => return Err(error),
                    Ok(read) => chatter += read,
                }
                if chatter > CHATTER {
                    return Err(std::io::Error::other("it answers, which is not syslog"));
                }
            }
        };
        within(self.sender.patience, "the receiver did not read to the end", ended).await
    }
}

impl Target for SyslogTarget {
    fn deliver<'a>(&'a mut self, entries: &'a [Entry]) -> DeliveryFuture<'a, Delivery> {
        Box::pin(self.write(entries))
    }

    fn confirm(&mut self) -> DeliveryFuture<'_, ()> {
        Box::pin(self.end())
    }
}

/// What a receiver does within a time.
async fn within<T>(
    most: Duration,
    late: &str,
    step: impl Future<Output = std::io::Result<T>>,
) -> Result<T, DeliveryError> {
    match tokio::time::timeout(most, step).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(DeliveryError(format!("the connection broke: {error}"))),
        Err(_) => Err(DeliveryError(format!("{late} within {} ms", most.as_millis()))),
    }
}
