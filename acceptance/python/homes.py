"""A gateway of a test's own: definitions in a folder, its server process, and the commands that ask it."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from doors import GATEWAY, SERVERS

# A model on a busy machine takes its time.
SECONDS = 240


class Home:
    """A folder of definitions. `url` is where its gateway serves, while it does."""

    def __init__(self, folder: Path) -> None:
        assert GATEWAY is not None
        self.folder, self.binary, self.url = folder, GATEWAY["stdio"]["command"], ""
        self.environment = os.environ | GATEWAY["stdio"]["env"] | {"TOOLCRIB_HOME": str(folder), "NO_COLOR": "1"}
        for kind in ("servers", "models", "agents", "profiles"):
            (folder / kind).mkdir()

    def write(self, name: str, keys: dict[str, Any]) -> None:
        """Writes the definition `KIND/NAME`; its values are JSON, which YAML reads as it is."""
        lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items())
        (self.folder / f"{name}.yaml").write_text(f"name: {name.split('/')[1]}\n{lines}", encoding="utf-8")

    def server(self, name: str, **more: Any) -> None:
        """Defines one of the servers of the run."""
        transport = "stdio" if "command" in SERVERS[name] else "http"
        self.write(f"servers/{name}", {"transport": transport, "start": "eager"} | SERVERS[name] | more)

    def toolcrib(self, *arguments: str, fails: bool = False) -> str:
        """Runs a command; gives what it prints."""
        command = [self.binary, *arguments]
        ran = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, encoding="utf-8", timeout=SECONDS
        )
        assert fails or ran.returncode == 0, (arguments, ran.stdout, ran.stderr)
        return ran.stdout

    @contextlib.contextmanager
    def served(self) -> Iterator[str]:
        """Serves the folder, once its servers are listed; gives the URL."""
        ready = self.folder / "ready.json"
        command = [self.binary, "serve", "--listen", "127.0.0.1:0", "--ready-file", ready]
        with (self.folder / "gateway.log").open("wb") as log:
            program = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment)
        try:
            wait_for(lambda: ready.exists() or program.poll() is not None, "the gateway to serve")
            self.url = json.loads(ready.read_text(encoding="utf-8"))["url"]
            yield self.url
        finally:
            program.terminate()
            program.wait(SECONDS)


def wait_for(done: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < end, f"expected {what}"
        time.sleep(0.02)
