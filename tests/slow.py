"""What the suite leaves to `-m soak` for its time alone: each has a quicker sibling that stays.

One place names it, beside the tests that are marked where they stand, so that the suite keeps to its ten minutes.
"""

from pathlib import Path

import pytest

SLOW = tuple((Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").splitlines())
"""Ids of tests; without the brackets of a parameter, all of its parameters."""


def mark_slow(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is named as soak.

    Raises:
        pytest.UsageError: the whole suite is asked for, and a test that is named is not there any more.
    """
    met: set[str] = set()
    files: set[str] = set()
    for item in items:
        file, _, name = item.nodeid.partition("::")
        files.add(file)
        if chosen := {item.nodeid, f"{file}::{name.partition('[')[0]}"}.intersection(SLOW):
            item.add_marker(pytest.mark.soak)
            met |= chosen
    is_whole = config.args == config.getini("testpaths") and config.option.markexpr != "smoke"
    lost = {name for name in set(SLOW) - met if name.partition("::")[0] in files}  # of others a need is missing here
    if is_whole and lost:
        raise pytest.UsageError(f"tests/slow.txt names tests that are not there: {sorted(lost)}")
