"""A scripted model behind HTTP, for chat completions and Messages: it says the reference calls of a turn in one answer
and, once they have results, ends the turn with a text. It counts tokens as an engine with a prompt cache does."""

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .dialogues import APIS, Dialogue, Reference

FIND, CALL = "find_tools", "call_tool"
# Bytes of a token.
TOKEN = 4
ID = re.compile(rf"\b({'|'.join(APIS)})/(\w+)")


@dataclass
class Count:
    """Tokens of requests and answers. `cached` is in `input`; `shared` is what a cache that outlives dialogues has."""

    requests: int = 0
    input: int = 0
    cached: int = 0
    shared: int = 0
    output: int = 0

    def __iadd__(self, other: "Count") -> "Count":
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


@dataclass
class Said:
    """One answer of the model."""

    text: str = ""
    # Id, name and arguments.
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)


@dataclass
class Asked:
    """A request in either wire's form."""

    tools: list[str]
    results: dict[str, str]
    # Names of tools that a search has brought in, by the search's id.
    brought: dict[str, list[str]]
    # What the provider's prompt is made of.
    prompt: bytes


class Script:
    """What the model says in one dialogue. All that it needs is in the request, so a lost answer is said again."""

    def __init__(self, dialogue: Dialogue, shown: str) -> None:
        self.dialogue, self.shown = dialogue, shown
        self.turn = 0
        # The last results of a turn's references, in their order.
        self.seen: list[str | None] = []
        # Where searches found what was needed: from 1; 0 is not at all.
        self.ranks: dict[tuple[int, str], int] = {}
        self.searches: set[str] = set()
        self.lost: set[tuple[int, str]] = set()
        self.head = b""
        self.count = Count()
        self.problems: list[str] = []

    def say(self, asked: Asked) -> Said:
        turn = self.dialogue.turns[self.turn]
        if self.shown != "all":
            searches = self.search(turn, asked)
            if searches:
                return Said(calls=searches)
        ids = [f"t{self.turn}r{place}" for place in range(len(turn))]
        self.seen = [asked.results.get(id) for id in ids]
        calls = [
            (id, *self.call(reference, asked))
            for id, reference, result in zip(ids, turn, self.seen, strict=True)
            if result is None
        ]
        return Said(calls=calls) if calls else Said(text=self.last())

    def last(self) -> str:
        """What the model says when a turn is done."""
        return f"Turn {self.turn + 1} is done."

    def call(self, reference: Reference, asked: Asked) -> tuple[str, dict[str, Any]]:
        if self.shown == "menu":
            return CALL, {"name": f"{reference.server}/{reference.tool}", "arguments": reference.arguments}
        name = exposed(reference)
        if name not in asked.tools:
            self.problems.append(f"turn {self.turn}: `{name}` is not among the {len(asked.tools)} tools of the request")
        return name, reference.arguments

    def search(self, turn: list[Reference], asked: Asked) -> list[tuple[str, str, dict[str, Any]]]:
        """Searches that are to be made first: with the user's words, then for each missing tool with the model's own."""
        found = {id: self.found(id, text, asked) for id, text in asked.results.items() if "find" in id}
        known = {name for names in found.values() for name in names}
        needed = list(dict.fromkeys(f"{one.server}/{one.tool}" for one in turn))
        missing = [name for name in needed if name not in known]
        first = f"t{self.turn}find"
        if first in found:
            before = {name for id, names in found.items() if not id.startswith(f"t{self.turn}find") for name in names}
            for name in (name for name in needed if name not in before):
                listed = found[first]
                self.ranks.setdefault((self.turn, name), listed.index(name) + 1 if name in listed else 0)
        wanted = {}
        if missing and first not in found:
            wanted[first] = self.dialogue.words(self.turn)
        elif missing:
            own = {f"{first}{place}": name for place, name in enumerate(needed) if name in missing}
            wanted = {id: own_words(name) for id, name in own.items() if id not in found}
            if not wanted:
                self.lost |= {(self.turn, name) for name in missing}
        self.searches |= set(wanted)
        return [(id, FIND, {"query": query}) for id, query in wanted.items()]

    def found(self, id: str, text: str, asked: Asked) -> list[str]:
        """The ids of tools in an answer to a search, best first."""
        if id in asked.brought:
            names = [re.match(rf"({'|'.join(APIS)})_(\w+)$", name) for name in asked.brought[id]]
            return [f"{name[1]}/{name[2]}" for name in names if name]
        return list(dict.fromkeys(f"{server}/{tool}" for server, tool in ID.findall(text)))


