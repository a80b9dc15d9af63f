"""Libraries that cannot be installed, in each format: a run ends at its start, with what is missing and what to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import UsageError
from rollouthub.plugins.lock import LockedDependency
from rollouthub_servers.foreign.folder_digest import digest_of_folder
from rollouthub_servers.foreign.requirements import LOCK_FILE, PYTHON, ForeignLock
from rollouthub_servers.foreign_app.app_record import BESIDE, CODE
from rollouthub_servers.hud import Hud, HudConfig
from rollouthub_servers.hud.hud_record import RECORD as HUD
from rollouthub_servers.hud.hud_record import HudRecord
from rollouthub_servers.miniwob import MiniWob, MiniWobConfig
from rollouthub_servers.openenv import OpenEnv, OpenEnvConfig
from rollouthub_servers.openenv.openenv_record import OpenEnvRecord
from rollouthub_servers.ors import Ors, OrsConfig
from rollouthub_servers.ors.ors_record import OrsRecord
from rollouthub_servers.step_api import OnePlayer, StepConfig
from rollouthub_servers.step_api.games import Catalogue, KnownGame
from tests.mcp_servers.foreign_formats.test_changed_code import FORMATS, write_records

ABSENT = LockedDependency(name="absent", version="1.0", hashes=("sha256:" + "0" * 64,))


def _hud(data: Path) -> None:
    (data / HUD).write_text(HudRecord(name="e", source=".").model_dump_json())


def _openenv(data: Path) -> None:
    OpenEnvRecord(name="e", app="app:app", digest=digest_of_folder(data, CODE, BESIDE)).write(data)


def _ors(data: Path) -> None:
    digest = digest_of_folder(data, CODE, BESIDE)
    OrsRecord(folder="e", entry="server.py", name="e", splits={"test": 1}, digest=digest).write(data)


def _games(library: Any) -> Callable[[Path], None]:
    catalogue = Catalogue(library=library, players=1, games=(KnownGame(id="g", prompt="Play."),))

    def write(data: Path) -> None:
        (data / "games.json").write_text(catalogue.model_dump_json())

    return write


ALL: dict[str, tuple[Any, Any, Any]] = {
    **{name: (environment, config, write_records) for name, (environment, config, _) in FORMATS.items()},
    "hud": (Hud, HudConfig, _hud),
    "openenv": (OpenEnv, OpenEnvConfig, _openenv),
    "ors": (Ors, OrsConfig, _ors),
    "gymnasium": (OnePlayer, StepConfig, _games("gymnasium")),
    "textarena": (OnePlayer, StepConfig, _games("textarena")),
    "gem": (OnePlayer, StepConfig, _games("gem")),
    "miniwob": (MiniWob, MiniWobConfig, _games("miniwob")),
}


@pytest.mark.parametrize("name", ALL)
async def test_libraries_that_cannot_be_installed_are_named_at_the_start(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    for variable in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9/simple")  # where nothing listens
    for variable in ("UV_HTTP_RETRIES", "PIP_RETRIES"):
        monkeypatch.setenv(variable, "0")
    environment, config, write = ALL[name]
    data = tmp_path / "data"
    data.mkdir()
    write(data)
    lock = ForeignLock(python=PYTHON, wheel=ABSENT, dependencies=(ABSENT,))
    (data / LOCK_FILE).write_text(lock.model_dump_json())
    with pytest.raises(UsageError, match=r"(?s)absent.*start again when it can be had") as error:
        await environment.prepare(config(data=str(data)))
    assert "UV_DEFAULT_INDEX" in str(error.value)
    home = tmp_path / "home" / "rollouthub" / "foreign"
    assert not [path for kind in ("venvs", "wheels") for path in (home / kind).glob("*") if path.is_dir()]
