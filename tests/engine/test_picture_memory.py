"""Many rollouts that show pictures take hardly more memory than as many of words, and each picture is kept once.

In a process by themselves: with a mock model there, and over HTTP to a model server.
"""

import json
import os
import sys
from pathlib import Path
from typing import Literal

import anyio
import pytest

from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import ModelServer, listening

WORLD = str(Path(__file__).with_name("picture_world.py"))
RUN = """
import json, resource, sys
import rollouthub

world, model, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
run = rollouthub.evaluate(world, model, progress=False, **settings)
print(json.dumps([run.summary.scored, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""
MOST_BYTES = 50 * 2**20
Way = Literal["mock", "wire"]


async def played(directory: Path, way: Way, count: int, padding: int, *, shows: bool, **more: int) -> tuple[int, int]:
    """How many rollouts were scored, and the most memory that the process held."""
    settings: dict[str, object] = {
        "directory": str(directory),
        "set": {"count": count, "padding": padding, "shows": shows},
        "agent": "single_turn",
        "limit": count,
        "seed": 0,
        **more,
    }
    server = ModelServer(MockModel(ModelConfig(name="mock/say")), ("served",))
    async with listening(server, "127.0.0.1", 0) as port:
        model = "mock/say" if way == "mock" else "hosted_vllm/served"
        if way != "mock":
            settings["base_url"] = [f"http://127.0.0.1:{port}/v1"]
        command = [sys.executable, "-c", RUN, WORLD, model, json.dumps(settings)]
        root = str(Path(__file__).parents[2])
        done = await anyio.run_process(command, check=False, env={**os.environ, "PYTHONPATH": root})
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    scored, most = json.loads(done.stdout.splitlines()[-1])
    return scored, most


async def check(directory: Path, way: Way, count: int, padding: int, **more: int) -> None:
    """Play words, then pictures, which would take more than the bound if they stayed in memory."""
    assert count * padding > 1.5 * MOST_BYTES
    _, plain = await played(directory / "words", way, count, padding, shows=False, **more)
    scored, most = await played(directory / "pictures", way, count, padding, shows=True, **more)
    assert scored == count
    kept = list((directory / "pictures" / "media").iterdir())
    assert len(kept) == count
    assert sum(file.stat().st_size for file in kept) > count * padding
    assert most - plain < MOST_BYTES, f"{(most - plain) / 2**20:.1f} MiB more"


@pytest.mark.soak
@pytest.mark.parametrize("way", ["mock", "wire"])
async def test_a_thousand_picture_rollouts_cost_under_fifty_mebibytes_and_keep_each_picture_once(
    tmp_path: Path, way: Way
) -> None:
    await check(tmp_path, way, 1000, 100_000)


async def test_picture_rollouts_over_http_keep_each_picture_once_in_bounded_memory(tmp_path: Path) -> None:
    await check(tmp_path, "wire", 80, 1_000_000, concurrency=2)
