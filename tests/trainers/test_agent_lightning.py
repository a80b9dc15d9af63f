"""agent-lightning: episodes over its gateway, rewards where there are some, and recorded turns as its events."""

import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from rollouthub.errors import ConfigError
from rollouthub.export import NotTrainable
from rollouthub.models.retry import Backoff
from rollouthub.trainers import agent_lightning as ours
from rollouthub.trainers.engines.gateway_calls import GatewayError, open_calls
from rollouthub.trainers.workers.one_shot import Unscored
from tests.export.made import forked, rollout, turn
from tests.trainers.upstream import Upstream, everything_below, playing, served, serving, sum_task

KEY = "a-key-of-the-server"
NOW = Backoff(base_seconds=0.001, cap_seconds=0.001)


class Gateway:
    """The documented routes of agent-lightning's server, over dictionaries."""

    def __init__(self) -> None:
        self.upstream, self.rollouts = Upstream(), dict[str, dict[str, Any]]()
        self.events: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.pauses: Counter[str] = Counter()
        """So many times each route says that it is paused."""
        self.is_gone = False

    @property
    def routes(self) -> list[web.RouteDef]:
        proxy = "/proxy/rollout/{rid}/attempt/{aid}/mode/{mode}/openai/v1/chat/completions"
        return [
            web.get("/api/rollouts", self.listed),
            web.patch("/api/rollouts/{rid}", self.patched),
            web.post("/api/rollouts/{rid}/attempt/{aid}/events", self.told),
            web.post(proxy, self.asked),
        ]

    def add(self, name: str, given: Any) -> None:
        status = {"state": "queuing"}
        self.rollouts[name] = {"rollout_id": name, "input": given, "is_train": True, "status": status}

    def _check(self, request: web.Request, route: str) -> None:
        assert request.headers["Authorization"] == f"Bearer {KEY}"
        if self.pauses[route]:
            self.pauses[route] -= 1
            raise web.HTTPTooManyRequests(headers={"Retry-After": "0"})

    async def listed(self, request: web.Request) -> web.Response:
        self._check(request, "list")
        wanted = request.query.getall("state_in")
        return web.json_response([each for each in self.rollouts.values() if each["status"]["state"] in wanted])

    async def patched(self, request: web.Request) -> web.Response:
        self._check(request, "patch")
        status, changes = self.rollouts[request.match_info["rid"]]["status"], (await request.json())["status"]
        if "state" in changes and status["state"] in ("succeeded", "failed", changes["state"]):
            raise web.HTTPConflict()
        status.update(changes)
        return web.json_response({})

    async def told(self, request: web.Request) -> web.Response:
        self._check(request, "events")
        self._record(request, await request.json())
        return web.json_response({})

    async def asked(self, request: web.Request) -> web.Response:
        self._check(request, "proxy")
        assert request.match_info["mode"] == "train"
        if self.is_gone:
            raise web.HTTPBadRequest(text="the policy is gone")
        answer = self.upstream.answer(await request.json())
        self._record(request, {"event_type": "model_request", "data": {"response": answer}})
        return web.json_response(answer)

    def _record(self, request: web.Request, event: dict[str, Any]) -> None:
        self.events.setdefault((request.match_info["rid"], request.match_info["aid"]), []).append(event)


async def test_queued_rollouts_are_played_over_their_own_urls_and_told_of_or_failed(tmp_path: Path) -> None:
    gateway = Gateway()
    gateway.add("r0", {"rollouthub": sum_task(0)})
    gateway.add("r1", {"rollouthub": sum_task(1)})
    gateway.add("r2", {"question": "which?"})
    gateway.add("r3", {"rollouthub": sum_task(10_000_000)})
    gateway.pauses.update({"patch": 1, "proxy": 1})
    async with serving(gateway.routes) as url, ours.open_runner(url, KEY, playing(tmp_path)) as runner:
        queued = await runner.queued()
        assert [each.rollout_id for each in queued] == ["r0", "r1", "r3"]
        rollouts = [await runner.play(each) for each in queued]
        assert await runner.play(queued[0]) is None  # somebody else's, or over
        gateway.is_gone = True
        gateway.add("r4", {"rollouthub": sum_task(0)})
        [last] = await runner.queued()
        broken = await runner.play(last)
    assert broken is not None
    assert broken.reward is None
    status = gateway.rollouts["r4"]["status"]
    assert "model_failed" in status["error_message"]
    assert status["last_attempt_id"] != "0"  # whatever it said, its trainer reads no event of it
    assert not any(name == "r4" for name, _ in gateway.events)
    states = {name: each["status"]["state"] for name, each in gateway.rollouts.items()}
    assert states == {"r0": "succeeded", "r1": "succeeded", "r2": "failed", "r3": "failed", "r4": "failed"}
    assert "no column 'rollouthub'" in gateway.rollouts["r2"]["status"]["error_message"]
    for name, played in zip(("r0", "r1"), rollouts, strict=False):
        assert played is not None
        *calls, reward = gateway.events[name, "0"]
        assert reward == {"event_type": "reward", "data": {"value": played.reward, "source": "agent"}}
        asked = [call["data"]["response"] for call in calls]
        assert [each["prompt_token_ids"] for each in asked] == [
            list(each.prompt_token_ids or ()) for each in played.turns
        ]
    assert KEY.encode() not in everything_below(tmp_path)


