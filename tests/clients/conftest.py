"""The clients that this project did not write, and how each plays."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FOREIGN = Path(__file__).parents[2] / ".ci" / "foreign"
PROGRAMS = Path(__file__).parent / "programs"

Settings = dict[str, Any]


def profile(name: str, program: str) -> Callable[[], Settings]:
    """A profile, its program from where `.ci/foreign.sh` put it."""
    return lambda: {"profile": name, "program": str(FOREIGN / "agents" / name / program)}


def smolagents() -> Settings:
    """smolagents, beside LangChain: both need the SDK's 1.x line."""
    python = FOREIGN / "agents" / "langchain" / "bin" / "python"
    return {"command": [str(python), "smolagents_agent.py"], "files": str(PROGRAMS / "smolagents_agent.py")}


def typescript() -> Settings:
    """The TypeScript SDK."""
    packages = FOREIGN / "node_modules"
    return {
        "command": ["node", "typescript_agent.mjs", str(packages)],
        "files": str(PROGRAMS / "typescript_agent.mjs"),
        "shows": str(packages),
    }


def inspector() -> Settings:
    """The MCP Inspector's command line."""
    tools = FOREIGN / "mcp-tools"
    node, packages = (tools / "node").resolve(), tools / "node_modules"
    script = (packages / ".bin" / "mcp-inspector").resolve()
    return {
        "command": ["python3", "inspector_agent.py", str(node), str(script)],
        "files": str(PROGRAMS / "inspector_agent.py"),
        "shows": [str(node), str(packages)],
    }


CLIENTS: dict[str, Callable[[], Settings]] = {
    "openai-agents": profile("openai-agents", "bin/python"),
    "pydantic-ai": profile("pydantic-ai", "bin/python"),
    "langchain": profile("langchain", "bin/python"),
    "mini-swe-agent": profile("mini-swe-agent", "bin/python"),
    "codex": profile("codex", "node_modules/.bin/codex"),
    "claude-code": profile("claude-code", "node_modules/.bin/claude"),
    "opencode": profile("opencode", "node_modules/.bin/opencode"),
    "smolagents": smolagents,
    "typescript-sdk": typescript,
    "inspector": inspector,
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    """One client after the other."""
    return request.param


@pytest.fixture
def settings(client: str) -> Settings:
    """How it plays; skipped aloud where it is not installed."""
    found = CLIENTS[client]()
    words = [found["program"]] if "program" in found else found["command"]
    missing = [word for word in words if word.startswith(str(FOREIGN)) and not Path(word).exists()]
    if missing or shutil.which("node") is None:
        pytest.skip(f"{client} is not installed: run .ci/foreign.sh")
    return found
