"""What goes into the store comes out as it was, and a long conversation costs what it adds."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouthub import Rollout, Turn
from rollouthub.rollout import Usage
from rollouthub.store import open_run
from rollouthub.values import Float32s, Int32s
from tests.store.records import conversation, record, write
from tests.strategies import json_values, rollouts, tool_calls, turns

patient = settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def trees(draw: st.DrawFn) -> tuple[Turn, ...]:
    """Turns whose prompts extend, cut short, fork from or ignore the conversation of an earlier one."""
    grown: list[Turn] = []
    ids = st.lists(st.integers(0, 3), max_size=4).map(Int32s)
    for index in range(draw(st.integers(1, 5))):
        parent = draw(st.none() | st.integers(0, index))
        prompt = draw(st.none() | ids)
        if parent is not None and parent < index and prompt is not None:
            before = grown[parent]
            history = (before.prompt_token_ids or Int32s()) + (before.output_token_ids or Int32s())
            prompt = history[: draw(st.integers(0, len(history)))] + prompt
        changes: dict[str, Any] = {
            "index": draw(st.just(index) | st.integers(0, 4)),
            "parent_turn": parent,
            "prompt_token_ids": prompt,
            "output_token_ids": draw(st.none() | ids),
            "output_logprobs": draw(st.none() | st.just(Float32s([float("-inf"), -0.0]))),
        }
        grown.append(draw(turns).model_copy(update=changes))
    return tuple(grown)


def stored(records: list[Rollout]) -> list[Rollout]:
    with TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        anyio.run(write, directory, records)
        with open_run(directory) as run:
            return list(run.rollouts(effective=False))


@patient
@given(st.lists(rollouts(), max_size=4, unique_by=lambda rollout: (rollout.rollout_id, rollout.attempt)))
def test_any_record_reads_back_as_it_was(records: list[Rollout]) -> None:
    assert stored(records) == records


@patient
@given(trees())
def test_any_tree_of_turns_reads_back_with_its_exact_token_ids(tree: tuple[Turn, ...]) -> None:
    [back] = stored([record(turns=tree)])
    assert back.turns == tree


@patient
@given(st.text(), json_values, tool_calls)
def test_words_read_back_whatever_characters_they_have(words: str, value: Any, call: Any) -> None:
    odd = record(
        answer=words,
        model="\0" + words,
        gaps=("\0", words),
        turns=(
            conversation(1)[0].model_copy(
                update={"finish_reason": words, "sampling": {words: value}, "tool_calls": (call,)}
            ),
        ),
    )
    assert stored([odd]) == [odd]


def test_a_record_with_lone_surrogates_is_kept_without_them_and_says_so() -> None:
    bad = conversation(1)[0].model_copy(update={"finish_reason": "\ud83d", "sampling": {"a\udcff": ["\ud83d\ude00"]}})
    good = record("h-0")
    mended, untouched = stored([record("g-0", answer="4\ud83d2 é \U0001f600", turns=(bad,), gaps=("logprobs",)), good])
    assert mended.answer == "4\ufffd2 é \U0001f600"
    assert mended.gaps == ("logprobs", "lone surrogates")
    assert mended.turns[0].finish_reason == "\ufffd"
    assert mended.turns[0].sampling == {"a\ufffd": ["\U0001f600"]}
    assert mended.turns[0].output_token_ids == bad.output_token_ids
    assert untouched == good


def test_absurd_token_counts_are_kept() -> None:
    usage = Usage(prompt_tokens=10**30, output_tokens=10**30)
    odd = record(turns=(conversation(1)[0].model_copy(update={"usage": usage}),))
    assert stored([odd]) == [odd]


def test_a_shared_prompt_is_stored_once_so_that_growth_is_linear(tmp_path: Path) -> None:
    def bytes_of(length: int) -> int:
        directory = tmp_path / str(length)
        anyio.run(write, directory, [record(turns=conversation(length, answer_tokens=1000))])
        return (directory / "run.db").stat().st_size

    few, many = bytes_of(20), bytes_of(80)

    assert many < 4.5 * few
