"""Episodes of `rewarded.py`, played by the hub over engines of token ids; and what their rewards come to, by hand."""

import json
from pathlib import Path
from typing import Any

import rollouthub
from rollouthub import Rollout, RolloutGroup
from rollouthub.generation import Model
from rollouthub.models.credentials import Credentials
from rollouthub.models.tokens import HfChatFormat, Sampled, TokenModel
from rollouthub.trainers.marti.seat_steps import SeatModels
from rollouthub.trainers.stream import SampleRequest, rollout_worker
from tests.models.tokens.chatml import ChatMl, odd_ids
from tests.trainers.rewarded import RANKS, SEATS, SPAN, TURNS, VERDICT

WORLDS = Path(__file__).with_name("rewarded.py")
NOBODY = Credentials({})
GIVE, TAKE = ({"name": "give", "arguments": {"thing": "apple"}}, {"name": "take", "arguments": dict[str, str]()})

STEPS = [TURNS[0], TURNS[1] + SPAN + VERDICT]
"""Of the turns of `stepwise`: each its own, the span within its turn, the verdict at the last."""
RETURNS = [STEPS[0] + STEPS[1], STEPS[1]]
"""What each turn and what follows it are worth."""


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


async def ranked(folder: Path) -> RolloutGroup:
    """Three samples, and one verdict on them."""
    async with rollouthub.stream_rollouts(
        environments=(f"{WORLDS}:Ranked",),
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
