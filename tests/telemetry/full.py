"""A run that has something to say in every metric."""

from dataclasses import replace

from rollouthub.rollout import Outcome
from rollouthub.telemetry.metrics.exposition import RunFigures
from rollouthub.telemetry.metrics.process_figures import (
    Backend,
    Gpu,
    ModelLoad,
    PoolLoad,
    ProcessSnapshot,
    ProcessUsage,
    SandboxLoad,
    ServerLoad,
    StoreLoad,
    decode,
    encode,
)
from tests.telemetry.records import record


def snapshot(process: str) -> ProcessSnapshot:
    """A process that does everything, as it was sent."""
    taken = ProcessSnapshot(
        process=process,
        usage=ProcessUsage(2.0, 1.0, 2**20, 10, 20),
        states={"model": 2, "tool": 1},
        backends=[Backend("hosted_vllm/m", "http://127.0.0.1:8000/v1", 5, 100, 3, True, 0.25, 64.0)],
        models=[ModelLoad("hosted_vllm/m", 1, 5, 64)],
        sandboxes=[SandboxLoad("sums", "docker", 2, 9, 1, 0, 3, 1, 1)],
        servers=[ServerLoad("dice", 2, 1)],
        received_bytes=1000,
        sent_bytes=2000,
        gpus=[Gpu(0, "H100", 0.5, 2**30, 2**36)],
        machine="here",
    )
    taken.lag.observe(0.02)
    return decode(encode(taken))


def full(rollouts: int = 50, workers: int = 1) -> RunFigures:
    """The run."""
    figures = RunFigures(
        processes=[snapshot("hub"), *(snapshot(f"worker-{number}") for number in range(workers))],
        run="r1",
        agent="tool_loop",
        model="hosted_vllm/m",
        planned=1000,
        done_before=5,
        bad_rows=1,
        pool=PoolLoad(in_flight=3, concurrency=32, workers=2, workers_alive=1),
        trainer={"loss": 0.25, "kl": 0.5},
        store=StoreLoad(2, 10, 50, 0.5, 0.1, 2**30, 2**40),
    )
    figures.tally.count(
        record(outcome, environment=name, number=number, passed=True, turns=2, queue=0.1)
        for number in range(rollouts)
        for outcome in Outcome
        for name in ("sums", "dice")
    )
    return replace(figures)
