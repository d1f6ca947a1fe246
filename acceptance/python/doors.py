"""The ways in: the same calls straight to a server, through the meta-tools, by listed names, over HTTP and over stdio.

`TOOLCRIB_ACCEPTANCE` names a JSON file that says where everything is; `cargo xtask real` writes it:
`{"gateway": {"url", "stdio": {command, args, env}} or null, "servers": {name: {command, args, env, cwd} or {url}},
"files": folder, "repository": folder}`. Without a gateway only the straight door is open.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

with open(os.environ["TOOLCRIB_ACCEPTANCE"], encoding="utf-8") as file:
    SETTING: dict[str, Any] = json.load(file)

GATEWAY: dict[str, Any] | None = SETTING["gateway"]
URL: str = os.environ.get("TOOLCRIB_URL") or (GATEWAY or {}).get("url", "")
SERVERS: dict[str, dict[str, Any]] = SETTING["servers"]
FILES: str = SETTING["files"]
REPOSITORY: str = SETTING["repository"]

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
# A call that takes longer than this has been lost.
SECONDS = 30


def mode(era: str) -> str:
    return "legacy" if era == "legacy" else "auto"


@dataclass(frozen=True)
class Door:
    """One way in, for one era: `straight`, `meta`, `listed` or `stdio`."""

    way: str
    era: str

    def __str__(self) -> str:
        return f"{self.way}-{self.era}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Way"]:
        if self.way == "straight":
            yield Straight(self.era)
            return
        profile = "direct" if self.way == "listed" else None
        connection = stdio(self.era) if self.way == "stdio" else http(profile, self.era)
        async with connection as client:
            yield Listed(client) if self.way == "listed" else Meta(client)


class Way:
    """What a test does with an open door."""

    async def call(self, server: str, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        raise NotImplementedError


@dataclass
class Straight(Way):
    """No gateway: each call has its own connection to the server."""

    era: str

    async def call(self, server: str, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        async with straight(server, self.era) as client:
            return await client.call_tool(tool, arguments or {}, **options)


@dataclass
class Meta(Way):
    """Through `call_tool`, with the full id."""

    client: Client

    async def call(self, server: str, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        call = {"name": f"{server}/{tool}", "arguments": arguments or {}}
        return await self.client.call_tool("call_tool", call, **options)


@dataclass
class Listed(Way):
    """By the name that `tools/list` shows."""

    client: Client

    async def call(self, server: str, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        return await self.client.call_tool(f"{server}_{tool}", arguments or {}, **options)


def http(profile: str | None = None, era: str = "modern") -> AbstractAsyncContextManager[Client]:
    """The official client at the gateway's endpoint for `profile`."""
    return connected(URL if profile is None else f"{URL}/p/{profile}", era)


def stdio(era: str = "modern") -> AbstractAsyncContextManager[Client]:
    """The official client with the gateway as its child process."""
    assert GATEWAY is not None
    return connected(process(GATEWAY["stdio"]), era)


def straight(server: str, era: str = "modern") -> AbstractAsyncContextManager[Client]:
    """The official client at the server itself."""
    target = SERVERS[server]
    return connected(streamable_http_client(target["url"]) if "url" in target else process(target), era)


@asynccontextmanager
async def connected(target: Any, era: str) -> AsyncIterator[Client]:
    """A connected client. An error inside comes out as it is, without the groups that task groups wrap it in."""
    try:
        async with Client(target, mode=mode(era), read_timeout_seconds=SECONDS, cache=None) as client:
            yield client
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


def process(target: dict[str, Any]) -> StdioServerParameters:
    # `TZ` and the like reach servers behind the gateway too; without them the two sides would tell different times.
    environment = {**os.environ, **target.get("env", {})}
    return StdioServerParameters(
        command=target["command"], args=target.get("args", []), env=environment, cwd=target.get("cwd")
    )


WAYS = ["meta", "listed", "stdio"] if GATEWAY else ["straight"]
DOORS = [Door(way, era) for way in WAYS for era in ("legacy", "modern")]
