//! Tries the update as a person would: the archive that was made is unpacked, a newer version of it is published over
//! `https` on this machine, and the program updates itself and takes it back.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{INDEX, IndexRequest, check_signatures, sign, test_key, write_index};
use crate::child;
use crate::dist::tools::must;
use crate::dist::trial::Trials;
use crate::dist::{Dist, archive};

/// Serves a folder over TLS on a free port, which it prints.
const SERVER: &str = "\
import functools, http.server, ssl, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
";

/// A server that ends with this value.
struct HttpsServer {
    child: Child,
    port: String,
}

/// The program that is unpacked, and what it is asked with.
struct Installation {
    program: PathBuf,
    home: PathBuf,
    ca: PathBuf,
    key: PathBuf,
    index: String,
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    check_signatures(dist, trials);
    let missing = ["python3", "openssl"]
        .into_iter()
        .find(|program| !child::answers(program, &["-V"]) && !child::answers(program, &["version"]));
    if let Some(missing) = missing {
        trials.skipped("an update over https", &format!("there is no `{missing}`"));
        return Ok(());
    }
    let stage = dist.stage("sign-test")?;
    let newer = newer(&dist.version);
    let published = publish(dist, &stage, &newer)?;
    let server = HttpsServer::start(&published, &stage)?;
    let name = format!("toolcrib-{}-{}", dist.version, dist.target);
    archive::unpack(&dist.folder.join(format!("{name}.tar.gz")), &stage)?;
    let installed = Installation {
        program: stage.join(&name).join("toolcrib"),
        home: stage.join("home"),
        ca: stage.join("ca.pem"),
        key: dist.workspace.root.join("packaging/keys/test.pub"),
        index: format!("https://127.0.0.1:{}/{INDEX}", server.port),
    };
    let own = dist.version.as_str();
    trials.run("the program of the archive finds the newer release", || {
        let said = installed.update(&["--check"])?;
        ensure!(said.contains(&format!("{newer} is there, this copy is {own}")), "it said: {said}");
        installed.is(own)
    });
    trials.run("an archive that was changed is refused", || {
        let archive = published.join(format!("toolcrib-{newer}-{}.tar.gz", dist.target));
        let whole = fs::read(&archive)?;
        let mut changed = whole.clone();
        *changed.last_mut().context("the archive is empty")? ^= 1;
        fs::write(&archive, changed)?;
        let refused = installed.update(&[]);
        fs::write(&archive, whole)?;
        let error = refused.err().context("it was installed")?;
        ensure!(error.to_string().contains("its SHA-256 is"), "it said: {error}");
        installed.is(own)
    });
    trials.run("it updates itself", || {
        installed.update(&[])?;
        installed.is(&newer)
    });
    trials.run("the newer one rolls back", || {
        installed.run(&["self-update", "--rollback"])?;
        installed.is(own)
    });
    Ok(())
}

/// A later version of the same length.
fn newer(version: &str) -> String {
    format!("9{}", version.get(1..).unwrap_or_default())
}

/// An archive whose program is the one that was made with another version in it, and its signed index.
fn publish(dist: &Dist<'_>, stage: &Path, newer: &str) -> Result<PathBuf> {
    let published = stage.join("published");
    let name = format!("toolcrib-{newer}-{}", dist.target);
    let folder = stage.join("newer").join(&name);
    fs::create_dir_all(&published)?;
    fs::create_dir_all(&folder)?;
    let program = folder.join("toolcrib");
    fs::copy(&dist.binary, &program).context("failed to copy the program")?;
    let bytes = fs::read(&program)?;
    fs::write(&program, replaced(&bytes, &dist.version, newer))?;
    let archive = published.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(stage.join("newer")).arg("-czf").arg(&archive).arg(&name);
    must(&mut tar, "tar")?;
    write_index(&IndexRequest { folder: &published, version: newer, epoch: dist.epoch })?;
    sign(&test_key(dist), &published.join(INDEX), &format!("toolcrib index version:{newer}"))?;
    Ok(published)
}

/// The same bytes with one text in place of another of its length.
fn replaced(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(old.len()).position(|window| window == old.as_bytes()) {
        out[at + found..at + found + old.len()].copy_from_slice(new.as_bytes());
        at += found + old.len();
    }
    out
}

// === impl HttpsServer ===

impl HttpsServer {
    /// Serves a folder with a certificate of an authority of its own, which goes to `ca.pem`.
    fn start(folder: &Path, stage: &Path) -> Result<Self> {
        let openssl =
            |arguments: &str| must(Command::new("openssl").args(arguments.split(' ')).current_dir(stage), "openssl");
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        openssl(&format!("req -x509 {key} -days 2 -subj /CN=tests -keyout ca.key -out ca.pem"))?;
        openssl(&format!("req -new {key} -subj /CN=127.0.0.1 -keyout server.key -out server.csr"))?;
        fs::write(stage.join("extensions"), "subjectAltName=IP:127.0.0.1\n")?;
        let files = "-in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile extensions -out server.pem";
        openssl(&format!("x509 -req -days 2 {files}"))?;
        let mut python = Command::new("python3");
        python.args(["-c", SERVER]).arg(folder).arg(stage.join("server.pem")).arg(stage.join("server.key"));
        let mut child = python.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut port = String::new();
        let stdout = child.stdout.take().context("the server has no output")?;
        BufReader::new(stdout).read_line(&mut port)?;
        ensure!(!port.trim().is_empty(), "the server did not start");
        Ok(Self { child, port: port.trim().to_owned() })
    }
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        // One that has ended needs none.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Installation ===

impl Installation {
    fn update(&self, more: &[&str]) -> Result<String> {
        let paths = [&self.ca, &self.key].map(|path| path.to_string_lossy().into_owned());
        let asked = ["self-update", "--index", &self.index, "--ca", &paths[0], "--key", &paths[1]];
        self.run(&[&asked, more].concat())
    }

    /// What the program prints, or its errors as an error.
    fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear().env("TOOLCRIB_HOME", &self.home).stdin(Stdio::null());
        let output = command.output().context("failed to start the program")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn is(&self, version: &str) -> Result<()> {
        let said = self.run(&["--version"])?;
        ensure!(said.trim() == format!("toolcrib {version}"), "it says that it is `{}`", said.trim());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_replaced_wherever_it_is() {
        assert_eq!(newer("0.1.0"), "9.1.0");
        assert_eq!(replaced(b"a0.1.0b0.1.00.1.0", "0.1.0", "9.1.0"), b"a9.1.0b9.1.09.1.0");
        assert_eq!(replaced(b"", "0.1.0", "9.1.0"), b"");
    }
}
