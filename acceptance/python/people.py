"""A client with somebody behind it who answers questions, and what it does with a server: the steps of `../scripts.json`,
each with everything that came of it."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from doors import GATEWAY, SECONDS, SERVERS, SETTING, URL, mode, process
from sameness import plain

with open(SETTING["scripts"], encoding="utf-8") as file:
    SCRIPT: dict[str, Any] = json.load(file)


ATTEMPTS = 5
# How long a log message may come after the result, in seconds.
LATE = 5


class Person:
    """Answers what a server asks and notes what was asked."""

    def __init__(self, target: Any, era: str, name: str = "Ada") -> None:
        self.era, self.name = era, name
        self.heard: list[Any] = []
        self.logs: list[Any] = []
        self.client = Client(
            target,
            mode=mode(era),
            read_timeout_seconds=SECONDS,
            cache=None,
            log_level="info",
            sampling_callback=self.say,
            list_roots_callback=self.roots,
            elicitation_callback=self.fill,
            logging_callback=self.log,
        )

    def note(self, method: str, params: Any) -> None:
        question = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.heard.append({"method": method, **{key: value for key, value in question.items() if key not in ("_meta", "mode")}})

    async def say(self, _ctx: Any, params: types.CreateMessageRequestParams) -> Any:
        self.note("sampling/createMessage", params)
        heard = params.messages[-1].content
        heard = heard[0].text if isinstance(heard, list) else heard.text
        if "refuse" in heard:
            return types.ErrorData(code=-1, message="the person said no")
        content = types.TextContent(type="text", text=f"{self.name} heard {heard}")
        return types.CreateMessageResult(model=f"model of {self.name}", role="assistant", content=content, stop_reason="endTurn")

    async def roots(self, _ctx: Any) -> types.ListRootsResult:
        self.heard.append({"method": "roots/list"})
        return types.ListRootsResult(roots=[types.Root(uri=f"file:///home/{self.name}", name=self.name)])

    async def fill(self, _ctx: Any, params: Any) -> types.ElicitResult:
        self.note("elicitation/create", params)
        for action in ("decline", "cancel"):
            if action in params.message:
                return types.ElicitResult(action=action)
        fields = params.requested_schema["properties"]
        return types.ElicitResult(action="accept", content={key: self.value(key, field) for key, field in fields.items()})

    def value(self, key: str, field: dict[str, Any]) -> Any:
        choices = field.get("enum") or [choice["const"] for choice in field.get("oneOf", field.get("anyOf", []))]
        formats = {"email": "ada@example.com", "uri": "https://example.com/", "date": "2026-01-02", "date-time": "2026-01-02T03:04:05Z"}
        match field:
            case {"type": "boolean"}:
                return True
            case {"type": "array", "items": items}:
                return [self.value(key, items)]
            case {"type": "number" | "integer"}:
                return field.get("minimum", 7)
        return choices[1] if choices else formats.get(field.get("format", ""), f"{key} of {self.name}")

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(params.model_dump(mode="json", by_alias=True, exclude_none=True))

    def told(self) -> list[Any]:
        return [log for log in self.logs if log["level"] != "debug"]

    # === what a client does ===

    async def step(self, what: str, name: str = "", more: Any = None) -> Any:
        client = self.client
        match what:
            case "list":
                return await self.pages(name)
            case "ping":
                return {} if self.era == "modern" else plain(await client.send_ping())
            case "call":
                return plain(await client.call_tool(name, more or {}))
            case "progress":
                steps: list[Any] = []

                async def progress(step: float, total: float | None, message: str | None) -> None:
                    steps.append([step, total, message])

                # A client drops the steps that it reads together with the result: the last one often, more on a busy machine.
                # And a modern one hears none between a question and its answer.
                for _ in range(ATTEMPTS):
                    steps.clear()
                    asked = len(self.heard)
                    result = plain(await client.call_tool(name, more or {}, progress_callback=progress))
                    if len(steps) >= 2 and len(self.heard) == asked:
                        break
                return {**result, "progress": steps[:2]}
            case "logs":
                if self.era == "legacy":
                    try:
                        await client.set_logging_level("info")
                    except MCPError:
                        pass  # not every server that logs lets itself be told how much
                self.logs = []
                result = plain(await client.call_tool(name, more or {}))
                # They may come on another stream than the result, and after it.
                with anyio.move_on_after(LATE):
                    while len(self.told()) < 2:
                        await anyio.sleep(0.01)
                return {**result, "logs": self.told()[:2]}
            case "read":
                return plain(await client.read_resource(name))
            case "prompt":
                return plain(await client.get_prompt(name, more))
            case "complete":
                return plain(await client.complete(types.PromptReference(type="ref/prompt", name=name), more))
        raise ValueError(f"unknown step {what}")

    async def pages(self, name: str) -> Any:
        method = {"templates": "list_resource_templates"}.get(name, f"list_{name}")
        items, cursor = [], None
        while True:
            page = plain(found := await getattr(self.client, method)(cursor=cursor))
            key = next(key for key in page if isinstance(page[key], list))
            items += page[key]
            if (cursor := found.next_cursor) is None:
                return {key: sorted(items, key=lambda item: item["name"])}

    async def play(self, steps: list[Any]) -> list[Any]:
        """All steps, each with what came of it and what was asked on the way."""
        seen = []
        for step in steps:
            self.heard = []
            try:
                came = settled(await self.step(*step))
            except MCPError as error:
                came = {"error": error.code}
            # Questions that are asked at the same time have no order.
            heard = sorted(settled(self.heard), key=json.dumps)
            seen.append({"step": " ".join(step[:2]), **came, "heard": heard})
        return seen


def settled(value: Any) -> Any:
    """Without what other tests change, and with one order of keys where a server put an answer into a text."""
    if isinstance(value, dict):
        return {key: settled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [settled(inner) for inner in value]
    if isinstance(value, str):
        return re.sub(r"\{.*\}", ordered, re.sub(r"changed \d+ times", "changed often", value), flags=re.DOTALL)
    return value


def ordered(found: re.Match[str]) -> str:
    try:
        return json.dumps(json.loads(found.group()), sort_keys=True)
    except ValueError:
        return found.group()


def straight(server: str) -> Any:
    target = SERVERS[server]
    if target.get("transport") == "sse":
        return sse_client(target["url"])
    return streamable_http_client(target["url"]) if "url" in target else process(target)


def through(door: str, server: str) -> Any:
    """The gateway in front of this server alone."""
    assert GATEWAY is not None
    if door == "sse":
        return sse_client(f"{URL.removesuffix('/mcp')}/sse/p/{server}")
    if door == "http":
        return streamable_http_client(f"{URL}/p/{server}")
    return process({**GATEWAY["stdio"], "args": ["stdio", "--home", f"{SETTING['single_homes']}/{server}"]})


@asynccontextmanager
async def meet(target: Any, era: str, name: str = "Ada") -> AsyncIterator[Person]:
    person = Person(target, era, name)
    done = False
    try:
        async with person.client:
            yield person
            done = True
    except BaseExceptionGroup as group:
        # The SDK's reader for HTTP+SSE fails when a message arrives while the client leaves, whoever sent it.
        if not done or group.split(anyio.BrokenResourceError)[1] is not None:
            raise
