"""What is told while images are built before a run: which, how large, how many are left, and nothing of quick ones."""

import anyio
import pytest

from rollouthub.errors import SandboxError
from rollouthub.hosting import image_progress as readiness
from rollouthub.hosting.image_progress import Readiness, told_to
from rollouthub.sandbox import SandboxSpec


async def test_a_slow_image_is_told_of_and_a_quick_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "FIRST_SECONDS", 0.01)
    heard: list[str] = []
    is_told = anyio.Event()

    def listen(line: str) -> None:
        heard.append(line)
        is_told.set()

    told = Readiness(2)
    with told_to(listen), anyio.fail_after(5):
        async with told.of(SandboxSpec(image="lab/quick:1")):
            pass
        assert heard == []
        async with told.of(SandboxSpec(image="lab/slow:1")):
            await is_told.wait()
    assert heard[0].startswith("images: 1 of 2 ready, lab/slow:1 is fetched for 0:00")
    assert heard[-1].startswith("images: 2 of 2 ready, lab/slow:1 after 0:0")
    with told_to(listen), pytest.raises(SandboxError, match="not there"):
        async with Readiness(1).of(SandboxSpec(image="lab/none:1")):
            raise SandboxError("not there")
