"""The newest Python SDK at servers of each age: what it sees through the gateway is what it sees without it."""

from typing import Any

import anyio
import pytest

from people import SCRIPT, meet, straight, through

pytestmark = pytest.mark.gateway

# Over stdio a gateway is started for each; the TypeScript clients do that for every server.
OVER_STDIO = ["rust-legacy", "rust-modern", "python-old"]
CASES = [
    (door, era, server)
    for server in SCRIPT["servers"]
    for era in ("legacy", "modern")
    for door in (("http", "stdio") if server in OVER_STDIO else ("http",))
]
SEEN: dict[tuple[str, str], list[Any]] = {}


def twin(server: str, era: str) -> str:
    """The server itself if this client can speak to it without a bridge, else one of its family."""
    definition = SCRIPT["servers"][server]
    if definition["family"] == "rust":
        return f"rust-{era}"
    # The legacy side of a modern server over HTTP cannot ask here: it has no sessions.
    return server.removesuffix("-http") if definition["era"] == "both" and era == "legacy" else server


async def expected(server: str, era: str, steps: list[Any]) -> list[Any]:
    if (server, era) not in SEEN:
        async with meet(straight(server), era) as person:
            SEEN[server, era] = await person.play(steps)
    return SEEN[server, era]


def compared(step: dict[str, Any], other: dict[str, Any], family: str, bridged: bool) -> dict[str, Any]:
    """What may differ: tasks are of the modern era alone, and some tools are listed for those who can be asked more;
    where the gateway answers an error itself, or one that has no place in the client's era, only that it is one counts."""
    if "tools" in step:
        names = {tool["name"] for tool in other["tools"]}
        tools = [tool for tool in step["tools"] if tool["name"] in names]
        return {**step, "tools": [{key: value for key, value in tool.items() if key != "execution"} for tool in tools]}
    if bridged or family == "everything":
        # `server-everything` asks for the roots a moment after it was opened, whatever runs by then.
        heard = [question for question in step["heard"] if question["method"] != "roots/list"]
        step = {**step, "heard": heard} if step["step"] != "call ask_roots" else step
    both = all("error" in each or each.get("isError") for each in (step, other))
    own = any("toolcrib/error" in (each.get("_meta") or {}) for each in (step, other))
    return {"step": step["step"], "failed": True} if both and (own or bridged) else step


@pytest.mark.parametrize(("door", "era", "server"), CASES)
async def test_each_step_is_the_same(door: str, era: str, server: str) -> None:
    family = SCRIPT["servers"][server]["family"]
    steps = SCRIPT["families"][family]
    before = await expected(twin(server, era), era, steps)
    async with meet(through(door, server), era) as person:
        after = await person.play(steps)
    hidden = {tool["name"] for tool in before[0]["tools"]} - {tool["name"] for tool in after[0]["tools"]}
    assert hidden <= set(SCRIPT["tasks"])
    bridged = SCRIPT["servers"][server]["era"] != era
    pairs = [
        (compared(is_, should, family, bridged), compared(should, is_, family, bridged))
        for is_, should in zip(after, before, strict=True)
    ]
    assert [is_ for is_, should in pairs if is_ != should] == [should for is_, should in pairs if is_ != should]


@pytest.mark.parametrize("server", ["rust-legacy-http", "rust-modern-http", "everything-asks-http", "python-old-sse"])
async def test_nobody_is_asked_anothers_question(server: str) -> None:
    tool = {"rust": "test_sampling", "everything": "trigger-sampling-request"}.get(SCRIPT["servers"][server]["family"], "ask_model")

    async def ask(name: str, era: str) -> None:
        async with meet(through("http", server), era, name) as person:
            for number in range(3):
                result = await person.step("call", tool, {"prompt": f"question {number} of {name}"})
                assert f"{name} heard" in str(result) and f"question {number} of {name}" in str(result), result
            questions = [question for question in person.heard if question["method"] == "sampling/createMessage"]
            assert len(questions) == 3 and all(f" of {name}" in str(question) for question in questions)

    await ask("the first", "modern")
    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(ask, f"person {number}", "modern" if number % 2 else "legacy")
