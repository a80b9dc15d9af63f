"""Tinker: its SDK's own clients over HTTP, against a server of its wire, from what is sampled to what is learnt."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import rollouthub
from rollouthub import ModelError
from rollouthub.errors import ConfigError
from rollouthub.export import batch_rows, group_rows
from rollouthub.generation import Sampling
from rollouthub.messages import Media, Message
from rollouthub.models.tokens import HfChatFormat, TokenModel
from rollouthub.trainers.tinker import TinkerEngine, datums_of
from tests import local_server
from tests.export.made import forked, rollout, turn
from tests.models.tokens.chatml import ChatMl
from tests.trainers.tinker_shape import TinkerShape
from tests.trainers.verl_set_up import System

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]


@asynccontextmanager
async def training(system: System, shape: TinkerShape) -> AsyncGenerator[Any]:
    """A real `TrainingClient` of a server of this shape."""
    tinker = system("tinker")
    async with local_server.serving(shape.app()) as url:

        def opened() -> tuple[Any, Any]:
            service = tinker.ServiceClient(base_url=url, api_key="tml-none")
            return service, service.create_lora_training_client("tiny", rank=4).result()

        service, client = await anyio.to_thread.run_sync(opened)
        try:
            yield client
        finally:
            await anyio.to_thread.run_sync(lambda: service.close("success").result())


def as_lists(datum: Any) -> dict[str, list[float]]:
    return {name: tensor.tolist() for name, tensor in datum.loss_fn_inputs.items()}


def test_a_datum_predicts_each_next_token_and_learns_from_what_was_sampled(system: System) -> None:
    system("tinker")
    good, bad = (rollout(turn(0, [1, 2, 3], [4, 5]), reward=reward) for reward in (1.0, 0.0))
    first, second = datums_of(group_rows([good, bad], "mean"))
    assert first.model_input.to_ints() == [1, 2, 3, 4]
    assert as_lists(first) == {
        "target_tokens": [2, 3, 4, 5],
        "logprobs": [0.0, 0.0, -0.125, -0.25],
        "advantages": [0.0, 0.0, 0.5, 0.5],
    }
    assert as_lists(second)["advantages"] == [0.0, 0.0, -0.5, -0.5]
    [masked, _] = datums_of(group_rows([good, bad], "mean"), mask=True)
    assert as_lists(masked)["mask"] == [0.0, 0.0, 1.0, 1.0]


def test_a_forked_rollout_is_several_datums_and_what_shows_pictures_is_refused(system: System) -> None:
    system("tinker")
    assert [each.model_input.to_ints() for each in datums_of(group_rows([forked(), rollout(reward=0.0)], "mean"))] == [
        [1, 2, 3, 4, 5, 6, 7],
        [1, 2, 9],
        [1, 2, 3, 4, 5, 6],
    ]
    shown = Message(role="user", content=(Media(digest=f"sha256:{0:064x}", mime_type="image/png"),))
    with pytest.raises(ConfigError, match="shows pictures"):
        datums_of(group_rows([rollout(turn(0, [1], [2], messages=(shown,)))], "mean"))


async def test_a_stream_is_played_by_a_sampling_client_and_learnt_by_a_training_client(
    system: System, tmp_path: Path
) -> None:
    """What was sampled before and after new weights arrives at `forward_backward` to the token."""
    shape = TinkerShape()
    async with training(system, shape) as client:
        tinker = system("tinker")
        engine = TinkerEngine(await client.save_weights_and_get_sampling_client())
        policy = TokenModel("tinker/tiny", engine, HfChatFormat(ChatMl()))
        asked = rollouthub.stream_rollouts(
            environments=("arithmetic",),
            set={"terms": 2, "digits": 2},
            model=policy,
            limit=4,
            repeats=2,
            batch=2,
            max_staleness=0,
            sampling={"temperature": 0.7, "max_tokens": 64},
            directory=tmp_path / "run",
        )

        async def new_weights() -> None:
            engine.client = await client.save_weights_and_get_sampling_client()

        versions: list[int] = []
        sent = 0
        async with asked as supply:
            while groups := await supply.batch(2):
                made = batch_rows(groups, "mean", policy_version=supply.policy_version)
                assert not made.refused
                versions += [token for row, _ in made.rows for token in row.response_versions if token >= 0]
                data = datums_of(made.rows)
                sent += len(data)
                future = client.forward_backward(data, "importance_sampling")
                assert (await future).metrics == {"loss:sum": 0.5}
                await client.optim_step(tinker.AdamParams(learning_rate=1e-5))
                await supply.publish_weights(update=new_weights)
    assert set(versions) == {0, 1}
    assert sent == 8
    samplers = [body["sampling_session_id"] for body in shape.asked]
    assert set(samplers) == {"sampler-1", "sampler-2"}
    assert {body["sampling_params"]["temperature"] for body in shape.asked} == {0.7}
    known = shape.speaker.rows()
    for learnt in shape.learnt:
        assert learnt.loss == "importance_sampling"
        whole = (learnt.tokens[0], *map(int, learnt.inputs["target_tokens"]))
        assert learnt.tokens == list(whole[:-1])
        mask, logprobs = known.pop(whole)
        assert learnt.inputs["logprobs"] == logprobs[1:]
        worth = learnt.inputs["advantages"]
        assert [each != 0 for each in worth] == [each == 1 and any(worth) for each in mask[1:]]
    assert not known


async def test_logprobs_that_tinker_leaves_out_are_a_refusal_by_name(system: System, tmp_path: Path) -> None:
    shape = TinkerShape(logprobs=False)
    async with training(system, shape) as client:
        engine = TinkerEngine(await client.save_weights_and_get_sampling_client())
        asked = rollouthub.stream_rollouts(
            environments=("arithmetic",),
            model=TokenModel("tinker/tiny", engine, HfChatFormat(ChatMl())),
            limit=1,
            directory=tmp_path / "run",
        )
        async with asked as supply:
            [refused] = batch_rows(await supply.batch(1), "mean").refused
    assert refused.refusal.value == "no_logprobs"


async def test_what_tinker_refuses_or_does_not_know_is_an_error_that_says_so(system: System) -> None:
    shape = TinkerShape(status=404)
    async with training(system, shape) as client:
        engine = TinkerEngine(await client.save_weights_and_get_sampling_client())
        with pytest.raises(ModelError, match="no such sampler") as gone:
            await engine.sample([1], Sampling(), session="a", media={})
        assert not gone.value.retryable
        with pytest.raises(ModelError, match=r"no sampling settings min_p; it has max_tokens, .*top_k"):
            await engine.sample([1], Sampling(extra={"min_p": 0.1}), session="a", media={})
        with pytest.raises(ModelError, match="no pictures"):
            await engine.sample([1], Sampling(), session="a", media={"sha256:1": b""})
