"""Runs a program that is an answer together with its tests, in a process of its own."""

# ruff: noqa: ASYNC240

import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.audit.made_tasks import Judge, State

_FENCE = re.compile(r"```(?:python)?\n(.*?)```", re.DOTALL)
_SECONDS = 20.0


@dataclass(frozen=True)
class Ran:
    """How the tests ended."""

    status: int
    output: str
    files: Mapping[str, str]


async def ran(program: str, tests: str, given: str = "") -> Ran:
    """Run tests that import the program as `solution`, and read what is given."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "solution.py").write_text(program, encoding="utf-8", errors="replace")
        (place / "tests.py").write_text(f"import sys\nsys.path.insert(0, {folder!r})\n{tests}", encoding="utf-8")
        (place / "given").write_text(given, encoding="utf-8")
        with anyio.fail_after(_SECONDS), (place / "given").open("rb") as stdin:
            done = await anyio.run_process(
                [sys.executable, "-I", "-S", "-B", str(place / "tests.py")], check=False, cwd=folder,
                env={"PATH": "/usr/bin:/bin"}, stdin=stdin,
            )  # fmt: skip
        kept = {file.name: file.read_text(errors="replace") for file in place.iterdir() if file.is_file()}
    return Ran(done.returncode, done.stdout.decode(errors="replace"), kept)


def judged_by(tests: str, verdict: Callable[[Ran], float]) -> Judge:
    """Judge an answer by tests; what is no program that defines something has failed without any."""

    async def judge(said: str, _: State) -> float:
        blocks = _FENCE.findall(said)
        program = blocks[-1] if blocks else said
        if not re.search(r"^def \w+\(", program, re.MULTILINE):
            return 0.0
        return verdict(await ran(program, tests))

    return judge
