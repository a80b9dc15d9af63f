"""An environment's verifier as a function, for trainers that generate by themselves and need only rewards."""

import logging
import math
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from rollouthub.engine.episode_seed import episode_seed
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import check_roles, make_plan
from rollouthub.engine.run_request import RunRequest, build_request
from rollouthub.errors import ConfigError, EpisodeError, UnknownNameError, UsageError, raise_first_error
from rollouthub.export.task_reference import TaskReference
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.protocols import TaskCard
from rollouthub.score import Score, Submission
from rollouthub.task import BadRow, Public
from rollouthub.trainers.policy_answer import Answer, submission_of_answer

_CARDS = 65536
"""Most task cards in the cache."""
_TRIES = 2
_AT_A_TIME = 32
"""How many answers are scored before other tasks of the event loop get a turn, in case the verifier never awaits."""

logger = logging.getLogger(__name__)

Asked = tuple[TaskReference, Answer]
"""A task, and the answer to it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of scoring one answer: a score, or the reason why there is none. Unscored is never a reward of 0."""

    score: Score | None
    problem: str | None = None

    @property
    def reward(self) -> float | None:
        """The reward; None if the answer is unscored."""
        return None if self.score is None else self.score.reward


class Scorer:
    """Scores answers to tasks of a few opened environments. Made by `open_scorer`."""

    def __init__(self, opened: OpenPlan) -> None:
        self._opened = opened
        self._environments = {each.host.info.name: each for each in opened.environments}
        self._limiter = anyio.CapacityLimiter(opened.plan.request.concurrency)
        self._cards: OrderedDict[TaskReference, TaskCard] = OrderedDict()

    @property
    def environments(self) -> tuple[str, ...]:
        """The environments' names."""
        return tuple(self._environments)

    async def score(self, task: TaskReference, answer: Answer) -> Score:
        """Score one answer.

        Raises:
            UnknownNameError: there is no such environment, split or task.
            ConfigError: the answer is neither text nor a conversation.
            VerifierError: the verifier gave no score.
        """
        submission = submission_of_answer(answer)
        async with self._limiter:
            environment = self._environment(task)
            card = await self._card(environment, task)
            return await self._scored(environment, card, submission)

    async def judge(self, task: TaskReference, answer: Answer) -> Verdict:
        """Score one answer; a failure to score is reported in the verdict's `problem`.

        Raises:
            UnknownNameError: the environment is not open. This is an error of the set-up, not of the answer.
        """
        self._environment(task)
        try:
            return Verdict(await self.score(task, answer))
        except (EpisodeError, UsageError) as error:
            return Verdict(None, str(error))

    async def judge_all(self, asked: Sequence[Asked], *, seconds: float = math.inf) -> list[Verdict]:
        """Score several answers at once; the verdicts are in the order of `asked`. Answers not scored within `seconds`
        are unscored.

        Raises:
            UnknownNameError: an environment is not open.
        """
        for task, _ in asked:
            self._environment(task)
        verdicts = [Verdict(None, f"not scored within {seconds:g} seconds")] * len(asked)
        places = iter(range(len(asked)))

        async def work() -> None:
            for count, place in enumerate(places, start=1):
                verdicts[place] = await self.judge(*asked[place])
                if count % _AT_A_TIME == 0:
                    await checkpoint()

        async with raise_first_error(), anyio.create_task_group() as tasks:
            tasks.cancel_scope.deadline = anyio.current_time() + seconds
            for _ in range(min(len(asked), int(self._limiter.total_tokens))):
                tasks.start_soon(work)
        return verdicts

    async def score_all(self, asked: Sequence[Asked]) -> list[Score | None]:
        """Score several answers at once. None marks an unscored answer, and the log has the first reason; `judge_all`
        returns all reasons.

        Raises:
            UnknownNameError: an environment is not open.
        """
        verdicts = await self.judge_all(asked)
        problems = [verdict.problem for verdict in verdicts if verdict.score is None]
        if problems:
            logger.warning("%d of %d answers are unscored; the first: %s", len(problems), len(asked), problems[0])
        return [verdict.score for verdict in verdicts]

    async def tasks(self, environment: str | None = None, split: str | None = None) -> AsyncIterator[Public]:
        """The public parts of an environment's tasks, in order, up to the request's `limit`.

        Raises:
            UsageError: there is no such environment or split, or a row makes no task.
        """
        if environment is None:
            if len(self._environments) > 1:
                raise ConfigError(f"name the environment whose tasks are wanted: {', '.join(self._environments)}")
            environment = next(iter(self._environments))
        found = self._named(environment)
        asked = OpenEnvironment(found.host, split or found.split, found.limits, found.deadlines)
        async for card in self._opened.tasks(asked):
            if not isinstance(card, BadRow):
                yield card.public

    def split_of(self, environment: str) -> str:
        """The split of the environment that tasks are taken from when none is named."""
        return self._named(environment).split

    def _environment(self, task: TaskReference) -> OpenEnvironment:
        return self._named(task.environment)

    def _named(self, name: str) -> OpenEnvironment:
        found = self._environments.get(name)
        if found is None:
            raise UnknownNameError("environment of this scorer", name, self._environments)
        return found

    async def _card(self, environment: OpenEnvironment, task: TaskReference) -> TaskCard:
        card = self._cards.get(task)
        if card is None:
            card = await environment.host.find_task(task.split, task.task_id, self._opened.plan.seed)
            self._cards[task] = card
            if len(self._cards) > _CARDS:
                self._cards.popitem(last=False)
        return card

    async def _scored(self, environment: OpenEnvironment, card: TaskCard, submission: Submission) -> Score:
        host = environment.host
        seed = episode_seed(self._opened.plan.seed, host.info.name, card.split, card.public.id)
        for left in reversed(range(_TRIES)):
            try:
                return await host.score(card, submission, seed=seed, deadlines=environment.deadlines)
            except EpisodeError as error:
                if not left or not error.retryable:
                    raise
        raise AssertionError("the last try returns or raises")


@asynccontextmanager
async def open_scorer(
    environments: Sequence[str] = (),
    *,
    request: RunRequest | None = None,
    credentials: Credentials | None = None,
    **settings: Any,
) -> AsyncGenerator[Scorer]:
    """Open environments once, and score answers to their tasks within the context.

        async with open_scorer(["arithmetic"]) as scorer:
            score = await scorer.score(TaskReference("arithmetic", "train", "train/0"), "The answer is 4.")

    `settings` are those of a run (`set`, `roles`, `split`, `seed`, `concurrency` …) and override `request`.

    Raises (on entry):
        ConfigError: an environment cannot score an answer alone: it scores the final state of an episode, or whole
        groups.
        UsageError: an environment cannot be hosted, or a setting is invalid.
    """
    base = {} if request is None else request.model_dump(exclude_unset=True)
    if environments:
        settings["environments"] = tuple(environments)
    plan = make_plan(build_request({**base, **settings}, "open_scorer()"))
    check_roles(plan)
    async with raise_first_error(), open_plan(plan, credentials or load_credentials(os.environ, Path.cwd())) as opened:
        for each in opened.environments:
            name = each.host.info.name
            if each.host.info.scores_groups:
                raise ConfigError(
                    f"environment {name!r} scores all samples of a task together, not an answer by itself; "
                    "play its tasks with stream_rollouts()"
                )
            if not each.host.info.scores_transcripts:
                raise ConfigError(
                    f"environment {name!r} scores the world an episode leaves behind, which an answer alone does "
                    f"not have; let a trainer's rollouts play in it "
                    "(rollouthub.trainers.stream.rollout_worker) instead"
                )
        yield Scorer(opened)
