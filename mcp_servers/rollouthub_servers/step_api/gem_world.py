"""GEM's environments: words in, words out, a reward at each step."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from rollouthub_servers.step_api.world import Unplayable, text

gem: Any = importlib.import_module("gem")  # of the foreign environment
REGISTRY: Mapping[str, Any] = importlib.import_module("gem.envs.registration").ENV_REGISTRY
_END = "<｜TERMINAL_STATE｜>"
_PROMPT = (
    "You are in the environment {id}. Act with the tool `step`: its `action` is your answer or your next move, in the \
form that is asked for, such as \\boxed{{…}}. It answers with what comes next."
)


class GemWorld:
    """One GEM environment; sums up its rewards."""

    def __init__(self) -> None:
        self.environment: Any = None
        self.earned = 0.0

    def ids(self) -> Sequence[str]:
        """Every id of the registry."""
        return list(REGISTRY)

    def entries(self, ids: Sequence[str]) -> Sequence[Any]:
        """The entry points of these ids."""
        return [REGISTRY[id].entry_point for id in ids or REGISTRY]

    def describe(self, id: str, players: int | None) -> dict[str, Any]:
        """Reset the environment, to examine it."""
        if players not in (None, 1):
            raise Unplayable(f"it has one player, not {players}")
        turn = self.reset(id, 0, 1)
        schema = {"action": {"type": "string", "description": "Your answer or move."}}
        return {"players": 1, "prompt": _PROMPT.format(id=id), "arguments": schema, "opening": turn}

    def reset(self, id: str, seed: int, players: int) -> dict[str, Any]:
        """Reset the environment."""
        self.environment, self.earned = gem.make(id), 0.0
        observation, notes = self.environment.reset(seed=seed)
        return self._turn(observation, notes, is_over=False)

    def step(self, action: str) -> dict[str, Any]:
        """Perform an action."""
        observation, reward, terminated, truncated, notes = self.environment.step(action)
        self.earned += float(reward)
        return self._turn(observation, notes, is_over=bool(terminated or truncated))

    def _turn(self, observation: Any, notes: Mapping[str, Any], *, is_over: bool) -> dict[str, Any]:
        """Of what stands beside an observation, an agent is shown what its own wrappers show: prefix and suffix."""
        if not isinstance(observation, str):
            raise TypeError(f"an observation is a {type(observation).__name__}, and only words are shown")
        parts = (notes.get("prefix", ""), observation, notes.get("suffix", ""))
        words = "\n".join(part.strip("\n") for part in parts if part and part != _END)
        return {"seat": None if is_over else 0, "shown": text(words), "over": is_over, "rewards": [self.earned]}


def open_world(settings: Mapping[str, Any]) -> GemWorld:
    """Return the world; GEM takes no settings."""
    return GemWorld()
