//! Stdin and stdout without a thread for each read and write, where they are pipes or sockets, as clients have them: the
//! task that waits reads and writes itself. They do not block meanwhile, and are left as they were found. A terminal is
//! shared with other programs, and a file never waits: those are left to the runtime's threads.

use std::io;
use std::os::fd::BorrowedFd;

use bytes::BytesMut;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::fcntl_dupfd_cloexec;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};

/// How much room a read gets, in bytes.
const READ: usize = 64 * 1024;
/// Below lie stdin, stdout and stderr.
const FIRST_FREE: i32 = 3;

/// What is read from.
pub(super) enum Input {
    Pipe(Receiver, #[allow(dead_code, reason = "its drop is its use")] FoundFlags<'static>),
    Thread(tokio::io::Stdin),
}

/// What is written to.
pub(super) enum Output {
    Pipe(Sender, #[allow(dead_code, reason = "its drop is its use")] FoundFlags<'static>),
    Thread(tokio::io::Stdout),
}

/// How a file was found, which it is again when this is dropped.
pub(super) struct FoundFlags<'f> {
    file: BorrowedFd<'f>,
    flags: OFlags,
}

// === impl Input ===

impl Input {
    /// Standard input. Has to be called in a runtime.
    pub(super) fn stdin() -> Self {
        match receiver(rustix::stdio::stdin()) {
            Ok((receiver, found)) => Self::Pipe(receiver, found),
            Err(_) => Self::Thread(tokio::io::stdin()),
        }
    }

    /// Appends what is there to `buffer`; zero at the end. Cancel-safe.
    pub(super) async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        buffer.reserve(READ);
        match self {
            Self::Pipe(receiver, _) => receiver.read_buf(buffer).await,
            Self::Thread(stdin) => stdin.read_buf(buffer).await,
        }
    }
}

// === impl Output ===

impl Output {
    /// Standard output. Has to be called in a runtime.
    pub(super) fn stdout() -> Self {
        match sender(rustix::stdio::stdout()) {
            Ok((sender, found)) => Self::Pipe(sender, found),
            Err(_) => Self::Thread(tokio::io::stdout()),
        }
    }

    /// Writes all of it, so that its reader can have it.
    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(sender, _) => sender.write_all(bytes).await,
            Self::Thread(stdout) => {
                stdout.write_all(bytes).await?;
                stdout.flush().await
            }
        }
    }
}

// === impl FoundFlags ===

impl<'f> FoundFlags<'f> {
    /// Has a pipe or a socket not block; an error for everything else.
    fn unblock(file: BorrowedFd<'f>) -> io::Result<Self> {
        if !matches!(FileType::from_raw_mode(fstat(file)?.st_mode), FileType::Fifo | FileType::Socket) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let flags = fcntl_getfl(file)?;
        fcntl_setfl(file, flags | OFlags::NONBLOCK)?;
        Ok(Self { file, flags })
    }
}

impl Drop for FoundFlags<'_> {
    fn drop(&mut self) {
        // Who shares it may be gone, and so may it.
        let _ = fcntl_setfl(self.file, self.flags);
    }
}

fn receiver(file: BorrowedFd<'_>) -> io::Result<(Receiver, FoundFlags<'_>)> {
    let found = FoundFlags::unblock(file)?;
    Ok((Receiver::from_owned_fd_unchecked(fcntl_dupfd_cloexec(file, FIRST_FREE)?)?, found))
}

fn sender(file: BorrowedFd<'_>) -> io::Result<(Sender, FoundFlags<'_>)> {
    let found = FoundFlags::unblock(file)?;
    Ok((Sender::from_owned_fd_unchecked(fcntl_dupfd_cloexec(file, FIRST_FREE)?)?, found))
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::net::UnixStream;

    use super::*;

    async fn check(input: OwnedFd, output: OwnedFd) {
        let text: Vec<u8> = (0..1_000_000_u32).map(|number| u8::try_from(number % 251).unwrap()).collect();
        {
            let (mut receiver, _found) = receiver(input.as_fd()).unwrap();
            let (mut sender, _found) = sender(output.as_fd()).unwrap();
            let mut read = vec![0; text.len()];
            // Either of them would wait for ever for the other one, if it waited in a system call.
            let (written, all) = tokio::join!(sender.write_all(&text), receiver.read_exact(&mut read));
            written.unwrap();
            assert_eq!(all.unwrap(), text.len());
            assert!(read == text);
        }
        for file in [&input, &output] {
            assert!(!fcntl_getfl(file).unwrap().contains(OFlags::NONBLOCK), "as it was found");
        }
        drop(input);
        let (mut sender, _found) = sender(output.as_fd()).unwrap();
        assert_eq!(sender.write_all(b"a").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn pipes_and_sockets_are_read_and_written_in_one_thread_and_left_as_they_were() {
        let (input, output) = rustix::pipe::pipe().unwrap();
        check(input, output).await;
        let (input, output) = UnixStream::pair().unwrap();
        check(input.into(), output.into()).await;
    }

    #[tokio::test]
    async fn what_is_shared_or_never_waits_stays_as_it_is() {
        let file = tempfile::tempfile().unwrap();
        assert!(receiver(file.as_fd()).is_err() && sender(file.as_fd()).is_err());
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
    }
}
