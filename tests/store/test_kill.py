"""`kill -9` at any moment: every committed record is there once, and a resumed run goes on from it."""

import random
from pathlib import Path

import pytest

from rollouthub.store import open_run
from tests.store.processes import start_writer


def kill_and_collect(directory: Path, after: int) -> list[str]:
    """Let a writer commit at least so many records, kill it, and return all it had announced."""
    writer = start_writer(directory, count=1_000_000)
    assert writer.stdout is not None
    announced: list[str] = []
    try:
        assert writer.stdout.readline().startswith("done ")
        announced.extend(writer.stdout.readline().strip() for _ in range(after))
        assert writer.poll() is None, "the writer was alive when it was killed"
    finally:
        writer.kill()
        rest, _ = writer.communicate()
    # The last line may be torn: it was being written.
    announced.extend(rest.split("\n")[:-1])
    return announced


@pytest.mark.parametrize(("kills", "records"), [(4, 300), pytest.param(50, 300, marks=pytest.mark.soak)])
def test_no_committed_record_is_lost_and_none_is_there_twice(tmp_path: Path, kills: int, records: int) -> None:
    chance = random.Random(kills)
    announced: list[str] = []
    for kill in range(kills):
        announced += kill_and_collect(tmp_path, chance.randrange(1, records))
        with open_run(tmp_path) as run:
            assert run.info.status == "dead"
            kept = [summary.rollout_id for summary in run.summaries(effective=False)]
            assert len(set(kept)) == len(kept)
            assert set(announced) <= set(kept)
            whole = [rollout.rollout_id for rollout in run.rollouts()] if kill == kills - 1 else kept
            assert whole == kept
    assert len(set(announced)) == len(announced), "a record that was done was not played again"
