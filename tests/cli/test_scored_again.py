"""`hub score RUN` of stateful worlds: the state that an episode ended in is kept, and gives the same verdict again."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rollouthub.rollout import UNKEPT, Outcome
from rollouthub.score import STATE, KeptArtifact
from rollouthub.store import RunReader, open_run, open_writer
from rollouthub.store.media import keep_media
from tests.store.records import RESOLVED, record

from .conftest import Hub


def verdicts(reader: RunReader) -> dict[str, Any]:
    return {
        rollout.rollout_id: (rollout.outcome, rollout.reward, rollout.score and rollout.score.passed)
        for rollout in reader.rollouts()
    }


def both(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with open_run(folder / "run") as run, open_run(folder / "again") as again:
        return verdicts(run), verdicts(again)


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
@pytest.mark.parametrize("agent", ["oracle", "null"])
def test_customer_service(hub: Hub, tmp_path: Path, agent: str, where: tuple[str, ...]) -> None:
    assert hub("run", "customer_service", "-a", agent, *where, "--limit", "4", "-o", "run", "-q").code == 0
    done = hub("score", "run", "-o", "again", "-q")
    assert done.code == 0, done.err
    before, after = both(tmp_path)
    assert before == after
    assert len(before) == 4


def test_what_is_missing_or_altered_is_refused_and_never_scored(hub: Hub, tmp_path: Path) -> None:
    assert hub("run", "customer_service", "-a", "oracle", "--limit", "2", "-o", "run", "-q").code == 0
    with open_run(tmp_path / "run") as reader:
        (first,), (second,) = (rollout.artifacts for rollout in reader.rollouts())
    media = tmp_path / "run" / "media"
    (media / first.digest.removeprefix("sha256:")).write_bytes(b"{}")
    (media / second.digest.removeprefix("sha256:")).unlink()

    assert hub("score", "run", "-o", "again", "-q").code == 1
    with open_run(tmp_path / "again") as reader:
        said = sorted(rollout.faults[-1].message for rollout in reader.rollouts())
        assert {rollout.outcome for rollout in reader.rollouts()} == {Outcome.VERIFIER_FAILED}
    assert "altered" in said[0] or "altered" in said[1]
    assert "gone" in said[0] or "gone" in said[1]


def test_artifacts_are_listed_and_written_nowhere_else(hub: Hub, tmp_path: Path) -> None:
    assert hub("run", "customer_service", "-a", "oracle", "--limit", "1", "-o", "run", "-q").code == 0
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    name = rollout.rollout_id
    assert "state.json" in hub("show", "run", name, "--artifacts").out
    assert hub("show", "run", name, "--artifacts", "--json").json[0]["name"] == "state.json"
    assert hub("show", "run", name, "-o", "out").code == 0
    assert "database" in json.loads((tmp_path / "out" / "state.json").read_text())
    assert "not empty" in hub("show", "run", name, "-o", "out").refused()
    assert "of one rollout" in hub("show", "run", "--artifacts").refused()


NAMES = ["/../../up", "/a", "/a/b", "/x\0y", "/" + "n" * 300, "/" + "d/" * 3000, "/red\x1b[31m", "//", "/b", "/../b"]


async def test_no_name_of_an_artifact_leaves_the_folder_or_stops_the_others(hub: Hub, tmp_path: Path) -> None:
    kept = [KeptArtifact.of(name, f"{number}".encode()) for number, name in enumerate(NAMES)]
    async with open_writer(tmp_path / "run", resolved=RESOLVED, given="", resume=False) as writer:
        rollout = record("g-0", artifacts=tuple(artifact.ref for artifact in kept))
        await writer.add(rollout, {artifact.ref.digest: artifact.data for artifact in kept})
    assert hub("show", "run", "g-0", "-o", "out").code == 0
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert sorted(path.read_bytes() for path in written) == sorted(artifact.data for artifact in kept)
    assert all(str(path).isprintable() for path in written)
    assert {"up", "a", "b"} <= {path.name for path in written}
    assert "cannot be written" in hub("show", "run", "g-0", "-o", "out/a").refused()


def test_a_state_that_is_no_json_is_refused(hub: Hub, tmp_path: Path) -> None:
    assert hub("run", "customer_service", "-a", "oracle", "--limit", "1", "-o", "run", "-q").code == 0
    broken = KeptArtifact.of(STATE, b"[" * 100_000)
    keep_media(tmp_path / "run" / "media", {broken.ref.digest: broken.data})
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    old = rollout.artifacts[0]
    with closing(sqlite3.connect(tmp_path / "run" / "run.db")) as connection:
        for was, now in ((old.digest, broken.ref.digest), (f'"bytes":{old.bytes}', f'"bytes":{broken.ref.bytes}')):
            connection.execute("UPDATE rollouts SET body = replace(body, ?, ?)", (was, now))
        connection.commit()
    done = hub("score", "run", "-o", "again", "-q")
    assert (done.code, "Traceback" in done.err) == (1, False)
    with open_run(tmp_path / "again") as reader:
        (again,) = reader.rollouts()
    assert again.outcome is Outcome.VERIFIER_FAILED
    assert "cannot be read" in again.faults[-1].message


LEFT = """
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task
from rollouthub.sandbox import SandboxFileError

class Left(Environment[EnvironmentConfig]):
    scores_states = True

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Leave something."), Secret())

    def snapshot(self):
        raise SandboxFileError("/pipe is a pipe, a socket or a device, which is not kept", "EOPNOTSUPP")

    async def restore(self, state):
        raise AssertionError

    async def verify(self, submission):
        return Score(reward=0.0)
"""


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_no_agent_escapes_another_verdict_by_what_it_leaves(hub: Hub, tmp_path: Path, where: tuple[str, ...]) -> None:
    (tmp_path / "left.py").write_text(LEFT)
    assert hub("run", "left.py", *where, "-m", "mock/say?text=done", "-o", "run", "-q").code == 0
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    assert (rollout.reward, UNKEPT in rollout.gaps) == (0.0, True)
    hub("score", "run", "--env", "left.py", "-o", "again", "-q")
    with open_run(tmp_path / "again") as reader:
        (again,) = reader.rollouts()
    assert (again.outcome, again.reward) == (Outcome.AGENT_FAILED, None)
    assert "what its agent left" in again.faults[-1].message
