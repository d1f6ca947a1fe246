"""A server on an official SDK of June 2025: over stdio, HTTP+SSE (2024-11-05) or Streamable HTTP (2025-03-26).

    old_server.py stdio | sse | http

Over HTTP it listens on the port in `PORT`, at `/sse` or `/mcp`. It asks as servers of its time ask: over HTTP on the
stream that belongs to no call."""

import base64
import os
import sys
from typing import Any

import anyio
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.lowlevel import Server
from mcp.types import SamplingMessage, TextContent

server = FastMCP("old", instructions="Says what it did.", host="127.0.0.1", port=int(os.environ.get("PORT", "0")))


@server.tool()
def echo(message: str) -> str:
    """Says what it hears"""
    return f"heard {message}"


@server.tool()
def picture() -> list[Any]:
    """Draws"""
    return ["a picture", Image(data=base64.b64decode("iVBORw0KGgo="), format="png")]


@server.tool()
def fails(why: str) -> str:
    """Fails"""
    raise ValueError(why)


@server.tool()
async def steps(ctx: Context) -> str:
    """Tells how far it is"""
    for step in range(1, 4):
        await ctx.report_progress(step, 3)
        await anyio.sleep(0.05)
    return "three steps"


@server.tool()
async def logs(ctx: Context) -> str:
    """Tells what it does"""
    for level in ("debug", "info", "error"):
        await ctx.log(level, f"this is {level}", logger_name="old")
    return "told three times"


@server.tool()
async def ask_model(prompt: str, ctx: Context) -> str:
    """Asks the client's model"""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message([message], max_tokens=10, system_prompt="Be short")
    return f"{answer.model} said {answer.content.model_dump_json(exclude_none=True)}"


@server.tool()
async def ask_roots(ctx: Context) -> str:
    """Asks where the client works"""
    answer = await ctx.session.list_roots()
    return ", ".join(f"{root.name}={root.uri}" for root in answer.roots)


@server.resource("old://text", mime_type="text/plain")
def text() -> str:
    """A text"""
    return "an old text"


@server.resource("old://bytes", mime_type="application/octet-stream")
def octets() -> bytes:
    """Some bytes"""
    return b"\x00\xff"


@server.resource("old://item/{number}")
def item(number: str) -> str:
    """One of many"""
    return f"item {number}"


@server.prompt()
def greeting(name: str) -> str:
    """Greets"""
    return f"Say hello to {name}"


run_session = Server.run


async def run_session_alone(self: Server, *arguments: Any, **options: Any) -> None:
    """A session that fails, such as by an answer after its end, ends alone, as in later releases."""
    try:
        await run_session(self, *arguments, **options)
    except Exception as error:
        print(f"a session has failed: {error!r}", file=sys.stderr)


Server.run = run_session_alone

if __name__ == "__main__":
    server.run({"stdio": "stdio", "sse": "sse", "http": "streamable-http"}[sys.argv[1]])
