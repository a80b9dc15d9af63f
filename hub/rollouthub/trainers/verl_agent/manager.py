"""`HubEnvironmentManager`: the object that verl-agent's rollout loop drives by `reset` and `step` over a batch of
episodes.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple

from anyio.from_thread import start_blocking_portal
from mcp_types import Tool

from rollouthub.errors import ConfigError
from rollouthub.export import (
    Credit,
    NotTrainable,
    Refusal,
    TaskReference,
    anchor_state,
    one_reward,
    turn_rewards,
    why_refused,
)
from rollouthub.limits import Deadlines
from rollouthub.messages import Message
from rollouthub.rollout import Rollout
from rollouthub.trainers.stream import SampleRequest
from rollouthub.trainers.verl_agent.lock_step import LockStep, Slot, StepModel
from rollouthub.trainers.verl_agent.observation import (
    NOT_UNDERSTOOD,
    Projected,
    Sight,
    observation,
    project,
    with_picture,
)
from rollouthub.trainers.workers.worker_settings import TrainingSettings, settings_of

logger = logging.getLogger(__name__)

Render = Callable[[Sequence[Message], Sequence[Tool]], str]
_DAY = 86_400.0
OWN = Credit(terminal=False)
"""The turns' own rewards, without the verdict."""
_PATIENT = Deadlines(model_call=_DAY, agent=_DAY, episode=_DAY)
"""Deadlines of one day: a call of this policy takes as long as the trainer's step, so slowness is no failure."""
TASK = "task"
"""Key in a row's `env_kwargs` for the task's reference."""


class _Observation(NamedTuple):
    """An episode's current observation and anchor."""

    sight: Sight
    anchor: str


