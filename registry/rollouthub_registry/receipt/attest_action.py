"""What `hub attest` does: reads the run, signs, writes the receipt, and prints what it says."""

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.errors import ConfigError
from rollouthub.store import open_run
from rollouthub.store.atomic_files import replace_file
from rollouthub.text import plain_name
from rollouthub_registry.receipt.claim import counted
from rollouthub_registry.receipt.model_files import read_model_folder
from rollouthub_registry.receipt.receipt_file import default_receipt, make_receipt, open_receipt, read_receipt
from rollouthub_registry.receipt.statement import Receipt
from rollouthub_registry.trust.keys import config_folder, load_key
from rollouthub_registry.trust.trust_error import SignatureRefused


@dataclass(frozen=True)
class AttestOrder:
    """The arguments of `hub attest`."""

    run: Path
    output: Path | None
    key: str
    weights: Path | None
    takes_incomplete: bool


def attest_run(order: AttestOrder, *, as_json: bool, quiet: bool) -> int:
    """Write the receipt of a run; returns the exit code.

    Raises:
        UsageError: the run is not complete or cannot be read, the key cannot, or the file cannot be written.
    """
    began = time.perf_counter()
    output = order.output or default_receipt(order.run)
    _check_output(output)
    weights = None if order.weights is None else read_model_folder(order.weights)
    with open_run(order.run) as reader:
        if (source := reader.info.read_from) is not None:  # said before a key is made
            raise ConfigError(
                f"the run {plain_name(order.run.name)!r} was read from {plain_name(source.format)} files of another "
                "tool; a receipt says what was played by a hub, so there is none of it"
            )
        key = load_key(config_folder(os.environ) / "keys", order.key)
        content, receipt = make_receipt(reader, key, weights=weights, takes_incomplete=order.takes_incomplete)
    try:
        replace_file(output, content)
    except OSError as error:
        raise ConfigError(f"the receipt {output} cannot be written: {error.strerror or error}") from error
    facts = _facts(receipt, output, order.run, key.id)
    if as_json:
        sys.stdout.write(json.dumps({**facts, "seconds": round(time.perf_counter() - began, 3)}) + os.linesep)
    elif not quiet:
        _print(receipt, output, key.id)
    return 0


def _check_output(output: Path) -> None:
    """Refuse to write over what is no receipt, such as the run's own database.

    Raises:
        ConfigError: it is something else.
    """
    if not output.exists():
        return
    try:
        open_receipt(read_receipt(output))
    except (SignatureRefused, ConfigError) as error:
        raise ConfigError(f"{output} is there and is no receipt; name another file with -o ({error})") from error


def _facts(receipt: Receipt, output: Path, run: Path, key: str) -> dict[str, Any]:
    facts = receipt.run
    return {
        "receipt": str(output),
        "run": str(run),
        "run_id": facts.run_id,
        "key": key,
        "root": facts.tree.root,
        **facts.counts.model_dump(mode="json"),
        "missing": facts.counts.missing,
        "model_files": None if receipt.model_files is None else receipt.model_files.model_dump(mode="json"),
    }


def _print(receipt: Receipt, output: Path, key: str) -> None:
    facts, counts, console = receipt.run, receipt.run.counts, results()
    outcomes = ", ".join(f"{number:,} {outcome.value}" for outcome, number in counts.outcomes.items())
    planned = "" if counts.planned is None else f" of {counts.planned:,} planned"
    mean = "" if counts.mean_reward is None else f", mean reward {counts.mean_reward:.4f}"
    lines = [
        ("run", f"{plain_name(facts.run_id)} ({plain_name(facts.status)})"),
        ("rollouts", f"{counts.recorded:,}{planned}, {counted(counts.attempts, 'attempt')}: {outcomes}{mean}"),
        ("root", facts.tree.root),
        ("key", key),
    ]
    if receipt.model_files is not None:
        lines.append(("weights", f"{receipt.model_files.weights} of {plain_name(receipt.model_files.model)}"))
    for name, said in lines:
        console.print(Text.assemble((f"{name:<10}", "bold"), said))
    console.print(Text(str(output), style="bold"))
    if counts.missing:
        remarks().print(
            Text(f"{counts.missing:,} planned rollouts have no record; the receipt says so", style="yellow")
        )
