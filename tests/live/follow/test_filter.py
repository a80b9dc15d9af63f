"""Filters: what they mean, and how they say what they do not understand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub import Outcome, Score
from rollouthub.live.follow import FilterError, RolloutFilter, RunFeed, parse_filter
from rollouthub.live.follow.filter import quoted_text
from rollouthub.rollout import TaskRef
from tests.store.records import record, write

TASKS = ("Algebra 1", "geometry 2", "algebra 3", 'odd "one"')
REWARDS = (0.25, None, 0.75, 0.5)


@pytest.fixture
async def feed(tmp_path: Path) -> RunFeed:
    made = [
        record(
            f"g{number}-0",
            0,
            Outcome.MODEL_FAILED if reward is None else Outcome.SCORED,
            task=TaskRef(split="test", id=task, digest="sha256:0", source="web" if number else None),
            score=None if reward is None else Score(reward=reward, passed=None if number == 3 else reward > 0.5),
            turns=(),
        )
        for number, (task, reward) in enumerate(zip(TASKS, REWARDS, strict=True))
    ]
    await write(tmp_path / "run", made)
    feed = RunFeed(tmp_path / "run")
    feed.refresh()
    return feed


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", [0, 1, 2, 3]),
        ('outcome == "scored" and reward < 0.5 and task ~ "algebra"', [0]),
        ("reward < 0.5 or reward >= 0.75", [0, 2]),
        ("reward != 0.5", [0, 2]),  # what is unscored is neither equal nor different
        ("not reward == 0.5", [0, 1, 2]),
        ("reward == null", [1]),
        ("reward != null and not (passed == null)", [0, 2]),
        ("passed", [2]),
        ("passed == false", [0]),
        ("passed != true", [0]),
        ("not passed", [0, 1, 3]),
        ("effective and sample == 0 and attempt < 1e9", [0, 1, 2, 3]),
        ("task !~ 'ALGEBRA'", [1, 3]),
        (r'task == "odd \"one\""', [3]),
        ('source == "web"', [1, 2, 3]),
        ('source != "web"', []),
        ("source == null", [0]),
        ('error ~ "model"', [1]),
        ('id == "g2-0"', [2]),
        ("reward>-1 and duration<=3 and tokens>=0", [0, 2, 3]),
    ],
)
async def test_a_filter_picks_these(text: str, wanted: list[int], feed: RunFeed) -> None:
    assert feed.rollouts(where=text).page(0, 9) == wanted


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("rewrd < 1", 0, "did you mean 'reward'"),
        ("reward < 0.5 and outcom == 'scored'", 17, "did you mean 'outcome'"),
        ("reward = 1", 7, "compare with =="),
        ('reward < "high"', 9, "is a number"),
        ("reward ~ 1", 7, "is a number: use one of"),
        ("task == 3", 8, "is text"),
        ("task < 'a'", 5, "use one of == != ~ !~"),
        ("task == algebra", 8, 'write "algebra"'),
        ("outcome == 'scord'", 11, "did you mean 'scored'"),
        ("passed == 1", 10, "true or false"),
        ("passed < true", 7, "use == or !="),
        ("reward", 0, "not yes or no"),
        ("reward < null", 7, "null is compared"),
        ("(reward < 1", 11, "expected ')'"),
        ("reward < 1 task == 'a'", 11, "join comparisons"),
        ("reward <", 8, "expected a number"),
        ("reward < 1 and", 14, "expected a column"),
        ("task == 'a", 8, "does not end"),
        ("reward < 1; drop table", 10, "no word of a filter"),
        ("__class__ == 1", 0, "no column"),
        ("(" * 60 + "passed" + ")" * 60, 40, "nested"),
        ("passed or " * 300 + "passed", 2000, "at most 2000"),
    ],
)
def test_an_error_points_at_its_place(text: str, column: int, problem: str) -> None:
    with pytest.raises(FilterError, match="at column") as caught:
        parse_filter(text)
    assert caught.value.column == column
    assert problem in caught.value.problem


@given(st.text(max_size=40) | st.text("reward task()<>=!~'\" andornot0.5", max_size=40))
def test_any_text_is_a_filter_or_an_error_within_it(text: str) -> None:
    try:
        assert isinstance(parse_filter(text), RolloutFilter)
    except FilterError as error:
        assert 0 <= error.column <= len(text)
        assert error.problem


async def test_any_text_can_be_a_value_and_finds_itself_alone(tmp_path: Path) -> None:
    texts = ('a "b" c', "back\\slash", "\\", "\\\\", '"', "плюс + 'x'", "a b c")
    tasks = [TaskRef(split="test", id=text, digest="sha256:0") for text in texts]
    await write(tmp_path / "run", [record(f"g{at}-0", task=task, turns=()) for at, task in enumerate(tasks)])
    feed = RunFeed(tmp_path / "run")
    feed.refresh()
    for at, text in enumerate(texts):
        found = feed.rollouts(where=f"task == {quoted_text(text)}")
        assert [feed.columns.texts["rollout_id"][place] for place in found.page(0, 9)] == [f"g{at}-0"]
