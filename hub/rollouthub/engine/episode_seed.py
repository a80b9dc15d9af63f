"""The seed an episode of a task has in a run, so that what is scored later meets the same world."""

import hashlib


def episode_seed(run_seed: int, environment: str, split: str, task_id: str) -> int:
    """31 bits from the run's seed and the task's names."""
    text = f"{run_seed}\0{environment}\0{split}\0{task_id}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") >> 1
