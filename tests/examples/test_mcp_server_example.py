"""The folder examples/mcp_server is an environment as it stands."""

from pathlib import Path

import pytest

from tests.cli.conftest import hub_in

FOLDER = Path(__file__).parents[2] / "examples" / "mcp_server"


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), pytest.param("null", 0.0, marks=pytest.mark.soak)])
def test_it_is_played_by_its_folder(agent: str, reward: float, tmp_path: Path) -> None:
    done = hub_in(tmp_path)("run", FOLDER, "-a", agent, "--json", "-q")
    assert done.code == 0, done.err
    run = done.json
    assert (run["scored"], run["mean_reward"]) == (2, reward)
