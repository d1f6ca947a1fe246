//! A program that is not a server: its stdin and stdout are a connection to a script in the process of a test.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Passes bytes on until stdin or the connection ends.
pub(super) fn run(address: &str) -> io::Result<()> {
    let connection = TcpStream::connect(address)?;
    connection.set_nodelay(true)?;
    let mut up = connection.try_clone()?;
    std::thread::spawn(move || {
        // Either side may go at any time; the other half then ends the process.
        let _ = copy(&mut io::stdin().lock(), &mut up);
        let _ = up.shutdown(Shutdown::Both);
    });
    copy(&mut &connection, &mut io::stdout().lock())
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&bytes[..read])?;
        to.flush()?;
    }
}
