"""`hub run --locked`: what the lock names is played, and nothing else."""

import shutil
from pathlib import Path
from typing import Any

from rollouthub.plugins.lock import Lock, LockedEnvironment, read_lock, write_lock
from rollouthub.store import open_run

from .conftest import Hub

EXAMPLE = Path(__file__).parents[2] / "examples" / "mcp_server"
BUNDLE = "sha256:" + "a" * 64


def test_a_run_writes_its_lock_and_another_that_is_held_to_it_plays_the_same(hub: Hub, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "shopping")
    assert hub("run", "shopping", "arithmetic", "--limit", "2", "--seed", "3", "-o", "first").code == 0
    lock = read_lock(tmp_path / "first" / "hub.lock")
    assert [each.name for each in lock.environments] == ["arithmetic", "examples/shopping"]
    assert all(each.code and each.tools and each.bundle is None for each in lock.environments)

    shutil.copy(tmp_path / "first" / "hub.lock", tmp_path)
    again = hub("run", "--config", "first/resolved.json", "--locked", "-o", "second", "--json")
    assert (again.code, again.json["scored"]) == (0, 4)
    assert played(tmp_path / "second") == played(tmp_path / "first")

    verifier = tmp_path / "shopping" / "verify.py"
    verifier.write_text(verifier.read_text() + "\n# changed\n")
    said = hub("run", "--config", "first/resolved.json", "--locked", "-o", "third").refused()
    assert "examples/shopping is not what the lock names: its code is sha256:" in said
    assert not (tmp_path / "third").exists()


def test_what_a_lock_does_not_name_is_not_played(hub: Hub, tmp_path: Path) -> None:
    write_lock(
        Lock(hub_version="0.1.0", environments=(LockedEnvironment(name="math", version="0.1.0"),)), lock(tmp_path)
    )
    said = hub("run", "arithmetic", "--lock", "hub.lock").refused()
    assert "the lock does not name 'arithmetic', only: math" in said


def test_a_lock_names_what_is_not_installed(hub: Hub, tmp_path: Path) -> None:
    locked = LockedEnvironment(name="lab/sums", version="1.2.0", bundle=BUNDLE)
    write_lock(Lock(hub_version="0.1.0", environments=(locked,)), lock(tmp_path))
    assert "lab/sums@1.2.0 is not installed" in hub("run", "lab/sums", "--locked").refused()
    said = hub("run", "lab/sums@2.0.0", "--locked").refused()
    assert "lab/sums@2.0.0 was asked for, and the lock names lab/sums@1.2.0" in said


def test_without_a_lock_nothing_is_locked(hub: Hub) -> None:
    assert "there is no hub.lock here or in a folder above" in hub("run", "arithmetic", "--locked").refused()
    assert "there is no lock 'gone.lock'" in hub("run", "arithmetic", "--lock", "gone.lock").refused()


def test_an_unknown_name_of_a_namespace_says_how_it_is_installed(hub: Hub) -> None:
    assert "`hub install lab/sums` installs it" in hub("run", "lab/sums").refused()
    assert "lab/sums@1.0.0 is not installed (here is no version of it)" in hub("run", "lab/sums@1.0.0").refused()
    assert "'lab/sums@' names no version" in hub("run", "lab/sums@").refused()


def lock(folder: Path) -> Path:
    return folder / "hub.lock"


def played(directory: Path) -> list[tuple[Any, ...]]:
    with open_run(directory) as reader:
        return sorted(
            (
                rollout.rollout_id,
                rollout.environment,
                rollout.task,
                rollout.seed,
                rollout.score and rollout.score.reward,
                tuple(message.model_dump_json() for turn in rollout.turns for message in turn.messages),
            )
            for rollout in reader.rollouts()
        )
