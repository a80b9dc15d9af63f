"""A real vLLM plays whole episodes: every turn has its ids, and the training rows rebuild them exactly."""

import os
from pathlib import Path

import pytest

from rollouthub.export.segment import sampled_ids, segments
from rollouthub.store import open_run
from tests.cli.conftest import Hub, hub

__all__ = ["hub"]

pytestmark = pytest.mark.live

EPISODES = 64


@pytest.fixture
def url() -> str:
    """The server's base URL; skipped aloud where there is none."""
    found = os.environ.get("ROLLOUTHUB_VLLM_URL")
    if not found:
        pytest.skip("ROLLOUTHUB_VLLM_URL names no vLLM server")
    return found


@pytest.mark.parametrize("environment", ["arithmetic", str(Path(__file__).parent / "adding.py")])
def test_vllm_episodes_are_token_exact(hub: Hub, url: str, tmp_path: Path, environment: str) -> None:
    model = os.environ.get("ROLLOUTHUB_VLLM_MODEL", "tiny")
    # The engine's grammar makes even an untrained model call a tool at every turn.
    forced = "" if environment == "arithmetic" else '[sampling.extra]\ntool_choice = "required"\n'
    (tmp_path / "run.toml").write_text(forced)
    done = hub(
        "run", environment, "-m", f"hosted_vllm/{model}", "--base-url", url, "--limit", str(EPISODES), "-c", "32",
        "--max-tokens", "64", "--max-turns", "4", "--temperature", "1", "--config", "run.toml", "-o", "run", "--json",
        timeout=300,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["outcomes"] == {"scored": EPISODES}
    turns = tool_turns = 0
    with open_run(tmp_path / "run") as reader:
        for rollout in reader.rollouts():
            rebuilt = sampled_ids(segments(rollout))
            for turn in rollout.turns:
                turns += 1
                tool_turns += bool(turn.tool_calls)
                assert turn.token_source == "engine"
                assert turn.prompt_token_ids
                assert turn.output_token_ids is not None
                assert turn.output_logprobs is not None
                assert 0 < len(turn.output_token_ids) == len(turn.output_logprobs)
                assert rebuilt[turn.index] == turn.output_token_ids
            assert rollout.trainable, rollout.trainable_reason
            assert not rollout.gaps
    assert turns >= EPISODES
    if environment != "arithmetic":
        assert tool_turns > EPISODES
