"""A supply whose rollouts are played by workers of a Ray cluster."""

from pathlib import Path

import anyio
import pytest

import rollouthub
from rollouthub import RolloutGroup
from rollouthub.models.credentials import Credentials


@pytest.mark.live
async def test_a_cluster_supplies_groups_with_versions(tmp_path: Path) -> None:
    groups = list[RolloutGroup]()
    with anyio.fail_after(180):
        async with rollouthub.stream_rollouts(
            environments=("arithmetic",),
            model="mock/solver?accuracy=0.5",
            repeats=4,
            limit=16,
            batch=4,
            max_staleness=1,
            seed=3,
            pool="ray",
            workers=1,
            directory=tmp_path / "run",
            credentials=Credentials({}),
        ) as supply:
            while batch := await supply.batch():
                groups += batch
                await supply.publish_weights()
    assert len({group.group_id for group in groups}) == 16
    assert all(len(group.rollouts) == 4 and group.staleness <= 1 for group in groups)
    turns = [turn for group in groups for rollout in group.rollouts for turn in rollout.turns]
    assert None not in {turn.policy_version for turn in turns}
    assert len({turn.policy_version for turn in turns}) > 1
