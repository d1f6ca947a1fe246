"""Fixtures: every test that asks for a `door` runs through each of them; `gateway` tests need the gateway."""

import pytest

from doors import DOORS, GATEWAY


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=DOORS, ids=str)
def door(request: pytest.FixtureRequest):
    return request.param


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    return request.param


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gateway: needs the gateway, not only a server")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if GATEWAY is None and item.get_closest_marker("gateway"):
            item.add_marker(pytest.mark.skip(reason="no gateway in this run"))
