"""ORS itself: a server on its published release, held to ORS's own client."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Deadlines, Stop, Submission
from rollouthub.errors import ConfigError, UsageError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from tests.foreign.ors import SET, own_loop, through_hub

pytestmark = pytest.mark.live
ENVIRONMENTS = ("sums", "guess", "count")
CALLS: list[tuple[list[Any], float]] = [
    ([["say", {"answer": "2"}]], 1.0),
    ([["hint", {}], ["say", {"answer": "3"}]], 0.75),
    ([["hint", {}], ["hint", {}], ["say", {"answer": "3"}]], -0.5),
    ([["hint", {}]], -0.25),
]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The import of a server on ORS's own classes."""
    folder = tmp_path_factory.mktemp("ors") / "out"
    try:
        find_importer("ors").write(ImportSource.of(str(SET)), ENVIRONMENTS, {}, folder, Identity())
    except (UsageError, ConfigError) as error:
        if "index" in str(error) or "reached" in str(error):
            pytest.skip(f"ORS cannot be had here: {error}")
        raise
    return folder


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_rewards_are_those_of_ors_s_own_client(name: str, packages: Path) -> None:
    played = own_loop(packages / name / "data", [name], 1)
    rewards, _ = anyio.run(through_hub, packages / name / f"{name}_ors.py", played)
    assert rewards == [sum(line["rewards"]) for line in played]
    assert len(set(rewards)) > 3


async def test_nothing_but_the_answers_of_tools_is_shown(packages: Path) -> None:
    found, seen = find_environment(str(packages / "sums" / "sums_ors.py")), list[str]()
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        for number, (calls, reward) in enumerate(CALLS):
            card = await host.find_task("test", f"sums/test/{number}", 0)
            async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
                seat = episode.seats["agent"]
                assert (await seat.call_tool("create", {"env_name": "sums", "split": "test", "index": 0})).is_error
                seen += [str(await seat.call_tool(name, given)) for name, given in calls]
                score = await episode.conclude(Submission(stop=Stop.FINISHED))
                assert score is not None, episode.faults
                assert score.reward == reward
    assert not any("reward" in text or "'answer'" in text for text in seen)
