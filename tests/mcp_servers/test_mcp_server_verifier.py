"""Verifiers that are commands: what they are told, what counts as a score, and what the agent cannot reach."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Submission, VerifierError
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.messages import assistant
from rollouthub_servers.mcp_server.scratch import MAX_BYTES, snapshot
from tests.mcp_servers.foreign import CANARY, TASK, call, is_alive, make, playing

TELL = """
import json, os, sys, pathlib
asked = json.load(sys.stdin)
told = {"asked": asked, "env": dict(os.environ), "cwd": os.getcwd(), "files": sorted(os.listdir(asked["workdir"]))}
print(json.dumps({"reward": 0.5, "passed": None, "metadata": told, "components": {"a": {"value": 0.5}}}))
"""


async def test_a_verifier_is_told_everything_and_inherits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    file = make(tmp_path / "notes", verify=TELL)
    async with playing(file, seed=3) as episode:
        await call(episode, "notes_write", path="note.txt", text="hello")
        score = await episode.verify(Submission(answer="yes", transcript=(assistant("hm"),), stop="submitted"))
    told: dict[str, Any] = dict(score.metadata)
    asked = told["asked"]
    assert (score.reward, score.passed) == (0.5, None)
    assert asked["task"] == {
        "id": "one",
        "prompt": TASK["prompt"],
        "system": None,
        "source": None,
        "metadata": {"topic": "birds"},
        "answer": CANARY,
        "secret": {"hint": CANARY},
    }
    assert asked["submission"]["final"] == asked["submission"]["answer"] == "yes"
    assert asked["submission"]["transcript"][0]["content"] == "hm"
    assert (asked["seed"], asked["skipped"], told["files"]) == (3, [], ["note.txt"])
    assert told["cwd"] == str(file.parent)
    assert "OPENAI_API_KEY" not in told["env"]
    assert told["env"]["HOME"] != os.environ["HOME"]


@pytest.mark.parametrize(
    ("verify", "said"),
    [
        ("import sys; sys.exit('no database')", "ended with exit code 1; its stderr ends: no database"),
        ("print('{\"reward\": 1.0}'); raise SystemExit(2)", "ended with exit code 2"),
        ("", "must print one JSON score and nothing else, it printed ''"),
        ("print('all good')", "it printed 'all good"),
        ("print('{\"reward\": 0.0}'); print('{\"reward\": 1.0}')", "must print one JSON score and nothing else"),
        ("print('{\"reward\": NaN}')", "no score"),
        ("print('{\"reward\": 1e999}')", "no score"),
        ('print(\'{"reward": "1"}\')', "no score"),
        ("print('{\"passed\": true}')", "no score"),
        ('print(\'{"reward": 1, "rewad": 2}\')', "no score"),
        ("print('x' * 5_000_000)", "printed more than 4,194,304 bytes"),
        ("import os; os.kill(os.getpid(), 9)", "ended with exit code -9"),
    ],
)
async def test_what_is_no_score_is_the_verifiers_fault(tmp_path: Path, verify: str, said: str) -> None:
    async with playing(make(tmp_path / "notes", verify=verify)) as episode:
        with pytest.raises(VerifierError) as caught:
            await episode.verify(Submission())
    assert said in str(caught.value)
    assert episode.faults == []


async def test_a_slow_verifier_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    verify = f"""
import subprocess, sys
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
open({str(mark)!r}, "w").write(str(child.pid))
child.wait()
"""
    verifier = {"command": ["{python}", "{folder}/verify.py"], "seconds": 3}
    async with playing(make(tmp_path / "notes", verify=verify, verifier=verifier)) as episode:
        with anyio.fail_after(30), pytest.raises(VerifierError, match="gave no score within 3"):
            await episode.verify(Submission())
    assert not is_alive(int(mark.read_text()))


async def test_a_child_that_keeps_the_pipe_does_not_hold_the_score_up(tmp_path: Path) -> None:
    verify = 'import subprocess\nsubprocess.Popen(["sleep", "1000"])\nprint(\'{"reward": 1.0}\')'
    async with playing(make(tmp_path / "notes", verify=verify)) as episode:
        with anyio.fail_after(30):
            assert (await episode.verify(Submission())).reward == 1.0


async def test_a_verifier_that_is_not_there_is_its_own_fault(tmp_path: Path) -> None:
    async with playing(make(tmp_path / "notes", verifier={"command": ["no-such-verifier"]})) as episode:
        with pytest.raises(VerifierError, match="'no-such-verifier' cannot be started"):
            await episode.verify(Submission())


async def claims(episode: HostedEpisode, name: str) -> None:
    claim = json.dumps({"reward": 1.0, "passed": True})
    assert not (await call(episode, "notes_write", path=name, text=claim)).is_error


async def test_a_reward_the_agent_writes_is_no_reward(tmp_path: Path) -> None:
    async with playing(make(tmp_path / "notes")) as episode:
        for name in ("score.json", "stdout", "note.txt", "../home/verify.py"):
            await claims(episode, name)
        assert (await episode.verify(Submission(answer='{"reward": 1.0}'))).reward == 0.0


async def test_what_the_verifier_says_never_reaches_the_agent(tmp_path: Path) -> None:
    verify = f"import sys; print({CANARY!r}, file=sys.stderr); sys.exit(1)"
    async with playing(make(tmp_path / "notes", verify=verify)) as episode:
        with pytest.raises(VerifierError, match=CANARY):
            await episode.verify(Submission())
        assert CANARY not in (await call(episode, "get_task")).model_dump_json()


def test_a_snapshot_follows_no_link_and_opens_no_pipe(tmp_path: Path) -> None:
    outside, source, target = tmp_path / "answers.txt", tmp_path / "work", tmp_path / "copy"
    outside.write_text(CANARY)
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "plain.txt").write_text("hello")
    (source / "deep" / "tool").write_text("#!/bin/sh")
    (source / "deep" / "tool").chmod(0o755)
    (source / "link").symlink_to(outside)
    (source / "folder").symlink_to(tmp_path)
    os.mkfifo(source / "pipe")
    with (source / "huge").open("wb") as huge:
        huge.truncate(MAX_BYTES + 1)
    (source / "locked").mkdir()
    (source / "locked" / "in").write_text("x")
    (source / "locked").chmod(0)
    skipped = {entry.path: entry.reason for entry in snapshot(source, target)}
    assert {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()} == {
        "deep/plain.txt",
        "deep/tool",
        "locked/in",
    }
    assert (target / "deep" / "tool").stat().st_mode & 0o777 == 0o700
    assert skipped == {
        "link": "a link",
        "folder": "a link",
        "pipe": "no plain file",
        "huge": "536,870,913 bytes; a copy holds 536,870,912 in all",
    }


def test_a_snapshot_of_a_bottomless_folder_ends(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / Path(*["d"] * 100)).mkdir(parents=True)
    skipped = snapshot(folder, tmp_path / "copy")
    assert [entry.reason for entry in skipped] == ["nested too deeply"]
