"""The driver: τ²-bench's domains and evaluator, in a process of their own. Imports nothing else of the hub.

Each session is forked, with all domains imported: an episode's databases live and end with its session.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import copy
import gc
import importlib
import inspect
import sys
import types
from pathlib import Path
from typing import Any

from rollouthub_servers.foreign.serving import Session, arguments, serve

_BARE = ("tau2", "tau2.orchestrator", "tau2.agent", "tau2.agent.base", "tau2.user")
"""Packages whose own modules are imported, and not what their beginning imports besides: runners, voices, models."""
_READY = 5
"""A session that rehearses makes so many, and others fewer."""
_HUBS = frozenset({"get_task", "submit", "reply", "listen"})


class _Nothing(Exception):
    """What a module that stands in gives for a name, be it called or caught."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("no model, and no network, is asked here")


def _nothing_for(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Nothing


def _stand_in(name: str, **values: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module


def _prepare_imports(code: Path) -> None:
    for name in _BARE:
        folder = code.joinpath(*name.split("."))
        if folder.is_dir():
            _stand_in(name, __path__=[str(folder)])
    _stand_in("pandas", DataFrame=_Nothing)
    for name in ("openai", "requests"):
        _stand_in(name, __getattr__=_nothing_for)
    _stand_in("tau2.utils.llm_utils", generate=_Nothing)
    # Assertions in words are for the hub's judge.
    nothing = dict.fromkeys(("NLAssertionsEvaluator", "FullDuplexNLAssertionsEvaluator"), _Nothing)
    _stand_in("tau2.evaluator.evaluator_nl_assertions", **nothing)
    registry = types.SimpleNamespace(get_env_constructor=lambda domain: lambda **given: DOMAINS[domain].fresh(given))
    _stand_in("tau2.registry", registry=registry)


class Domain:
    """One domain; a session, which is a process, finds as many fresh environments ready as a verdict takes."""

    def __init__(self, name: str, retrieval: str) -> None:
        self._make = importlib.import_module(f"tau2.domains.{name}.environment").get_environment
        self._takes = inspect.signature(self._make).parameters
        self._retrieval = retrieval
        self._is_plain = "retrieval_variant" not in self._takes
        self._ready = [self._make() for _ in range(_READY)] if self._is_plain else []
        if not self._is_plain and retrieval != "golden_retrieval":
            self._make(retrieval_variant=retrieval)  # what that imports is there for every session

    def settings(self, task: Any) -> "dict[str, Any]":
        """What its environment is made with for a task, as τ²-bench's own runner does it."""
        found: dict[str, Any] = {}
        if not self._is_plain:
            found |= {"retrieval_variant": self._retrieval, "task": task}
        if "read_log_allowlist" in self._takes:
            actions = (task.evaluation_criteria and task.evaluation_criteria.actions) or []
            named = [each.arguments.get("agent_tool_name") for each in actions if "discoverable" in each.name]
            found["read_log_allowlist"] = {name for name in named if name}
        return found

    def fresh(self, given: "dict[str, Any]") -> Any:
        """Return an environment that no call has changed."""
        given = {key: value for key, value in given.items() if key != "solo_mode"}
        return self._ready.pop() if self._ready and not given else self._make(**given)


class Tau2Episode:
    """One session: an episode's environment and its evaluation."""

    def __init__(self) -> None:
        self._world: Any = None

    def open(self, domain: str, task: "dict[str, Any]") -> "dict[str, Any]":
        """Begin a task. Returns the agent's and the user's system prompts and tools, and the messages that the task
        begins with.
        """
        found = Task.model_validate(task)
        world = self._world = DOMAINS[domain].fresh(DOMAINS[domain].settings(found))
        start = found.initial_state
        history = list(start.message_history or []) if start is not None else []
        world.set_state(
            initialization_data=start.initialization_data if start is not None else None,
            initialization_actions=start.initialization_actions if start is not None else None,
            message_history=copy.deepcopy(history),
        )
        users: list[Any] = []
        if world.user_tools is not None:
            # Checkouts before tasks chose among a user's tools take no `include`.
            chosen = getattr(found, "user_tools", None)
            users = world.get_user_tools() if chosen is None else world.get_user_tools(include=chosen)
        person = UserSimulator(llm="", instructions=str(found.user_scenario), tools=users or None)
        prompt = AGENT_PROMPT.format(domain_policy=world.get_policy(), agent_instruction=AGENT_INSTRUCTION)
        return {
            "agent": prompt,
            "user": person.system_prompt,
            "tools": [tool.openai_schema["function"] for tool in world.get_tools()],
            "user_tools": [tool.openai_schema["function"] for tool in users],
            "history": [_plain(message) for message in history],
        }

    def call(self, name: str, given: "dict[str, Any]", requestor: str) -> "dict[str, Any]":
        """Return a tool's answer, or the error message that τ²-bench shows a model."""
        call = ToolCall(id="", name=name, arguments=given, requestor=requestor)
        answer = self._world.get_response(call)
        return {"text": answer.content or "", "error": bool(answer.error)}

    def check(self, domain: str, task: "dict[str, Any]", said: "list[dict[str, Any]]") -> "dict[str, Any]":
        """The verdict of its own evaluator on a conversation that the user ended, but for assertions in words."""
        found = Task.model_validate(task)
        criteria = found.evaluation_criteria
        if criteria is not None:
            words = RewardType.NL_ASSERTION
            criteria.reward_basis = [each for each in criteria.reward_basis if each != words]
        run = SimulationRun.model_construct(
            messages=[_READ[each["role"]].model_validate(each) for each in said],
            termination_reason=TerminationReason.USER_STOP,
        )
        # A tool may answer differently the second time; what it does to the databases is what counts.
        more = {"strict_replay": False, "env_kwargs": DOMAINS[domain].settings(found)}
        taken = inspect.signature(evaluate_simulation).parameters
        verdict = evaluate_simulation(
            simulation=run,
            task=found,
            evaluation_type=EvaluationType.ALL,
            solo_mode=False,
            domain=domain,
            **{key: value for key, value in more.items() if key in taken},
        )
        parts = {key.value: value for key, value in (verdict.reward_breakdown or {}).items()}
        return {"reward": verdict.reward, "parts": parts}

    def rehearse(self, domain: str, task: "dict[str, Any]") -> "dict[str, Any]":
        """At an import: whether the hub can offer a task's tools, and whether the task's own actions earn 1."""
        told = self.open(domain, task)
        taken = sorted(_HUBS.intersection(tool["name"] for tool in told["tools"]))
        said: list[dict[str, Any]] = list(told["history"])
        criteria = Task.model_validate(task).evaluation_criteria
        for number, action in enumerate((criteria and criteria.actions) or []):
            call = {"name": action.name, "arguments": action.arguments, "requestor": action.requestor}
            answer = self.call(action.name, action.arguments, action.requestor)
            told_so = {"content": answer["text"], "requestor": action.requestor, "error": answer["error"]}
            said.append({"role": action.requestor, "tool_calls": [{**call, "id": f"gold_{number}"}]})
            said.append({"role": "tool", "id": f"gold_{number}", **told_so})
        said.append({"role": "assistant", "content": " ".join((criteria and criteria.communicate_info) or ["."])})
        try:
            verdict = self.check(domain, task, said)
            why = (
                None if verdict["reward"] == 1.0 else f"its own actions earn {verdict['reward']:g}: {verdict['parts']}"
            )
        except Exception as error:
            why = f"its evaluator fails at its own actions: {error!r}"[:500]
        refused = f"its tool {taken[0]!r} has the name of one of the hub's own" if taken else None
        return {"why": why, "refused": refused}


def _plain(message: Any) -> "dict[str, Any]":
    return message.model_dump(mode="json", exclude_none=True, exclude={"timestamp", "turn_idx", "raw_data"})


def open_session() -> Session:
    """Return a session's functions."""
    episode = Tau2Episode()
    return {"open": episode.open, "call": episode.call, "check": episode.check, "rehearse": episode.rehearse}


DOMAINS: "dict[str, Domain]" = {}

if __name__ == "__main__":
    told = arguments()
    _prepare_imports(Path(told["code"]))
    from loguru import logger

    logger.remove()
    from tau2.agent.llm_agent import AGENT_INSTRUCTION
    from tau2.agent.llm_agent import SYSTEM_PROMPT as AGENT_PROMPT
    from tau2.data_model.message import AssistantMessage, ToolCall, ToolMessage, UserMessage
    from tau2.data_model.simulation import SimulationRun, TerminationReason
    from tau2.data_model.tasks import RewardType, Task
    from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
    from tau2.user.user_simulator import UserSimulator

    _READ = {"assistant": AssistantMessage, "user": UserMessage, "tool": ToolMessage}
    for domain in told["domains"]:
        DOMAINS[domain] = Domain(domain, told["retrieval"])
    gc.freeze()
    serve(open_session, forked_seconds=float(told["seconds"]))
