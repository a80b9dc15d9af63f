"""A task that shows a sound and a paper beside a picture: every lane carries them, and the record keeps them."""

from pathlib import Path
from typing import Literal

import pytest

from rollouthub.messages import digest_of
from tests.engine.attached_world import PAPER, SOUND
from tests.engine.picture_world import png
from tests.engine.test_task_pictures import looker, played

WORLD = str(Path(__file__).with_name("attached_world.py"))
# litellm serialises garbage through pydantic, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")


@pytest.mark.parametrize("lane", ["direct", "litellm"])
async def test_sounds_and_papers_reach_the_model_as_they_are(
    tmp_path: Path, lane: Literal["direct", "litellm"]
) -> None:
    async with looker() as (model, url):
        (rollouts, kept) = await played(tmp_path / "run", url, world=WORLD, lane=lane, limit=1)
    assert model.shown[0] == [png(0), SOUND, PAPER, png(0)]
    assert [rollout.score and rollout.score.reward for rollout in rollouts] == [1.0]
    assert kept == {digest_of(content) for content in (png(0), SOUND, PAPER)}


async def test_one_that_the_wire_has_no_place_for_ends_the_rollout_by_a_sentence(tmp_path: Path) -> None:
    async with looker() as (model, url):
        (rollouts, _) = await played(tmp_path / "run", url, world=WORLD, limit=1, set={"kind": "video/mp4"})
    assert model.shown == []
    (rollout,) = rollouts
    assert rollout.score is None
    assert "no place for media of type 'video/mp4'" in rollout.faults[-1].message
