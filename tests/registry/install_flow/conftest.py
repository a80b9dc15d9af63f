"""A user with empty homes, a registry, and a `hub` that is loaded once."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.warm import WarmHub
from tests.registry.install_flow.machines import Machine, Shop, shop, warm_registry_hub


@pytest.fixture(scope="session")
def warm() -> Generator[WarmHub]:
    """The loaded `hub`."""
    with warm_registry_hub() as hub:
        yield hub


@pytest.fixture
def user(tmp_path: Path, warm: WarmHub) -> Machine:
    """Somebody with nothing yet."""
    return Machine(tmp_path / "user", warm)


@pytest.fixture
def lab(tmp_path: Path) -> Shop:
    """A registry that is empty yet."""
    return shop(tmp_path)
