"""The two functions by which slime generates: `generate` for one sample, `generate_rollout` for a whole batch."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from typing import Any

from anyio import to_thread

from rollouthub.errors import ConfigError, SupplyError
from rollouthub.http.exchange import open_pool
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures
from rollouthub.trainers.slime.group_hooks import flat, why_broken
from rollouthub.trainers.slime.sample import SlimeSample, seeing_samples, task_of
from rollouthub.trainers.slime.slime_engine import SlimeEngine, sampling_of
from rollouthub.trainers.stream import RolloutWorker, SampleRequest
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS, ThreadWorker
from rollouthub.trainers.workers.worker_settings import TrainingSettings, read_settings

logger = logging.getLogger(__name__)

_NAME = "slime"


async def generate(
    args: Any, sample: SlimeSample, sampling_params: dict[str, Any], evaluation: bool = False
) -> SlimeSample | list[SlimeSample]:
    """For `--custom-generate-function-path`: play the sample's task and fill the sample; a list of samples if the
    rollout forked.

    Raises:
        ConfigError: a setting is invalid, the sample names no task, or slime is set to replay data that rollouts do not
        record.
    """
    thread_worker = await THREAD_WORKERS.opened(_NAME, lambda: _worker(args))
    wanted = _wanted(thread_worker, sample, sampling_params, evaluation)
    if thread_worker.scores_groups(wanted.environment):
        raise ConfigError(
            f"environment {wanted.environment!r} scores all samples of a task together, and slime's own loop asks for "
            "them one by one; train with --rollout-function-path rollouthub.trainers.slime.generate_rollout, and "
            "evaluate with `hub run`"
        )
    rollout, key = await thread_worker.played(wanted), getattr(args, "reward_key", None)
    seat = _settings(args).training.seat
    filled = await to_thread.run_sync(
        seeing_samples, rollout, sample, key, thread_worker.directory, _pictures(args), seat
    )
    return filled[0] if len(filled) == 1 else filled


def generate_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """For `--rollout-function-path`: a batch of complete groups; incomplete and filtered groups are replaced by new
    ones.

    For evaluation it calls slime's own function, which plays each sample through `--custom-generate-function-path`.

    Raises:
        SupplyError: more groups were dropped than `max_dropped` batches.
        ConfigError: as `generate`.
    """
    if evaluation:
        return import_module("slime.rollout.sglang_rollout").generate_rollout(args, rollout_id, data_source, True)
    base: Any = import_module("slime.rollout.base_types")
    filters: Any = import_module("slime.rollout.filter_hub.base_types")
    path = getattr(args, "dynamic_sampling_filter_path", None)
    chosen = None if path is None else import_module("slime.utils.misc").load_function(path)
    thread_worker = THREAD_WORKERS.get(_NAME, lambda: _worker(args))
    most = (_settings(args).training.max_dropped + 1) * args.rollout_batch_size
    gatherer, kept, played = filters.MetricGatherer(), list[Any](), 0
    while (missing := args.rollout_batch_size - len(kept)) > 0:
        if played >= most:
            raise SupplyError(
                f"of {played} groups {len(kept)} were kept, and {args.rollout_batch_size} are a batch; the reasons: "
                f"{gatherer.collect()}. Look at the run: hub show {thread_worker.directory}"
            )
        groups = _played(args, thread_worker, data_source.get_samples(missing))
        played += len(groups)
        for group in groups:
            output = filters.DynamicFilterOutput(keep=True)
            if (broken := why_broken(group)) is not None:
                output = filters.DynamicFilterOutput(keep=False, reason=broken)
            elif chosen is not None:
                output = filters.call_dynamic_filter(chosen, args, flat(group))
            if output.keep:
                kept.append(group)
            else:
                gatherer.on_dynamic_filter_drop(reason=output.reason)
    return base.RolloutFnTrainOutput(samples=level(kept), metrics=gatherer.collect())


def _played(args: Any, thread_worker: ThreadWorker, groups: list[list[SlimeSample]]) -> list[list[Any]]:
    """Play all samples of the groups concurrently."""
    samples = flat(groups)
    params = _sampling_params(args)
    rollouts = iter(thread_worker.play_all([_wanted(thread_worker, sample, params, False) for sample in samples]))
    key, sees, seat = getattr(args, "reward_key", None), _pictures(args), _settings(args).training.seat
    played: list[list[Any]] = []
    for group in groups:
        filled = [seeing_samples(next(rollouts), sample, key, thread_worker.directory, sees, seat) for sample in group]
        played.append([each if len(each) > 1 else each[0] for each in filled])
    return played


def level(groups: list[list[Any]]) -> list[list[Any]]:
    """Groups of equal nesting: if any rollout forked, every sample becomes a list, because slime infers the nesting
    from the batch's first sample.
    """
    if not any(isinstance(each, list) for group in groups for each in group):
        return groups
    return [[each if isinstance(each, list) else [each] for each in group] for group in groups]


def _wanted(
    thread_worker: ThreadWorker, sample: SlimeSample, params: dict[str, Any], evaluation: bool
) -> SampleRequest:
    """The sample request for slime's sample. Members of a group share its seed; a repeated request is a further
    sample.
    """
    task = task_of(sample)
    group = "evaluation" if evaluation or sample.group_index is None else str(sample.group_index)
    return SampleRequest(
        task.task_id,
        environment=task.environment,
        split=task.split,
        group=group,
        sample=thread_worker.next_sample(task, group),
        sampling=sampling_of(params),
    )


def _sampling_params(args: Any) -> dict[str, Any]:
    """slime's sampling parameters in training, derived from its arguments as slime's own rollout function does."""
    return {
        "temperature": args.rollout_temperature,
        "top_p": args.rollout_top_p,
        "top_k": getattr(args, "rollout_top_k", None),
        "max_new_tokens": args.rollout_max_response_len,
        "stop": getattr(args, "rollout_stop", None),
        "stop_token_ids": getattr(args, "rollout_stop_token_ids", None),
        "skip_special_tokens": getattr(args, "rollout_skip_special_tokens", None),
        "no_stop_trim": True,
        "spaces_between_special_tokens": False,
    }


def _pictures(args: Any) -> PromptPictures | None:
    """The policy's picture processor, from its checkpoint; None for a text-only policy."""
    return checkpoint_pictures(args.hf_checkpoint)


