"""Proves that one rollout is among those of a receipt, so that it can be shown without the others."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouthub.store import open_run
from rollouthub.text import plain_name
from rollouthub_registry.receipt.canonical import canonical_rollout
from rollouthub_registry.receipt.claim import Claim
from rollouthub_registry.receipt.evidence import RunReading, attempt_name
from rollouthub_registry.receipt.merkle import inclusion_proof, leaf_hash, root_of_proof


@dataclass(frozen=True)
class RolloutProof:
    """One attempt in its canonical form, and the hashes that lead from it to the root."""

    name: str
    """`ROLLOUT#ATTEMPT`."""
    content: bytes
    """Its canonical form."""
    place: int
    """Its place among the leaves, from 0."""
    count: int
    """Number of leaves."""
    path: tuple[bytes, ...]

    @property
    def root(self) -> str | None:
        """The root that the hashes lead to: `sha256:…`."""
        found = root_of_proof(leaf_hash(self.content), self.place, self.count, self.path)
        return None if found is None else f"sha256:{found.hex()}"

    def claim(self, signed_root: str) -> Claim:
        """Whether the rollout is among those that were signed."""
        if self.root != signed_root:
            return Claim("rollout", "refuted", f"{plain_name(self.name)} is not among the rollouts that were signed", 1)
        said = (
            f"{plain_name(self.name)} is one of the {self.count:,} attempts that were signed: its record and "
            f"{len(self.path)} hashes lead to the root"
        )
        return Claim("rollout", "proven", said, 1)

    def as_json(self) -> dict[str, Any]:
        """What somebody needs to check it without the run."""
        return {
            "name": self.name,
            "record": self.content.decode(),
            "place": self.place,
            "count": self.count,
            "path": [step.hex() for step in self.path],
        }


def prove_rollout(directory: Path, reading: RunReading, rollout_id: str) -> RolloutProof:
    """The proof of a rollout, by its id or the beginning of it; of the attempt that counts.

    Raises:
        UnknownNameError: there is no such rollout.
        UsageError: several ids begin so.
    """
    with open_run(directory) as reader:
        rollout = reader.rollout(rollout_id)
    name, names = attempt_name(rollout), list(reading.leaves)
    place = names.index(name)
    content = canonical_rollout(rollout, is_effective=True)
    path = inclusion_proof(list(reading.leaves.values()), place)
    return RolloutProof(name, content, place, len(names), path)
