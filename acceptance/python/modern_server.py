"""A server on the newest official Python SDK, of the modern era for everyone who can speak it:

    modern_server.py stdio | http

Over HTTP it listens on the port in `PORT`, at `/mcp`. It asks in either era, so that what clients of the legacy era see
through the gateway can be compared with what they see without it."""

import base64
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NOTHING = {"type": "object", "properties": {}}
OCTETS = base64.b64encode(bytes(range(64))).decode()


def one(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string", **more}}, "required": [name]}


TOOLS = [
    types.Tool(name="ask_all", description="Asks three things at once", input_schema=NOTHING),
    types.Tool(name="ask_form", description="Asks with a form", input_schema=one("message")),
    types.Tool(name="ask_model", description="Asks a model", input_schema=one("prompt")),
    types.Tool(name="ask_roots", description="Asks where the client works", input_schema=NOTHING),
    types.Tool(name="ask_twice", description="Asks twice and keeps what it heard in the state", input_schema=NOTHING),
    types.Tool(name="echo", title="Echo", description="Says what it hears", input_schema=one("message", minLength=1)),
    types.Tool(name="fails", description="Fails", input_schema=NOTHING, _meta={"example.com/kept": 1}),
    types.Tool(name="logs", description="Tells what it does", input_schema=NOTHING),
    types.Tool(
        name="mirrored",
        description="Has an argument that travels in a header",
        input_schema=one("region", **{"x-mcp-header": "Region"}),
    ),
    types.Tool(name="steps", description="Tells how far it is", input_schema=NOTHING),
]


def form(message: str, field: str) -> types.ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": "string", "title": field}}, "required": [field]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def model(prompt: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=10, system_prompt="Be short")
    return types.CreateMessageRequest(params=params)


def said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def told(answers: dict[str, Any]) -> types.CallToolResult:
    plain = {key: answer.model_dump(mode="json", by_alias=True, exclude_none=True) for key, answer in answers.items()}
    for answer in plain.values():
        answer.pop("resultType", None)
    return said(json.dumps(plain, sort_keys=True))


async def ask(ctx: Any, params: Any, questions: dict[str, Any], then: Callable[[dict[str, Any]], Any], state: str | None = None) -> Any:
    """Puts all questions to the client, in the way of its era, and goes on with the answers."""
    if ctx.protocol_version < "2026-07-28":
        return then({key: await ask_now(ctx, question) for key, question in questions.items()})
    answers = params.input_responses or {}
    if questions.keys() <= answers.keys():
        return then({key: answers[key] for key in questions})
    return types.InputRequiredResult(input_requests=questions, request_state=state)


async def ask_now(ctx: Any, question: Any) -> Any:
    if isinstance(question, types.ElicitRequest):
        params = question.params
        return await ctx.session.elicit_form(params.message, params.requested_schema, ctx.request_id)
    if isinstance(question, types.CreateMessageRequest):
        params = question.params
        return await ctx.session.create_message(
            params.messages, max_tokens=params.max_tokens, system_prompt=params.system_prompt, related_request_id=ctx.request_id
        )
    return await ctx.session.list_roots()


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    arguments = params.arguments or {}
    match params.name:
        case "echo":
            return said(f"heard {arguments['message']}")
        case "mirrored":
            return said(f"in {arguments['region']}")
        case "fails":
            why = types.TextContent(type="text", text="it failed as it should")
            return types.CallToolResult(content=[why], is_error=True, _meta={"example.com/why": "always"})
        case "logs":
            for level in ("debug", "info", "error"):
                await ctx.session.send_log_message(level, {"say": f"this is {level}"}, "modern", ctx.request_id)
            return said("told three times")
        case "steps":
            for step in range(1, 4):
                await ctx.session.report_progress(step, 3, f"step {step}")
                await anyio.sleep(0.02)
            return said("three steps")
        case "ask_form":
            return await ask(ctx, params, {"form": form(arguments["message"], "name")}, told)
        case "ask_model":
            return await ask(ctx, params, {"model": model(arguments["prompt"])}, told)
        case "ask_roots":
            return await ask(ctx, params, {"roots": types.ListRootsRequest()}, told)
        case "ask_all":
            questions = {"a": form("all: name?", "name"), "b": model("all"), "c": types.ListRootsRequest()}
            return await ask(ctx, params, questions, told)
        case "ask_twice":
            return await ask_twice(ctx, params)
    raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name}")


