"""A checkout of τ²-bench's shape, written by the test: one domain, with a tool for each thing that may go wrong."""

import json
from pathlib import Path
from typing import Any

CANARY = "canary-51f0"
LOGURU = "class logger:\n    remove = staticmethod(lambda: None)\n"
"""Which every checkout imports, and the tests' own interpreter may lack."""
_MODELS = """
from typing import Any, Optional
from pydantic import BaseModel
class ToolCall(BaseModel):
    id: str = ""
    name: str
    arguments: dict
    requestor: str = "assistant"
class Said(BaseModel):
    role: str
    content: Optional[str] = None
    tool_calls: Optional[list[ToolCall]] = None
class AssistantMessage(Said): pass
class UserMessage(Said): pass
class ToolMessage(BaseModel):
    id: str
    role: str = "tool"
    content: Optional[str] = None
    requestor: str = "assistant"
    error: bool = False
"""
_TASKS = """
from enum import Enum
from typing import Any, Optional
from pydantic import BaseModel
from tau2.data_model.message import AssistantMessage, ToolMessage, UserMessage
class RewardType(str, Enum):
    DB = "DB"
    COMMUNICATE = "COMMUNICATE"
    NL_ASSERTION = "NL_ASSERTION"
class Action(BaseModel):
    name: str
    arguments: dict
    requestor: str = "assistant"
class Criteria(BaseModel):
    actions: Optional[list[Action]] = None
    communicate_info: Optional[list[str]] = None
    nl_assertions: Optional[list[str]] = None
    reward_basis: list[RewardType] = [RewardType.DB, RewardType.COMMUNICATE]
class Start(BaseModel):
    initialization_data: Any = None
    initialization_actions: Any = None
    message_history: Optional[list[UserMessage | AssistantMessage | ToolMessage]] = None
class Task(BaseModel):
    id: str
    user_scenario: dict
    initial_state: Optional[Start] = None
    evaluation_criteria: Optional[Criteria] = None
"""
_SIMULATION = """
from enum import Enum
from typing import Any
from pydantic import BaseModel
class TerminationReason(str, Enum):
    USER_STOP = "user_stop"
class SimulationRun(BaseModel):
    messages: list[Any]
    termination_reason: TerminationReason
"""
_EVALUATOR = """
from enum import Enum
from types import SimpleNamespace
from tau2.data_model.tasks import RewardType
from tau2.registry import registry
class EvaluationType(str, Enum):
    ALL = "all"
def evaluate_simulation(simulation, task, evaluation_type, solo_mode, domain, env_kwargs=None, strict_replay=True):
    make, criteria = registry.get_env_constructor(domain), task.evaluation_criteria
    seen, gold = make(solo_mode=solo_mode, **env_kwargs), make(**env_kwargs)
    for message in simulation.messages:
        for call in getattr(message, "tool_calls", None) or ():
            seen.get_response(call)
    for action in criteria.actions or ():
        gold.get_response(SimpleNamespace(id="", **action.model_dump()))
    parts = {}
    if RewardType.DB in criteria.reward_basis:
        parts[RewardType.DB] = float(seen.db == gold.db)
    if RewardType.COMMUNICATE in criteria.reward_basis:
        said = " ".join(m.content or "" for m in simulation.messages if m.role == "assistant")
        parts[RewardType.COMMUNICATE] = float(all(info in said for info in criteria.communicate_info or ()))
    reward = 1.0
    for value in parts.values():
        reward *= value
    return SimpleNamespace(reward=reward, reward_breakdown=parts)
"""
_DOMAIN = """
import os, signal, stat
from contextlib import suppress
from types import SimpleNamespace
from tau2.data_model.message import ToolMessage
OURS, THEIRS = ("set", "verify", "check", "hang", "die", "fail", "garble"), ("press",)
def tool(name):
    schema = {"type": "object", "properties": {"key": {"type": "string"}}}
    return SimpleNamespace(openai_schema={"function": {"name": name, "description": name, "parameters": schema}})
class Desk:
    def __init__(self):
        self.db, self.user_tools = {"calls": []}, True
    def get_policy(self):
        return "Be kind."
    def get_tools(self):
        return [tool(name) for name in OURS]
    def get_user_tools(self, include=None):
        return [tool(name) for name in THEIRS if include is None or name in include]
    def set_state(self, initialization_data, initialization_actions, message_history, strict=True):
        pass
    def get_response(self, call):
        words, error = "", False
        while call.name == "hang":
            pass
        for number in os.listdir("/proc/self/fd") if call.name == "garble" else ():
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(int(number)).st_mode):
                    os.write(int(number), b"what?\\n")
        if call.name == "die":
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        if call.name not in (THEIRS if call.requestor == "user" else OURS) or call.name == "fail":
            words, error = "Error: no", True
        else:
            self.db["calls"].append([call.requestor, call.name, call.arguments])
            words = f"done: {len(self.db['calls'])}"
        return ToolMessage(id=call.id, content=words, requestor=call.requestor, error=error)
def get_environment(solo_mode=False):
    return Desk()
"""
_USER = """
class UserSimulator:
    def __init__(self, llm, instructions=None, tools=None):
        self.system_prompt = f"You play: {instructions}"
"""
_FILES = {
    "tau2/__init__.py": "raise ImportError('its beginning imports voices and models')\n",
    "tau2/agent/__init__.py": "raise ImportError('so does this one')\n",
    "tau2/agent/llm_agent.py": "AGENT_INSTRUCTION = 'Help.'\nSYSTEM_PROMPT = '{agent_instruction} {domain_policy}'\n",
    "tau2/user/user_simulator.py": _USER,
    "tau2/data_model/message.py": _MODELS,
    "tau2/data_model/tasks.py": _TASKS,
    "tau2/data_model/simulation.py": _SIMULATION,
    "tau2/evaluator/evaluator.py": _EVALUATOR,
    "tau2/domains/desk/environment.py": _DOMAIN,
}


def task(name: str, basis: list[str], *actions: tuple[str, str], **criteria: Any) -> dict[str, Any]:
    """A task whose solution is actions, by who does them and their tool."""
    made = [{"action_id": "a", "requestor": who, "name": tool, "arguments": {"key": CANARY}} for who, tool in actions]
    return {
        "id": name,
        "description": {"notes": CANARY},
        "user_scenario": {"persona": None, "instructions": {"reason_for_call": "It broke.", "known_info": CANARY}},
        "evaluation_criteria": {"actions": made, "reward_basis": basis, **criteria},
        "annotations": [CANARY],
    }


TASKS = [
    task("both", ["DB", "COMMUNICATE"], ("assistant", "set"), ("user", "press"), ("assistant", "verify")),
    task("told", ["DB", "COMMUNICATE"], communicate_info=[CANARY]),
    task("judged", ["DB", "NL_ASSERTION"], nl_assertions=["The agent was kind.", "The agent was brief."]),
]


def write_checkout(root: Path) -> Path:
    """The checkout, in a folder."""
    for name, text in _FILES.items():
        file = root / "src" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    desk = root / "data" / "tau2" / "domains" / "desk"
    desk.mkdir(parents=True)
    (root / "data" / "tau2" / "user_simulator").mkdir()
    (desk / "tasks.json").write_text(json.dumps(TASKS))
    (desk / "split_tasks.json").write_text(json.dumps({"base": ["both", "told"]}))
    (desk / "db.json").write_text("{}")
    return root
