"""Runs to look at, written by the store's own writer and always the same: ended, playing, hostile, of another try."""

import json
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from rollouthub import Outcome, Rollout
from rollouthub.store import LiveState, RunWriter, open_writer
from tests.tui.episodes import BEGAN, ENVIRONMENTS, PICTURE, digest_of, episode
from tests.views.report.played import HOSTILE
from tests.views.report.played import hostile as hostile_rollout

TASKS, SAMPLES = 8, 4
NOW = BEGAN + 600.0
"""The moment at which made runs are looked at."""
MIDWAY = BEGAN + 62.0
"""The moment at which the run that plays is looked at."""
RESOLVED: dict[str, Any] = {
    "request": {
        "environments": list(ENVIRONMENTS),
        "agent": "tool_loop",
        "model": "openai/small",
        "base_url": ["http://127.0.0.1:8000/v1"],
        "repeats": SAMPLES,
        "limit": TASKS,
        "seed": 7,
        "concurrency": 8,
        "sampling": {"temperature": 0.7},
    },
    "environments": [{"name": name, "limits": {"max_turns": 50, "max_cost": None}} for name in ENVIRONMENTS],
}
PLANNED = len(ENVIRONMENTS) * TASKS * SAMPLES
MEDIA = {digest_of(PICTURE): PICTURE}
_ENDINGS = {
    ("arithmetic", 2, 1): Outcome.AGENT_FAILED,
    ("arithmetic", 5, 0): Outcome.MODEL_FAILED,
    ("code", 1, 3): Outcome.SANDBOX_FAILED,
    ("code", 6, 2): Outcome.VERIFIER_FAILED,
    ("customer_service", 3, 0): Outcome.CANCELLED,
    ("customer_service", 7, 1): Outcome.ENVIRONMENT_FAILED,
    ("customer_service", 7, 2): Outcome.AGENT_FAILED,
}
_RETRIED = (("arithmetic", 4, 2, 2), ("code", 3, 0, 1))
"""Environment, task, sample, and how many of its attempts ended with a fault of the model before one was scored."""


def episodes(worse: bool = False) -> list[Rollout]:
    """Every attempt of the ended run, in the order in which they finished; of a worse model where that is asked."""
    made: list[Rollout] = []
    retried = {(environment, number, sample): tries for environment, number, sample, tries in _RETRIED}
    for number in range(TASKS):
        for environment in ENVIRONMENTS:
            for sample in range(SAMPLES):
                key = (environment, number, sample)
                tries = retried.get(key, 0)
                for attempt in range(tries + 1):
                    outcome = Outcome.MODEL_FAILED if attempt < tries else _ENDINGS.get(key, Outcome.SCORED)
                    at = BEGAN + 1.7 * len(made)
                    handicap = 0.3 if worse else 0.0
                    made.append(
                        episode(environment, number, sample, attempt=attempt, outcome=outcome, at=at, handicap=handicap)
                    )
    return made


async def finished_run(directory: Path, rollouts: Sequence[Rollout] | None = None) -> Path:
    """A run of three environments, eight tasks each and four samples, with every kind of ending, two minutes long."""
    async with open_writer(directory, resolved=RESOLVED, given="", resume=False) as writer:
        writer.set_plan(PLANNED)
        for rollout in episodes() if rollouts is None else rollouts:
            await writer.add(rollout, MEDIA)
    settle(directory, finished_at=json.dumps(BEGAN + 175.0))
    return directory


async def worse_run(directory: Path) -> Path:
    """The same tasks played by another model."""
    return await finished_run(directory, episodes(worse=True))


async def hostile_run(directory: Path) -> Path:
    """A run in which everybody attacks who looks at it."""
    digest = digest_of(b"no picture\x1b]0;owned\x07")
    rollouts = [hostile_rollout(number, digest) for number in range(3)]
    resolved: dict[str, Any] = {"request": {"environments": [HOSTILE], "model": HOSTILE, "agent": HOSTILE}}
    async with open_writer(directory, resolved=resolved, given="", resume=False) as writer:
        for rollout in rollouts:
            await writer.add(rollout, {digest: b"no picture\x1b]0;owned\x07"})
    settle(directory, stopped=HOSTILE)
    return directory


STATES: tuple[Any, ...] = ("queued", "setup", "model", "tool", "verify", "close")


@asynccontextmanager
async def playing_run(directory: Path) -> AsyncGenerator[RunWriter]:
    """A run that says it plays, a third done and twelve in flight, until the block is left. No hub steers it."""
    made = episodes()
    async with open_writer(directory, resolved=RESOLVED, given="", resume=False) as writer:
        writer.set_plan(PLANNED)
        for rollout in made[: len(made) // 3]:
            await writer.add(rollout, MEDIA)
        started = {rollout.rollout_id: rollout for rollout in reversed(made[len(made) // 3 :])}
        for place, rollout in enumerate(list(started.values())[-12:]):
            state = LiveState(
                rollout.rollout_id,
                rollout.environment.name,
                rollout.task.id,
                rollout.sample,
                rollout.attempt,
                STATES[place % len(STATES)],
                place % 4,
                37 * place,
                BEGAN + 60.0 + place / 4,
            )
            writer.set_live(state.rollout_id, lambda state=state: state)
        writer.set_plan(PLANNED)  # the states go with the next batch: this makes one
        await writer.flush()
        settle(directory)
        yield writer


def settle(directory: Path, **meta: str) -> None:
    """Give a run the same name, time and machine wherever it was made."""
    fixed = {
        "run_id": "20260921T141320-0123abcd",
        "created_at": json.dumps(BEGAN),
        "hub_version": "0.1.0",
        "host": "workshop",
        **meta,
    }
    with closing(sqlite3.connect(directory / "run.db")) as connection, connection:
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(fixed.items()))
