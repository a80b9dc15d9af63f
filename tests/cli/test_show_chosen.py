"""`hub show RUN --where … --sort … --by …`: the rollouts that a filter wants, sorted, or in groups."""

from pathlib import Path

import pytest

from tests.export.kept import group, keep

from .conftest import Hub


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two groups of two."""
    return keep(tmp_path / "run", *group(1.0, 0.0), *group(0.5, 0.25, name="g2"), repeats=2)


def test_a_filter_and_a_column_choose_what_is_listed(hub: Hub, run: Path) -> None:
    rows = hub("show", "run", "--where", "reward < 1", "--sort", "-reward", "--json").json
    assert [row["reward"] for row in rows] == [0.5, 0.25, 0.0]
    listed = hub("show", "run", "--where", "reward < 1", "--sort", "reward", "--limit", "1").out
    assert "g1-1" in listed
    assert "3 rollouts, 2 of them not shown" in listed


def test_rollouts_are_put_together_by_a_column(hub: Hub, run: Path) -> None:
    groups = hub("show", "run", "--by", "group", "--sort", "reward", "--json").json
    assert [(each["group_id"], each["rollouts"], each["mean_reward"]) for each in groups] == [
        ("g2", 2, 0.375),
        ("g1", 2, 0.5),
    ]
    table = hub("show", "run", "--by", "group", "--where", "reward == 1").out
    assert "g1" in table
    assert "g2" not in table


def test_failed_goes_with_a_filter(hub: Hub, run: Path) -> None:
    rows = hub("show", "run", "--failed", "--where", "reward >= 0", "--json").json
    assert all(row["outcome"] != "scored" or row["passed"] is False for row in rows)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--where", "rewrd < 1"], "no column is named 'rewrd'; did you mean 'reward'?"),
        (["--where", "reward = 1"], "compare with =="),
        (["--sort", "nosuch"], "nosuch"),
        (["--sort", "-"], "--sort names a column"),
        (["--by", "nosuch"], "nosuch"),
        (["--by", "task", "--sort", "seconds"], "figure of a group"),
    ],
)
def test_what_means_nothing_is_refused(hub: Hub, run: Path, words: list[str], said: str) -> None:
    assert said in hub("show", "run", *words).refused()
