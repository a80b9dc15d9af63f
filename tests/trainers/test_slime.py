"""slime: its own classes filled from rollouts that were played over SGLang's `/generate`."""

import asyncio
import math
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aiohttp import web
from anyio.from_thread import start_blocking_portal

from rollouthub import Outcome, Stop
from rollouthub.rollout import Fault
from rollouthub.trainers import slime as ours
from rollouthub.trainers.slime.rollout import level
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS
from tests.export.made import forked, rollout, turn
from tests.models.tokens.chatml import CHATML, END, trained
from tests.trainers.absent import Absent
from tests.trainers.speaker import Speaker


class Status(Enum):
    """slime's words."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass
class Sample:
    """The fields of slime's sample that are read and written."""

    Status = Status
    group_index: int | None = 0
    index: int | None = 7
    rollout_id: int | None = None
    label: str | None = None
    tokens: list[int] = field(default_factory=list[int])
    response: str = ""
    response_length: int = 0
    reward: Any = None
    loss_mask: list[int] | None = None
    weight_versions: list[str] = field(default_factory=list[str])
    rollout_log_probs: list[float] | None = None
    multimodal_train_inputs: dict[str, Any] | None = None
    remove_sample: bool = False
    status: Status = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    non_generation_time: float = 0.0

    def get_reward_value(self, args: Any) -> float:
        return self.reward


def test_a_sample_has_the_ids_masks_logprobs_and_reward_of_its_rollout() -> None:
    [sample] = ours.samples_of(rollout(reward=0.75), Sample())
    assert sample.tokens == [1, 2, 3, 4, 5, 6, 7]
    assert sample.response_length == 4
    assert sample.loss_mask == [1, 1, 0, 1]
    assert sample.rollout_log_probs == [-0.125, -0.25, 0.0, -0.125]
    assert sample.reward == 0.75
    assert sample.status is Status.COMPLETED
    assert sample.weight_versions == ["3", "3"]
    assert not sample.remove_sample


def test_a_forked_rollout_is_samples_that_share_their_rollout() -> None:
    first, second = ours.samples_of(forked(), Sample())
    assert (first.tokens, second.tokens) == ([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 9, 7])
    assert first.rollout_id == second.rollout_id == 7
    assert second.loss_mask == [1]


def test_a_batch_in_which_one_rollout_forked_is_lists_throughout() -> None:
    plain, split = ours.samples_of(rollout(), Sample())[0], ours.samples_of(forked(), Sample())
    assert level([[plain], [plain]]) == [[plain], [plain]]
    assert level([[plain, plain], [plain, split]]) == [[[plain], [plain]], [[plain], split]]


def test_a_rollout_cut_by_a_limit_is_truncated() -> None:
    [sample] = ours.samples_of(rollout(stop=Stop.TURN_LIMIT), Sample())
    assert sample.status is Status.TRUNCATED


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (rollout(reward=None), "unscored"),
        (rollout(turn(0, [1], [2], output_token_ids=None, output_logprobs=None)), "text_only"),
        (rollout(turn(0, [1], [2], output_logprobs=None)), "no_logprobs"),
    ],
)
def test_what_must_not_be_learnt_from_is_taken_out_of_loss_and_baseline_by_name(broken: Any, name: str) -> None:
    good, better = (
        ours.samples_of(rollout(reward=reward), Sample(index=index))[0] for index, reward in enumerate((0, 1))
    )
    [removed] = ours.samples_of(broken, Sample(index=2))
    assert (removed.status, removed.remove_sample, removed.loss_mask) == (Status.FAILED, True, [0])
    assert removed.metadata["rollouthub"]["refused"] == name
    args = Namespace(rewards_normalization=True, grpo_std_normalization=False, advantage_estimator="grpo")
    _, worth = ours.post_process_rewards(args, [good, better, removed])
    assert worth == [-0.5, 0.5, 0.0]


def test_what_slime_broke_off_is_aborted_and_left_as_it_was() -> None:
    fault = Fault(boundary="model", phase="agent", type="GenerationAborted", message="it broke the answer off")
    broken = rollout(reward=None, outcome=Outcome.MODEL_FAILED, faults=(fault,))
    [sample] = ours.samples_of(broken, Sample())
    assert (sample.status, sample.tokens, sample.reward) == (Status.ABORTED, [], None)


