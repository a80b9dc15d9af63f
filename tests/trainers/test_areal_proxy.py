"""AReaL's proxy: episodes that it records, through its documented routes and through its own servers."""

import pickle
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from aiohttp import web

from rollouthub.errors import ConfigError, ContextLimitError, ModelError, SupplyError
from rollouthub.export import TaskReference
from rollouthub.generation import ModelRequest
from rollouthub.messages import user
from rollouthub.trainers import areal as ours
from rollouthub.trainers.areal.proxy import OVERFLOW
from rollouthub.trainers.engines.gateway_calls import GatewayError, open_calls
from rollouthub.trainers.engines.proxied_model import ProxiedModel
from rollouthub.trainers.workers.one_shot import Unscored, call_rewards, reward_of
from tests.export.made import rollout, turn
from tests.trainers.rewarded_episodes import STEPS, WORLDS, Handing
from tests.trainers.test_areal import Engine, Tokenizer
from tests.trainers.upstream import Upstream, everything_below, playing, served, serving, sum_task

ADMIN = "the-admin-key"


class Proxy:
    """The documented routes of AReaL's gateway, over dictionaries."""

    def __init__(self) -> None:
        self.upstream: Any = Upstream()
        self.sessions: dict[str, list[Any]] = {}
        """Session key → what became of it."""
        self.full: Counter[str] = Counter(session=1)
        self.is_broken = False

    @property
    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/rl/start_session", self.start),
            web.post("/chat/completions", self.chat),
            web.post("/rl/set_reward", self.reward),
            web.post("/rl/end_session", self.end),
        ]

    async def start(self, request: web.Request) -> web.Response:
        if request.headers["Authorization"] != f"Bearer {ADMIN}":
            raise web.HTTPUnauthorized(text="Unauthorized")
        if self.full["session"]:
            self.full["session"] -= 1
            raise web.HTTPTooManyRequests(headers={"Retry-After": "0"})
        key = f"session-key-{len(self.sessions)}"
        self.sessions[key] = []
        return web.json_response({"session_id": f"{(await request.json())['task_id']}-0", "api_key": key})

    def _session(self, request: web.Request) -> list[Any]:
        return self.sessions[request.headers["Authorization"].removeprefix("Bearer ")]

    async def chat(self, request: web.Request) -> web.Response:
        session, body = self._session(request), await request.json()
        if self.is_broken and len(body["messages"]) > 1:
            raise web.HTTPBadRequest(text="the engine is gone")
        answer = self.upstream.answer(body)
        del answer["prompt_token_ids"], answer["choices"][0]["token_ids"], answer["choices"][0]["logprobs"]
        session.append("chat")
        return web.json_response(answer)

    async def reward(self, request: web.Request) -> web.Response:
        self._session(request).append(await request.json())
        return web.json_response({"message": "success"})

    async def end(self, request: web.Request) -> web.Response:
        self._session(request).append("end")
        return web.json_response({"message": "success", "interaction_count": 2})


async def test_a_session_is_rewarded_and_ended_but_one_that_broke_is_neither(tmp_path: Path) -> None:
    proxy, task = Proxy(), TaskReference.parse(sum_task(0))
    async with serving(proxy.routes) as url, ours.online_player(url, ADMIN, playing(tmp_path)) as player:
        first, second = await player.play(task), await player.play(task)
        proxy.is_broken = True
        third = await player.play(task)
    assert [first.reward, second.reward, third.reward] == [0.0, 1.0, None]
    assert list(proxy.sessions.values()) == [
        *(["chat", "chat", {"interaction_id": None, "reward": reward}, "end"] for reward in (0.0, 1.0)),
        ["chat"],  # once: another attempt would be recorded behind the first
    ]
    assert not first.trainable  # its ids are AReaL's; the hub's record says so
    written = everything_below(tmp_path)
    assert ADMIN.encode() not in written
    assert b"session-key-" not in written


class Giver:
    """An upstream whose policy gives something, and then is done; each answer has an id."""

    def __init__(self) -> None:
        self.answers = 0

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self.answers += 1
        message: dict[str, Any] = {"role": "assistant", "content": "done"}
        if len(body["messages"]) == 1:
            function = {"name": "give", "arguments": '{"thing": "apple"}'}
            call = {"id": "call-1", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": "stop",
            "message": message,
            "token_ids": [],
            "logprobs": None,
        }
        return {"id": f"chatcmpl-{self.answers}", "choices": [choice], "prompt_token_ids": []}


