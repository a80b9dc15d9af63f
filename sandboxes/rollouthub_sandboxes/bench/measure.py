"""`hub bench sandbox`: measures an exec, getting a ready sandbox, the pool's refill rate, and many episodes at once."""

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import anyio

from rollouthub.errors import HubError
from rollouthub.sandbox import Sandbox, SandboxProvider, SandboxSpec
from rollouthub.statistics.quantiles import quantile
from rollouthub_sandboxes.bench.engine_baseline import BareEngine, bare_engine
from rollouthub_sandboxes.bench.sandbox_figures import SandboxReport
from rollouthub_sandboxes.docker.provider import DockerProvider, docker_provider
from rollouthub_sandboxes.engine.engine import Engine, connect_engine
from rollouthub_sandboxes.process.provider import process_provider

PARALLEL = 4
EXECS_OF_AN_EPISODE = 10
SHARE_OF_THE_REFILL = 0.5
_COMMAND = ("true",)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Amounts:
    """How many times each thing is measured."""

    execs: int = 1000
    engine_execs: int = 30
    opens: int = 10
    rounds: int = 6
    containers: int = 12
    """Containers started in each round."""
    acquires: int = 60
    episodes: int = 64


QUICK = Amounts(execs=100, engine_execs=5, opens=3, rounds=1, containers=4, acquires=6, episodes=6)


async def measure_docker(amounts: Amounts, say: Say) -> SandboxReport:
    """Measure sandboxes of the container engine that answers, and the engine used directly for comparison.

    Raises:
        HubError: a sandbox could not be opened, or failed while it was measured.
    """
    report = SandboxReport("docker", load_before=os.getloadavg()[0], parallel=PARALLEL)
    spec = SandboxSpec()
    async with connect_engine() as engine:
        say("the base image …")
        bare = await bare_engine(engine, spec)
        say(f"one at a time: {amounts.opens} containers, {amounts.engine_execs} execs of the engine …")
        await _bare_times(bare, amounts, report)
        await _refill(bare, amounts, report, say)
        async with docker_provider() as provider:
            report.engine = provider.engine.name
            await _execs(provider, spec, engine, amounts, report, say)
            await _acquires(provider, spec, amounts, report, say)
            await _episodes(provider, spec, amounts, report, say)
    report.load_after = os.getloadavg()[0]
    return report


async def measure_process(amounts: Amounts, say: Say) -> SandboxReport:
    """Measure process sandboxes.

    Raises:
        HubError: a sandbox could not be opened, or failed while it was measured.
    """
    report = SandboxReport("process", load_before=os.getloadavg()[0], parallel=PARALLEL)
    spec = SandboxSpec()
    async with process_provider() as provider:
        await provider.prepare(spec)
        times = [await _open_seconds(provider, spec) for _ in range(amounts.opens)]
        report.open_p50_ms = 1000 * median(times)
        say(f"{amounts.containers} sandboxes, {PARALLEL} at once …")
        report.refill_per_second = await _start_many(provider, spec, amounts.containers)
        await _execs(provider, spec, None, amounts, report, say)
        await _acquires(provider, spec, amounts, report, say)
        await _episodes(provider, spec, amounts, report, say)
    report.load_after = os.getloadavg()[0]
    return report


