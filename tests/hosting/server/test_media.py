"""Media of served episodes: the hub reads them by digest, nobody else, and none but an episode's own."""

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from rollouthub import BadRow, Submission, TaskError, picture
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.client import remote_media
from rollouthub.hosting.client.server_connection import ServerFault
from rollouthub.hosting.control_wire import OpenedEpisode
from rollouthub.hosting.open_host import open_served
from rollouthub.hosting.role_endpoints import serve_roles
from rollouthub.limits import Deadlines
from rollouthub.messages import Message, assistant, digest_of, media_of
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import EnvironmentHost
from rollouthub.score import KeptArtifact, SubmittedTurn
from tests.engine.picture_world import TASK, USER, PictureWorld, png
from tests.hosting.client.stub import stub_server
from tests.hosting.server.wire_client import TOKEN, WireClient, served

OTHER = png(1) + b"1"
"""What the second task shows."""


async def opened(wire: WireClient, task_id: str = "test/0") -> OpenedEpisode:
    answer = await wire.control("POST", "/v1/episodes", {"task": {"id": task_id, "split": "test"}})
    assert answer.status == 200, answer
    return OpenedEpisode.model_validate_json(answer.body)


async def test_the_hub_reads_an_episodes_own_media_and_no_others() -> None:
    async with served(PictureWorld, count=2) as wire:
        first, second = await opened(wire), await opened(wire, "test/1")
        path = f"/v1/episodes/{first.id}/media/"
        answer = await wire.control("GET", path + digest_of(TASK))
        assert (answer.status, answer.body) == (200, TASK)
        assert (await wire.control("GET", f"/v1/episodes/{second.id}/media/{digest_of(OTHER)}")).body == OTHER
        assert (await wire.control("GET", path + digest_of(OTHER))).status == 404
        assert (await wire.control("GET", path + digest_of(USER))).status == 404
        said = await wire.control("POST", f"/v1/episodes/{first.id}/reply", {"seat": "agent", "messages": []})
        (shown,) = media_of([Message.model_validate(said.json["messages"][0])])
        assert (shown.digest, shown.read()) == (digest_of(USER), None)
        assert (await wire.control("GET", path + digest_of(USER))).body == USER
        assert (await wire.control("POST", path + digest_of(TASK))).status == 405
        await wire.control("DELETE", f"/v1/episodes/{first.id}")
        assert (await wire.control("GET", path + digest_of(TASK))).status == 409


@pytest.mark.parametrize(
    "name", ["..%2f..%2fetc%2fpasswd", "%2e%2e", "sha256:", "x" * 5000, digest_of(TASK)[:-1] + "%00"]
)
async def test_no_path_leads_out_of_the_episode(name: str) -> None:
    async with served(PictureWorld) as wire:
        episode = await opened(wire)
        answer = await wire.control("GET", f"/v1/episodes/{episode.id}/media/{name}")
        assert answer.status in (404, 414)
        assert TASK not in answer.body


async def test_an_agent_reads_media_by_no_token_and_on_no_plane() -> None:
    async with served(PictureWorld, count=2) as wire:
        first, second = await opened(wire), await opened(wire, "test/1")
        token = second.seats[0].token
        for episode, digest in ((first, digest_of(TASK)), (second, digest_of(OTHER))):
            path = f"/v1/episodes/{episode.id}/media/{digest}"
            assert (await wire.control("GET", path, token=token)).status == 401
            assert (await wire.control("GET", path, token=None)).status == 401
            for key in (token, TOKEN):
                asked = await wire.send("GET", wire.agent_url + path, headers={"Authorization": f"Bearer {key}"})
                assert asked.status == 404


async def test_an_mcp_client_is_shown_the_picture_and_told_of_it() -> None:
    async with served(PictureWorld) as wire:
        (seat,) = (await opened(wire)).seats
        session = await wire.begin(seat.url)
        assert "shows 1 of pictures" in session.greeting["instructions"]
        words, shown, more = (await session.call("get_task")).json["result"]["content"]
        assert (words["text"], more["text"]) == ("Look:", "Which shade?")
        assert (shown["type"], shown["mimeType"]) == ("image", "image/png")
        assert base64.b64decode(shown["data"]) == TASK
        _, again = (await session.call("reply", text="1")).json["result"]["content"]
        assert base64.b64decode(again["data"]) == USER


# --- servers that misbehave -----------------------------------------------------------------------------------------