async def test_the_reward_of_each_turn_is_posted_with_the_id_of_its_answer(tmp_path: Path) -> None:
    proxy, upstream = Proxy(), Giver()
    proxy.upstream = upstream
    settings = playing(tmp_path, environments=[f"{WORLDS}:Stepwise"], set={})
    task = TaskReference("rewarded", "test", "only")
    async with serving(proxy.routes) as url, ours.online_player(url, ADMIN, settings) as player:
        await player.play(task)
    rewards = [{"interaction_id": f"chatcmpl-{number + 1}", "reward": STEPS[number]} for number in range(2)]
    assert list(proxy.sessions.values()) == [["chat", "chat", *rewards, "end"]]
    agent = ours.HubAgent(settings)
    proxy.sessions["k"] = []
    async with serving(proxy.routes) as url:
        try:
            found = await agent.run({"rollouthub": str(task)}, base_url=url, api_key="k")
            assert found == {"chatcmpl-3": STEPS[0], "chatcmpl-4": STEPS[1]}
            upstream.answer = lambda body: {**Giver.answer(upstream, body), "id": None}
            with pytest.raises(Unscored, match="turn 0 has a reward, and no answer with an id"):
                await agent.run({"rollouthub": str(task)}, base_url=url, api_key="k")
        finally:
            await agent.close()


async def test_a_wrong_admin_key_is_told_without_showing_it() -> None:
    nobody: Any = None
    async with serving(Proxy().routes) as url, open_calls(url, patience_seconds=5) as calls:
        with pytest.raises(GatewayError, match="HTTP 401") as caught:
            await ours.OnlinePlayer(nobody, calls, "not-that-one").play(TaskReference.parse(sum_task(0)))
    assert "not-that-one" not in str(caught.value)


async def test_a_conversation_that_is_too_long_for_areal_is_a_stop_and_no_fault() -> None:
    async def full(request: web.Request) -> web.Response:
        raise web.HTTPInternalServerError(text="len of prompt tokens 99 exceeds max_total_tokens 64")

    model = ProxiedModel("hosted_vllm/areal", max_tries=1, overflow=OVERFLOW)
    async with serving([web.post("/chat/completions", full)]) as url, model.lane("r", url, "k"):
        with pytest.raises(ContextLimitError):
            await model.generate(ModelRequest([user("?")], session="r"))
    with pytest.raises(ModelError, match="no session"):
        await model.generate(ModelRequest([user("?")], session="r"))


async def test_the_black_box_gives_the_reward_or_raises(tmp_path: Path) -> None:
    proxy, agent = Proxy(), ours.HubAgent(playing(tmp_path))
    proxy.sessions["k"] = []
    async with serving(proxy.routes) as url:
        try:
            assert await agent.run({"rollouthub": sum_task(0)}, base_url=url, api_key="k") == 0.0
            assert await agent.run({"rollouthub": sum_task(0)}, base_url=url, api_key="k", http_client=None) == 1.0
            proxy.is_broken = True
            with pytest.raises(Unscored, match="model_failed"):
                await agent.run({"rollouthub": sum_task(0)}, base_url=url, api_key="k")
        finally:
            await agent.close()
    assert proxy.sessions["k"] == ["chat"] * 5  # the reward is AReaL's to set
    assert isinstance(pickle.loads(pickle.dumps(agent)), ours.HubAgent)


def test_a_black_box_without_a_proxy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    async def run() -> None:
        await ours.HubAgent(playing(tmp_path)).run({"rollouthub": sum_task(0)})

    with pytest.raises(ConfigError, match="base_url"):
        anyio.run(run)


def test_turns_of_several_seats_are_refused_because_areal_adds_them_up() -> None:
    made = rollout(
        turn(0, [1], [2], agent="giver", reward=0.25), turn(1, [3], [4], agent="taker", parent=None), reward=1.0
    )
    assert reward_of(made) == 1.0
    with pytest.raises(Unscored, match="the gateway adds up over the seats giver, taker"):
        call_rewards(made, [])


# --- AReaL's own servers ---


class RealProxy:
    """AReaL's own worker and gateway on loopback, over an engine; its parser of tool calls, SGLang's, is lent to it."""

    def __init__(
        self, system: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, engine: Engine | None = None
    ) -> None:
        self.server = system("areal.experimental.openai.proxy.proxy_rollout_server")
        self.gateway = system("areal.experimental.openai.proxy.proxy_gateway")
        self.workflow = system("areal.experimental.openai.proxy.workflow")
        client, types = system("areal.experimental.openai.client"), system("openai.types.chat")
        self.uvicorn, self.engine = system("uvicorn"), engine or Engine(system)

        def parse(text: str, *rest: Any, **more: Any) -> Any:
            from rollouthub.models.tokens.tool_text import hermes

            words, requests = hermes(text, ())
            calls = [
                types.ChatCompletionMessageToolCall(
                    id=f"call-{len(self.engine.asked)}",
                    type="function",
                    function={"name": each.name, "arguments": each.arguments},
                )
                for each in requests
            ]
            return (calls, words, "tool_calls") if calls else (None, text, "stop")

        monkeypatch.setattr(client, "process_tool_calls", parse)
        openai = client.ArealOpenAI(
            engine=self.engine,
            tokenizer=Tokenizer(),
            chat_template_type="concat",
            api_key="none",
            base_url="http://none",
        )
        monkeypatch.setattr(self.server, "_openai_client", openai)
        monkeypatch.setattr(self.server, "_engine", self.engine)
        monkeypatch.setattr(self.server, "_admin_api_key", ADMIN)


