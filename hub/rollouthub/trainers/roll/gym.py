"""`HubGemEnv`: an episode of the hub as a Gym-style environment (GEM) with `reset` and `step`."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from rollouthub.export import one_reward
from rollouthub.generation import ModelRequest
from rollouthub.messages import Message
from rollouthub.models.direct.chat_wire import WireMessage, encode_tools, from_wire, to_wire
from rollouthub.models.tokens.token_model import named
from rollouthub.models.tokens.tool_text import find_tool_parser
from rollouthub.rollout import Rollout, Stop
from rollouthub.trainers.roll.play import metrics_of, stage, why_unscored
from rollouthub.trainers.roll.steps import SteppedEpisode
from rollouthub.trainers.systems import system_module

_MARKS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>")
_TOO_LONG = "MAX_LENGTH"

Step = tuple[list[dict[str, Any]], float, bool, bool, dict[str, Any]]


class HubGem:
    """The environment's methods, independent of GEM's base class."""

    def __init__(
        self,
        environment: str | None = None,
        split: str | None = None,
        settings: str | None = None,
        max_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Play tasks of an environment. `settings` is a TOML file's path; default: the file that `ROLLOUTHUB_TRAINING`
        names.

        Raises:
            ConfigError: a setting is invalid.
        """
        self._stage = stage(settings)
        self._environment, self._split, self._max_steps = environment, split, max_steps
        self._parse = find_tool_parser(self._stage.settings.training.tool_parser)
        self._episode: SteppedEpisode | None = None
        self._request: ModelRequest | None = None
        self._seed = 0
        self.current_step = 0
        self.env_reset_failed = False
        self.env_timeout = False
        self.env_info: dict[str, Any] = {}

    def reset(self, seed: int | None = None) -> tuple[list[dict[str, Any]] | None, dict[str, Any]]:
        """Start the episode of a seed. Returns the conversation so far, and its tools; None for the conversation if
        the environment has no tasks.
        """
        self.close()
        self._seed = self._seed + 1 if seed is None else seed
        self.current_step, self.env_reset_failed, self.env_timeout = 0, False, False
        task = self._stage.task(self._seed, self._environment, self._split)
        if task is None:
            return None, {"tools": []}
        self.env_info = {"environment": task.environment, "split": task.split, "task_id": task.task_id}
        self._episode = SteppedEpisode(self._stage, task, self._seed)
        event = self._episode.next()
        if isinstance(event, Rollout):
            self.env_reset_failed = True
            problem = why_unscored(event) or "the episode was over before it began"
            return [], {"tools": [], "failure_mode": problem, "error_msg": problem}
        self._request = event
        return messages_of(event), {"tools": tools_of(event), "env_instruction": ""}

    def step(self, action: Any) -> Step:
        """Take an action: the policy's text, or an assistant message in OpenAI's format. Both may call tools.

        ROLL passes a stop reason instead of an action to end the episode. If the reason is the length limit, the
        episode is scored; otherwise it is abandoned.
        """
        episode, request = self._episode, self._request
        if episode is None or request is None:
            raise RuntimeError("no episode is under way; reset the environment first")
        self.current_step += 1
        if isinstance(action, str):
            episode.answer(self._spoken(action, request))
        elif isinstance(action, Mapping):
            written = msgspec.convert({**cast(Mapping[str, Any], action), "role": "assistant"}, WireMessage)
            episode.answer(from_wire(written, {}))
        elif getattr(action, "name", "") == _TOO_LONG:
            episode.stop_for_length()
        else:
            episode.abandon()
        event = episode.next()
        if isinstance(event, ModelRequest) and self._max_steps is not None and self.current_step >= self._max_steps:
            # ROLL leaves it to the environment to end after its own limit of steps.
            episode.stop_for_length()
            event = episode.next()
        if isinstance(event, ModelRequest):
            self._request = event
            return messages_of(event), 0.0, False, False, {"metrics": {}, "tools": tools_of(event)}
        self._episode = self._request = None
        return self._over(request, event)

    def _over(self, request: ModelRequest, rollout: Rollout) -> Step:
        """The last step, whose reward is the verifier's. If the episode is unscored, the reward is 0 and
        `failure_mode` says why.
        """
        said = [*messages_of(request), *(wired(turn.response) for turn in rollout.turns[-1:])]
        problem = why_unscored(rollout)
        info: dict[str, Any] = {"metrics": metrics_of(rollout), "rollout_id": rollout.rollout_id}
        if problem is not None:
            return said, 0.0, True, True, {**info, "failure_mode": problem, "error_messages": [problem]}
        is_truncated = rollout.stop not in (Stop.FINISHED, Stop.SUBMITTED)
        return said, one_reward(rollout), True, is_truncated, info

    def _spoken(self, action: str, request: ModelRequest) -> Message:
        for mark in _MARKS:
            action = action.removesuffix("\n").removesuffix(mark)
        spoken = self._parse(action, request.tools)
        message = Message(role="assistant", content=spoken.words, tool_requests=tuple(spoken.requests))
        return named(message, len(request.messages))

    def close(self) -> None:
        """Abandon the running episode, if any, without scoring it."""
        if self._episode is not None:
            self._episode.abandon()
        self._episode = self._request = None


def messages_of(request: ModelRequest) -> list[dict[str, Any]]:
    """The conversation as chat messages, which ROLL's templates take."""
    return [wired(message, request.media) for message in request.messages]


def wired(message: Message, media: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """A message in OpenAI's format."""
    return msgspec.to_builtins(to_wire(message, media or {}, with_reasoning=False))


def tools_of(request: ModelRequest) -> list[dict[str, Any]]:
    """The tools in OpenAI's format."""
    return msgspec.json.decode(encode_tools(request.tools))


def gem_env() -> Any:
    """Create `HubGemEnv` as a subclass of GEM's `Env`."""
    base: Any = system_module("gem").Env
    return type("HubGemEnv", (HubGem, base), {"__doc__": HubGem.__doc__, "__module__": "rollouthub.trainers.roll"})