def exposed(reference: Reference) -> str:
    """The name under which the gateway shows a tool to models."""
    return f"{reference.server}_{reference.tool}"


def own_words(tool: str) -> str:
    """What a model that knows what it wants asks for, when the user's words did not find it."""
    server, name = tool.split("/")
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("_", " ").lower()
    return f"{words} {server}"


class QuietServer(ThreadingHTTPServer):
    """Says nothing of connections that a killed gateway leaves."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Engine:
    """The HTTP server. One dialogue at a time."""

    def __init__(self) -> None:
        self.script: Script | None = None
        self.last_head = b""
        # Called before and after an answer is made.
        self.watch: Callable[[str], bool] = lambda _moment: True
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # The head and the body are two writes.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    status, kind, reply = engine.respond(self.path, json.loads(body))
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(reply)))
                    self.end_headers()
                    self.wfile.write(reply)
                except (BrokenPipeError, ConnectionResetError):
                    # The gateway was killed.
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def begin(self, dialogue: Dialogue, shown: str) -> Script:
        self.script = Script(dialogue, shown)
        return self.script

    def respond(self, path: str, body: dict[str, Any]) -> tuple[int, str, bytes]:
        script = self.script
        wire = {"/v1/chat/completions": "chat", "/v1/messages": "messages"}.get(path)
        if script is None or wire is None:
            return 404, "application/json", json.dumps({"error": {"message": f"nothing at {path}"}}).encode()
        self.watch("asked")
        asked = of_chat(body) if wire == "chat" else of_messages(body)
        said = script.say(asked)
        count = self.counted(script, asked, said)
        script.count += count
        self.watch("answered")
        if not body.get("stream"):
            whole = chat_message(said, count) if wire == "chat" else messages_message(said, count)
            return 200, "application/json", json.dumps(whole).encode()
        events = chat_events(said, count) if wire == "chat" else messages_events(said, count)
        return 200, "text/event-stream", b"".join(events)

    def counted(self, script: Script, asked: Asked, said: Said) -> Count:
        """What a request costs. The head of the last request of the dialogue is cached, from the first byte on."""
        first = not script.head
        own = common(script.head, asked.prompt)
        shared = common(self.last_head, asked.prompt) if first else own
        if first:
            self.last_head = asked.prompt
        script.head = asked.prompt
        written = len(said.text.encode()) + sum(len(json.dumps([name, given])) for _, name, given in said.calls)
        return Count(1, tokens(len(asked.prompt)), own // TOKEN, max(own, shared) // TOKEN, max(1, tokens(written)))


def tokens(size: int) -> int:
    return -(-size // TOKEN)


def common(one: bytes, other: bytes) -> int:
    """The length of the common head."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def packed(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


# === chat completions ===


def of_chat(body: dict[str, Any]) -> Asked:
    tools = body.get("tools", [])
    results = {
        one["tool_call_id"]: one["content"]
        if isinstance(one["content"], str)
        else "".join(part.get("text", "") for part in one["content"])
        for one in body["messages"]
        if one["role"] == "tool"
    }
    prompt = b"\n".join([*map(packed, tools), *map(packed, body["messages"])])
    return Asked([one["function"]["name"] for one in tools], results, {}, prompt)


