"""One stronghold for the attacks of a file: an attack that harms it shows in those that follow."""

from collections.abc import AsyncGenerator

import pytest

from tests.gateway.hostile.stronghold import Stronghold, besieged


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the attacks of a file."""
    return "asyncio"


@pytest.fixture(scope="module")
async def hold() -> AsyncGenerator[Stronghold]:
    """What is attacked."""
    async with besieged() as made:
        yield made
