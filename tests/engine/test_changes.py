"""What may change when a run is resumed: every setting is judged, harmful ones are refused by name."""

import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel, JsonValue

from rollouthub.engine.open_plan import open_plan
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import RunRequest, build_request
from rollouthub.engine.settings_changes import ENVIRONMENT_HARMLESS, all_changes, changed_settings
from rollouthub.errors import RunDirectoryError
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.settings import OnResume, on_resume
from rollouthub.store import open_run
from tests.engine.resuming import asked, half_broken, play, stored, summed_up

SUMS = '''
import json
from pathlib import Path
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

class SumsConfig(EnvironmentConfig):
    """Where the sums are."""
    data: str

class Sums(Environment[SumsConfig]):
    """Sums from a file."""

    @classmethod
    def tasks(cls, config, split, seed):
        for index, line in enumerate(Path(config.data).read_text().splitlines()):
            yield Task(Public(id=f"test/{index}", prompt=line), Secret())

    async def verify(self, submission):
        return Score(reward=1.0, passed=True)
'''


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """The file of an environment that is half broken."""
    return half_broken(tmp_path)


async def resolved(**values: Any) -> dict[str, JsonValue]:
    request = build_request({"environments": ["arithmetic"], **values}, "test")
    async with open_plan(make_plan(request), Credentials()) as opened:
        return opened.resolved


@pytest.mark.parametrize(
    ("model", "harmful"),
    [
        (RunRequest, {"model", "agent", "agent_set", "seats", "seed", "sampling", "set", "roles", "fallbacks"}),
        (ModelConfig, {"name", "sampling", "fallbacks"}),
    ],
)
def test_what_makes_rollouts_incomparable_is_not_marked_as_harmless(model: type[BaseModel], harmful: set[str]) -> None:
    """A setting without a mark may not change; `set`, `roles` and `fallbacks` may within."""
    assert {name for name in harmful if on_resume(model, name) is not None} == set()
    assert on_resume(model, "budget") is OnResume.HARMLESS
    assert on_resume(model, "price_prompt") is OnResume.PRICE
    assert on_resume(model, "no_such_setting") is None


async def test_everything_that_is_recorded_of_a_run_is_judged() -> None:
    found = await resolved()
    assert sorted(found) == ["agent_version", "environments", "hub_version", "request"]
    environments: Any = found["environments"]
    judged = {"name", "version", "digest", "tools_digest", "split", "limits", *ENVIRONMENT_HARMLESS}
    assert set(environments[0]) == judged


@pytest.mark.parametrize(
    "change",
    [
        {"pool": "ray", "workers": 2, "ray": {"cpus": 2}},
        {"run_limits": {"max_seconds": 9}},
        {"tasks": ["test/0"]},
        {"model": "hosted_vllm/m", "base_url": ["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"]},
        {"price_prompt": 1.0},
        {"roles": {"judge": {"name": "hosted_vllm/j", "base_url": "http://127.0.0.1:9/v1", "budget": 3}}},
        {"fallbacks": [{"name": "hosted_vllm/f", "max_tries": 9, "fallbacks": [{"name": "mock/say", "budget": 1}]}]},
    ],
    ids=lambda change: next(iter(cast(dict[str, Any], change))),
)
def test_harmless_changes_are_accepted(change: dict[str, Any]) -> None:
    before = recorded()
    assert changed_settings(before, recorded(**change)) == []
    assert all_changes(before, recorded(**change))


def recorded(**change: Any) -> dict[str, JsonValue]:
    """What is recorded of a run with a judge and a fallback."""
    values: dict[str, Any] = {
        "environments": ["e"],
        "model": "hosted_vllm/m",
        "roles": {"judge": "hosted_vllm/j"},
        "fallbacks": [{"name": "hosted_vllm/f", "fallbacks": ["mock/say"]}],
        **change,
    }
    environment: JsonValue = {
        "name": "e",
        "digest": "d",
        "limits": {"max_turns": 5, "max_cost": values.pop("max_cost", None)},
    }
    request = RunRequest.model_validate(values).model_dump(mode="json")
    return {"hub_version": "1", "agent_version": "1", "request": request, "environments": [environment]}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": "hosted_vllm/n"}, "request.model: 'hosted_vllm/m' → 'hosted_vllm/n'"),
        ({"roles": {"judge": "hosted_vllm/k"}}, "request.roles.judge.name: 'hosted_vllm/j' → 'hosted_vllm/k'"),
        ({"roles": {}}, "request.roles.judge: "),
        ({"fallbacks": []}, "request.fallbacks: "),
        (
            {"fallbacks": [{"name": "hosted_vllm/f", "fallbacks": ["mock/echo"]}]},
            "request.fallbacks.0.fallbacks.0.name: 'mock/say' → 'mock/echo'",
        ),
        ({"sampling": {"temperature": 0.5}}, "request.sampling.temperature: None → 0.5"),
        ({"max_cost": 1.0, "price_output": 2.0}, "request.price_output: None → 2.0"),
    ],
)
def test_harmful_changes_are_named(change: dict[str, Any], named: str) -> None:
    lines = changed_settings(recorded(), recorded(**change))
    assert any(line.startswith(named) for line in lines), lines


