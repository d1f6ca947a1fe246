//! Real sockets: Unix, TCP with mutual TLS, vsock, and Firecracker's own on its host.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use toolcrib_agent::driver::{DriveRuns, Rest};
use toolcrib_base::task::Scope;
use toolcrib_runner::{Address, Dialer, Listener, Runner, RunnerHost, TcpProtection, Trust};
use toolcrib_testkit::certificate::CertificateRequest;
use toolcrib_transport::stream::{TlsClient, TlsClientFiles, TlsServer, TlsServerFiles};

use crate::world::{World, start, trust};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves what comes, until the scope closes.
fn serve(scope: &Scope, host: &RunnerHost, listener: Listener, secret: bool) {
    let host = host.clone();
    scope.spawn(listener.serve_each(scope.clone(), move |stream, name| {
        let host = host.clone();
        async move {
            let trust = match name {
                Some(name) if !secret => Trust::Certificate(name, None),
                _ => trust(),
            };
            host.serve(stream, trust).await;
        }
    }));
}

async fn runs_there(
    listen: Address,
    dial: impl FnOnce(Address) -> Dialer,
    server: TcpProtection,
    own: Trust,
) -> String {
    let (world, host) = World::new();
    let listener = Listener::bind(listen, server).await.unwrap();
    let address = listener.address();
    let scope = Scope::new();
    serve(&scope, &host, listener, matches!(own, Trust::Secret(_)));
    let stream = dial(address).connect().await.unwrap();
    let stop = scope.stop_signal();
    scope.spawn(async move { Runner::new("one", own).serve(stream, stop).await });
    crate::wire::ready(&host, 1).await;
    let name = host.runners()[0].name.clone();
    host.start(start("run_1")).await.unwrap();
    let rest = tokio::time::timeout(PATIENCE, world.rest("run_1")).await.unwrap();
    assert!(matches!(rest, Ok(Rest::Waiting(_))), "{rest:?}");
    assert_eq!(world.executed("run_1").len(), 3);
    scope.close(Duration::ZERO).await;
    name
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn over_a_unix_socket_of_the_owner_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("runners.sock");
    let address = Address::Unix(path.clone());
    let listener = Listener::bind(address.clone(), TcpProtection::None).await.unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    let taken = Listener::bind(address.clone(), TcpProtection::None).await.unwrap_err();
    assert!(taken.to_string().contains("another process listens there"), "{taken}");
    drop(listener);
    assert!(!path.exists());
    // One that a dead process left.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let dial = |address| Dialer::new(address, TcpProtection::None);
    assert_eq!(runs_there(address.clone(), dial, TcpProtection::None, trust()).await, "one");
    let path = folder.path().join("file");
    let address = Address::Unix(path.clone());
    let absent = dial(address.clone()).connect().await.unwrap_err();
    assert!(absent.to_string().starts_with(&format!("`unix:{}`: ", path.display())), "{absent}");
    std::fs::write(&path, "a file").unwrap();
    let refused = Listener::bind(address, TcpProtection::None).await.unwrap_err();
    assert!(refused.to_string().contains("something else than a socket"), "{refused}");
}

struct Certificates {
    folder: TempDir,
}

impl Certificates {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let authority = CertificateRequest::new("authority").authority().signed_by_itself();
        let other = CertificateRequest::new("another authority").authority().signed_by_itself();
        for (name, issuer) in [("gateway", &authority), ("runner", &authority), ("stranger", &other)] {
            let request = CertificateRequest::new(name);
            let request = if name == "gateway" { request.loopback() } else { request };
            let issued = request.signed_by(issuer);
            std::fs::write(folder.path().join(format!("{name}.pem")), issued.pem()).unwrap();
            std::fs::write(folder.path().join(format!("{name}.key")), issued.key_pem()).unwrap();
        }
        std::fs::write(folder.path().join("authority.pem"), authority.pem()).unwrap();
        Self { folder }
    }

    fn server(&self) -> TcpProtection {
        let path = |name: &str| self.folder.path().join(name);
        let files = TlsServerFiles {
            certificate: path("gateway.pem"),
            key: path("gateway.key"),
            client_authorities: path("authority.pem"),
        };
        TcpProtection::Server(TlsServer::read(&files).unwrap())
    }

    fn client(&self, own: Option<&str>) -> TcpProtection {
        let path = |name: String| self.folder.path().join(name);
        let own = own.map(|name| (path(format!("{name}.pem")), path(format!("{name}.key"))));
        let files = TlsClientFiles { authorities: Some(path("authority.pem".to_owned())), own };
        TcpProtection::Client(TlsClient::read(&files).unwrap())
    }
}

