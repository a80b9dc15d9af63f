"""The SDK hud itself: environments played, their rewards those of its own protocol. Needs a package index."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Deadlines, Score, Submission
from rollouthub.errors import UsageError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from tests.foreign.hud import SET, compared

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environments that can be played, imported."""
    root = tmp_path_factory.mktemp("hud")
    importer, place = find_importer("hud"), ImportSource.of(str(SET))
    try:
        found = {each.id: each for each in importer.look(place, {})}
    except UsageError as error:
        if "choosing its dependencies" in str(error):
            pytest.skip(f"hud cannot be had here: {error}")
        raise
    assert {name: each.runs for name, each in found.items()} == {"notes": True, "shell": False, "words": True}
    assert found["shell"].reasons[0] == "capability 'shell': ssh/2, which agents here lack"
    importer.write(place, ["notes", "words"], {}, root / "out", Identity())
    return root / "out"


async def said(file: Path, name: str, words: str, *notes: str) -> tuple[Any, Score]:
    """An answer to one task after some notes: what was shown before, and its score."""
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        card = await host.find_task("test", name, 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            seat = episode.seats["agent"]
            for note in notes:
                assert not (await seat.call_tool("note", {"word": note})).is_error
            assert (await seat.call_tool("grade", {"answer": "x"})).is_error
            assert await seat.reply([assistant(words)]) is None
            shown = [message.text for message in seat.messages]
            assert "secret" not in repr((shown, seat.tools, card.public))
            return shown, await episode.verify(Submission(transcript=(*seat.messages, assistant(words))))


def test_rewards_are_those_of_its_own_protocol(packages: Path) -> None:
    lines = compared(packages)
    assert [line.hub for line in lines] == [line.own for line in lines]
    assert {line.hub for line in lines} == {0.0, 0.5, 1.0}


async def test_parts_of_a_grade_are_metrics(packages: Path) -> None:
    _, score = await said(packages / "words" / "words_env.py", "owl", "owl-secret")
    assert (score.reward, score.metrics["right"]) == (0.5, 1.0)


async def test_tools_are_called_at_its_own_server(packages: Path) -> None:
    file = packages / "notes" / "notes_env.py"
    shown, score = await said(file, "keep", "Done.", "plum")
    assert (shown, score.reward) == (["Note the word plum."], 1.0)
    assert (await said(file, "keep", "plum", "pear"))[1].reward == 0.0


def test_what_cannot_be_installed_says_so(tmp_path: Path) -> None:
    shutil.copy(SET / "env.py", tmp_path)
    with pytest.raises(UsageError, match="no-such-distribution-of-anybody"):
        find_importer("hud").look(
            ImportSource.of(str(tmp_path)), {"requirements": ["no-such-distribution-of-anybody==1.0"]}
        )
