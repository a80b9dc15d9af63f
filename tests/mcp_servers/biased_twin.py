"""An agent that does what `plan.json` says of its task: tools and what they are called with, one after the other."""

import importlib
import json
import os
import urllib.error
from pathlib import Path
from typing import Any


def main() -> None:
    """Play one episode."""
    agent: Any = importlib.import_module("agent")  # examples/own_agent, beside this file where it runs
    tools = agent.Tools(os.environ["ROLLOUTHUB_AGENT_URL"])
    plan: dict[str, list[tuple[str, dict[str, Any]]]] = json.loads(Path("plan.json").read_text())
    (calls,) = (calls for marker, calls in plan.items() if marker in os.environ["ROLLOUTHUB_PROMPT"])
    try:
        for name, arguments in calls:
            tools.call(name, json.dumps(arguments))
    except urllib.error.HTTPError:
        pass  # its sandbox is gone, and the episode over


main()