async def ask_twice(ctx: Any, params: types.CallToolRequestParams) -> Any:
    first = {"first": form("first: name?", "name")}
    second = {"second": form("second: colour?", "colour")}
    if ctx.protocol_version < "2026-07-28":
        return told({key: await ask_now(ctx, question) for key, question in (first | second).items()})
    if params.request_state:
        heard = types.ElicitResult.model_validate_json(params.request_state)
        return await ask(ctx, params, second, lambda answers: told({"first": heard, **answers}), params.request_state)
    answers = params.input_responses or {}
    if "first" in answers:
        state = answers["first"].model_dump_json(by_alias=True, exclude_none=True)
        return types.InputRequiredResult(input_requests=second, request_state=state)
    return types.InputRequiredResult(input_requests=first)


RESOURCES = [
    types.Resource(uri="modern://text", name="text", mime_type="text/plain"),
    types.Resource(uri="modern://bytes", name="bytes", mime_type="application/octet-stream", size=64),
]
TEMPLATES = [types.ResourceTemplate(uri_template="modern://item/{number}", name="item")]
PROMPTS = [
    types.Prompt(name="greeting", description="Greets", arguments=[types.PromptArgument(name="name", required=True)]),
    types.Prompt(name="asking", description="Asks before it greets"),
]


async def read_resource(_ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri == "modern://bytes":
        return types.ReadResourceResult(contents=[types.BlobResourceContents(uri=uri, blob=OCTETS)])
    if uri == "modern://text":
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text="a modern text")])
    if uri.startswith("modern://item/"):
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=f"item {uri[14:]}")])
    raise MCPError(types.INVALID_PARAMS, f"no resource {uri}", {"uri": uri})


async def get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> Any:
    def says(text: str) -> types.GetPromptResult:
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description="A greeting", messages=[message])

    if params.name == "greeting":
        return says(f"Say hello to {(params.arguments or {})['name']}")
    return await ask(ctx, params, {"form": form("prompt: name?", "name")}, lambda answers: says(told(answers).content[0].text))


async def complete(_ctx: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [name for name in ("Ada", "Alan", "Grace") if name.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


def page(items: list[Any], params: Any) -> tuple[list[Any], str | None]:
    """Two at a time, so that whoever reads only the first page misses most."""
    start = int((params and params.cursor) or 0)
    return items[start : start + 2], str(start + 2) if start + 2 < len(items) else None


async def list_tools(_ctx: Any, params: Any) -> types.ListToolsResult:
    tools, cursor = page(TOOLS, params)
    return types.ListToolsResult(tools=tools, next_cursor=cursor)


async def list_resources(_ctx: Any, params: Any) -> types.ListResourcesResult:
    resources, cursor = page(RESOURCES, params)
    return types.ListResourcesResult(resources=resources, next_cursor=cursor)


async def list_templates(_ctx: Any, _params: Any) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=TEMPLATES)


async def list_prompts(_ctx: Any, params: Any) -> types.ListPromptsResult:
    prompts, cursor = page(PROMPTS, params)
    return types.ListPromptsResult(prompts=prompts, next_cursor=cursor)


async def set_level(_ctx: Any, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def make() -> Server[Any]:
    return Server(
        "modern",
        version="2.0.0",
        instructions="Ask and you will be asked.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=set_level,
    )


async def over_stdio() -> None:
    server = make()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1] == "http":
        uvicorn.run(make().streamable_http_app(), host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
    else:
        anyio.run(over_stdio)
