"""Episodes of `rewarded.py`, played by the hub over engines of token ids; and what their rewards come to, by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rollouthub
from rollouthub import Rollout, RolloutGroup
from rollouthub.export import TaskReference, TrainingRow
from rollouthub.generation import Model
from rollouthub.models.credentials import Credentials
from rollouthub.models.tokens import HfChatFormat, Sampled, TokenModel
from rollouthub.trainers.marti.seat_steps import SeatModels
from rollouthub.trainers.stream import SampleRequest, rollout_worker
from tests.models.tokens.chatml import ChatMl, odd_ids
from tests.trainers.rewarded import OPPOSED, RANKS, SEATS, SPAN, TURNS, VERDICT

WORLDS = Path(__file__).with_name("rewarded.py")
RANKED = f"{WORLDS}:Ranked"
NOBODY = Credentials({})
GIVE, TAKE = ({"name": "give", "arguments": {"thing": "apple"}}, {"name": "take", "arguments": dict[str, str]()})

STEPS = [TURNS[0], TURNS[1] + SPAN + VERDICT]
"""Of the turns of `stepwise`: each its own, the span within its turn, the verdict at the last."""
RETURNS = [STEPS[0] + STEPS[1], STEPS[1]]
"""What each turn and what follows it are worth."""


def stepwise_scores(row: TrainingRow) -> list[float]:
    """What each token of the row of a `Stepwise` episode is worth [response]: of turns and spans at their last."""
    turns = list(row.segment.turn_ids)[row.segment.prompt_length :]
    first, second = (max(place for place, turn in enumerate(turns) if turn == own) for own in row.turns)
    assert row.rollout.score is not None
    (span,) = row.rollout.score.span_rewards
    scores = [0.0] * len(turns)
    scores[first] += TURNS[0]
    scores[turns.index(row.turns[1]) + span.end - 1] += SPAN
    scores[second] += TURNS[1] + VERDICT
    return scores


class Caller:
    """An engine whose policy calls a tool, and then is done."""

    def __init__(self, call: dict[str, Any]) -> None:
        self.words = f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
        self.begun: set[str] = set()

    async def sample(self, prompt_ids: Any, sampling: Any, *, session: str, media: Any) -> Sampled:
        """Two answers a session."""
        words = "done" if session in self.begun else self.words
        self.begun.add(session)
        ids = [*odd_ids(words, len(prompt_ids)), ChatMl().end]
        return Sampled(ids, [-0.25] * len(ids), "stop", 1)


def policy(call: dict[str, Any]) -> Model:
    """It as a model."""
    return TokenModel("hosted_vllm/tiny", Caller(call), HfChatFormat(ChatMl()))


async def _played(folder: Path, world: str, model: Model) -> Rollout:
    async with rollout_worker(
        environments=(f"{WORLDS}:{world}",), model=model, directory=folder / world, credentials=NOBODY
    ) as worker:
        rollout = await worker.play(SampleRequest("only", group="g"))
    assert rollout.trainable, rollout.trainable_reason
    return rollout


async def stepwise(folder: Path) -> Rollout:
    """One seat, two turns, each with a reward of its own."""
    return await _played(folder, "Stepwise", policy(GIVE))


async def divided(folder: Path) -> Rollout:
    """Two seats of two turns, each with what its seat earned."""
    rollout = await _played(folder, "Divided", SeatModels({"giver": policy(GIVE), "taker": policy(TAKE)}))
    assert {turn.agent for turn in rollout.turns} == set(SEATS)
    return rollout


class Handing:
    """An engine for both seats of a `Handover`: the first giver to speak gives an apple, the next a pear, and so on."""

    def __init__(self) -> None:
        self.said: list[tuple[list[int], list[int]]] = []
        """The prompt and the answer of each call."""
        self._given: dict[str, int] = {}

    def answer(self, prompt_ids: Sequence[int], session: str) -> list[int]:
        """The ids of the next answer in a session."""
        text = ChatMl().decode(list(prompt_ids))
        number = self._given.setdefault(session, len(self._given)) if "you are the giver" in text else 0
        call: dict[str, Any] = {"name": "give", "arguments": {"thing": ("apple", "pear")[number % 2]}}
        if "you are the taker" in text:
            call = {"name": "take", "arguments": {}}
        is_done = "<|im_start|>tool" in text
        words = "done" if is_done else f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
        ids = [*odd_ids(words, len(self.said)), ChatMl().end]
        self.said.append((list(prompt_ids), ids))
        return ids

    async def sample(self, prompt_ids: Any, sampling: Any, *, session: str, media: Any) -> Sampled:
        """An answer, as engines of the hub's give it."""
        ids = self.answer(prompt_ids, session)
        return Sampled(ids, [-0.25] * len(ids), "stop", 1)


async def opposed(folder: Path) -> RolloutGroup:
    """Two samples of a task whose two seats, both of the policy, earn opposed rewards."""
    model = TokenModel("hosted_vllm/tiny", Handing(), HfChatFormat(ChatMl()))
    async with rollout_worker(
        environments=(f"{WORLDS}:Opposed",), model=model, directory=folder / "Opposed", credentials=NOBODY
    ) as worker:
        members = [await worker.play(SampleRequest("only", group="g", sample=number)) for number in range(2)]
    assert {seat: tuple(each.reward_of(seat) for each in members) for seat in OPPOSED} == OPPOSED
    first = members[0]
    return RolloutGroup(first.group_id, first.environment, first.task, tuple(members), policy_version=1, size=2)


def ranked_task() -> TaskReference:
    """The task of `Ranked`."""
    return TaskReference("rewarded", "test", "only")


async def ranked(folder: Path) -> RolloutGroup:
    """Three samples, and one verdict on them."""
    async with rollouthub.stream_rollouts(
        environments=(RANKED,),
        model="mock/say?text=done",
        directory=folder / "Ranked",
        groups=True,
        repeats=len(RANKS),
        epochs=1,
        credentials=NOBODY,
    ) as supply:
        group = await anext(supply)
    assert tuple(group.rewards) == RANKS
    return group
