"""Real runs made by the hub, receipts of them, and hands that change both."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from rollouthub import evaluate
from rollouthub.store import open_run
from rollouthub_registry.receipt.claim import Claim
from rollouthub_registry.receipt.receipt_file import make_receipt
from rollouthub_registry.receipt.verify_receipt import Verification, verify_receipt
from rollouthub_registry.trust.keys import Key

KEY = Key.generate()
STRANGER = Key.generate()
FAILING = "mock/solver?fail=0.4&seed=5"
"""A model that fails some of its calls."""


def play(directory: Path, model: str | None = "mock/solver", **settings: Any) -> Path:
    """A finished run."""
    more: Any = {"limit": 6, **settings}
    evaluate("arithmetic", model, directory=directory, progress=False, **more)
    return directory


def play_failing(directory: Path, **settings: Any) -> Path:
    """A finished run with some failures, and some samples that were tried again."""
    more: Any = {"max_tries": 1, "retries": {"infrastructure": 1}, "limit": 12, **settings}
    return play(directory, FAILING, **more)


def receipt_of(run: Path, key: Key = KEY, **options: Any) -> bytes:
    """The receipt of a run."""
    with open_run(run) as reader:
        return make_receipt(reader, key, **options)[0]


def copy_of(run: Path, name: str = "tampered") -> Path:
    """A copy of a run beside it."""
    return Path(shutil.copytree(run, run.with_name(name)))


def change(run: Path, *statements: str, **values: Any) -> None:
    """Change a run's database."""
    with closing(sqlite3.connect(run / "run.db")) as connection, connection:
        for statement in statements:
            connection.execute(statement, values)


def change_bodies(run: Path, table: str, edit: Callable[[Any], None]) -> None:
    """Change the JSON of every record (`rollouts`) or turn (`turns`) of a run."""
    with closing(sqlite3.connect(run / "run.db")) as connection, connection:
        for row_id, body in connection.execute(f"SELECT id, body FROM {table}").fetchall():
            fields = json.loads(body)
            edit(fields)
            connection.execute(f"UPDATE {table} SET body = ? WHERE id = ?", (json.dumps(fields), row_id))


def verified(content: bytes, run: Path, **options: Any) -> Verification:
    """What verifying a receipt against a run finds."""
    return verify_receipt(content, run, {KEY.id: "yours"}, **options)


def claims(found: Verification) -> dict[str, Claim]:
    """Claims by name."""
    return {claim.name: claim for claim in found.claims}


def refuted(found: Verification) -> set[str]:
    """Names of the claims that are refuted."""
    return {claim.name for claim in found.claims if claim.verdict == "refuted"}
