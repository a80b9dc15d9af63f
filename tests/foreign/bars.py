"""The bars of all foreign formats, one script: `python -m tests.foreign.bars [FORMAT…] [--quick] [--work DIR]`.

Each format's module plays what its own project's code plays, too, and compares. The tables are written into
docs/foreign.md, between its markers; formats that were not asked for, or whose source is not at hand, keep theirs.
Exits with 1 if anything differs. Packages come from a package index; checkouts are named by variables:
ROLLOUTHUB_TAU2_CHECKOUT, ROLLOUTHUB_OPENENV, ROLLOUTHUB_VERIFIERS, ROLLOUTHUB_AWM.
"""

import argparse
import importlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.foreign.bar import Bar, Missing, say

DOCS = Path(__file__).parents[2] / "docs" / "foreign.md"
FORMATS = {
    "nemo_gym": ("nemo_gym",),
    "harbor": ("harbor", "terminal_bench"),
    "bfcl": ("bfcl",),
    "tau2": ("tau2",),
    "verifiers": ("verifiers",),
    "inspect": ("inspect",),
    "openenv": ("openenv",),
    "ors": ("ors",),
    "hud": ("hud",),
    "agent_world_model": ("agent_world_model",),
    "step_apis": ("gymnasium", "gem", "textarena"),
    "miniwob": ("miniwob",),
}
"""Name of a module here → the importers that its row stands for."""
HEAD = (
    "| format | compared | tasks listed | results | equal | unmatched | CPU ms a call, its own code | the hub |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def between(text: str, name: str, new: str) -> str:
    """A text with what stands between the markers of a name replaced.

    Raises:
        ValueError: the text has no such markers.
    """
    pattern = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
    found, count = pattern.subn(lambda match: f"{match[1]}{new}\n{match[2]}", text)
    if count != 1:
        raise ValueError(f"there are {count} pairs of the markers {name!r}")
    return found


def rows_in(text: str) -> dict[str, str]:
    """The lines of the first table by format."""
    _, _, rest = text.partition("<!-- bars -->\n")
    lines = rest.partition("<!-- /bars -->")[0].splitlines()[len(HEAD) :]
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}


def written(text: str, name: str, bar: Bar) -> str:
    """The page with one format's figures."""
    rows = rows_in(text) | {bar.format: bar.row()}
    text = between(text, "bars", "\n".join((*HEAD, *sorted(rows.values()))))
    return between(text, f"bar {name}", bar.table) if bar.table else text


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the formats, and write the page; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(FORMATS))
    parser.add_argument("--quick", action="store_true", help="a sample of each; the page is not written")
    parser.add_argument("--work", type=Path, default=Path("bars"), help="where packages and verdicts are kept")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the page whose tables are written")
    given = parser.parse_args(arguments)
    if unknown := set(given.formats) - set(FORMATS):
        parser.error(f"no format is called {min(unknown)!r}; there are: {', '.join(FORMATS)}")
    work: Path = given.work.absolute()
    code = 0
    for name in given.formats or FORMATS:
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            bar: Bar = importlib.import_module(f"tests.foreign.{name}").measure(folder, given.quick)
        except Missing as error:
            say(f"{name}: left out: {error}")
            continue
        sys.stdout.write(f"{bar.row()}\n{bar.table}\n")
        for words in bar.differences:
            sys.stdout.write(f"{name} differs: {words}\n")
        sys.stdout.flush()
        code |= bool(bar.differences) or bar.compared == 0
        if not given.quick:
            given.docs.write_text(written(given.docs.read_text(encoding="utf-8"), name, bar), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
