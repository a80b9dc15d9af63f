"""What the screens are shown: made runs hold what they say, and are the same wherever they are made."""

from pathlib import Path

from rollouthub.live.follow import RunFeed
from tests.tui.made import PLANNED, finished_run, hostile_run, playing_run, worse_run


async def test_the_ended_run_holds_every_kind_of_ending_and_is_always_the_same(tmp_path: Path) -> None:
    told: list[object] = []
    for name in ("one", "other"):
        await finished_run(tmp_path / name)
        with RunFeed(tmp_path / name) as feed:
            feed.refresh()
            assert (feed.info.status, feed.counts.effective, feed.counts.attempts) == ("finished", PLANNED, PLANNED + 3)
            assert set(feed.counts.kinds) == {
                "scored",
                "agent_failure",
                "infrastructure_fault",
                "verifier_fault",
                "cancelled",
            }
            told.append((feed.counts.mean_reward, feed.timeline.ended, feed.info.run_id, list(feed.records(range(9)))))
    assert told[0] == told[1]
    await worse_run(tmp_path / "worse")
    with RunFeed(tmp_path / "worse") as feed:
        feed.refresh()
        assert feed.counts.effective == PLANNED


async def test_the_playing_run_is_in_flight_and_the_hostile_one_can_be_read(tmp_path: Path) -> None:
    async with playing_run(tmp_path / "run"):
        with RunFeed(tmp_path / "run") as feed:
            feed.refresh()
            assert (feed.info.status, len(feed.live), feed.info.planned) == ("running", 12, PLANNED)
    await hostile_run(tmp_path / "hostile")
    with RunFeed(tmp_path / "hostile") as feed:
        feed.refresh()
        assert feed.counts.scored == 3
