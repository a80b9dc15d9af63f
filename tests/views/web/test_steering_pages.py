"""Steering a run that plays from its pages: asked as in the terminal, done by a form, and told what came of it."""

import re
from html import unescape
from pathlib import Path

import anyio

from rollouthub import Outcome
from tests.live.control.conftest import Guest, Watch, Watched, until

from .conftest import Visit, served
from .test_pages import words


def key_in(page: str) -> dict[str, str]:
    """The key that a form carries."""
    found = re.search(r'name="key" value="([^"]*)"', page)
    assert found is not None, words(page)
    return {"key": found[1]}


async def steered(visit: Visit, run: Watched) -> str:
    """The run's page once its hub is known, and all rollouts in flight are in the store."""
    path = f"run/{run.directory.name}"
    with anyio.fail_after(60):
        while True:
            page = (await visit.get(path)).text
            if "/do/pause" in page and f"In flight: {len(run.ids())}" in page:
                return path


async def test_a_run_is_paused_resized_and_resumed_and_a_rollout_cancelled(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest, limit=6) as run:
        await until(lambda: guest.waiting == 3)
        async with served(run.directory, environ=run.environ) as visit:
            path = await steered(visit, run)
            asks = await visit.get(f"{path}/do/pause")
            assert "Pause the run?" in asks.text
            assert run.live.state == "running", "asking does nothing"
            await visit.post(f"{path}/do/pause", key_in(asks.text))
            assert run.live.state == "paused"
            with anyio.fail_after(30):
                while "Let the run go on?" not in (asks := await visit.get(f"{path}/do/pause")).text:
                    await anyio.lowlevel.checkpoint()
            await visit.post(f"{path}/do/pause", key_in(asks.text))
            assert run.live.state == "running"

            asks = await visit.get(f"{path}/do/concurrency")
            wrong = await visit.post(f"{path}/do/concurrency", key_in(asks.text) | {"text": "0"})
            assert wrong.status_code == 400 and "a number from 1 to 10,000, please" in wrong.text
            await visit.post(f"{path}/do/concurrency", key_in(asks.text) | {"text": "4"})
            assert run.live.concurrency == 4

            victim = run.ids()[0]
            flight = await visit.get(f"{path}/rollout/{victim}")
            assert "Score it now" in flight.text and "tool look ✓ ok" in words(flight.text)
            assert 'class="card speech user"' in flight.text, "it is drawn as a rollout that has ended"
            asks = await visit.get(f"{path}/do/cancel?rollout={victim}")
            assert f"({victim}) now, unscored?" in unescape(asks.text)
            done = await visit.post(f"{path}/do/cancel?rollout={victim}", key_in(asks.text))
            assert done.status_code == 200
            await until(lambda: victim not in run.live.attempts)
            again = await visit.post(f"{path}/do/cancel?rollout={victim}", key_in(asks.text))
            assert again.status_code == 409
    assert [record.outcome for record in run.records()[victim]] == [Outcome.CANCELLED]


async def test_an_agent_is_told_something_and_its_record_keeps_it(watch: Watch, tmp_path: Path) -> None:
    guest = Guest(talks=True)
    async with watch(guest, limit=3) as run:
        await until(lambda: guest.waiting == 3)
        async with served(run.directory, environ=run.environ) as visit:
            path = await steered(visit, run)
            one = run.ids()[0]
            asks = await visit.get(f"{path}/do/message?rollout={one}")
            empty = await visit.post(f"{path}/do/message?rollout={one}", key_in(asks.text) | {"text": "  "})
            assert empty.status_code == 400 and "write something" in empty.text
            told = await visit.post(
                f"{path}/do/message?rollout={one}", key_in(asks.text) | {"text": "look <b>left</b>"}
            )
            assert told.status_code in (200, 409) and "<b>left" not in told.text
            guest.gate.set()
            stop = await visit.get(f"{path}/do/interrupt?rollout={one}")
            assert "What it did so far is verified and scored." in stop.text
            await visit.post(f"{path}/do/interrupt?rollout={one}", key_in(stop.text))
            await until(lambda: one not in run.live.attempts)
            for other in run.ids():
                await visit.post(f"{path}/do/interrupt?rollout={other}", key_in(stop.text))


async def test_pages_hear_of_what_is_new_until_the_run_has_ended(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest, limit=3) as run:
        await until(lambda: guest.waiting == 3)
        async with served(run.directory, environ=run.environ) as visit:
            path = await steered(visit, run)
            heard: list[str] = []
            with anyio.fail_after(60):
                async with visit.client.stream("GET", f"{visit.base}{path}/events", headers=visit.key) as stream:
                    assert stream.headers["content-type"].startswith("text/event-stream")
                    async for line in stream.aiter_lines():
                        if line.startswith("retry"):
                            guest.gate.set()
                        elif line.startswith("event"):
                            heard.append(line)
            assert heard[-1] == "event: ended" and "event: changed" in heard
            part = (await visit.get(f"{path}/live")).text
            assert 'id="figures"' in part and "mean reward" in words(part)
            assert (await visit.get(f"{path}/do/pause")).text.count("nothing of it plays") == 1
