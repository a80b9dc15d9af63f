"""The default directory of a run."""

import time
from pathlib import Path

from rollouthub.engine.plan import Plan


def default_directory(plan: Plan) -> Path:
    """`runs/ENV-AGENT-TIME`, a directory that does not exist yet; without the agent if the environments have yet to
    name it.
    """
    names = "+".join(planned.name.replace("/", "_") for planned in plan.environments)
    return fresh_directory(names if plan.asks_for_agent else f"{names}-{plan.agent_name.replace('/', '_')}")


def fresh_directory(beginning: str) -> Path:
    """`runs/BEGINNING-TIME`, with a number added if that directory exists."""
    stem = f"{beginning}-{time.strftime('%Y%m%d-%H%M%S')}"
    directory, count = Path("runs") / stem, 1
    while directory.exists():
        count += 1
        directory = Path("runs") / f"{stem}-{count}"
    return directory


def model_folder(number: int, model: str) -> str:
    """The folder of a model's run among those of several models, which are numbered from 1."""
    name = "".join(character if character.isalnum() or character in "-._" else "_" for character in model)[:60]
    return f"{number:02}-{name}"
