"""A request becomes a plan: names checked, settings merged, samples seeded."""

import json
from pathlib import Path

import pytest

from envhub.engine.item import Item
from envhub.engine.plan import changed_settings, make_plan
from envhub.engine.request import RunRequest, build_request, request_from_file
from envhub.errors import ConfigError, DataError
from envhub.task import BadRow


def items(request: RunRequest) -> list[Item]:
    plan = make_plan(request)
    found: list[Item] = []
    for planned, actors in plan.casts("run", None):
        for card in plan.tasks(planned):
            assert not isinstance(card, BadRow)
            found += plan.items(actors, card)
    return found


def arithmetic(**more: object) -> RunRequest:
    return RunRequest.model_validate({"environments": ("arithmetic",), "limit": 3, **more})


def test_samples_of_a_task_share_its_group_and_seed_and_differ_in_the_policys() -> None:
    found = items(arithmetic(repeats=2, seed=1))
    assert len(found) == 6
    first, second, other = found[0], found[1], found[2]
    assert first.group_id == second.group_id != other.group_id
    assert first.seed == second.seed != other.seed
    assert first.policy_seed != second.policy_seed
    assert len({item.rollout_id for item in found}) == 6


def test_the_policy_is_seeded_only_on_request() -> None:
    assert {item.policy_seed for item in items(arithmetic())} == {None}


def test_ids_do_not_depend_on_limit_or_repeats() -> None:
    few = {item.rollout_id for item in items(arithmetic())}
    many = {item.rollout_id for item in items(arithmetic(limit=10, repeats=4))}
    assert few < many


def test_another_seed_makes_other_tasks() -> None:
    assert items(arithmetic(seed=1))[0].task.digest != items(arithmetic(seed=2))[0].task.digest


def test_limits_are_the_callers_then_the_environments_then_the_hubs(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"problem": "1+1?", "answer": "2"}\n')
    request = RunRequest.model_validate(
        {"environments": ("deepscaler-8k",), "set": {"data": str(rows)}, "split": "test", "limits": {"max_seconds": 9}}
    )
    plan = make_plan(request)
    limits = plan.limits(plan.environments[0])
    assert (limits.max_response_tokens, limits.max_seconds, limits.max_turns) == (8192, 9, 50)


def test_a_bad_row_stops_the_count_unless_skipped(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"problem": "1+1?", "answer": "2"}\n[]\n{"problem": "2+2?", "answer": "4"}\n')
    request = RunRequest(environments=("math",), set={"data": str(rows)}, repeats=3)
    with pytest.raises(DataError, match=r"rows\.jsonl:2"):
        make_plan(request).count()
    assert make_plan(request.model_copy(update={"skip_bad": True})).count() == (6, 1)


def test_a_limit_counts_tasks_not_bad_rows(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('[]\n{"problem": "1+1?", "answer": "2"}\n{"problem": "2+2?", "answer": "4"}\n')
    request = RunRequest(environments=("math",), set={"data": str(rows)}, limit=1, skip_bad=True)
    assert make_plan(request).count() == (1, 1)


def test_the_resolved_run_can_be_run_again_and_does_not_differ(tmp_path: Path) -> None:
    plan = make_plan(arithmetic(set={"terms": 4}, repeats=2))
    again = make_plan(build_request(plan.resolved["request"], "resolved"))  # pyright: ignore[reportArgumentType]  # an object
    assert changed_settings(plan.resolved, again.resolved) == []
    assert [item.task.digest for item in items(plan.request)] == [item.task.digest for item in items(again.request)]


def test_only_harmful_changes_are_named() -> None:
    before = make_plan(arithmetic(limits={"max_turns": 5})).resolved
    harmless = make_plan(arithmetic(limits={"max_turns": 5}, concurrency=7, limit=9, repeats=5)).resolved
    harmful = make_plan(arithmetic(limits={"max_turns": 6}, agent="null")).resolved
    assert changed_settings(before, harmless) == []
    changes = "\n".join(changed_settings(before, harmful))
    assert "environments.0.limits.max_turns: 5 → 6" in changes
    assert "request.agent: 'oracle' → 'null'" in changes


def test_a_setting_may_name_its_environment(tmp_path: Path) -> None:
    plan = make_plan(arithmetic(set={"arithmetic.terms": 3}))
    assert plan.environments[0].config["terms"] == 3
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
def test_a_limit_that_could_never_stop_an_episode_is_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        make_plan(arithmetic(**settings))


def test_a_limit_within_its_deadline_and_a_budget_with_a_price_hold() -> None:
    make_plan(arithmetic(limits={"max_seconds": 4000}, deadlines={"agent": 5000}))
    make_plan(arithmetic(limits={"max_cost": 1}, model="mock/solver", price_output=2))


def test_a_run_of_an_older_hub_that_lacks_a_setting_is_not_a_changed_one() -> None:
    now = make_plan(arithmetic()).resolved
    older = json.loads(json.dumps(now))
    del older["request"]["agent_set"]
    assert changed_settings(older, now) == []
