"""Training rows, derived from a rollout's turns by the engine's token ids only; text is never tokenised again."""

import math
from collections.abc import Iterable
from typing import Literal

from rollouthub.rollout import Rollout, Turn
from rollouthub.values import Float32s, Frozen, Int32s

ForkKind = Literal["start", "seat", "history", "branch", "gap", "drift"]


class Fork(Frozen):
    """Why a row begins at a turn, instead of extending the previous row."""

    kind: ForkKind
    """Why the turn does not extend a row:

    - `start`: the seat had not spoken before;
    - `seat`: the turn's parent is a turn of another seat;
    - `history`: the conversation was restarted or changed, as by compaction or for a sub-agent;
    - `branch`: another turn has already extended the parent's row;
    - `gap`: the turn's parent has no engine ids;
    - `drift`: the conversation continued but its ids differ: text was encoded again, a template rewrote earlier
      messages, or the prompt was truncated.
    """
    turn: int | None = None
    """The turn whose ids are compared: the parent, or the seat's previous turn."""
    shared: int = 0
    """How many leading ids both turns have in common."""
    dropped: int = 0
    """How many ids of that turn's prompt and answer are not in the common beginning."""


class Segment(Frozen):
    """One training row: aligned arrays of equal length [tokens]."""

    rollout_id: str
    agent: str
    token_ids: Int32s
    loss_mask: Int32s
    """1 on tokens to train on, which the policy sampled; 0 elsewhere."""
    logprobs: Float32s
    """The sampler's log-probability of each sampled token; 0 elsewhere, and NaN where the engine reported none, so
    that a gap is not read as probability 1.
    """
    versions: Int32s
    """The policy version of each sampled token; -1 elsewhere or where unknown."""
    turn_ids: Int32s
    """The turn in which each token was sampled; -1 on tokens that the environment wrote."""
    prompt_length: int
    """How many tokens come before the first sampled one."""
    fork: Fork | None = None
    """Why the row does not extend another; set by `segments`."""

    def model_post_init(self, context: object, /) -> None:
        lengths = {len(self.token_ids), len(self.loss_mask), len(self.logprobs), len(self.versions), len(self.turn_ids)}
        if len(lengths) > 1:
            raise ValueError(f"the arrays of a segment of {self.rollout_id!r} differ in length: {sorted(lengths)}")


def segments(rollout: Rollout) -> list[Segment]:
    """Derive the rollout's training rows.

    A turn extends the row of its parent if its prompt ids begin with exactly that row's ids. Otherwise (after
    compaction, re-templating, truncation, with another seat or a second child) it starts a new row, in which earlier
    sampled tokens are part of the prompt. Turns without engine ids are left out.
    """
    rows: dict[int, list[Turn]] = {}
    forks: dict[int, Fork] = {}
    ids_of: dict[int, Int32s] = {}
    agent_of: dict[int, str] = {}
    for turn in rollout.turns:
        if turn.prompt_token_ids is None or turn.output_token_ids is None:
            continue
        parent = turn.parent_turn
        if parent in rows and agent_of[parent] == turn.agent and turn.prompt_token_ids.startswith(ids_of[parent]):
            rows[turn.index] = [*rows.pop(parent), turn]
        else:
            rows[turn.index] = [turn]
            forks[turn.index] = _fork(turn, turn.prompt_token_ids, ids_of, agent_of)
        ids_of[turn.index] = turn.prompt_token_ids + turn.output_token_ids
        agent_of[turn.index] = turn.agent
    return [_row(rollout.rollout_id, chain, forks[chain[0].index]) for chain in rows.values()]


def _fork(turn: Turn, prompt: Int32s, ids_of: dict[int, Int32s], agent_of: dict[int, str]) -> Fork:
    """Why a turn extends no row, given the ids and seats of the turns before it."""
    parent = turn.parent_turn
    if parent is None:
        earlier = [index for index, agent in agent_of.items() if agent == turn.agent]
        return _against(prompt, "history", earlier[-1], ids_of) if earlier else Fork(kind="start")
    if parent not in ids_of:
        return Fork(kind="gap", turn=parent)
    if agent_of[parent] != turn.agent:
        return Fork(kind="seat", turn=parent)
    return _against(prompt, "branch" if prompt.startswith(ids_of[parent]) else "drift", parent, ids_of)


def _against(prompt: Int32s, kind: ForkKind, before: int, ids_of: dict[int, Int32s]) -> Fork:
    shared = prompt.shared_prefix(ids_of[before])
    return Fork(kind=kind, turn=before, shared=shared, dropped=len(ids_of[before]) - shared)


def _row(rollout_id: str, chain: list[Turn], fork: Fork) -> Segment:
    ids = Int32s()
    mask, turn_ids, versions, logprobs = Int32s(), Int32s(), Int32s(), Float32s()
    for turn in chain:
        assert turn.prompt_token_ids is not None
        assert turn.output_token_ids is not None
        written, sampled = len(turn.prompt_token_ids) - len(ids), len(turn.output_token_ids)
        ids = turn.prompt_token_ids + turn.output_token_ids
        version = -1 if turn.policy_version is None else turn.policy_version
        mask += _fill(0, written) + (turn.output_mask or _fill(1, sampled))
        turn_ids += _fill(-1, written) + _fill(turn.index, sampled)
        versions += _fill(-1, written) + (turn.policy_versions or _fill(version, sampled))
        logprobs += _zeros(written) + (turn.output_logprobs or _unknown(sampled))
    first = chain[0].prompt_token_ids
    assert first is not None
    return Segment(
        rollout_id=rollout_id,
        agent=chain[0].agent,
        token_ids=ids,
        loss_mask=mask,
        logprobs=logprobs,
        versions=versions,
        turn_ids=turn_ids,
        prompt_length=len(first),
        fork=fork,
    )


def _fill(value: int, count: int) -> Int32s:
    return Int32s.from_bytes(value.to_bytes(4, "little", signed=True) * count)


def _zeros(count: int) -> Float32s:
    return Float32s.from_bytes(bytes(4 * count))


def _unknown(count: int) -> Float32s:
    return Float32s([math.nan] * count)


def sampled_ids(rows: Iterable[Segment]) -> dict[int, Int32s]:
    """The sampled ids of each turn, collected from rows."""
    found: dict[int, list[int]] = {}
    for row in rows:
        for token, turn in zip(row.token_ids, row.turn_ids, strict=True):
            if turn >= 0:
                found.setdefault(turn, []).append(token)
    return {turn: Int32s(ids) for turn, ids in found.items()}