def test_a_setting_nobody_has_judged_is_harmful() -> None:
    before = recorded()
    assert changed_settings(before, {**before, "request": {**RunRequest().model_dump(), "mystery": 1}})


async def test_a_resume_records_what_changed_and_where(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=2), run)
    await play(asked(world, limit=2), run, resume=True)
    await play(asked(world, limit=3, concurrency=5), run, resume=True)
    with open_run(run) as reader:
        info = reader.info
    assert [resumption.changes for resumption in info.resumptions] == [
        (),
        ("request.concurrency: 32 → 5", "request.limit: 2 → 3"),
    ]
    assert {resumption.host for resumption in info.resumptions} == {info.host}
    assert summed_up(run).as_json()["resumptions"][1]["hub_version"] == info.hub_version


async def test_a_copied_run_goes_on_where_it_was_copied_to(world: Path, tmp_path: Path) -> None:
    await play(asked(world, limit=4), tmp_path / "run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copytree(tmp_path / "run", elsewhere / "run")
    shutil.copy(world, elsewhere)
    watching = await play(asked(elsewhere / world.name, limit=4), elsewhere / "run", resume=True)
    assert (watching.planned, watching.done) == (4, 2)
    assert summed_up(elsewhere / "run").scored == 4, "nothing is broken there"
    assert summed_up(tmp_path / "run").scored == 2
    (world.with_name("broken")).unlink()
    changed = elsewhere / world.name
    changed.write_text(changed.read_text().replace("reward=1.0", "reward=0.5"))
    with pytest.raises(RunDirectoryError, match=r"environments\.0\.digest"):
        await play(asked(changed, limit=4), elsewhere / "run", resume=True)


def sums(data: Path, **more: Any) -> RunRequest:
    file = data.with_name("sums.py")
    values = {"environments": [str(file)], "agent": "null", "set": {"data": str(data)}, **more}
    return build_request(values, "test")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A data file of three tasks."""
    (tmp_path / "sums.py").write_text(SUMS)
    return written(tmp_path / "rows.txt", "1+1?\n2+2?\n3+3?\n")


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


async def test_a_data_file_may_have_moved(rows: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(sums(rows, limit=2), run)
    moved = written(tmp_path / "moved.txt", "1+1?\n2+2?\n3+3?\n")
    await play(sums(moved), run, resume=True)
    assert summed_up(run).scored == 3
    assert stored(run)[0]["set"]["sums.data"] == str(moved)
    with open_run(run) as reader:
        assert any(line.startswith("request.set.sums.data: ") for line in reader.info.resumptions[0].changes)


async def test_another_data_file_is_refused_by_name(rows: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(sums(rows, limit=2), run)
    other = written(tmp_path / "other.txt", "1-1?\n")
    with pytest.raises(RunDirectoryError, match=r"request\.set\.sums\.data: .*other\.txt' \(another content\)"):
        await play(sums(other), run, resume=True)


async def test_a_data_file_may_have_grown(rows: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(sums(rows), run)
    written(rows, "1+1?\n2+2?\n3+3?\n9+9?\n")
    assert (await play(sums(rows), run, resume=True)).planned == 4


async def test_tasks_that_are_no_longer_what_they_were_are_refused_by_name(rows: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(sums(rows), run)
    written(rows, "1+1?\n2+2=?\n3+3?\n")
    with pytest.raises(RunDirectoryError, match=r"1 tasks that are not what they were.*: sums 'test/1'\. Put back"):
        await play(sums(rows), run, resume=True)
