"""TRL's plug points: rows, masks and rewards to the letter, and nothing learnt from that must not be."""

import inspect
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Literal, get_type_hints

import pytest
from mcp_types import Tool

from rollouthub.errors import ConfigError
from rollouthub.export import NotTrainable, TaskReference, training_rows
from rollouthub.generation import Sampling
from rollouthub.task import Public
from rollouthub.trainers.trl import hub_reward, task_of
from rollouthub.trainers.trl.prompts import task_row
from rollouthub.trainers.trl.rollouts import columns, groups_of, rollout_func
from rollouthub.trainers.trl.tool_methods import method_name, methods_of, type_of
from tests.export.made import forked, rollout, turn

REFERENCE = TaskReference("arithmetic", "train", "train/7")


def test_a_row_gives_back_ids_masks_logprobs_and_reward_exactly() -> None:
    played = rollout()
    (row,) = training_rows(played)
    found = columns([played], "longest", end_id=9)
    assert found["prompt_ids"] == [[1, 2, 3]]
    assert found["completion_ids"] == [[4, 5, 6, 7]]
    assert found["env_mask"] == [[1, 1, 0, 1]]
    assert found["logprobs"] == [row.response_logprobs] == [[-0.125, -0.25, 0.0, -0.125]]
    assert hub_reward([], **found) == [1.0]


def test_there_is_a_row_for_each_prompt_in_their_order() -> None:
    found = columns([rollout(sample=0, reward=0.0), rollout(sample=1, reward=None), rollout(sample=2)], "longest", 9)
    assert found["reward"] == [0.0, None, 1.0]
    assert found["rollout_id"] == ["g1-0", "g1-1", "g1-2"]
    assert {len(values) for values in found.values()} == {3}


def test_a_rollout_without_a_verdict_has_no_reward_and_weighs_nothing() -> None:
    found = columns([rollout(), rollout(reward=None)], "longest", end_id=9)
    assert (found["reward"][1], found["env_mask"][1], found["refused"][1]) == (None, [0], "unscored")
    assert (found["prompt_ids"][1], found["completion_ids"][1], found["logprobs"][1]) == ([9], [9], [0.0])


def test_a_batch_of_words_alone_is_refused_and_not_skipped_for_ever() -> None:
    words = rollout(turn(0, [1], [2], prompt_token_ids=None, output_token_ids=None, output_logprobs=None))
    with pytest.raises(NotTrainable, match="text_only"):
        columns([words, words], "longest", end_id=9)


@pytest.mark.parametrize(("take", "ids"), [("longest", [4, 5, 6, 7, 8]), ("last", [7])])
def test_of_a_rollout_that_forked_the_row_that_was_chosen_is_learnt_from(
    take: Literal["longest", "last"], ids: list[int]
) -> None:
    found = columns([forked()], take, end_id=9)
    assert found["completion_ids"] == [ids]
    assert found["row_count"] == [2]


def test_repeated_prompts_are_groups_and_each_sample_is_played_once() -> None:
    other = TaskReference("arithmetic", "", "train/8")
    wanted = groups_of([REFERENCE, REFERENCE, other, other, REFERENCE, REFERENCE], 2, "run/5.1")
    assert [(each.task_id, each.group, each.sample) for each in wanted] == [
        ("train/7", "run/5.1.0", 0),
        ("train/7", "run/5.1.0", 1),
        ("train/8", "run/5.1.0", 0),
        ("train/8", "run/5.1.0", 1),
        ("train/7", "run/5.1.1", 0),
        ("train/7", "run/5.1.1", 1),
    ]
    assert [wanted[0].split, wanted[2].split] == ["train", None]


class Worker:
    """Plays nothing, and keeps what it is asked for."""

    policy_version = 0

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def play_all(self, wanted: Sequence[Any]) -> list[Any]:
        self.asked = list(wanted)
        return [rollout(sample=place) for place in range(len(self.asked))]


def test_rollouts_are_asked_for_at_the_trainers_temperature_and_stamped_with_its_step() -> None:
    worker: Any = Worker()
    trainer = SimpleNamespace(
        args=SimpleNamespace(use_vllm=True, vllm_mode="server"),
        model=SimpleNamespace(training=True),
        state=SimpleNamespace(global_step=12),
        processing_class=SimpleNamespace(eos_token_id=9),
        num_generations=2,
        num_generations_eval=1,
        temperature=0.7,
    )
    prompts = [task_row(REFERENCE, Public(id="train/7", prompt="go"))["prompt"]] * 2
    play = rollout_func(worker, sampling=Sampling(max_tokens=5))
    found = play(prompts, trainer)
    assert worker.policy_version == 12
    assert len(found["prompt_ids"]) == 2
    assert [each.sample for each in worker.asked] == [0, 1]
    assert worker.asked[0].sampling == Sampling(temperature=0.7, max_tokens=5)
    before = worker.asked[0].group
    play(prompts, trainer)
    assert worker.asked[0].group != before