def test_a_forked_rollout_counts_once_in_its_groups_baseline() -> None:
    samples = [
        ours.samples_of(forked(reward=1.0), Sample(index=0)),
        ours.samples_of(rollout(reward=0.0), Sample(index=1)),
    ]
    args = Namespace(rewards_normalization=True, grpo_std_normalization=True, advantage_estimator="grpo")
    _, worth = ours.post_process_rewards(args, [each for group in samples for each in group])
    assert worth == pytest.approx([math.sqrt(0.5), math.sqrt(0.5), -math.sqrt(0.5)], abs=1e-5)


# --- with slime's own classes, over HTTP ------------------------------------------------------------------------------


@contextmanager
def sglang(speaker: Speaker, reasons: dict[int, str]) -> Generator[int]:
    """A server that answers `/generate` as SGLang does; `reasons` are those of calls that do not just stop."""

    async def generate(request: web.Request) -> web.Response:
        body = await request.json()
        assert body["return_logprob"] is True
        assert body["sampling_params"]["max_new_tokens"] == 256
        number = len(speaker.said)
        said = speaker.speak(body["input_ids"])
        pairs = [[logprob, token, None] for logprob, token in zip(said.logprobs, said.token_ids, strict=True)]
        meta = {
            "finish_reason": {"type": reasons.get(number, "stop")},
            "output_token_logprobs": pairs,
            "weight_version": "5",
        }
        return web.json_response({"text": "", "meta_info": meta})

    @asynccontextmanager
    async def served() -> AsyncGenerator[int]:
        app = web.Application()
        app.router.add_post("/generate", generate)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield runner.addresses[0][1]
        await runner.cleanup()

    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(served()) as port,
    ):
        yield port


@pytest.fixture
def slime(checkout: Callable[..., Path], system: Callable[[str], ModuleType]) -> Any:
    checkout("slime")
    return system("slime.utils.types")


@pytest.fixture
def arguments(slime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """slime's arguments, with a tokenizer on disk and the settings in a file."""
    fast = import_module("transformers").PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=trained(), chat_template=CHATML, eos_token=END)
    tokenizer.save_pretrained(tmp_path / "policy")
    settings = tmp_path / "slime.toml"
    settings.write_text(
        'environments = ["arithmetic"]\nsplit = "train"\nset = { terms = 2, digits = 2 }\n'
        f'[training]\ndirectory = "{tmp_path}/runs"\nmax_dropped = 3\n'
    )
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(settings))

    def made(port: int, **changes: Any) -> Any:
        return Namespace(
            hf_checkpoint=str(tmp_path / "policy"),
            sglang_router_ip="127.0.0.1",
            sglang_router_port=port,
            rollout_batch_size=2,
            n_samples_per_prompt=2,
            rollout_temperature=1.0,
            rollout_top_p=1.0,
            rollout_top_k=-1,
            rollout_max_response_len=256,
            rollout_stop=None,
            rollout_stop_token_ids=None,
            rollout_skip_special_tokens=False,
            reward_key=None,
            rewards_normalization=True,
            grpo_std_normalization=True,
            advantage_estimator="grpo",
            **changes,
        )

    yield made
    THREAD_WORKERS.close()


class Rows:
    """A data source of slime's shape over tasks of arithmetic."""

    def __init__(self, sample: Any, size: int) -> None:
        self._sample, self._size, self.groups = sample, size, 0

    def get_samples(self, count: int) -> list[list[Any]]:
        found: list[list[Any]] = []
        for _ in range(count):
            fields = {"environment": "arithmetic", "split": "train", "task_id": f"train/{self.groups}"}
            found.append(
                [
                    self._sample(group_index=self.groups, index=self.groups * self._size + place, metadata=dict(fields))
                    for place in range(self._size)
                ]
            )
            self.groups += 1
        return found


def same_as_sampled(samples: list[Any], speaker: Speaker) -> None:
    rows = speaker.rows()
    assert len(samples) == len(rows)
    for sample in samples:
        sample._validate_response_metadata_lengths()  # slime's own
        mask, logprobs = rows[tuple(sample.tokens)]
        start = len(sample.tokens) - sample.response_length
        assert start == mask.index(1)
        assert (sample.loss_mask, sample.rollout_log_probs) == (mask[start:], logprobs[start:])


@pytest.mark.live
def test_slime_gets_batches_of_its_own_samples(slime: Any, arguments: Callable[..., Any]) -> None:
    speaker = Speaker()
    with sglang(speaker, {}) as port:
        args = arguments(port)
        out = import_module("slime.rollout.base_types").call_rollout_fn(
            ours.generate_rollout, args, 0, Rows(slime.Sample, 2), evaluation=False
        )
        THREAD_WORKERS.close()
    groups = out.samples
    assert [[sample.group_index for sample in group] for group in groups] == [[0, 0], [1, 1]]
    samples = [sample for group in groups for sample in group]
    assert all(isinstance(sample, slime.Sample) for sample in samples)
    same_as_sampled(samples, speaker)
    assert sorted(sample.reward for sample in samples) == [0.0, 0.0, 1.0, 1.0]
    assert {tuple(sample.weight_versions) for sample in samples} == {("5", "5")}
    assert {sample.status for sample in samples} == {slime.Sample.Status.COMPLETED}


