"""Environments with a `Taskset` (verifiers 0.4): tasks and episodes, in the foreign process."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import itertools
from collections.abc import Iterator
from typing import Any

from verifiers.v1 import Env
from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.configs.env import EnvConfig
from verifiers.v1.utils.generic import concrete_type
from verifiers.v1.utils.loaders import environment_class

from rollouthub_servers.verifiers.v1_rollout import SEVERAL, TaskRollout, take_over

_NO_SHELL = "a shell: the library's own agent has one in its box, and an agent here has the task's tools"
_MOST = 1_000_000
_TRIES = 3
_BOX = {"runtime": {"type": "subprocess"}, "harness": {"id": "null"}}


def open_world(given: "dict[str, Any]") -> "LoadedTaskset":
    """Load the environment of a module: its own `Env`, or the library's with one agent."""
    take_over()
    kind = environment_class(given["module"])
    config = concrete_type(kind, EnvConfig, origin=Env) or EnvConfig
    agents = [name for name, field in config.model_fields.items() if isinstance(field.default, AgentConfig)]
    settings = {"taskset": {"id": given["module"], **given["args"]}, **dict.fromkeys(agents, _BOX)}
    return LoadedTaskset(kind, config, settings, agents)


class LoadedTaskset:
    """One environment; made anew in each session, as it is there that its tasks are loaded."""

    def __init__(self, kind: Any, config: Any, settings: Any, agents: "list[str]") -> None:
        self.agents = agents
        self.env = kind(config.model_validate(settings))
        self._rest: Iterator[Any] | None = None
        self._at = 0

    def describe(self) -> "dict[str, Any]":
        """What it is, and why it cannot be played."""
        taskset = self.env.taskset
        kind = type(taskset).task_type()
        first = next(iter(taskset), None)
        count = None if taskset.INFINITE else sum(1 for _ in itertools.islice(iter(taskset), _MOST))
        toolsets = [*taskset.toolsets(taskset.config), *kind.toolsets(taskset.config.task)]
        reasons = []
        if len(self.agents) > 1:
            reasons.append(f"{SEVERAL}: {', '.join(self.agents)}")
        if kind.NEEDS_CONTAINER or (first is not None and first.data.image):
            reasons.append("its tasks run in containers of their own")
        urls = [toolset.config.url for toolset in toolsets if getattr(toolset.config, "url", None)]
        reasons += [f"its tools are a server elsewhere: {url}" for url in urls]
        tools: list[str] = []
        if first is not None and not reasons:
            tools, reason = self._tried(first)
            reasons += [reason] if reason else []
        return {
            "reasons": reasons,
            "type": type(taskset).__name__,
            "splits": {"tasks": count},
            "judges": sorted(type(judge).__name__ for judge in taskset.config.task.judges),
            "group": False,
            "max_turns": None,
            "tools": tools,
            "unpromised": [_NO_SHELL],
        }

    def _tried(self, task: Any) -> "tuple[list[str], str | None]":
        """Play a task with an agent that says little: its tools, and whether it can be begun by one agent."""
        rollout = self.rollout()
        try:
            seen = rollout.begin(task.data.model_dump(mode="json"))
        except Exception as error:
            return [], f"its first task cannot be begun: {error}"[:400]
        said: list[Any] = []
        try:
            while not rollout.is_over and len(said) < _TRIES:
                said.append({"content": "I do not know."})
                rollout.answer(said[-1])
            rollout.score(said)
        except Exception:  # what else fails may be the answer's fault
            pass
        return sorted(tool["name"] for tool in seen["tools"]), SEVERAL if rollout.is_several else None

    def rows(self, split: str, start: int, count: int) -> "list[str | None]":
        """Some tasks as JSON, one page after the other."""
        if self._rest is None or start != self._at:
            self._rest = itertools.islice(iter(self.env.taskset), start, None)
        found = [task.data.model_dump_json() for task in itertools.islice(self._rest, count)]
        self._at = start + len(found)
        return found

    def rollout(self) -> TaskRollout:
        """One episode, not begun."""
        return TaskRollout(self.env)

    def score_group(self, row: Any, said: Any) -> Any:
        """Nothing here is scored in groups.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError
