"""Agents as tools of the official SDK, in both eras: progress, questions of the tools that a run calls, cancellation, and
in the modern era a task. The model is a script."""

import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client

from doors import FILES, mode
from homes import SECONDS, Home, wait_for

pytestmark = pytest.mark.gateway

TASKS = "io.modelcontextprotocol/tasks"
# What each agent's model says, call by call, and then in words.
TURNS = {
    "talker": [[("odd_everything_at_once", {})], [("odd_fails", {})]],
    "teller": [[("odd_await_file", {"file": f"{FILES}/heard-{{era}}-{step}.txt"})] for step in (1, 2)],
    "asker": [[("python_ask_form", {"message": "whom is it for?"})]],
    "waiter": [[("odd_wait", {"file": f"{FILES}/agent-{{era}}.txt"})]],
    "held": [[("odd_everything_at_once", {})]],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("agents"))
    home.server("odd")
    home.server("python", declares=["elicitation"])
    home.write("profiles/default", {"exposure": "direct"})
    home.write("profiles/careful", {"exposure": "direct", "tools": {"approve": ["odd/everything_at_once"]}})
    for name, turns in TURNS.items():
        for era in ("legacy", "modern"):
            said: list[dict[str, Any]] = [
                {"calls": [{"name": tool, "arguments": with_era(given, era)} for tool, given in calls]} for calls in turns
            ]
            said.append({"say": f"{name} is done."})
            home.write(f"models/{name}-{era}", {"wire": "script", "script": {"turns": said}})
            home.write(f"agents/{name}_{era}", {"model": f"{name}-{era}", "tools_shown": "all"})
    (home.folder / "key").write_text(home.toolcrib("profile", "key", "add", "careful", "agent").strip(), encoding="utf-8")
    with home.served():
        yield home


def with_era(arguments: dict[str, str], era: str) -> dict[str, str]:
    return {key: value.format(era=era) for key, value in arguments.items()}


@asynccontextmanager
async def connected(target: Any, era: str, **more: Any):
    async with Client(target, mode=mode(era), read_timeout_seconds=SECONDS, cache=None, **more) as client:
        yield client


def text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def runs(home: Home, agent: str) -> list[dict[str, Any]]:
    return json.loads(home.toolcrib("run", "list", "--agent", agent, "-o", "json"))["runs"]


async def test_progress_arrives_while_the_run_works(home: Home, era: str) -> None:
    steps: list[float] = []
    # Each of two steps lets the run go on: a client drops those that it reads together with the result.
    heard = [Path(FILES) / f"heard-{era}-{step}.txt" for step in (1, 2)]
    for file in heard:
        file.unlink(missing_ok=True)

    async def progress(step: float, _total: float | None, _message: str | None) -> None:
        steps.append(step)
        for file in heard[: len(steps)]:
            file.touch()

    async with connected(home.url, era) as client:
        listed = await client.list_tools()
        assert f"agent_teller_{era}" in {tool.name for tool in listed.tools}
        with anyio.fail_after(SECONDS):
            result = await client.call_tool(f"agent_teller_{era}", {"task": "look"}, progress_callback=progress)
    assert text(result) == "teller is done." and not result.is_error
    assert steps == sorted(set(steps)) and len(steps) >= 2


async def test_a_tool_of_a_run_asks_the_client_that_called_the_agent(home: Home, era: str) -> None:
    asked: list[str] = []

    async def fill(_context: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with connected(home.url, era, elicitation_callback=fill) as client:
        result = await client.call_tool(f"agent_asker_{era}", {"task": "ask"})
    assert text(result) == "asker is done."
    [run] = runs(home, f"asker_{era}")
    told = home.toolcrib("run", "export", run["run"], "--format", "markdown")
    assert len(asked) == 1 and asked[0].endswith("whom is it for?") and "Ada" in told


async def test_cancelling_the_call_cancels_the_run(home: Home, era: str) -> None:
    file = Path(FILES) / f"agent-{era}.txt"
    file.unlink(missing_ok=True)

    async def until(content: str) -> None:
        with anyio.fail_after(SECONDS):
            while not file.exists() or file.read_text(encoding="utf-8") != content:
                await anyio.sleep(0.02)

    async with connected(home.url, era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, f"agent_waiter_{era}", {"task": "wait"})
            await until("started")
            tasks.cancel_scope.cancel()
        await until("cancelled")
        assert text(await client.call_tool(f"agent_talker_{era}", {"task": "look"})) == "talker is done."
    wait_for(lambda: runs(home, f"waiter_{era}")[0]["status"] == "ended", "the run to end")
    assert runs(home, f"waiter_{era}")[0]["end"] == "cancelled"


class Task(types.Result):
    """What a call is that became a task."""

    result_type: Literal["task"] = "task"
    task_id: str


class GetTask(types.Request[dict[str, Any], str]):
    name_param = "taskId"


class TaskState(types.Result):
    """How a task stands."""

    status: str
    result: dict[str, Any] | None = None


class Tasks(ClientExtension):
    """The extension of tasks: a task is asked about until it has ended."""

    identifier = TASKS

    def __init__(self, on_task: Any) -> None:
        self.on_task, self.seen = on_task, []

    def claims(self) -> list[ResultClaim[Task]]:
        return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]

    async def resolve(self, task: Task, context: ClaimContext) -> types.CallToolResult:
        self.seen.append(task.task_id)
        await self.on_task()
        with anyio.fail_after(SECONDS):
            while True:
                asked = GetTask(method="tasks/get", params={"taskId": task.task_id})
                state = await context.session.send_request(asked, TaskState)
                if state.status not in ("working", "input_required"):
                    return types.CallToolResult.model_validate(state.result)
                await anyio.sleep(0.05)


async def test_a_run_that_waits_for_a_person_is_a_task_of_a_modern_client(home: Home) -> None:
    # Somebody else says yes: the client has a key of its own.
    key = (home.folder / "key").read_text(encoding="utf-8")
    client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=SECONDS)
    door = streamable_http_client(f"{home.url}/p/careful", http_client=client)

    def waiting() -> list[dict[str, Any]]:
        return json.loads(home.toolcrib("approval", "list", "-o", "json", "--state", "open"))["approvals"]

    async def approve() -> None:
        with anyio.fail_after(SECONDS):
            # The task may be there before its run has come to the call.
            while not (found := waiting()):
                await anyio.sleep(0.05)
        [open] = found
        home.toolcrib("approval", "approve", open["id"])

    tasks = Tasks(approve)
    async with connected(door, "modern", extensions=[tasks]) as agent:
        result = await agent.call_tool("agent_held_modern", {"task": "look"})
    assert text(result) == "held is done." and len(tasks.seen) == 1
