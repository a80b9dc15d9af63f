"""AReaL: trajectories from records and from episodes over its engine, and episodes through its proxy."""

import pickle
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from aiohttp import web

from rollouthub import Public
from rollouthub.errors import ConfigError, ContextLimitError, ModelError, SupplyError
from rollouthub.export import Credit, TaskReference, training_rows
from rollouthub.generation import ModelRequest
from rollouthub.messages import user
from rollouthub.trainers import areal as ours
from rollouthub.trainers.areal.proxy import OVERFLOW
from rollouthub.trainers.engines.gateway_calls import GatewayError, open_calls
from rollouthub.trainers.engines.proxied_model import ProxiedModel
from rollouthub.trainers.workers.one_shot import Unscored
from tests.export.made import forked, rollout, turn
from tests.models.tokens.chatml import ChatMl
from tests.trainers.speaker import Speaker
from tests.trainers.upstream import Upstream, everything_below, playing, served, serving, sum_task

ADMIN = "the-admin-key"


def test_a_row_has_every_token_with_its_mask_logprob_version_and_turn() -> None:
    made = rollout(
        turn(0, [1, 2, 3], [4, 5], policy_versions=[3, 4]),
        turn(1, [1, 2, 3, 4, 5, 6], [7], policy_version=4),
        reward=0.5,
    )
    [row] = training_rows(made)
    assert ours.row_columns(row) == {
        "input_ids": [1, 2, 3, 4, 5, 6, 7],
        "loss_mask": [0, 0, 0, 1, 1, 0, 1],
        "logprobs": [0.0, 0.0, 0.0, -0.125, -0.25, 0.0, -0.125],
        "versions": [-1, -1, -1, 3, 4, -1, 4],
        "turn_ids": [-1, -1, -1, 0, 0, -1, 1],
        "attention_mask": [True] * 7,
        "rewards": 0.5,
    }


def test_turns_are_numbered_within_their_row_and_a_discount_takes_its_share() -> None:
    first, second = training_rows(forked(reward=1.0), Credit(discount=0.5))
    assert ours.row_columns(first)["rewards"] == 0.25
    assert ours.row_columns(second)["rewards"] == 1.0
    assert ours.row_columns(second)["turn_ids"] == [-1, -1, -1, 0]


def test_rows_of_a_data_set_name_their_tasks() -> None:
    [row] = ours.task_rows([Public(id="1", prompt="What is 1 + 1?")], "arithmetic", "train")
    assert row == {
        "messages": [{"role": "user", "content": "What is 1 + 1?"}],
        "rollouthub": str(TaskReference("arithmetic", "train", "1")),
    }


class Proxy:
    """The documented routes of AReaL's gateway, over dictionaries."""

    def __init__(self) -> None:
        self.upstream = Upstream()
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


# --- the real classes -------------------------------------------------------------------------------------------


class Tokenizer(ChatMl):
    """What AReaL asks of a tokenizer of transformers, besides."""

    def __init__(self) -> None:
        super().__init__()
        self.eos_token_id = self.pad_token_id = self.end

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> Any:
        is_wanted = options.pop("tokenize")
        messages = [{**message, "content": message.get("content") or ""} for message in conversation]
        text = super().apply_chat_template(messages, tokenize=False, **options)
        return {"input_ids": self.real.encode(text, add_special_tokens=False).ids} if is_wanted else text

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool = False) -> str:
        return super().decode(token_ids, skip_special_tokens=skip_special_tokens)


class Engine:
    """AReaL's engine, of which workflows see one method; the weights change in the middle of each answer."""

    def __init__(self, system: Callable[[str], Any]) -> None:
        self.speaker, self._api = Speaker(), system("areal.api")
        self.asked: list[Any] = []

    async def agenerate(self, request: Any) -> Any:
        self.asked.append(request)
        said = self.speaker.speak(request.input_ids)
        middle = len(said.token_ids) // 2
        return self._api.ModelResponse(
            input_tokens=list(request.input_ids),
            output_tokens=said.token_ids,
            output_logprobs=said.logprobs,
            output_versions=[5] * middle + [6] * (len(said.token_ids) - middle),
            stop_reason="stop",
            tokenizer=request.tokenizer,
        )


