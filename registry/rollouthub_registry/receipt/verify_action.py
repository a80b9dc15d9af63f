"""What `hub verify` does: verifies a receipt, replays where that is asked for, and prints each claim."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.errors import ConfigError
from rollouthub.event_loop import run_async
from rollouthub.text import one_line, plain_name
from rollouthub_registry.receipt.claim import VERDICTS, Claim, Verdict, in_order
from rollouthub_registry.receipt.key_owners import known_owners
from rollouthub_registry.receipt.model_files import read_model_folder
from rollouthub_registry.receipt.receipt_file import default_run, read_receipt
from rollouthub_registry.receipt.replay import Replay, add_logprobs, replay_run
from rollouthub_registry.receipt.rollout_proof import RolloutProof, prove_rollout
from rollouthub_registry.receipt.verify_receipt import Verification, key_id, verify_receipt
from rollouthub_registry.receipt.worlds import ReplayOptions

_SHOWN: dict[Verdict, tuple[str, str, str]] = {
    "refuted": ("✗", "bold red", "Refuted"),
    "proven": ("✓", "green", "Proven"),
    "consistent": ("~", "cyan", "Only consistent: nothing speaks against it, and a forger could have made it so"),
    "not_provable": ("?", "yellow", "Not provable"),
}
"""Verdict → its mark, its style and its heading."""


@dataclass(frozen=True)
class VerifyOrder:
    """The arguments of `hub verify`."""

    receipt: Path
    run: Path | None
    replay: ReplayOptions | None
    """None if nothing is replayed."""
    signer: str | None
    weights: Path | None
    rollout: str | None = None
    """Id of one rollout to prove."""


def verify_command(order: VerifyOrder, *, as_json: bool, quiet: bool) -> int:
    """Verify a receipt and print what was found; returns the exit code.

    Raises:
        UsageError: there is no such receipt or run.
    """
    content = read_receipt(order.receipt)
    signer = None if order.signer is None else key_id(order.signer)
    directory = order.run or default_run(order.receipt)
    if directory is None:
        shown = plain_name(str(order.receipt))
        raise ConfigError(f"no run lies beside {shown}; name its directory with --run DIR")
    with _progress(is_quiet=quiet or as_json) as note:
        note("reading the run")
        began = time.perf_counter()
        weights = None if order.weights is None else read_model_folder(order.weights)
        found = verify_receipt(content, directory, known_owners(os.environ), signer=signer, weights=weights)
        proof = _proof(order, directory, found)
        seconds = time.perf_counter() - began
        replay = None
        if order.replay is not None and found.reading is not None:
            replay = run_async(replay_run, directory, order.replay, note)
            if weights is not None and found.model is not None:
                add_logprobs(replay, directory, weights, found.model, order.replay.limit, note)
    claims = [*found.claims, *(replay.claims if replay is not None else ())]
    is_refuted = any(claim.verdict == "refuted" for claim in claims)
    if as_json:
        _print_json(order, directory, found, proof, replay, seconds, is_refuted=is_refuted)
    elif quiet:
        _print_claims(remarks(), [claim for claim in claims if claim.verdict == "refuted"])
    else:
        _print(found, replay, seconds, is_refuted=is_refuted)
    return 1 if is_refuted else 0


def _proof(order: VerifyOrder, directory: Path, found: Verification) -> RolloutProof | None:
    """The proof of the rollout that is asked for, whose claim is added to the others."""
    if order.rollout is None or found.reading is None or found.signed is None:
        return None
    proof = prove_rollout(directory, found.reading, order.rollout)
    found.claims.append(proof.claim(found.signed.receipt.run.tree.root))
    return proof


@contextmanager
def _progress(*, is_quiet: bool) -> Generator[Callable[[str], None]]:
    """A function that shows what is being done, on a terminal."""
    console = remarks()
    if is_quiet or not console.is_terminal:
        yield lambda what: None
        return
    with console.status("") as status:
        yield lambda what: status.update(Text(one_line(what)))


def _print(found: Verification, replay: Replay | None, seconds: float, *, is_refuted: bool) -> None:
    console = results()
    _print_claims(console, found.claims)
    counts = Counter(claim.verdict for claim in found.claims)
    if replay is not None:
        console.print(Text("\nReplayed: verifiers and tool calls again", style="bold"))
        _print_claims(console, replay.claims)
        counts += Counter(claim.verdict for claim in replay.claims)
    ending = ("refuted", "bold red") if is_refuted else ("nothing is refuted", "bold green")
    parts = ", ".join(f"{counts[verdict]} {verdict.replace('_', ' ')}" for verdict in VERDICTS if counts[verdict])
    times = f"{seconds:.1f} s" + ("" if replay is None else f", replay {replay.seconds:.1f} s")
    console.print(Text.assemble("\n", ending, f": {parts} · {times}"))


def _print_claims(console: Console, claims: list[Claim]) -> None:
    before: Verdict | None = None
    for claim in in_order(claims):
        mark, style, heading = _SHOWN[claim.verdict]
        if claim.verdict != before:
            console.print(Text(heading, style="bold"))
            before = claim.verdict
        console.print(Text.assemble((f"  {mark} ", style), (f"{claim.name}: ", "bold"), claim.said))
        for example in claim.examples:
            console.print(Text(f"      {example}", style="dim"))


def _print_json(
    order: VerifyOrder,
    directory: Path,
    found: Verification,
    proof: RolloutProof | None,
    replay: Replay | None,
    seconds: float,
    *,
    is_refuted: bool,
) -> None:
    signed = found.signed
    facts: dict[str, Any] = {
        "receipt": str(order.receipt),
        "run": str(directory),
        "run_id": None if signed is None else signed.receipt.run.run_id,
        "key": None if signed is None else signed.key.id,
        "root": None if signed is None else signed.receipt.run.tree.root,
        "refuted": is_refuted,
        "claims": [claim.as_json() for claim in found.in_order],
        "proof": None if proof is None else proof.as_json(),
        "seconds": round(seconds, 3),
        "replay": None
        if replay is None
        else {
            "claims": [claim.as_json() for claim in in_order(replay.claims)],
            "seconds": round(replay.seconds, 3),
        },
    }
    sys.stdout.write(json.dumps(facts) + os.linesep)
