"""A trainer with a curriculum, to be killed: after each batch it writes its checkpoint's state of the supply to stdout.

python curriculum_trainer.py FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import anyio

import rollouthub
from rollouthub.models.credentials import Credentials

RULES: dict[str, Any] = {
    "environments": (str(Path(__file__).with_name("world.py")),),
    "model": "mock/say?text=done",
    "set": {"solved": 2},
    "repeats": 4,
    "batch": 1,
    "buffer": 1,
    "shuffle": False,
    "band": (0.2, 0.8),
    "band_rest": 2,
    "max_staleness": None,
    "epochs": None,
    "seed": 1,
    "credentials": Credentials({}),
}


async def main(folder: Path) -> None:
    """Train for ever."""
    async with rollouthub.stream_rollouts(groups=True, directory=folder, **RULES) as supply:
        while await supply.batch():
            await supply.publish_weights()
            sys.stdout.write(json.dumps(supply.state()) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