def check_rows(speaker: Speaker, columns: Mapping[str, Any]) -> None:
    """Each trajectory of a batch has the ids, masks and log-probabilities of what the policy said, and versions."""
    known = speaker.rows()
    for place, attention in enumerate(columns["attention_mask"].tolist()):
        length = sum(attention)
        ids = columns["input_ids"][place][:length].tolist()
        mask, logprobs = known[tuple(ids)]
        assert columns["loss_mask"][place][:length].tolist() == mask
        assert columns["logprobs"][place][:length].tolist() == logprobs
        versions = columns["versions"][place][:length].tolist()
        assert [version > 0 for version in versions] == [bool(each) for each in mask]
        assert set(versions) == {-1, 5, 6}


@pytest.mark.live
async def test_areals_executor_takes_what_its_engine_said(system: Callable[[str], Any], tmp_path: Path) -> None:
    executor, remote = system("areal.infra.workflow_executor"), system("areal.infra.remote_inf_engine")
    api, imports = system("areal.api"), system("areal.utils.dynamic_import")
    made = imports.import_from_string("rollouthub.trainers.areal.HubWorkflow")
    assert issubclass(made, api.RolloutWorkflow)
    workflow, engine = made(Tokenizer(), playing(tmp_path)), Engine(system)
    context = system("areal.infra.workflow_context")
    context.set(context.WorkflowContext(task_id=3))
    logger = system("areal.utils.logging").getLogger("test")
    grouped = remote.GroupedRolloutWorkflow(workflow, 4, logger)
    try:
        group = await grouped.arun_episode(engine, {"rollouthub": sum_task(0)})
        alone = await workflow.arun_episode(engine, {"rollouthub": sum_task(1)})
    finally:
        await workflow.close()
    assert executor.check_trajectory_format(alone, batch_size=1)
    assert executor.check_trajectory_format(group, batch_size=4, expected_keys=set(alone))
    check_rows(engine.speaker, group)
    check_rows(engine.speaker, alone)
    assert sorted(group["rewards"].tolist()) == [0.0, 0.0, 1.0, 1.0]
    kinds = {name: str(each.dtype).removeprefix("torch.") for name, each in alone.items()}
    assert kinds == dict.fromkeys(("input_ids", "loss_mask", "versions", "turn_ids"), "int32") | dict.fromkeys(
        ("logprobs", "rewards"), "float32"
    ) | {"attention_mask": "bool"}
    assert len({request.rid for request in engine.asked}) == 5
    assert all(request.gconfig.n_samples == 1 for request in engine.asked)


@pytest.mark.live
async def test_areal_rejects_an_episode_that_broke(system: Callable[[str], Any], tmp_path: Path) -> None:
    system("areal.api")

    class Gone:
        async def agenerate(self, request: Any) -> Any:
            raise RuntimeError("the engine is gone")

    workflow = ours.HubWorkflow(Tokenizer(), playing(tmp_path, retries={"infrastructure": 0}))
    try:
        assert await workflow.arun_episode(Gone(), {"rollouthub": sum_task(0)}) is None
    finally:
        await workflow.close()


@pytest.mark.live
def test_rows_of_a_forked_rollout_are_padded_as_areal_does_it(system: Callable[[str], Any]) -> None:
    data = system("areal.utils.data")
    joined = ours.trajectory(training_rows(forked()))
    assert joined["input_ids"].tolist() == [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 9, 7, 0, 0, 0, 0]]
    assert joined["attention_mask"].sum(dim=1).tolist() == [8, 4]
    back = data.split_and_unpad_tensor(joined, 2)
    assert [each["input_ids"].tolist() for each in back] == [[[1, 2, 3, 4, 5, 6, 7, 8]], [[1, 2, 9, 7]]]


class RealProxy:
    """AReaL's own worker and gateway on loopback, over an engine; its parser of tool calls, SGLang's, is lent to it."""

    def __init__(self, system: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = system("areal.experimental.openai.proxy.proxy_rollout_server")
        self.gateway = system("areal.experimental.openai.proxy.proxy_gateway")
        self.workflow = system("areal.experimental.openai.proxy.workflow")
        client, types = system("areal.experimental.openai.client"), system("openai.types.chat")
        self.uvicorn, self.engine = system("uvicorn"), Engine(system)

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
