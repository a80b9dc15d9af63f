"""τ²-bench's own environments and evaluator, with nothing of the hub: what `tests.foreign.tau2` compares the hub with.

Runs in the virtual environment of an import, as `python tau2_own.py CODE RETRIEVAL JOBS VERDICTS`: a line of jobs is
`{"id", "kind", "domain", "task", "calls", "words"}`, one of verdicts `{"id", "kind", "reward"}`. It is None
where its evaluator fails. The last line holds the CPU time of its own tool calls.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import importlib
import inspect
import json
import sys
import time
import types
from pathlib import Path
from typing import Any

_, CODE, RETRIEVAL, JOBS, VERDICTS = sys.argv


def nothing_for(name: str) -> Any:
    """Whatever is asked of a module that is not installed."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Exception


def stand_in(name: str, **values: object) -> None:
    """Put an empty module where a large one is imported and not used."""
    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module


for bare in ("tau2", "tau2.orchestrator", "tau2.agent", "tau2.agent.base"):
    if Path(CODE, *bare.split(".")).is_dir():
        stand_in(bare, __path__=[str(Path(CODE, *bare.split(".")))])
for absent in ("pandas", "openai", "requests", "tau2.utils.llm_utils", "tau2.evaluator.evaluator_nl_assertions"):
    stand_in(absent, __getattr__=nothing_for)


def constructor(domain: str) -> Any:
    """A domain's own `get_environment`."""
    return importlib.import_module(f"tau2.domains.{domain}.environment").get_environment


stand_in("tau2.registry", registry=types.SimpleNamespace(get_env_constructor=constructor))

from loguru import logger  # noqa: E402

logger.remove()

from tau2.data_model.message import AssistantMessage, ToolCall, UserMessage  # noqa: E402
from tau2.data_model.simulation import SimulationRun, TerminationReason  # noqa: E402
from tau2.data_model.tasks import RewardType, Task  # noqa: E402
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation  # noqa: E402

SPENT = {"calls": 0, "seconds": 0.0}


def reward_of(job: "dict[str, Any]") -> float:
    """Play the calls in its own environment, and have its own evaluator score the conversation."""
    task = Task.model_validate(job["task"])
    task.evaluation_criteria.reward_basis = [
        each for each in task.evaluation_criteria.reward_basis if each != RewardType.NL_ASSERTION
    ]
    make, given = constructor(job["domain"]), {}
    if "retrieval_variant" in inspect.signature(make).parameters:
        given = {"retrieval_variant": RETRIEVAL, "task": task}
        named = [each.arguments.get("agent_tool_name") for each in task.evaluation_criteria.actions or []]
        given["read_log_allowlist"] = {name for name in named if name}
    world, start = make(**given), task.initial_state
    said = list(start.message_history or []) if start is not None else []
    world.set_state(
        initialization_data=start.initialization_data if start is not None else None,
        initialization_actions=start.initialization_actions if start is not None else None,
        message_history=list(said),
    )
    for number, call in enumerate(job["calls"]):
        message = UserMessage if call["requestor"] == "user" else AssistantMessage
        made = ToolCall(id=f"c{number}", **call)
        began = time.process_time()
        answer = world.get_response(made)
        SPENT["seconds"] += time.process_time() - began
        SPENT["calls"] += 1
        said += [message(role=call["requestor"], tool_calls=[made]), answer]
    said += [AssistantMessage(role="assistant", content=job["words"]), UserMessage(role="user", content="###STOP###")]
    run = SimulationRun.model_construct(messages=said, termination_reason=TerminationReason.USER_STOP)
    more = {"env_kwargs": given, "strict_replay": False}
    taken = inspect.signature(evaluate_simulation).parameters
    verdict = evaluate_simulation(
        simulation=run,
        task=task,
        evaluation_type=EvaluationType.ALL,
        solo_mode=False,
        domain=job["domain"],
        **{key: value for key, value in more.items() if key in taken},
    )
    return verdict.reward


def main() -> None:
    """Score every job."""
    with Path(JOBS).open() as jobs, Path(VERDICTS).open("w") as verdicts:
        for line in jobs:
            job = json.loads(line)
            try:
                reward = reward_of(job)
            except ValueError:
                reward = None
            verdicts.write(json.dumps({"id": job["id"], "kind": job["kind"], "reward": reward}) + "\n")
        verdicts.write(json.dumps(SPENT) + "\n")


if __name__ == "__main__":
    main()
