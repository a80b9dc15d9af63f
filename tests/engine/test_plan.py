"""A request becomes a plan: names checked, settings merged, samples seeded."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import check_roles, make_plan
from rollouthub.engine.run_request import RunRequest, build_request, request_from_file
from rollouthub.engine.sample import Sample
from rollouthub.engine.settings_changes import changed_settings
from rollouthub.errors import ConfigError, DataError
from rollouthub.models.credentials import Credentials


@asynccontextmanager
async def opened(request: RunRequest) -> AsyncGenerator[OpenPlan]:
    async with open_plan(make_plan(request), Credentials({})) as plan:
        yield plan


async def items(request: RunRequest) -> list[Sample]:
    async with opened(request) as plan:
        return [sample async for _, sample in plan.items("run")]


async def resolved(request: RunRequest) -> dict[str, JsonValue]:
    async with opened(request) as plan:
        return plan.resolved


def arithmetic(**more: object) -> RunRequest:
    return RunRequest.model_validate({"environments": ("arithmetic",), "limit": 3, **more})


async def test_samples_of_a_task_share_its_group_and_seed_and_differ_in_the_policys() -> None:
    found = await items(arithmetic(repeats=2, seed=1))
    assert len(found) == 6
    first, second, other = found[0], found[1], found[2]
    assert first.group_id == second.group_id != other.group_id
    assert first.seed == second.seed != other.seed
    assert first.policy_seed != second.policy_seed
    assert len({sample.rollout_id for sample in found}) == 6


async def test_the_policy_is_seeded_only_on_request() -> None:
    assert {sample.policy_seed for sample in await items(arithmetic())} == {None}


async def test_ids_do_not_depend_on_limit_or_repeats() -> None:
    few = {sample.rollout_id for sample in await items(arithmetic())}
    many = {sample.rollout_id for sample in await items(arithmetic(limit=10, repeats=4))}
    assert few < many


async def test_another_seed_makes_other_tasks() -> None:
    assert (await items(arithmetic(seed=1)))[0].task.digest != (await items(arithmetic(seed=2)))[0].task.digest


async def test_limits_are_the_callers_then_the_environments_then_the_hubs(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"problem": "1+1?", "answer": "2"}\n')
    request = RunRequest.model_validate(
        {"environments": ("deepscaler-8k",), "set": {"data": str(rows)}, "split": "test", "limits": {"max_seconds": 9}}
    )
    async with opened(request) as plan:
        limits = plan.environments[0].limits
    assert (limits.max_response_tokens, limits.max_seconds, limits.max_turns) == (8192, 9, 50)


async def test_a_bad_row_stops_the_count_unless_skipped(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"problem": "1+1?", "answer": "2"}\n[]\n{"problem": "2+2?", "answer": "4"}\n')
    request = RunRequest(environments=("math",), set={"data": str(rows)}, repeats=3)
    async with opened(request) as plan:
        with pytest.raises(DataError, match=r"rows\.jsonl:2"):
            await plan.count()
    async with opened(request.model_copy(update={"skip_bad": True})) as plan:
        assert await plan.count() == (6, 1)


async def test_a_limit_counts_tasks_not_bad_rows(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('[]\n{"problem": "1+1?", "answer": "2"}\n{"problem": "2+2?", "answer": "4"}\n')
    request = RunRequest(environments=("math",), set={"data": str(rows)}, limit=1, skip_bad=True)
    async with opened(request) as plan:
        assert await plan.count() == (1, 1)


async def test_the_resolved_run_can_be_run_again_and_does_not_differ(tmp_path: Path) -> None:
    request = arithmetic(set={"terms": 4}, repeats=2)
    first = await resolved(request)
    again = build_request(first["request"], "resolved")  # pyright: ignore[reportArgumentType]  # an object
    assert changed_settings(first, await resolved(again)) == []
    assert [sample.task.digest for sample in await items(request)] == [
        sample.task.digest for sample in await items(again)
    ]


async def test_only_harmful_changes_are_named() -> None:
    before = await resolved(arithmetic(limits={"max_turns": 5}))
    harmless = await resolved(arithmetic(limits={"max_turns": 5}, concurrency=7, limit=9, repeats=5))
    harmful = await resolved(arithmetic(limits={"max_turns": 6}, agent="null"))
    assert changed_settings(before, harmless) == []
    changes = "\n".join(changed_settings(before, harmful))
    assert "environments.0.limits.max_turns: 5 → 6" in changes
    assert "request.agent: 'oracle' → 'null'" in changes


async def test_a_setting_may_name_its_environment(tmp_path: Path) -> None:
    async with opened(arithmetic(set={"arithmetic.terms": 3})) as plan:
        assert plan.environments[0].host.info.config["terms"] == 3
    with pytest.raises(ConfigError, match=r"aritmetic\.terms"):
        make_plan(arithmetic(set={"aritmetic.terms": 3}))


def test_a_configuration_that_is_none_is_refused(tmp_path: Path) -> None:
    for name, text in (("a.toml", "limit = "), ("b.json", "[]"), ("c.json", "{}"), ("d.toml", 'limit = "many"')):
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError, match=name):
            request_from_file(tmp_path / name)


def test_an_unknown_setting_of_a_section_is_met_with_its_neighbours() -> None:
    with pytest.raises(ConfigError, match=r"'retries\.infra'; did you mean 'retries\.infrastructure'"):
        build_request({"retries": {"infra": 1}}, "run.toml")


def test_settings_that_are_no_table_are_refused(tmp_path: Path) -> None:
    (tmp_path / "resolved.json").write_text('{"request": null}')
    with pytest.raises(ConfigError, match=r"resolved\.json: the settings must be a table, this is None"):
        request_from_file(tmp_path / "resolved.json")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"limits": {"max_seconds": 4000}}, r"max_seconds = 4000 is past a deadline .*deadlines\.agent = 3600"),
        ({"limits": {"max_cost": 1}, "model": "mock/solver"}, "max_cost = 1 cannot be kept without a price"),
    ],
)
async def test_a_limit_that_could_never_stop_an_episode_is_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        await resolved(arithmetic(**settings))


async def test_a_limit_within_its_deadline_and_a_budget_with_a_price_hold() -> None:
    assert await resolved(arithmetic(limits={"max_seconds": 4000}, deadlines={"agent": 5000}))
    assert await resolved(arithmetic(limits={"max_cost": 1}, model="mock/solver", price_output=2))


async def test_a_run_of_an_older_hub_that_lacks_a_setting_is_not_a_changed_one() -> None:
    now = await resolved(arithmetic())
    older = json.loads(json.dumps(now))
    del older["request"]["agent_set"]
    assert changed_settings(older, now) == []


def test_one_process_or_two_is_not_both() -> None:
    with pytest.raises(ConfigError, match="served, in_process"):
        make_plan(arithmetic(served=True, in_process=True))


def test_a_setting_finds_the_environment_of_a_name_with_dots(tmp_path: Path) -> None:
    file = tmp_path / "my.sums.py"
    file.write_text(
        "from rollouthub_servers.arithmetic import Arithmetic as Shipped\nclass Sums(Shipped):\n    'Sums.'\n"
    )
    plan = make_plan(RunRequest(environments=(str(file), "arithmetic"), set={"my.sums.size": 7, "arithmetic.size": 9}))
    assert [planned.settings for planned in plan.environments] == [{"size": 7}, {"size": 9}]


def test_settings_and_roles_are_not_for_a_server_that_runs_already() -> None:
    attached = RunRequest(environments=("http://127.0.0.1:9",))
    assert make_plan(attached).environments[0].name == "127.0.0.1:9"
    for more in ({"set": {"size": 3}}, {"roles": {"judge": {"name": "mock/solver"}}}):
        with pytest.raises(ConfigError, match="server is already running"):
            make_plan(RunRequest.model_validate({**attached.model_dump(), **more}))
    both = RunRequest(environments=("http://127.0.0.1:9", "arithmetic"), set={"size": 3})
    assert [planned.settings for planned in make_plan(both).environments] == [{}, {"size": 3}]


def refused(**settings: object) -> str:
    """Why a request is no plan."""
    with pytest.raises(ConfigError) as caught:
        make_plan(build_request({"environments": ["arithmetic"], **settings}, "run.toml"))
    return str(caught.value)


def test_models_may_be_given_by_their_names_alone() -> None:
    request = build_request({"fallbacks": ["mock/echo"], "roles": {"judge": "mock/say"}, "base_url": "http://h"}, "x")
    assert [fallback.name for fallback in request.fallbacks] == ["mock/echo"]
    assert request.roles["judge"].name == "mock/say"
    assert request.base_url == ("http://h",)
    assert build_request({"fallbacks": "mock/echo"}, "x").fallbacks == request.fallbacks
    assert build_request(request.model_dump(mode="json"), "x") == request


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"roles": {"judge": {"nam": "mock/say"}}}, "run.toml: no setting is named 'roles.judge.nam'; did you mean"),
        ({"roles": {"judge": {}}}, "run.toml: roles.judge.name is missing"),
        ({"roles": {"judge": {"name": "mock/sya"}}}, "run.toml: no mock model is named 'sya'; did you mean 'say'?"),
        ({"fallbacks": [{"nme": "mock/say"}]}, "run.toml: no setting is named 'fallbacks.0.nme'; did you mean"),
        ({"base_url": ["http://h", 3]}, "run.toml: base_url.1 = 3: Input should be a valid string"),
        ({"budget": 5.0, "fallbacks": ["mock/echo"]}, "fallbacks, budget is given, but no model"),
        (
            {"model": "mock/echo", "tokens_per_minute": 9, "sampling": {"max_tokens": 10}},
            "max_tokens = 10 never fits into tokens_per_minute = 9",
        ),
    ],
)
def test_mistakes_in_what_is_said_of_models_are_named_by_their_keys(settings: dict[str, Any], complaint: str) -> None:
    assert complaint in refused(**settings)


def test_a_role_nobody_asks_for_is_refused() -> None:
    request = build_request({"environments": ["arithmetic"], "roles": {"judg": "mock/say"}}, "x")
    with pytest.raises(ConfigError, match=r"arithmetic asks no model as its 'judg': none, as configured"):
        check_roles(make_plan(request))
