"""Runs made of records, to export from; and what a data set of one comes to."""

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_types import Tool

from rollouthub import Message, Rollout
from rollouthub.export.data_set import DataSet, ReadProgress
from rollouthub.export.recipe import Recipe
from rollouthub.messages import Media, Text
from rollouthub.store import open_run
from rollouthub.store.database import Batch, open_database
from tests.export.made import rollout, turn

PICTURE = b"\x89PNG, or nearly"
DIGEST = f"sha256:{hashlib.sha256(PICTURE).hexdigest()}"
TOOLS = (Tool(name="calculate", description="Adds.", input_schema={"type": "object", "properties": {}}),)


def keep(folder: Path, *rollouts: Rollout, repeats: int = 1, media: Mapping[str, bytes] | None = None) -> Path:
    """A run that holds these records and has ended; tools lie under the digest `sha256:tools`."""
    resolved: dict[str, Any] = {"request": {"environments": ["arithmetic"], "repeats": repeats}}
    # Straight into the database: the writer waits for company, which a test has no time for.
    database = open_database(folder, resolved=resolved, given="", resume=False)
    database.commit(Batch([(record, media or {}) for record in rollouts], {"sha256:tools": TOOLS}))
    database.close("finished")
    return folder


@dataclass
class Made:
    """A data set, gone through."""

    rows: list[dict[str, Any]]
    progress: ReadProgress
    columns: list[str]

    @property
    def left_out(self) -> dict[str, int]:
        """How many rollouts were left out, by name; with those in rows, all are told of."""
        assert self.progress.used + self.progress.left_out.total == self.progress.read
        return dict(self.progress.left_out.counts)


def made(*runs: Path, **recipe: Any) -> Made:
    """The rows of a recipe."""
    readers = [open_run(run) for run in runs]
    entered = [reader.__enter__() for reader in readers]
    try:
        data_set = DataSet(entered, Recipe(**recipe))
        rows = list(data_set)
        return Made(rows, data_set.progress, [name for name, _ in data_set.columns])
    finally:
        for reader in readers:
            reader.__exit__(None, None, None)


def damage(run: Path, statement: str) -> None:
    """Change a run's database as no writer of ours would."""
    with closing(sqlite3.connect(run / "run.db")) as connection, connection:
        assert connection.execute(statement).rowcount


def group(*rewards: float | None, name: str = "g1", **changes: Any) -> list[Rollout]:
    """Samples of one task that part at their second answer, by reward; None is one that broke."""
    return [
        rollout(
            turn(0, [1, 2, 3], [4, 5]),
            turn(1, [1, 2, 3, 4, 5, 6], [7, 70 + sample], response=Message(role="assistant", content=f"{sample}!")),
            reward=reward,
            group=name,
            sample=sample,
            **changes,
        )
        for sample, reward in enumerate(rewards)
    ]


def shown(mime_type: str = "image/png") -> Message:
    """A question with a picture in it."""
    return Message(role="user", content=(Text(text="What is this?"), Media(digest=DIGEST, mime_type=mime_type)))


def texts(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The contents of messages of words."""
    return [message["content"] for message in messages]
