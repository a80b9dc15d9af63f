"""`hub serve rewards` as a process: what it says, who may read its token, how it leaves."""

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, VerifierError
from rollouthub.trainers.dance_grpo import image_rewards
from rollouthub.trainers.reward_server.reward_client import RewardClient
from tests.trainers.reward_server.served import PLAIN, png

HUB = [sys.executable, "-c", "from rollouthub.cli.main import main; main()"]


@pytest.mark.live
def test_it_says_where_it_is_as_json_serves_and_leaves_nothing_after_ctrl_c(tmp_path: Path) -> None:
    command = [*HUB, "serve", "rewards", "arithmetic", "--scorer", PLAIN, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        assert (ready["environments"], ready["scorer"]) == (["arithmetic"], PLAIN)
        file = Path(ready["token_file"])
        assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
        with urllib.request.urlopen(ready["url"] + "/health") as answer:
            assert answer.status == 200
        assert image_rewards([png()], ["red"], url=ready["url"], token=file.read_text()) == [1.0]
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=20)
    assert (server.returncode, said, file.parent.exists()) == (130, "", False)


@pytest.mark.live
def test_told_to_leave_while_it_scores_it_answers_first(tmp_path: Path) -> None:
    began, go = tmp_path / "began", tmp_path / "go"
    for pipe in (began, go):
        os.mkfifo(pipe)
    (tmp_path / "gate.py").write_text(
        "def score(images, prompts, metadata):\n"
        f"    open({str(began)!r}, 'w').close()\n"
        f"    open({str(go)!r}).close()\n"
        "    return [7.0]\n"
    )
    command = [*HUB, "serve", "rewards", "--scorer", "gate.py:score", "--port", "0", "--json"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as server,
        ThreadPoolExecutor() as threads,
    ):
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        token = Path(ready["token_file"]).read_text()
        asked = threads.submit(image_rewards, [png()], ["red"], url=ready["url"], token=token)
        began.open().close()
        server.send_signal(signal.SIGTERM)
        client = RewardClient(ready["url"], token, tries=1)
        with pytest.raises(VerifierError, match="leaving"):
            while True:  # until it has heard
                with suppress(ConfigError):
                    client.post("/v1/rewards", {"answers": []})
        go.open("w").close()
        assert asked.result(20) == [7.0]
        _, said = server.communicate(timeout=20)
    assert (server.returncode, said) == (0, "")


@pytest.mark.live
def test_without_a_token_it_serves_the_loopback_alone(tmp_path: Path) -> None:
    command = [*HUB, "serve", "rewards", "arithmetic", "--no-token", "--host", "0.0.0.0", "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert refused.returncode == 2
    assert "open to a network" in refused.stderr
