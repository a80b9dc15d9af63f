"""slime's two ways in: one sample at a time, and a whole batch."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import aiohttp

from rollouthub.errors import ConfigError, SupplyError
from rollouthub.models.tokens import TokenModel
from rollouthub.trainers.slime.group_hooks import flat, why_broken
from rollouthub.trainers.slime.sample import SlimeSample, samples_of, task_of
from rollouthub.trainers.slime.sglang_engine import SglangEngine, sampling_of
from rollouthub.trainers.stream import RolloutWorker, SampleRequest, rollout_worker
from rollouthub.trainers.workers.in_thread import RESIDENTS, ResidentWorker
from rollouthub.trainers.workers.worker_settings import TrainingSettings, read_settings

logger = logging.getLogger(__name__)

_NAME = "slime"


async def generate(
    args: Any, sample: SlimeSample, sampling_params: dict[str, Any], evaluation: bool = False
) -> SlimeSample | list[SlimeSample]:
    """For `--custom-generate-function-path`: play the sample's task, and fill it; a list where the rollout forked.

    Raises:
        ConfigError: the settings do not hold, the sample names no task, or slime is to replay what we do not carry.
    """
    resident = await RESIDENTS.opened(_NAME, lambda: _worker(args))
    wanted = _wanted(resident, sample, sampling_params, evaluation)
    filled = samples_of(await resident.played(wanted), sample, getattr(args, "reward_key", None))
    return filled[0] if len(filled) == 1 else filled


def generate_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """For `--rollout-function-path`: a batch of whole groups, broken and filtered ones replaced by others.

    Evaluation is slime's own, sample by sample through `--custom-generate-function-path`.

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
    resident = RESIDENTS.get(_NAME, lambda: _worker(args))
    most = (_settings(args).training.max_dropped + 1) * args.rollout_batch_size
    gatherer, kept, played = filters.MetricGatherer(), list[Any](), 0
    while (missing := args.rollout_batch_size - len(kept)) > 0:
        if played >= most:
            raise SupplyError(
                f"of {played} groups {len(kept)} were kept, and {args.rollout_batch_size} are a batch; the reasons: "
                f"{gatherer.collect()}. Look at the run: hub show {resident.directory}"
            )
        groups = _played(args, resident, data_source.get_samples(missing))
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


def _played(args: Any, resident: ResidentWorker, groups: list[list[SlimeSample]]) -> list[list[Any]]:
    """Play the samples of groups, all at once."""
    samples = flat(groups)
    params = _sampling_params(args)
    rollouts = iter(resident.play_all([_wanted(resident, sample, params, False) for sample in samples]))
    key = getattr(args, "reward_key", None)
    played: list[list[Any]] = []
    for group in groups:
        filled = [samples_of(next(rollouts), sample, key) for sample in group]
        played.append([each if len(each) > 1 else each[0] for each in filled])
    return played


def level(groups: list[list[Any]]) -> list[list[Any]]:
    """Groups of one depth: slime looks at a batch's first sample alone to tell whether there are lists of samples."""
    if not any(isinstance(each, list) for group in groups for each in group):
        return groups
    return [[each if isinstance(each, list) else [each] for each in group] for group in groups]


def _wanted(resident: ResidentWorker, sample: SlimeSample, params: dict[str, Any], evaluation: bool) -> SampleRequest:
    """The sample's task; members of a group share its seed, and one that is asked for again is another sample."""
    task = task_of(sample)
    group = "evaluation" if evaluation or sample.group_index is None else str(sample.group_index)
    return SampleRequest(
        task.task_id,
        environment=task.environment,
        split=task.split,
        group=group,
        sample=resident.next_visit(task, group),
        sampling=sampling_of(params),
    )


def _sampling_params(args: Any) -> dict[str, Any]:
    """How slime samples in training, as its own rollout function makes it of the arguments."""
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


def _settings(args: Any) -> TrainingSettings:
    return read_settings(getattr(args, "rollouthub_settings", None))


@asynccontextmanager
async def _worker(args: Any) -> AsyncGenerator[RolloutWorker]:
    """The worker of this process, with slime's router as its model.

    Raises:
        ConfigError: see `generate`.
    """
    if getattr(args, "rollout_top_p", 1.0) != 1.0:
        raise ConfigError("slime replays the nucleus of a --rollout-top-p below 1, which rollouts do not carry")
    if getattr(args, "use_rollout_routing_replay", False):
        raise ConfigError("rollouts do not carry routed experts; leave out --use-rollout-routing-replay")
    settings = _settings(args)
    loader: Any = import_module("slime.utils.processing_utils")
    chat = settings.chat_format(loader.load_tokenizer(args.hf_checkpoint, trust_remote_code=True))
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
    # No pool of a size of its own: the run's concurrency bounds what is under way.
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=15)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        context = settings.training.max_context or getattr(args, "rollout_max_context_len", None)
        model = TokenModel("slime/policy", SglangEngine(url, session), chat, max_context=context)
        directory = settings.run_directory(_NAME)
        async with rollout_worker(
            settings.request, directory=directory, model=model, suspect=settings.training.suspect
        ) as worker:
            logger.info("slime's rollouts are recorded in %s", directory)
            yield worker
