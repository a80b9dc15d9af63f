"""The cache of other tools' runs: read once, read anew when they change, followed while they are read, and bounded."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rollouthub.analysis.foreign_runs import open_foreign
from rollouthub.analysis.foreign_runs.open_foreign import read_and_follow, read_whole
from rollouthub.analysis.foreign_runs.run_cache import cache_folder, trim
from rollouthub.errors import ConfigError, StoreError
from rollouthub.store import open_run
from tests.analysis.foreign_runs.sources import ANSWER, USER, chat, inspect, lines


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_folder(os.environ)


def count(directory: Path) -> int:
    """Number of rollouts of a run."""
    with open_run(directory) as run:
        return sum(run.outcomes().values())


def test_a_second_opening_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = chat(tmp_path).path
    first = read_whole(path)
    monkeypatch.setattr(open_foreign, "read_into", None)  # whoever called it would fail
    assert read_whole(path) == first
    assert read_and_follow(path) == first
    assert first.name == "sums.jsonl"


def test_a_changed_source_is_read_again_and_the_old_run_goes(tmp_path: Path, cache: Path) -> None:
    path = chat(tmp_path).path
    first = read_whole(path)
    with path.open("a") as file:
        file.write('{"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}\n')
    second = read_whole(path)
    assert (count(second), first.exists()) == (4, False)
    assert len(list(cache.iterdir())) == 1


def test_the_same_name_elsewhere_is_another_run(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    assert read_whole(chat(tmp_path / "one").path) != read_whole(chat(tmp_path / "two").path)


def test_a_reading_in_the_background_is_followed_and_ends(tmp_path: Path) -> None:
    rows = ({"id": str(number), "messages": [USER, ANSWER], "reward": 1} for number in range(3000))
    directory = read_and_follow(lines(tmp_path / "many.jsonl", *rows))
    with open_run(directory) as run:
        deadline = time.monotonic() + 120
        while run.info.status == "running":
            assert time.monotonic() < deadline
            threading.Event().wait(0.05)
        assert run.info.status == "finished"
    assert count(directory) == 3000


def test_what_the_background_cannot_read_is_said_here(tmp_path: Path) -> None:
    path = inspect(tmp_path).path
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ConfigError, match="has no directory at its end"):
        read_and_follow(path)


def test_two_that_open_a_source_at_once_read_it_once(tmp_path: Path, cache: Path) -> None:
    rows = ({"id": str(number), "messages": [USER, ANSWER], "reward": 1} for number in range(2000))
    path = lines(tmp_path / "many.jsonl", *rows)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(read_whole(path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 2
    assert len(set(found)) == 1
    assert count(found[0]) == 2000


def test_a_reading_that_was_killed_is_begun_again(tmp_path: Path) -> None:
    path = chat(tmp_path).path
    directory = read_whole(path)
    (directory.parent / "done").unlink()
    (directory / "run.db").write_bytes(b"torn")
    assert count(read_whole(path)) == 3


def test_what_was_not_opened_for_long_goes_first(tmp_path: Path, cache: Path) -> None:
    directories: list[Path] = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        directories.append(read_whole(chat(tmp_path / str(number)).path))
        long_ago = time.time() - (3 - number) * 3600
        for made in (directories[-1].parents[1], directories[-1].parent / "done"):
            os.utime(made, (long_ago, long_ago))
    kept = directories[0].parents[1]
    trim(cache, kept, most_bytes=1)
    assert [directory.exists() for directory in directories] == [True, False, False]
    trim(cache, tmp_path, now=time.time() + 31 * 86_400)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("read", [read_whole, read_and_follow])
def test_a_cache_that_others_may_write_to_is_not_used(
    tmp_path: Path, cache: Path, read: Callable[[Path], Path]
) -> None:
    path = chat(tmp_path).path
    read_whole(path)
    cache.chmod(0o777)
    with pytest.raises(StoreError, match="other users may write to it; set XDG_CACHE_HOME"):
        read(path)
    real = cache.rename(tmp_path / "theirs")
    cache.symlink_to(real)
    with pytest.raises(StoreError, match="it is a link"):
        read(path)
