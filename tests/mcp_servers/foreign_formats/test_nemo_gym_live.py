"""NeMo Gym itself: a server of the published wheel, imported, played and attacked. Needs a package index."""

from pathlib import Path

import pytest

from rollouthub import BadRow, Deadlines, Submission
from rollouthub.errors import UsageError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import assistant, user
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, Written, find_importer

pytestmark = pytest.mark.live
SOURCE = ImportSource("nemo-gym==0.7.0", "requirement")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The counter of its examples, whose verifier looks at the session."""
    out = tmp_path_factory.mktemp("nemo") / "counter"
    try:
        (file,) = find_importer("nemo_gym").write(SOURCE, ["example_session_state_mgmt"], {}, out, Identity())
    except UsageError as error:
        pytest.skip(f"NeMo Gym cannot be had here: {error}")
    return file


def test_every_server_of_the_wheel_is_listed_with_a_reason_where_it_is_refused(package: Path) -> None:
    found = find_importer("nemo_gym").look(SOURCE, {})
    assert len(found) == 143
    assert sum(each.facts["tasks"] != "0" for each in found) >= 100
    assert sum(each.runs for each in found) >= 80


async def test_a_session_is_the_episodes_own_and_the_verifier_sees_it(package: Path) -> None:
    found = find_environment(str(package))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        cards = [card async for card in host.tasks("example", 0)]
        card = cards[0]
        assert not isinstance(card, BadRow)
        rewards: list[float] = []
        for calls in (True, False):
            async with (
                host.open(card, seed=0, deadlines=Deadlines()) as episode,
                host.open(card, seed=0, deadlines=Deadlines()) as other,
            ):
                seat = episode.seats["agent"]
                assert (await seat.call_tool("verify", {})).is_error
                assert (await seat.call_tool("seed_session", {"initial_count": 99})).is_error
                before = str(await seat.call_tool("get_counter_value", {}))
                await other.seats["agent"].call_tool("increment_counter", {"count": 5})
                assert str(await seat.call_tool("get_counter_value", {})) == before
                if calls:
                    assert not (await seat.call_tool("increment_counter", {"count": 3})).is_error
                score = await episode.verify(Submission(transcript=(user("?"), assistant("done"))))
                rewards.append(score.reward)
        assert rewards == [1.0, 0.0]


def test_a_server_whose_requirements_cannot_be_met_is_left_out_and_named(package: Path, tmp_path: Path) -> None:
    chosen = ["example_single_tool_call", "evalplus"]
    written = find_importer("nemo_gym").write(SOURCE, chosen, {}, tmp_path / "two", Identity())
    assert isinstance(written, Written)
    assert [path.parent.name for path in written] == ["example_single_tool_call"]
    assert [(each.id, "wget" in each.reasons[0]) for each in written.left_out] == [("evalplus", True)]
