"""A Python SDK of June 2025 at servers of each age, over Streamable HTTP (2025-03-26), HTTP+SSE and stdio: what it sees
through the gateway is what it sees without it."""

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import mcp.types as types
import pytest
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

pytestmark = pytest.mark.anyio

with open(os.environ["TOOLCRIB_ACCEPTANCE"], encoding="utf-8") as file:
    SETTING: dict[str, Any] = json.load(file)
with open(SETTING["scripts"], encoding="utf-8") as file:
    SCRIPT: dict[str, Any] = json.load(file)

SERVERS: dict[str, dict[str, Any]] = SETTING["servers"]
URL: str = os.environ.get("TOOLCRIB_URL", "")
SECONDS = 30
# How long a log message may come after the result, in seconds.
LATE = 5

# One server of each kind: behind these, and before them, everything else is the same.
CASES = [
    ("http", "rust-legacy-http"),
    ("sse", "rust-legacy"),
    ("http", "rust-modern"),
    ("sse", "rust-modern-http"),
    ("stdio", "rust-modern"),
    ("http", "typescript-http"),
    ("sse", "python"),
    ("sse", "everything-asks"),
    ("http", "everything-2025-08-http"),
    ("sse", "everything-2025-08-sse"),
    ("stdio", "everything-2025-03"),
    ("http", "python-old-http"),
    ("sse", "python-old-sse"),
    ("sse", "python-old-http"),
    ("stdio", "python-old"),
]


class Person:
    """Answers what a server asks and notes what was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: list[Any] = []
        self.logs: list[Any] = []

    async def say(self, _ctx: Any, params: types.CreateMessageRequestParams) -> Any:
        question = dump(params)
        question.pop("_meta", None)
        self.heard.append({"method": "sampling/createMessage", **question})
        heard = params.messages[-1].content.text
        if "refuse" in heard:
            return types.ErrorData(code=-1, message="the person said no")
        content = types.TextContent(type="text", text=f"{self.name} heard {heard}")
        return types.CreateMessageResult(role="assistant", content=content, model=f"model of {self.name}", stopReason="endTurn")

    async def roots(self, _ctx: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=f"file:///home/{self.name}", name=self.name)])

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(dump(params))

    def told(self) -> list[Any]:
        return [log for log in self.logs if log["level"] != "debug"]


def dump(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def settled(value: Any) -> Any:
    """Without what other tests change, a hop adds or this revision has no place for, and with one order of keys where an answer became a text."""
    if isinstance(value, dict):
        reserved = ("nextCursor", "_meta", "ttlMs", "cacheScope", "resultType", "execution")
        return {key: settled(inner) for key, inner in value.items() if key not in reserved and not (key == "isError" and not inner)}
    if isinstance(value, list):
        return [settled(inner) for inner in value]
    if isinstance(value, str):
        text = re.sub(r"changed \d+ times|\d+:\d\d:\d\d [AP]M", "changed often", value)
        return re.sub(r"\{.*\}", ordered, text, flags=re.DOTALL)
    return value


def ordered(found: re.Match[str]) -> str:
    try:
        return json.dumps(json.loads(found.group()), sort_keys=True)
    except ValueError:
        return found.group()


@asynccontextmanager
async def meet(streams: Any, name: str = "Ada") -> AsyncIterator[tuple[Person, ClientSession]]:
    person = Person(name)
    async with streams as (read, write, *_):
        session = ClientSession(
            read,
            write,
            read_timeout_seconds=timedelta(seconds=SECONDS),
            sampling_callback=person.say,
            list_roots_callback=person.roots,
            logging_callback=person.log,
        )
        async with session:
            await session.initialize()
            yield person, session


def process(target: dict[str, Any]) -> Any:
    environment = {**os.environ, **target.get("env", {})}
    return stdio_client(StdioServerParameters(command=target["command"], args=target.get("args", []), env=environment))


def straight(server: str) -> Any:
    target = SERVERS[server]
    if target.get("transport") == "sse":
        return sse_client(target["url"])
    return streamablehttp_client(target["url"]) if "url" in target else process(target)


def through(door: str, server: str) -> Any:
    if door == "sse":
        return sse_client(f"{URL.removesuffix('/mcp')}/sse/p/{server}")
    if door == "http":
        return streamablehttp_client(f"{URL}/p/{server}")
    gateway = SETTING["gateway"]["stdio"]
    return process({**gateway, "args": ["stdio", "--home", f"{SETTING['single_homes']}/{server}"]})


def twin(server: str) -> str:
    """The server itself if this client can speak to it without a bridge, else one of its family."""
    definition = SCRIPT["servers"][server]
    if definition["family"] == "rust":
        return "rust-legacy"
    return server.removesuffix("-http") if definition["era"] == "both" else server


async def step(person: Person, session: ClientSession, what: str, name: str = "", more: Any = None) -> Any:
    match what:
        case "list":
            return await pages(session, name)
        case "ping":
            return dump(await session.send_ping())
        case "call" | "progress":
            return dump(await session.call_tool(name, more or {}))
        case "logs":
            try:
                await session.set_logging_level("info")
            except McpError:
                pass  # not every server that logs lets itself be told how much
            person.logs = []
            result = dump(await session.call_tool(name, more or {}))
            # They may come on another stream than the result, and after it.
            with anyio.move_on_after(LATE):
                while len(person.told()) < 2:
                    await anyio.sleep(0.01)
            return {**result, "logs": person.told()[:2]}
        case "read":
            return dump(await session.read_resource(AnyUrl(name)))
        case "prompt":
            return dump(await session.get_prompt(name, more))
        case "complete":
            return dump(await session.complete(types.PromptReference(type="ref/prompt", name=name), more))
    raise ValueError(f"unknown step {what}")


async def pages(session: ClientSession, name: str) -> Any:
    method = {"templates": "list_resource_templates"}.get(name, f"list_{name}")
    items: list[Any] = []
    cursor = None
    while True:
        found = await getattr(session, method)(cursor)
        page = dump(found)
        key = next(key for key in page if isinstance(page[key], list))
        items += page[key]
        if (cursor := found.nextCursor) is None:
            return {key: sorted(items, key=lambda item: item["name"])}


async def play(person: Person, session: ClientSession, steps: list[Any]) -> list[Any]:
    """All steps, each with what came of it and what was asked on the way."""
    seen = []
    for each in steps:
        person.heard = []
        try:
            came = settled(await step(person, session, *each))
        except McpError as error:
            came = {"error": error.error.code}
        except ValueError as error:
            came = {"unreadable": type(error).__name__}
        seen.append({"step": " ".join(each[:2]), **came, "heard": settled(person.heard)})
    return seen


def fitting(step: dict[str, Any]) -> dict[str, Any]:
    """What a server says, with what this client's revision has a place for. Servers answer every client alike; the gateway
    leaves out what came with 2025-06-18, which the text says too."""
    step = {key: value for key, value in step.items() if key != "structuredContent"}
    if "tools" in step:
        step["tools"] = [{key: value for key, value in tool.items() if key != "outputSchema"} for tool in step["tools"]]
    return step


def compared(is_: dict[str, Any], should: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What may differ: tools that are listed for those who can be asked more, and which error it is."""
    should = fitting(should)
    if "tools" in is_:
        names = {tool["name"] for tool in should["tools"]}
        tools = [[tool for tool in each["tools"] if tool["name"] in names] for each in (is_, should)]
        return tuple({**each, "tools": kept} for each, kept in zip((is_, should), tools, strict=True))
    failed = [each for each in (is_, should) if "error" in each or each.get("isError")]
    # What this client cannot read from the server, it may well read from the gateway.
    return ({}, {}) if len(failed) == 2 or "unreadable" in should else (is_, should)


