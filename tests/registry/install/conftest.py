"""A user who installs, with uv and with pip."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.registry.install.wheels import World

_TOOLS = ["uv", "pip"]


def _world(folder: Path, tool: str) -> World:
    pip = find_spec("pip")
    if tool == "pip" and (pip is None or pip.origin is None):
        pytest.skip("pip is not installed where the tests run")
    return World(folder, tool, Path(find_uv_bin()), Path((pip and pip.origin) or "none").parent)


@pytest.fixture(params=_TOOLS)
def either(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A user with nothing installed yet; once with each installer, where they could differ to somebody's harm."""
    return _world(tmp_path, request.param)


@pytest.fixture(params=["uv", pytest.param("pip", marks=pytest.mark.live)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """The same; pip takes seconds, so with it only where there is time."""
    return _world(tmp_path, request.param)


@pytest.fixture
def quick(tmp_path: Path) -> World:
    """A user with nothing installed yet, and the quicker installer."""
    return _world(tmp_path, "uv")
