"""Environment servers that misbehave: each fault is the server's, typed, bounded, and the next episode is played."""

import base64

import anyio
import pytest
from aiohttp import web

from rollouthub import BadRow, Deadlines, Limits, Outcome, Sampling, Submission, ToolRequest, picture
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.errors import TaskError, VerifierError
from rollouthub.hosting.client import sent_media
from rollouthub.messages import Message, assistant, digest_of
from rollouthub.protocols import Seat, TaskCard
from rollouthub.rollout import AgentRef, EnvironmentRef, Rollout, Stop, TaskRef
from rollouthub.score import GroupMember, SampleGroup
from tests.engine.picture_world import TASK as PNG
from tests.hosting.client import stub as misbehaviour
from tests.hosting.client.stub import INFO, Handler, Stub, stub_server

PATIENT = Deadlines(setup=10, tool_call=10, verify=10, close=10)
SHORT_SECONDS = 0.2
BOUNDS = {"open": ("setup",), "tool": ("tool_call",), "verify": ("verify", "close"), "close": ("close",)}
"""Which deadlines bound a step; before it is verified, an episode is sealed in the time of its close."""
KINDS = {
    "garbage": (misbehaviour.garbage, "no JSON|what is no"),
    "another shape": (misbehaviour.another_shape, "what is no|no tool result"),
    "silence": (misbehaviour.silence, "did not answer"),
    "hang up": (misbehaviour.hang_up, "is gone"),
    "flood": (misbehaviour.flood, "more than 64 MiB|did not answer"),
    "error page": (misbehaviour.broken, "HTTP 500"),
}


class Looker:
    """Calls `look` once and stops."""

    name, version, config = "looker", "1", {}

    async def play(self, seat: Seat) -> Stop:
        request = ToolRequest(id="1", name="look", arguments="{}")
        seat.say(seat.messages, assistant("", request))
        (answer,) = await seat.call_tools([request])
        seat.say([*seat.messages, assistant("", request), answer], Message(role="assistant", content=answer.text))
        return Stop.FINISHED


async def first_task(server: Stub) -> TaskCard:
    async for card in server.host().tasks("test", 0):
        assert not isinstance(card, BadRow)
        return card
    raise AssertionError


async def play(server: Stub, deadlines: Deadlines = PATIENT) -> Rollout:
    host, agent = server.host(), Looker()
    card = await first_task(server)
    context = SampleContext(
        run_id="run",
        host=host,
        environment=EnvironmentRef(name="stub", version="1", digest="d"),
        agent=agent,
        agent_ref=AgentRef(name="looker", version="1"),
        model=None,
        sampling=Sampling(),
        limits=Limits(),
        deadlines=deadlines,
    )
    task = TaskRef(split="test", id=card.public.id, digest=card.digest)
    with anyio.fail_after(60):
        return await Attempt(Sample(context, card, task, "g", "g-0", 0, 0, None), 0, 0.0, lambda attempt: None).play()


def short_of(step: str, misbehave: Handler) -> Deadlines:
    """Patience with every step but one that is never answered: its deadline ends it."""
    is_endless = misbehave in (misbehaviour.silence, misbehaviour.flood)
    return PATIENT.model_copy(update=dict.fromkeys(BOUNDS[step], SHORT_SECONDS)) if is_endless else PATIENT


async def test_a_server_written_without_ours_is_played() -> None:
    async with stub_server() as server:
        rollout = await play(server)
        assert rollout.outcome is Outcome.SCORED
        assert rollout.reward == 1.0
        assert rollout.turns[0].tool_calls[0].result.content[0].model_dump()["text"] == "a wall"
        assert rollout.isolation == "process"
        assert server.seen == ["tasks", "open", "tool", "verify", "close"]
        card = await first_task(server)
        assert card.public.model_dump()["more"] == 1


@pytest.mark.parametrize("step", ["open", "tool", "verify"])
@pytest.mark.parametrize(("misbehave", "words"), KINDS.values(), ids=KINDS)
async def test_a_fault_of_the_server_is_the_environments_and_the_next_attempt_is_played(
    step: str, misbehave: Handler, words: str
) -> None:
    async with stub_server() as server:
        server.misbehave, server.times = {step: misbehave}, 1
        broken = await play(server, short_of(step, misbehave))
        assert broken.outcome is Outcome.ENVIRONMENT_FAILED
        assert broken.score is None
        fault = broken.faults[0]
        assert (fault.boundary, fault.retryable) == ("environment", True)
        with pytest.raises(TaskError, match=words):
            raise TaskError(fault.message)
        assert server.suspected >= 1
        assert (await play(server)).outcome is Outcome.SCORED