def showing(digest: str, url: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """An episode whose one message shows this."""
    part = {"type": "media", "digest": digest, "mime_type": "image/png"}
    messages = [{"role": "user", "content": [part]}]
    seat = {"name": "agent", "token": "t", "tools": ["look"], "url": f"{url}/e/t/mcp", "messages": messages}

    async def handle(request: web.Request) -> web.StreamResponse:
        told = {"id": "e1", "seats": [seat], "seed": 0, "tools_digest": "sha256:tools", "expires_at": 0}
        return web.json_response(told)

    return handle


async def shown_by_stub(digest: str, gives: bytes | None = None) -> bytes | None:
    """What the hub's client holds of media that a server names, and gives like this."""

    async def media(request: web.Request) -> web.StreamResponse:
        return web.Response(body=gives)

    async with stub_server() as server:
        server.misbehave = {"open": showing(digest, server.url), **({} if gives is None else {"media": media})}
        host = server.host()
        card = await anext(aiter(host.tasks("test", 0)))
        assert not isinstance(card, BadRow)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            (part,) = media_of(episode.seats["agent"].messages)
            return part.read()


async def test_a_server_without_the_route_is_said_to_lack_it() -> None:
    with pytest.raises(TaskError, match=r"does not give its bytes: it has nothing at GET .*may lack") as caught:
        await shown_by_stub(digest_of(TASK))
    assert not caught.value.retryable


async def test_bytes_that_are_others_are_the_servers_fault() -> None:
    assert await shown_by_stub(digest_of(TASK), TASK) == TASK
    with pytest.raises(ServerFault, match="other bytes"):
        await shown_by_stub(digest_of(TASK), USER)


@pytest.mark.parametrize("name", ["../../v1/tasks", "sha256:" + "A" * 64, "sha256:0?x=1", ""])
async def test_a_name_that_is_no_digest_is_never_asked_for(name: str) -> None:
    with pytest.raises(ServerFault, match="another name than their digest"):
        await shown_by_stub(name, TASK)


async def test_larger_media_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_media, "MOST_MEDIA_BYTES", 10)
    with pytest.raises(ServerFault, match="more than"):
        await shown_by_stub(digest_of(TASK), TASK)


SEES = """
from rollouthub import Environment, EnvironmentConfig, Message, ModelRequest, Public, Score, Secret, Task, picture
from rollouthub.messages import media_of

JUDGED = b"\\x89PNG\\r\\n\\x1a\\njudged"

class Sees(Environment[EnvironmentConfig]):
    reads_turns = True
    scores_transcripts = True

    @classmethod
    def roles(cls, config):
        return ("judge",)

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Look."), Secret())

    async def verify(self, submission):
        await self.models["judge"].generate(ModelRequest([Message(role="user", content=(picture(JUDGED),))]))
        said = [*submission.transcript, *(message for turn in submission.turns for message in turn.messages)]
        parts = [part.read() for part in media_of(said)]
        return Score(reward=float(len(parts)), metadata={
            "seen": all(parts), "file": (submission.artifact_bytes("/a/file") or b"").decode(),
        })
"""
JUDGED = b"\x89PNG\r\n\x1a\njudged"


@asynccontextmanager
async def host_of(file: Path, *, is_served: bool) -> AsyncGenerator[EnvironmentHost]:
    judge = MockModel(ModelConfig(name="mock/say?text=yes"))
    async with AsyncExitStack() as stack:
        if is_served:
            roles = await stack.enter_async_context(serve_roles({"judge": judge}))
            yield await stack.enter_async_context(open_served(str(file), {}, roles))
        else:
            yield InProcessHost("sees", find_environment(str(file)).environment, models={"judge": judge})


@pytest.mark.parametrize("in_episode", [False, True], ids=["alone", "in an episode"])
@pytest.mark.parametrize("is_served", [False, True], ids=["here", "served"])
async def test_what_was_played_elsewhere_is_scored_with_its_bytes(
    tmp_path: Path, is_served: bool, in_episode: bool
) -> None:
    (tmp_path / "sees.py").write_text(SEES)
    shown = Message(role="user", content=(picture(TASK),))
    turn = SubmittedTurn(index=0, seat="agent", messages=(shown,), response=assistant("dark"))
    kept = KeptArtifact.of("/a/file", b"42")
    submission = Submission(
        transcript=(shown, assistant("dark")), turns=(turn,), artifacts=(kept.ref.holding(kept.data),)
    )
    async with host_of(tmp_path / "sees.py", is_served=is_served) as host:
        card = await host.find_task("test", "one", 0)
        if in_episode:
            async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
                score = await episode.verify(submission)
        else:
            score = await host.score(card, submission, seed=0, deadlines=Deadlines())
    assert (score.reward, score.metadata) == (2.0, {"seen": True, "file": "42"})
    (call,) = score.judge_calls
    assert [part.read() for part in media_of(call.messages)] == [JUDGED]
