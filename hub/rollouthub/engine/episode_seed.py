"""The seed of a task's episode in a run; the same inputs give the same seed, so that a later scoring sees the same
episode.
"""

import hashlib


def episode_seed(run_seed: int, environment: str, split: str, task_id: str) -> int:
    """A seed of 31 bits from the run's seed, the environment, the split and the task id."""
    text = f"{run_seed}\0{environment}\0{split}\0{task_id}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") >> 1
