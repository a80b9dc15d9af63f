"""The figures of a run are the same by its sums as by all of its rows."""

from pathlib import Path

from rollouthub import Outcome
from rollouthub.live.follow import RunFeed
from rollouthub.live.follow.run_figures import figures_in, figures_of
from tests.store.records import record, write


async def test_sums_give_the_figures_that_all_rows_give(tmp_path: Path) -> None:
    records = [
        record("a-0"),
        record("a-1", outcome=Outcome.AGENT_FAILED),
        record("b-0", outcome=Outcome.MODEL_FAILED),
        record("b-0", 1),
        record("b-1", outcome=Outcome.CANCELLED),
    ]
    await write(tmp_path, records)
    with RunFeed(tmp_path) as feed:
        early = figures_in(feed.reader)
        feed.refresh()
        assert early == figures_of(feed.counts, feed.info.planned)
    assert (early.scored, early.done, early.attempts, early.mean_reward, early.retried) == (2, 4, 5, 1.0, 1)


async def test_a_run_without_a_score_has_no_mean(tmp_path: Path) -> None:
    await write(tmp_path, [record("a-0", outcome=Outcome.MODEL_FAILED)])
    with RunFeed(tmp_path) as feed:
        early = figures_in(feed.reader)
    assert (early.mean_reward, early.strict, early.pass_rate) == (None, None, None)
