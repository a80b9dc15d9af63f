"""Looking in: what is told, and what is not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub.live.control import live_client
from rollouthub.live.control.broadcast import MOST_WAITING, ClientEvents
from rollouthub.live.control.live_client import LiveClient, choose_run, find_running
from rollouthub.live.control.live_protocol import Event
from rollouthub.live.control.socket_folder import socket_folders
from rollouthub.rollout import Rollout

from .conftest import Guest, Watch, until
from .hall import ANSWER, SECRET_WORD

LOUD = "\x1b[2J\x1b]52;c;cm0gLXJm\x07loud\x07\u202e words\x9b31m"


async def test_a_list_tells_the_runs_facts_and_what_is_in_flight(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=5, concurrency=2) as run, run.knock() as client:
        await until(lambda: guest.waiting == 2)
        listing = await client.list()
        assert listing.run.directory == str(run.directory)
        assert (listing.run.status, listing.run.planned, listing.run.done) == ("running", 5, 0)
        assert (listing.run.concurrency, listing.run.in_flight, listing.run.agent) == (2, 2, "guest")
        assert listing.run.means is not None
        assert listing.run.means["mean_reward"] is None
        assert [view.rollout_id for view in listing.rollouts] == run.ids()
        assert {(view.state, view.turn, view.task_id[:5]) for view in listing.rollouts} == {("tool", 1, "rude/")}
        short = await client.list(limit=1)
        assert (len(short.rollouts), short.left_out) == (1, 1)


async def test_means_are_the_stores_own_those_of_before_a_resume_included(watch: Watch) -> None:
    async with watch(Guest(is_open=True), limit=3) as run:
        await run.over.wait()
    guest = Guest()
    async with watch(guest, limit=5, resume=True) as run, run.knock() as client:
        await until(lambda: guest.waiting == 2)
        listing = await client.list()
    assert (listing.run.done, listing.run.planned) == (3, 5)
    assert listing.run.means is not None
    assert (listing.run.means["mean_reward"], listing.run.means["coverage"]) == (1.0, 0.6)


async def gather(client: LiveClient, into: list[Event]) -> None:
    into += [event async for event in client.events()]


async def test_events_tell_each_step_of_a_rollout_and_the_end(watch: Watch) -> None:
    guest, events = Guest(), list[Event]()
    async with watch(guest, limit=2, concurrency=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        first, second = run.ids()[0], ""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gather, client, events)
            await until(lambda: run.live.watchers)
            guest.gate.set()
    second = next(event.rollout_id for event in events if event.kind == "started")
    assert second != first
    told = [event for event in events if getattr(event, "rollout_id", second) == second]
    steps = [(event.kind, getattr(event, "state", None)) for event in told]
    assert steps == [
        ("started", None),
        ("turn", None),
        ("state", "tool"),
        ("tool", None),
        ("turn", None),
        ("state", "verify"),
        ("state", "close"),
        ("finished", None),
        ("run_ended", None),
    ]
    turn, tool, finished = told[1], told[3], told[7]
    assert turn.kind == "turn" and turn.asked == ("look",)
    assert tool.kind == "tool" and (tool.name, tool.outcome) == ("look", "ok")
    assert finished.kind == "finished" and (finished.outcome, finished.reward) == ("scored", 1.0)
    missed = [event.kind for event in events if getattr(event, "rollout_id", None) == first]
    assert missed[:2] == ["turn", "state"], "of what was in flight, only what is new is told"


async def test_nothing_of_what_was_said_is_told_unless_it_is_asked_for(watch: Watch) -> None:
    guest = Guest(says=f"{LOUD} {SECRET_WORD}")
    heard = ""
    async with watch(guest, limit=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        (name,) = run.ids()
        heard += (await client.list()).model_dump_json() + (await client.show(name)).model_dump_json()
        events = list[Event]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gather, client, events)
            await until(lambda: run.live.watchers)
            guest.gate.set()
    heard += "".join(event.model_dump_json() for event in events)
    assert len(events) > 3
    for word in (SECRET_WORD, ANSWER, "loud", "a wall", "bye"):
        assert word not in heard


async def test_content_on_request_is_plain_and_holds_no_answer(watch: Watch) -> None:
    guest = Guest(says=LOUD)
    async with watch(guest, limit=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        shown = await client.show(run.ids()[0], content=True)
    (turn,) = shown.turns
    assert turn.messages is not None
    assert [said.role for said in turn.messages] == ["user", "assistant"]
    assert SECRET_WORD in turn.messages[0].text
    assert turn.messages[1].text == "loud words"
    assert turn.calls[0].result == "a wall and a door\n"
    text = shown.model_dump_json()
    assert ANSWER not in text
    assert not any(mark in json.dumps(json.loads(text)) for mark in ("\\u001b", "\\u009b", "\\u0007", "\\u202e"))


async def test_content_is_bounded_and_says_what_it_leaves_out(watch: Watch) -> None:
    guest = Guest(says="x" * 3_000_000)
    async with watch(guest, limit=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        shown = await client.show(run.ids()[0], content=True)
    assert shown.turns[0].messages is not None
    said = shown.turns[0].messages[1].text
    assert len(said) < 21_000
    assert "3000000 characters in all" in said


async def test_a_follower_that_reads_too_slowly_learns_how_many_it_missed() -> None:
    follower = ClientEvents()
    for number in range(MOST_WAITING + 234):
        follower.put(b"%d" % number)
    assert await follower.take(1) == [b"0"]
    follower.put(b"late")
    taken = await follower.take(2 * MOST_WAITING)
    assert taken[-2:] == [b'{"kind":"dropped","count":234}', b"late"]
    assert len(taken) == MOST_WAITING + 1


async def test_what_was_missed_is_said_also_when_nothing_more_happens() -> None:
    follower = ClientEvents()
    for number in range(MOST_WAITING + 5):
        follower.put(b"%d" % number)
    await follower.take(MOST_WAITING)
    with anyio.fail_after(5):
        assert await follower.take(9) == [b'{"kind":"dropped","count":5}']


async def test_the_last_event_comes_even_to_who_never_read() -> None:
    follower = ClientEvents()
    for number in range(MOST_WAITING + 5):
        follower.put(b"%d" % number)
    follower.put(b"end", is_last=True)
    taken = await follower.take(2 * MOST_WAITING)
    assert taken[-2:] == [b'{"kind":"dropped","count":5}', b"end"]
    assert await follower.take(9) == []


class Breaks:
    """A watcher with a bug."""

    def began(self, attempt: Any) -> None:
        raise RuntimeError("a bug")

    def moved(self, attempt: Any) -> None:
        raise RuntimeError("a bug")

    def ended(self, attempt: Any, rollout: Rollout) -> None:
        raise RuntimeError("a bug")


async def test_a_watcher_that_breaks_does_not_break_the_run(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest) as run:
        await until(lambda: guest.waiting == 3)
        run.live.watchers.append(Breaks())
        guest.gate.set()
        await run.over.wait()
        assert run.live.watchers == []
    assert [kept[0].reward for kept in run.records().values()] == [1.0] * 3


async def test_a_run_is_found_by_its_directory_its_id_and_its_beginning(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only(environ: Mapping[str, str]) -> tuple[Path, ...]:
        return socket_folders(environ)[:1]  # and not where other tests' hubs come and go

    monkeypatch.setattr(live_client, "socket_folders", only)
    guest = Guest()
    async with watch(guest) as run:
        (found,), problems = await find_running(run.environ)
        assert (problems, found.listing.run.directory) == ([], str(run.directory))
        run_id = found.listing.run.run_id
        monkeypatch.chdir(run.directory.parent)
        for name in (str(run.directory), "run", "./run", run_id, run_id[:-4]):
            assert choose_run([found], name) is found
        assert choose_run([found], None) is found
        with pytest.raises(Exception, match="did you mean"):
            choose_run([found], run_id[:-1] + "!")
        with pytest.raises(Exception, match="2 hubs play; name one"):
            choose_run([found, found], None)
