"""Services of environments with several seats: each has its own address, and what cannot be offered is refused."""

from pathlib import Path
from typing import Any

import pytest

from rollouthub import Outcome
from rollouthub.errors import ConfigError, UsageError
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
from tests.gateway.sessions.front import call, front

GIVING = """
import anyio
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task, tool

class Giving(Environment[EnvironmentConfig]):
    \"\"\"One gives, the other takes.\"\"\"
    seats = ("giver", "taker")

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Hand it over."), Secret())

    async def setup(self):
        self.thing = ""

    @tool(seats=("giver",))
    async def give(self, thing: str) -> str:
        \"\"\"Give something.\"\"\"
        self.thing = thing
        return "given"

    @tool(seats=("taker",))
    async def take(self) -> str:
        \"\"\"Take it.\"\"\"
        return self.thing

    def verify(self, submission):
        return Score(reward=float(submission.answer == "pear"))
"""


async def test_each_seat_has_a_url_and_a_token_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "giving.py").write_text(GIVING)
    async with front(tmp_path / "run", environments=(str(tmp_path / "giving.py"),)) as hub:
        visit = await hub.open(EpisodeRequest())
        giver, taker = visit.ticket().seats
        assert giver.agent_url != taker.agent_url
        assert giver.api_key != taker.api_key
        assert "unknown tool" in await call(giver.agent_url, "take")
        assert "unknown tool" in await call(taker.agent_url, "give", thing="pear")
        assert await call(giver.agent_url, "give", thing="pear") == "given"
        assert await call(taker.agent_url, "take") == "pear"
        await call(taker.agent_url, "submit", answer="pear")
        rollout = await visit.over()
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 1.0)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (
            {"environments": ("board_game",), "seats": {"first": "mock/echo", "second": "mock/echo"}},
            "every seat of board_game has a player",
        ),
        ({"environments": ("board_game",), "seats": {"third": "mock/echo"}}, "third"),
    ],
)
async def test_what_cannot_be_offered_at_once_is_refused(request_: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        async with front(tmp_path / "run", **request_):
            pass


async def test_turns_that_a_client_has_no_tool_to_wait_for_are_refused(tmp_path: Path) -> None:
    (tmp_path / "giving.py").write_text(GIVING.replace('"taker")\n\n', '"taker")\n    takes_turns = True\n\n', 1))
    with pytest.raises(ConfigError, match="offers no tool 'listen' to wait for them"):
        async with front(tmp_path / "run", environments=(str(tmp_path / "giving.py"),)):
            pass