async def test_a_gateway_that_refuses_is_not_asked_again() -> None:
    asked: list[str] = []

    async def closed(request: web.Request) -> web.Response:
        asked.append(request.path)
        raise web.HTTPForbidden(text="no such key")

    async with (
        serving([web.get("/api/rollouts", closed)]) as url,
        open_calls(url, patience_seconds=5, backoff=NOW) as calls,
    ):
        with pytest.raises(GatewayError, match="HTTP 403: no such key") as caught:
            await calls.call("GET", "api/rollouts", key="secret-of-mine")
    assert len(asked) == 1
    assert "secret-of-mine" not in str(caught.value)


async def test_a_gateway_that_stays_away_is_given_up() -> None:
    async with serving([]) as url:
        pass
    async with open_calls(url, patience_seconds=0.05, backoff=NOW) as calls:
        with pytest.raises(GatewayError, match="failed, tried"):
            await calls.call("GET", "api/rollouts", key=None)


async def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="is no URL"):
        async with open_calls("gateway:8080", patience_seconds=1):
            pass


def test_recorded_turns_are_the_events_that_a_gateway_would_have_written() -> None:
    first, second, reward = ours.replay_events(rollout(reward=0.5))
    response = first["data"]["response"]
    assert response["prompt_token_ids"] == [1, 2, 3]
    assert response["choices"][0]["token_ids"] == [4, 5]
    assert [each["logprob"] for each in response["choices"][0]["logprobs"]["content"]] == [-0.125, -0.25]
    assert second["data"]["server"]["version"] == second["data"]["model_version"] == 3
    assert reward == {"event_type": "reward", "data": {"value": 0.5, "source": "agent"}}


def test_what_must_not_be_learnt_from_or_said_so_is_not_replayed() -> None:
    alike = rollout(turn(0, [1], [2]), turn(1, [1], [3], parent=None))
    masked = rollout(turn(0, [1], [2, 3], output_mask=[1, 0]))
    for record, name in ((rollout(reward=None), "unscored"), (alike, "forked"), (masked, "filtered")):
        with pytest.raises(NotTrainable, match=rf"\({name}\)"):
            ours.replay_events(record)


# --- the real server --------------------------------------------------------------------------------------------


@pytest.fixture
def server(checkout: Callable[..., Path], system: Callable[[str], Any]) -> Any:
    """agent-lightning's own server, from a checkout: PyPI has an older one of another shape."""
    folder = checkout("agent-lightning")
    for name in [name for name in sys.modules if name.partition(".")[0] == "agentlightning"]:
        del sys.modules[name]
    for needed in ("structlog", "omegaconf", "uvicorn", "httpx"):
        system(needed)
    app = system("agentlightning.server.app")
    assert str(folder) in app.__file__
    return app


class Door:
    """Stands in front of the real server, and hears whom it turns away (429)."""

    def __init__(self, app: Any) -> None:
        self._app, self.turned_away = app, anyio.Semaphore(0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def heard(message: dict[str, Any]) -> None:
            await send(message)
            if message.get("status") == 429:
                self.turned_away.release()

        await self._app(scope, receive, heard)


@asynccontextmanager
async def real_gateway(app: Any, upstream: str, system: Callable[[str], Any]) -> AsyncGenerator[tuple[str, Door]]:
    """The real server on loopback, with one model behind it: its address, and the door it is behind."""
    proxy = {"model_name": "tiny", "train": {"temperature": 1.0}, "val": {"temperature": 0.0}}
    door = Door(app.create_app({"key": KEY, "default_proxy": proxy}))
    async with served(system("uvicorn"), door) as url:
        async with open_calls(url, patience_seconds=5) as calls:
            model = [{"model": "tiny", "endpoint": upstream, "version": 7}]
            await calls.call("POST", "api/models", model, key=KEY)
        yield url, door


@pytest.mark.live
async def test_the_real_gateway_keeps_what_was_sampled_and_the_reward(
    server: Any, system: Callable[[str], Any], tmp_path: Path
) -> None:
    schemas = system("agentlightning.schemas")
    upstream = Upstream()
    async with (
        serving([web.post("/v1/chat/completions", upstream.handle)]) as policy,
        real_gateway(server, f"{policy}/v1", system) as (url, door),
        open_calls(url, patience_seconds=5) as calls,
        ours.open_runner(url, KEY, playing(tmp_path)) as runner,
    ):
        body = [{"rollout_id": f"r{place}", "input": {"data_id": "0", "rollouthub": sum_task(0)}} for place in range(2)]
        await calls.call("POST", "api/rollouts", body, key=KEY)
        await calls.call("POST", "proxy/pause", {"retry_after_seconds": 0}, key=KEY)
        queued = await runner.queued()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner.play, queued[0])
            with anyio.fail_after(5):
                for _ in range(2):  # a paused gateway is waited for: it is asked, and asked again
                    await door.turned_away.acquire()
            assert not upstream.speaker.said
            await calls.call("POST", "proxy/resume", {}, key=KEY)
        await runner.play(queued[1])
        rewards: list[float] = []
        said = {tuple(each.prompt_ids): each for each in upstream.speaker.said}
        for name in ("r0", "r1"):
            detail = await calls.call("GET", f"api/rollouts/{name}", key=KEY)
            assert schemas.Rollout.model_validate(detail["rollout"]).status.state == "succeeded"
            events = [
                schemas.Event.model_validate(each)
                for each in await calls.call("GET", f"api/rollouts/{name}/events", key=KEY, query="format=triplet")
            ]
            *asked, reward = events
            rewards.append(schemas.RewardData.model_validate(reward.data).value)
            assert len(asked) == 2
            for event in asked:
                one = said[tuple(event.data["prompt_token_ids"])]
                assert event.data["server"]["version"] == 7
                assert len(event.data["response_token_ids"]) == len(event.data["response_log_probs"])
                assert one.prompt_ids == event.data["prompt_token_ids"]
        assert sorted(rewards) == [0.0, 1.0]


