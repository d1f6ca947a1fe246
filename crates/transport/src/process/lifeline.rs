//! The socket between us and a guard: it carries the program's stdin to the guard and tells it by closing that we are
//! gone. It is the guard's own stdin, so no file descriptor has to be inherited under a number.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::Exit;

/// The byte that travels with the file descriptor.
const STDIN: u8 = b'0';

// === our end ===

/// Opens a lifeline, with the program's stdin already on its way. Returns our end and the guard's.
pub(super) fn open(stdin: &OwnedFd) -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [stdin.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("no room for a file descriptor"));
    }
    sendmsg(&ours, &[IoSlice::new(&[STDIN])], &mut control, SendFlags::empty())?;
    ours.set_nonblocking(true)?;
    Ok((ours, theirs))
}

/// Tells the guard to end everything, with SIGKILL after `grace`; at once when `grace` is zero.
pub(super) fn order_end(mut ours: &UnixStream, grace: Duration) {
    let millis = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
    // A guard that does not read has ended already, or sees the lifeline close.
    let _ = ours.write_all(&millis.to_le_bytes());
}

/// How the program ended, after the guard itself has ended.
pub(super) fn read_exit(mut ours: &UnixStream) -> Exit {
    let mut report = [0; 5];
    match ours.read_exact(&mut report).map(|()| report) {
        Ok([b'c', code @ ..]) => Exit::Code(i32::from_le_bytes(code)),
        Ok([b's', signal @ ..]) => Exit::Signal(i32::from_le_bytes(signal)),
        _ => Exit::Lost,
    }
}

// === the guard's end ===

/// Takes over the lifeline that is our stdin, and the program's stdin that came with it.
pub(super) fn accept() -> io::Result<(UnixStream, OwnedFd)> {
    let lifeline = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    recvmsg(&lifeline, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let stdin = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let stdin = stdin.ok_or_else(|| io::Error::other("the lifeline is open"))?;
    #[cfg(not(target_os = "linux"))]
    rustix::io::fcntl_setfd(&stdin, rustix::io::FdFlags::CLOEXEC)?;
    Ok((lifeline, stdin))
}

/// Reads an order to end. `None`: the other end is closed, so the grace is the one known from the start.
pub(super) fn read_order(mut lifeline: &UnixStream) -> Option<Duration> {
    let mut millis = [0; 4];
    lifeline.read_exact(&mut millis).ok()?;
    Some(Duration::from_millis(u32::from_le_bytes(millis).into()))
}

/// Reports how the program ended.
pub(super) fn report_exit(mut lifeline: &UnixStream, exit: Exit) {
    let (kind, value) = match exit {
        Exit::Code(code) => (b'c', code),
        Exit::Signal(signal) => (b's', signal),
        Exit::Lost => return,
    };
    let mut report = [kind; 5];
    report[1..].copy_from_slice(&value.to_le_bytes());
    // No one reads when we outlived the one who started us.
    let _ = lifeline.write_all(&report);
}
