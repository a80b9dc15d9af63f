"""Training rows rebuild exactly what was sampled, once, and nothing else."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouthub import Message, Rollout, Segment, Turn, segments
from rollouthub.export.segment import Fork, sampled_ids
from rollouthub.values import Float32s, Int32s
from tests.hub.test_rollout import rollout

vocabulary = st.integers(0, 5)
"""Few ids, so that prompts collide by chance as well."""
some_ids = st.lists(vocabulary, max_size=4)


@dataclass
class Forest:
    """Turns under construction, and what each sampled."""

    turns: list[Turn] = field(default_factory=list[Turn])

    def add(
        self,
        prompt: list[int],
        output: list[int],
        parent: int | None = None,
        mask: list[int] | None = None,
        version: int | None = None,
        agent: str = "agent",
    ) -> int:
        """Add a turn; its index. Its logprobs name it: -(index + 1) for every token."""
        index = len(self.turns)
        turn = Turn(
            index=index,
            parent_turn=parent,
            agent=agent,
            messages=(),
            response=Message(role="assistant"),
            prompt_token_ids=Int32s(prompt),
            output_token_ids=Int32s(output),
            output_logprobs=Float32s([-(index + 1.0)] * len(output)),
            output_mask=None if mask is None else Int32s(mask),
            policy_version=version,
            token_source="engine",
        )
        self.turns.append(turn)
        return index

    def ids(self, index: int) -> list[int]:
        """The whole conversation after a turn, as ids."""
        turn = self.turns[index]
        assert turn.prompt_token_ids is not None
        assert turn.output_token_ids is not None
        return (turn.prompt_token_ids + turn.output_token_ids).tolist()

    def rollout(self) -> Rollout:
        """The record of these turns."""
        return rollout(turns=tuple(self.turns))


@st.composite
def chains(draw: st.DrawFn) -> Forest:
    """A multi-turn conversation in which every prompt extends what was there, id by id."""
    forest = Forest()
    parent: int | None = None
    for _ in range(draw(st.integers(1, 6))):
        before = [] if parent is None else forest.ids(parent)
        parent = forest.add([*before, *draw(some_ids)], draw(some_ids), parent)
    return forest


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    """Any tree of turns: branches, restarts, prompts that do and do not extend, several seats."""
    forest = Forest()
    for index in range(draw(st.integers(1, 8))):
        parent = draw(st.none() | st.integers(0, index - 1)) if index else None
        keeps = parent is not None and draw(st.booleans())
        before = forest.ids(parent) if keeps and parent is not None else []
        output = draw(some_ids)
        mask = draw(st.none() | st.lists(st.integers(0, 1), min_size=len(output), max_size=len(output)))
        version = draw(st.none() | st.integers(0, 3))
        forest.add([*before, *draw(some_ids)], output, parent, mask, version, draw(st.sampled_from("ab")))
    return forest


quick = settings(deadline=None)


@quick
@given(chains())
def test_a_conversation_of_exact_prefixes_is_one_row(forest: Forest) -> None:
    (row,) = segments(forest.rollout())
    assert row.token_ids.tolist() == forest.ids(len(forest.turns) - 1)
    first = forest.turns[0].prompt_token_ids
    assert first is not None
    assert row.prompt_length == len(first)


@quick
@given(forests())
def test_rows_rebuild_exactly_the_sampled_ids(forest: Forest) -> None:
    rebuilt = sampled_ids(segments(forest.rollout()))
    for turn in forest.turns:
        assert rebuilt.get(turn.index, Int32s()) == turn.output_token_ids


@quick
@given(forests())
def test_no_sampled_token_is_in_two_rows_as_learnt(forest: Forest) -> None:
    rows = segments(forest.rollout())
    marked = sum(1 for row in rows for turn in row.turn_ids if turn >= 0)
    assert marked == sum(len(turn.output_token_ids or ()) for turn in forest.turns)


@quick
@given(forests())
def test_every_token_of_a_row_is_aligned_with_its_turn(forest: Forest) -> None:
    for row in segments(forest.rollout()):
        seen: dict[int, int] = {}
        columns = zip(row.turn_ids, row.loss_mask, row.versions, row.logprobs, strict=True)
        for index, learnt, version, logprob in columns:
            if index < 0:
                assert (learnt, version, logprob) == (0, -1, 0.0)
                continue
            turn = forest.turns[index]
            assert turn.agent == row.agent
            assert version == (-1 if turn.policy_version is None else turn.policy_version)
            assert logprob == -(index + 1.0)
            mask = turn.output_mask.tolist() if turn.output_mask is not None else None
            assert learnt == (1 if mask is None else mask[seen.get(index, 0)])
            seen[index] = seen.get(index, 0) + 1


@quick
@given(forests())
def test_a_row_is_a_conversation_the_model_really_saw(forest: Forest) -> None:
    whole = [forest.ids(turn.index) for turn in forest.turns]
    assert all(row.token_ids.tolist() in whole for row in segments(forest.rollout()))


def test_a_changed_prompt_forks_a_row() -> None:
    forest = Forest()
    first = forest.add([1, 2], [3])
    forest.add([1, 9, 3, 4], [5], parent=first)
    one, other = segments(forest.rollout())
    assert (one.token_ids.tolist(), one.loss_mask.tolist()) == ([1, 2, 3], [0, 0, 1])
    assert (other.token_ids.tolist(), other.loss_mask.tolist()) == ([1, 9, 3, 4, 5], [0, 0, 0, 0, 1])


def test_a_shortened_prompt_forks_a_row() -> None:
    forest = Forest()
    first = forest.add([1, 2], [3, 4])
    forest.add([1, 2, 3], [5], parent=first)
    assert [row.token_ids.tolist() for row in segments(forest.rollout())] == [[1, 2, 3, 4], [1, 2, 3, 5]]


def test_of_two_children_of_one_parent_one_continues_its_row() -> None:
    forest = Forest()
    root = forest.add([1], [2])
    forest.add([1, 2, 3], [4], parent=root)
    forest.add([1, 2, 5], [6], parent=root)
    masks = {tuple(row.token_ids): row.loss_mask.tolist() for row in segments(forest.rollout())}
    assert masks == {(1, 2, 3, 4): [0, 1, 0, 1], (1, 2, 5, 6): [0, 0, 0, 1]}


def test_a_second_child_says_that_another_turn_went_on_with_its_parent() -> None:
    forest = Forest()
    root = forest.add([1], [2])
    forest.add([1, 2, 3], [4], parent=root)
    forest.add([1, 2, 5], [6], parent=root)
    assert [row.fork for row in segments(forest.rollout())] == [
        Fork(kind="start"),
        Fork(kind="branch", turn=0, shared=2, dropped=0),
    ]


def test_a_compacted_conversation_says_how_much_of_the_last_one_is_gone() -> None:
    forest = Forest()
    root = forest.add([1, 2], [3])
    forest.add([1, 2, 3, 4], [5, 6], parent=root)
    # The recorder finds no turn whose conversation it extends.
    forest.add([1, 9], [7])
    first, compacted = segments(forest.rollout())
    assert first.turn_ids.tolist() == [-1, -1, 0, -1, 1, 1]
    assert compacted.fork == Fork(kind="history", turn=1, shared=1, dropped=5)
    assert (compacted.token_ids.tolist(), compacted.loss_mask.tolist()) == ([1, 9, 7], [0, 0, 1])


@pytest.mark.parametrize(
    ("prompt", "shared"),
    [
        pytest.param([1, 2, 3, 8, 7], 3, id="answer encoded otherwise"),
        pytest.param([1, 9, 3, 4, 7], 1, id="template rewrote what came before"),
        pytest.param([1, 2, 3], 3, id="prompt cut behind"),
        pytest.param([3, 4, 7], 0, id="prompt cut before"),
    ],
)
def test_ids_that_drift_begin_a_row_and_say_where(prompt: list[int], shared: int) -> None:
    forest = Forest()
    root = forest.add([1, 2], [3, 4])
    forest.add(prompt, [5], parent=root)
    kept, drifted = segments(forest.rollout())
    assert (kept.token_ids.tolist(), kept.loss_mask.tolist()) == ([1, 2, 3, 4], [0, 0, 1, 1])
    assert drifted.fork == Fork(kind="drift", turn=root, shared=shared, dropped=4 - shared)
    assert (drifted.token_ids.tolist(), drifted.prompt_length) == ([*prompt, 5], len(prompt))
    assert drifted.loss_mask.tolist() == [*([0] * len(prompt)), 1]


@settings(deadline=None, max_examples=30)
@given(forests())
def test_every_row_says_why_it_is_one(forest: Forest) -> None:
    for row in segments(forest.rollout()):
        fork = row.fork
        assert fork is not None
        if fork.kind in ("history", "branch", "drift"):
            assert fork.turn is not None
            before = forest.ids(fork.turn)
            assert row.token_ids.tolist()[: fork.shared] == before[: fork.shared]
            assert fork.shared + fork.dropped == len(before)
            assert (fork.dropped == 0) == (fork.kind == "branch") or fork.kind == "history"


def test_another_seat_never_continues_a_row() -> None:
    forest = Forest()
    root = forest.add([1], [2], agent="white")
    forest.add([1, 2, 3], [4], parent=root, agent="black")
    assert [row.agent for row in segments(forest.rollout())] == ["white", "black"]
    assert [row.fork for row in segments(forest.rollout())] == [Fork(kind="start"), Fork(kind="seat", turn=root)]


def test_turns_without_engine_ids_are_left_out() -> None:
    spoken = Turn(index=0, messages=(), response=Message(role="assistant", content="hello"))
    forest = Forest([spoken])
    forest.add([1], [2], parent=0)
    (row,) = segments(forest.rollout())
    assert row.turn_ids.tolist() == [-1, 1]
    assert row.fork == Fork(kind="gap", turn=0)


def test_a_rollout_of_spoken_turns_has_no_rows() -> None:
    spoken = Turn(index=0, messages=(), response=Message(role="assistant", content="hello"))
    assert segments(rollout(turns=(spoken,))) == []


def test_weights_that_changed_in_mid_answer_are_told_by_token() -> None:
    forest = Forest()
    forest.add([1], [2, 3], version=7)
    changed = forest.turns[0].model_copy(update={"policy_versions": Int32s([7, 8])})
    (row,) = segments(rollout(turns=(changed,)))
    assert row.versions.tolist() == [-1, 7, 8]


def test_logprobs_of_another_length_than_their_ids_are_refused() -> None:
    forest = Forest()
    forest.add([1], [2, 3])
    torn = forest.turns[0].model_copy(update={"output_logprobs": Float32s([-1.0])})
    with pytest.raises(ValueError, match="differ in length"):
        segments(rollout(turns=(torn,)))


@quick
@given(forests())
def test_a_row_reads_back_from_json(forest: Forest) -> None:
    for row in segments(forest.rollout()):
        assert Segment.model_validate_json(row.model_dump_json()) == row
