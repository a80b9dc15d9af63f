"""The example's loop: a policy that knows nothing learns what the verifier rewards, over HTTP and real MCP."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "learning" / "train.py"
PATIENCE_SECONDS = 600


@pytest.mark.live
def test_a_loop_over_http_and_mcp_learns(
    system: Callable[[str], ModuleType], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    system("trl")
    told = tmp_path / "curve.json"
    command = [sys.executable, str(EXAMPLE), "--directory", str(tmp_path), "--curve", str(told)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    subprocess.run(command, check=True, timeout=PATIENCE_SECONDS, env=environment, capture_output=True)
    points = json.loads(told.read_text())
    rewards = [point["reward"] for point in points]
    record_property("seconds", points[-1]["seconds"])
    assert sum(rewards[:10]) / 10 < 0.5
    assert sum(rewards[-10:]) / 10 > 0.9
