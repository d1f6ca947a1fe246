"""The names and shapes that clients of other gateways know."""

import json
import re
from typing import Any

import pytest
from mcp import MCPError

from doors import http
from sameness import text

pytestmark = pytest.mark.gateway

# The server `time` by its own name, not as a part of `convert_time`.
SERVER = re.compile(r"\btime\b")


async def names(profile: str, era: str) -> set[str]:
    async with http(profile, era) as client:
        return {tool.name for tool in (await client.list_tools()).tools}


async def test_muster_menu(era: str) -> None:
    assert await names("muster", era) >= {"list_tools", "filter_tools", "describe_tool", "call_tool"}


async def test_muster_call_carries_the_result_as_text_and_the_blocks_after_it(era: str) -> None:
    async with http("muster", era) as client:
        call: dict[str, Any] = {"name": "x_everything_get-tiny-image", "arguments": {}}
        result = await client.call_tool("call_tool", call)
        inner = json.loads(result.content[0].text)
        assert inner["isError"] is False
        assert [block["type"] for block in inner["content"]] == ["text", "image", "text"]
        assert "data" not in inner["content"][1] and inner["content"][1]["mimeType"] == "image/png"
        assert [block.type for block in result.content[1:]] == ["image"]

        failed = await client.call_tool("call_tool", {"name": "x_odd_fails", "arguments": {}})
        assert failed.is_error and json.loads(failed.content[0].text)["isError"] is True


async def test_muster_filters_by_words_and_pattern(era: str) -> None:
    async with http("muster", era) as client:
        found = await client.call_tool("filter_tools", {"pattern": "x_time_*"})
        listed = json.loads(text(found))
        assert {tool["name"] for tool in listed["tools"]} == {"x_time_convert_time", "x_time_get_current_time"}


async def test_muster_answers_only_meta_tools_directly(era: str) -> None:
    async with http("muster", era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("x_everything_echo", {"message": "directly"})
    assert caught.value.code == -32602
    assert "call_tool" in str(caught.value)


async def test_go_ent_find_describe_call(era: str) -> None:
    assert await names("go-ent", era) >= {"tool_find", "tool_describe", "tool_call"}
    async with http("go-ent", era) as client:
        assert "convert_time" in text(await client.call_tool("tool_find", {"query": "convert time"}))
        assert "source_timezone" in text(await client.call_tool("tool_describe", {"name": "time/convert_time"}))
        call = {"name": "everything/echo", "arguments": {"message": "go"}}
        assert "Echo: go" in text(await client.call_tool("tool_call", call))


async def test_scooter_adds_before_it_calls(era: str) -> None:
    assert await names("scooter", era) >= {"scooter_find", "scooter_add"}
    async with http("scooter", era) as client:
        assert SERVER.search(text(await client.call_tool("scooter_find", {"query": "time"})))
        # A modern client has no session: what one before it added is still there.
        await client.call_tool("scooter_remove", {"tool_name": "time"})
        call = {"tool": "convert_time", "arguments": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "UTC"}}
        early = await client.call_tool("scooter_call", call)
        assert early.is_error and SERVER.search(text(early)), text(early)
        added = await client.call_tool("scooter_add", {"tool_name": "time"})
        assert not added.is_error, text(added)
        assert "12:00" in text(await client.call_tool("scooter_call", call))


async def test_any_dialects_name_works_in_every_profile(era: str) -> None:
    async with http(era=era) as client:
        assert "convert_time" in text(await client.call_tool("tool_find", {"query": "convert time"}))
        assert "convert_time" in text(await client.call_tool("filter_tools", {"query": "convert time"}))
