"""Links, pipes and holes in the place of the files that a run writes and reads beside its records."""

import logging
import os
from pathlib import Path

import pytest

from rollouthub.cli.logs import log_to_run
from rollouthub.errors import RunDirectoryError, StoreError
from rollouthub.messages import digest_of
from rollouthub.store import open_run
from rollouthub.store.media import keep_media, media_name
from rollouthub.store.run_lock import is_locked, take_lock
from rollouthub.store.trainer_steps import append_step, logged_step
from tests.store.records import record, write

SIDE_FILES = ("run.db-wal", "run.db-journal", "run.db-shm")


@pytest.mark.parametrize("name", SIDE_FILES)
@pytest.mark.parametrize("is_pipe", [True, False], ids=["a pipe", "a link"])
async def test_what_lies_in_the_place_of_sqlites_files_is_refused(tmp_path: Path, name: str, is_pipe: bool) -> None:
    await write(tmp_path, [record("g-0")])
    if is_pipe:
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(RunDirectoryError, match=f"{name} is a link or no file"):
        open_run(tmp_path).__enter__()
    with pytest.raises(RunDirectoryError, match=f"{name} is a link or no file"):
        await write(tmp_path, [], resume=True)


async def test_a_file_of_holes_beside_the_database_is_not_copied(tmp_path: Path) -> None:
    await write(tmp_path, [record("g-0")])
    with (tmp_path / "run.db-wal").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(RunDirectoryError, match="says 1,099,511,627,776 bytes"):
        open_run(tmp_path).__enter__()


async def test_a_pipe_in_the_place_of_the_lock_hangs_nobody(tmp_path: Path) -> None:
    await write(tmp_path, [record("g-0")])
    (tmp_path / "run.lock").unlink()
    os.mkfifo(tmp_path / "run.lock")
    assert is_locked(tmp_path)  # nobody can say, so it is not taken for dead
    with open_run(tmp_path) as reader:
        assert len(list(reader.rollouts())) == 1
    with pytest.raises(RunDirectoryError):
        take_lock(tmp_path)


def test_no_medium_and_no_step_is_written_through_a_link(tmp_path: Path) -> None:
    mine, content = tmp_path / "mine", b"\x89PNG\r\n\x1a\n"
    mine.write_text("mine")
    (tmp_path / "media").mkdir()
    digest = digest_of(content)
    (tmp_path / "media" / media_name(digest)).symlink_to(mine)
    (tmp_path / "media" / f"{media_name(digest)}.{os.getpid()}.partial").symlink_to(mine)
    keep_media(tmp_path / "media", {digest: content})
    assert (tmp_path / "media" / media_name(digest)).read_bytes() == content
    (tmp_path / "trainer.jsonl").symlink_to(mine)
    with pytest.raises(StoreError):
        append_step(tmp_path, logged_step(1, 1.0, {"loss": 1.0}))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "run.log").symlink_to(mine)
    with log_to_run(tmp_path):
        logging.getLogger("rollouthub").warning("said")
    assert mine.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a link that is another user's")
def test_a_folder_of_media_that_is_another_users_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "media").symlink_to(tmp_path / "elsewhere")
    os.lchown(tmp_path / "media", 65534, 65534)
    with pytest.raises(OSError, match="another user's link"):
        keep_media(tmp_path / "media", {digest_of(b"x"): b"x"})
    assert list((tmp_path / "elsewhere").iterdir()) == []
