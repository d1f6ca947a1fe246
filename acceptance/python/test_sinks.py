"""The audit log at receivers that other people wrote: rsyslog over TCP and TLS, and OTLP as the official Protocol Buffers
read it. Receivers are stopped, killed and started again; nothing may be lost or come out of order."""

import datetime
import ipaddress
import json
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from google.protobuf import json_format
from mcp import Client
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from doors import GATEWAY

RSYSLOGD = shutil.which("rsyslogd", path="/usr/sbin:/usr/bin:/usr/local/sbin")
# How long anything here may take.
SECONDS = 90

pytestmark = [
    pytest.mark.gateway,
    pytest.mark.anyio,
    pytest.mark.skipif(RSYSLOGD is None, reason="rsyslog is not installed"),
]

RULES = """
global(workDirectory="{folder}" defaultNetstreamDriverCAFile="{folder}/ca.pem"
       defaultNetstreamDriverCertFile="{folder}/cert.pem" defaultNetstreamDriverKeyFile="{folder}/key.pem")
main_queue(queue.type="direct")
module(load="imtcp")
template(name="line" type="string" string="%hostname%\\t%app-name%\\t%msgid%\\t%structured-data%\\t%msg%\\n")
input(type="imtcp" port="{plain}" address="127.0.0.1" ruleset="plain")
input(type="imtcp" port="{tls}" address="127.0.0.1" ruleset="tls"
      streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="anon")
ruleset(name="plain" queue.type="direct") {{ action(type="omfile" file="{folder}/plain.log" template="line") }}
ruleset(name="tls" queue.type="direct") {{ action(type="omfile" file="{folder}/tls.log" template="line") }}
"""

SETTINGS = """
[[audit.sink]]
name = "archive"
type = "file"
path = "logs/audit.jsonl"

[[audit.sink]]
name = "plain"
type = "syslog"
address = "tcp://127.0.0.1:{plain}"

[[audit.sink]]
name = "tls"
type = "syslog"
address = "tls://127.0.0.1:{tls}"
ca = "{folder}/ca.pem"

[[audit.sink]]
name = "collector"
type = "otlp"
url = "http://127.0.0.1:{otlp}/v1/logs"
headers = {{Authorization = "env:COLLECTOR_AUTHORIZATION"}}
"""


class Collector:
    """Takes what the official messages can read, and refuses every third request."""

    def __init__(self) -> None:
        self.records: list[dict[str, str]] = []
        self.wrong: list[str] = []
        self.requests = 0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(collector.take(self.path, self.headers, body))
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path: str, headers: object, body: bytes) -> int:
        self.requests += 1
        if self.requests % 3 == 0:
            return 503
        if path != "/v1/logs" or headers["Authorization"] != "Bearer collector":
            self.wrong.append(f"{path} {headers}")
            return 401
        try:
            # Names, types and numbers that the definition does not have are errors.
            request = json_format.Parse(body, ExportLogsServiceRequest())
        except json_format.ParseError as error:
            self.wrong.append(str(error))
            return 400
        for logs in request.resource_logs:
            assert ("service.name", "toolcrib") in [(a.key, a.value.string_value) for a in logs.resource.attributes]
            for scope in logs.scope_logs:
                self.records += [
                    {a.key: a.value.string_value or str(a.value.int_value) for a in record.attributes}
                    for record in scope.log_records
                ]
        return 200

    @property
    def seqs(self) -> list[int]:
        return [int(record["toolcrib.seq"]) for record in self.records]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def certificates(folder: Path) -> None:
    """An authority, and the certificate that it gave to 127.0.0.1."""
    now = datetime.datetime.now(datetime.UTC)

    def issued(name: str, by: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None, is_authority: bool):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer, signer = by or (subject, key)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
            .sign(signer, hashes.SHA256())
        )
        return subject, key, certificate.public_bytes(serialization.Encoding.PEM)

    subject, signer, authority = issued("authority", None, True)
    _, key, own = issued("rsyslog", (subject, signer), False)
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "ca.pem").write_bytes(authority)
    (folder / "cert.pem").write_bytes(own)
    (folder / "key.pem").write_bytes(key.private_bytes(*pem))


