"""What `hub verify` says of the receipt beside a run, without playing anything again."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio

from rollouthub.processes import HUB, guarded
from rollouthub.text import one_line

MOST_SECONDS = 600.0
"""Seconds after which a verification is given up: the run of a receipt may be very large."""
_MOST_CLAIMS = 100


@dataclass(frozen=True, slots=True)
class ReceiptClaim:
    """One claim, with its verdict: `refuted`, `proven`, `consistent` or `not_provable`."""

    name: str
    verdict: str
    said: str


@dataclass(frozen=True, slots=True)
class ReceiptCheck:
    """A verified receipt, or why it could not be verified."""

    claims: tuple[ReceiptClaim, ...] = ()
    key: str | None = None
    """Id of the key that signed; None where no signature holds."""
    problem: str | None = None
    """Why nothing is known, in a sentence; None otherwise."""

    @property
    def is_refuted(self) -> bool:
        """Whether anything that the receipt states is not so."""
        return any(claim.verdict == "refuted" for claim in self.claims)


async def check_receipt(receipt: Path, directory: Path) -> ReceiptCheck:
    """Verify a receipt in a process of its own, which ends when the caller is cancelled."""
    try:
        with anyio.fail_after(MOST_SECONDS):
            done = await anyio.run_process(_command(receipt, directory), check=False, stdin=subprocess.DEVNULL)
    except TimeoutError:
        return ReceiptCheck(problem=_too_long(receipt))
    return _read(done.returncode, done.stdout, done.stderr)


def check_receipt_now(receipt: Path, directory: Path) -> ReceiptCheck:
    """Verify a receipt. Blocks."""
    try:
        done = subprocess.run(
            _command(receipt, directory),
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return ReceiptCheck(problem=_too_long(receipt))
    return _read(done.returncode, done.stdout, done.stderr)


def _command(receipt: Path, directory: Path) -> list[str]:
    return guarded([*HUB, "verify", str(receipt.absolute()), "--run", str(directory.absolute()), "--json"])


def _too_long(receipt: Path) -> str:
    return f"it takes more than {MOST_SECONDS:g} seconds; `hub verify {receipt.name}` has no such limit"


def _read(status: int, output: bytes, errors: bytes) -> ReceiptCheck:
    if status not in (0, 1):
        said = errors.decode("utf-8", "replace").strip()
        return ReceiptCheck(problem=one_line(said[-2000:], 600) or f"`hub verify` ended with {status}")
    try:
        facts = cast("dict[str, Any]", json.loads(output))
        claims = tuple(
            ReceiptClaim(str(each["claim"]), str(each["verdict"]), one_line(str(each["said"]), 600))
            for each in facts["claims"][:_MOST_CLAIMS]
        )
        return ReceiptCheck(claims, facts["key"] and one_line(str(facts["key"])))
    except (ValueError, KeyError, TypeError):
        return ReceiptCheck(problem="`hub verify` printed what cannot be read; run it in a terminal")
