"""Pictures on their way to each trainer: from a task and a tool, through its engine, to the tensors it learns from.

The processor is Qwen2.5-VL's own. Every time, the engine is shown the very bytes, and the trainer's classes have what
the processor makes of them. veRL's are in `test_verl_pictures_live.py`, verl-agent's and EasyR1's in
`test_verl_kin_live.py`, TRL's in `test_trl_pictures_live.py`.
"""

import base64
import hashlib
import json
import sys
import typing
from argparse import Namespace
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typing_extensions
from aiohttp import web
from anyio import to_thread

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.trainers import areal, skyrl, slime
from rollouthub.trainers.nemo_rl import gym_result
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures
from rollouthub.trainers.pictures.shown_pictures import no_pictures
from rollouthub.trainers.skyrl.skyrl_engine import SkyrlEngine
from rollouthub.trainers.slime import rollout as slime_rollout
from rollouthub.trainers.stream import SampleRequest
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS
from rollouthub.trainers.workers.worker_settings import settings_of
from tests.trainers.absent import Absent, absent
from tests.trainers.gallery import FRAME, WIDTHS, drawn
from tests.trainers.seeing import GALLERY, Seer, same_pictures, seeing_processor
from tests.trainers.upstream import serving
from tests.trainers.verl_set_up import System

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]  # of what their modules import
WIDTH = WIDTHS[1]
SHOWN = [FRAME, drawn(WIDTH)]
"""What the episode shows, in its order."""
TASK = TaskReference("gallery", "test", str(WIDTH))


@pytest.fixture
def processor(system: System) -> Any:
    return seeing_processor(system)


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    """A run of the gallery whose tasks show a picture."""
    return {
        "environments": [GALLERY],
        "set": {"framed": True},
        "training": {"directory": str(folder)},
        "track": [],
    } | more


def check_episode(seer: Seer, processor: Any, folder: Path, ids: list[int], shown: Any) -> None:
    """What was shown is what is on record, and what the trainer has."""
    assert seer.seen == [SHOWN[:1], SHOWN]
    kept = {path.read_bytes() for path in folder.rglob("media/*")}
    assert kept == set(SHOWN)
    assert ids[-len(seer.said[tuple(ids)]) :] == seer.said[tuple(ids)]
    same_pictures(processor, ids, shown, SHOWN)


def decoded(url: str) -> bytes:
    head, _, data = url.partition(",")
    assert head == "data:image/png;base64"
    return base64.b64decode(data)


# --- SkyRL ------------------------------------------------------------------------------------------------------------


