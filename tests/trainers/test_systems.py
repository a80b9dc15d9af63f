"""What a user reads whose training system is not installed."""

import sys
from pathlib import Path

import pytest

from rollouthub.trainers import systems
from rollouthub.trainers.systems import system_module

PAGES = Path(__file__).parents[2] / "docs" / "trainers"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("verl.experimental.agent_loop.agent_loop", "veRL is not installed where this runs: run `pip install verl`"),
        ("roll.pipeline", "ROLL is not installed where this runs: install it from its sources"),
    ],
)
def test_a_system_that_is_missing_is_named_with_what_to_install(
    module: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [])
    for loaded in [each for each in sys.modules if each.partition(".")[0] == module.partition(".")[0]]:
        monkeypatch.delitem(sys.modules, loaded)
    with pytest.raises(ModuleNotFoundError) as told:
        system_module(module)
    assert str(told.value).startswith(said)


def test_what_a_system_lacks_itself_is_told_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slime").mkdir()
    (tmp_path / "slime" / "__init__.py").write_text("import a_part_that_is_missing")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "slime", raising=False)
    with pytest.raises(ModuleNotFoundError, match="a_part_that_is_missing"):
        system_module("slime")


def test_every_page_that_a_message_names_is_there() -> None:
    for _, _, page in systems._PAGES.values():  # pyright: ignore[reportPrivateUsage]
        assert (PAGES / f"{page}.md").is_file()
