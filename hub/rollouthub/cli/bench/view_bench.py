"""`hub bench view`: CPU of pages, time to the first page of a large run, and memory, measured on a real `hub view`."""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from shutil import copytree
from typing import Any, Self

import typer

from rollouthub.bench.large_runs import multiply, sampled_turns, write_long
from rollouthub.bench.real_runs import play_out, world
from rollouthub.errors import HubError, UsageError
from rollouthub.event_loop import run_async
from rollouthub.processes import HUB
from rollouthub.statistics.quantiles import quantile
from rollouthub.telemetry.cpu import cpu_of

VIEW_BARS = {"page_cpu_p95_ms": 30.0, "first_page_seconds": 1.0, "rss_mb": 200.0}
"""The upper limit of each figure."""
WIDE_TOKENS = 30_000
"""Sampled tokens of the rollout that the run `wide` has."""
_WORDS = {
    "page_cpu_p95_ms": "CPU of a page, p95 (ms)",
    "first_page_seconds": "the page of a large run, asked for first (s)",
    "rss_mb": "memory at its highest (MB)",
}
_ROUNDS = 20


@dataclass
class ViewReport:
    """All measurements of one benchmark."""

    pages: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Kind of page → milliseconds of CPU of each request."""
    first: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """What is read of whole runs once → seconds of CPU, and seconds by the clock, until it is there."""
    memory_bytes: int = 0
    rollouts: int = 0

    @property
    def figures(self) -> dict[str, float]:
        """The figures that have a limit."""
        every = sorted(value for values in self.pages.values() for value in values)
        return {
            "page_cpu_p95_ms": quantile(every, 0.95),
            "first_page_seconds": self.first["run"][1],
            "rss_mb": self.memory_bytes / 1e6,
        }

    def as_json(self) -> dict[str, Any]:
        """The report as `hub bench view --json` prints it."""
        pages = {
            name: {"count": len(values), "p50": quantile(sorted(values), 0.5), "p95": quantile(sorted(values), 0.95)}
            for name, values in self.pages.items()
        }
        within = {name: value <= VIEW_BARS[name] for name, value in self.figures.items()}
        first = {name: {"cpu_seconds": cpu, "seconds": wall} for name, (cpu, wall) in self.first.items()}
        return {
            **self.figures,
            "bars": VIEW_BARS,
            "within": within,
            "rollouts": self.rollouts,
            "pages": pages,
            "first": first,
        }


class ViewVisitor:
    """A browser that was let in to a `hub view`, and its server's process."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        found = re.fullmatch(r"http://([^/]+)(/[^/]+/)[^?]*\?(?:.*&)?token=(\S+)", address)
        if found is None:
            raise HubError(f"`hub view` printed no address: {address[:200]!r}")
        host, self._place, token = found.groups()
        self._process = process
        self._headers = {"Cookie": f"hub-view-{host.rpartition(':')[2]}={token}"}
        self._connection = HTTPConnection(host, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str) -> str:
        """The whole of a page."""
        self._connection.request("GET", self._place + path, headers=self._headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise HubError(f"{path} answers {answer.status}: {text[:200]}")
        return text

    def first(self, path: str, cpu_before: float | None = None) -> tuple[float, float]:
        """Seconds of CPU, since it had used so much, and seconds by the clock, until a page is there."""
        before, began = self.cpu if cpu_before is None else cpu_before, time.monotonic()
        self.get(path)
        return self.cpu - before, time.monotonic() - began

    @property
    def cpu(self) -> float:
        """Seconds of CPU that the server has used."""
        return cpu_of(self._process.pid)

    def cpu_ms(self, path: str) -> float:
        """Milliseconds of CPU that the server takes for a page."""
        return self.first(path)[0] * 1e3

    @property
    def memory_bytes(self) -> int:
        """The most memory that the server has had resident."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s*(\d+) kB", status)
        return 0 if found is None else int(found[1]) * 1024


@contextmanager
def _viewing(folder: Path, environ: Mapping[str, str], *arguments: str) -> Generator[ViewVisitor]:
    command = [*HUB, "view", *arguments, "--no-browser"]
    with subprocess.Popen(command, cwd=folder, env=dict(environ), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"http://\S+", process.stdout.readline())
            with ViewVisitor(process, found[0] if found else "") as visitor:
                yield visitor
        finally:
            process.terminate()


def measure_view(scratch: Path, rollouts: int, say: Callable[[str], None]) -> ViewReport:
    """Measure the pages of a real run of 2,000 rollouts, and of one of `rollouts`.

    Raises:
        HubError: the run or the server did not start.
    """
    environ, report = world(scratch), ViewReport(rollouts=rollouts)
    runs = scratch / "runs"
    runs.mkdir()
    say("a real run is played")
    play_out(runs / "real", environ, 2_000)
    say(f"a copy grows to {rollouts:,} rollouts")
    copytree(runs / "real", runs / "large")
    multiply(runs / "large", rollouts)
    run_async(write_long, runs / "wide", list(sampled_turns(WIDE_TOKENS)))
    say("pages are asked for")
    measure_pages(scratch, environ, report)
    return report


def measure_pages(scratch: Path, environ: Mapping[str, str], report: ViewReport) -> None:
    """Measure the pages of the runs `real`, `large` and `wide` in `scratch/runs`.

    Raises:
        HubError: the server did not start, or a page is not there.
    """
    sizes = {"real": 2_000, "large": report.rollouts}
    with _viewing(scratch, environ, "--root", "runs", "large") as visitor:
        # The run is read from the moment on at which the address is told.
        report.first["run"] = visitor.first("run/large", visitor.cpu)
        for run, size in sizes.items():
            links = re.findall(r'/(run/[^"#?]*/rollout/[^"#?]*)', visitor.get(f"run/{run}"))
            (task,) = re.findall(r'/(run/[^"#?]*/task/[^"#?]*)', visitor.get(f"run/{run}/tasks"))[:1]
            kinds = {
                "list": "",
                "run": f"run/{run}",
                "filtered": f"run/{run}?filter=reward+%3C+1&sort=seconds",
                "rows": f"run/{run}/rows?limit=200&offset=",
                "live part": f"run/{run}/live",
                "tasks": f"run/{run}/tasks",
                "task": task,
            }
            for at in range(_ROUNDS):
                asked = {**kinds, "rows": f"{kinds['rows']}{at * size // _ROUNDS}", "rollout": links[at % len(links)]}
                for kind, path in asked.items():
                    report.pages.setdefault(f"{run}: {kind}", []).append(visitor.cpu_ms(path))
        report.pages["wide: rollout"] = [visitor.cpu_ms("run/wide/rollout/long-0") for _ in range(_ROUNDS)]
        # What is read of whole runs is read once; after that it is a page as any other.
        whole = {"review": "run/large?review=yes", "board": "board", "compare": "compare?run=real&run=large"}
        for name, path in whole.items():
            report.first[name] = visitor.first(path)
            report.pages[name] = [visitor.cpu_ms(path) for _ in range(_ROUNDS)]
        report.memory_bytes = visitor.memory_bytes


def bench(provider: str | None, quick: bool, as_json: bool) -> None:
    """Measure `hub view` from outside; with `quick`, with a run of 4,000 rollouts instead of 100,000.

    Raises:
        UsageError: this is not Linux, where CPU times of other processes can be read.
    """
    import sys

    from rollouthub.cli.console import remarks, results

    if sys.platform != "linux":
        raise UsageError("`hub bench view` reads the CPU clocks of other processes, which only Linux has")
    console = remarks()
    with tempfile.TemporaryDirectory(prefix="rollouthub-bench-") as name:
        report = measure_view(Path(name), 4_000 if quick else 100_000, lambda text: console.print(text, style="dim"))
    if as_json:
        typer.echo(json.dumps(report.as_json()))
        return
    results().print(_table(report))


def _table(report: ViewReport) -> Any:
    from rich.table import Table

    table = Table("hub view", "measured", "bar", "")
    for name, value in report.figures.items():
        table.add_row(_WORDS[name], f"{value:,.2f}", f"{VIEW_BARS[name]:g}", "" if value <= VIEW_BARS[name] else "over")
    for name, (cpu, wall) in report.first.items():
        table.add_row(f"CPU, s: {name}, for the first time", f"{cpu:.2f}", "", f"{wall:.2f} s by the clock")
    for name, values in report.pages.items():
        ordered = sorted(values)
        table.add_row(f"CPU, ms: {name}", f"{quantile(ordered, 0.5):.1f}", "", f"p95 {quantile(ordered, 0.95):.1f}")
    return table
