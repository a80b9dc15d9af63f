"""A rollout worker for TRL's `AsyncGRPOTrainer`: the hub supplies scored groups while the trainer learns."""

import logging
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack
from importlib import import_module
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from rollouthub.authoring.rewards import GroupMethod
from rollouthub.errors import SupplyError
from rollouthub.export import NotTrainable, TrainingRow, seat_advantages, training_rows, why_refused
from rollouthub.messages import Message
from rollouthub.rollout import Rollout
from rollouthub.trainers.pictures.shown_pictures import no_pictures
from rollouthub.trainers.stream import RolloutGroup, Supply
from rollouthub.trainers.systems import system_module

logger = logging.getLogger(__name__)

Opening = Callable[[], AbstractAsyncContextManager[Supply[RolloutGroup]]]
_FULL_SECONDS = 0.05


class HubRolloutWorker:
    """TRL's `RolloutWorkerProtocol` over `rollouthub.stream_rollouts`.

        asked = {"environments": ("lamp.py",), "model": "hosted_vllm/NAME", …}
        worker = HubRolloutWorker(lambda: rollouthub.stream_rollouts(**asked))
        AsyncGRPOTrainer(model, args=args, processing_class=tokenizer, rollout_worker=worker).train()

    Every row of every rollout is a sample with the whole advantage of its seat, also if the rollout forked into several
    rows: TRL's loss is the mean over all sampled tokens, and each token is trained on in one row, so a forked rollout
    weighs no more. The supply runs beside the trainer in this process, between TRL's calls of `start` and `stop`.
    """

    def __init__(self, opening: Opening, *, advantages: GroupMethod = "mean_std", capacity: int = 1024) -> None:
        """`opening` opens the supply; `capacity` is how many samples may wait for the trainer before the hub stops
        adding more.
        """
        self.rollout_buffer: queue.Queue[Any] = queue.Queue(maxsize=capacity)
        self.metrics_queue: queue.Queue[dict[str, Any]] = queue.Queue()
        self._opening = opening
        self._advantages: GroupMethod = advantages
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._feeding: Future[None] | None = None
        self._supply: Supply[RolloutGroup] | None = None
        self._scope: anyio.CancelScope | None = None
        self._groups = 0
        self._version = 0
        self._heard = time.monotonic()

    def start(self) -> None:
        """Start playing; TRL calls this after it has published its first weights.

        Raises:
            UsageError: the supply cannot be opened.
        """
        if self._portal is not None:
            return
        self._heard = time.monotonic()
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio"))
            self._feeding, _ = self._portal.start_task(self._feed)
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Stop playing and cancel episodes in flight. A second call does nothing."""
        portal, self._portal = self._portal, None
        if portal is None:
            return
        with self._stack:
            scope, feeding = self._scope, self._feeding
            if scope is not None:
                portal.call(scope.cancel)
            if feeding is not None:
                feeding.exception()

    def update_model_version(self, model_version: int) -> None:
        """Report that the weights of this version are loaded; later generations are stamped with it."""
        self._version = model_version
        if self._portal is not None and self._supply is not None:
            self._portal.call(self._publish, model_version)

    def check_health(self, stale_after_s: float) -> None:
        """Check that samples still arrive.

        Raises:
            SupplyError: the supply has failed or ended, or gave no sample for `stale_after_s` seconds.
        """
        if self._feeding is not None and self._feeding.done() and (error := self._feeding.exception()) is not None:
            raise SupplyError(f"the hub's rollout worker has stopped: {error}") from error
        if self._feeding is not None and self._feeding.done() and self.rollout_buffer.empty():
            raise SupplyError("the hub's rollout worker has come to its tasks' end; stream with epochs=None")
        silent = time.monotonic() - self._heard
        # A trainer that does not take what is there is not the worker's silence.
        if silent > stale_after_s and self.rollout_buffer.empty():
            raise SupplyError(f"the hub's rollout worker gave no sample for {silent:.0f} s")

    async def _publish(self, version: int) -> None:
        if self._supply is not None and version > self._supply.policy_version:
            await self._supply.publish_weights(version, in_flight="keep")

    async def _feed(self, *, task_status: Any) -> None:
        with anyio.CancelScope() as scope:
            self._scope = scope
            async with self._opening() as supply:
                self._supply = supply
                await self._publish(self._version)
                task_status.started()
                try:
                    async for group in supply:
                        self._groups += 1
                        samples, metrics = samples_of(group, self._groups, self._advantages)
                        for sample in samples:
                            await self._put(sample)
                        self.metrics_queue.put_nowait(metrics)
                finally:
                    self._supply = None

    async def _put(self, sample: Any) -> None:
        """Queue a sample for the trainer, once there is room."""
        while True:
            try:
                sample.enqueued_at = time.time()
                self.rollout_buffer.put_nowait(sample)
            except queue.Full:
                self._heard = time.monotonic()
                await anyio.sleep(_FULL_SECONDS)  # the other end is a thread's queue, which tells nobody
            else:
                self._heard = time.monotonic()
                return


def samples_of(group: RolloutGroup, number: int, method: GroupMethod) -> tuple[list[Any], dict[str, Any]]:
    """A group as TRL's `RolloutSample`s, and the metrics that TRL logs for it.

    Members that must not be trained on make no sample, and do not count in the group's statistics.

    Raises:
        ConfigError: a rollout shows pictures, which a sample cannot hold.
    """
    no_pictures(group.rollouts)
    made = system_module("trl.experimental.async_grpo.async_rollout_worker").RolloutSample
    numpy: Any = import_module("numpy")
    # The baseline is of those who are learnt from: what a helped or broken member was worth would move it.
    members = [None if why_refused(rollout) is not None else rollout for rollout in group.rollouts]
    advantages = seat_advantages(members, method)
    samples: list[Any] = []
    refused = 0
    for place, rollout in enumerate(group.rollouts):
        try:
            rows = training_rows(rollout)
        except NotTrainable as error:
            logger.warning("%s", error)
            refused += 1
            continue
        for row in rows:
            advantage = advantages[row.seat][place]
            assert advantage is not None, "it is learnt from"
            samples.append(made(**fields(numpy, row, advantage, number, group.policy_version)))
    metrics: dict[str, Any] = {
        "hub/lost_total": float(len(group.lost)),
        "hub/refused_total": float(refused),
        "hub/staleness_max": float(group.staleness),
        "hub/constant_groups": (float(group.is_constant), 1.0),
    }
    return samples, metrics


def fields(numpy: Any, row: TrainingRow, advantage: float, number: int, version: int) -> dict[str, Any]:
    """The fields of a `RolloutSample` for one row."""
    segment, rollout = row.segment, row.rollout
    known = [each for each in segment.versions if each >= 0]
    return {
        "prompt": as_messages(rollout)[0],
        "completion": as_messages(rollout)[1],
        "input_ids": numpy.array(list(segment.token_ids), dtype=numpy.int64),
        "completion_mask": numpy.array(list(segment.loss_mask), dtype=numpy.int64),
        "old_log_probs": numpy.array(list(segment.logprobs), dtype=numpy.float32),
        "advantage": advantage,
        "model_version": min(known, default=version),
        "group_id": number,
        "metrics": {"reward": row.reward, **{f"rewards/{name}": value for name, value in row.components.items()}},
    }


def as_messages(rollout: Rollout) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The first turn's messages, and the rest of the conversation: for TRL's logged traces, not for its tokens."""
    if not rollout.turns:
        return [], []
    said: list[Message] = []
    for turn in rollout.turns:
        said += [*turn.messages, turn.response]
    first = len(rollout.turns[0].messages)
    written: Sequence[dict[str, Any]] = [*map(_written, said)]
    return list(written[:first]), list(written[first:])


def _written(message: Message) -> dict[str, Any]:
    calls = [
        {"type": "function", "function": {"name": request.name, "arguments": request.arguments}}
        for request in message.tool_requests
    ]
    return {"role": message.role, "content": message.text, **({"tool_calls": calls} if calls else {})}
