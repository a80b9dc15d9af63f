"""The contract of importers: whatever the entry points name, and one that a stranger wrote."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.entry_points import find_environment
from rollouthub.plugins.importers import IMPORTERS, Candidate, Identity, Importer, find_importer
from tests.plugins.stranger import names_of, register

STRANGER = "acme/cards"


class Cards:
    """Reads a text file a task, from the protocol alone."""

    environment = "arithmetic"

    def look(self, folder: Path, settings: Mapping[str, JsonValue]) -> Sequence[Candidate]:
        found = [Candidate(id=file.stem) for file in sorted(folder.glob("*.card"))]
        if not found:
            raise ConfigError(f"there is no card in {str(folder)!r}")
        return found

    def write(self, folder: Path, settings: Mapping[str, JsonValue], out: Path, identity: Identity) -> Path:
        self.look(folder, settings)
        raise ConfigError(f"--out {str(out)!r} is there already; name a new folder")


@pytest.fixture(params=names_of(IMPORTERS, STRANGER))
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of each importer."""
    if request.param == STRANGER:
        register(tmp_path / "site", monkeypatch, IMPORTERS, STRANGER, f"{__name__}:Cards")
    return request.param


def test_it_names_an_environment_that_is_there(name: str) -> None:
    importer = find_importer(name)
    assert isinstance(importer, Importer)
    assert find_environment(importer.environment).environment


def test_a_folder_without_tasks_is_refused_in_words_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    importer, empty, out = find_importer(name), tmp_path / "empty", tmp_path / "out"
    empty.mkdir()
    with pytest.raises(ConfigError):
        importer.look(empty, {})
    with pytest.raises(ConfigError):
        importer.write(empty, {}, out, Identity())
    assert not out.exists()


def test_a_wrong_name_is_met_with_the_right_one(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{name}'"):
        find_importer(f"{name}s")
