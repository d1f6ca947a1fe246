"""A plain loop in place of the gateway: shows that servers, script and judge are right. It knows only `all` tools."""

import contextlib
import json
import urllib.request
from typing import Any

from anyio.from_thread import start_blocking_portal
from mcp import Client

from .apis import Apis
from .dialogues import validator
from .engine import Engine


class StandIn:
    """The official client at each server, and the model over HTTP."""

    def __init__(self, apis: Apis, engine: Engine) -> None:
        self.engine = engine
        self.stack = contextlib.ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal())
        self.clients: dict[str, tuple[Client, str]] = {}
        self.tools: list[dict[str, Any]] = []
        for server, url in apis.urls.items():
            client = self.stack.enter_context(self.portal.wrap_async_context_manager(Client(url)))
            for tool in self.portal.call(client.list_tools).tools:
                name = f"{server}_{tool.name}"
                self.clients[name] = (client, tool.name)
                function = {"name": name, "description": tool.description, "parameters": tool.input_schema}
                self.tools.append({"type": "function", "function": function})
        self.messages: list[dict[str, Any]] = []

    def close(self) -> None:
        self.stack.close()

    def begin(self) -> None:
        self.messages = []

    def say(self, words: str) -> str:
        """A turn of the user, to its end; gives what the model says last."""
        self.messages.append({"role": "user", "content": words})
        while True:
            body = {"model": "reference", "tools": self.tools, "messages": self.messages}
            url, kind = f"{self.engine.url}/chat/completions", {"Content-Type": "application/json"}
            request = urllib.request.Request(url, json.dumps(body).encode(), kind)
            with urllib.request.urlopen(request) as response:
                message = json.load(response)["choices"][0]["message"]
            self.messages.append(message)
            if "tool_calls" not in message:
                return message["content"]
            for call in message["tool_calls"]:
                text = self.call(call["function"]["name"], json.loads(call["function"]["arguments"]))
                self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        client, tool = self.clients[name]
        fault = next(validator(name.split("_", 1)[0], tool).iter_errors(arguments), None)
        if fault:
            return f"invalid arguments: {fault.message}"
        result = self.portal.call(client.call_tool, tool, arguments)
        return result.content[0].text
