"""The APIs as MCP servers over HTTP, on the official SDK. They outlive the gateway that calls them, as real ones do."""

import asyncio
import copy
import json
import pickle
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import uvicorn
from bfcl_eval.constants.executable_backend_config import STATELESS_CLASSES
from mcp.server.lowlevel import Server

from .dialogues import APIS, SERVERS, Dialogue, api, tools


@dataclass(frozen=True)
class ExecutedCall:
    """A call that reached an API."""

    turn: int
    server: str
    tool: str
    arguments: dict[str, Any]
    result: str

    def is_of(self, turn: int, server: str, tool: str, arguments: dict[str, Any]) -> bool:
        return (self.turn, self.server, self.tool, self.arguments) == (turn, server, tool, arguments)

    @property
    def text(self) -> str:
        return f"{self.tool}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


class World:
    """The APIs of one dialogue: their state, and all that was called."""

    def __init__(self) -> None:
        self.turn = 0
        self.instances: dict[str, Any] = {}
        self.executed: list[ExecutedCall] = []
        # Called before and after each call.
        self.watch: Callable[[str], bool] = lambda _moment: True

    def begin(self, dialogue: Dialogue) -> None:
        self.turn, self.executed = 0, []
        self.instances = {}
        for name in dialogue.entry["involved_classes"]:
            instance = api(SERVERS[name])()
            if name not in STATELESS_CLASSES:
                config = copy.deepcopy(dialogue.entry["initial_config"].get(name, {}))
                instance._load_scenario(config, long_context=dialogue.category == "long_context")
            self.instances[name] = instance

    def call(self, server: str, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """Executes a call; gives its text, in the package's own form, and whether it failed."""
        instance = self.instances.get(APIS[server])
        if instance is None:
            return f"Error during execution: {server} has no part in this dialogue", True
        failed = False
        try:
            # An API may keep the lists that it is given, and change them later.
            text = as_text(getattr(instance, tool)(**copy.deepcopy(arguments)))
        except Exception as error:  # The package's classes raise what they like.
            text, failed = f"Error during execution: {error}", True
        self.executed.append(ExecutedCall(self.turn, server, tool, arguments, text))
        return text, failed


def as_text(result: Any) -> str:
    """A result as the package's own checker writes it."""
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except TypeError:
            return str(result)
    return str(result)


def read_only(dialogues: list[Dialogue]) -> set[tuple[str, str]]:
    """The tools that changed nothing in any of these dialogues, what they keep for themselves included."""
    seen: dict[tuple[str, str], bool] = {}
    world = World()
    for dialogue in dialogues:
        world.begin(dialogue)
        before: dict[str, bytes] = {}
        for call in (call for turn in dialogue.turns for call in turn):
            instance = world.instances[APIS[call.server]]
            was = before.get(call.server) or pickle.dumps(vars(instance))
            world.call(call.server, call.tool, call.arguments)
            before[call.server] = pickle.dumps(vars(instance))
            key = (call.server, call.tool)
            seen[key] = seen.get(key, True) and was == before[call.server]
    return {key for key, is_same in seen.items() if is_same}


class Apis:
    """The running servers. A thread of their own has their event loop."""

    def __init__(self, world: World, reading: set[tuple[str, str]]) -> None:
        self.world = world
        self.urls: dict[str, str] = {}
        self.runners: list[uvicorn.Server] = []
        sockets = []
        for name in APIS:
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            self.urls[name] = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            app = self.server(name, reading).streamable_http_app(stateless_http=True, json_response=True)
            self.runners.append(uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_keep_alive=3600)))
            sockets.append(listener)

        async def serve() -> None:
            await asyncio.gather(*(one.serve(sockets=[at]) for one, at in zip(self.runners, sockets, strict=True)))

        self.thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self.thread.start()

    def close(self) -> None:
        for runner in self.runners:
            # What the gateway keeps open is not waited for.
            runner.should_exit = runner.force_exit = True
        self.thread.join(20)

    def server(self, name: str, reading: set[tuple[str, str]]) -> Server[Any]:
        listed = [
            types.Tool(
                name=tool,
                description=one["description"],
                input_schema=one["schema"],
                annotations=types.ToolAnnotations(read_only_hint=(name, tool) in reading),
            )
            for tool, one in tools(name).items()
        ]

        async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
            return types.ListToolsResult(tools=listed)

        async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            # `watch` may say that the call is lost on its way here.
            if not self.world.watch("call"):
                return types.CallToolResult(content=[types.TextContent(type="text", text="lost")], is_error=True)
            text, failed = self.world.call(name, params.name, dict(params.arguments or {}))
            self.world.watch("result")
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

        return Server(name, version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)
