"""Environments with `load_environment` (verifiers up to 0.3): rows, rollouts and rubrics, in the foreign process."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import asyncio
import json
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import verifiers as vf

from rollouthub_servers.verifiers.score_watch import watched
from rollouthub_servers.verifiers.v0_rollout import Rollout, regrouped, verdict

_SANDBOXED = {"SandboxMixin", "SandboxEnv", "BrowserEnv", "OpenEnvEnv", "CliAgentEnv"}


def open_world(given: "dict[str, Any]") -> "LoadedEnv":
    """Load the environment of a module; where no judge is given, a missing key is filled with what opens nothing."""
    while True:
        try:
            return LoadedEnv(vf.load_environment(given["module"], **given["args"]))
        except vf.MissingKeyError as error:
            names = [name for name in error.missing_keys if name not in os.environ]
            if given["judge"] != "none" or not names:
                raise
            os.environ.update(dict.fromkeys(names, "none"))


class LoadedEnv:
    """One environment, loaded."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def describe(self) -> "dict[str, Any]":
        """What it is, and why it cannot be played."""
        envs = all_envs(self.env)
        kinds = {base.__name__ for env in envs for base in type(env).__mro__}
        reasons = []
        if found := kinds & _SANDBOXED:
            reasons.append(
                f"its rollouts run in sandboxes of a service ({min(found)}), which wants a key and a network"
            )
        if not all(isinstance(env, vf.MultiTurnEnv | vf.EnvGroup) for env in envs):
            reasons.append(f"its class {type(self.env).__name__} has a loop of its own, and no turns to play")
        rubrics = [rubric for env in envs for rubric in all_rubrics(env.rubric)]
        most = [env.max_turns for env in envs if getattr(env, "max_turns", -1) > 0]
        return {
            "reasons": reasons,
            "type": type(self.env).__name__,
            "splits": {split: len(rows) for split in ("eval", "train") if (rows := self._dataset(split)) is not None},
            "judges": sorted({type(each).__name__ for each in rubrics if isinstance(each, vf.JudgeRubric)}),
            "group": any(getattr(each, "has_group_rewards", False) for each in rubrics),
            "max_turns": max(most) if len(most) == len(envs) and most else None,
            "tools": sorted({tool.name for env in envs for tool in getattr(env, "tool_defs", None) or ()}),
        }

    def _dataset(self, split: str) -> Any:
        return self.env.build_dataset() if split == "train" else self.env.build_eval_dataset()

    def rows(self, split: str, start: int, count: int) -> "list[str | None]":
        """Some rows as JSON; None for one that is none."""
        dataset = self._dataset(split)
        found: list[str | None] = []
        for number in range(start, min(start + count, len(dataset))):
            try:
                found.append(json.dumps(dataset[number], allow_nan=False))
            except (TypeError, ValueError):
                found.append(None)
        return found

    def rollout(self) -> Rollout:
        """One rollout, not begun, with pools of its own: those of before the fork belong to all sessions or to none."""
        envs = all_envs(self.env)
        for each in (*envs, *(rubric for env in (self.env, *envs) for rubric in all_rubrics(env.rubric))):
            for name, value in list(vars(each).items()):
                if isinstance(value, ProcessPoolExecutor):
                    setattr(each, name, ProcessPoolExecutor(max_workers=1))
                elif isinstance(value, ThreadPoolExecutor):
                    setattr(each, name, ThreadPoolExecutor(max_workers=1))
        return Rollout(self.env, all_envs(self.env))

    def score_group(self, row: "dict[str, Any]", said: "list[list[dict[str, Any]]]") -> "list[dict[str, Any]]":
        """Play each transcript of a task again, and have the rubric score them together."""
        loop = asyncio.new_event_loop()
        states = []
        for messages in said:
            rollout = Rollout(self.env, all_envs(self.env), loop)
            rollout.replay(row, messages)
            states.append(regrouped(rollout.ended(), rollout, messages))
        with watched() as failed:
            loop.run_until_complete(self.env.rubric.score_group(states))
        return [verdict(state, failed) for state in states]


def all_envs(env: Any) -> "list[Any]":
    """An environment, or those that a group is made of."""
    if isinstance(env, vf.EnvGroup):
        return [below for each in env.envs for below in all_envs(each)]
    return [env]


def all_rubrics(rubric: Any) -> "list[Any]":
    """A rubric, or those that a group is made of."""
    below = getattr(rubric, "rubrics", None)
    if below:
        return [rubric, *(each for part in below for each in all_rubrics(part))]
    return [rubric]
