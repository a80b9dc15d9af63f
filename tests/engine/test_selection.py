"""Which tasks are played: by id, pattern or list, in which order, from where on, and how many."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from rollouthub.engine.open_plan import open_plan
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import RunRequest, build_request, request_from_file
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.models.credentials import Credentials
from rollouthub.store import open_run
from tests.engine.resuming import play

WORLD = Path(__file__).parent.parent / "trainers" / "stream" / "world.py"
SPLIT = [f"test/{index}" for index in range(100)]


async def chosen(environments: tuple[str, ...] = ("arithmetic",), **settings: object) -> list[str]:
    """The ids that a run of a split of a hundred tasks plays."""
    values = {"environments": environments, "set": {"arithmetic.size": "100"}, **settings}
    request = RunRequest.model_validate(values)
    async with open_plan(make_plan(request), Credentials({})) as plan:
        await plan.count()
        return [sample.task_ref.id async for _, sample in plan.items("run")]


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


async def mixed(**settings: object) -> list[tuple[str, str]]:
    """The environments and ids that a run of two environments of forty tasks each plays."""
    request = RunRequest.model_validate({"environments": ("arithmetic", "customer_service"), "limit": 40, **settings})
    async with open_plan(make_plan(request), Credentials({})) as plan:
        planned, _ = await plan.count()
        played = [(sample.context.environment.name, sample.task_ref.id) async for _, sample in plan.items("run")]
        assert len(played) == planned
        return played


async def test_a_mixture_gives_each_environment_its_share_evenly_spread() -> None:
    played = await mixed(weights={"arithmetic": 3})
    names = [name for name, _ in played]
    assert [task_id for name, task_id in played if name == "arithmetic"] == SPLIT[:40]
    assert names.count("customer_service") == 13
    assert all(1 <= names[place : place + 5].count("customer_service") <= 2 for place in range(0, 48, 4))
    assert len(await mixed(weights={"customer_service": 0.5})) == 60
    assert {name for name, _ in (await mixed())[:40]} == {"arithmetic"}


async def test_weights_of_what_the_run_has_not_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'arithmetic'"):
        await chosen(("arithmetic", "customer_service"), weights={"aritmetic": 3})
    with pytest.raises(ConfigError, match="leave them out"):
        await chosen(weights={"arithmetic": 3})


async def test_a_band_is_the_tasks_that_an_earlier_run_passed_so_often(tmp_path: Path) -> None:
    """Of six tasks, two are always solved, the others every other time."""
    world, first = (str(WORLD),), str(tmp_path / "first")
    config = {"solved": 2}
    await play_world(tmp_path / "first", repeats=4)
    assert await chosen(world, model="mock/say?text=x", set=config, band=f"0.2:0.8@{first}") == [
        "2",
        "3",
        "4",
        "5",
    ]
    assert await chosen(world, model="mock/say?text=x", set=config, band=f"0.8:1@{first}", limit=1) == ["0"]
    assert await chosen(world, model="mock/say?text=x", set=config, band=f"0:0.5@{first}", tasks=["[1-3]"]) == [
        "2",
        "3",
    ]
    with pytest.raises(ConfigError, match="4 are below, 2 above"):
        await chosen(world, model="mock/say?text=x", set=config, band=f"0.6:0.9@{first}")


async def test_a_run_by_band_is_resumed_without_the_earlier_run(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    await play_world(first, repeats=2)
    await play_world(second, band=f"0.2:0.8@{first}", limit=1)
    shutil.rmtree(first)
    request = request_from_file(second / "resolved.json") | {"limit": None}
    await play(build_request(request, "a file"), second, resume=True)
    with open_run(second) as reader:
        assert sorted(record.task.id for record in reader.rollouts()) == ["2", "3", "4", "5"]


async def play_world(directory: Path, **settings: Any) -> None:
    """A run of the small world, whose first two tasks are always solved."""
    values = {"environments": str(WORLD), "model": "mock/say?text=x", "set": {"solved": 2}, **settings}
    await play(build_request(values, "a test"), directory)


@pytest.mark.parametrize(
    "text", ["0.2:0.8", "0.2@runs/first", "0.9:0.2@runs/first", "0:2@runs/first", "a:b@runs/first", "nan:1@runs/first"]
)
async def test_what_is_no_band_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="LOW:HIGH@RUN"):
        await chosen(band=text)
