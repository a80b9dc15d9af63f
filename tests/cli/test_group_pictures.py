"""A verdict on a group sees pictures and files of its members, wherever it is reached; what its judge saw is kept."""

import signal
from pathlib import Path

import pytest

from rollouthub.messages import Media, digest_of, media_of
from rollouthub.store import open_run

from .conftest import Hub, started

WORLD = '''
import os

from rollouthub import Environment, EnvironmentConfig, Message, ModelRequest, Public, Score, Secret, Task, Text, picture
from rollouthub.messages import media_of
from rollouthub.score import CollectedArtifacts, KeptArtifact

FIRST, SECOND, JUDGED = (b"\\x89PNG\\r\\n\\x1a\\n" + name for name in (b"first", b"second", b"judged"))

class Pictured(Environment[EnvironmentConfig]):
    """Two seats, a picture each, and a file that both leave."""
    seats = ("a", "b")
    submits = False

    @classmethod
    def roles(cls, config):
        return ("judge",)

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Look."), Secret())

    def messages(self, seat):
        shown = picture(FIRST if seat == "a" else SECOND)
        return [Message(role="user", content=(Text(text="Look:"), shown))]

    async def collect_artifacts(self, max_bytes):
        return CollectedArtifacts(kept=[KeptArtifact.of("left.txt", b"left")])

    async def verify_group(self, submissions):
        if os.path.exists("kill"):
            os.kill(os.getpid(), 9)
        said = [each.transcript for each in submissions]
        turns = [[message for turn in each.turns for message in turn.messages] for each in submissions]
        asked = Message(role="user", content=(Text(text="Good?"), picture(JUDGED), *media_of(turns[0])))
        await self.models["judge"].generate(ModelRequest(messages=[asked]))
        return [
            Score(reward=float(
                [part.read() for part in media_of(one)] == [FIRST]
                and {part.read() for part in media_of(other)} == {FIRST, SECOND}
                and each.artifact_bytes("left.txt") == b"left"
            ))
            for each, one, other in zip(submissions, said, turns)
        ]
'''  # fmt: skip
FIRST, SECOND, JUDGED = (b"\x89PNG\r\n\x1a\n" + name for name in (b"first", b"second", b"judged"))
PLAY = ("-m", "mock/say?text=dark", "--role", "judge=mock/say?text=yes", "--repeats", "2", "-o", "run", "-q")


def written(folder: Path) -> str:
    (folder / "pictured.py").write_text(WORLD)
    return "pictured.py"


def need_all_pictures(run: Path) -> None:
    with open_run(run) as reader:
        rollouts = list(reader.rollouts())
        kept = {name: reader.media(digest_of(name)) for name in (FIRST, SECOND, JUDGED)}
    assert [rollout.reward for rollout in rollouts] == [1.0, 1.0], [rollout.faults for rollout in rollouts]
    assert all(name == content for name, content in kept.items())
    (call,) = (call for rollout in rollouts if rollout.score for call in rollout.score.judge_calls)
    assert media_of(call.messages) == [Media.of(JUDGED), Media.of(FIRST), Media.of(SECOND)]


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_a_verdict_on_a_group_sees_every_seats_pictures(hub: Hub, tmp_path: Path, where: tuple[str, ...]) -> None:
    done = hub("run", written(tmp_path), *where, *PLAY)
    assert done.code == 0, done.err
    need_all_pictures(tmp_path / "run")


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_a_verdict_that_is_given_again_sees_what_was_kept(hub: Hub, tmp_path: Path, where: tuple[str, ...]) -> None:
    name = written(tmp_path)
    assert hub("run", name, *PLAY).code == 0
    done = hub("score", "run", "--env", name, *where, "-o", "again", "-q")
    assert done.code == 0, done.err
    need_all_pictures(tmp_path / "again")


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_a_verdict_of_a_resumed_run_sees_the_pictures_that_were_played_before(
    hub: Hub, tmp_path: Path, where: tuple[str, ...]
) -> None:
    name = written(tmp_path)
    (tmp_path / "kill").touch()
    with started(tmp_path, "run", name, *PLAY) as killed:
        assert killed.wait(120) == -signal.SIGKILL
    (tmp_path / "kill").unlink()
    done = hub("run", name, *where, *PLAY, "--resume")
    assert done.code == 0, done.err
    need_all_pictures(tmp_path / "run")
