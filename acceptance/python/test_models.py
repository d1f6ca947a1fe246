"""What we ask models, against the types of the official packages `openai` and `anthropic`, unknown keys refused; and
both packages as readers of the scripted model. `crates/model/examples/scripted-model.rs` is the other side."""

import collections.abc
import json
import shutil
import subprocess
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
import typing_extensions as extended
from anthropic.types import message_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

ROOT = Path(__file__).resolve().parents[2]
CARGO = shutil.which("cargo")

pytestmark = pytest.mark.skipif(CARGO is None, reason="cargo is not installed")

PARAMS = {
    "chat": completion_create_params.CompletionCreateParams,
    "responses": response_create_params.ResponseCreateParams,
    "messages": message_create_params.MessageCreateParams,
}
# What engines of the chat wire send beside OpenAI's own fields, and get back: DeepSeek's name of reasoning.
GIVEN_BACK = {"ChatCompletionAssistantMessageParam": {"reasoning_content"}}
TOOL = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class Model:
    """The example: what it rendered, and the scripted model."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.rendered: list[dict[str, Any]] = []
        for line in iter(process.stdout.readline, "\n"):
            assert line, "the example ended"
            self.rendered.append(json.loads(line))

    def answer(self, wire: str, request: bytes) -> dict[str, Any]:
        asked = json.dumps({"wire": wire, "request": json.loads(request)})
        self.process.stdin.write(asked + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def client(self) -> httpx2.Client:
        def respond(request: httpx2.Request) -> httpx2.Response:
            wire = {"completions": "chat", "responses": "responses", "messages": "messages"}
            reply = self.answer(wire[request.url.path.rsplit("/", 1)[1]], request.content)
            headers = {"content-type": reply["type"]}
            return httpx2.Response(reply["status"], headers=headers, content=reply["body"].encode())

        return httpx2.Client(transport=httpx2.MockTransport(respond))


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    command = [CARGO, "run", "--quiet", "--package", "toolcrib-model", "--example", "scripted-model"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True, encoding="utf-8") as process:
        yield Model(process)
        process.stdin.close()
        assert process.wait() == 0


def misfit(value: Any, kind: Any, at: str = "") -> str | None:
    """Why `value` is not of the type `kind`; `None` if it is. Keys that a type does not have are refused."""
    origin, arguments = extended.get_origin(kind), extended.get_args(kind)
    if hasattr(kind, "__value__"):
        return misfit(value, kind.__value__, at)
    if kind is Any or kind is object:
        return None
    if origin in (extended.Required, extended.NotRequired, extended.Annotated, extended.ReadOnly):
        return misfit(value, arguments[0], at)
    if origin in (typing.Union, types.UnionType):
        why = [misfit(value, one, at) for one in arguments]
        return None if None in why else max(why, key=lambda text: (text.count("/"), len(text)))
    if origin is typing.Literal:
        return None if value in arguments else f"{at}: {value!r} is none of {arguments}"
    if extended.is_typeddict(kind):
        return misfit_of_object(value, kind, at)
    if origin is dict or isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        fits = isinstance(value, dict)
        found = (misfit(one, arguments[1], f"{at}/{key}") for key, one in value.items()) if fits else ()
        return next(filter(None, found), None) if fits else f"{at}: no object"
    if origin is not None and arguments and isinstance(value, list):
        return next(filter(None, (misfit(one, arguments[0], f"{at}/{n}") for n, one in enumerate(value))), None)
    if kind is float:
        kind = (int, float)
    if kind is None or kind is type(None):
        return None if value is None else f"{at}: not null"
    if origin is None and isinstance(kind, (type, tuple)) and (kind is not int or not isinstance(value, bool)):
        return None if isinstance(value, kind) else f"{at}: {value!r} is no {kind}"
    return f"{at}: {value!r} is no {kind}"


def misfit_of_object(value: Any, kind: Any, at: str) -> str | None:
    if not isinstance(value, dict):
        return f"{at}: no object"
    hints = extended.get_type_hints(kind, include_extras=True)
    if unknown := sorted(value.keys() - hints.keys() - GIVEN_BACK.get(kind.__name__, set())):
        return f"{at}: {kind.__name__} has no {unknown}"
    # The packages write their annotations as texts, in which `TypedDict` itself does not see `Required`.
    marks = {key: extended.get_origin(hint) for key, hint in hints.items()}
    needed = kind.__required_keys__ | {key for key, mark in marks.items() if mark is extended.Required}
    needed -= {key for key, mark in marks.items() if mark is extended.NotRequired}
    if missing := sorted(needed - value.keys()):
        return f"{at}: {kind.__name__} needs {missing}"
    known = ((key, one) for key, one in value.items() if key in hints)
    return next(filter(None, (misfit(one, hints[key], f"{at}/{key}") for key, one in known)), None)


def test_what_we_send_fits_the_packages_own_types(model: Model) -> None:
    assert len(model.rendered) == 18
    for one in model.rendered:
        why = misfit(one["request"], PARAMS[one["wire"]])
        assert why is None, (one["wire"], one["name"], why)


@pytest.mark.parametrize("wire", PARAMS)
def test_what_does_not_fit_is_noticed(model: Model, wire: str) -> None:
    request = next(one["request"] for one in model.rendered if one["wire"] == wire and one["name"] == "own")
    said = "input" if wire == "responses" else "messages"
    tool = request["tools"][0]
    for wrong in (
        request | {"odd": 1},
        request | {"model": None},
        request | {"tools": [tool | {"odd": 1}]},
        request | {"tool_choice": "sometimes"},
        request | {said: [*request[said][:-1], request[said][-1] | {"odd": 1}]},
        request | {said: [*request[said], {"role": "user"}]},
        {key: value for key, value in request.items() if key != "model"} | {said: 1},
    ):
        assert misfit(wrong, PARAMS[wire]), wrong


@pytest.mark.parametrize("stream", [False, True])
def test_openai_reads_chat_completions(model: Model, stream: bool) -> None:
    with openai.OpenAI(api_key="x", base_url="http://m.invalid/v1", http_client=model.client()) as client:
        function = {"name": "files_read", "description": "Reads a file", "parameters": TOOL}
        messages: list[Any] = [{"role": "user", "content": "read notes/a.txt"}]
        ask: dict[str, Any] = {"model": "demo", "tools": [{"type": "function", "function": function}]}
        if stream:
            usage = {"include_usage": True}
            with client.chat.completions.stream(messages=messages, stream_options=usage, **ask) as events:
                answer = events.get_final_completion()
        else:
            answer = client.chat.completions.create(messages=messages, **ask)
        message = answer.choices[0].message
        [call] = message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("files_read", {"path": "notes/a.txt"})
        assert answer.choices[0].finish_reason == "tool_calls" and answer.usage.prompt_tokens > 10
        function = {"name": call.function.name, "arguments": call.function.arguments}
        given = {"id": call.id, "type": "function", "function": function}
        messages.append({"role": "assistant", "content": message.content, "tool_calls": [given]})
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "hello"}]
        last = client.chat.completions.create(messages=messages, **ask)
        assert last.choices[0].message.content == "files_read: hello"
        assert 0 < last.usage.prompt_tokens_details.cached_tokens < last.usage.prompt_tokens
        with pytest.raises(openai.BadRequestError, match="no result found"):
            client.chat.completions.create(messages=messages[:2], **ask)


@pytest.mark.parametrize("stream", [False, True])
def test_openai_reads_responses(model: Model, stream: bool) -> None:
    with openai.OpenAI(api_key="x", base_url="http://m.invalid/v1", http_client=model.client()) as client:
        tool = {"type": "function", "name": "files_read", "parameters": TOOL, "strict": False}
        items: list[Any] = [{"role": "user", "content": "read notes/a.txt"}]
        ask: dict[str, Any] = {"model": "demo", "tools": [tool], "store": False}
        if stream:
            with client.responses.stream(input=items, **ask) as events:
                answer = events.get_final_response()
        else:
            answer = client.responses.create(input=items, **ask)
        [call] = answer.output
        assert (call.name, json.loads(call.arguments)) == ("files_read", {"path": "notes/a.txt"})
        items += [call.model_dump(exclude={"parsed_arguments"}, exclude_none=True)]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": "hello"}]
        last = client.responses.create(input=items, **ask)
        assert last.output_text == "files_read: hello"
        assert 0 < last.usage.input_tokens_details.cached_tokens < last.usage.input_tokens
        with pytest.raises(openai.BadRequestError, match="no result found"):
            client.responses.create(input=items[:2], **ask)


@pytest.mark.parametrize("stream", [False, True])
def test_anthropic_reads_messages(model: Model, stream: bool) -> None:
    with anthropic.Anthropic(api_key="x", base_url="http://m.invalid", http_client=model.client()) as client:
        tool = {"name": "files_read", "description": "Reads a file", "input_schema": TOOL}
        messages: list[Any] = [{"role": "user", "content": "read notes/a.txt"}]
        ask: dict[str, Any] = {"model": "demo", "max_tokens": 100, "tools": [tool]}
        if stream:
            with client.messages.stream(messages=messages, **ask) as events:
                answer = events.get_final_message()
        else:
            answer = client.messages.create(messages=messages, **ask)
        [call] = answer.content
        assert (answer.stop_reason, call.name, call.input) == ("tool_use", "files_read", {"path": "notes/a.txt"})
        messages.append({"role": "assistant", "content": [call.model_dump(exclude_none=True)]})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "hello"}
        messages.append({"role": "user", "content": [result | {"cache_control": {"type": "ephemeral"}}]})
        last = client.messages.create(messages=messages, **ask)
        assert last.content[0].text == "files_read: hello"
        assert last.usage.cache_read_input_tokens > 0 and last.usage.cache_creation_input_tokens > 0
        with pytest.raises(anthropic.BadRequestError, match="no result found"):
            client.messages.create(messages=messages[:2], **ask)
