"""Runs that are played once, and copied by who changes them."""

from pathlib import Path

import pytest

from tests.registry.receipt.runs import play, play_failing


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the mock solver, with token ids; nobody changes it."""
    return play(tmp_path_factory.mktemp("played") / "run")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with failures, and samples with several attempts; nobody changes it."""
    return play_failing(tmp_path_factory.mktemp("failing") / "run")
