"""New weights for an engine in the middle of its work: pause, update and resume by the hub's stream, each timed."""

import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import aiohttp

import rollouthub
from rollouthub.models.credentials import Credentials
from rollouthub.trainers.stream import VllmControl
from rollouthub.trainers.stream.generation_control import InFlight
from tests.gpu.cells import Given, answer
from tests.gpu.load_cell import TALKING

PROBE = "Add 5 and 12."
PROBE_TOKENS = 8
SAME = 0.02
"""Most difference in a log-probability, in nats, between two looks at the same weights."""


class TimedControl:
    """A control of servers that notes the seconds of each call."""

    def __init__(self, control: VllmControl) -> None:
        self._control = control
        self.seconds: dict[str, float] = {}

    async def timed(self, name: str, call: Awaitable[object]) -> None:
        """Await a call, and note how long it took."""
        began = time.perf_counter()
        await call
        self.seconds[name] = time.perf_counter() - began

    async def pause(self, in_flight: InFlight) -> None:
        """Stop generating."""
        await self.timed("pause", self._control.pause(in_flight))

    async def resume(self) -> None:
        """Generate again."""
        await self.timed("resume", self._control.resume())

    async def updated(self, version: int) -> None:
        """Clear what was cached for the old weights."""
        await self.timed("forget", self._control.updated(version))


async def probe(url: str, name: str) -> list[float]:
    """Log-probabilities of the likeliest answer to a prompt, which tell one set of weights from another."""
    body = {
        "model": name,
        "messages": [{"role": "user", "content": PROBE}],
        "max_tokens": PROBE_TOKENS,
        "temperature": 0.0,
        "logprobs": True,
        "return_token_ids": True,
    }
    async with aiohttp.ClientSession() as session, session.post(f"{url}/chat/completions", json=body) as response:
        response.raise_for_status()
        said: Any = await response.json()
    return [each["logprob"] for each in said["choices"][0]["logprobs"]["content"]]


def apart(one: list[float], other: list[float]) -> float:
    """Largest difference; infinite between answers of different lengths."""
    if len(one) != len(other):
        return float("inf")
    return max(abs(first - second) for first, second in zip(one, other, strict=True))


async def update(given: Given) -> dict[str, Any]:
    """Exchange the weights back and forth while rollouts are played, with each way of treating calls in flight."""
    control = VllmControl(given["url"])
    timed = TimedControl(control)
    own, other = given["folder"], given["other"]
    before = await probe(given["url"], given["name"])
    found: dict[str, Any] = {}
    async with rollouthub.stream_rollouts(
        environments=(str(TALKING),),
        model=f"hosted_vllm/{given['name']}",
        base_url=given["url"],
        sampling=given["sampling"],
        groups=True,
        repeats=4,
        batch=2,
        concurrency=given["in_flight"],
        max_staleness=100,
        epochs=None,
        directory=Path(given["directory"]),
        control=timed,
        credentials=Credentials({}),
    ) as supply:
        for place, in_flight in enumerate(get_args(InFlight)):
            await supply.batch()
            target = other if place % 2 == 0 else own
            began = time.perf_counter()
            version = await supply.publish_weights(
                update=lambda target=target: timed.timed("load", control.reload_weights(target)), in_flight=in_flight
            )
            found[in_flight] = {"whole": time.perf_counter() - began, **timed.seconds}
            found[in_flight]["is_told"] = await control.versions() == [str(version)]
        await supply.batch()
        found["aborted"] = supply.stats.aborted_calls
        if given["is_ipc"]:
            found["ipc"] = await _by_ipc(given, control, supply.publish_weights)
    await control.reload_weights(other)
    await control.reset_prefix_cache()
    changed = await probe(given["url"], given["name"])
    if given["has_trainer"]:
        found["drift"] = await _drift(given)
    await control.reload_weights(own)
    await control.reset_prefix_cache()
    after = await probe(given["url"], given["name"])
    return {**found, "changed": apart(before, changed), "unchanged": apart(before, after), "same": SAME}


async def _drift(given: Given) -> Mapping[str, float]:
    """Differences between the engine and the trainer's model with the weights that the engine has now."""
    from tests.gpu.drift_cell import drift

    directory = str(Path(given["directory"]).with_name("update-drift"))
    found = await drift({**given, "folder": given["other"], "directory": directory, "rollouts": 4})
    return found["float32"]


async def _by_ipc(given: Given, control: VllmControl, publish: Callable[..., Awaitable[int]]) -> Mapping[str, float]:
    """Seconds of an update from a model of this process by vLLM's own transfer: the first, which meets the server, and
    the second.
    """
    from rollouthub.trainers.learn import Learner, VllmTransfer, open_policy

    model, _ = open_policy(given["other"], checkpointing=False)
    learner, way = Learner(model), VllmTransfer(given["url"], control, backend="ipc")
    seconds: list[float] = []
    for _ in range(2):
        began = time.perf_counter()
        await publish(update=lambda: way.send(learner), in_flight="keep")
        seconds.append(time.perf_counter() - began)
    return {"first": seconds[0], "second": seconds[1]}


if __name__ == "__main__":
    answer(update)
