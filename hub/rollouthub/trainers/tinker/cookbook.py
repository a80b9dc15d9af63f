"""Episodes of the hub as environments of tinker-cookbook, whose own loop samples and learns.

The hub plays each episode, and where it would ask a model it waits for the cookbook's action: token ids out and in.
Read in tinker-cookbook 0.5.8: `rl/types.py`, `rl/rollouts.py`, `tokenizer_utils.py`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import anyio.to_thread

from rollouthub.errors import ModelError, SupplyError
from rollouthub.export import NotTrainable, one_reward, why_refused
from rollouthub.generation import Sampling
from rollouthub.models.tokens import Sampled
from rollouthub.rollout import Rollout, Stop
from rollouthub.trainers.stream import SampleRequest
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS, ThreadWorker
from rollouthub.trainers.workers.worker_settings import read_settings

_SLOT = "rollouthub_env"
"""Key in a request's sampling settings for the environment that waits for it."""
_STOPS = {
    Stop.FINISHED: "completed",
    Stop.SUBMITTED: "tool_stopped",
    Stop.TURN_LIMIT: "max_turns",
    Stop.TOKEN_LIMIT: "max_tokens",
    Stop.CONTEXT_LIMIT: "context_overflow",
    Stop.TIME_LIMIT: "rollout_timeout",
}
"""Reasons that the cookbook has a name for."""
_open: dict[str, "HubTurns"] = {}
"""The environments of this process whose episodes are under way."""


class EnvEngine:
    """A `TokenEngine` whose answers are the actions that the cookbook gives to its environments."""

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Show the prompt as an observation, and wait for the action.

        Raises:
            ModelError: the conversation shows pictures, or its environment was cleaned up.
        """
        if media:
            raise ModelError("tinker-cookbook is handed token ids alone, no pictures or sounds", retryable=False)
        env = _open.get(str(sampling.extra.get(_SLOT)))
        if env is None:
            raise ModelError("tinker-cookbook has given up this episode", retryable=False)
        return await env.ask(prompt_ids)


@dataclass(frozen=True)
class Played:
    """What is played, in a form that can be sent to another process."""

    settings: str
    """A TOML file of a run's settings and a table `training`."""
    model_name: str
    """Whose tokenizer and chat template are used, as the cookbook names models."""

    async def worker(self) -> ThreadWorker:
        """This process's worker for these settings; opened at the first call.

        Raises:
            UsageError: as `rollout_worker`.
        """
        return await anyio.to_thread.run_sync(self.opened)

    def opened(self) -> ThreadWorker:
        """As `worker`; blocks until it is open."""
        found = read_settings(self.settings)
        policy = found.token_model(f"tinker/{self.model_name}", EnvEngine(), self.tokenizer())
        return THREAD_WORKERS.get(f"tinker-cookbook:{self}", lambda: found.worker("tinker-cookbook", policy))

    def tokenizer(self) -> Any:
        """The model's tokenizer, as the cookbook loads it."""
        return system_module("tinker_cookbook.tokenizer_utils").get_tokenizer(self.model_name)


class HubTurns:
    """The methods of `HubEnv`, without the cookbook's base class: one episode."""

    def __init__(self, played: Played, wanted: SampleRequest) -> None:
        self._played, self._id = played, uuid4().hex
        self._wanted = replace(wanted, sampling=Sampling(extra={_SLOT: self._id}))
        self._asked: Future[list[int]] = Future()
        self._answered: Future[Sampled] = Future()
        self._playing: Future[Rollout] | None = None
        self._ended: asyncio.Future[Rollout] | None = None

    async def initial_observation(self) -> tuple[Any, list[int]]:
        """Begin the episode. Returns its first prompt, and the token that ends an answer.

        Raises:
            SupplyError: the episode was over before it asked for an answer.
            UsageError: as `rollout_worker`, and there is no such task.
        """
        worker = await self._played.worker()
        _open[self._id] = self
        self._playing = worker.begin(self._wanted)
        self._ended = asyncio.wrap_future(self._playing)
        prompt = await self._next()
        if isinstance(prompt, Rollout):
            raise SupplyError(f"{prompt.rollout_id} was over before it asked for an answer: {prompt.outcome.value}")
        return _model_input(prompt), self._stop()

    async def step(self, action: list[int], *, extra: Mapping[str, Any] | None = None) -> Any:
        """Take the action's ids; returns the next prompt, or at the end the verifier's reward.

        Raises:
            NotTrainable: the rollout is unscored, or must not be trained on. It is never a reward of 0.
        """
        self._asked = Future[list[int]]()
        self._answered.set_result(Sampled(list(action), None, (extra or {}).get("stop_reason") or "stop"))
        event, results = await self._next(), system_module("tinker_cookbook.rl.types").StepResult
        if not isinstance(event, Rollout):
            return results(0.0, False, _model_input(event), self._stop())
        if (refused := why_refused(event, "text")) is not None:
            raise NotTrainable(refused)
        return results(
            one_reward(event), True, _model_input(()), [], {f"stop/{_STOPS.get(event.stop, event.stop)}": 1.0}
        )

    async def ask(self, prompt_ids: Sequence[int]) -> Sampled:
        """The action on a prompt; called in the worker's event loop."""
        self._answered = Future[Sampled]()
        self._asked.set_result(list(prompt_ids))
        return await asyncio.wrap_future(self._answered)

    def give_up(self) -> None:
        """Break the episode off if it is not over."""
        _open.pop(self._id, None)
        if self._playing is not None:
            self._playing.cancel()

    async def _next(self) -> list[int] | Rollout:
        assert self._ended is not None
        asked = asyncio.wrap_future(self._asked)
        await asyncio.wait((asked, self._ended), return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        _open.pop(self._id, None)
        return self._ended.result()

    def _stop(self) -> list[int]:
        return [self._played.tokenizer().eos_token_id]


def _model_input(token_ids: Sequence[int]) -> Any:
    return system_module("tinker").ModelInput.from_ints(list(token_ids))
