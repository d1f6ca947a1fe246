"""Resources, templates, prompts and completion: the same through the gateway as without it."""

import mcp_types as types
import pytest
from mcp import MCPError

from doors import http, straight
from sameness import plain, text

pytestmark = pytest.mark.gateway


async def test_lists_are_the_same(era: str) -> None:
    async with straight("everything", era) as direct, http("one", era) as client:
        for kind in ("list_resources", "list_resource_templates", "list_prompts"):
            expected = plain(await getattr(direct, kind)())
            found = plain(await getattr(client, kind)())
            for key, items in expected.items():
                if isinstance(items, list):
                    assert items and by_name(found[key]) == by_name(items), kind


async def test_reading_is_the_same(era: str) -> None:
    async with straight("everything", era) as direct, http("one", era) as client:
        uris = [str(resource.uri) for resource in (await direct.list_resources()).resources]
        for uri in [*uris, "demo://resource/dynamic/text/7", "demo://resource/dynamic/blob/8"]:
            assert plain(await client.read_resource(uri)) == plain(await direct.read_resource(uri)), uri


async def test_prompts_are_the_same(era: str) -> None:
    prompts = [
        ("simple-prompt", None),
        ("args-prompt", {"city": "Ulm", "state": "Bavaria"}),
        ("resource-prompt", {"resourceType": "Text", "resourceId": "1"}),
    ]
    async with straight("everything", era) as direct, http("one", era) as client:
        for name, arguments in prompts:
            expected = plain(await direct.get_prompt(name, arguments))
            assert plain(await client.get_prompt(name, arguments)) == expected, name


async def test_completion_is_the_same(era: str) -> None:
    reference = types.PromptReference(type="ref/prompt", name="completable-prompt")
    async with http("one", era) as client:
        answer = await client.complete(reference, {"name": "department", "value": "E"})
    assert answer.completion.values == ["Engineering"]


async def test_a_resource_that_does_not_exist_is_an_error(era: str) -> None:
    async with http("one", era) as client:
        with pytest.raises(MCPError):
            await client.read_resource("demo://no/such/thing")


async def test_resources_of_two_equal_servers_can_all_be_read(era: str) -> None:
    async with straight("everything", era) as direct, http(era=era) as client:
        expected = len((await direct.list_resources()).resources)
        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert len(uris) >= 2 * expected and len(set(uris)) == len(uris)
        for uri in uris:
            assert (await client.read_resource(uri)).contents, uri


async def test_a_link_in_a_result_can_be_read(era: str) -> None:
    async with http("one", era) as client:
        result = await client.call_tool("get-resource-links", {"count": 2})
        links = [block for block in result.content if block.type == "resource_link"]
        assert len(links) == 2, text(result)
        for link in links:
            assert (await client.read_resource(str(link.uri))).contents


def by_name(items: list[dict[str, object]]) -> list[dict[str, object]]:
    """Sorted, and without what a tool of another test has added to its session."""
    lasting = [item for item in items if not str(item.get("uri", "")).startswith("demo://resource/session/")]
    return sorted(lasting, key=lambda item: str(item["name"]))