@pytest.mark.live
async def test_the_real_gateway_exports_what_was_sampled_with_the_reward_that_was_set(
    system: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, found = RealProxy(system, monkeypatch), list[Any]()
    async with served(real.uvicorn, real.server.app) as worker:
        gateway = real.gateway.create_proxy_gateway_app([worker], admin_api_key=ADMIN)
        waits = list[anyio.Event]()

        async def noticing(scope: Any, receive: Any, send: Any) -> None:
            if scope.get("path") == "/internal/wait_for_session":
                waits[-1].set()
            await gateway(scope, receive, send)

        async with served(real.uvicorn, noticing) as url, ours.online_player(url, ADMIN, playing(tmp_path)) as player:
            trainer = real.workflow.OpenAIProxyWorkflow(
                "online", proxy_addr=worker, admin_api_key=ADMIN, proxy_gateway_addr=url
            )

            async def wait() -> None:
                found.append(await trainer.arun_episode(None, {}))

            for _ in range(2):
                waits.append(anyio.Event())
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(wait)
                    # Room is granted before the wait is known: who comes between has a session that nobody waits for.
                    await waits[-1].wait()
                    await player.play(TaskReference.parse(sum_task(0)))
    said = {(*each.prompt_ids, *each.token_ids): each for each in real.engine.speaker.said}
    for interactions, reward in zip(found, (0.0, 1.0), strict=True):
        assert len(interactions) == 2
        for interaction in interactions.values():
            columns = {name: each[0].tolist() for name, each in interaction.to_tensor_dict().items()}
            one = said[tuple(columns["input_ids"])]
            prompt = len(one.prompt_ids)
            assert columns["loss_mask"] == [0] * prompt + [1] * len(one.token_ids)
            assert columns["logprobs"] == [0.0] * prompt + one.logprobs
            assert columns["rewards"] == reward


class GivingEngine(Engine):
    """AReaL's engine of a policy that gives something, and then is done."""

    def __init__(self, system: Callable[[str], Any]) -> None:
        super().__init__(system)
        self.handing = Handing()

    async def agenerate(self, request: Any) -> Any:
        self.asked.append(request)
        ids = self.handing.answer(request.input_ids, "")
        return self._api.ModelResponse(
            input_tokens=list(request.input_ids),
            output_tokens=ids,
            output_logprobs=[-0.25] * len(ids),
            output_versions=[5] * len(ids),
            stop_reason="stop",
            tokenizer=request.tokenizer,
        )


@pytest.mark.live
@pytest.mark.parametrize("discount", [1.0, 0.5])
async def test_areals_inline_mode_makes_returns_of_the_rewards_of_turns(
    system: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, discount: float
) -> None:
    agent = ours.HubAgent(playing(tmp_path, environments=[f"{WORLDS}:Stepwise"], set={}))
    real = RealProxy(system, monkeypatch, GivingEngine(system))
    async with served(real.uvicorn, real.server.app) as worker:
        trainer = real.workflow.OpenAIProxyWorkflow(
            "inline", agent, proxy_addr=worker, admin_api_key=ADMIN, discount=discount, export_style="individual"
        )
        try:
            task = TaskReference("rewarded", "test", "only")
            interactions = await trainer.arun_episode(None, {"rollouthub": str(task)})
        finally:
            await agent.close()
    found = [each.to_tensor_dict()["rewards"].item() for each in interactions.values()]
    assert found == [STEPS[0] + discount * STEPS[1], STEPS[1]]


@pytest.mark.live
async def test_areals_inline_mode_runs_the_black_box_and_rejects_what_broke(
    system: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, agent = RealProxy(system, monkeypatch), ours.HubAgent(playing(tmp_path))
    async with served(real.uvicorn, real.server.app) as worker:
        trainer = real.workflow.OpenAIProxyWorkflow(
            "inline", agent, proxy_addr=worker, admin_api_key=ADMIN, export_style="individual"
        )
        try:
            interactions = await trainer.arun_episode(None, {"rollouthub": sum_task(0)})
            monkeypatch.setattr(real.server, "_openai_client", SimpleNamespace(chat=None))
            with pytest.raises(SupplyError):
                await trainer.arun_episode(None, {"rollouthub": sum_task(0)})
        finally:
            await agent.close()
    assert len(interactions) == 2
    assert all(each.reward == 0.0 for each in interactions.values())
