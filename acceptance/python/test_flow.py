"""What happens during a call: progress, cancellation, many at once, several clients, errors."""

from pathlib import Path

import anyio
import pytest

from doors import FILES, LEGACY, MODERN, SECONDS, Door, http, stdio
from sameness import text


async def test_progress_arrives_while_the_call_runs(door: Door) -> None:
    steps: list[tuple[float, float | None]] = []

    async def progress(step: float, total: float | None, _message: str | None) -> None:
        steps.append((step, total))

    slowly = {"duration": 0.4, "steps": 4}
    async with door.open() as way:
        # A client drops the steps that it reads together with the result: the last one often, more on a busy machine.
        for _ in range(5):
            steps.clear()
            result = await way.call("everything", "trigger-long-running-operation", slowly, progress_callback=progress)
            assert "completed" in text(result)
            if len(steps) >= 3:
                break
    assert steps[:3] == [(1, 4), (2, 4), (3, 4)]


async def test_cancelling_reaches_the_server_and_the_connection_stays(door: Door) -> None:
    file = Path(FILES) / f"wait-{door}.txt"
    file.unlink(missing_ok=True)
    async with door.open() as way:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(way.call, "odd", "wait", {"file": str(file)})
            await until(file, "started")
            tasks.cancel_scope.cancel()
        await until(file, "cancelled")
        assert "after" in text(await way.call("everything", "echo", {"message": "after"}))


async def test_many_calls_at_once_get_their_own_answers(door: Door) -> None:
    answers: dict[int, str] = {}
    async with door.open() as way:

        async def call(number: int) -> None:
            server = "everything" if number % 2 else "everything-http"
            answers[number] = text(await way.call(server, "echo", {"message": f"number {number}"}))

        async with anyio.create_task_group() as tasks:
            for number in range(32):
                tasks.start_soon(call, number)
    assert answers == {number: f"Echo: number {number}" for number in range(32)}


async def test_a_slow_call_does_not_delay_another(door: Door) -> None:
    file = Path(FILES) / f"slow-{door}.txt"
    file.unlink(missing_ok=True)
    async with door.open() as way, anyio.create_task_group() as tasks:
        tasks.start_soon(way.call, "odd", "wait", {"file": str(file)})
        await until(file, "started")
        # The same server and another one both answer while the first call is still waiting.
        assert (await way.call("odd", "fails")).is_error
        assert "quick" in text(await way.call("everything", "echo", {"message": "quick"}))
        assert file.read_text() == "started"
        tasks.cancel_scope.cancel()


async def test_an_error_of_a_tool_is_a_result_and_not_an_exception(door: Door) -> None:
    async with door.open() as way:
        result = await way.call("odd", "fails")
    assert result.is_error
    assert text(result) == "it failed as it should"


@pytest.mark.gateway
async def test_the_era_is_the_one_that_the_client_wants() -> None:
    async with http(era="legacy") as client:
        assert client.protocol_version == LEGACY
    async with http(era="modern") as client:
        assert client.protocol_version == MODERN
    async with stdio(era="legacy") as client:
        assert client.protocol_version == LEGACY
    async with stdio(era="modern") as client:
        assert client.protocol_version == MODERN


@pytest.mark.gateway
async def test_two_clients_of_two_eras_at_once() -> None:
    async with http(era="legacy") as old, http(era="modern") as new:
        for number in range(8):
            call = {"name": "everything/echo", "arguments": {"message": f"call {number}"}}
            for client in (old, new):
                assert text(await client.call_tool("call_tool", call)) == f"Echo: call {number}"
    async with http(era="legacy") as first, http(era="legacy") as second:
        names = [[tool.name for tool in (await client.list_tools()).tools] for client in (first, second)]
        assert names[0] == names[1]


async def until(file: Path, content: str) -> None:
    """Waits for a file of another process to say `content`."""
    with anyio.fail_after(SECONDS):
        while not (file.exists() and file.read_text() == content):
            await anyio.sleep(0.02)
