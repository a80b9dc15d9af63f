"""A trainer that is killed at random, and goes on: it is given everything, and hardly anything twice."""

import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from rollouthub.store import open_run
from rollouthub.trainers.stream.group_tracker import MOST_PASSES
from rollouthub.trainers.stream.ledger import SUPPLY

from .trainer import EPOCHS, REPEATS, SIZE

KILLS = 20
AGAIN_AT_MOST = 8
"""Groups of one life that may come again in the next: a batch it had not done with, one whose mark was not durable."""


def live(folder: Path, seconds: float | None) -> list[tuple[str, int, int]]:
    """Let it train for so long after its first group, or to its end; what it was handed: group, staleness, members."""
    command = [sys.executable, Path(__file__).with_name("trainer.py"), folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        if seconds is not None:
            time.sleep(seconds)  # a moment of no meaning is the point
            process.kill()
        said = first + process.stdout.read()
        process.wait(timeout=60)
    lines = said[: said.rfind("\n") + 1].splitlines()
    if seconds is None:
        assert process.returncode == 0
        assert lines.pop() == "over"
    words = [line.split() for line in lines if line != "over"]
    return [(group, int(staleness), int(members)) for group, staleness, members in words]


@pytest.mark.soak
def test_a_trainer_killed_at_random_loses_nothing(tmp_path: Path) -> None:
    draw = random.Random(1)
    handed = Counter[str]()
    kept: set[str] = set()
    fruitful = 0
    for number in range(KILLS + 1):
        lines = live(tmp_path, draw.uniform(0.0, 0.4) if number < KILLS else None)
        assert all(staleness <= 1 and members == REPEATS for _, staleness, members in lines)
        assert sum(handed[group] > 0 for group, _, _ in lines) <= AGAIN_AT_MOST
        fruitful += bool(lines)
        handed.update(group for group, _, _ in lines)
        if not (tmp_path / "run" / "run.db").exists():
            continue
        with open_run(tmp_path / "run") as run:
            now = {row.rollout_id for row in run.summaries() if row.reward is not None}
        assert kept <= now, "a finished rollout was lost"
        kept = now
    assert fruitful > 5, "it was over too soon to be killed"
    assert len(kept) >= len(handed) * REPEATS
    with open_run(tmp_path / "run") as run:
        tasks = Counter(row.group_id for row in run.summaries() if row.group_id in handed)
        played = Counter(row.task_id for row in run.summaries() if row.group_id in handed)
    assert set(tasks.values()) == {REPEATS}
    with closing(sqlite3.connect(tmp_path / "run" / SUPPLY)) as ledger:
        given_up = ledger.execute("SELECT task_id FROM units WHERE fate = 'stale' AND visit = ?", (MOST_PASSES - 1,))
        for (task_id,) in given_up:
            played[task_id] += REPEATS  # too slow for the bound, three times
    assert played == Counter({str(number): EPOCHS * REPEATS for number in range(SIZE)})