@cache
def checkpoint_pictures(checkpoint: str) -> PromptPictures | None:
    """A checkpoint's picture processor, loaded by slime's own function; None if the checkpoint has none."""
    loader: Any = import_module("slime.utils.processing_utils")
    processor = loader.load_processor(checkpoint, trust_remote_code=True)
    return None if processor is None else PromptPictures(processor)


def _settings(args: Any) -> TrainingSettings:
    return read_settings(getattr(args, "rollouthub_settings", None))


@asynccontextmanager
async def _worker(args: Any) -> AsyncGenerator[RolloutWorker]:
    """The worker of this process, whose model is slime's SGLang router.

    Raises:
        ConfigError: see `generate`.
    """
    if getattr(args, "rollout_top_p", 1.0) != 1.0:
        raise ConfigError("slime replays the nucleus of a --rollout-top-p below 1, which rollouts do not carry")
    if getattr(args, "use_rollout_routing_replay", False):
        raise ConfigError("rollouts do not carry routed experts; leave out --use-rollout-routing-replay")
    settings = _settings(args)
    loader: Any = import_module("slime.utils.processing_utils")
    tokenizer = loader.load_tokenizer(args.hf_checkpoint, trust_remote_code=True)
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
    async with open_pool() as pool:
        longest = getattr(args, "rollout_max_context_len", None)
        sees = _pictures(args)
        engine = SlimeEngine([url], pool, sees=sees is not None)
        model = settings.token_model("slime/policy", engine, tokenizer, longest, sees)
        async with settings.worker(_NAME, model, no_groups=None) as worker:
            logger.info("slime's rollouts are recorded in %s", worker.directory)
            yield worker