@pytest.mark.parametrize(("misbehave", "words"), KINDS.values(), ids=KINDS)
async def test_a_rude_close_does_not_change_the_verdict(misbehave: Handler, words: str) -> None:
    async with stub_server() as server:
        server.misbehave = {"close": misbehave}
        rollout = await play(server, short_of("close", misbehave))
        assert rollout.outcome is Outcome.SCORED
        assert rollout.faults[-1].phase == "close"


async def test_a_tool_list_that_grew_is_refused_with_both_digests() -> None:
    async def grown(request: web.Request) -> web.StreamResponse:
        seat = {"name": "agent", "token": "t", "url": f"{server.url}/e/t/mcp", "tools": ["look"], "messages": []}
        return web.json_response(
            {"id": "e1", "seats": [seat], "seed": 0, "tools_digest": "sha256:others", "expires_at": 0}
        )

    async with stub_server() as server:
        server.misbehave = {"open": grown}
        rollout = await play(server)
        assert rollout.outcome is Outcome.ENVIRONMENT_FAILED
        assert "sha256:others" in rollout.faults[0].message
        assert "sha256:tools" in rollout.faults[0].message
        assert not rollout.faults[0].retryable


async def test_a_verifier_fault_keeps_its_type_over_the_wire() -> None:
    async def failed(request: web.Request) -> web.StreamResponse:
        problem = {"type": "VerifierError", "message": "the judge is away", "retryable": False}
        return web.json_response({"error": problem}, status=500)

    async with stub_server() as server:
        server.misbehave = {"verify": failed}
        rollout = await play(server)
        assert rollout.outcome is Outcome.VERIFIER_FAILED
        assert (rollout.faults[0].message, rollout.faults[0].retryable) == ("the judge is away", False)
        assert server.suspected == 0


async def test_an_answer_as_server_sent_events_is_understood() -> None:
    async def events(request: web.Request) -> web.StreamResponse:
        body = (
            'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n'
            'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a door"}]}}\n\n'
        )
        return web.Response(text=body, content_type="text/event-stream")

    async with stub_server() as server:
        server.misbehave = {"tool": events}
        rollout = await play(server)
        assert rollout.turns[1].response.text == "a door"


async def test_a_batch_score_comes_back_and_a_dead_server_is_a_verifier_fault() -> None:
    async with stub_server() as server:
        host, card = server.host(), await first_task(server)
        score = await host.score(card, Submission(answer="x"), seed=0, deadlines=PATIENT)
        assert score.reward == 0.5
        server.misbehave = {"batch": misbehaviour.hang_up}
        with pytest.raises(VerifierError, match="is gone"):
            await host.score(card, Submission(answer="x"), seed=0, deadlines=PATIENT)


def pictured() -> SampleGroup:
    """A group of one, who was shown a picture."""
    message = Message(role="user", content=(picture(PNG),))
    return SampleGroup(members=(GroupMember(sample=0, submission=Submission(transcript=(message,))),))


@pytest.mark.parametrize(("offers", "given"), [({}, None), ({"takes_media": True}, [PNG])])
async def test_a_group_goes_with_its_media_to_servers_that_ask_for_them_alone(
    offers: dict[str, bool], given: list[bytes] | None
) -> None:
    async with stub_server() as server:
        server.info = {**INFO, "scores_groups": True, **offers}
        card = await first_task(server)
        (score,) = await server.host().score_group(card, pictured(), seed=0, deadlines=PATIENT)
        assert score.reward == 1.0
        (asked,) = server.groups
        media = asked.get("media")
        assert (None if media is None else [base64.b64decode(each["data"]) for each in media]) == given
        assert set(asked) - {"media"} == {"task", "seed", "group", "deadlines"}


