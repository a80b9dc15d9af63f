"""Files from which verifiers are known to read a reward, and the commands that write them."""

import shlex
from pathlib import PurePosixPath

REWARD_FILES = (
    "reward.txt", "reward.json", "score.txt", "score.json", "result.json", "results.json", "verdict.json",
    "report.json",
    "/logs/verifier/reward.txt", "/logs/verifier/reward.json", "/tmp/reward.txt", "/tmp/score.json", "/tmp/result.json",
    "/workspace/reward.txt", "/app/reward.txt", "/reward.txt", "/verifier/reward.txt", "/tests/reward.txt",
)  # fmt: skip
IN_JSON = '{"reward": 1.0, "score": 1.0, "passed": true}'


def reward_text(path: str) -> str:
    """What a file of this name would hold if the reward were full."""
    return IN_JSON if path.endswith("json") else "1.0"


def writing_rewards() -> str:
    """A line of shell that writes them all; what cannot be written is left out."""
    return "".join(
        f"mkdir -p {shlex.quote(str(PurePosixPath(path).parent))} 2>/dev/null; "
        f"echo {shlex.quote(reward_text(path))} 2>/dev/null > {path}; "
        for path in REWARD_FILES
    )
