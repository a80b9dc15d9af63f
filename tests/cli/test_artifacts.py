"""Files that an episode leaves: read by the verifier, kept with the record, scored again; gaps say what is not."""

from pathlib import Path

import pytest

from rollouthub.messages import digest_of
from rollouthub.rollout import UNKEPT
from rollouthub.store import open_run

from .conftest import Hub

WORLD = '''
from rollouthub import Environment, Public, SandboxedConfig, Secret, Task, ToolRequest, tool
from rollouthub.messages import assistant
from rollouthub.sandbox import SandboxSpec

SCRIPT = "mkdir -p out/sub; echo 42 > out/sub/answer.txt; ln -s /etc/passwd out/link; mkfifo out/pipe; echo x > other"

class WritesConfig(SandboxedConfig):
    """What is run."""
    script: str = SCRIPT

class Writes(Environment[WritesConfig]):
    """Leaves files."""
    submits = False

    @classmethod
    def tasks(cls, config, split, seed):
        call = ToolRequest(id="1", name="run", arguments="{}")
        yield Task(Public(id="one", prompt="Run it."), Secret(reference=(assistant("", call), assistant("done"))))

    def sandbox_spec(self):
        return SandboxSpec()

    def artifacts(self):
        return [f"{self.sandbox.workdir}/out", f"{self.sandbox.workdir}/gone"]

    @tool
    async def run(self) -> str:
        """Run it."""
        return (await self.sandbox.exec(self.config.script)).stdout.text

    def verify(self, submission):
        names = [each.name for each in submission.artifacts if each.name.endswith("/out/sub/answer.txt")]
        assert submission.artifact_bytes("/no/such/file") is None
        return float(bool(names) and submission.artifact_bytes(names[0]) == b"42\\n")

class Again(Writes):
    """Needs the files alone to be scored."""
    scores_transcripts = True
'''
PLAY = ("-a", "oracle", "--set", "sandbox=process", "-o", "run", "-q")


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_files_reach_the_verifier_and_the_record_and_are_scored_again(
    hub: Hub, tmp_path: Path, where: tuple[str, ...]
) -> None:
    (tmp_path / "writes.py").write_text(WORLD)
    done = hub("run", "writes.py:Again", *where, *PLAY)
    assert done.code == 0, done.err
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
        (artifact,) = rollout.artifacts
        assert reader.media(artifact.digest) == b"42\n"
    assert rollout.reward == 1.0, rollout.faults
    assert artifact.name.endswith("/out/sub/answer.txt")
    assert artifact.digest == digest_of(b"42\n")
    assert {"artifacts", UNKEPT} <= set(rollout.gaps), "a link and a pipe were left out"
    name = rollout.rollout_id
    assert hub("show", "run", name, "--artifacts", "-o", "out").code == 0
    assert [path.read_bytes() for path in (tmp_path / "out").rglob("answer.txt")] == [b"42\n"]

    done = hub("score", "run", "--env", "writes.py:Again", "-o", "again", "-q")
    assert done.code == 0, done.err
    with open_run(tmp_path / "again") as reader:
        (again,) = reader.rollouts()
    assert (again.reward, again.artifacts) == (1.0, rollout.artifacts)


def test_a_world_that_was_not_kept_is_refused_for_that_and_for_no_missing_reference(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "writes.py").write_text(
        WORLD.replace('Secret(reference=(assistant("", call), assistant("done")))', "Secret()")
    )
    assert hub("run", "writes.py:Writes", "-m", "mock/say?text=done", *PLAY[2:]).code == 0
    said = hub("score", "run", "--env", "writes.py:Writes", "-o", "again", "-q").refused()
    assert "scores the world an episode leaves behind" in " ".join(said.split())


def test_an_agent_that_leaves_plain_files_alone_leaves_no_gap(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "writes.py").write_text(WORLD)
    script = "script=mkdir -p out/sub; echo 42 > out/sub/answer.txt"
    assert hub("run", "writes.py:Writes", *PLAY, "--set", script).code == 0
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    assert (rollout.reward, len(rollout.artifacts)) == (1.0, 1)
    assert not {"artifacts", UNKEPT} & set(rollout.gaps)


LEADS_AWAY = {
    "a link itself": "mkdir real; echo 42 > real/file; ln -s real out",
    "a dangling link": "ln -s nowhere out",
    "a link to a file": "echo 42 > real; ln -s real out",
}


@pytest.mark.parametrize("script", LEADS_AWAY.values(), ids=LEADS_AWAY)
def test_a_declared_link_is_not_followed_and_leaves_a_gap(hub: Hub, tmp_path: Path, script: str) -> None:
    (tmp_path / "writes.py").write_text(WORLD)
    assert hub("run", "writes.py:Writes", *PLAY, "--set", f"script={script}").code == 0
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    assert (rollout.reward, rollout.artifacts) == (0.0, ())
    assert UNKEPT in rollout.gaps