#[tokio::test]
async fn over_tcp_with_certificates_on_both_sides() {
    let certificates = Certificates::new();
    let address = || "tcp:127.0.0.1:0".parse::<Address>().unwrap();
    let client = certificates.client(Some("runner"));
    let dial = |address| Dialer::new(address, client);
    let own = Trust::Certificate("gateway".to_owned(), None);
    assert_eq!(runs_there(address(), dial, certificates.server(), own).await, "runner");
    for own in [None, Some("stranger")] {
        let listener = Listener::bind(address(), certificates.server()).await.unwrap();
        let dialer = Dialer::new(listener.address(), certificates.client(own));
        let (opened, stream) = tokio::join!(async { listener.accept().await.unwrap().open().await }, dialer.connect());
        assert!(opened.is_err(), "{own:?} was let in");
        // A client of TLS 1.3 sees it when it reads.
        if let Ok(mut stream) = stream {
            assert!(!matches!(stream.read(&mut [0]).await, Ok(1..)));
        }
    }
    for refused in [
        Listener::bind(address(), TcpProtection::None).await.map(drop).unwrap_err(),
        Dialer::new(address(), TcpProtection::None).connect().await.map(drop).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("TCP needs a certificate"), "{refused}");
    }
}

/// What Firecracker does on its host: it reads the line and joins the machine's port.
async fn firecracker(path: &Path, machine: Option<&Path>, answer: &'static str) -> Scope {
    let scope = Scope::new();
    let listener = UnixListener::bind(path).unwrap();
    let machine = machine.map(Path::to_owned);
    scope.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            line.push(stream.read_u8().await.unwrap());
        }
        assert_eq!(line, b"CONNECT 1024\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
        if let Some(machine) = machine {
            let mut inside = tokio::net::UnixStream::connect(machine).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut inside).await;
        }
    });
    scope
}

#[tokio::test]
async fn over_the_socket_of_firecracker() {
    let folder = TempDir::new().unwrap();
    let (inside, outside) = (folder.path().join("inside.sock"), folder.path().join("v.sock"));
    let machine = firecracker(&outside, Some(&inside), "OK 1073741824\n").await;
    let dial = |_| Dialer::new(Address::Firecracker(outside.clone(), 1024), TcpProtection::None);
    assert_eq!(runs_there(Address::Unix(inside.clone()), dial, TcpProtection::None, trust()).await, "one");
    machine.close(Duration::ZERO).await;
    for (answer, expected) in [
        ("", "no one listens at port 1024"),
        ("NO\n", "something else than Firecracker"),
        ("OK x\n", "something else than Firecracker"),
        ("OK 1111111111111111111111111111111111111111\n", "something else than Firecracker"),
    ] {
        std::fs::remove_file(&outside).unwrap();
        let machine = firecracker(&outside, None, answer).await;
        let error = dial(Address::Unix(inside.clone())).connect().await.unwrap_err();
        assert!(error.to_string().contains(expected), "{answer:?}: {error}");
        machine.close(Duration::ZERO).await;
    }
    let listened = Listener::bind(Address::Firecracker(outside.clone(), 1024), TcpProtection::None).await.unwrap_err();
    let hint = format!("listen at `unix:{}_1024`", outside.display());
    assert!(listened.to_string().contains(&hint), "{listened}");
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn over_vsock_where_the_kernel_has_it() {
    // CID 1 is this machine itself, where the kernel has a loopback for it; nowhere else can a test reach a machine.
    let address = "vsock:1:47123".parse::<Address>().unwrap();
    let dial = |address| Dialer::new(address, TcpProtection::None);
    let Ok(listener) = Listener::bind("vsock:any:47123".parse().unwrap(), TcpProtection::None).await else {
        let error = dial(address).connect().await.unwrap_err();
        assert!(error.to_string().starts_with("`vsock:1:47123`: "), "{error}");
        return;
    };
    match dial(address.clone()).connect().await {
        Ok(_) => {
            drop(listener);
            assert_eq!(
                runs_there("vsock:any:47123".parse().unwrap(), |_| dial(address), TcpProtection::None, trust()).await,
                "one"
            );
        }
        Err(error) => assert!(error.to_string().starts_with("`vsock:1:47123`: "), "{error}"),
    }
}