class HubEnvironmentManager:
    """A batch of the hub's episodes in lock-step, with the methods of verl-agent's `EnvironmentManagerBase`.

    The hub plays and verifies every episode and records it in the run's directory. Close the manager after training, or
    use it as a context manager.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        *,
        max_steps: int,
        group_size: int = 1,
        batch_size: int = 1,
        history_length: int = 2,
        render: Render | None = None,
    ) -> None:
        """`batch_size` counts groups: if the data set has no `env_kwargs`, that many tasks are taken, in order.

        `render` makes a step's prompt from the conversation and the tools; default: `observation`.

        Raises:
            UsageError: as `rollout_worker`.
        """
        self._max_steps, self._group_size, self._batch_size = max_steps, group_size, batch_size
        self._render: Render = render or (lambda messages, tools: observation(messages, tools, history_length))
        self._slots: list[Slot] = []
        self._steps = self._resets = 0
        self._held: list[_Observation] = []
        self._rewarded: set[int] = set()
        self._taken: list[list[int]] = []
        """For each place, the steps whose actions its episode took, in order."""
        model = StepModel()
        request = settings.request.model_copy(
            update={
                # Lock-step: who has no seat holds up all others. A broken attempt has had its steps taken.
                "concurrency": max(settings.request.concurrency, group_size * batch_size),
                "deadlines": settings.request.deadlines.or_else(_PATIENT),
                "retries": settings.request.retries.model_copy(update={"infrastructure": 0, "verifier": 1}),
            }
        )
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio"))
            playing = settings.model_copy(update={"request": request})
            opened = playing.worker("verl-agent", model, no_groups=None, takes_seat=False)
            self._worker = stack.enter_context(self._portal.wrap_async_context_manager(opened))
            self._lock_step = LockStep(self._worker, model)
            self._stack = stack.pop_all()
        self._tasks = self._every_task()

    def __enter__(self) -> "HubEnvironmentManager":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def rollouts(self) -> list[Rollout | None]:
        """The batch's rollouts; None for an episode that is still running."""
        return [slot.rollout for slot in self._slots]

    def reset(self, kwargs: Sequence[Mapping[str, Any]] | None = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Start a batch; `kwargs` are the rows' `env_kwargs`, with the members of a group next to each other.

        Raises:
            UsageError: a row names no task, or an unknown one.
        """
        self._resets += 1
        self._steps = 0
        size = self._group_size
        tasks = self._next_tasks() if kwargs is None else [_task_of(each) for each in kwargs]
        wanted = [
            replace(task, group=f"{self._resets}-{place // size}", sample=place % size, group_size=size)
            for place, task in enumerate(tasks)
        ]
        self._slots = self._portal.call(self._lock_step.begin, wanted)
        self._held = [_Observation(Sight("", None), "")] * len(self._slots)
        self._rewarded = set()
        self._taken = [list[int]() for _ in self._slots]
        for slot in self._slots:
            self._portal.start_task_soon(self._lock_step.play, slot)
        self._portal.call(self._lock_step.step, self._slots, dict[int, Projected]())
        infos = [{"won": False, "data_source": task.environment, TASK: str(task), "tool_calling": 0} for task in tasks]
        return self._observations({}), infos

    def step(self, text_actions: Sequence[str]) -> tuple[dict[str, Any], Any, Any, list[dict[str, Any]]]:
        """Take one action in every episode; finished episodes ignore theirs.

        A tool call that cannot be parsed is not made: the next observation says so, and the step counts. After
        `max_steps` an episode is ended and scored as it is.

        Raises:
            SupplyError, StoreError: episodes cannot be played any more.
        """
        numpy: Any = import_module("numpy")
        if len(text_actions) != len(self._slots):
            raise ConfigError(f"{len(text_actions)} actions were given for a batch of {len(self._slots)} episodes")
        self._steps += 1
        is_last = self._steps >= self._max_steps
        read = [_read(slot, text, self._steps) for slot, text in zip(self._slots, text_actions, strict=True)]
        taken = {place: each for place, each in enumerate(read) if each is not None and (each.is_valid or is_last)}
        for place in taken:
            self._taken[place].append(self._steps - 1)
        ending = [place for place, slot in enumerate(self._slots) if is_last and not slot.is_over]
        self._portal.call(self._lock_step.step, self._slots, taken, ending)
        notes = {place: NOT_UNDERSTOOD for place, each in enumerate(read) if each is not None and place not in taken}
        infos = [_info(slot, each, numpy) for slot, each in zip(self._slots, read, strict=True)]
        # Each once: an episode may also end between two steps, where a limit of its own is reached.
        rewards = [self._reward(place) for place in range(len(self._slots))]
        dones = [slot.is_over for slot in self._slots]
        return (
            self._observations(notes),
            numpy.array(rewards, dtype=numpy.float32),
            numpy.array(dones, dtype=bool),
            infos,
        )

    def success_evaluator(
        self,
        *,
        total_infos: Sequence[Sequence[Mapping[str, Any]]],
        total_batch_list: Sequence[Sequence[dict[str, Any]]],
        episode_rewards: Any = None,
        **_: Any,
    ) -> dict[str, Any]:
        """Whether each episode was won. It also places rewards that were not known during the steps, and excludes
        unscored episodes from training, because verl-agent has no other hook for either.

        The rows of unscored episodes are made inactive, which removes them before advantages are computed. Until then
        their reward is the mean of their group's scored members, so that no filter sees a zero. In the others, each row
        has the reward of its turn, and the last one the verdict, too; verdicts on groups are waited for here.

        Raises:
            UsageError: no episode of the batch was scored.
            SupplyError, StoreError: a verdict on a group cannot be had any more.
        """
        numpy: Any = import_module("numpy")
        self._portal.call(self._lock_step.judged, self._slots)
        refused = [None if slot.rollout is None else _refusal(slot.rollout) for slot in self._slots]
        if refused and all(refused):
            raise ConfigError(f"no episode of the batch was scored ({refused[0]}); its run says why")
        for place, refusal in enumerate(refused):
            if refusal is None:
                self._reward_rows(place, total_batch_list[place], episode_rewards)
        for place, refusal in enumerate(refused):
            if refusal is None:
                continue
            logger.warning("episode %d of the batch is not learnt from: %s", place, refusal)
            for row in total_batch_list[place]:
                row["active_masks"] = False
            if episode_rewards is not None:
                first = place - place % self._group_size
                scored = [at for at in range(first, first + self._group_size) if refused[at] is None]
                episode_rewards[place] = episode_rewards[scored].mean() if scored else 0.0
        won = [
            float(any(info["won"] for info in infos) or (refusal is None and _is_scored_won(slot.rollout)))
            for infos, refusal, slot in zip(total_infos, refused, self._slots, strict=True)
        ]
        return {"success_rate": numpy.array(won)}

    def build_text_obs(self) -> list[str]:
        """The prompts of the current step."""
        return [each.sight.text for each in self._held]

    def close(self) -> None:
        """End all episodes, and the run."""
        if self._slots:
            self._portal.call(self._lock_step.begin, list[SampleRequest]())
            self._slots = []
        self._stack.close()

    def _reward(self, place: int) -> float:
        rollout = self._slots[place].rollout
        if rollout is None or place in self._rewarded:
            return 0.0
        self._rewarded.add(place)
        try:
            return one_reward(rollout)
        except NotTrainable:  # `success_evaluator` takes it out of training
            return 0.0

    def _reward_rows(self, place: int, rows: Sequence[dict[str, Any]], episode_rewards: Any) -> None:
        """Put the rewards of an episode's turns, and its verdict, on its rows."""
        rollout = self._slots[place].rollout
        active = [row for row in rows if row["active_masks"]]
        if rollout is None or not active:
            return
        verdict, steps = one_reward(rollout), [step for step in self._taken[place] if step < len(rows)]
        if episode_rewards is not None:
            episode_rewards[place] = verdict
        for row in active:
            row["rewards"] = 0.0
        if len(steps) == len(rollout.policy_turns):
            placed = turn_rewards(rollout, OWN)
            for step, turn in zip(steps, rollout.policy_turns, strict=True):
                rows[step]["rewards"] = placed[turn.index]
        active[-1]["rewards"] += verdict

    def _observations(self, notes: Mapping[int, str]) -> dict[str, Any]:
        """The observations of all slots; a finished episode repeats its last one, which is not trained on."""
        for place, slot in enumerate(self._slots):
            if slot.request is not None:
                text = self._render(slot.request.messages, slot.request.tools)
                note = f"\n\n{notes[place]}" if place in notes else ""
                sight = with_picture(text + note, slot.request.messages, slot.request.media)
                self._held[place] = _Observation(sight, anchor_state(slot.request.messages))
        images = [each.sight.picture for each in self._held]
        shown = images if any(image is not None for image in images) else None
        return {"text": self.build_text_obs(), "image": shown, "anchor": [each.anchor for each in self._held]}

    def _every_task(self) -> Iterator[SampleRequest]:
        """The tasks in order, repeated without end."""
        environment = self._worker.environments[0]

        async def listed() -> list[str]:
            return [task.id async for task in self._worker.tasks(environment)]

        while True:
            for task_id in self._portal.call(listed):
                yield SampleRequest(task_id, environment)

    def _next_tasks(self) -> list[SampleRequest]:
        return [task for task in islice(self._tasks, self._batch_size) for _ in range(self._group_size)]


def _task_of(kwargs: Mapping[str, Any]) -> SampleRequest:
    reference = kwargs.get(TASK)
    if not isinstance(reference, str):
        raise ConfigError(
            f"a row's env_kwargs are {dict(kwargs)!r:.100}; they are to have {TASK!r}, a task's reference"
        )
    task = TaskReference.parse(reference)
    return SampleRequest(task.task_id, task.environment, task.split)


def _read(slot: Slot, text: str, turn: int) -> Projected | None:
    """The episode's action from the policy's text; None if the episode is over."""
    return None if slot.request is None else project(text, slot.request.tools, turn)


def _info(slot: Slot, action: Projected | None, numpy: Any) -> dict[str, Any]:
    rollout = slot.rollout
    return {
        "won": _is_scored_won(rollout),
        "is_action_valid": numpy.array(action is not None and action.is_valid),
        "tool_calling": 0 if action is None else int(bool(action.message.tool_requests) and action.is_valid),
        "data_source": slot.wanted.environment,
        "rollout_id": None if rollout is None else rollout.rollout_id,
        "refusal": None if rollout is None else _refusal(rollout),
    }


def _is_scored_won(rollout: Rollout | None) -> bool:
    return rollout is not None and rollout.score is not None and is_won(rollout)


def is_won(rollout: Rollout) -> bool:
    """Whether the task counts as solved: the score's `passed`, or a reward of at least 1 if the verifier sets none."""
    assert rollout.score is not None
    return rollout.score.reward >= 1.0 if rollout.score.passed is None else rollout.score.passed


def _refusal(rollout: Rollout) -> Refusal | None:
    """Why the rollout must not be trained on: it is unscored, was helped, or has several trained seats. Token ids are
    not required, because verl-agent has them.
    """
    try:
        if (refused := why_refused(rollout, "text")) is None:
            one_reward(rollout)
            return None
    except NotTrainable as error:
        refused = error.refused
    return refused.refusal


def make_envs(config: Any) -> tuple[HubEnvironmentManager, HubEnvironmentManager]:
    """The environment managers of training and validation; replaces `agent_system.environments.make_envs`.

    `config.env.rollouthub` has the settings of a run; `config.env.env_name`, `max_steps`, `history_length`, `rollout.n`
    and the batch sizes are verl-agent's own.

    Raises:
        UsageError: a setting is invalid.
    """
    omegaconf: Any = import_module("omegaconf")
    given = omegaconf.OmegaConf.to_container(config.env.get("rollouthub") or {}, resolve=True)
    name = str(config.env.env_name)
    given.setdefault("environments", [name.removeprefix("rollouthub/")])
    validation = given.pop("validation", {})
    common: dict[str, Any] = {
        "max_steps": int(config.env.max_steps),
        "history_length": int(config.env.get("history_length", 2)),
    }
    group = max(1, int(config.env.rollout.n))
    train = HubEnvironmentManager(
        settings_of(given, "env.rollouthub"), group_size=group, batch_size=int(config.data.train_batch_size), **common
    )
    held_out = settings_of({**given, **validation}, "env.rollouthub.validation")
    return train, HubEnvironmentManager(held_out, batch_size=int(config.data.val_batch_size), **common)
