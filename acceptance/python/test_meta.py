"""Finding, describing and calling: the menu of each exposure and what the meta-tools answer."""

from typing import Any

import pytest
from mcp import MCPError

from doors import FILES, REPOSITORY, http, straight
from sameness import dump, text

pytestmark = pytest.mark.gateway

MENU = ["call_tool", "describe_tool", "find_tools"]

# server, what a person would ask for, the tool that does it, its arguments, what the answer says
ERRANDS: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("everything", "add two numbers", "get-sum", {"a": 2, "b": 3}, "5"),
    ("everything-http", "echo a message back", "echo", {"message": "over http"}, "Echo: over http"),
    ("files", "read a text file", "read_text_file", {"path": f"{FILES}/hello.txt"}, "hello"),
    ("memory", "create entities in the knowledge graph", "create_entities",
     {"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}]}, "Ada"),
    ("time", "convert time between timezones", "convert_time",
     {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "21:00"),
    ("git", "show the commit log", "git_log", {"repo_path": REPOSITORY}, "the first commit"),
]


async def names(profile: str | None, era: str) -> list[str]:
    async with http(profile, era) as client:
        return sorted(tool.name for tool in (await client.list_tools()).tools)


async def test_the_menu_is_three_tools(era: str) -> None:
    assert await names(None, era) == MENU


@pytest.mark.parametrize(("server", "words", "tool", "arguments", "answer"), ERRANDS, ids=[e[0] for e in ERRANDS])
async def test_find_describe_call(
    era: str, server: str, words: str, tool: str, arguments: dict[str, Any], answer: str
) -> None:
    wanted = f"{server}/{tool}"
    async with http(era=era) as client:
        found = await client.call_tool("find_tools", {"query": words, "server": server})
        assert not found.is_error, text(found)
        hits = found.structured_content["tools"]
        assert wanted in [hit["id"] for hit in hits], hits
        assert {"id", "name", "server", "signature", "summary"} <= hits[0].keys()
        assert found.structured_content["total"] >= len(hits)
        assert isinstance(found.structured_content["truncated"], bool)
        hit = next(hit for hit in hits if hit["id"] == wanted)
        assert hit["name"] in text(found) or hit["id"] in text(found)

        described = await client.call_tool("describe_tool", {"name": wanted})
        assert not described.is_error, text(described)
        async with straight(server, era) as direct:
            definition = next(t for t in (await direct.list_tools()).tools if t.name == tool)
        assert described.structured_content["id"] == wanted
        assert described.structured_content["inputSchema"] == dump(definition)["inputSchema"]

        # Either name works, so both are used: the id and the exposed name that the hit carries.
        for name in (wanted, hit["name"]):
            result = await client.call_tool("call_tool", {"name": name, "arguments": arguments})
            assert not result.is_error, text(result)
        result = await client.call_tool("call_tool", {"name": wanted, "arguments": arguments})
        if tool != "create_entities":  # the second call created nothing new
            assert answer in text(result)


async def test_searching_all_servers_finds_the_right_one(era: str) -> None:
    async with http(era=era) as client:
        for words, tool in [
            ("convert time between timezones", "time/convert_time"),
            ("git commit history", "git/git_log"),
            ("search nodes in the knowledge graph", "memory/search_nodes"),
            ("read media file", "files/read_media_file"),
        ]:
            found = await client.call_tool("find_tools", {"query": words})
            hits = found.structured_content["tools"]
            assert tool in [hit["id"] for hit in hits], (words, [hit["id"] for hit in hits])
            assert len(hits) <= 8


async def test_equal_tools_of_two_servers_are_one_hit(era: str) -> None:
    async with http(era=era) as client:
        found = await client.call_tool("find_tools", {"query": "get tiny image"})
    hit = found.structured_content["tools"][0]
    assert {hit["id"], *hit["also"]} == {"everything/get-tiny-image", "everything-http/get-tiny-image"}


async def test_an_unknown_tool_names_the_nearest(era: str) -> None:
    async with http(era=era) as client:
        result = await client.call_tool("call_tool", {"name": "time/convert_tima", "arguments": {}})
        assert result.is_error
        assert "convert_time" in text(result) and "find_tools" in text(result)
        described = await client.call_tool("describe_tool", {"name": "time_convert_tima"})
        assert described.is_error and "convert_time" in text(described)
    async with http("direct", era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("time_convert_tima", {})
    assert caught.value.code == -32602
    assert "time_convert_time" in str(caught.value)


async def test_wrong_arguments_show_what_was_expected(era: str) -> None:
    async with http(era=era) as client:
        call = {"name": "everything/get-sum", "arguments": {"a": "two"}}
        result = await client.call_tool("call_tool", call)
    assert result.is_error
    assert "number" in text(result) and "`b`" in text(result).replace('"b"', "`b`")


async def test_an_allowed_tool_that_is_not_listed_still_answers(era: str) -> None:
    async with http(era=era) as client:
        assert text(await client.call_tool("everything_echo", {"message": "hello"})) == "Echo: hello"


async def test_direct_exposure_lists_every_tool(era: str) -> None:
    listed = await names("direct", era)
    for server in ("everything", "everything-http", "files", "memory", "time", "git", "odd"):
        async with straight(server, era) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools if tool.name != "simulate-research-query"]
        assert tools
        assert {f"{server}_{tool}" for tool in tools} <= set(listed)
    async with http("direct", era) as client:
        assert text(await client.call_tool("everything_get-sum", {"a": 1, "b": 1})).endswith("2.")


async def test_pinned_exposure_lists_the_pinned_and_the_menu(era: str) -> None:
    assert await names("pinned", era) == sorted([*MENU, "everything_echo", "time_convert_time", "time_get_current_time"])


async def test_without_prefix_names_are_bare(era: str) -> None:
    async with http("one", era) as client:
        assert text(await client.call_tool("echo", {"message": "bare"})) == "Echo: bare"


async def test_what_a_profile_does_not_allow_does_not_exist(era: str) -> None:
    listed = await names("narrow", era)
    assert "files_read_text_file" in listed and "files_write_file" not in listed
    assert not [name for name in listed if name.startswith(("git_", "time_"))]
    async with http("narrow", era) as client:
        hidden = await client.call_tool("call_tool", {"name": "files/write_file", "arguments": {}})
        missing = await client.call_tool("call_tool", {"name": "files/write_file_", "arguments": {}})
        assert hidden.is_error and missing.is_error
        assert text(hidden) == text(missing).replace("write_file_", "write_file")


async def test_an_unknown_profile_is_an_error(era: str) -> None:
    with pytest.raises(BaseException) as caught:
        await names("nobody-made-this", era)
    assert not isinstance(caught.value, (AssertionError, KeyboardInterrupt))


async def test_loading_changes_the_list_of_a_legacy_client_only() -> None:
    async with http("dynamic", "legacy") as old, http("dynamic", "modern") as new:
        before = [sorted(tool.name for tool in (await client.list_tools()).tools) for client in (old, new)]
        for client in (old, new):
            loaded = await client.call_tool("load_tools", {"names": ["time/convert_time"]})
            assert not loaded.is_error, text(loaded)
        after = [sorted(tool.name for tool in (await client.list_tools()).tools) for client in (old, new)]
        assert set(after[0]) - set(before[0]) == {"time_convert_time"}
        assert after[1] == before[1]
