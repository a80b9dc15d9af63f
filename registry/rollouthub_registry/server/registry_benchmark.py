"""`hub bench registry`: what searching, publishing and indexing cost in a registry of thousands of versions."""

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from rollouthub_registry.server.registry import Registry, open_registry, rebuild
from rollouthub_registry.server.search import ORDERS, Query
from rollouthub_registry.server.synthetic_packages import Crowd

_QUERIES = 400
_ROUNDS = 20
_AT_ONCE = 16
_EACH = 5


@dataclass(frozen=True)
class RegistryReport:
    """The measured figures."""

    environments: int
    versions: int
    rebuild_seconds: float
    open_seconds: float
    """Seconds to open a registry whose index is complete."""
    search_p50_ms: float
    search_p99_ms: float
    list_p50_ms: float
    """Median time for a page of 100 of the MCP registry's list."""
    publish_p50_ms: float
    publish_p99_ms: float
    """Time to publish, including validation, disk and index, but not the publisher's checks."""
    publishers: int
    """Concurrent publishers, each publishing one version after the other."""
    published_per_second: float
    lost: int


def bench(provider: str | None, quick: bool, as_json: bool) -> None:
    """Measure a registry of 10,000 versions of 2,000 environments; with `quick`, a tenth of both."""
    from rich.table import Table

    from rollouthub.cli.console import remarks, results

    console = remarks()
    environments, rounds, each = (200, 5, 1) if quick else (2000, _ROUNDS, _EACH)
    with tempfile.TemporaryDirectory(prefix="rollouthub-bench-") as scratch:
        report = measure(Path(scratch), environments, 5, lambda text: console.print(text, style="dim"), rounds, each)
    if as_json:
        typer.echo(json.dumps(asdict(report)))
        return
    table = Table("registry", "")
    for name, value in asdict(report).items():
        table.add_row(name.replace("_", " "), f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
    results().print(table)


def measure(
    scratch: Path,
    environments: int,
    versions: int,
    say: Callable[[str], None],
    rounds: int = _ROUNDS,
    each: int = _EACH,
) -> RegistryReport:
    """Create a registry with this many environments and versions of each, and measure it."""
    root, crowd = scratch / "registry", Crowd(scratch)
    say(f"writing {environments * versions:,} versions of {environments:,} environments …")
    crowd.fill(root, environments, versions)
    started = time.perf_counter()
    held = rebuild(root)
    rebuilt = time.perf_counter() - started
    started = time.perf_counter()
    with open_registry(root) as registry:
        opened = time.perf_counter() - started
        say("searching …")
        searched = _timed(lambda number: registry.search(_query(crowd, number)), _QUERIES)
        listed = _timed(lambda _: registry.index.page(100), _ROUNDS)
        say("publishing …")
        offers = [crowd.offer(f"new-{number}", "1.0.0") for number in range(rounds)]
        published = _timed(lambda number: registry.publish(*offers[number]), rounds)
        rate, lost = _publish_at_once(registry, crowd, each)
    shutil.rmtree(root)
    return RegistryReport(
        environments=environments,
        versions=held,
        rebuild_seconds=rebuilt,
        open_seconds=opened,
        search_p50_ms=statistics.median(searched),
        search_p99_ms=sorted(searched)[len(searched) * 99 // 100],
        list_p50_ms=statistics.median(listed),
        publish_p50_ms=statistics.median(published),
        publish_p99_ms=max(published),
        publishers=_AT_ONCE,
        published_per_second=rate,
        lost=lost,
    )


def _query(crowd: Crowd, number: int) -> Query:
    """One of a variety of searches."""
    words = crowd.words
    text = " ".join(words[(number * step + step) % len(words)] for step in range(1, 1 + number % 4))
    return Query(text, ORDERS[number % len(ORDERS)] if number % 3 == 0 else "relevance", passed_only=number % 5 == 0)


def _timed(work: Callable[[int], object], times: int) -> list[float]:
    """Milliseconds that each call took."""
    taken: list[float] = []
    for number in range(times):
        started = time.perf_counter()
        work(number)
        taken.append((time.perf_counter() - started) * 1000)
    return taken


def _publish_at_once(registry: Registry, crowd: Crowd, each: int) -> tuple[float, int]:
    """Versions per second that concurrent publishers reach, and how many of them are missing afterwards."""
    from rollouthub.event_loop import run_async

    offers = [[crowd.offer(f"at-once-{who}-{what}", "1.0.0") for what in range(each)] for who in range(_AT_ONCE)]
    before = len(registry.index.known())

    async def publish() -> None:
        import anyio
        from anyio import to_thread

        async def one(who: int) -> None:
            for offer in offers[who]:
                await to_thread.run_sync(registry.publish, *offer)

        async with anyio.create_task_group() as tasks:
            for who in range(_AT_ONCE):
                tasks.start_soon(one, who)

    started = time.perf_counter()
    run_async(publish)
    seconds = time.perf_counter() - started
    made = _AT_ONCE * each
    return made / seconds, before + made - len(registry.index.known())