class SkyrlClient:
    """SkyRL's client, with the two methods that a generator of pictures calls."""

    model_name, weight_version = "seeing", 1

    def __init__(self, seer: Seer, processor: Any) -> None:
        self.seer, self.processor = seer, processor
        self.rendered: dict[str, list[bytes]] = {}

    async def render_chat_completion(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """As vLLM renders it: placeholders at the places of *this* conversation."""
        [message] = payload["json"]["messages"]
        raws = [decoded(part["image_url"]["url"]) for part in message["content"]]
        names = [hashlib.sha256(raw).hexdigest() for raw in raws]
        self.rendered["/".join(names)] = raws
        tensors = PromptPictures(self.processor).tensors(raws)
        lengths = [int(grid.prod()) // 4 for grid in tensors["image_grid_thw"]]
        places = [{"offset": 7, "length": length} for length in lengths]
        features = {"mm_hashes": {"image": names}, "mm_placeholders": {"image": places}, "kwargs_data": None}
        return {"token_ids": [], "features": features}

    async def generate(self, asked: Mapping[str, Any], model: str | None = None) -> dict[str, Any]:
        [features] = asked["mm_features"]
        [prompt] = asked["prompt_token_ids"]
        for place in features["mm_placeholders"]["image"]:
            marks = prompt[place["offset"] : place["offset"] + place["length"]]
            assert set(marks) == {self.processor.image_token_id}
        ids = self.seer.speak(prompt, self.rendered["/".join(features["mm_hashes"]["image"])])
        return {"response_ids": [ids], "stop_reasons": ["stop"], "response_logprobs": [[-0.5] * len(ids)]}


async def test_skyrls_trainer_gets_the_pictures_of_a_row(
    system: System, processor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.version_info < (3, 12):
        monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
    base, trainer = system("skyrl.train.generators.base"), system("skyrl.train.trainer")
    seer = Seer(shown=1)
    client = SkyrlClient(seer, processor)
    generator = skyrl.HubGenerator(client, processor.tokenizer, settings(tmp_path), processor=processor)
    asked: dict[str, Any] = {
        "prompts": [[]],
        "env_extras": [{"rollouthub": str(TASK)}],
        "trajectory_ids": [base.TrajectoryID("a", 0)],
    }
    try:
        output = await generator.generate(asked)
    finally:
        await generator.close()
    assert set(output) <= set(base.GeneratorOutput.__annotations__)
    assert output["rewards"] == [1.0]
    algorithm = SimpleNamespace(
        max_seq_len=None, off_policy_correction=SimpleNamespace(tis_ratio_type=None, sequence_mask_metric=None)
    )
    output["rewards"] = [[0.0] * (len(output["response_ids"][0]) - 1) + [1.0]]
    keeper = SimpleNamespace(
        tokenizer=processor.tokenizer,
        cfg=SimpleNamespace(
            trainer=SimpleNamespace(
                algorithm=algorithm,
                train_batch_size=1,
                policy_mini_batch_size=1,
                critic=SimpleNamespace(model=SimpleNamespace(path=None)),
            ),
            generator=SimpleNamespace(n_samples_per_prompt=1, step_wise_trajectories=False),
        ),
        all_metrics={},
        dispatch=SimpleNamespace(get_lcm_dp_size=lambda: 1),
    )
    batch = trainer.RayPPOTrainer.convert_to_training_input(keeper, output, ["a"])
    shown = {name: batch[name][0] for name in ("pixel_values", "image_grid_thw")}
    check_episode(seer, processor, tmp_path, batch["sequences"][0].tolist(), shown)


async def test_skyrls_policy_of_words_is_not_shown_pictures() -> None:
    engine: Any = SkyrlEngine(None)
    with pytest.raises(Exception, match="give HubGenerator the policy's processor"):
        await engine.sample(
            [1], SimpleNamespace(extra={}, model_dump=partial(given, dict[str, Any]())), session="s", media={"a": b""}
        )


# --- AReaL ------------------------------------------------------------------------------------------------------------


async def test_areals_engine_and_trajectory_get_the_pictures(system: System, processor: Any, tmp_path: Path) -> None:
    api, executor = system("areal.api"), system("areal.infra.workflow_executor")
    engines, context = (
        system("areal.engine.fsdp_engine"),
        system("areal.infra.workflow_context"),
    )
    seer = Seer(shown=1)

    class Engine:
        async def agenerate(self, request: Any) -> Any:
            assert request.processor is processor
            ids = seer.speak(request.input_ids, [base64.b64decode(each) for each in request.image_data])
            return api.ModelResponse(
                input_tokens=list(request.input_ids),
                output_tokens=ids,
                output_logprobs=[-0.5] * len(ids),
                output_versions=[1] * len(ids),
                stop_reason="stop",
                tokenizer=request.tokenizer,
            )

    context.set(context.WorkflowContext(task_id=3))
    workflow = areal.HubWorkflow(processor.tokenizer, settings(tmp_path), processor=processor)
    try:
        found = await workflow.arun_episode(Engine(), {"rollouthub": str(TASK)})
    finally:
        await workflow.close()
    assert executor.check_trajectory_format(found, batch_size=1)
    assert found["rewards"].tolist() == [1.0]
    ids = found["input_ids"][0].tolist()
    assert found["mm_token_type_ids"][0].tolist() == [int(token == processor.image_token_id) for token in ids]
    batch: dict[str, Any] = {}
    engines._prepare_multimodal_forward_inputs(dict(found), batch)
    check_episode(seer, processor, tmp_path, ids, batch)


async def test_areals_client_of_vllm_would_lose_the_pictures(system: System, processor: Any, tmp_path: Path) -> None:
    remote = system("areal.engine.vllm_remote")
    workflow = areal.HubWorkflow(processor.tokenizer, settings(tmp_path), processor=processor)
    try:
        assert await workflow.arun_episode(object.__new__(remote.RemotevLLMEngine), {"rollouthub": str(TASK)}) is None
    finally:
        await workflow.close()


def given(what: Any, *_: object, **__: object) -> Any:
    return what


# --- slime ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def slime_arguments(
    checkout: Callable[..., Path], system: System, processor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Callable[[str], Any]]:
    checkout("slime")
    utils = system("slime.utils.processing_utils")
    for name in ("", ".srt", ".srt.constants", ".srt.server_args", ".srt.utils"):
        monkeypatch.setitem(sys.modules, f"sglang{name}", Absent(f"sglang{name}"))
    processor.tokenizer.save_pretrained(tmp_path / "policy")
    monkeypatch.setattr(utils, "load_processor", partial(given, processor))  # from disk it wants torchvision
    path = tmp_path / "slime.json"
    path.with_suffix(".toml").write_text(
        f'environments = ["{GALLERY}"]\nset = {{ framed = true }}\n[training]\ndirectory = "{tmp_path}/runs"\n'
    )
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(path.with_suffix(".toml")))
    slime_rollout.checkpoint_pictures.cache_clear()

    def made(url: str) -> Any:
        host, _, port = url.removeprefix("http://").partition(":")
        return Namespace(
            hf_checkpoint=str(tmp_path / "policy"),
            sglang_router_ip=host,
            sglang_router_port=int(port),
            reward_key=None,
            rewards_normalization=False,
            grpo_std_normalization=False,
            advantage_estimator="grpo",
        )

    yield made
    slime_rollout.checkpoint_pictures.cache_clear()
    THREAD_WORKERS.close()


async def test_slimes_samples_and_train_data_have_the_pictures(
    slime_arguments: Callable[[str], Any], system: System, processor: Any, tmp_path: Path
) -> None:
    seer = Seer(shown=1)

    async def generate(request: web.Request) -> web.Response:
        body = await request.json()
        ids = seer.speak(body["input_ids"], [decoded(each) for each in body["image_data"]])
        meta = {"finish_reason": {"type": "stop"}, "output_token_logprobs": [[-0.5, token, None] for token in ids]}
        return web.json_response({"text": "", "meta_info": meta})

    sample = system("slime.utils.types").Sample(
        index=0, group_index=0, metadata={"environment": "gallery", "split": "test", "task_id": str(WIDTH)}
    )
    async with serving([web.post("/generate", generate)]) as url:
        args = slime_arguments(url)
        filled: Any = await slime.generate(args, sample, {"temperature": 1.0, "max_new_tokens": 64})
        await to_thread.run_sync(THREAD_WORKERS.close)
    assert filled.reward == 1.0
    manager = import_module("slime.ray.rollout").RolloutManager.__ray_metadata__.modified_class
    keeper = Namespace(
        args=args,
        custom_convert_samples_to_train_data_func=None,
        _post_process_rewards=partial(slime.post_process_rewards, args),
    )
    data = manager._convert_samples_to_train_data(keeper, [filled])
    [shown] = data["multimodal_train_inputs"]
    check_episode(seer, processor, tmp_path / "runs", data["tokens"][0], shown)


# --- NeMo-RL ----------------------------------------------------------------------------------------------------------


class SeeingEngine:
    """An engine of tokens that sees."""

    def __init__(self, seer: Seer) -> None:
        self.seer = seer

    async def sample(self, prompt_ids: Any, sampling: Any, *, session: str, media: Mapping[str, bytes]) -> Any:
        from rollouthub.models.tokens import Sampled

        ids = self.seer.speak(prompt_ids, list(media.values()))
        return Sampled(ids, [-0.5] * len(ids), "stop", 1)


@asynccontextmanager
async def seen_episode(processor: Any, folder: Path, seer: Seer) -> AsyncGenerator[tuple[Any, Path]]:
    """A recorded episode, and the directory of its run."""
    found = settings_of(settings(folder), "test")
    model = found.token_model("seeing", SeeingEngine(seer), processor.tokenizer, None, PromptPictures(processor))
    async with found.worker("seeing", model) as worker:
        yield await worker.play(SampleRequest(str(WIDTH), "gallery", "test", group="g")), worker.directory


async def test_nemo_rls_messages_have_the_pictures_of_their_turns(
    checkout: Callable[..., Path], system: System, processor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rollouthub.store.media import read_media
    from tests.trainers.test_nemo_rl_live import Tokenizer

    checkout("nemo-rl")
    monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
    with absent("mlflow", "swanlab", "wandb"):
        try:
            module: Any = import_module("nemo_rl.environments.nemo_gym")
        except ImportError as error:
            pytest.skip(f"nemo_rl.environments.nemo_gym cannot be imported ({error})")
    seer = Seer(shown=1)
    async with seen_episode(processor, tmp_path, seer) as (played, directory):
        result = gym_result(played, media=partial(read_media, directory / "media"))
    json.dumps(result)
    process = module.NemoGym.__ray_metadata__.modified_class._postprocess_nemo_gym_to_nemo_rl_result
    actor = SimpleNamespace(cfg={}, _processor=processor)
    learnt = process(actor, {"responses_create_params": {}}, result, Tokenizer())
    log = learnt["message_log"]
    assert [message["role"] for message in log] == ["user", "assistant"] * 2
    torch = system("torch")
    ids = torch.cat([message["token_ids"] for message in log]).tolist()
    shown = {
        name: torch.cat([message[name].as_tensor() for message in log if name in message])
        for name in ("pixel_values", "image_grid_thw")
    }
    assert ["pixel_values" in message for message in log] == [True, False, True, False]
    check_episode(seer, processor, tmp_path, ids, shown)


async def test_ids_without_their_pictures_are_refused(system: System, processor: Any, tmp_path: Path) -> None:
    from rollouthub.trainers.trl.rollouts import columns

    async with seen_episode(processor, tmp_path, Seer(shown=1)) as (played, _):
        with pytest.raises(ConfigError, match="shows pictures"):
            no_pictures([played])
        with pytest.raises(ConfigError, match="HubSpec"):
            columns([played], "longest", 0)
