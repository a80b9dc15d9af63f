"""`HubGemEnv`: an episode of the hub's as a Gym-style environment (GEM), acted in step by step."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from rollouthub.messages import Message
from rollouthub.models.direct.chat_wire import WireMessage, encode_tools, from_wire, to_wire
from rollouthub.models.tokens.token_model import named
from rollouthub.models.tokens.tool_text import find_tool_parser
from rollouthub.protocols import ModelRequest
from rollouthub.rollout import Rollout, Stop
from rollouthub.trainers.roll.play import metrics_of, stage, why_unscored
from rollouthub.trainers.roll.steps import SteppedEpisode
from rollouthub.trainers.systems import system_module

_MARKS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>")
_TOO_LONG = "MAX_LENGTH"

Step = tuple[list[dict[str, Any]], float, bool, bool, dict[str, Any]]


class HubGem:
    """What the environment does, whatever it derives from."""

    def __init__(
        self,
        environment: str | None = None,
        split: str | None = None,
        settings: str | None = None,
        max_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Play tasks of an environment; `settings` is a file, in place of the one `ROLLOUTHUB_TRAINING` names.

        Raises:
            ConfigError: the settings do not hold.
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
        """Begin the episode of a seed: the conversation so far, and its tools; None where there is no task."""
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
        """Say something, or call tools: text as the policy wrote it, or an assistant's message of the OpenAI wire.

        What ROLL gives in place of an action, a reason to stop, ends the episode; it is scored where the length was
        the reason.
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
        """The last step: the verdict is its reward. Without one, `failure_mode` says why, and the reward is none."""
        said = [*messages_of(request), *(wired(turn.response) for turn in rollout.turns[-1:])]
        problem = why_unscored(rollout)
        info: dict[str, Any] = {"metrics": metrics_of(rollout), "rollout_id": rollout.rollout_id}
        if problem is not None:
            return said, 0.0, True, True, {**info, "failure_mode": problem, "error_messages": [problem]}
        assert rollout.reward is not None
        is_truncated = rollout.stop not in (Stop.FINISHED, Stop.SUBMITTED)
        return said, rollout.reward, True, is_truncated, info

    def _spoken(self, action: str, request: ModelRequest) -> Message:
        for mark in _MARKS:
            action = action.removesuffix("\n").removesuffix(mark)
        spoken = self._parse(action, request.tools)
        message = Message(role="assistant", content=spoken.words, tool_requests=tuple(spoken.requests))
        return named(message, len(request.messages))

    def close(self) -> None:
        """Leave the episode that is under way; it is not scored."""
        if self._episode is not None:
            self._episode.abandon()
        self._episode = self._request = None


def messages_of(request: ModelRequest) -> list[dict[str, Any]]:
    """The conversation, as ROLL's templates take it."""
    return [wired(message, request.media) for message in request.messages]


def wired(message: Message, media: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """A message of the OpenAI wire."""
    return msgspec.to_builtins(to_wire(message, media or {}, with_reasoning=False))


def tools_of(request: ModelRequest) -> list[dict[str, Any]]:
    """The tools, as the OpenAI wire has them."""
    return msgspec.json.decode(encode_tools(request.tools))


def gem_env() -> Any:
    """The class, over GEM's own base class."""
    base: Any = system_module("gem").Env
    return type("HubGemEnv", (HubGem, base), {"__doc__": HubGem.__doc__, "__module__": "rollouthub.trainers.roll"})
