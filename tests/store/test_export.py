"""Export: records as lines, complete or not at all."""

import io
import os
from pathlib import Path

import pytest

from rollouthub import Outcome, Rollout
from rollouthub.errors import ConfigError, StoreError
from rollouthub.export.records import export_jsonl
from rollouthub.store import open_run
from tests.store.records import names_in, record, write


async def test_an_exported_line_is_the_record(tmp_path: Path) -> None:
    kept = [record("a-0", 0, Outcome.MODEL_FAILED), record("a-0", 1), record("b-0", answer="é\n\0")]
    await write(tmp_path / "run", kept)
    with open_run(tmp_path / "run") as run:
        assert export_jsonl(run, tmp_path / "out.jsonl") == 2
        assert export_jsonl(run, tmp_path / "all.jsonl", effective=False) == 3
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    assert [Rollout.model_validate_json(line) for line in lines] == kept
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


async def test_tokens_can_be_left_out(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("a-0")])
    out = io.StringIO()
    with open_run(tmp_path / "run") as run:
        export_jsonl(run, out, with_tokens=False)
    assert all(turn.output_token_ids is None for turn in Rollout.model_validate_json(out.getvalue()).turns)


async def test_an_export_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("a-0")])
    with open_run(tmp_path / "run") as run, pytest.raises(ConfigError, match=r"there is no folder .*missing; make it"):
        export_jsonl(run, tmp_path / "missing" / "out.jsonl")
    assert names_in(tmp_path) == ["run"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full, which stands for a full disk")
async def test_a_full_disk_is_no_wrong_usage(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("a-0")])
    with open_run(tmp_path / "run") as run, pytest.raises(StoreError, match="could not write /dev/full: No space left"):
        export_jsonl(run, Path("/dev/full"))


async def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("a-0")])
    (tmp_path / "link.jsonl").symlink_to("out.jsonl")
    with open_run(tmp_path / "run") as run:
        assert export_jsonl(run, tmp_path / "link.jsonl") == 1
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 1


async def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("a-0")])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with open_run(tmp_path / "run") as run:
            assert export_jsonl(run, pipe) == 1
        assert os.read(end, 2**20).count(b"\n") == 1
    finally:
        os.close(end)
    assert pipe.is_fifo()
