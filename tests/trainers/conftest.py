"""Training systems: imported where they are installed, or lie in a checkout; skipped aloud where they are not.

`.ci/trainers.sh` installs what PyPI has into an interpreter of its own and names it in `ROLLOUTHUB_TRAINERS`; what is
named must be there. Others are read from checkouts in the folder `ROLLOUTHUB_TRAINER_SOURCES`, each under its own name.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.trainers.verl_set_up import System, tiny_model


@pytest.fixture(scope="session")
def system() -> System:
    """Import a training system's module by name; a test that needs one that is not here is skipped."""

    def imported(module: str) -> ModuleType:
        try:
            return import_module(module)
        except ImportError as error:
            if module.partition(".")[0] in os.environ.get("ROLLOUTHUB_TRAINERS", "").split(","):
                raise
            pytest.skip(f"{module} is not installed ({error})")

    return imported


@pytest.fixture
def verl(system: System) -> ModuleType:
    """veRL itself; a test that needs it is skipped without it."""
    return system("verl")


@pytest.fixture
def model_folder(verl: ModuleType, system: System, tmp_path: Path) -> Path:
    """A tiny model that veRL loads."""
    return tiny_model(system, tmp_path / "tiny")


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put a checkout of a training system first on the path: `slime`, `roll`, `nemo-rl`, `areal`, `openrlhf` …

    Also for processes that a test starts; where it is a folder below the checkout that modules are found in, name it.
    """

    def found(name: str, below: str = "") -> Path:
        folder = os.environ.get("ROLLOUTHUB_TRAINER_SOURCES")
        if not folder or not (Path(folder) / name).is_dir():
            pytest.skip(f"no checkout of {name} (ROLLOUTHUB_TRAINER_SOURCES)")
        place = Path(folder) / name / below
        monkeypatch.setattr(sys, "path", [str(place), *sys.path])
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])]))
        return place

    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The cluster comes last: who uses Ray in a process that has shut it down, as systems do on import, is ended."""
    items.sort(key=lambda item: item.path.name == "test_ray.py")
