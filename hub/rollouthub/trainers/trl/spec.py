"""`HubSpec`: the hub's tasks, tools and verdicts as the three arguments of TRL's trainers."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from anyio.from_thread import start_blocking_portal

from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import check_roles, make_plan
from rollouthub.engine.run_request import build_request
from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.messages import Message, assistant
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.task import BadRow
from rollouthub.trainers.trl.prompt_images import alike, begun
from rollouthub.trainers.trl.prompts import TASK, as_dataset, conversation
from rollouthub.trainers.trl.trl_environment import HubPlayer, Playground, as_transcript, player_class


class HubSpec(AbstractContextManager["HubSpec"]):
    """Connects environments of the hub to a trainer that generates by itself.

        with HubSpec(environments=("arithmetic",), limit=1000) as spec:
            GRPOTrainer(
                model,
                train_dataset=spec.train_dataset,
                environment_factory=spec.environment_factory,
                reward_funcs=spec.reward_funcs,
            ).train()

    Each environment object that TRL creates plays one episode of the hub at a time: opened when TRL resets the object,
    sealed, verified and closed when TRL asks for rewards, and closed at the latest when the block is left.
    """

    def __init__(
        self,
        environments: Sequence[str],
        *,
        owns_reward: bool = False,
        credentials: Credentials | None = None,
        **settings: Any,
    ) -> None:
        """`settings` are the settings of a run that concern environments: `split`, `limit`, `tasks`, `set`, `seed`,
        `served` …

        By default the reward is a function in `reward_funcs`, which passes the conversation to the verifier. With
        `owns_reward` it is a method `get_reward` of the environment objects, whose verifier sees the effects of tools
        but not the conversation.

        Raises:
            UsageError: an environment is unknown, or a setting is invalid.
        """
        request = build_request({**settings, "environments": tuple(environments)}, "HubSpec()")
        self._plan = make_plan(request)
        check_roles(self._plan)
        self._owns_reward = owns_reward
        self._credentials = credentials
        self._stack = ExitStack()
        self._playgrounds: dict[str, Playground] = {}
        self._classes: dict[str, type[HubPlayer]] = {}
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> "HubSpec":
        """Open the environments.

        Raises:
            UsageError: an environment cannot be hosted, or cannot be played by TRL.
        """
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            credentials = self._credentials or load_credentials(os.environ, Path.cwd())
            opened = stack.enter_context(portal.wrap_async_context_manager(open_plan(self._plan, credentials)))
            stack.callback(self._close_episodes)
            for each in opened.environments:
                info = each.host.info
                if len(info.seats) != 1:
                    raise ConfigError(f"{info.name} has {len(info.seats)} seats, and TRL plays one")
                if info.scores_groups:
                    raise ConfigError(
                        f"environment {info.name!r} scores all samples of a task together, and TRL asks for the reward "
                        "of one; take rollout_func or HubRolloutWorker"
                    )
                self._playgrounds[info.name] = ground = Playground(portal, each, self._plan.seed)
                if info.tools_digest not in self._classes:
                    self._classes[info.tools_digest] = player_class(
                        info.name, ground.tools, owns_reward=self._owns_reward
                    )
            self._rows = portal.call(_rows, opened)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close open episodes and the environments."""
        self._stack.close()

    @property
    def train_dataset(self) -> Any:
        """A `datasets.Dataset`: `prompt`, `task`, `environment` and `source` of each task, and `images` if any has."""
        return as_dataset(self.rows)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `train_dataset` as dictionaries: the public part of each task."""
        return self._rows

    @property
    def environment_factory(self) -> Callable[[], HubPlayer] | dict[str, Callable[[], HubPlayer]]:
        """A function that makes environment objects for TRL; with several environments, a function for each by name."""
        made: dict[str, Callable[[], HubPlayer]] = {
            name: partial(self._classes[ground.opened.host.info.tools_digest], ground)
            for name, ground in self._playgrounds.items()
        }
        return next(iter(made.values())) if len(made) == 1 else made

    @property
    def reward_funcs(self) -> list[Callable[..., list[float | None]]]:
        """The reward functions to give to TRL; empty with `owns_reward`. They return None, which TRL leaves out, for
        an unscored rollout.
        """
        return [] if self._owns_reward else [hub_verdict]

    def _close_episodes(self) -> None:
        for ground in self._playgrounds.values():
            for player in ground.players:
                player._close()  # pyright: ignore[reportPrivateUsage]


def hub_verdict(
    prompts: Sequence[Any], completions: Sequence[Any], environments: Sequence[Any] = (), **rest: Any
) -> list[float | None]:
    """A reward function for TRL: seals each episode, verifies it with its conversation, and closes it."""
    rewards: list[float | None] = []
    for prompt, completion, player in zip(prompts, completions, environments, strict=True):
        if not isinstance(player, HubPlayer):  # an environment that is not the hub's
            rewards.append(None)
            continue
        rewards.append(player._conclude((*as_transcript(prompt), *_said(completion))))  # pyright: ignore[reportPrivateUsage]
    return rewards


def _said(completion: object) -> tuple[Message, ...]:
    """A completion as the hub's messages; plain text is one assistant message."""
    return (assistant(completion),) if isinstance(completion, str) else as_transcript(completion)


async def _rows(opened: OpenPlan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for each in opened.environments:
        name = each.host.info.name
        async for card in opened.tasks(each):
            if isinstance(card, BadRow):
                continue
            rows.append(
                {
                    **begun(conversation(card.public)),
                    TASK: str(TaskReference(name, card.split, card.public.id)),
                    "environment": name,
                    "source": card.public.source,
                }
            )
    return alike(rows)
