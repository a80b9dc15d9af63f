"""Which tasks are played: by id, pattern or list, in which order, from where on, and how many."""

from pathlib import Path

import pytest

from rollouthub.engine.open_plan import open_plan
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import RunRequest, request_from_file
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.models.credentials import Credentials

SPLIT = [f"test/{index}" for index in range(100)]


async def chosen(environments: tuple[str, ...] = ("arithmetic",), **settings: object) -> list[str]:
    """The ids that a run of a split of a hundred tasks plays."""
    values = {"environments": environments, "set": {"arithmetic.size": "100"}, **settings}
    request = RunRequest.model_validate(values)
    async with open_plan(make_plan(request), Credentials({})) as plan:
        await plan.count()
        return [item.task_ref.id async for _, item in plan.items("run")]


async def test_tasks_are_those_named_each_once_in_the_order_of_the_names() -> None:
    named = ["test/7", "test/3", "test/7", "test/4?", "test/[0-2]"]
    assert await chosen(tasks=named[:2]) == ["test/7", "test/3"]
    assert await chosen(tasks=named) == [
        "test/7",
        "test/3",
        *SPLIT[40:50],
        *SPLIT[:3],
    ]


async def test_a_run_skips_samples_and_limits_in_this_order() -> None:
    assert await chosen(skip=97) == SPLIT[97:]
    assert await chosen(skip=10, limit=3) == SPLIT[10:13]
    sample = await chosen(skip=50, sample=10)
    assert sample == sorted(sample, key=SPLIT.index)
    assert len(sample) == 10
    assert set(sample) <= set(SPLIT[50:])
    assert await chosen(skip=50, sample=10, limit=4) == sample[:4]


async def test_chance_follows_the_seed_alone_and_a_larger_choice_holds_the_smaller() -> None:
    order = await chosen(shuffle=True)
    assert sorted(order) == sorted(SPLIT) != order
    assert order == await chosen(shuffle=True) != await chosen(shuffle=True, seed=1)
    assert await chosen(shuffle=True, skip=5, limit=5) == order[5:10]
    few, more = set(await chosen(sample=10)), set(await chosen(sample=20))
    assert few < more
    assert few != set(await chosen(sample=10, seed=1))


@pytest.mark.parametrize("name", ["test/1000", "nothing-*"])
async def test_a_name_that_is_no_tasks_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match="no task"):
        await chosen(tasks=["test/3", name])
    with pytest.raises(UnknownNameError, match="did you mean 'test/1"):
        await chosen(tasks=["test/1o"])


async def test_of_several_environments_one_must_know_the_name(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "sum", "problem": "1+1?", "answer": "2"}\n')
    both = ("arithmetic", "math")
    settings = {"arithmetic.size": "9", "math.data": str(rows)}
    assert await chosen(both, set=settings, tasks=["test/3", "s*"]) == ["test/3", "sum"]
    with pytest.raises(UnknownNameError, match="'sun'"):
        await chosen(both, set=settings, tasks=["test/3", "sun"])


async def test_a_split_too_long_to_shuffle_is_sampled() -> None:
    long = {"arithmetic.size": "20001"}
    with pytest.raises(ConfigError, match="--sample N"):
        await chosen(set=long, shuffle=True, limit=3)
    assert len(await chosen(set=long, sample=3)) == 3


def test_a_file_of_settings_names_tasks_by_lists_beside_it(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("# the hard ones\ntest/7\n\ntest/1?\n")
    (tmp_path / "run.toml").write_text('environments = "arithmetic"\ntasks = ["test/3", "@ids.txt"]\n')
    assert request_from_file(tmp_path / "run.toml")["tasks"] == ["test/3", "test/7", "test/1?"]
    (tmp_path / "run.toml").write_text('tasks = "@nowhere.txt"\n')
    with pytest.raises(ConfigError, match=r"nowhere\.txt.*No such file"):
        request_from_file(tmp_path / "run.toml")