class Rsyslog:
    """The program, with a file for what comes over each port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plain, self.tls = free_port(), free_port()
        certificates(folder)
        rules = RULES.format(folder=folder, plain=self.plain, tls=self.tls)
        (folder / "rsyslog.conf").write_text(rules, encoding="utf-8")
        self.start()

    def start(self) -> None:
        assert RSYSLOGD is not None
        (self.folder / "pid").unlink(missing_ok=True)
        arguments = [RSYSLOGD, "-n", "-f", self.folder / "rsyslog.conf", "-i", self.folder / "pid"]
        self.program = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually("rsyslog to listen", lambda: all(listens(port) for port in (self.plain, self.tls)))

    def signal(self, number: signal.Signals) -> None:
        self.program.send_signal(number)

    def lines(self, name: str) -> list[list[str]]:
        path = self.folder / f"{name}.log"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [line.split("\t") for line in text.splitlines()]

    def seqs(self, name: str) -> list[int]:
        return [int(line[3].split(' seq="')[1].split('"')[0]) for line in self.lines(name) if len(line) == 5]


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def eventually(what: str, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"expected {what}"
        time.sleep(0.05)


def in_order(received: list[int]) -> int:
    """The last event; none came before its predecessors, some may have come again."""
    known = 0
    for seq in received:
        assert seq <= known + 1, f"event {seq} came after {known}"
        known = max(known, seq)
    return known


class Gateway:
    """A gateway of its own with these sinks."""

    def __init__(self, home: Path, rsyslog: Rsyslog, collector: Collector) -> None:
        assert GATEWAY is not None
        self.binary, self.home = GATEWAY["stdio"]["command"], home
        (home / "servers").mkdir(parents=True)
        server = f"name: try\ncommand: {self.binary}\nargs: [example, basics]\nstart: eager\n"
        (home / "servers/try.yaml").write_text(server, encoding="utf-8")
        otlp = collector.server.server_address[1]
        settings = SETTINGS.format(plain=rsyslog.plain, tls=rsyslog.tls, folder=rsyslog.folder, otlp=otlp)
        (home / "config.toml").write_text(settings, encoding="utf-8")
        self.start()

    def start(self) -> None:
        ready = self.home / "ready.json"
        ready.unlink(missing_ok=True)
        arguments = [self.binary, "serve", "--listen", "127.0.0.1:0", "--home", self.home, "--ready-file", ready]
        environment = {"COLLECTOR_AUTHORIZATION": "Bearer collector", "PATH": "/usr/bin:/bin"}
        self.program = subprocess.Popen(arguments, env=environment, stderr=subprocess.DEVNULL)
        eventually("the gateway to serve", ready.exists)
        self.url = json.loads(ready.read_text(encoding="utf-8"))["url"]

    async def call(self, count: int) -> None:
        """So many calls, sixteen at a time."""
        async with Client(self.url, read_timeout_seconds=SECONDS) as client:

            async def some() -> None:
                for number in range(count // 16):
                    await client.call_tool("call_tool", {"name": "try/add", "arguments": {"a": number, "b": 1}})

            async with anyio.create_task_group() as group:
                for _ in range(16):
                    group.start_soon(some)

    def seqs(self) -> list[int]:
        lines = (self.home / "logs/audit.jsonl").read_text(encoding="utf-8").splitlines()
        # Checkpoints have a number of their own.
        return [row["seq"] for row in map(json.loads, lines) if "number" not in row]

    def end(self, number: signal.Signals) -> None:
        self.program.send_signal(number)
        self.program.wait(SECONDS)


@pytest.fixture
def receivers(tmp_path: Path) -> Iterator[tuple[Rsyslog, Collector]]:
    (tmp_path / "rsyslog").mkdir()
    rsyslog, collector = Rsyslog(tmp_path / "rsyslog"), Collector()
    yield rsyslog, collector
    rsyslog.program.kill()
    rsyslog.program.wait(SECONDS)
    collector.server.shutdown()


async def test_nothing_is_lost_or_reordered(receivers: tuple[Rsyslog, Collector], tmp_path: Path) -> None:
    rsyslog, collector = receivers
    gateway = Gateway(tmp_path / "home", rsyslog, collector)
    try:
        await gateway.call(160)
        # It takes connections and reads nothing, and is then killed with what is in its buffers.
        rsyslog.signal(signal.SIGSTOP)
        await gateway.call(160)
        rsyslog.signal(signal.SIGKILL)
        rsyslog.program.wait(SECONDS)
        await gateway.call(160)
        rsyslog.start()
        # The gateway is killed too: the next one continues.
        gateway.end(signal.SIGKILL)
        gateway.start()
        await gateway.call(160)
    finally:
        gateway.end(signal.SIGTERM)
    assert gateway.program.returncode == 0
    written = gateway.seqs()
    assert written == list(range(1, len(written) + 1)), "a file has each event once"
    # The kill may take events of the calls just before it, and nothing of the others.
    assert len(written) >= 480
    last = len(written)
    # Whoever was away until the end gets the rest after the next start.
    gateway.start()
    try:
        eventually("every event at rsyslog", lambda: all(max(rsyslog.seqs(name)) >= last for name in ("plain", "tls")))
        eventually("every event at the collector", lambda: max(collector.seqs) >= last)
    finally:
        gateway.end(signal.SIGTERM)
    last = len(gateway.seqs())
    assert in_order(rsyslog.seqs("plain")) == last
    assert in_order(rsyslog.seqs("tls")) == last
    assert in_order(collector.seqs) == last
    assert collector.wrong == []

    host, program, message_id, data, text = rsyslog.lines("tls")[0]
    assert (program, message_id != "-") == ("toolcrib", True), host
    assert data.startswith('[meta sequenceId="1"][toolcrib@32473 seq="1" '), data
    assert text.startswith("CEF:0|Toolcrib|toolcrib|"), text
    assert collector.records[0]["user.id"], collector.records[0]
