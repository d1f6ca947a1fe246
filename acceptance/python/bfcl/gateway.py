"""The gateway as a program, with the APIs as its servers, the script as its model, and agents for each way to show tools.
It may be killed at any moment; who asks it something starts it again."""

import http.client
import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .apis import Apis
from .engine import Engine

SECONDS = 90
SHOWN = ("all", "menu", "native")
# Room for the longest dialogue: nothing is shortened, so that what the model saw can be compared.
LIMITS = "{rounds: 1000, calls: 1000, calls_per_turn: 100, result_size: 4MiB, time: 1h}"
INSTRUCTIONS = "Do what the user asks with your tools. When it is done, say so shortly."


class LostError(Exception):
    """The gateway went away while it was asked something."""


class Gateway:
    """One home, and the process that serves it."""

    def __init__(self, binary: Path, home: Path, apis: Apis, engine: Engine, prices: dict[str, str]) -> None:
        self.binary, self.home = binary, home
        self.program: subprocess.Popen[bytes] | None = None
        self.starts = 0
        # Several threads may want to.
        self.killing = threading.Lock()
        for folder in ("servers", "profiles", "models", "agents"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        for name, url in apis.urls.items():
            text = f"name: {name}\ntransport: http\nurl: {url}\nstart: eager\n"
            (home / f"servers/{name}.yaml").write_text(text, encoding="utf-8")
        (home / "profiles/default.yaml").write_text("name: default\n", encoding="utf-8")
        costs = ", ".join(f"{name}: {price}" for name, price in prices.items())
        for name, wire in (("reference", "chat"), ("reference-messages", "messages")):
            text = f"name: {name}\nwire: {wire}\nurl: {engine.url}\nwindow: 2000000\nprices: {{{costs}}}\n"
            (home / f"models/{name}.yaml").write_text(text, encoding="utf-8")
        for shown in SHOWN:
            # Only this wire has a search of tools that is answered by us.
            model = "reference-messages" if shown == "native" else "reference"
            text = f"name: {shown}\ninstructions: {INSTRUCTIONS}\nmodels: [{model}]\ntools_shown: {shown}\n"
            # Not the other agents.
            text += f"tools: {json.dumps([f'{name}/*' for name in apis.urls])}\nlimits: {LIMITS}\non_unknown: ask\n"
            (home / f"agents/{shown}.yaml").write_text(text, encoding="utf-8")

    # === the process ===

    def start(self) -> None:
        ready = self.home / "ready.json"
        ready.unlink(missing_ok=True)
        arguments = [self.binary, "serve", "--listen", "127.0.0.1:0", "--home", self.home, "--ready-file", ready]
        with (self.home / "gateway.log").open("ab") as log:
            self.program = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=log, cwd=self.home)
        self.starts += 1
        end = time.monotonic() + SECONDS
        while not ready.exists():
            assert self.program.poll() is None, f"the gateway ended, see {self.home / 'gateway.log'}"
            assert time.monotonic() < end, "expected the gateway to serve"
            time.sleep(0.01)
        self.address = urlsplit(json.loads(ready.read_text(encoding="utf-8"))["url"]).netloc
        self.token = (self.home / "state/token").read_text(encoding="utf-8").strip()
        self.connection = http.client.HTTPConnection(self.address, timeout=SECONDS)
        # Whether a run that answered takes another message. Without that each turn is a run of its own.
        self.converses = "/runs/{run}/message" in self.ask("GET", "/openapi.json")["paths"]

    def kill(self) -> None:
        """Kills it. It is gone when this returns."""
        with self.killing:
            if self.program is not None:
                self.program.kill()
                self.program.wait(SECONDS)

    def restart(self) -> None:
        self.kill()
        self.start()

    def close(self) -> int | None:
        program = self.program
        if program is None:
            return None
        program.terminate()
        return program.wait(SECONDS)

    # === runs ===

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """What an operation answers.

        Raises `LostError` when the gateway is gone; then it serves again, and whether it did what was asked is open."""
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            self.connection.request(method, f"/api/v1{path}", json.dumps(body) if body is not None else None, headers)
            response = self.connection.getresponse()
            status, text = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            self.restart()
            raise LostError(str(error)) from error
        answer = json.loads(text)
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def get(self, path: str) -> dict[str, Any]:
        """What can be asked twice."""
        while True:
            try:
                return self.ask("GET", path)
            except LostError:
                continue

    def begin(self, shown: str, words: str) -> str:
        """Starts a run, once; gives its id."""
        before = self.get("/runs?limit=1")["total"]
        try:
            return self.ask("POST", "/runs", {"agent": shown, "task": words})["run"]
        except LostError:
            answer = self.get("/runs?limit=1")
            if answer["total"] > before:
                return answer["runs"][0]["run"]
            return self.begin(shown, words)

    def say(self, run: str, words: str) -> None:
        """Says something to a run that answered, once."""
        before = self.messages(run)
        try:
            self.ask("POST", f"/runs/{run}/message", {"message": words})
        except LostError:
            if self.messages(run) == before:
                self.say(run, words)

    def entries(self, run: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            answer = self.get(f"/runs/{run}/entries?limit=1000&after={len(found)}")
            found += answer["entries"]
            if not answer["entries"]:
                return found

    def messages(self, run: str) -> int:
        return sum(entry["event"] == "said" for entry in self.entries(run))

    def settle(self, run: str, body: dict[str, Any]) -> None:
        try:
            self.ask("POST", f"/runs/{run}/settle", body)
        except LostError:
            # If it was not taken, the run still waits.
            pass
