"""Measures what needs a GPU, on a machine that has one, with one command: `python -m tests.gpu`.

Real vLLM serves a model made here, of half a billion random weights; nothing is downloaded. The parts are measured in
the order of their worth, each within a time of its own, and what the minutes do not reach is said. The table is
written into docs/gpu.md. `--cpu` runs all of it that a CPU can do, with a CPU build of vLLM and a tiny model, so that
nothing has to be debugged on the day there is a GPU. The training systems must be in this interpreter
(`.ci/trainers.sh`); vLLM may have one of its own.

Exit codes: 0 every part ran and, on a GPU, reached its bars; 1 one failed, or missed a bar on a GPU; 2 bad usage.
"""

import argparse
import json
import platform
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio

from rollouthub.errors import UsageError
from rollouthub.processes import set_import_defaults
from tests.gpu.engines import Engines
from tests.gpu.gpu_watch import GpuFacts, gpu_facts
from tests.gpu.lab import CPU, GPU, Lab, quick
from tests.gpu.page import PAGE, section, table, versions, write
from tests.gpu.parts import PARTS, Part
from tests.gpu.runner import chosen_parts, measure_parts

MINUTES = 30.0
LEAST_MINUTES, MOST_MINUTES = 1.0, 24 * 60.0


def parser_of() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cpu", action="store_true", help="without a GPU: the same on CPUs, with a tiny model")
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help="these parts alone (--list)")
    parser.add_argument("--list", action="store_true", help="list the parts, and end")
    parser.add_argument(
        "--vllm", metavar="PATH", help="vllm, or the Python beside it; else beside this one, or on PATH"
    )
    parser.add_argument(
        "--engine", choices=("vllm", "policy"), default="vllm", help="policy: the hub's stand-in for vLLM (with --cpu)"
    )
    parser.add_argument("--model", type=Path, metavar="DIR", help="a small trained model, measured besides")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for all parts together (%(default)g)")
    parser.add_argument(
        "--quick", action="store_true", help="a little of each part, to see that it runs; no page is written"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="of logs, models and runs; else a new one")
    parser.add_argument("--write", action="store_true", help="with --cpu: write the page's table of CPUs")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="the page that is written")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write; returns the exit code."""
    parser = parser_of()
    given = parser.parse_args(arguments)
    parts = chosen_parts(PARTS, given.only, has_given=given.model is not None, refuse=parser.error)
    if given.list:
        for part in PARTS:
            sys.stdout.write(f"{part.name:12} {part.about}\n")
        return 0
    facts = _check(parser, given)
    folder: Path = given.output or Path(tempfile.mkdtemp(prefix="gpu-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output {str(folder)!r} cannot be made: {error.strerror}")
    try:
        engines = Engines(given.engine, given.vllm, is_cpu=given.cpu, logs=folder)
    except UsageError as error:
        parser.error(str(error))
    runs = Path(tempfile.mkdtemp(prefix="runs-", dir=folder.absolute()))
    amounts = CPU if given.cpu else GPU
    lab = Lab(engines, quick(amounts) if given.quick else amounts, folder.absolute(), runs, given.model, say=_say)
    lab.facts |= _measured_with(lab, facts, sys.argv[1:] if arguments is None else arguments)
    _say(f"logs, models and runs: {folder}")
    ended_by = anyio.run(_run, lab, parts, given.minutes * 60)
    sys.stdout.write(table(lab.rows) + "\n")
    if given.json is not None:
        figures = {"facts": lab.facts, "ended_by": ended_by, "rows": [row.as_json() for row in lab.rows]}
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    if ended_by is not None:
        _say("it was ended before it was over: the page is left as it was")
        return 128 + ended_by
    if given.write or not (given.cpu or given.only or given.quick):
        write(given.page, "cpu" if given.cpu else "gpu", section(lab.rows, lab.facts))
        _say(f"{given.page} has the table")
    bad = {"failed"} if given.cpu else {"failed", "missed"}
    return int(any(row.verdict in bad for row in lab.rows))


def _check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> GpuFacts | None:
    """Refuse what does not hold together, before anything is started; returns the GPU that is measured."""
    if given.engine == "policy" and not given.cpu:
        parser.error("--engine policy is a stand-in for tests: give --cpu, too")
    if given.write and given.only:
        parser.error("--write writes the whole table: leave out --only")
    if given.write and given.quick:
        parser.error("--write writes whole measurements: leave out --quick")
    if given.write and given.engine != "vllm":
        parser.error("--write writes figures of vLLM: leave out --engine policy")
    if not LEAST_MINUTES <= given.minutes <= MOST_MINUTES:
        parser.error(f"--minutes {given.minutes:g}: from {LEAST_MINUTES:g} to {MOST_MINUTES:g}")
    if given.model is not None and not (given.model / "config.json").is_file():
        parser.error(f"--model {str(given.model)!r} is no folder with a model in Hugging Face's format (config.json)")
    if given.output is not None and given.output.exists() and not given.output.is_dir():
        parser.error(f"--output {str(given.output)!r} is no folder")
    if not given.page.is_file():
        parser.error(f"--page {str(given.page)!r}: there is no such file")
    if given.json is not None and (given.json.is_dir() or not given.json.parent.is_dir()):
        parser.error(f"--json {str(given.json)!r} is a folder, or lies in none")
    if given.cpu:
        return None
    facts = gpu_facts()
    if facts is None:
        parser.error("no NVIDIA GPU answers here (nvidia-smi): give --cpu for all that a CPU can do")
    return facts


def _measured_with(lab: Lab, gpu: GpuFacts | None, arguments: Sequence[str]) -> dict[str, str]:
    if gpu is None:
        device = f"{_cpu_name()}, no GPU"
    else:
        device = f"{gpu.name}, {gpu.memory_gb:.0f} GB, driver {gpu.driver}; {_cpu_name()}"
    engine = "the hub's stand-in for an engine"
    if lab.engines.program is not None:
        engine = f"vLLM {_vllm_version(lab.engines.program)}"
    return {
        "device": device,
        "engine": engine,
        "packages": f"Python {platform.python_version()}, {versions()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": f"`{shlex.join(['python', '-m', 'tests.gpu', *_without_places(arguments)])}`",
    }


def _without_places(arguments: Sequence[str]) -> list[str]:
    """The command's words, less where files are written, and the folders of those that are read."""
    words: list[str] = []
    given = iter(arguments)
    for word in given:
        if word in ("-o", "--output", "--json", "--page"):
            next(given, None)
        else:
            words.append(Path(word).name if "/" in word else word)
    return words


def _cpu_name() -> str:
    names: list[str] = []
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
    return f"{len(names)} cores of {names[0]}" if names else platform.machine()


def _vllm_version(program: Path) -> str:
    folders = (program.resolve().parents[1] / "lib").glob("python*/site-packages/vllm-*.dist-info")
    found = sorted(folder.name.removeprefix("vllm-").removesuffix(".dist-info") for folder in folders)
    return found[0] if found else "of an unknown version"


async def _run(lab: Lab, parts: Sequence[Part], seconds: float) -> int | None:
    """Measure until it is over, or a signal says to end; returns that signal. All processes are ended either way."""
    ended_by: int | None = None
    async with anyio.create_task_group() as tasks:

        async def listen() -> None:
            nonlocal ended_by
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
                async for number in signals:
                    _say("ending …")
                    ended_by = int(number)
                    tasks.cancel_scope.cancel()
                    return

        tasks.start_soon(listen)
        async with lab.engines:
            await measure_parts(lab, parts, seconds)
        tasks.cancel_scope.cancel()
    return ended_by


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    set_import_defaults()
    sys.exit(main())
