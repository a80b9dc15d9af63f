"""What a model call may cost the hub, whatever an agent sends with it."""

import base64

import pytest

from rollouthub import Limits
from rollouthub.gateway.model_api import model_api
from rollouthub.protocols import SeatAddress
from tests.gateway.outside import harness


async def test_media_of_an_episode_are_bounded_even_past_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_api, "MOST_MEDIA_BYTES", 2000)
    async with harness(["hello"]) as made:
        statuses: list[int] = []

        async def play(address: SeatAddress) -> None:
            for number in (0, 1, 2, 1):
                picture = base64.b64encode(bytes([number]) * 900).decode()
                shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
                status, _ = await made.chat(address, [{"role": "user", "content": [shown]}])
                statuses.append(status)

        await made.play(play, limits=Limits(max_turns=1))
    assert statuses == [200, 403, 413, 403]