def chat_usage(count: Count) -> dict[str, Any]:
    details = {"cached_tokens": count.cached, "cache_write_tokens": count.input - count.cached}
    return {
        "prompt_tokens": count.input,
        "completion_tokens": count.output,
        "total_tokens": count.input + count.output,
        "prompt_tokens_details": details,
    }


def chat_message(said: Said, count: Count) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for id, name, given in said.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if said.calls else "stop"}
    return {"id": "chat", "object": "chat.completion", "created": 1, "model": "reference", "choices": [choice]} | {
        "usage": chat_usage(count)
    }


def chat_events(said: Said, count: Count) -> Iterator[bytes]:
    whole = chat_message(said, count)
    choice = whole["choices"][0]
    delta = choice["message"]
    for place, call in enumerate(delta.get("tool_calls", [])):
        call["index"] = place
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    for chunk in (
        head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        head | {"choices": [end]},
        head | {"choices": [], "usage": whole["usage"]},
    ):
        yield b"data: " + packed(chunk) + b"\n\n"
    yield b"data: [DONE]\n\n"


# === Messages ===


def unmarked(value: Any) -> Any:
    """Without marks of the cache, which are no part of the prompt."""
    if isinstance(value, list):
        return [unmarked(one) for one in value]
    if isinstance(value, dict):
        return {key: unmarked(one) for key, one in value.items() if key != "cache_control"}
    return value


def of_messages(body: dict[str, Any]) -> Asked:
    tools = {one["name"]: one for one in unmarked(body.get("tools", []))}
    results: dict[str, str] = {}
    brought: dict[str, list[str]] = {}
    # Deferred tools are no part of the prompt until a reference brings them in, where it stands.
    prompt = [packed(one) for one in tools.values() if not one.get("defer_loading")]
    prompt.append(packed(unmarked(body.get("system", ""))))
    known: set[str] = set()
    for message in unmarked(body["messages"]):
        prompt.append(packed(message))
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] != "tool_result":
                continue
            content = block.get("content", [])
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            results[block["tool_use_id"]] = "".join(part.get("text", "") for part in parts)
            names = [part["tool_name"] for part in parts if part["type"] == "tool_reference"]
            if names:
                brought[block["tool_use_id"]] = names
            prompt += [packed(tools[name]) for name in names if name not in known]
            known.update(names)
    # What is deferred and was not found cannot be called.
    callable_tools = [name for name, one in tools.items() if not one.get("defer_loading") or name in known]
    return Asked(callable_tools, results, brought, b"\n".join(prompt))


def messages_message(said: Said, count: Count) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": said.text}] if said.text else []
    content += [{"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in said.calls]
    usage = {
        "input_tokens": 0,
        "cache_read_input_tokens": count.cached,
        "cache_creation_input_tokens": count.input - count.cached,
        "output_tokens": count.output,
    }
    stop = "tool_use" if said.calls else "end_turn"
    plain = {"id": "message", "type": "message", "role": "assistant", "model": "reference", "stop_sequence": None}
    return plain | {"content": content, "stop_reason": stop, "usage": usage}


def messages_events(said: Said, count: Count) -> Iterator[bytes]:
    whole = messages_message(said, count)

    def event(name: str, **more: Any) -> bytes:
        return f"event: {name}\n".encode() + b"data: " + packed({"type": name, **more}) + b"\n\n"

    yield event("message_start", message=whole | {"content": [], "stop_reason": None})
    for place, block in enumerate(whole["content"]):
        if block["type"] == "text":
            start, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield event("content_block_start", index=place, content_block=start)
        yield event("content_block_delta", index=place, delta=delta)
        yield event("content_block_stop", index=place)
    yield event(
        "message_delta",
        delta={"stop_reason": whole["stop_reason"], "stop_sequence": None},
        usage={"output_tokens": count.output},
    )
    yield event("message_stop")
