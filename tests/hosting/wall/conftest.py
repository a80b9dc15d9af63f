"""The kinds of walls, and an environment behind each."""

from pathlib import Path

import anyio
import pytest

from rollouthub.errors import ConfigError
from rollouthub.hosting.wall.wall import Wall, open_wall
from tests.hosting.wall.evil import World, install_evil


@pytest.fixture(params=["container", "bubblewrap"])
def wall(request: pytest.FixtureRequest) -> Wall:
    """Each kind of wall that works here."""
    try:
        found = anyio.run(open_wall, request.param)
    except ConfigError as error:
        lacking = "no container engine" if request.param == "container" else "bubblewrap does not work here"
        pytest.skip(f"{lacking}: {error}")
    assert found is not None
    return found


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> World:
    """An evil environment that is installed once: its bytecode is kept."""
    return install_evil(tmp_path_factory.mktemp("evil"))


@pytest.fixture
def world(installed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """An evil environment, of a user whose home is a temporary folder."""
    monkeypatch.setenv("HOME", str(installed.home))
    monkeypatch.chdir(tmp_path)
    return installed