async def _bare_times(bare: BareEngine, amounts: Amounts, report: SandboxReport) -> None:
    runs: list[float] = []
    execs: list[float] = []
    for _ in range(amounts.opens):
        async with bare.container() as (container, seconds):
            runs.append(seconds)
            some = range(max(amounts.engine_execs // amounts.opens, 1))
            execs += [await bare.exec_seconds(container) for _ in some]
    report.docker_run_p50_ms, report.docker_exec_p50_ms = 1000 * median(runs), 1000 * median(execs)


async def _refill(bare: BareEngine, amounts: Amounts, report: SandboxReport, say: Say) -> None:
    """Measure in turn how fast the pool and the bare engine start containers, so that other load affects both alike."""
    ours: list[float] = []
    engines: list[float] = []
    opens: list[float] = []
    for number in range(1, amounts.rounds + 1):
        say(f"round {number} of {amounts.rounds}: {amounts.containers} containers, {PARALLEL} at once, by turns …")
        if number % 2:
            engines.append(await bare.run_many(amounts.containers, PARALLEL))
        async with docker_provider() as provider:
            each = max(amounts.opens // amounts.rounds, 1)
            opens += [await _second_open(provider, _fresh(f"{number}-{count}")) for count in range(each)]
            many = _fresh(f"{number}")
            await _open_seconds(provider, many)
            await _be_idle(provider)
            ours.append(await _start_many(provider, many, amounts.containers))
        if not number % 2:
            engines.append(await bare.run_many(amounts.containers, PARALLEL))
    report.open_p50_ms = 1000 * median(opens)
    report.refill_per_second, report.docker_run_per_second = median(ours), median(engines)
    report.refill_ratio = median(mine / theirs for mine, theirs in zip(ours, engines, strict=True))


async def _start_many(provider: SandboxProvider, spec: SandboxSpec, count: int) -> float:
    """Open `count` sandboxes, none of them started ahead; return sandboxes per second until the last one is open."""
    limiter = anyio.CapacityLimiter(count if isinstance(provider, DockerProvider) else PARALLEL)
    have, are_all_there = 0, anyio.Event()
    started, seconds = time.perf_counter(), 0.0

    async def hold() -> None:
        nonlocal have, seconds
        opened = provider.open(spec)
        async with limiter:
            await opened.__aenter__()
        have += 1
        if have == count:
            seconds = time.perf_counter() - started
            are_all_there.set()
        await are_all_there.wait()
        await opened.__aexit__(None, None, None)

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(hold)
    return count / seconds


async def _execs(
    provider: SandboxProvider,
    spec: SandboxSpec,
    engine: Engine | None,
    amounts: Amounts,
    report: SandboxReport,
    say: Say,
) -> None:
    say(f"{amounts.execs:,} execs, one after another …")
    async with provider.open(spec) as sandbox:
        supervisor = await _first_process(engine, sandbox)
        report.walls, report.runner = sandbox.ref.walls, sandbox.ref.runner
        for _ in range(amounts.execs // 10):
            await _exec(sandbox)
        hub_before, supervisor_before = _resident_kb(os.getpid()), _resident_kb(supervisor)
        times = [await _exec(sandbox) for _ in range(amounts.execs)]
        report.hub_growth_kb = _growth(hub_before, _resident_kb(os.getpid()))
        report.supervisor_growth_kb = _growth(supervisor_before, _resident_kb(supervisor))
    report.execs = len(times)
    report.exec_p50_ms, report.exec_p99_ms = 1000 * median(times), 1000 * quantile(sorted(times), 0.99)


async def _acquires(
    provider: SandboxProvider, spec: SandboxSpec, amounts: Amounts, report: SandboxReport, say: Say
) -> None:
    """Measure the wait for a sandbox when requests come at random, at half the rate at which the provider can start
    them.
    """
    await provider.prepare(spec)
    churn = await _churn(provider, spec, amounts.containers)
    report.churn_per_second = churn
    demand = SHARE_OF_THE_REFILL * min(churn, report.refill_per_second)
    say(f"{amounts.acquires} ready sandboxes, {demand:.1f} a second …")
    warm_before = provider.statistics.from_warm if isinstance(provider, DockerProvider) else None
    rng = random.Random(0)
    times: list[float] = []

    async def want() -> None:
        started = time.perf_counter()
        async with provider.open(spec) as sandbox:
            times.append(time.perf_counter() - started)
            await _exec(sandbox)

    async with anyio.create_task_group() as group:
        for _ in range(amounts.acquires):
            group.start_soon(want)
            await anyio.sleep(rng.expovariate(demand))
    report.acquires, report.demand_per_second = len(times), demand
    report.acquire_p50_ms, report.acquire_p99_ms = 1000 * median(times), 1000 * quantile(sorted(times), 0.99)
    if isinstance(provider, DockerProvider) and warm_before is not None:
        report.acquired_warm = provider.statistics.from_warm - warm_before


async def _churn(provider: SandboxProvider, spec: SandboxSpec, count: int) -> float:
    """Sandboxes per second that are opened, used for one command and closed, `PARALLEL` at a time without a pause."""
    left = iter(range(count))
    started = time.perf_counter()

    async def use() -> None:
        for _ in left:
            async with provider.open(spec) as sandbox:
                await _exec(sandbox)

    async with anyio.create_task_group() as group:
        for _ in range(PARALLEL):
            group.start_soon(use)
    return count / (time.perf_counter() - started)


async def _episodes(
    provider: SandboxProvider, spec: SandboxSpec, amounts: Amounts, report: SandboxReport, say: Say
) -> None:
    say(f"{amounts.episodes} episodes at once, {EXECS_OF_AN_EPISODE} execs each …")
    errors = 0

    async def play() -> None:
        nonlocal errors
        try:
            async with provider.open(spec) as sandbox:
                for _ in range(EXECS_OF_AN_EPISODE):
                    await _exec(sandbox)
        except HubError as error:
            errors += 1
            say(f"an episode failed: {error}")

    started = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(amounts.episodes):
            group.start_soon(play)
    report.episodes, report.episode_errors = amounts.episodes, errors
    report.episodes_seconds = time.perf_counter() - started


async def _exec(sandbox: Sandbox) -> float:
    started = time.perf_counter()
    finished = await sandbox.exec(_COMMAND)
    seconds = time.perf_counter() - started
    if finished.exit_status != 0:
        raise HubError(f"`true` ended with {finished.exit_status} in {sandbox.id}: {finished.stderr.text[:200]}")
    return seconds


async def _open_seconds(provider: SandboxProvider, spec: SandboxSpec) -> float:
    started = time.perf_counter()
    async with provider.open(spec):
        return time.perf_counter() - started


async def _second_open(provider: SandboxProvider, spec: SandboxSpec) -> float:
    """Seconds to open a sandbox that was not started ahead; a first one is opened before to set up what the spec's
    sandboxes share.
    """
    await _open_seconds(provider, spec)
    if isinstance(provider, DockerProvider):
        await _be_idle(provider)
    return await _open_seconds(provider, spec)


async def _be_idle(provider: DockerProvider) -> None:
    """Wait until the pool is neither starting nor ending a container."""
    # Only a bench asks for this, so the pool has no event for it.
    while provider.statistics.making or provider.statistics.ending:  # noqa: ASYNC110
        await anyio.sleep(0.02)


def _fresh(name: str) -> SandboxSpec:
    """A spec of which no pool has a warm container."""
    return SandboxSpec(environment={"BENCH": name})


async def _first_process(engine: Engine | None, sandbox: Sandbox) -> int | None:
    """The pid of a container's supervisor on this machine; None without an engine or where the engine tells no pid."""
    if engine is None:
        return None
    return (await engine.call(engine.api.inspect_container, sandbox.id))["State"]["Pid"] or None


def _resident_kb(pid: int | None) -> int | None:
    if pid is None:
        return None
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith("VmRSS")), None)
    return int(line.split()[1]) if line else None


def _growth(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before
