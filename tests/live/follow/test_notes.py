"""Notes in filters, lists and the review queue, as they change while a run is followed."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Outcome, Score
from rollouthub.live.follow import RunFeed
from rollouthub.live.follow.review_queue import JUDGE_DISAGREES, SOMETIMES_SOLVED, SUSPECT, VERIFIER_FAULT
from rollouthub.messages import Message
from rollouthub.rollout import Rollout
from rollouthub.score import Component, ModelCall
from rollouthub.store.notes import NoteChange, add
from tests.store.records import record, write


def passing(sample: str, passed: bool, **changes: Any) -> Rollout:
    """A scored record without turns."""
    return record(sample, turns=(), score=Score(reward=float(passed), passed=passed, **changes))


def judged(sample: str, judge: float, rule: float, weight: float = 0.5) -> Rollout:
    """A record whose reward is a judge's and a rule's."""
    parts = {
        "taste": Component(value=judge, weight=weight),
        "exact": Component(value=rule, weight=0.5),
    }
    call = ModelCall(role="taste", model="m", messages=(), response=Message(role="assistant", content="x"))
    reward = sum(part.value * part.weight for part in parts.values())
    return record(sample, turns=(), score=Score(reward=reward, components=parts, judge_calls=(call,)))


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    """Three samples of a task, of which one passes, and two other rollouts that agree."""
    samples = [passing("g1-0", True), passing("g1-1", False), passing("g1-2", False), passing("g2-0", True)]
    await write(tmp_path / "run", samples)
    return tmp_path / "run"


def followed(run: Path) -> RunFeed:
    """A feed of what is there."""
    feed = RunFeed(run)
    feed.refresh()
    return feed


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('tag ~ "HACK"', [0]),
        ('tag == "odd"', [0, 1]),
        ('tag != "odd"', []),
        ('tags !~ "hack"', [1]),
        ('not tag ~ "hack"', [1, 2, 3]),
        ("tag == null", [2, 3]),
        ("starred", [2]),
        ("not starred and reviewed", [3]),
        ("reviewed == false", [0, 1, 2]),
        ('reviewed_by ~ "anna"', [3]),
        ('comment ~ "look" and passed == false', [1]),
        ("comment != null", [1]),
    ],
)
async def test_a_filter_picks_by_notes(run: Path, text: str, wanted: list[int]) -> None:
    add(run, NoteChange("g1-0", tags=("reward hack", "odd")), NoteChange("g1-1", turn=1, tags=("odd",)))
    add(run, NoteChange("g1-1", turn=2, comment="Look"), NoteChange("g1-2", turn=1, star=True))
    add(run, NoteChange("g2-0", reviewed=True), by="anna")
    assert followed(run).rollouts(where=text).page(0, 9) == wanted


async def test_a_list_follows_notes_as_they_change(run: Path) -> None:
    feed = followed(run)
    starred, by_tag = feed.rollouts(where="starred"), feed.rollouts("tag")
    everything = feed.rollouts("reward")
    assert starred.page(0, 9) == []
    add(run, NoteChange("g1-2", star=True, tags=("b",)), NoteChange("g2-0", star=True, tags=("a",)))
    assert feed.refresh(), "who shows the run draws it anew"
    for found in (starred, by_tag, everything):
        found.catch_up()
    assert starred.page(0, 9) == [2, 3]
    assert by_tag.page(0, 9) == [3, 2, 0, 1]
    assert [by_tag.position(place) for place in (3, 2, 0, 1)] == [0, 1, 2, 3]
    add(run, NoteChange("g1-2", star=False))
    assert feed.refresh()
    starred.catch_up()
    assert starred.page(0, 9) == [3]
    assert not feed.refresh()


async def test_notes_of_a_replaced_attempt_are_not_those_of_the_next(run: Path) -> None:
    await write(run, [record("g3-0", 0, Outcome.MODEL_FAILED, turns=())], resume=True)
    feed = followed(run)
    add(run, NoteChange("g3-0", star=True))
    await write(run, [record("g3-0", 1, turns=())], resume=True)
    feed.refresh()
    assert feed.rollouts(where="starred").page(0, 9) == []
    assert feed.rollouts(where="starred", effective=False).page(0, 9) == [4]


async def test_the_queue_says_why_and_forgets_what_was_reviewed(run: Path) -> None:
    more = [
        passing("g3-0", True, suspect="it replaced the tool"),
        passing("g3-1", False),
        record("g4-0", 0, Outcome.VERIFIER_FAILED, turns=()),
        record("g5-0", 0, Outcome.AGENT_FAILED, turns=()),
    ]
    await write(run, more, resume=True)
    feed = followed(run)
    assert [(item.rollout_id, item.reasons) for item in feed.review.items()] == [
        ("g1-0", (SOMETIMES_SOLVED,)),
        ("g3-0", (SUSPECT, SOMETIMES_SOLVED)),
        ("g3-1", (SOMETIMES_SOLVED,)),
        ("g4-0", (VERIFIER_FAULT,)),
    ]
    add(run, NoteChange("g3-0", reviewed=True), NoteChange("g1-0", star=True))
    feed.refresh()
    assert [item.rollout_id for item in feed.review.items()] == ["g1-0", "g3-1", "g4-0"]
    assert (len(feed.review), feed.review.total) == (3, 4)
    await write(run, [record("g4-0", 1, turns=()), passing("g1-3", True)], resume=True)
    feed.refresh()
    waiting = {item.rollout_id for item in feed.review.items()}
    assert waiting == {"g1-0", "g1-1", "g1-2", "g1-3", "g3-1"}, "g1 is level, and g4 was played again"


async def test_a_judge_that_contradicts_the_rules_is_noticed(tmp_path: Path) -> None:
    records = [
        judged("g1-0", 1.0, 0.0),
        judged("g2-0", 0.9, 1.0),
        judged("g3-0", 0.6, 0.4),
        judged("g4-0", 0.0, 1.0),
        judged("g5-0", 1.0, 0.0, weight=0.0),
        record("g6-0", turns=(), score=Score(reward=1.0, components={"judge": Component(value=1.0)})),
    ]
    await write(tmp_path / "run", records)
    found = [(item.rollout_id, item.reasons) for item in followed(tmp_path / "run").review.items()]
    assert found == [("g1-0", (JUDGE_DISAGREES,)), ("g4-0", (JUDGE_DISAGREES,))]


async def test_the_queue_of_a_run_grows_while_it_is_followed(run: Path) -> None:
    feed = followed(run)
    assert len(feed.review) == 1
    await write(run, [judged("g7-0", 0.0, 1.0)], resume=True)
    feed.refresh()
    assert feed.review.reasons(4) == (JUDGE_DISAGREES,)


async def test_what_was_read_ahead_is_not_read_again(run: Path) -> None:
    await write(run, [judged("g7-0", 0.0, 1.0)], resume=True)
    feed = followed(run)
    await feed.read_review()
    with closing(sqlite3.connect(run / "run.db", isolation_level=None)) as connection:
        connection.execute("UPDATE rollouts SET body = replace(body, 'judge_calls', 'other_calls')")
    assert feed.review.reasons(4) == (JUDGE_DISAGREES,)
    assert followed(run).review.reasons(4) == (), "the records hold no judge any more"


async def test_rows_that_come_during_the_reading_ahead_are_read_after_it(run: Path) -> None:
    feed = followed(run)
    await write(run, [judged("g7-0", 0.0, 1.0)], resume=True)
    await feed.read_review()
    assert feed.review.total == 1
    feed.refresh()
    assert feed.review.reasons(4) == (JUDGE_DISAGREES,)
