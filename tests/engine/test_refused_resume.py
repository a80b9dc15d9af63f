"""A refused `--resume` changes nothing: what was finished, dead or running is so afterwards, file by file."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import HubError, RunDirectoryError
from rollouthub.store import open_run
from rollouthub.store.run_lock import take_lock
from tests.engine.resuming import asked, half_broken, play

HOLDER = "run.lock"
"""Says who looked last; whoever looks, even to be refused, stands in it."""


def files(directory: Path) -> dict[str, bytes]:
    """Everything in a run's directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != HOLDER
    }


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """The file of an environment."""
    return half_broken(tmp_path)


def with_prompt(world: Path) -> Path:
    """The file that its tasks take their prompt from, from now on."""
    world.write_text(world.read_text().replace('prompt="?"', 'prompt=Path(__file__).with_name("prompt").read_text()'))
    return world.with_name("prompt")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 5}, r"request\.seed: None → 5"),
        ({"agent": "oracle"}, r"request\.agent"),
        ({"environments": ["arithmetic"]}, "is a run of half_broken, not of arithmetic"),
        ({"split": "nosuch"}, "nosuch"),
        ({"agent": "tool_loop", "model": "nosuch"}, "nosuch"),
        ({"agent": "tool_loop", "model": "openai/gpt-4o"}, "OPENAI_API_KEY"),
    ],
)
@pytest.mark.parametrize("status", ["finished", "dead"])
async def test_a_refused_resume_leaves_a_run_as_it_is(
    world: Path, tmp_path: Path, change: dict[str, Any], message: str, status: str
) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=3), run)
    if status == "dead":
        with closing(sqlite3.connect(run / "run.db")) as connection, connection:
            connection.execute("UPDATE meta SET value = 'running' WHERE key = 'status'")
    before = files(run)
    with pytest.raises(HubError, match=message):
        await play(asked(world, **{"limit": 3, **change}), run, resume=True)
    assert files(run) == before
    with open_run(run) as reader:
        assert reader.info.status == status


async def test_a_resume_refused_for_changed_tasks_leaves_the_run_as_it_is(world: Path, tmp_path: Path) -> None:
    run, data = tmp_path / "run", with_prompt(world)
    data.write_text("before")
    await play(asked(world, limit=3), run)
    before = files(run)
    data.write_text("after")
    with pytest.raises(RunDirectoryError, match="not what they were"):
        await play(asked(world, limit=3), run, resume=True)
    assert files(run) == before


async def test_a_resume_refused_while_the_run_plays_leaves_it_running(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=3), run)
    before = files(run)
    with take_lock(run), pytest.raises(RunDirectoryError, match="is being written by"):
        await play(asked(world, limit=3), run, resume=True)
    assert files(run) == before


async def test_another_environment_is_refused_in_one_line(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=1), run)
    with pytest.raises(RunDirectoryError) as refused:
        await play(asked(world, environments=["arithmetic"]), run, resume=True)
    assert "\n" not in str(refused.value)
    assert "is a run of half_broken, not of arithmetic" in str(refused.value)


async def test_a_resume_that_is_accepted_is_noted(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=1), run)
    await play(asked(world, limit=2), run, resume=True)
    with closing(sqlite3.connect(run / "run.db")) as connection:
        (noted,) = connection.execute("SELECT value FROM meta WHERE key = 'resumptions'").fetchone()
    assert [entry["changes"] for entry in json.loads(noted)] == [["request.limit: 1 → 2"]]
