"""Looks for the environment's own reference solution under another agent's name."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from rollouthub.analysis.scoring.task_lookup import TaskIndex
from rollouthub.engine.agent_kind import is_reference
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.errors import EpisodeError, UnknownNameError
from rollouthub.messages import Message
from rollouthub.rollout import Rollout
from rollouthub.store import RunReader
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.evidence import asks_model
from rollouthub_registry.receipt.worlds import Chosen, Worlds

ENOUGH = 3
"""Transcripts that must be the reference word for word before it is no coincidence."""
_MOST_COMPARED = 100


async def reference_claims(
    worlds: Worlds, environments: Mapping[str, OpenEnvironment], reader: RunReader, chosen: Chosen
) -> AsyncGenerator[Claim]:
    """Yield whether transcripts without token ids, under the name of an agent, are the reference solution.

    With token ids and log-probabilities a model read and wrote them, whatever they say.
    """
    indexes: dict[tuple[str, str], TaskIndex] = {}
    silent, spoken = Problems(), Problems()
    compared = 0
    for rollout in reader.rollouts():
        if compared >= _MOST_COMPARED:
            break
        if rollout.rollout_id not in chosen.ids or not _is_doubtful(rollout):
            continue
        reference = await _reference(worlds, environments, indexes, rollout)
        if not reference:
            continue
        compared += 1
        said = [turn.response for turn in rollout.turns if turn.agent == rollout.turns[0].agent]
        if [_deed(message) for message in said] == [_deed(message) for message in reference]:
            (spoken if any(map(asks_model, rollout.turns)) else silent).add(f"{rollout.rollout_id}: {rollout.task.id}")
    if not compared:
        return
    if silent.count >= ENOUGH:
        said = (
            f"{counted(silent.count, 'transcript')} of {compared:,} are the environment's reference solution word for "
            "word, under another agent's name, and nothing in them was a model's"
        )
        yield silent.refutes("reference", said, compared)
    elif silent or spoken:
        problems = silent if silent else spoken
        said = (
            f"{counted(silent.count + spoken.count, 'transcript')} of {compared:,} are the environment's reference "
            "solution word for word, and have no token ids that would show a model at work"
        )
        yield Claim("reference", "not_provable", said, compared, tuple(problems.examples))
    else:
        said = f"none of {counted(compared, 'transcript')} without token ids is the environment's reference solution"
        yield Claim("reference", "consistent", said, compared)


def _is_doubtful(rollout: Rollout) -> bool:
    """Whether a record names an agent that does not say that it plays the reference, and has no tokens of a model."""
    agents = (rollout.agent, *(seat.agent for seat in rollout.seats.values()))
    has_ids = any(turn.output_token_ids is not None for turn in rollout.turns)
    return bool(rollout.turns) and not has_ids and not any(is_reference(agent.name) for agent in agents)


async def _reference(
    worlds: Worlds,
    environments: Mapping[str, OpenEnvironment],
    indexes: dict[tuple[str, str], TaskIndex],
    rollout: Rollout,
) -> Sequence[Message]:
    """The reference solution of a rollout's task; empty if there is none here."""
    opened = environments[rollout.environment.name]
    key = (rollout.environment.name, rollout.task.split)
    if key not in indexes:
        indexes[key] = TaskIndex(opened.host, rollout.task.split, worlds.seed, skip_bad=True)
    try:
        card = await indexes[key].find(rollout.task.id)
        if card.has_reference is False:
            return ()
        async with opened.host.open(card, seed=rollout.seed, deadlines=opened.deadlines) as episode:
            return await episode.reference(rollout.turns[0].agent)
    except (UnknownNameError, EpisodeError):
        return ()


def _deed(message: Message) -> Any:
    """What a message says and does, however its arguments are spaced and its calls are called."""
    return message.text.strip(), [(request.name, _arguments(request.arguments)) for request in message.tool_requests]


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
