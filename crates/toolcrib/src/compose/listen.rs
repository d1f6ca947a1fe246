//! Binding the address; when it is taken, telling who holds it where that can be known.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use toolcrib_base::{Kind, Problem};

/// Binds, or says why not and what to do.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Problem> {
    TcpListener::bind(address).await.map_err(|error| {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Problem::new(Kind::Address, format!("cannot listen on `{address}`: {error}"))
                .hint("choose another address with `--listen`, or `--listen 127.0.0.1:0` for any free port");
        }
        let holder = holder(address.port()).map(|who| format!(" by {who}")).unwrap_or_default();
        Problem::new(Kind::Address, format!("the address `{address}` is already in use{holder}"))
            .hint("stop that program, or take any free port with `--listen 127.0.0.1:0`")
    })
}

/// Which program listens on a port: from `/proc`, for our own user's processes.
fn holder(port: u16) -> Option<String> {
    let inode = listening_inode(&std::fs::read_to_string("/proc/net/tcp").ok()?, port)
        .or_else(|| listening_inode(&std::fs::read_to_string("/proc/net/tcp6").ok()?, port))?;
    let wanted = format!("socket:[{inode}]");
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) else { continue };
        let Ok(files) = std::fs::read_dir(process.path().join("fd")) else { continue };
        for file in files.flatten() {
            if std::fs::read_link(file.path()).is_ok_and(|link| link.to_string_lossy() == wanted) {
                let command = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                return Some(format!("`{}` (process {pid})", command.trim()));
            }
        }
    }
    None
}

/// The inode of the socket that listens on `port`, in the table of `/proc/net/tcp` (proc(5)): column 2 is the local
/// address in hexadecimal, column 4 the state with 0A for listening, column 10 the inode.
fn listening_inode(table: &str, port: u16) -> Option<u64> {
    let ending = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let listens = columns.get(1)?.ends_with(&ending) && *columns.get(3)? == "0A";
        listens.then(|| columns.get(9)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_names_its_holder() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let problem = bind(address).await.unwrap_err();
        assert!(problem.message.contains(&address.to_string()), "{problem}");
        assert!(problem.hint.as_deref().unwrap().contains("--listen 127.0.0.1:0"), "{problem}");
        if cfg!(target_os = "linux") {
            assert!(problem.message.contains(&format!("process {}", std::process::id())), "{problem}");
        }
    }
}