@pytest.mark.live
def test_groups_that_teach_nothing_are_replaced_and_counted(slime: Any, arguments: Callable[..., Any]) -> None:
    speaker = Speaker()
    # The first answer is broken off.
    with sglang(speaker, {0: "abort"}) as port:
        args = arguments(port, dynamic_sampling_filter_path="rollouthub.trainers.slime.keep_group")
        args.rollout_batch_size = 1
        source = Rows(slime.Sample, 2)
        out = ours.generate_rollout(args, 0, source)
        THREAD_WORKERS.close()
    assert len(out.samples) == 1
    assert sum(sample.reward for sample in out.samples[0]) == 1.0
    assert out.metrics["rollout/dynamic_filter/drop_aborted"] == 1
    assert sum(out.metrics.values()) == source.groups - 1


@pytest.mark.live
def test_slimes_own_loop_calls_generate_sample_by_sample(slime: Any, arguments: Callable[..., Any]) -> None:
    run = import_module("slime.utils.async_utils").run
    speaker = Speaker()
    with sglang(speaker, {}) as port:
        args = arguments(port)
        [group] = Rows(slime.Sample, 2).get_samples(1)

        async def both() -> list[Any]:
            params = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "max_new_tokens": 256, "stop": None}
            return await asyncio.gather(*(ours.generate(args, sample, dict(params)) for sample in group))

        samples = run(both())
        THREAD_WORKERS.close()
    same_as_sampled(samples, speaker)
    assert all(sample.reward in (0.0, 1.0) for sample in samples)


@pytest.mark.live
def test_answers_of_slimes_own_are_scored_and_unscored_ones_masked(
    slime: Any, system: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLOUTHUB_SCORER", "arithmetic")
    run = import_module("slime.utils.async_utils").run
    fields = {"environment": "arithmetic", "split": "train", "task_id": "train/0"}
    wrong = slime.Sample(index=0, metadata=dict(fields), response="It is 1.")
    lost = slime.Sample(index=1, metadata={**fields, "task_id": "train/none"}, response="It is 1.")
    args = Namespace(reward_key=None)
    assert run(ours.reward(args, [wrong, lost])) == [0.0, 0.0]
    assert (wrong.remove_sample, lost.remove_sample) == (False, True)
    assert run(ours.reward(args, wrong)) == 0.0


@pytest.mark.live
def test_slimes_conversion_takes_the_samples(
    slime: Any, system: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    system("ray")
    for name in ("", ".srt", ".srt.constants", ".srt.server_args", ".srt.utils"):
        # Its conversion lives beside code that starts the engine, of which nothing is called here.
        monkeypatch.setitem(sys.modules, f"sglang{name}", Absent(f"sglang{name}"))
    manager = import_module("slime.ray.rollout").RolloutManager.__ray_metadata__.modified_class
    args = Namespace(
        rewards_normalization=True, grpo_std_normalization=False, advantage_estimator="grpo", reward_key=None
    )
    made = [
        ours.samples_of(each, slime.Sample(group_index=0, index=index))
        for index, each in enumerate((forked(reward=1.0), rollout(reward=0.0), rollout(reward=None)))
    ]
    import_module("slime.observability.rollout_data_utils").validate_rollout_id_annotated([made])
    keeper = Namespace(
        args=args,
        custom_convert_samples_to_train_data_func=None,
        _post_process_rewards=partial(ours.post_process_rewards, args),
    )
    data = manager._convert_samples_to_train_data(keeper, [each for samples in made for each in samples])
    assert data["tokens"] == [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 9, 7], [1, 2, 3, 4, 5, 6, 7], [0, 0]]
    assert data["loss_masks"] == [[1, 1, 0, 1, 1], [1], [1, 1, 0, 1], [0]]
    assert data["rollout_log_probs"][0] == [-0.125, -0.25, 0.0, -0.125, -0.25]
    assert data["rewards"] == [0.5, 0.5, -0.5, 0.0]
    assert data["rollout_ids"][0] == data["rollout_ids"][1]
    assert data["rollout_mask_sums"] == [5, 5, 3, 0]
