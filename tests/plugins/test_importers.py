"""The contract of importers: whatever the entry points name, and one that a stranger wrote."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from rollouthub.cli.options import assignments
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import (
    IMPORTERS,
    Candidate,
    ForeignFormat,
    Identity,
    Importer,
    ImportSource,
    Note,
    chosen_of,
    find_importer,
    read_available,
    silent,
)
from tests.plugins.stranger import names_of, register

STRANGER = "acme/cards"


class Cards:
    """Reads a text file a task, from the protocol alone."""

    environment = "arithmetic"
    about = ForeignFormat(summary="Cards", item="card", sources={"folder": "text files, *.card"})

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        found = [Candidate(id=file.stem) for file in sorted(source.folder.glob("*.card"))]
        if not found:
            raise ConfigError(f"there is no card in {source.text!r}")
        return found

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        self.look(source, settings)
        raise ConfigError(f"--out {str(out)!r} is there already; name a new folder")


@pytest.fixture(params=names_of(IMPORTERS, STRANGER))
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of each importer."""
    if request.param == STRANGER:
        register(tmp_path / "site", monkeypatch, IMPORTERS, STRANGER, f"{__name__}:Cards")
    return request.param


def test_it_says_what_it_takes_and_names_an_environment_that_is_there(name: str) -> None:
    importer = find_importer(name)
    assert isinstance(importer, Importer)
    assert importer.about.summary
    assert importer.about.item
    assert importer.about.sources
    assert importer.environment is None or find_environment(importer.environment).environment


def test_what_it_offers_is_a_source_that_it_takes_and_no_setting_is_misspelt(name: str) -> None:
    about = find_importer(name).about
    for offered in () if about.available is None else read_available(about.available):
        if offered.repository is None:
            source = ImportSource.of(offered.source)
            about.check(source)
            assert source.kind != "requirement" or "==" in offered.source
            assert source.kind != "git" or re.search("@[0-9a-f]{40}(#|$)", offered.source)
        for item, said in offered.items.items():
            assert assignments(list(said.settings), "--set") or not said.settings
            words = shlex.split(offered.command(name, item).rpartition("&& ")[2])
            assert words[:4] == ["hub", "import", name, offered.source]
            assert words[-2:] == ["-o", item]


def test_what_a_format_does_not_take_is_refused_with_what_it_takes(name: str) -> None:
    about = find_importer(name).about
    source = ImportSource("odd", next(kind for kind in ("url", "git", "file", "folder") if kind not in about.sources))
    with pytest.raises(ConfigError, match="this format takes"):
        about.check(source)


def test_a_folder_without_tasks_is_refused_in_words_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    importer, empty, out = find_importer(name), tmp_path / "empty", tmp_path / "out"
    if "folder" not in importer.about.sources:
        return
    empty.mkdir()
    source = ImportSource.of(str(empty))
    with pytest.raises(ConfigError):
        importer.look(source, {})
    with pytest.raises(ConfigError):
        importer.write(source, ["any"], {}, out, Identity())
    assert not out.exists()


def test_a_wrong_name_is_met_with_the_right_one(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{name}'"):
        find_importer(f"{name}s")


def test_items_are_chosen_by_patterns_and_a_pattern_that_matches_nothing_is_met_with_the_nearest() -> None:
    found = [Candidate(id=name) for name in ("mcqa", "math_with_code", "math_with_judge")]
    assert [each.id for each in chosen_of(found, [], "server")] == ["mcqa", "math_with_code", "math_with_judge"]
    assert [each.id for each in chosen_of(found, ["math_*", "mc?a"], "server")] == [each.id for each in found]
    assert [each.id for each in chosen_of(found, ["*_judge"], "server")] == ["math_with_judge"]
    with pytest.raises(UnknownNameError, match="no server is named 'mcqu'; did you mean 'mcqa'"):
        chosen_of(found, ["math_*", "mcqu"], "server")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("nemo-gym==0.7.0", "requirement"),
        ("bfcl-eval>=2026.3,<2027", "requirement"),
        ("git+https://example.org/set@v1", "git"),
        ("https://example.org/set.git", "git"),
        ("https://example.org/tasks.jsonl", "url"),
    ],
)
def test_the_form_of_a_source_says_what_it_is(text: str, kind: str) -> None:
    assert ImportSource.of(text).kind == kind


def test_a_path_that_is_there_is_taken_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set==1").mkdir()
    (tmp_path / "rows.jsonl").touch()
    assert [ImportSource.of(text).kind for text in ("set==1", "rows.jsonl")] == ["folder", "file"]


def test_a_source_that_is_nothing_is_refused_and_a_login_is_never_kept() -> None:
    with pytest.raises(ConfigError, match=r"there is no folder or file 'set'; .* as set==1\.0"):
        ImportSource.of("set")
    with pytest.raises(ConfigError, match="carries a login") as refused:
        ImportSource.of("git+https://me:word@example.org/set")
    assert "word@" not in str(refused.value)