@pytest.mark.live
async def test_replayed_turns_reach_the_real_trainers_rows_exactly(server: Any, system: Callable[[str], Any]) -> None:
    schemas = system("agentlightning.schemas")
    async with (
        real_gateway(server, "http://127.0.0.1:9/v1", system) as (url, _),
        open_calls(url, patience_seconds=5) as calls,
    ):
        name = await ours.post_replay(calls, KEY, forked(reward=0.25), name="kept")
        events = await calls.call("GET", f"api/rollouts/{name}/events", key=KEY, query="format=triplet")
        state = (await calls.call("GET", f"api/rollouts/{name}", key=KEY))["rollout"]["status"]["state"]
    *asked, reward = [schemas.Event.model_validate(event).data for event in events]
    assert [(each["prompt_token_ids"], each["response_token_ids"]) for each in asked] == [
        ([1, 2, 3], [4, 5]),
        ([1, 2, 3, 4, 5, 6], [7, 8]),
        ([1, 2, 9], [7]),
    ]
    assert [each["response_log_probs"] for each in asked] == [[-0.125, -0.25], [-0.125, -0.25], [-0.125]]
    assert reward["value"] == 0.25
    assert state == "succeeded"
    for event in ours.replay_events(forked()):
        if event["event_type"] == "model_request":
            schemas.ModelRequestData.model_validate(event["data"])


@pytest.mark.live
async def test_the_agent_of_the_real_controller_tells_a_reward_or_fails_without_one(
    server: Any, system: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream()
    file = tmp_path / "play.toml"
    settings = ('environments = ["arithmetic"]', "track = []", "[set]", "terms = 2", "digits = 2", "[training]")
    file.write_text("\n".join((*settings, f'directory = "{tmp_path}"')))

    async def events(calls: Any, name: str) -> list[Any]:
        return await calls.call("GET", f"api/rollouts/{name}/events", key=KEY)

    async def gone(request: web.Request) -> web.Response:
        if upstream.speaker.said and upstream.failures:
            raise web.HTTPBadRequest(text="the policy is gone")
        return await upstream.handle(request)

    async with (
        serving([web.post("/v1/chat/completions", gone)]) as policy,
        real_gateway(server, f"{policy}/v1", system) as (url, _),
        open_calls(url, patience_seconds=5) as calls,
    ):
        body = [{"rollout_id": name, "input": {"rollouthub": sum_task(0)}} for name in ("good", "bad")]
        await calls.call("POST", "api/rollouts", body, key=KEY)
        for name in ("good", "bad"):
            monkeypatch.setenv("AGL_KEY", KEY)
            monkeypatch.setenv("AGL_OPENAI_BASE_URL", f"{url}/proxy/rollout/{name}/attempt/0/mode/train/openai/v1")
            monkeypatch.setenv("AGL_EVENT_URL", f"{url}/api/rollouts/{name}/attempt/0/events")
            monkeypatch.setenv("ROLLOUTHUB_TASK", sum_task(0))
            monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(file))
            if name == "good":
                await ours.HubAgent().run()
                assert (await events(calls, name))[-1]["event_type"] == "reward"
            else:
                upstream.failures = 1
                with pytest.raises(Unscored, match="model_failed"):
                    await ours.HubAgent().run()
                assert await events(calls, name) == []
                detail = await calls.call("GET", f"api/rollouts/{name}", key=KEY)
                assert "model_failed" in detail["rollout"]["status"]["error_message"]
