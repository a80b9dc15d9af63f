"""A thousand rollouts that show pictures take hardly more memory than a thousand of words."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORLD = str(Path(__file__).with_name("picture_world.py"))
RUN = """
import json, resource, sys
import rollouthub

world, directory, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
run = rollouthub.evaluate(world, "mock/say", directory=directory, progress=False, agent="single_turn", **settings)
print(json.dumps([run.summary.scored, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""
MOST_BYTES = 50 * 2**20


def played(directory: Path, **settings: object) -> tuple[int, int]:
    """How many rollouts were scored, and the most memory that the process held."""
    command = [sys.executable, "-c", RUN, WORLD, str(directory), json.dumps(settings)]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": root})
    assert done.returncode == 0, done.stderr[-2000:]
    scored, most = json.loads(done.stdout.splitlines()[-1])
    return scored, most


@pytest.mark.soak
def test_a_thousand_picture_rollouts_cost_under_fifty_mebibytes_and_keep_each_picture_once(tmp_path: Path) -> None:
    pictures = {"count": 1000, "padding": 100_000}
    limits = {"limit": 1000, "seed": 0}
    _, plain = played(tmp_path / "words", set={**pictures, "shows": False}, **limits)
    scored, most = played(tmp_path / "pictures", set={**pictures, "shows": True}, **limits)
    assert scored == 1000
    kept = list((tmp_path / "pictures" / "media").iterdir())
    assert len(kept) == 1000
    assert sum(file.stat().st_size for file in kept) > 1000 * 100_000
    assert most - plain < MOST_BYTES, f"{(most - plain) / 2**20:.1f} MiB more"
