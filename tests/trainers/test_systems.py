"""What a user reads whose training system is not installed."""

import sys
from pathlib import Path

import pytest

from rollouthub.trainers.systems import system_module


class Without:
    """Finds no module of a package, installed or not."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == self.package:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("verl.experimental.agent_loop.agent_loop", "veRL is not installed where this runs: run `pip install verl`"),
        ("gem", "gem (for ROLL) is not installed where this runs: run `pip install gem-llm`"),
        ("roll.pipeline", "ROLL is not installed where this runs: install it from its sources"),
    ],
)
def test_a_system_that_is_missing_is_named_with_what_to_install(
    module: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = module.partition(".")[0]
    for loaded in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [Without(package), *sys.meta_path])
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