@pytest.mark.parametrize(("use_vllm", "mode"), [(False, "server"), (True, "colocate")])
def test_weights_that_reach_no_server_are_refused_unless_the_caller_moves_them(use_vllm: bool, mode: str) -> None:
    worker: Any = Worker()
    trainer: Any = SimpleNamespace(args=SimpleNamespace(use_vllm=use_vllm, vllm_mode=mode))
    with pytest.raises(ConfigError, match="moves_weights=True"):
        rollout_func(worker)([], trainer)


def test_a_prompt_names_its_task_and_shows_its_public_half_alone() -> None:
    row = task_row(REFERENCE, Public(id="train/7", prompt="What is 1 + 1?", system="Be brief.", source="made"))
    assert [(each["role"], each["content"]) for each in row["prompt"]] == [
        ("system", "Be brief."),
        ("user", "What is 1 + 1?"),
    ]
    assert task_of(row["prompt"]) == REFERENCE
    assert set(row) == {"prompt", "task", "source"}


@pytest.mark.parametrize("prompt", ["text", [], [{"role": "user", "content": "hi"}], [{"task": "none"}]])
def test_a_prompt_that_names_no_task_is_refused_with_a_way_out(prompt: object) -> None:
    with pytest.raises(ConfigError, match=r"names no task"):
        task_of(prompt)


SEARCH = Tool(
    name="search-files",
    description="Find files.\nArgs:\n  are below",
    input_schema={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "What to\n find."},
            "kind": {"enum": ["file", "folder"]},
            "limit": {"type": "integer", "default": 10},
            "inside": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "sizes": {"type": "array", "items": {"type": "number"}},
        },
        "required": ["pattern", "kind"],
    },
)


def test_a_tool_is_a_typed_method_that_passes_on_what_is_given_and_nothing_else() -> None:
    calls: list[tuple[str, dict[str, Any]]] = []

    def call(self: Any, tool: str, arguments: dict[str, Any]) -> str:
        calls.append((tool, arguments))
        return "found"

    methods = methods_of([SEARCH], call)
    thing: Any = type("Thing", (), {**methods})()
    assert thing.search_files(pattern="*.py", kind="file") == "found"
    assert calls == [("search-files", {"pattern": "*.py", "kind": "file"})]
    hints = get_type_hints(methods["search_files"])
    assert (hints["pattern"], hints["kind"], hints["limit"]) == (str, Literal["file", "folder"], int)
    assert hints["sizes"] == list[float] | None
    shown = inspect.signature(thing.search_files).parameters
    assert (shown["limit"].default, shown["pattern"].default) == (10, inspect.Parameter.empty)
    assert "    pattern: What to find." in (methods["search_files"].__doc__ or "")


@pytest.mark.parametrize(
    ("tool", "method"),
    [("reset", "tool_reset"), ("get_reward", "tool_get_reward"), ("_x", "tool_x"), ("a.b", "a_b"), ("1st", "tool_1st")],
)
def test_no_tool_takes_a_name_that_is_the_trainers(tool: str, method: str) -> None:
    assert method_name(tool) == method


def nothing(self: object, tool: str, arguments: dict[str, Any]) -> None:
    """Call no tool."""


def test_tools_that_cannot_be_methods_are_refused_by_name() -> None:
    odd = Tool(name="odd", input_schema={"type": "object", "properties": {"from": {"type": "string"}}})
    with pytest.raises(ConfigError, match="'from'"):
        methods_of([odd], nothing)
    plain = {"type": "object", "properties": dict[str, Any]()}
    with pytest.raises(ConfigError, match="two tools"):
        methods_of([Tool(name="a-b", input_schema=plain), Tool(name="a_b", input_schema=plain)], nothing)


def test_types_that_python_cannot_tell_are_anything() -> None:
    assert type_of({"$ref": "#/$defs/Point"}, {"Point": {"type": "object"}}) == dict[str, Any]
    assert type_of({"type": ["string", "null"]}, {}) == str | None
    assert type_of({"not": {}}, {}) is Any