@pytest.mark.parametrize("data", ["!", base64.b64encode(b"other").decode()])
async def test_media_of_a_verdict_that_are_not_what_they_say_are_a_verifier_fault(data: str) -> None:
    async with stub_server() as server:
        server.info = {**INFO, "scores_groups": True, "takes_media": True}
        card = await first_task(server)

        async def lie(request: web.Request) -> web.StreamResponse:
            return web.json_response({"scores": [{"reward": 1.0}], "media": [{"digest": digest_of(PNG), "data": data}]})

        server.misbehave = {"group": lie}
        with pytest.raises(VerifierError, match="gave media of a verdict wrongly"):
            await server.host().score_group(card, pictured(), seed=0, deadlines=PATIENT)


async def test_more_media_than_a_group_may_show_are_refused_before_they_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sent_media, "MOST_BYTES", 3)
    async with stub_server() as server:
        server.info = {**INFO, "scores_groups": True, "takes_media": True}
        with pytest.raises(VerifierError, match="--in-process"):
            await server.host().score_group(await first_task(server), pictured(), seed=0, deadlines=PATIENT)
        assert server.groups == []


async def test_arguments_too_large_for_the_server_are_the_models_to_mend() -> None:
    async def too_large(request: web.Request) -> web.StreamResponse:
        return web.Response(status=413)

    async with stub_server() as server:
        server.misbehave = {"tool": too_large}
        rollout = await play(server)
        assert rollout.outcome is Outcome.SCORED
        assert "larger than the environment takes" in rollout.turns[1].response.text
        assert server.suspected == 0


@pytest.mark.parametrize(
    ("seat", "words"),
    [
        ({"name": "someone"}, r"the seats \['someone'\]"),
        ({"name": "agent", "tools": ["look", "dig"]}, r"the tools \['dig'\]"),
        ({"name": "agent", "url": "http://[half"}, "the URL 'http://\\[half'"),
    ],
    ids=["seat", "tool", "url"],
)
async def test_an_episode_nobody_announced_is_refused_and_closed(seat: dict[str, object], words: str) -> None:
    async def other(request: web.Request) -> web.StreamResponse:
        seats = [{"token": "t", "url": f"{server.url}/e/t/mcp", "tools": ["look"], "messages": [], **seat}]
        body = {"id": "e1", "seats": seats, "seed": 0, "tools_digest": "sha256:tools", "expires_at": 0}
        return web.json_response(body)

    async with stub_server() as server:
        server.misbehave = {"open": other}
        rollout = await play(server)
        assert rollout.outcome is Outcome.ENVIRONMENT_FAILED
        with pytest.raises(TaskError, match=words):
            raise TaskError(rollout.faults[0].message)
        assert server.seen[-1] == "close"


@pytest.mark.parametrize("step", ["open", "verify"])
async def test_what_a_server_refuses_breaks_the_episode_and_not_the_run(step: str) -> None:
    async def refused(request: web.Request) -> web.StreamResponse:
        problem = {"type": "UnknownNameError", "message": "no task is named 't/1'"}
        return web.json_response({"error": {**problem, "type": "UsageError"}}, status=404)

    async with stub_server() as server:
        server.misbehave = {step: refused}
        rollout = await play(server)
        assert rollout.outcome is Outcome.ENVIRONMENT_FAILED
        assert "no task is named" in rollout.faults[0].message
        assert not rollout.faults[0].retryable


async def test_a_result_nested_without_end_is_the_servers_fault() -> None:
    async def deep(request: web.Request) -> web.StreamResponse:
        inner = '{"a":' * 40_000 + "1" + "}" * 40_000
        body = f'{{"jsonrpc":"2.0","id":1,"result":{{"content":[],"structuredContent":{inner}}}}}'
        return web.Response(text=body, content_type="application/json")

    async with stub_server() as server:
        server.misbehave = {"tool": deep}
        assert (await play(server)).outcome is Outcome.ENVIRONMENT_FAILED


async def test_a_close_cut_short_is_asked_for_again() -> None:
    arrived = anyio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with stub_server() as server:
        server.misbehave, server.times = {"close": slow}, 1
        host, card = server.host(), await first_task(server)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:

                async def leave() -> None:
                    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
                        await episode.close()

                tasks.start_soon(leave)
                await arrived.wait()
                tasks.cancel_scope.cancel()
        assert server.seen == ["tasks", "open", "close", "close"]


async def test_a_listing_that_never_ends_is_a_fault() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        return web.json_response({"cards": [], "next_cursor": "more"})

    async with stub_server() as server:
        server.misbehave = {"tasks": endless}
        with pytest.raises(TaskError, match="an empty page, and says that more follow"):
            await first_task(server)
