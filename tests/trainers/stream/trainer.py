"""A trainer to be killed: takes groups and says so, line by line, until there are no more.

python trainer.py FOLDER
"""

import sys
from pathlib import Path

import anyio

import rollouthub
from rollouthub.models.credentials import Credentials

EPOCHS, SIZE, REPEATS = 3, 100, 4


async def main(folder: Path) -> None:
    """Take what is left."""
    async with rollouthub.stream_rollouts(
        environments=(str(Path(__file__).with_name("world.py")),),
        model="mock/say?text=done&latency=0..0.2",
        set={"size": SIZE},
        repeats=REPEATS,
        batch=4,
        concurrency=16,
        epochs=EPOCHS,
        max_staleness=1,
        seed=1,
        directory=folder / "run",
        resume=(folder / "run" / "run.db").exists(),
        credentials=Credentials({}),
    ) as supply:
        while groups := await supply.batch():
            for group in groups:
                sys.stdout.write(f"{group.group_id} {group.staleness} {len(group.rollouts)}\n")
            sys.stdout.flush()
            await supply.publish_weights()
    sys.stdout.write("over\n")


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
