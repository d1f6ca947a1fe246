"""A server on the official SDK with results that gateways like to lose: `_meta` on every level, audio, icons,
annotations, fields that no revision knows, and tools that wait and write down how they ended."""

import base64
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NOTHING = {"type": "object", "properties": {}}
FILE = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}
SOUND = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt ").decode()
PICTURE = base64.b64encode(bytes(range(256)) * 40).decode()

TOOLS = [
    types.Tool(name="everything_at_once", description="Returns every kind of content with metadata", input_schema=NOTHING),
    types.Tool(name="fails", description="Always fails, with metadata on the failure", input_schema=NOTHING),
    types.Tool(name="large", description="Returns a text of one million characters", input_schema=NOTHING),
    types.Tool(name="wait", description="Waits until it is cancelled and notes that in a file", input_schema=FILE),
    types.Tool(name="await_file", description="Waits until a file is there", input_schema=FILE),
]

EVERYTHING: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "über 日本 \u0000 \u2028 \"quoted\" \\ /", "_meta": {"example.com/block": [1, None, {"deep": True}]}},
        {"type": "image", "data": PICTURE, "mimeType": "image/png", "annotations": {"audience": ["user"], "priority": 0.25}},
        {"type": "audio", "data": SOUND, "mimeType": "audio/wav", "_meta": {"example.com/seconds": 1.5}},
        {
            "type": "resource",
            "resource": {"uri": "odd://text", "mimeType": "text/plain", "text": "inside", "_meta": {"example.com/inside": 1}},
            "annotations": {"lastModified": "2025-01-12T15:00:58Z"},
        },
        {
            "type": "resource_link",
            "uri": "odd://link?a=b&c=%20d",
            "name": "link",
            "title": "A link",
            "description": "with everything",
            "mimeType": "application/octet-stream",
            "size": 12345678901,
            "_meta": {"example.com/link": "kept"},
        },
    ],
    "structuredContent": {"float": 1.0, "large": 9007199254740993, "nothing": None, "list": [], "nested": {"a": {"b": [{}]}}},
    "_meta": {"example.com/result": {"kept": True, "order": ["z", "a"]}},
}


async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> Any:
    if params.name == "everything_at_once":
        return types.CallToolResult.model_validate(EVERYTHING)
    if params.name == "fails":
        text = types.TextContent(type="text", text="it failed as it should")
        return types.CallToolResult(content=[text], is_error=True, _meta={"example.com/why": "always"})
    if params.name == "large":
        return types.CallToolResult(content=[types.TextContent(type="text", text="abcdefghij" * 100_000)])
    if params.name == "wait":
        return await wait(Path((params.arguments or {})["file"]))
    if params.name == "await_file":
        file = anyio.Path((params.arguments or {})["file"])
        while not await file.exists():
            await anyio.sleep(0.02)
        return types.CallToolResult(content=[types.TextContent(type="text", text="it is there")])
    raise ValueError(f"unknown tool {params.name}")


async def wait(file: Path) -> types.CallToolResult:
    file.write_text("started")
    try:
        await anyio.sleep_forever()
    except BaseException:
        file.write_text("cancelled")
        raise


async def main() -> None:
    server = Server("odd", version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    sys.exit(anyio.run(main))
