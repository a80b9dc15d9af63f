"""The hub beside a server of batches, as tests of batches run it, and what its records say."""

import json
import os
import signal
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from rollouthub import Rollout
from rollouthub.store import open_run
from tests.cli.conftest import Done, environment, hub_in, warm
from tests.cli.warm import HUB, OF_OPENAI
from tests.models.openai_server import MODEL, OpenAIServer

NAME = f"openai/{MODEL}"
PLAY = ("run", "arithmetic", "-a", "single_turn", "-m", NAME, "--lane", "openai", "--limit", "4", "--repeats", "2")
PRICES = ("--price-prompt", "2", "--price-output", "4")
SOON = """\
import rollouthub.models.openai.batch_queue as queue
queue.QUIET_SECONDS, queue.FIRST_POLL_SECONDS = 1.0, 0.1
"""
"""Has a hub wait less for the next request, and ask sooner what became of a batch."""
POEMS = '''
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task
from rollouthub.authoring.rewards import Criterion, Judge

CRITERIA = [Criterion(name="polite", question="?"), Criterion(name="brief", question="?", lowest=1, highest=5)]


class Poems(Environment[EnvironmentConfig]):
    """Write a line."""

    scores_transcripts = True

    @classmethod
    def roles(cls, config):
        return ("judge",)

    @classmethod
    def tasks(cls, config, split, seed):
        for number in range(6):
            yield Task(Public(id=f"poem-{number}", prompt=f"A line on {number}."), Secret())

    async def verify(self, submission: Submission) -> Score:
        return await Judge(self.models["judge"], CRITERIA)(self.task, submission)
'''


def asked_words(body: dict[str, Any]) -> str:
    """The last message of a request, of either API."""
    content = (body.get("messages") or body["input"])[-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def say(body: dict[str, Any]) -> str:
    """A player that always knows the same number, and a judge that likes every second letter."""
    words = asked_words(body)
    if "Now judge." in words:
        return json.dumps({"reasoning": "so", "polite": sum(words.encode()) % 2 == 0, "brief": 4})
    return f"The answer is {sum(words.encode()) % 100}."


class Hubs:
    """The hub of these tests: beside a server in this process."""

    def __init__(self, folder: Path, url: str) -> None:
        self._hub, self._folder = hub_in(folder, OF_OPENAI, SOON), folder
        self.keys = {"OPENAI_API_KEY": "hush-hush-hush", "OPENAI_BASE_URL": url}

    async def __call__(self, *arguments: str | Path) -> Done:
        """Run it to its end."""
        return await anyio.to_thread.run_sync(partial(self._hub, *arguments, **self.keys))

    async def ended_by(self, server: OpenAIServer, number: signal.Signals, *arguments: str | Path) -> int:
        """Start it, wait until a batch is at the server and was asked about, and send it a signal; its exit code."""
        words, variables = [*map(str, arguments)], environment(**self.keys)
        started: list[int] = []
        run = partial(warm(OF_OPENAI).run, words, self._folder, variables, 120, program=SOON + HUB)
        ended: list[subprocess.CompletedProcess[str]] = []

        async def wait() -> None:
            ended.append(await anyio.to_thread.run_sync(partial(run, on_start=started.append)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            with anyio.fail_after(60):
                await server.polled.wait()
            os.kill(started[0], number)
        return ended[0].returncode


def records(directory: Path) -> list[Rollout]:
    with open_run(directory) as reader:
        return sorted(reader.rollouts(effective=False), key=lambda rollout: (rollout.rollout_id, rollout.attempt))


def plain(directory: Path) -> list[dict[str, Any]]:
    """A run's records without times, prices and its own id."""
    return [without(rollout.model_dump(mode="json")) for rollout in records(directory)]


def without(value: Any) -> Any:
    times = ("timings", "started", "started_at", "seconds", "cost", "run_id", "model_seconds")
    if isinstance(value, dict):
        return {key: without(each) for key, each in value.items() if key not in times}  # pyright: ignore[reportUnknownVariableType]
    return [without(each) for each in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def costs(directory: Path) -> float:
    return sum(turn.cost or 0.0 for rollout in records(directory) for turn in rollout.turns)


def assert_asked_once(server: OpenAIServer, number: int) -> None:
    assert max(Counter(name for name, _ in server.batched).values()) == 1
    assert len(server.batched) == number
    assert server.asked == []
