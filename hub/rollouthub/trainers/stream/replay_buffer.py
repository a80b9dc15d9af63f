"""The replay buffer: draws, from a run's store, units that were handed out before or became stale."""

import math
import random
import sqlite3
from pathlib import Path
from typing import Literal

import anyio.to_thread

from rollouthub.errors import UnknownNameError
from rollouthub.rollout import Outcome, Rollout
from rollouthub.store import RunReader, open_run
from rollouthub.trainers.stream.ledger import Ledger
from rollouthub.trainers.stream.rollout_group import RolloutGroup

Strategy = Literal["fresh", "uniform", "weighted"]
"""Which units are drawn: the newest, any with equal weight, or any with a weight that halves with each version of
age.
"""

_HALF = 0.5
_Candidate = tuple[str, str, int]
"""A unit's id, its group's id, and the lowest policy version in it."""


async def replayed(
    ledger: Ledger,
    directory: Path,
    size: int,
    *,
    version: int,
    max_staleness: int | None,
    strategy: Strategy,
    seed: int | None,
    is_group: bool,
) -> list[RolloutGroup]:
    """Draw units without replacement, and read their rollouts.

    Raises:
        StoreError: the store cannot be read.
    """
    oldest = None if max_staleness is None else version - max_staleness

    def look(connection: sqlite3.Connection) -> list[_Candidate]:
        # Newest first; a seed makes the draw the same for the same store.
        return connection.execute(
            "SELECT unit_id, group_id, coalesce(policy_min, ?) FROM units WHERE fate IN ('handed', 'stale') "
            "AND scored > 0 AND coalesce(policy_max, ?) <= ? AND coalesce(policy_min, ?) >= coalesce(?, policy_min, 0) "
            "ORDER BY coalesce(policy_min, ?) DESC, seq DESC" + (" LIMIT ?" if strategy == "fresh" else ""),
            (version, version, version, version, oldest, version, *((size,) if strategy == "fresh" else ())),
        ).fetchall()

    candidates = await ledger.ask(look)
    drawn = _drawn(candidates, size, version, strategy, random.Random(seed))
    return await anyio.to_thread.run_sync(_read, directory, drawn, version, is_group)


def _drawn(
    candidates: list[_Candidate], size: int, version: int, strategy: Strategy, draw: random.Random
) -> list[_Candidate]:
    match strategy:
        case "fresh":
            return candidates[:size]
        case "uniform":
            return draw.sample(candidates, min(size, len(candidates)))
        case _:
            # Weighted without replacement: the largest of log(u)/w (Efraimidis and Spirakis, 2006).
            keys: list[tuple[float, int]] = []
            for place, (_, _, oldest) in enumerate(candidates):
                keys.append((math.log(draw.random() or 1e-300) / max(_HALF ** (version - oldest), 1e-300), place))
            return [candidates[place] for _, place in sorted(keys, reverse=True)[:size]]


def _read(directory: Path, drawn: list[_Candidate], version: int, is_group: bool) -> list[RolloutGroup]:
    groups: list[RolloutGroup] = []
    with open_run(directory) as reader:
        for unit_id, group_id, _ in drawn:
            records = _members(reader, group_id) if is_group else [reader.rollout(unit_id)]
            scored = tuple(record for record in records if record.outcome is Outcome.SCORED)
            if scored:
                groups.append(
                    RolloutGroup(
                        group_id=group_id,
                        environment=scored[0].environment,
                        task=scored[0].task,
                        rollouts=scored,
                        lost=tuple(record for record in records if record.outcome is not Outcome.SCORED),
                        policy_version=version,
                        size=len(scored),
                    )
                )
    return groups


def _members(reader: RunReader, group_id: str) -> list[Rollout]:
    """A group's records, by sample number."""
    members: list[Rollout] = []
    while True:
        try:
            members.append(reader.rollout(f"{group_id}-{len(members)}"))
        except UnknownNameError:
            return members
