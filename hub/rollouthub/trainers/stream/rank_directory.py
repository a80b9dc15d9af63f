"""A run's directory for each process of a distributed trainer."""

import os
from pathlib import Path


def rank_directory(directory: Path | str) -> Path:
    """The directory for the run of this process: `directory`, or `directory/rank-N` where several processes train.

    `torchrun` and `accelerate launch` start a process a rank, and each plays the prompts that its trainer gives it: a
    run of its own, for a directory holds one. Rank and number of processes are read from `RANK` and `WORLD_SIZE`.
    """
    count, rank = os.environ.get("WORLD_SIZE", "1"), os.environ.get("RANK", "0")
    return Path(directory) if count == "1" else Path(directory) / f"rank-{int(rank)}"
