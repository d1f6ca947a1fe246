"""The backend that the tests run on."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