@pytest.mark.skipif(not URL, reason="no gateway in this run")
@pytest.mark.parametrize(("door", "server"), CASES)
async def test_each_step_is_the_same(door: str, server: str) -> None:
    steps = SCRIPT["families"][SCRIPT["servers"][server]["family"]]
    async with meet(straight(twin(server))) as (person, session):
        before = await play(person, session, steps)
    async with meet(through(door, server)) as (person, session):
        after = await play(person, session, steps)
    pairs = [compared(is_, should) for is_, should in zip(after, before, strict=True)]
    different = [pair for pair in pairs if pair[0] != pair[1]]
    assert not different, json.dumps(different, indent=1)


@pytest.mark.skipif(not URL, reason="no gateway in this run")
@pytest.mark.parametrize(("server", "tool"), [("rust-modern-http", "test_sampling"), ("python-old-sse", "ask_model")])
async def test_nobody_is_asked_anothers_question(server: str, tool: str) -> None:
    async def ask(name: str, door: str) -> None:
        async with meet(through(door, server), name) as (person, session):
            for number in range(3):
                result = str(await session.call_tool(tool, {"prompt": f"question {number} of {name}"}))
                assert f"{name} heard" in result and f"question {number} of {name}" in result, result
            assert len(person.heard) == 3 and all(f" of {name}" in str(question) for question in person.heard)

    await ask("the first", "http")
    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(ask, f"person {number}", "sse" if number % 2 else "http")


@pytest.mark.skipif(not URL, reason="no gateway in this run")
@pytest.mark.parametrize("door", ["http", "sse", "stdio"])
async def test_the_revision_is_its_newest(door: str) -> None:
    async with through(door, "python-old") as (read, write, *_), ClientSession(read, write) as session:
        assert (await session.initialize()).protocolVersion == "2025-03-26"
