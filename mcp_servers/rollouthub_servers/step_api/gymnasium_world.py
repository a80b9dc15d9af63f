"""Gymnasium's environments: actions of a space in, observations of a space out, a reward at each step."""

import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from rollouthub_servers.step_api.spaces import action_of, picture, schema_of, shown
from rollouthub_servers.step_api.world import Shown, Unplayable, text

gymnasium: Any = importlib.import_module("gymnasium")  # of the foreign environment
_MODES = {"none": None, "text": "ansi", "picture": "rgb_array"}
_SECTIONS = ("description", "action space", "observation space", "starting state", "rewards", "episode end")
_MOST_WORDS = 12_000
_COLOURED = re.compile(r"\x1b\[[0-9;]*m(.*?)\x1b\[0m")
_MOST_ACTIONS = 24
_TAKEN = frozenset(("get_task", "submit", "reply", "listen", "step"))
_CARDINAL = ("left", "down", "right", "up")
_ACTIONS: Mapping[str, Sequence[str]] = {
    "CartPole": ("push_left", "push_right"),
    "MountainCar": ("accelerate_left", "do_nothing", "accelerate_right"),
    "Acrobot": ("torque_minus_one", "torque_zero", "torque_plus_one"),
    "Blackjack": ("stick", "hit"),
    "FrozenLake": _CARDINAL,
    "FrozenLake8x8": _CARDINAL,
    "CliffWalking": ("up", "right", "down", "left"),
    "CliffWalkingSlippery": ("up", "right", "down", "left"),
    "Taxi": ("down", "up", "right", "left", "pick_up", "drop_off"),
    "LunarLander": ("do_nothing", "fire_left_engine", "fire_main_engine", "fire_right_engine"),
}
"""What the documentation of Gymnasium's own environments calls their actions; others say it themselves."""


class GymnasiumWorld:
    """One Gymnasium environment; sums up its rewards."""

    def __init__(self, render: str) -> None:
        self.mode = _MODES[render]
        self.environment: Any = None
        self.earned = 0.0

    def ids(self) -> Sequence[str]:
        """Every id of the registry."""
        return list(gymnasium.registry)

    def entries(self, ids: Sequence[str]) -> Sequence[Any]:
        """The entry points of these ids."""
        return [gymnasium.registry[id].entry_point for id in ids or gymnasium.registry]

    def describe(self, id: str, players: int | None) -> dict[str, Any]:
        """Reset the environment, to examine it."""
        if players not in (None, 1):
            raise Unplayable(f"it has one player, not {players}")
        turn = self.reset(id, 0, 1)
        space, own = self.environment.action_space, self.environment.unwrapped
        actions = _named(id, own, space)
        told = {"actions": actions} if actions else {"arguments": {"action": schema_of(space)}}
        return {"players": 1, "prompt": _prompt(id, own, actions), **told, "opening": turn}

    def reset(self, id: str, seed: int, players: int) -> dict[str, Any]:
        """Reset the environment."""
        spec = gymnasium.registry[id]
        self.environment, self.earned = gymnasium.make(spec, render_mode=self.mode), 0.0
        modes = self.environment.metadata.get("render_modes", ())
        if self.mode is not None and self.mode not in modes:
            raise Unplayable(f"it is not drawn as {self.mode!r}; it has {', '.join(map(str, modes)) or 'no'} modes")
        observation, _ = self.environment.reset(seed=seed)
        return self._turn(observation, is_over=False)

    def step(self, action: Any) -> dict[str, Any]:
        """Perform an action."""
        taken = action_of(self.environment.action_space, action)
        observation, reward, terminated, truncated, _ = self.environment.step(taken)
        self.earned += float(reward)
        return self._turn(observation, is_over=bool(terminated or truncated))

    def _turn(self, observation: Any, *, is_over: bool) -> dict[str, Any]:
        parts = [*shown(observation), *self._drawn()]
        return {"seat": None if is_over else 0, "shown": parts, "over": is_over, "rewards": [self.earned]}

    def _drawn(self) -> Shown:
        if self.mode is None:
            return []
        drawn = self.environment.render()
        return [picture(drawn)] if self.mode == "rgb_array" else text(_COLOURED.sub(r"[\1]", str(drawn)))


def _named(id: str, own: Any, space: Any) -> dict[str, int] | None:
    """The tools of a discrete space whose actions have names, each with its number."""
    if not isinstance(space, gymnasium.spaces.Discrete) or space.n > _MOST_ACTIONS:
        return None
    meanings: Any = getattr(own, "get_action_meanings", None)
    members = getattr(getattr(own, "actions", None), "__members__", None)
    if callable(meanings):
        given: Sequence[Any] = cast("Sequence[Any]", meanings())
    elif members:
        given = [name for name, _ in sorted(members.items(), key=lambda member: int(member[1]))]
    else:
        given = _ACTIONS.get(id.rpartition("-v")[0], ())
    names = [re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_") for name in given]
    is_clear = len(names) == space.n == len(set(names)) and all(names) and not _TAKEN.intersection(names)
    return {name: int(space.start) + place for place, name in enumerate(names)} if is_clear else None


def _prompt(id: str, own: Any, actions: Mapping[str, int] | None) -> str:
    how = "with its tools, one for each action" if actions else "with the tool `step`"
    about = _about(type(own).__doc__ or "")
    return f"You act in the environment {id} {how}; each answers with what you observe next.\n\n{about}".strip()


def _about(docstring: str) -> str:
    """What its author says of the world, without its history, its arguments and papers."""
    lines = [line.strip() for line in docstring.strip().splitlines()]
    kept: list[str] = []
    is_kept = True
    for line in lines:
        if line.startswith("#"):
            is_kept = line.lstrip("# ").lower() in _SECTIONS
        if is_kept:
            kept.append(line)
    return "\n".join(kept).strip()[:_MOST_WORDS]


def open_world(settings: Mapping[str, Any]) -> GymnasiumWorld:
    """Return the world; `render` is what is rendered beside an observation."""
    return GymnasiumWorld(settings.get("render", "none"))
