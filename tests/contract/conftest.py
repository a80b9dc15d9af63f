"""The environments of the contract suite: every shipped one, and one that does everything a tool can do."""

import json
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.mcp_servers.containers import TASKS
from tests.mcp_servers.swe.test_swe import rows as swe_rows

WORKBENCH = str(Path(__file__).parent / "workbench.py")


@dataclass(frozen=True)
class Subject:
    """An environment, and how to configure it so that it has tasks anywhere."""

    target: str
    settings: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    split: str | None = None


SUBJECTS = (
    "workbench",
    "arithmetic",
    "math",
    "customer_service",
    "code",
    "reasoning_gym",
    "visual",
    "drawing",
    "mcp_server",
    "negotiation",
    "board_game",
    "debate",
)
ALWAYS = ("workbench", "arithmetic", "mcp_server", "board_game")
"""Of these: every kind of tool and ending, one that ships, one that is no Python of ours, and one of several seats.
The others are soak."""
CONTAINERS = ("terminal", "swe")
"""Those whose worlds are containers: they need an engine, and images that stand in for public ones."""
FUNCTION = {
    "task_id": "Own/0",
    "prompt": 'def double(n: int) -> int:\n    """Twice n."""\n',
    "canonical_solution": "    return 2 * n\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-1) == -2\n",
    "entry_point": "double",
}


@pytest.fixture(params=[pytest.param(name, marks=[] if name in ALWAYS else pytest.mark.soak) for name in SUBJECTS])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    """One environment after the other."""
    return make_subject(request.param, tmp_path)


def make_subject(name: str, folder: Path) -> Subject:
    """The environment of this name, with data of its own where it needs some."""
    if name == "workbench":
        return Subject(WORKBENCH)
    if name == "math":
        asked, right = ("problem", "question", "Question", "input"), ("answer", "Answer", "target")
        rows = [
            {"ID": n, "Body": "Multiply.", **dict.fromkeys(asked, f"{n}*7"), **dict.fromkeys(right, str(n * 7))}
            for n in range(1, 4)
        ]
        for row in rows:
            row["solution"] = rf"So \boxed{{{row['answer']}}}"
        (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return Subject("math", {"data": str(folder / "test.jsonl")})
    if name == "code":
        rows = [FUNCTION, {**FUNCTION, "task_id": "Own/1"}]
        (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return Subject("code", {"data": str(folder / "test.jsonl"), "sandbox": "process"})
    if name == "reasoning_gym" and find_spec("reasoning_gym") is None:
        pytest.skip("the extra reasoning-gym is not installed")
    if name == "terminal":
        return Subject(name, {"data": str(TASKS / "greeting")})
    if name == "swe":
        return Subject(name, {"data": str(swe_rows(folder).data)})
    if name == "mcp_server":
        return Subject(str(Path(__file__).parents[2] / "examples" / "mcp_server"))
    if name == "debate":
        return Subject(name, {"size": 3, "judge": "quotes"})
    is_sized = name in ("arithmetic", "reasoning_gym", "visual", "drawing", "negotiation", "board_game")
    return Subject(name, {"size": 3} if is_sized else {})
