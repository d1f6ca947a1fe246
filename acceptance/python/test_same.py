"""The gateway loses nothing: each result equals, field by field, what the same client gets from the server itself."""

from pathlib import Path
from typing import Any

import pytest

from doors import FILES, REPOSITORY, Door, http, straight
from sameness import plain

EVERYTHING: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"message": "Grüße \u2028 \" \\ 日本 🦀"}),
    ("get-sum", {"a": 2, "b": 40.5}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-tiny-image", {}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-resource-links", {"count": 4}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
    ("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
    ("gzip-file-as-resource", {"name": "a.gz", "data": "data:text/plain,abc", "outputType": "resource"}),
]

CASES: list[tuple[str, str, dict[str, Any]]] = [
    *(("everything", tool, arguments) for tool, arguments in EVERYTHING),
    *(("everything-http", tool, arguments) for tool, arguments in EVERYTHING),
    ("files", "read_text_file", {"path": f"{FILES}/hello.txt"}),
    ("files", "read_media_file", {"path": f"{FILES}/picture.png"}),
    ("files", "read_media_file", {"path": f"{FILES}/sound.wav"}),
    ("files", "list_directory", {"path": FILES}),
    ("files", "read_text_file", {"path": f"{FILES}/../outside.txt"}),
    ("memory", "search_nodes", {"query": "nothing of this kind"}),
    ("time", "convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
    ("time", "convert_time", {"source_timezone": "Moon/Crater", "time": "12:00", "target_timezone": "UTC"}),
    ("git", "git_log", {"repo_path": REPOSITORY}),
    ("git", "git_show", {"repo_path": REPOSITORY, "revision": "HEAD"}),
    ("odd", "everything_at_once", {}),
    ("odd", "fails", {}),
    ("odd", "large", {}),
]


SERVERS = list(dict.fromkeys(server for server, _, _ in CASES))

# What the servers themselves answered, per era: starting one for each comparison would take most of the time.
ANSWERS: dict[tuple[str, str], list[Any]] = {}


def cases(server: str) -> list[tuple[str, dict[str, Any]]]:
    return [(tool, arguments) for of, tool, arguments in CASES if of == server]


async def answers(era: str, server: str) -> list[Any]:
    if (era, server) not in ANSWERS:
        async with straight(server, era) as client:
            ANSWERS[era, server] = [plain(await client.call_tool(tool, arguments)) for tool, arguments in cases(server)]
    return ANSWERS[era, server]


@pytest.mark.parametrize("server", SERVERS)
async def test_results_are_the_same_as_without_the_gateway(door: Door, server: str) -> None:
    expected = await answers(door.era, server)
    async with door.open() as way:
        results = [plain(await way.call(server, tool, arguments)) for tool, arguments in cases(server)]
    for (tool, _), result, should in zip(cases(server), results, expected, strict=True):
        assert result == should, tool


async def test_the_cases_cover_every_kind_of_content() -> None:
    """A guard for the tests above: should a server stop sending a kind, they would compare less than they promise."""
    seen: set[str] = set()
    for result in [result for server in SERVERS for result in await answers("modern", server)]:
        seen |= {block["type"] for block in result["content"]}
        seen |= {key for key in ("_meta", "structuredContent") if result.get(key)}
        seen |= {"isError"} if result.get("isError") else set()
    assert seen >= {"text", "image", "audio", "resource", "resource_link", "_meta", "structuredContent", "isError"}


@pytest.mark.gateway
async def test_definitions_are_the_same_as_without_the_gateway(era: str) -> None:
    async with http("direct", era) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    for server in ("everything", "files", "memory", "time", "git", "odd"):
        async with straight(server, era) as client:
            tools = (await client.list_tools()).tools
        for tool in tools:
            if tool.name == "simulate-research-query":
                continue  # a task tool: what is listed depends on the client's capabilities
            expected = {**plain(tool), "name": f"{server}_{tool.name}"}
            found = plain(listed[f"{server}_{tool.name}"])
            for definition in (expected, found):
                # How tools relate to tasks is told differently in the two eras.
                definition.pop("execution", None)
            assert found == expected


async def test_writing_through_the_door_changes_the_real_file(door: Door, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = Path(FILES) / f"written-{door}.txt"
    async with door.open() as way:
        await way.call("files", "write_file", {"path": str(file), "content": "written 日本\n"})
    assert file.read_text(encoding="utf-8") == "written 日本\n"
    file.unlink()
