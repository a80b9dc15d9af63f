"""A minimal trainer that pulls rollouts: it takes groups, learns, and publishes new weights at the same time.

python examples/async_training.py                       # against a mock model that is right half of the time

The policy here is one number, its probability to be right; "learning" changes it, and the "weights" are only a version
number. A real trainer has the same two places: `learn` gets token ids, masks, log-probabilities and advantages as shown
below, and `load` puts a checkpoint where the model server finds it.
"""

import sys
import tempfile
from pathlib import Path

import anyio

import rollouthub
from rollouthub import RolloutGroup, segments
from rollouthub.authoring.rewards import group_advantages

STEPS = 5
MODEL = "mock/solver?accuracy=0.5"


class Trainer:
    """Counts the samples it is given instead of learning from them."""

    def __init__(self) -> None:
        self.tokens = 0
        self.checkpoint = 0

    def learn(self, groups: list[RolloutGroup]) -> None:
        """One training step on whole groups."""
        for group in groups:
            advantages = group_advantages(group.rewards, "mean_std")
            for rollout, advantage in zip(group.rollouts, advantages, strict=True):
                assert advantage is not None
                for row in segments(rollout):
                    # Here a loss would be summed up: of row.token_ids where row.loss_mask is 1, with the sampler's
                    # row.logprobs to correct for row.versions that are behind.
                    self.tokens += sum(row.loss_mask)

    async def load(self) -> None:
        """Load the new weights into the model server: `VllmControl(urls).reload_weights(path)`, NCCL …"""
        self.checkpoint += 1


async def main(directory: Path) -> None:
    """Train for a few steps."""
    trainer = Trainer()
    async with rollouthub.stream_rollouts(
        environments=("arithmetic",),
        model=MODEL,
        directory=directory,
        repeats=8,
        batch=4,
        max_staleness=1,
        drop_constant=True,
        epochs=None,
        seed=0,
    ) as supply:
        for step in range(STEPS):
            groups = await supply.batch()
            trainer.learn(groups)
            staleness = max(group.staleness for group in groups)
            version = await supply.publish_weights(update=trainer.load)
            sys.stdout.write(f"step {step}: {len(groups)} groups, {staleness} behind at most; now version {version}\n")
        replayed = await supply.sample(4, strategy="weighted")
        stats = supply.stats
    sys.stdout.write(
        f"{stats.handed_out} groups of {stats.begun} begun, {stats.constant} constant, {stats.stale} stale, "
        f"{trainer.tokens} tokens; {len(replayed)} more from the replay buffer\n"
    )


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="supply-")
    anyio.run(main, Path(where) / "run")
